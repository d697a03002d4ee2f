import type { LimiterStats } from '../admission/index.ts';
import type { DeliveriesStats } from '../delivery/index.ts';
import type { Clock, Timer } from '../kernel/index.ts';
import { LoopWatch } from './loop-watch.ts';
import { type Bucket, type Sample, type Timeline, TimelineRing } from './timeline.ts';

/** Short enough to see a wave of a herd, and four times in a bucket. */
const SAMPLE_MS = 500;

/** What a timeline is made of. */
export interface TimelineParts {
  readonly clock: Clock;
  readonly wallNow: () => number;
  readonly admission: () => LimiterStats;
  readonly deliveries: () => DeliveriesStats;
  /** Open streams. */
  readonly streams: () => number;
  /** Resident memory; default this process's. */
  readonly rssBytes?: () => number;
}

/**
 * Looks at the budget and the deliveries twice a second, and keeps the last hour: all that is done while nobody watches.
 *
 * @example
 * import { Limiter } from 'headgate/admission';
 * import { Deliveries } from 'headgate/delivery';
 *
 * const limiter = new Limiter({ name: 'copies', maxConcurrent: 8, maxQueued: 0, waitMsMax: 1000 });
 * const deliveries = new Deliveries();
 * const clock = new FakeClock();
 * const recorder = new TimelineRecorder({
 *   clock, wallNow: Date.now, admission: () => limiter.stats(), deliveries: () => deliveries.stats(), streams: () => 0,
 * });
 * limiter.tryAcquire();
 * clock.advance(2000);
 * console.log(recorder.timeline().held); // [ 1 ]
 * recorder.close();
 */
export class TimelineRecorder {
  readonly #parts: TimelineParts;
  readonly #loop: LoopWatch;
  readonly #ring: TimelineRing;
  #timer: Timer | undefined;
  #onBucket: ((bucket: Bucket) => void) | undefined;

  constructor(parts: TimelineParts) {
    this.#parts = parts;
    this.#loop = new LoopWatch(parts.clock);
    this.#ring = new TimelineRing(this.#sample(), parts.clock.now());
    this.#sampleLater();
  }

  timeline(): Timeline {
    return this.#ring.timeline();
  }

  /** The one listener that is told each bucket that is closed. */
  onBucket(listener: (bucket: Bucket) => void): void {
    this.#onBucket = listener;
  }

  close(): void {
    this.#timer?.cancel();
    this.#loop.close();
  }

  #sampleLater(): void {
    const { clock, wallNow } = this.#parts;
    const dueMs = clock.now() + SAMPLE_MS;
    this.#timer = clock.after(SAMPLE_MS, () => {
      this.#sampleLater();
      const nowMs = clock.now();
      this.#loop.saw(nowMs - dueMs);
      if (!this.#ring.add(this.#sample(), nowMs, wallNow())) return;
      this.#loop.reset();
      const bucket = this.#ring.last();
      if (bucket !== undefined) this.#onBucket?.(bucket);
    });
  }

  #sample(): Sample {
    const { admission, deliveries, streams, rssBytes = () => process.memoryUsage.rss() } = this.#parts;
    const { held, waiting, waitingOpen, parked, admitted, refused } = admission();
    const { ended, bytes } = deliveries();
    return {
      held,
      waiting: waiting + waitingOpen,
      parked,
      admitted,
      completed: ended.completed,
      cut: ended.stalled + ended.capped + ended.error + ended.shutdown,
      gone: ended.client_gone,
      // whoever left the queue was not answered
      refused: refused.full + refused.timeout + refused.closed,
      bytes,
      streams: streams(),
      loopMaxMs: this.#loop.maxMs,
      rssBytes: rssBytes(),
    };
  }
}
