/**
 * Work in slices: how a long job leaves the event loop free.
 *
 * A job calls `due()` after each small step and awaits `pause()` when it says so; everything that waits on the
 * loop (sockets, timers, other jobs) then has its turn.
 *
 * @example
 * const slices = new Slices(5);
 * let sum = 0;
 * for (let item = 0; item < 1000; item++) {
 *   sum += item;
 *   if (slices.due()) await slices.pause();
 * }
 * console.log(sum); // 499500
 */
export class Slices {
  readonly #sliceMs: number;
  #beganMs: number;

  /** @param sliceMs - how long one slice may last, in milliseconds. */
  constructor(sliceMs = 4) {
    this.#sliceMs = sliceMs;
    this.#beganMs = performance.now();
  }

  /** Whether this slice has used up its time. */
  due(): boolean {
    return performance.now() - this.#beganMs >= this.#sliceMs;
  }

  /** Lets the event loop turn once, then begins the next slice. */
  async pause(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.#beganMs = performance.now();
  }
}
