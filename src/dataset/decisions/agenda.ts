import type { Pace } from '../pace.ts';
import { enlarged } from './columns.ts';

/**
 * When something has to be done about each row: a binary heap that knows where each row stands in it, so that a moment
 * can be changed. Each row has one: its end, or earlier the moment at which its later end is told; once removed, the
 * moment at which it is forgotten.
 */
export class Agenda {
  #at = new Float64Array(0);
  /** Where a row stands in the heap, plus one; 0: nowhere. */
  #place = new Int32Array(0);
  #heap = new Int32Array(0);
  #size = 0;

  get bytes(): number {
    return this.#at.length * 16;
  }

  async grow(capacity: number, pace: Pace): Promise<void> {
    this.#at = enlarged(this.#at, capacity);
    if (pace.due()) await pace.pause();
    this.#place = enlarged(this.#place, capacity);
    this.#heap = enlarged(this.#heap, capacity);
  }

  /** The next moment; Infinity when nothing is to be done. */
  get nextMs(): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : (this.#at[this.#heap[0] as number] as number);
  }

  /** The moment of a row that has one. */
  momentOf(row: number): number {
    return this.#at[row] as number;
  }

  set(row: number, atMs: number): void {
    this.#at[row] = atMs;
    let place = (this.#place[row] as number) - 1;
    if (place < 0) place = this.#size++;
    this.#rise(this.#sink(place, row), row);
  }

  drop(row: number): void {
    const place = (this.#place[row] as number) - 1;
    if (place < 0) return;
    this.#place[row] = 0;
    this.#size--;
    const last = this.#heap[this.#size] as number;
    if (place < this.#size) this.#rise(this.#sink(place, last), last);
  }

  /** The row whose moment comes next, taken out. There must be one. */
  pop(): number {
    const row = this.#heap[0] as number;
    this.drop(row);
    return row;
  }

  /** Puts a row at this place, or below it where those beneath are earlier. */
  #sink(from: number, row: number): number {
    const heap = this.#heap;
    const moment = this.#at[row] as number;
    let place = from;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= this.#size) break;
      const right = child + 1;
      if (right < this.#size && this.#momentAt(right) < this.#momentAt(child)) child = right;
      // what stands at `from` itself is replaced, and may be anything
      if (this.#momentAt(child) >= moment) break;
      this.#put(place, heap[child] as number);
      place = child;
    }
    this.#put(place, row);
    return place;
  }

  #rise(from: number, row: number): void {
    const moment = this.#at[row] as number;
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (this.#momentAt(parent) <= moment) break;
      this.#put(place, this.#heap[parent] as number);
      place = parent;
    }
    this.#put(place, row);
  }

  #momentAt(place: number): number {
    return this.#at[this.#heap[place] as number] as number;
  }

  #put(place: number, row: number): void {
    this.#heap[place] = row;
    this.#place[row] = place + 1;
  }
}
