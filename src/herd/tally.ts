import type { Copy } from './content.ts';
import { Timeline } from './timeline.ts';

/** How an attempt ended that was not refused by status and brought no whole copy. */
export type Ending =
  /** It had begun, and the connection was closed before all had come. */
  | 'cut'
  /** The connection was closed before an answer began. */
  | 'unanswered'
  /** The client gave up: its SDK waits no longer. */
  | 'timeout'
  /** No connection could be made. */
  | 'unreachable'
  /** What came is no answer of the protocol. */
  | 'broken';

/** Different values of what servers and systems say are counted apart up to here; one more counts the rest. */
const NAMES_MAX = 64;

/** Counts by name. */
export class Counts {
  readonly #counts = new Map<string, number>();

  add(name: string): void {
    const key = this.#counts.has(name) || this.#counts.size < NAMES_MAX ? name : 'other';
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
  }

  get total(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** The counts, the largest first. */
  report(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#counts].toSorted(([, a], [, b]) => b - a));
  }
}

/** What happened to all clients together. */
export class Tally {
  readonly #beganMs: number;
  readonly timeline: Timeline = new Timeline();
  readonly refused: Counts = new Counts();
  readonly retryAfter: Counts = new Counts();
  readonly failures: Counts = new Counts();
  readonly copies: Record<Copy, number> = { full: 0, changes: 0, current: 0 };
  readonly endings: Record<Ending, number> = { cut: 0, unanswered: 0, timeout: 0, unreachable: 0, broken: 0 };
  attempts = 0;
  /** Streams that were closed after everything had come. */
  streamsEnded = 0;
  /** Changes on open streams. */
  changes = 0;
  bytes = 0;

  constructor(beganMs: number) {
    this.#beganMs = beganMs;
  }

  arrived(nowMs: number): void {
    this.timeline.add('arrived', nowMs - this.#beganMs);
  }

  read(bytes: number, nowMs: number): void {
    this.bytes += bytes;
    this.timeline.add('bytes', nowMs - this.#beganMs, bytes);
  }

  answered(copy: Copy): void {
    this.copies[copy]++;
  }

  /** A client got its first whole copy. */
  served(nowMs: number): void {
    this.timeline.add('whole', nowMs - this.#beganMs);
  }

  refusedWith(status: number, retryAfter: string | undefined, nowMs: number): void {
    this.refused.add(String(status));
    if (retryAfter !== undefined) this.retryAfter.add(retryAfter.slice(0, 40));
    this.timeline.add('refused', nowMs - this.#beganMs);
  }

  /** @param cause - the system's code, or what was wrong with the answer. */
  ended(ending: Ending, cause: string, nowMs: number): void {
    this.endings[ending]++;
    this.failures.add(`${ending}: ${cause}`);
    this.timeline.add('cut', nowMs - this.#beganMs);
  }
}
