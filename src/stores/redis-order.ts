import type { KeptKey } from '../dataset/index.ts';

/** Which of two states of one data set is the newer one, as far as replicas that share a Redis know. */
export interface DigestOrder {
  /**
   * Whether a position is newer than a state, by the latest place that each has in the order; undefined when one of them
   * has none. With a clock, that of a position is the place at which it was given out. Where this replica is between two
   * places, whatever came after the first may be newer, and is taken to be.
   */
  isNewer(position: OrderedState, than: OrderedState): boolean | undefined;
  /** Resolves when everything is known that any replica had written before this call, or that cannot be had. */
  look(): Promise<void>;
  /** Whether a look is under way: what is not known may be known in a moment. */
  readonly isLooking: boolean;
  /** Whether others have been where we are not yet. */
  readonly isLagging: boolean;
  /** Tells `listener` whenever the order has grown or was begun anew. The answer ends it. */
  onAdvance(listener: () => void): () => void;
}

/** A state as a position names it. */
export interface OrderedState {
  readonly digest: string;
  readonly clock?: number;
}

/** A state of the data set, in the order of all replicas. */
export interface OrderEntry {
  /** 1, 2, 3 …: as long as the epoch lasts. */
  readonly place: number;
  readonly digest: string;
  /** As the replica that came first had it: clocks of others may differ. */
  readonly clock: number;
  /** The digest of the place before, as the writer knew it. */
  readonly before: string;
  /** Nobody knows what it touched, or a version did not rise: no catch-up leads over it. */
  readonly isReset: boolean;
  /** What it touched since the place before, every key, never a net difference. */
  readonly keys: readonly KeptKey[];
}

/** A replica is at a place, or in a state that nobody else had somewhere after it. */
export interface OwnState {
  readonly digest: string;
  readonly place: number;
  readonly isPlaced: boolean;
}

/** One is being written, one is seen; more when writes are let go on before they are done. */
const VISITED_MAX = 16;
/** As long as a data set's own log. */
export const ORDER_LENGTH_MAX = 10_000;

/**
 * The shared order of digests, in memory. What holds:
 *
 * 1. Places rise by one, and what stands at a place never changes. Redis lets nobody append who does not know its newest
 *    place (a comparison and the append are one step), so each entry was made by a writer that knew all before it.
 * 2. Data are written in the same step as the place of their digest. So whoever finds its digest at a place need not
 *    write: Redis holds those data or later ones.
 * 3. A digest can stand at several places: an item that is deleted and made again with the same version and text brings
 *    an old digest back. It gets a new, later place. A replica never looks its digest up by itself but goes on from the
 *    place of its state before, to the next place with its digest: a replica that is behind is found where it is, and
 *    does not pass for one that has come back.
 * 4. `isNewer` therefore takes the place at which this replica is for its own digest, and for any other the latest. For a
 *    position whose digest came back this errs one way only: a client is taken to be newer than it is, and waits for its
 *    bounded time. It is never taken a step back to what it had left.
 * 5. When Redis loses the order, another epoch begins and nothing is known of the places before. The same holds when it
 *    loses the end of it, as in a failover to a copy that lags: the places are then given away again, and an entry that does
 *    not follow the digest that stands before it here tells.
 */
export class OrderBook implements Omit<DigestOrder, 'look' | 'isLooking'> {
  #epoch = '';
  #entries: OrderEntry[] = [];
  readonly #latest = new Map<string, OrderEntry>();
  readonly #listeners = new Set<{ readonly run: () => void }>();
  #own: OwnState | undefined;
  /** Places of the last states of this replica: until a write is seen, readers are at the one before. */
  readonly #visited = new Map<string, number>();

  /** Empty before anything was appended. */
  get epoch(): string {
    return this.#epoch;
  }

  /** The newest place; 0 when there is none. */
  get newest(): number {
    return this.#entries.at(-1)?.place ?? 0;
  }

  /** What stands at the newest place; empty when there is none. */
  get newestDigest(): string {
    return this.#entries.at(-1)?.digest ?? '';
  }

  /** Where this replica is. */
  get own(): OwnState | undefined {
    return this.#own;
  }

  set own(own: OwnState | undefined) {
    this.#own = own;
    if (own === undefined) return;
    this.#visited.delete(own.digest);
    this.#visited.set(own.digest, own.place);
    for (const digest of this.#visited.keys()) {
      if (this.#visited.size <= VISITED_MAX) return;
      this.#visited.delete(digest);
    }
  }

  /** Begins anew: whatever was known is of another order. */
  begin(epoch: string): void {
    this.#epoch = epoch;
    this.#entries = [];
    this.#latest.clear();
    this.#visited.clear();
    this.#own = undefined;
  }

  /** Takes entries that follow the newest one. */
  take(entries: readonly OrderEntry[]): void {
    for (const entry of entries) {
      // the rest of what Redis has trimmed meanwhile: nothing leads over the gap
      if (entry.place !== this.newest + 1) {
        this.#entries = [];
        this.#latest.clear();
      }
      this.#entries.push(entry);
      this.#latest.set(entry.digest, entry);
    }
    const excess = this.#entries.length - ORDER_LENGTH_MAX;
    for (const entry of excess > 0 ? this.#entries.splice(0, excess) : []) {
      if (this.#latest.get(entry.digest) === entry) this.#latest.delete(entry.digest);
    }
  }

  /** Tells those who wait to look again. */
  tell(): void {
    for (const listener of Array.from(this.#listeners)) listener.run();
  }

  /** What came after a place, oldest first; undefined when that is not known any more. */
  after(place: number): readonly OrderEntry[] | undefined {
    const first = this.#entries[0]?.place ?? 1;
    return place + 1 < first || place > this.newest ? undefined : this.#entries.slice(place + 1 - first);
  }

  /** The first entry with a digest that comes after a place. */
  next(digest: string, place: number): OrderEntry | undefined {
    const first = this.#entries[0]?.place ?? 1;
    // nothing leads from a place that is not known any more
    if (place + 1 < first || (this.#latest.get(digest)?.place ?? 0) <= place) return undefined;
    let at = place + 1 - first;
    while (this.#entries[at]?.digest !== digest) at++;
    return this.#entries[at];
  }

  /** Whether a digest stands at a place. */
  has(place: number, digest: string): boolean {
    const first = this.#entries[0]?.place ?? 1;
    return this.#entries[place - first]?.digest === digest;
  }

  /** The latest entry with a digest. */
  latest(digest: string): OrderEntry | undefined {
    return this.#latest.get(digest);
  }

  /** Up to a place, without a gap, oldest first; the first says where that begins. */
  upTo(place: number): readonly OrderEntry[] {
    const first = this.#entries[0]?.place ?? 1;
    const entries = this.#entries.slice(0, place + 1 - first);
    const reset = entries.findLastIndex((entry) => entry.isReset);
    return entries.slice(Math.max(0, reset));
  }

  isNewer(position: OrderedState, than: OrderedState): boolean | undefined {
    const a = this.#placeOf(position);
    const b = this.#visited.get(than.digest) ?? this.#placeOf(than);
    return a === undefined || b === undefined ? undefined : a > b;
  }

  /** Whether others have been where this replica is not yet. */
  get isLagging(): boolean {
    return this.#own !== undefined && this.newest > this.#own.place;
  }

  /** Whether this replica, and so everybody, has left a state behind. */
  isPast(digest: string): boolean {
    const known = this.#latest.get(digest);
    if (known === undefined || this.own === undefined || digest === this.own.digest) return false;
    return known.place < this.own.place || (known.place === this.own.place && !this.own.isPlaced);
  }

  onAdvance(listener: () => void): () => void {
    const subscription = { run: listener };
    this.#listeners.add(subscription);
    return () => void this.#listeners.delete(subscription);
  }

  #placeOf({ digest, clock }: OrderedState): number | undefined {
    if (digest === this.own?.digest && this.own.isPlaced) {
      const known = clock === undefined ? undefined : this.#latest.get(digest);
      // of our own digest another replica may know a later place, which the clock tells apart
      return known !== undefined && known.place > this.own.place && known.clock === clock
        ? known.place
        : this.own.place;
    }
    return this.#latest.get(digest)?.place;
  }
}
