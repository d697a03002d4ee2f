/**
 * How long a decision that a file lists, and says no more of, lasts: to the end of the lease that runs now. Leases begin
 * twice in a duration, at moments that are the same for every process and after every restart, so that what is read
 * again within one of them has not changed.
 *
 *     duration 4h    00:00       02:00       04:00       06:00
 *                    ├─── begun here, to 04:00 ┤
 *                                ├─── begun here, to 06:00 ┤
 *
 * So it lasts for half of its duration at least, and for all of it at most, and is renewed as long as it is listed.
 */
export class Lease {
  readonly #stepMs: number;
  #untilMs = 0;

  constructor(durationMs: number) {
    this.#stepMs = durationMs / 2;
  }

  /** The end of the lease that runs at this moment, Unix time in milliseconds. It goes back only when the clock does by far. */
  untilMs(nowMs: number): number {
    const untilMs = (Math.floor(nowMs / this.#stepMs) + 2) * this.#stepMs;
    const isNear = this.#untilMs - nowMs <= 3 * this.#stepMs;
    if (untilMs > this.#untilMs || !isNear) this.#untilMs = untilMs;
    return this.#untilMs;
  }

  /** How long until the next lease begins, in milliseconds. */
  restMs(nowMs: number): number {
    return (Math.floor(nowMs / this.#stepMs) + 1) * this.#stepMs - nowMs;
  }
}
