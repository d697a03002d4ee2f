import type { Clock, Timer } from '../kernel/index.ts';

/** Something with a deadline, in milliseconds of the clock. */
export interface Timed {
  readonly dueMs: number;
  /** Where it stands in the heap; -1 when it is not in. Kept by {@link Deadlines}. */
  heapIndex: number;
}

/**
 * Many deadlines on one timer.
 *
 * ```
 *            [0] earliest ── the timer
 *           /           \
 *        [1]             [2]          a parent is never due after its children
 *       /   \           /   \
 *     [3]   [4]       [5]   [6]       children of i: 2i + 1 and 2i + 2
 * ```
 *
 * Each item knows its index, so one that leaves early leaves at once: under churn with long deadlines, entries
 * left behind until they fall due would outnumber the queue by far.
 */
export class Deadlines<T extends Timed> {
  readonly #clock: Clock;
  readonly #onDue: () => void;
  readonly #heap: T[] = [];
  #timer: Timer | undefined;
  #armedMs = Infinity;

  /** @param onDue - called when at least one item is due; it takes out what it wants with `takeDue`. */
  constructor(clock: Clock, onDue: () => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  get size(): number {
    return this.#heap.length;
  }

  add(item: T): void {
    this.#heap.push(item);
    this.#up(item, this.#heap.length - 1);
    this.#arm();
  }

  /** Takes an item out; does nothing if it is not in. */
  remove(item: T): void {
    const index = item.heapIndex;
    if (index < 0) return;
    item.heapIndex = -1;
    const last = this.#heap.pop();
    if (last !== undefined && last !== item) {
      this.#up(last, index);
      this.#down(last, last.heapIndex);
    }
    this.#arm();
  }

  /** Takes out the earliest item if it is due. */
  takeDue(): T | undefined {
    const first = this.#heap[0];
    if (first === undefined || first.dueMs > this.#clock.now()) return undefined;
    this.remove(first);
    return first;
  }

  /** Moves `item` from `index` towards the root until its parent is not due later. */
  #up(item: T, index: number): void {
    let at = index;
    while (at > 0) {
      const parentAt = (at - 1) >> 1;
      const parent = this.#heap[parentAt] as T;
      if (parent.dueMs <= item.dueMs) break;
      this.#put(parent, at);
      at = parentAt;
    }
    this.#put(item, at);
  }

  /** Moves `item` from `index` away from the root until no child is due earlier. */
  #down(item: T, index: number): void {
    let at = index;
    for (;;) {
      const left = this.#heap[2 * at + 1];
      const right = this.#heap[2 * at + 2];
      const child = right !== undefined && left !== undefined && right.dueMs < left.dueMs ? right : left;
      if (child === undefined || child.dueMs >= item.dueMs) break;
      const childAt = child.heapIndex;
      this.#put(child, at);
      at = childAt;
    }
    this.#put(item, at);
  }

  #put(item: T, index: number): void {
    this.#heap[index] = item;
    item.heapIndex = index;
  }

  /** A timer that is armed too early is left alone: it fires, finds nothing due, and is armed again. */
  #arm(): void {
    const first = this.#heap[0];
    if (first !== undefined && first.dueMs >= this.#armedMs) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#armedMs = Infinity;
    if (first === undefined) return;
    this.#armedMs = first.dueMs;
    this.#timer = this.#clock.after(first.dueMs - this.#clock.now(), () => this.#fire());
  }

  #fire(): void {
    this.#timer = undefined;
    this.#armedMs = -Infinity; // nothing is armed for what is about to be taken out
    const first = this.#heap[0];
    if (first !== undefined && first.dueMs <= this.#clock.now()) this.#onDue();
    this.#armedMs = Infinity;
    this.#arm();
  }
}
