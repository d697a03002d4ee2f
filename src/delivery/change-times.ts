import type { Fact } from '../kernel/index.ts';

/** A change that was taken by some clients. */
export interface Taken {
  /** From the change to when they had taken it, in milliseconds. */
  readonly ms: number;
  /** How many they are. */
  readonly clients: number;
  /** What they were sent, all together. */
  readonly bytes: number;
}

/** Offsets of a log that can be read: from `first` up to `next`. */
interface Reach {
  readonly first: number;
  readonly next: number;
}

/** Times of changes that have left the log are let go of when there are so many. */
const TRIM_AT = 64;

/**
 * When the changes of a log were made, and how many clients have taken each since that was last told. A client costs an
 * addition for each change; whatever else this costs is paid once for all that were sent to together.
 *
 *   offset     41    42    43          as far as the log reaches back
 *   made at    …     …     …
 *   taken       0    12   300   ─► tell: a fact for each that is not 0
 *
 * While nobody listens nothing is kept.
 *
 * @example
 * const log = { first: 0, next: 1 };
 * const taken = new Fact<Taken>('headgate:example.taken');
 * const stop = taken.listen(({ ms, clients }) => console.log(`${clients} had it after ${ms} ms`)); // 2 had it after 30 ms
 * const times = new ChangeTimes(taken);
 * times.changed(log, 1000);
 * times.took(0, 500);
 * times.took(0, 500);
 * times.tell(1030);
 * stop();
 */
export class ChangeTimes {
  readonly #fact: Fact<Taken>;
  /** Offset of the first change whose time is known. */
  #first = 0;
  #madeAtMs: number[] = [];
  #taken: number[] = [];
  #bytes: number[] = [];
  /** Of those that were taken since that was told, the first and the last: places in the arrays. */
  #low = Number.POSITIVE_INFINITY;
  #high = -1;

  constructor(fact: Fact<Taken>) {
    this.#fact = fact;
  }

  /** Whether something was taken that is not told yet. */
  get isDue(): boolean {
    return this.#high >= 0;
  }

  /** The log has grown, at this time on the caller's clock. */
  changed(log: Reach, nowMs: number): void {
    if (!this.#fact.isHeard) return this.#forget();
    // of what came before anybody listened only the newest is known to be of now
    if (this.#madeAtMs.length === 0) this.#first = log.next - 1;
    while (this.#first + this.#madeAtMs.length < log.next) {
      this.#madeAtMs.push(nowMs);
      this.#taken.push(0);
      this.#bytes.push(0);
    }
    const gone = log.first - this.#first;
    if (gone >= TRIM_AT && !this.isDue) {
      this.#madeAtMs.splice(0, gone);
      this.#taken.splice(0, gone);
      this.#bytes.splice(0, gone);
      this.#first = log.first;
    }
  }

  /** A client has taken the change at this offset, in so many bytes. */
  took(offset: number, bytes: number): void {
    const at = offset - this.#first;
    if (at < 0 || at >= this.#taken.length) return;
    this.#taken[at] = (this.#taken[at] as number) + 1;
    this.#bytes[at] = (this.#bytes[at] as number) + bytes;
    if (at < this.#low) this.#low = at;
    if (at > this.#high) this.#high = at;
  }

  /** Makes known what was taken since the last call, as of this time. */
  tell(nowMs: number): void {
    for (let at = this.#low; at <= this.#high; at++) {
      const clients = this.#taken[at] as number;
      if (clients === 0) continue;
      const bytes = this.#bytes[at] as number;
      this.#taken[at] = 0;
      this.#bytes[at] = 0;
      this.#fact.publish(() => ({ ms: nowMs - (this.#madeAtMs[at] as number), clients, bytes }));
    }
    this.#low = Number.POSITIVE_INFINITY;
    this.#high = -1;
  }

  #forget(): void {
    if (this.#madeAtMs.length === 0) return;
    this.#madeAtMs = [];
    this.#taken = [];
    this.#bytes = [];
    this.#low = Number.POSITIVE_INFINITY;
    this.#high = -1;
  }
}
