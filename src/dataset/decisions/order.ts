import type { Pace } from '../pace.ts';
import type { Rows } from './rows.ts';

/** So many are sorted in place: a few microseconds. */
const SORTED_AT_ONCE = 32;

/** Whether rows have a key each that does not fall. */
function isSorted(rows: Uint32Array, keys: Float64Array): boolean {
  for (let at = 1; at < rows.length; at++) {
    if ((keys[rows[at] as number] as number) < (keys[rows[at - 1] as number] as number)) return false;
  }
  return true;
}

function sortInPlace(rows: Uint32Array, keys: Float64Array, begin: number, end: number): void {
  for (let at = begin + 1; at < end; at++) {
    const row = rows[at] as number;
    const key = keys[row] as number;
    let to = at;
    while (to > begin && (keys[rows[to - 1] as number] as number) > key) {
      rows[to] = rows[to - 1] as number;
      to--;
    }
    rows[to] = row;
  }
}

/** Two runs that are sorted each, of `from`: [begin, middle) and [middle, end). */
interface Runs {
  readonly from: Uint32Array;
  readonly into: Uint32Array;
  readonly begin: number;
  readonly middle: number;
  readonly end: number;
}

async function mergeRuns({ from, into, begin, middle, end }: Runs, keys: Float64Array, pace: Pace): Promise<void> {
  let left = begin;
  let right = middle;
  for (let at = begin; at < end; at++) {
    const takeLeft =
      left < middle &&
      (right >= end || (keys[from[left] as number] as number) <= (keys[from[right] as number] as number));
    into[at] = from[takeLeft ? left++ : right++] as number;
    if (pace.due()) await pace.pause();
  }
}

/** Sorts rows by a column, in slices; equal ones stay in the order in which they came. */
export async function sortRows(rows: Uint32Array, keys: Float64Array, pace: Pace): Promise<Uint32Array> {
  if (isSorted(rows, keys)) return rows;
  let from = rows.slice();
  let into = rows.slice();
  for (let begin = 0; begin < rows.length; begin += SORTED_AT_ONCE) {
    sortInPlace(from, keys, begin, Math.min(begin + SORTED_AT_ONCE, rows.length));
    if (pace.due()) await pace.pause();
  }
  for (let run = SORTED_AT_ONCE; run < rows.length; run *= 2) {
    for (let begin = 0; begin < rows.length; begin += 2 * run) {
      const middle = Math.min(begin + run, rows.length);
      const end = Math.min(begin + 2 * run, rows.length);
      await mergeRuns({ from, into, begin, middle, end }, keys, pace);
    }
    [from, into] = [into, from];
  }
  return from;
}

/**
 * All rows by shown id. Ids mostly rise, so most commits append; any other makes a new array, and who reads the old one
 * may go on. Rows that were cleared stay until then: their numbers are given back only when none of them is left.
 */
export class Order {
  readonly #rows: Rows;
  #sorted: Uint32Array = new Uint32Array(0);
  #size = 0;
  #view = this.#sorted;
  #cleared: number[] = [];

  constructor(rows: Rows) {
    this.#rows = rows;
    rows.orderBy(() => this.#view);
  }

  get bytes(): number {
    return this.#sorted.byteLength;
  }

  /** The row was cleared. */
  cleared(row: number): void {
    this.#cleared.push(row);
  }

  /** Whether rows could be used again that are still in here. */
  get scattered(): boolean {
    return this.#cleared.length > 1024 && this.#cleared.length * 8 > this.#size;
  }

  /** Leaves out cleared rows and gives their numbers back. */
  async gather(pace: Pace): Promise<void> {
    const { added } = this.#rows;
    const kept = new Uint32Array(this.#size);
    let size = 0;
    for (let at = 0; at < this.#size; at++) {
      const row = this.#sorted[at] as number;
      if (added[row] !== 0) kept[size++] = row;
      if (pace.due()) await pace.pause();
    }
    this.#become(kept.slice(0, size), size);
    for (const row of this.#cleared) this.#rows.reuse(row);
    this.#cleared = [];
  }

  /** Adds rows. */
  async add(more: Uint32Array, pace: Pace): Promise<void> {
    const ids = this.#rows.id;
    const sorted = await sortRows(more, ids, pace);
    const last = this.#size === 0 ? -1 : (ids[this.#sorted[this.#size - 1] as number] as number);
    if (sorted.length === 0) return;
    if ((ids[sorted[0] as number] as number) >= last) this.#append(sorted);
    else await this.#merge(sorted, pace);
  }

  #append(rows: Uint32Array): void {
    const size = this.#size + rows.length;
    if (size > this.#sorted.length) {
      const grown = new Uint32Array(size + (size >> 3));
      grown.set(this.#sorted);
      this.#sorted = grown;
    }
    this.#sorted.set(rows, this.#size);
    this.#become(this.#sorted, size);
  }

  async #merge(more: Uint32Array, pace: Pace): Promise<void> {
    const ids = this.#rows.id;
    const old = this.#sorted;
    const size = this.#size + more.length;
    const merged = new Uint32Array(size);
    let left = 0;
    let right = 0;
    for (let at = 0; at < size; at++) {
      const takeLeft =
        left < this.#size &&
        (right >= more.length || (ids[old[left] as number] as number) <= (ids[more[right] as number] as number));
      merged[at] = (takeLeft ? old[left++] : more[right++]) as number;
      if (pace.due()) await pace.pause();
    }
    this.#become(merged, size);
  }

  #become(sorted: Uint32Array, size: number): void {
    this.#sorted = sorted;
    this.#size = size;
    this.#view = sorted.subarray(0, size);
  }
}
