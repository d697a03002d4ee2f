import { assert, type Slices } from '../kernel/index.ts';
import { type Change, textBytes } from './item.ts';
import type { KeptBatch, KeptKey } from './kept.ts';
import { Pace } from './pace.ts';

/** One step of the log: everything that one `apply` or one `replace` changed. It happens as a whole or not at all. */
export interface Batch {
  readonly offset: number;
  /** In (kind, key) order, one per key. */
  readonly changes: readonly Change[];
  /** Digest and clock of the data set after it. */
  readonly digest: string;
  readonly clock: number;
  /** UTF-8 bytes of the changed items' texts and keys. */
  readonly bytes: number;
  /**
   * What `make` gives, made once per batch and key: so that a live event is encoded once and not once per client.
   * The key must name everything that decides the value: shape, encoding, filter.
   *
   * @example
   * function eventOf(batch: Batch): Buffer {
   *   return batch.memo('keys', () => Buffer.from(batch.changes.map(({ key }) => `data: ${key}\n\n`).join('')));
   * }
   */
  memo<T>(key: string, make: () => T): T;
}

/** What a client must be sent to come from one state to a later one. */
export interface CatchUp {
  readonly kind: 'changes';
  /** The state it starts from and the one it leads to, as offsets: whoever got it follows the log from `to`. */
  readonly from: number;
  readonly to: number;
  /** The latest change of each key touched in between, deletions included. Never a net difference. */
  readonly keys: readonly Change[];
  /** Digest and clock of the data set at `to`. */
  readonly digest: string;
  readonly clock: number;
  /** UTF-8 bytes of the changed items' texts and keys: what decides whether it is worth a slot. */
  readonly bytes: number;
  /** As a batch's: a herd that comes back to one position shares one encoding. */
  memo<T>(key: string, make: () => T): T;
}

/** The bounds of a log. */
export interface LogBounds {
  readonly maxBatches: number;
  readonly maxBytes: number;
}

/**
 * A change in the log, what it weighs, and the offset of a later batch that changed the same key again. Of one that was
 * superseded in an earlier life the item is no longer known.
 */
export interface Entry extends Change, KeptKey {
  readonly bytes: number;
  supersededAt: number;
}

export interface LoggedBatch extends Batch {
  readonly changes: readonly Entry[];
}

/** What a state of the data set is known by. */
export interface State {
  readonly digest: string;
  readonly clock: number;
}

/** A batch that is ready to be appended. */
export interface Prepared {
  readonly entries: readonly Entry[];
  readonly bytes: number;
}

/** The log of an earlier life, ready to be taken over. */
export interface LogParts {
  /** What the data set was before the first of the batches. */
  readonly base: State;
  readonly batches: LoggedBatch[];
  /** The offset that the next batch has. */
  readonly next: number;
  readonly latest: Map<string, Map<string, Entry>>;
}

/** Map operations take a tenth of a microsecond. */
const ENTRIES_PER_LOOK = 128;
/** Catch-ups are remembered for as many positions: a herd that comes back has few. */
const CATCH_UPS_MAX = 64;

/** Values made once per key. */
export function makeMemo(): <T>(key: string, make: () => T) => T {
  const made = new Map<string, unknown>();
  return <T>(key: string, make: () => T): T => {
    if (!made.has(key)) made.set(key, make());
    return made.get(key) as T;
  };
}

/** UTF-8 bytes of changes: texts and keys. */
export function changeBytes(change: Change): number {
  return Buffer.byteLength(change.key) + (change.item === undefined ? 0 : textBytes(change.item));
}

/** A change as the log keeps it: the latest of its key, until it is superseded. */
export function makeEntry(change: Change): Entry {
  const { kind, key, version, item } = change;
  const deleted = item === undefined;
  return { kind, key, version, item, deleted, bytes: changeBytes(change), supersededAt: Number.POSITIVE_INFINITY };
}

function addState(states: Map<string, number[]>, digest: string, state: number): void {
  const known = states.get(digest);
  if (known === undefined) states.set(digest, [state]);
  else known.push(state);
}

/**
 * The last changes of a data set, in batches.
 *
 * ```
 *  state    first          first+1                 next
 *             |   batch       |   batch  ...  batch  |
 *             |   first       |   first+1    next-1  |
 *  digest   base          of batch first        of the newest
 * ```
 *
 * State n is what the data set was after every batch below n. A position names a digest, and a digest is a state that
 * was, as long as the log reaches back to it without a break.
 */
export class ChangeLog {
  readonly #bounds: LogBounds;
  /** Batches below are of an earlier life: nobody follows them, and the texts that were replaced since are not there. */
  #followable = 0;
  #batches: LoggedBatch[] = [];
  #next: number;
  #bytes = 0;
  #base: State;
  /** The states with each digest, oldest first: several when items came and went again. */
  #states = new Map<string, number[]>();
  /** By kind and key, the latest entry in the log. */
  #latest = new Map<string, Map<string, Entry>>();
  #catchUps = new Map<number, CatchUp>();

  constructor(bounds: LogBounds, { digest, clock }: State, next = 0) {
    this.#bounds = bounds;
    this.#base = { digest, clock };
    this.#next = next;
    this.#states.set(digest, [next]);
  }

  /** The oldest offset that can be read; equal to `next` when there is none. */
  get first(): number {
    return Math.max(this.reach, this.#followable);
  }

  /** The oldest state from which `since` leads to the newest. */
  get reach(): number {
    return this.#next - this.#batches.length;
  }

  /** The offset that the next batch will have. */
  get next(): number {
    return this.#next;
  }

  /** How many keys the batches held have changed. */
  get keys(): number {
    let keys = 0;
    for (const latest of this.#latest.values()) keys += latest.size;
    return keys;
  }

  /** UTF-8 bytes of all batches held. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The batch at an offset, undefined outside [first, next). */
  at(offset: number): Batch | undefined {
    return offset < this.#followable ? undefined : this.#batches[offset - this.reach];
  }

  /** The earliest state in the log that had this digest. */
  stateOf(digest: string): number | undefined {
    return this.#states.get(digest)?.[0];
  }

  /**
   * The state that a position was given out at: the same digest, and a clock that was read then. A digest alone cannot
   * tell, since it returns when items come and go; the clock rises with every batch, so the two name one state.
   *
   * @param newestClock - the clock of now, which may have risen since the newest batch
   */
  stateAt(digest: string, clock: number, newestClock: number): number | undefined {
    // a clock that has reached its bound rises no more, so it names nothing
    if (clock === Number.MAX_SAFE_INTEGER) return undefined;
    return this.#states.get(digest)?.find((state) => {
      const until = state === this.#next ? newestClock : this.#clockOf(state + 1) - 1;
      return this.#clockOf(state) <= clock && clock <= until;
    });
  }

  /** What leads from a state to the newest. */
  since(from: number): CatchUp {
    const known = this.#catchUps.get(from);
    if (known !== undefined) return known;
    const keys: Change[] = [];
    let bytes = 0;
    for (const batch of this.#batches.slice(from - this.reach)) {
      for (const entry of batch.changes) {
        if (entry.supersededAt < this.#next) continue;
        keys.push(entry);
        bytes += entry.bytes;
      }
    }
    const { digest, clock } = this.#batches.at(-1) ?? this.#base;
    const catchUp: CatchUp = { kind: 'changes', from, to: this.#next, keys, digest, clock, bytes, memo: makeMemo() };
    if (this.#catchUps.size < CATCH_UPS_MAX) this.#catchUps.set(from, catchUp);
    return catchUp;
  }

  /**
   * Gets the next batch ready, in slices. Changes nothing: it may still be dropped.
   */
  async prepare(changes: readonly Change[], slices: Slices): Promise<Prepared> {
    const pace = new Pace(slices, ENTRIES_PER_LOOK);
    const entries: Entry[] = [];
    let bytes = 0;
    for (const change of changes) {
      const entry = makeEntry(change);
      entries.push(entry);
      bytes += entry.bytes;
      if (pace.due()) await pace.pause();
    }
    return { entries, bytes };
  }

  /**
   * Marks what a batch supersedes, in slices. Readers see nothing of it, since it is so only at an offset that they have
   * not reached. It must be appended, or the log be broken, before another is entered.
   */
  async enter({ entries }: Prepared, slices: Slices): Promise<void> {
    const pace = new Pace(slices, ENTRIES_PER_LOOK);
    for (const entry of entries) {
      const latest = this.#latestOf(entry.kind);
      const earlier = latest.get(entry.key);
      if (earlier !== undefined) earlier.supersededAt = this.#next;
      latest.set(entry.key, entry);
      if (pace.due()) await pace.pause();
    }
  }

  /** Where the log begins once this was appended and `evict` was called. */
  reachAfter({ bytes }: Prepared): number {
    return this.reach + this.#excess(this.#batches.length + 1, this.#bytes + bytes);
  }

  /** Appends what was prepared and entered. */
  append({ entries, bytes }: Prepared, { digest, clock }: State): Batch {
    const batch: LoggedBatch = { offset: this.#next, changes: entries, digest, clock, bytes, memo: makeMemo() };
    this.#batches.push(batch);
    this.#next++;
    this.#bytes += bytes;
    this.#catchUps = new Map();
    addState(this.#states, digest, this.#next);
    return batch;
  }

  /** The log from a state on, as a store keeps it: the first says what the data set was then. */
  kept(from: number): KeptBatch[] {
    const kept: KeptBatch[] = [];
    if (from === this.reach) kept.push({ ...this.#base, offset: from - 1, keys: [] });
    for (const { offset, digest, clock, changes } of this.#batches.slice(Math.max(0, from - 1 - this.reach))) {
      kept.push({ offset, digest, clock, keys: offset < from ? [] : changes });
    }
    return kept;
  }

  /** Goes on with the log of an earlier life. */
  resume({ base, batches, next, latest }: LogParts): void {
    this.#base = { digest: base.digest, clock: base.clock };
    this.#batches = batches;
    this.#next = next;
    this.#followable = next;
    this.#bytes = batches.reduce((sum, { bytes }) => sum + bytes, 0);
    this.#latest = latest;
    this.#catchUps = new Map();
    this.#states = new Map();
    addState(this.#states, base.digest, this.reach);
    for (const { digest, offset } of batches) addState(this.#states, digest, offset + 1);
  }

  /**
   * Drops the oldest batches until the bounds hold, and says which. The newest stays even when it alone is above the
   * bytes: its items are those of the present snapshot, so it costs nothing but itself.
   */
  evict(): readonly Batch[] {
    const evicted = this.#batches.splice(0, this.#excess(this.#batches.length, this.#bytes));
    for (const { digest, clock, offset, bytes } of evicted) {
      this.#dropState(this.#base.digest, offset);
      this.#base = { digest, clock };
      this.#bytes -= bytes;
    }
    return evicted;
  }

  /** Lets go of what was kept for evicted batches, in slices. No reader sees it. */
  async forget(batches: readonly Batch[], slices: Slices): Promise<void> {
    const pace = new Pace(slices, ENTRIES_PER_LOOK);
    for (const batch of batches) {
      for (const entry of batch.changes) {
        const latest = this.#latestOf(entry.kind);
        if (latest.get(entry.key) === entry) latest.delete(entry.key);
        if (pace.due()) await pace.pause();
      }
    }
  }

  /**
   * Empties the log: what was before is unknown from now on. The offset rises, so that no cursor that was up to date
   * before the break takes itself to be so after it.
   */
  break({ digest, clock }: State): void {
    this.#batches = [];
    this.#next++;
    this.#bytes = 0;
    this.#base = { digest, clock };
    this.#latest = new Map();
    this.#catchUps = new Map();
    this.#states.clear();
    this.#states.set(digest, [this.#next]);
  }

  /** The clock when a state began. */
  #clockOf(state: number): number {
    return state === this.reach ? this.#base.clock : this.#batches[state - 1 - this.reach]!.clock;
  }

  #latestOf(kind: string): Map<string, Entry> {
    let latest = this.#latest.get(kind);
    if (latest === undefined) this.#latest.set(kind, (latest = new Map()));
    return latest;
  }

  /** How many of the oldest of so many batches and bytes are beyond the bounds. The newest never is. */
  #excess(length: number, bytes: number): number {
    const { maxBatches, maxBytes } = this.#bounds;
    let count = 0;
    for (let left = bytes; length - count > 1 && (length - count > maxBatches || left > maxBytes); count++) {
      left -= this.#batches[count]!.bytes;
    }
    return count;
  }

  #dropState(digest: string, state: number): void {
    const states = this.#states.get(digest);
    assert(states?.shift() === state, 'the oldest state of the log is its base', state);
    if (states.length === 0) this.#states.delete(digest);
  }
}
