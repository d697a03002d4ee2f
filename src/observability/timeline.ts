/** One bucket of a timeline. Gauges are the largest that was seen in it, the others what happened in it. */
export interface Bucket {
  /** Unix time at which it ended, in milliseconds. */
  readonly atMs: number;
  /** Slots held. */
  readonly held: number;
  /** Callers in the queue, and open streams that wait for a slot. */
  readonly waiting: number;
  readonly parked: number;
  readonly admitted: number;
  /** Deliveries that were sent whole. */
  readonly completed: number;
  /** Deliveries that were ended by us: stalled, over the cap, a fault of ours, a stop. */
  readonly cut: number;
  /** Deliveries whose client left. */
  readonly gone: number;
  /** Requests answered 503 for want of a slot. */
  readonly refused: number;
  /** Bytes of deliveries that clients took. */
  readonly bytes: number;
  /** Open streams. */
  readonly streams: number;
  /** The longest that the event loop was late. */
  readonly loopMaxMs: number;
  readonly rssBytes: number;
}

/** The last buckets, oldest first: one array for each member of {@link Bucket}, all of one length. */
export interface Timeline extends Readonly<Record<keyof Bucket, readonly number[]>> {
  /** Time that a bucket covers; one in which the process stood still covers more. */
  readonly everyMs: number;
}

/** What is seen at one moment. Counters are totals since the start. */
export type Sample = Readonly<Record<Exclude<keyof Bucket, 'atMs'>, number>>;

/** An hour of 2 s each. */
const EVERY_MS = 2000;
const BUCKETS_MAX = 1800;

/** The largest of a bucket is kept. */
const GAUGES = ['held', 'waiting', 'parked', 'streams', 'loopMaxMs', 'rssBytes'] as const;
/** The difference to the bucket before is kept. */
const COUNTERS = ['admitted', 'completed', 'cut', 'gone', 'refused', 'bytes'] as const;
const MEMBERS = ['atMs', ...GAUGES, ...COUNTERS] as const;

/** A number for each member of a sample; one object, written in place. */
type Numbers = Record<keyof Sample, number>;

/**
 * What happened lately, in buckets of equal length: a ring of numbers that is allocated once.
 *
 *   atMs │ 12:02 │ 12:04 │ 11:58 │ 12:00 │
 *   held │     9 │     4 │     0 │     7 │      oldest at `next` once the ring is full
 *                        ▲ next
 */
export class TimelineRing {
  readonly #everyMs: number;
  readonly #bucketsMax: number;
  readonly #columns: Readonly<Record<keyof Bucket, Float64Array>>;
  /** Buckets closed so far. */
  #closed = 0;
  /** When the open bucket ends, by the monotonic clock. */
  #untilMs: number;
  readonly #largest: Numbers = zeros();
  /** Counters at the end of the bucket before. */
  readonly #before: Numbers;

  /**
   * @param first - what counters stand at now.
   * @param nowMs - by a clock that never goes back.
   */
  constructor(first: Sample, nowMs: number, size: { readonly everyMs?: number; readonly bucketsMax?: number } = {}) {
    const { everyMs = EVERY_MS, bucketsMax = BUCKETS_MAX } = size;
    this.#everyMs = everyMs;
    this.#bucketsMax = bucketsMax;
    this.#untilMs = nowMs + everyMs;
    this.#before = { ...first };
    this.#columns = Object.fromEntries(MEMBERS.map((member) => [member, new Float64Array(bucketsMax)])) as Record<
      keyof Bucket,
      Float64Array
    >;
  }

  /**
   * Takes what is seen now. Whoever comes late, or stands still for long, closes one bucket and no empty ones: its end says
   * how long it was.
   *
   * @returns whether a bucket was closed.
   */
  add(sample: Sample, nowMs: number, atMs: number): boolean {
    for (const gauge of GAUGES) this.#largest[gauge] = Math.max(this.#largest[gauge], sample[gauge]);
    if (nowMs < this.#untilMs) return false;
    this.#close(sample, atMs);
    // on the grid that the first bucket began
    this.#untilMs += this.#everyMs * (Math.floor((nowMs - this.#untilMs) / this.#everyMs) + 1);
    return true;
  }

  /** The bucket that was closed last; undefined before the first. */
  last(): Bucket | undefined {
    if (this.#closed === 0) return undefined;
    const at = (this.#closed - 1) % this.#bucketsMax;
    return Object.fromEntries(MEMBERS.map((member) => [member, this.#columns[member][at]])) as Record<
      keyof Bucket,
      number
    >;
  }

  timeline(): Timeline {
    const next = this.#closed % this.#bucketsMax;
    const inOrder = (column: Float64Array): number[] =>
      this.#closed < this.#bucketsMax
        ? [...column.subarray(0, this.#closed)]
        : [...column.subarray(next), ...column.subarray(0, next)];
    const columns = Object.fromEntries(MEMBERS.map((member) => [member, inOrder(this.#columns[member])]));
    return { everyMs: this.#everyMs, ...(columns as Record<keyof Bucket, number[]>) };
  }

  #close(sample: Sample, atMs: number): void {
    const at = this.#closed % this.#bucketsMax;
    this.#columns.atMs[at] = atMs;
    for (const gauge of GAUGES) {
      this.#columns[gauge][at] = this.#largest[gauge];
      this.#largest[gauge] = 0;
    }
    for (const counter of COUNTERS) {
      this.#columns[counter][at] = sample[counter] - this.#before[counter];
      this.#before[counter] = sample[counter];
    }
    this.#closed++;
  }
}

function zeros(): Numbers {
  return Object.fromEntries([...GAUGES, ...COUNTERS].map((member) => [member, 0])) as Numbers;
}
