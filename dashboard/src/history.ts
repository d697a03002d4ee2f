import type { Outcome, RefusalCause, State } from './contract.ts';

/** What counters said at one moment. */
interface Sample {
  readonly atMs: number;
  readonly admitted: number;
  readonly bytes: number;
  readonly ended: Readonly<Record<Outcome, number>>;
  readonly refused: Readonly<Record<RefusalCause, number>>;
}

/** How much counters rose, and in which time: at most a minute, less while the page is young. */
export interface Recent {
  readonly overMs: number;
  readonly ended: Readonly<Record<Outcome, number>>;
  readonly refused: Readonly<Record<RefusalCause, number>>;
  /** Per second, over the last seconds. */
  readonly admittedPerSecond: number;
  readonly bytesPerSecond: number;
}

const MINUTE_MS = 60_000;
/** Rates are over this time: shorter ones jump. */
const RATE_MS = 5000;
/** One each second for a minute, and the one at its beginning; more often than that nobody tells. */
const SAMPLES_MAX = 64;

/** Counters of the last minute, so that a page can say what is new in them. */
export class History {
  #samples: Sample[] = [];
  #startedAtMs: number | undefined;

  /** Takes what the process says now. A process that has started anew counts from 0: what was before is dropped. */
  take({ atMs, startedAtMs, budget, deliveries }: State): void {
    const last = this.#samples.at(-1);
    if (startedAtMs !== this.#startedAtMs || (last !== undefined && atMs < last.atMs)) this.#samples = [];
    this.#startedAtMs = startedAtMs;
    const { ended, bytes } = deliveries;
    this.#samples.push({ atMs, admitted: budget.admitted, bytes, ended, refused: budget.refused });
    // one at or before the beginning of the minute is kept, to count from
    while ((this.#samples[1]?.atMs ?? atMs) <= atMs - MINUTE_MS || this.#samples.length > SAMPLES_MAX)
      this.#samples.shift();
  }

  /** What happened in the last minute. Undefined before anything was taken. */
  recent(): Recent | undefined {
    const now = this.#samples.at(-1);
    const first = this.#samples[0];
    if (now === undefined || first === undefined) return undefined;
    const before = this.#samples.findLast(({ atMs }) => atMs <= now.atMs - RATE_MS) ?? first;
    const seconds = Math.max(1, now.atMs - before.atMs) / 1000;
    return {
      overMs: now.atMs - first.atMs,
      ended: rise(now.ended, first.ended),
      refused: rise(now.refused, first.refused),
      admittedPerSecond: before === now ? 0 : (now.admitted - before.admitted) / seconds,
      bytesPerSecond: before === now ? 0 : Math.max(0, now.bytes - before.bytes) / seconds,
    };
  }
}

function rise<Key extends string>(
  now: Readonly<Record<Key, number>>,
  before: Readonly<Record<Key, number>>,
): Record<Key, number> {
  const names = Object.keys(now) as Key[];
  return Object.fromEntries(names.map((name) => [name, now[name] - before[name]])) as Record<Key, number>;
}
