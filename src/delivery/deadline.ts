/** How a reader is doing. */
export type Verdict = 'fine' | 'stalled' | 'capped';

/** What a progress deadline is made of. */
export interface ProgressDeadlineOptions {
  /** The slowest steady reader that is served, in bytes on the wire per second. */
  readonly floorBytesPerSecond: number;
  /** How far a reader may fall behind the floor, in milliseconds. Covers what the kernel hides: it reports in bursts. */
  readonly slackMs: number;
  /** How far ahead of the floor counts, in milliseconds; the rest of a fast reader's lead is forgotten. */
  readonly creditMs: number;
  /** The most time a reader gets for all of it. Undefined: the larger of two minutes and twice what the floor rate needs. */
  readonly capMs?: number | undefined;
  /** Size on the wire. Undefined when it is not known: what was written so far stands for it. */
  readonly bytes?: number | undefined;
}

/** Short of this no delivery is capped by default. */
const CAP_MS_MIN = 120_000;
/** By default a reader gets this many times what the floor rate needs. */
const CAP_FACTOR = 2;

/**
 * The deadline of one delivery: a leaky bucket of the reader's time. Pure; the time is an argument.
 *
 *      behindMs
 *   slackMs ┤- - - - - - - - - - - - -  stalled, above it (plus the floor time of the write that is out)
 *           │      /|      /|
 *         0 ┤─────/ |─────/ |──  rises 1 ms per ms while a write waits for the reader
 *           │    /  |    /  |    falls by bytes / floor when the write is taken
 * -creditMs ┤- -/- -|- -/- -└──  never falls lower: a fast start buys at most creditMs
 *
 * Time in which nothing waits for the reader (encoding, our own queue, waiting for a place) passes unseen.
 *
 * So a reader is never cut for stalling if in every stretch of its time it takes at least
 * `floor × (stretch − slack)`; and whatever it took before, one that stops is cut at most
 * `slack + credit + write / floor` later. A drip at the rate `d` below the floor is cut after about
 * `(slack + credit) / (1 − d / floor)`, however regular it is.
 *
 * @example
 * const deadline = new ProgressDeadline({ floorBytesPerSecond: 65_536, slackMs: 10_000, creditMs: 5_000 });
 * deadline.wrote(65_536, 0);
 * // a second for the write, ten of slack
 * console.log(deadline.verdict(11_000)); // fine
 * console.log(deadline.verdict(11_001)); // stalled
 */
export class ProgressDeadline {
  readonly #bytesPerMs: number;
  readonly #slackMs: number;
  readonly #creditMs: number;
  readonly #capMs: number | undefined;
  readonly #bytes: number | undefined;
  #behindMs = 0;
  #chargedMs = 0;
  #written = 0;
  #outstanding = 0;
  #wroteAtMs: number | undefined;

  constructor(options: ProgressDeadlineOptions) {
    this.#bytesPerMs = options.floorBytesPerSecond / 1000;
    this.#slackMs = options.slackMs;
    this.#creditMs = options.creditMs;
    this.#capMs = options.capMs;
    this.#bytes = options.bytes;
  }

  /** A write went out: from now on the reader's time runs. */
  wrote(bytes: number, nowMs: number): void {
    this.#outstanding = bytes;
    this.#written += bytes;
    this.#wroteAtMs = nowMs;
  }

  /** The write was taken, all of it: the reader's time stands still until the next. */
  took(nowMs: number): void {
    const waitedMs = this.waitedMs(nowMs);
    this.#chargedMs += waitedMs;
    this.#behindMs = Math.max(-this.#creditMs, this.#behindMs + waitedMs - this.#outstanding / this.#bytesPerMs);
    this.#outstanding = 0;
    this.#wroteAtMs = undefined;
  }

  /** For how long the write that is out has waited for the reader; 0 when none is. */
  waitedMs(nowMs: number): number {
    return this.#wroteAtMs === undefined ? 0 : nowMs - this.#wroteAtMs;
  }

  /** Always fine while no write is out: whatever it owes, the next move is ours. */
  verdict(nowMs: number): Verdict {
    if (this.#wroteAtMs === undefined) return 'fine';
    const waitedMs = this.waitedMs(nowMs);
    if (this.#chargedMs + waitedMs > this.#capOf()) return 'capped';
    const behindMs = this.#behindMs + waitedMs - this.#outstanding / this.#bytesPerMs;
    return behindMs > this.#slackMs ? 'stalled' : 'fine';
  }

  #capOf(): number {
    if (this.#capMs !== undefined) return this.#capMs;
    return Math.max(CAP_MS_MIN, (CAP_FACTOR * (this.#bytes ?? this.#written)) / this.#bytesPerMs);
  }
}
