import type { Slices } from '../kernel/index.ts';

/**
 * Slices for loops of tiny steps. Looking at the clock takes a twentieth of a microsecond, which some steps do not take
 * much longer than, so it is looked at once in so many steps.
 *
 * @example
 * const pace = new Pace(new Slices(), 64);
 * for (const key of ['a', 'b']) {
 *   console.log(key); // a, b
 *   if (pace.due()) await pace.pause();
 * }
 */
export class Pace {
  readonly #slices: Slices;
  readonly #stepsPerLook: number;
  #steps = 0;

  /** @param stepsPerLook - so many steps must take far less than a slice */
  constructor(slices: Slices, stepsPerLook: number) {
    this.#slices = slices;
    this.#stepsPerLook = stepsPerLook;
  }

  /** Counts a step, and says whether to pause after it. */
  due(): boolean {
    this.#steps++;
    return this.#steps % this.#stepsPerLook === 0 && this.#slices.due();
  }

  pause(): Promise<void> {
    return this.#slices.pause();
  }
}
