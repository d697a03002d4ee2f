import type { Pace } from '../pace.ts';
import type { Rows } from './rows.ts';

const SLOTS_MIN = 1024;
const GOLDEN = 0x9e37_79b1;

/** Where the search for a shown id begins. Ids that follow each other are spread out by the golden ratio. */
function hashOf(id: number): number {
  const high = Math.imul((id / 2 ** 32) >>> 0, 0x85eb_ca6b);
  return Math.imul((id >>> 0) ^ high, GOLDEN) >>> 0;
}

/**
 * Live rows by shown id: open addressing with linear probing. A slot holds the number of a row plus one, and the row
 * holds the id, so that an entry costs 5 to 11 bytes.
 */
export class RowIndex {
  readonly #rows: Rows;
  #slots = new Int32Array(SLOTS_MIN);
  #shift = 32 - 10;
  #size = 0;

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  get bytes(): number {
    return this.#slots.byteLength;
  }

  /** The live row with this shown id; -1: none. */
  find(id: number): number {
    const { id: ids } = this.#rows;
    const last = this.#slots.length - 1;
    let slot = hashOf(id) >>> this.#shift;
    for (;;) {
      const entry = this.#slots[slot] as number;
      if (entry === 0 || ids[entry - 1] === id) return entry - 1;
      slot = (slot + 1) & last;
    }
  }

  /** Makes room for more entries; whoever looks meanwhile sees what was there. */
  async reserve(more: number, pace: Pace): Promise<void> {
    let length = this.#slots.length;
    while ((this.#size + more) * 10 > length * 7) length *= 2;
    if (length === this.#slots.length) return;
    const slots = new Int32Array(length);
    const shift = Math.clz32(length - 1);
    for (const entry of this.#slots) {
      if (entry !== 0) this.#place(slots, shift, entry);
      if (pace.due()) await pace.pause();
    }
    this.#slots = slots;
    this.#shift = shift;
  }

  /** The row is live now. Its id must not be there; there must be room. */
  add(row: number): void {
    this.#place(this.#slots, this.#shift, row + 1);
    this.#size++;
  }

  /** The row is not live any more. It must be there. */
  remove(row: number): void {
    const { id: ids } = this.#rows;
    const slots = this.#slots;
    const last = slots.length - 1;
    let hole = hashOf(ids[row] as number) >>> this.#shift;
    while (slots[hole] !== row + 1) hole = (hole + 1) & last;
    // whoever was pushed past the hole moves back into it, so that no search stops short of it
    for (let slot = (hole + 1) & last; slots[slot] !== 0; slot = (slot + 1) & last) {
      const home = hashOf(ids[(slots[slot] as number) - 1] as number) >>> this.#shift;
      if (((slot - home) & last) < ((slot - hole) & last)) continue;
      slots[hole] = slots[slot] as number;
      hole = slot;
    }
    slots[hole] = 0;
    this.#size--;
  }

  #place(slots: Int32Array, shift: number, entry: number): void {
    const last = slots.length - 1;
    let slot = hashOf(this.#rows.id[entry - 1] as number) >>> shift;
    while (slots[slot] !== 0) slot = (slot + 1) & last;
    slots[slot] = entry;
  }
}
