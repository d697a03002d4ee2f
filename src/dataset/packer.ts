import { type Item, textBytes } from './item.ts';
import { Leaf, type Meter } from './leaf.ts';

/** A new leaf's weight: one page then is about one write. */
const LEAF_BYTES: number = 64 * 1024;
/** Above it a leaf is split; the room between keeps a growing leaf from being split at every change. */
export const LEAF_BYTES_MAX: number = 96 * 1024;
/** Below it a leaf joins a neighbour with which it fits into one leaf, else deletions would leave crumbs. */
export const LEAF_BYTES_MIN: number = 16 * 1024;
/**
 * What a shape writes around a text, about. Counted, so that a leaf of tiny items still makes a page of a usual size,
 * and no leaf holds more than 3,072 items.
 */
const ENTRY_FRAME_BYTES = 32;

/** What an item weighs in a leaf: its text and what a shape will write around it, in bytes. */
function weightOf(item: Item): number {
  return textBytes(item) + ENTRY_FRAME_BYTES;
}

/** What a leaf weighs. */
export function leafWeight(leaf: Leaf): number {
  return leaf.textBytes + leaf.items.length * ENTRY_FRAME_BYTES;
}

/**
 * Makes leaves of a run of items and of leaves that stay.
 *
 * A leaf heavier than `LEAF_BYTES_MAX` holds one item; no two neighbours, one of them lighter than `LEAF_BYTES_MIN`,
 * would fit into one leaf. Both hold for every list of leaves that a packer made.
 */
export class Packer {
  readonly #leaves: Leaf[] = [];
  readonly #meter: Meter;
  #items: Item[] = [];
  /** Of each item in `#items`; `#weight` is their sum. */
  #weights: number[] = [];
  #weight = 0;

  constructor(meter: Meter) {
    this.#meter = meter;
  }

  /** The next item, in key order. */
  push(item: Item): void {
    const weight = weightOf(item);
    this.#items.push(item);
    this.#weights.push(weight);
    this.#weight += weight;
    while (this.#weight > LEAF_BYTES_MAX && this.#items.length > 1) this.#cut(this.#fitting());
  }

  /** The next leaf as it is. */
  keep(leaf: Leaf): void {
    this.#flush();
    this.#append(leaf);
  }

  /** All leaves. */
  finish(): Leaf[] {
    this.#flush();
    return this.#leaves;
  }

  /** How many items from the front make a leaf of the usual weight: at least one, and never all. */
  #fitting(): number {
    let count = 1;
    let weight = this.#weights[0]!;
    while (count < this.#items.length - 1 && weight + this.#weights[count]! <= LEAF_BYTES)
      weight += this.#weights[count++]!;
    return count;
  }

  #flush(): void {
    if (this.#items.length > 0) this.#cut(this.#items.length);
  }

  #cut(count: number): void {
    let weight = 0;
    for (const each of this.#weights.splice(0, count)) weight += each;
    this.#weight -= weight;
    this.#append(new Leaf(this.#items.splice(0, count), this.#meter, weight - count * ENTRY_FRAME_BYTES));
  }

  #append(next: Leaf): void {
    let leaf = next;
    for (let last = this.#leaves.at(-1); last !== undefined && joinable(last, leaf); last = this.#leaves.at(-1)) {
      this.#leaves.pop();
      leaf = new Leaf([...last.items, ...leaf.items], this.#meter, last.textBytes + leaf.textBytes);
    }
    this.#leaves.push(leaf);
  }
}

function joinable(a: Leaf, b: Leaf): boolean {
  const [x, y] = [leafWeight(a), leafWeight(b)];
  return x + y <= LEAF_BYTES_MAX && Math.min(x, y) < LEAF_BYTES_MIN;
}
