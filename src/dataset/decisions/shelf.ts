import type { Clock } from '../../kernel/index.ts';
import type { Edition } from './edition.ts';
import type { Copy } from './types.ts';

/** One kind of answer: its newest edition, and whether a newer one is being made. */
interface Place {
  edition: Edition | undefined;
  flight: Flight | undefined;
  usedAtMs: number;
}

/** An answer that is being made, and how many wait for it. */
interface Flight {
  readonly made: Promise<Made>;
  waiting: number;
}

/** An answer that was made: a copy of its own, so that it stays until all who waited have theirs. */
export interface Made {
  copy(): Copy;
  release(): void;
}

/** How long, how many, and how large. */
export interface ShelfOptions {
  readonly clock: Clock;
  readonly idleMs: number;
  readonly placesMax: number;
  readonly bytesMax: number;
  /** What all that stands here takes now. */
  readonly bytes: () => number;
}

/**
 * The newest edition of each kind of answer, for as long as somebody asks for it.
 *
 * Beyond `placesMax` and `bytesMax` the one that was not asked for longest goes, down to one; and so does whatever nobody asked for in `idleMs`. Copies
 * that are still out keep what they need.
 */
export class Shelf {
  readonly #o: ShelfOptions;
  /** Asked for longest ago first. */
  readonly #places = new Map<string, Place>();
  #sweeping = false;

  constructor(o: ShelfOptions) {
    this.#o = o;
  }

  get size(): number {
    return this.#places.size;
  }

  /** The edition that stands there, whatever its offset. */
  get(key: string): Edition | undefined {
    const place = this.#places.get(key);
    return place === undefined ? undefined : this.#use(key, place).edition;
  }

  /** The edition with most items among those that are wanted. */
  largest(isWanted: (key: string, edition: Edition) => boolean): Edition | undefined {
    let largest: Edition | undefined;
    for (const [key, { edition }] of this.#places) {
      if (edition === undefined || edition.added <= (largest?.added ?? 0)) continue;
      if (isWanted(key, edition)) largest = edition;
    }
    return largest;
  }

  put(key: string, edition: Edition): void {
    const place = this.#use(key, this.#places.get(key));
    const before = place.edition;
    place.edition = edition;
    edition.shelve();
    before?.unshelve();
    this.#evict(place);
  }

  /** Drops editions that can never be given out again. */
  drop(isOver: (key: string, edition: Edition) => boolean): void {
    for (const [key, place] of this.#places) {
      if (place.flight === undefined && place.edition !== undefined && isOver(key, place.edition))
        this.#remove(key, place);
    }
  }

  /** A copy of what is being made for this place; if nothing is, `make` makes it. A failure is for all who wait. */
  async fly(key: string, make: () => Promise<Made>): Promise<Copy> {
    const place = this.#use(key, this.#places.get(key));
    place.flight ??= { made: this.#land(key, place, make()), waiting: 0 };
    const flight = place.flight;
    flight.waiting++;
    const made = await flight.made;
    const copy = made.copy();
    flight.waiting--;
    if (flight.waiting === 0) made.release();
    return copy;
  }

  async #land(key: string, place: Place, flight: Promise<Made>): Promise<Made> {
    try {
      return await flight;
    } finally {
      place.flight = undefined;
      if (place.edition === undefined && this.#places.get(key) === place) this.#places.delete(key);
    }
  }

  #use(key: string, known: Place | undefined): Place {
    const place = known ?? { edition: undefined, flight: undefined, usedAtMs: 0 };
    place.usedAtMs = this.#o.clock.now();
    this.#places.delete(key);
    this.#places.set(key, place);
    if (!this.#sweeping) this.#sweepAfter(this.#o.idleMs);
    return place;
  }

  #evict(newest: Place): void {
    for (const [key, place] of this.#places) {
      if (this.#places.size <= this.#o.placesMax && this.#o.bytes() <= this.#o.bytesMax) return;
      if (place.flight === undefined && place !== newest) this.#remove(key, place);
    }
  }

  #sweepAfter(delayMs: number): void {
    this.#sweeping = true;
    this.#o.clock.after(delayMs, () => this.#sweep());
  }

  #sweep(): void {
    this.#sweeping = false;
    const nowMs = this.#o.clock.now();
    let oldestMs = nowMs;
    for (const [key, place] of this.#places) {
      if (place.flight === undefined && nowMs - place.usedAtMs >= this.#o.idleMs) this.#remove(key, place);
      else oldestMs = Math.min(oldestMs, place.usedAtMs);
    }
    if (this.#places.size === 0) return;
    // one that is in flight may be overdue
    this.#sweepAfter(Math.max(this.#o.idleMs / 4, this.#o.idleMs - (nowMs - oldestMs)));
  }

  #remove(key: string, place: Place): void {
    this.#places.delete(key);
    place.edition?.unshelve();
  }
}
