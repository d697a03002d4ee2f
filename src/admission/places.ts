import { type Linked, List } from './list.ts';
import { checkPinBytes, type Limits } from './options.ts';
import type { Slot } from './types.ts';

/** A slot, and what only the books need to know of it. */
class Place implements Slot, Linked<Place> {
  readonly waitedMs: number;
  readonly #books: Places;
  state: Slot['state'] = 'held';
  bytes: number;
  onHeld: (() => void) | undefined;
  /** Whether it waits to be held again. */
  inLine = false;
  before: Place | undefined;
  after: Place | undefined;

  constructor(books: Places, waitedMs: number, bytes: number) {
    this.#books = books;
    this.waitedMs = waitedMs;
    this.bytes = bytes;
  }

  pin(bytes: number): void {
    this.#books.pin(this, bytes);
  }

  park(): boolean {
    return this.#books.park(this);
  }

  resume(onHeld: () => void): void {
    this.#books.resume(this, onHeld);
  }

  release(): void {
    this.#books.release(this);
  }

  [Symbol.dispose](): void {
    this.#books.release(this);
  }
}

/**
 * The books: places held and parked, and the bytes they pin.
 *
 * ```
 *                      park                       in line, first come first served
 *            ┌──────────────────────► parked ─── resume ──► ○ ○ ○ ─┐
 *   take ─► held ◄──────────────────────│──────────────────────────┘ before any newcomer
 *            │                          │
 *            └── release ─► released ◄──┴── release, in line or not
 * ```
 *
 * Every change that could let somebody in calls `freed`, after the books are right again.
 */
export class Places {
  readonly #limits: Limits;
  readonly #freed: () => void;
  readonly #line: List<Place> = new List();
  /** Held again, and not called back yet; at most maxConcurrent. */
  readonly #resumed: Place[] = [];
  #telling = false;
  #held = 0;
  #parked = 0;
  #declaredBytes = 0;

  constructor(limits: Limits, freed: () => void) {
    this.#limits = limits;
    this.#freed = freed;
  }

  get held(): number {
    return this.#held;
  }

  get parked(): number {
    return this.#parked;
  }

  get declaredBytes(): number {
    return this.#declaredBytes;
  }

  /** Whether nobody has anything: no place held, none parked. */
  get empty(): boolean {
    return this.#held === 0 && this.#parked === 0;
  }

  get isFree(): boolean {
    return this.#held < this.#limits.maxConcurrent;
  }

  /**
   * Whether `bytes` more can be pinned. A delivery that would be alone always can, even if it is larger than the
   * whole bound: it would never be let in otherwise.
   */
  canCarry(bytes: number): boolean {
    return this.empty || this.#declaredBytes + this.#limits.pinnedBytes() + bytes <= this.#limits.maxPinnedBytes;
  }

  take(waitedMs: number, bytes: number): Slot {
    this.#held++;
    this.#declaredBytes += bytes;
    return new Place(this, waitedMs, bytes);
  }

  /** Gives a free place to whoever has waited longest to be held again. False when there is no place or nobody. */
  resumeNext(): boolean {
    const place = this.#line.first;
    if (place === undefined || !this.isFree) return false;
    this.#leaveLine(place);
    place.state = 'held';
    this.#parked--;
    this.#held++;
    this.#resumed.push(place);
    return true;
  }

  /**
   * Calls back those that are held again. Comes after all handovers, as a callback may release, park, acquire or
   * close; what it resumes is called from the loop that called it, so that a thousand callbacks do not nest.
   */
  tellResumed(): void {
    if (this.#telling) return;
    this.#telling = true;
    for (let place = this.#resumed.shift(); place !== undefined; place = this.#resumed.shift()) callBack(place);
    this.#telling = false;
  }

  pin(place: Place, bytes: number): void {
    checkPinBytes(bytes);
    if (place.state === 'released') return;
    this.#declaredBytes += bytes - place.bytes;
    place.bytes = bytes;
    this.#freed();
  }

  park(place: Place): boolean {
    if (place.state !== 'held' || this.#parked >= this.#limits.maxParked) return false;
    place.state = 'parked';
    this.#held--;
    this.#parked++;
    this.#freed();
    return true;
  }

  resume(place: Place, onHeld: () => void): void {
    if (place.state === 'released') return;
    place.onHeld = onHeld;
    if (place.state === 'held') return callBack(place);
    if (!place.inLine) this.#line.push(place);
    place.inLine = true;
    this.#freed();
  }

  release(place: Place): void {
    if (place.state === 'released') return;
    if (place.state === 'held') this.#held--;
    else this.#parked--;
    if (place.inLine) this.#leaveLine(place);
    place.onHeld = undefined;
    place.state = 'released';
    this.#declaredBytes -= place.bytes;
    this.#freed();
  }

  #leaveLine(place: Place): void {
    this.#line.remove(place);
    place.inLine = false;
  }
}

/** A callback that throws is the fault of whoever gave it: it must not reach the one that just released a slot. */
function callBack(place: Place): void {
  const onHeld = place.onHeld;
  place.onHeld = undefined;
  try {
    onHeld?.();
  } catch (thrown) {
    queueMicrotask(() => {
      throw thrown;
    });
  }
}

/** The slot of a limiter that is off: one for all, nothing to count. */
export const UNLIMITED: Slot = {
  waitedMs: 0,
  state: 'held',
  pin: () => undefined,
  park: () => false,
  resume: (onHeld) => onHeld(),
  release: () => undefined,
  [Symbol.dispose]: () => undefined,
};
