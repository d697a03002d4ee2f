import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import type { Clock, Timer } from '../kernel/index.ts';

/** How often the loop is looked at. A timer as rare as this costs nothing that could be measured. */
const RESOLUTION_MS = 20;

/**
 * How late the event loop was since it was last reset.
 *
 * Node's histogram holds the time between two looks. The first look after a reset has none before it, so that whatever holds
 * the loop up until then is not in it: that is measured by a timer of our own. And a reset may come between a long wait and
 * the look that would have seen its end: whoever resets at set times says how late that was.
 *
 *   reset ├──────────── blocked ────────────┤ first look    ├ 20 ms ┤ second look
 *         ├ 20 ms ┤      first late by ...  ┤                in the histogram
 */
export class LoopWatch {
  readonly #clock: Clock;
  readonly #histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  #timer: Timer | undefined;
  #latestMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#histogram.enable();
    this.#lookFirst();
  }

  get maxMs(): number {
    // before the histogram has anything its largest is none, and no number of milliseconds
    const seenMs = this.#histogram.count > 0 ? delayOf(this.#histogram.max) : 0;
    return Math.max(seenMs, this.#latestMs);
  }

  percentileMs(percentile: number): number {
    return this.#histogram.count > 0 ? delayOf(this.#histogram.percentile(percentile)) : 0;
  }

  /** Something came so late. */
  saw(lateMs: number): void {
    this.#latestMs = Math.max(this.#latestMs, lateMs);
  }

  reset(): void {
    this.#histogram.reset();
    this.#latestMs = 0;
    this.#lookFirst();
  }

  close(): void {
    this.#timer?.cancel();
    this.#histogram.disable();
  }

  #lookFirst(): void {
    this.#timer?.cancel();
    const dueMs = this.#clock.now() + RESOLUTION_MS;
    this.#timer = this.#clock.after(RESOLUTION_MS, () => this.saw(this.#clock.now() - dueMs));
  }
}

/** What is beyond the interval is the delay. */
function delayOf(nanoseconds: number): number {
  return Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS);
}
