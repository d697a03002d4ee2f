import type { Pace } from '../pace.ts';
import { enlarged } from './columns.ts';
import type { Rows } from './rows.ts';

const ENTRIES_MIN = 1024;

/**
 * Which rows were changed, in order of the commits that did. Of a row only its last entry counts: it is the one whose
 * offset the row has in `changed`; the others stay until the log is made anew.
 *
 *     offset │ 1  1  1  2  4  4  7 ┊ 8  8        staged entries become part of the log with their commit
 *     row    │ 0  1  2  1  9  0  1 ┊ 3  0
 */
export class Log {
  readonly #rows: Rows;
  #offsets = new Float64Array(ENTRIES_MIN);
  #entries = new Int32Array(ENTRIES_MIN);
  #size = 0;
  #staged = 0;

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  get bytes(): number {
    return this.#offsets.length * 12;
  }

  /** Entries after this offset: what {@link eachSince} looks at. */
  entriesSince(offset: number): number {
    return this.#size - this.#indexAfter(offset);
  }

  /**
   * Visits each row that was changed after this offset, once. Among them are rows whose later end is held back: these
   * have a `touched` that may be earlier.
   */
  eachSince(offset: number, visit: (row: number) => void): void {
    for (let index = this.#indexAfter(offset); index < this.#size; index++) {
      const row = this.#entries[index] as number;
      if (this.#rows.changed[row] === this.#offsets[index]) visit(row);
    }
  }

  /** The first rows that are accepted, in order of the commits that changed them, at most so many. */
  first(countMax: number, accepts: (row: number) => boolean): number[] {
    const found: number[] = [];
    for (let index = 0; index < this.#size && found.length < countMax; index++) {
      const row = this.#entries[index] as number;
      if (this.#rows.changed[row] === this.#offsets[index] && accepts(row)) found.push(row);
    }
    return found;
  }

  async reserve(more: number, pace: Pace): Promise<void> {
    const needed = this.#size + more;
    if (needed <= this.#entries.length) return;
    const length = needed + (needed >> 3);
    this.#offsets = enlarged(this.#offsets, length);
    if (pace.due()) await pace.pause();
    this.#entries = enlarged(this.#entries, length);
  }

  /** Adds an entry that nobody sees before {@link commit}. There must be room. */
  stage(offset: number, row: number): void {
    const index = this.#size + this.#staged++;
    this.#offsets[index] = offset;
    this.#entries[index] = row;
  }

  commit(): void {
    this.#size += this.#staged;
    this.#staged = 0;
  }

  /** Whether most entries do not count any more. */
  get scattered(): boolean {
    return this.#size > 2 * this.#rows.used + ENTRIES_MIN;
  }

  /** Leaves out entries that do not count, and those up to `reach`, which no cursor asks for. */
  async gather(reach: number, pace: Pace): Promise<void> {
    const room = this.#size + ENTRIES_MIN;
    const offsets = new Float64Array(room);
    const entries = new Int32Array(room);
    let size = 0;
    for (let index = this.#indexAfter(reach); index < this.#size; index++) {
      const row = this.#entries[index] as number;
      const offset = this.#offsets[index] as number;
      if (this.#rows.changed[row] === offset) {
        offsets[size] = offset;
        entries[size++] = row;
      }
      if (pace.due()) await pace.pause();
    }
    this.#offsets = offsets.slice(0, size + ENTRIES_MIN);
    this.#entries = entries.slice(0, size + ENTRIES_MIN);
    this.#size = size;
  }

  #indexAfter(offset: number): number {
    let low = 0;
    let high = this.#size;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#offsets[middle] as number) <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
