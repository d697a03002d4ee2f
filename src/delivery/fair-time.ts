import type { Clock } from '../kernel/index.ts';

/**
 * Time as a reader may be charged for it: it stands still while this process is blocked.
 *
 * A tick that comes late says that the loop was busy; callbacks of writes that were taken long ago may still be waiting
 * behind it. So between two ticks no more than `stepMsMax` passes, however long it really was.
 *
 * @example
 * const clock = new FakeClock();
 * const time = new FairTime(clock, 500);
 * clock.advance(30_000); // the loop was blocked
 * time.tick();
 * console.log(time.now()); // 500
 */
export class FairTime {
  readonly #clock: Clock;
  readonly #stepMsMax: number;
  #fairMs = 0;
  #tickedAtMs: number;

  /** @param stepMsMax - more than the usual distance of ticks, or every tick loses time. */
  constructor(clock: Clock, stepMsMax: number) {
    this.#clock = clock;
    this.#stepMsMax = stepMsMax;
    this.#tickedAtMs = clock.now();
  }

  /** Milliseconds since an arbitrary origin; never goes back. */
  now(): number {
    return this.#fairMs + Math.min(this.#clock.now() - this.#tickedAtMs, this.#stepMsMax);
  }

  /** The loop has turned. */
  tick(): void {
    this.#fairMs = this.now();
    this.#tickedAtMs = this.#clock.now();
  }
}
