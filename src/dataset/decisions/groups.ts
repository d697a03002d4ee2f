import type { Pace } from '../pace.ts';
import { IPV6, readAddress } from './addresses.ts';
import { enlarged } from './columns.ts';
import { jsonText } from './json-text.ts';
import { PrefixTable } from './prefix-table.ts';
import type { Rows } from './rows.ts';
import type { AddressRange } from './types.ts';

const WORDS_V4 = 1;
const WORDS_V6 = 4;

function hashOf(bytes: Uint8Array, at: number, length: number): number {
  let hash = 0x811c_9dc5;
  for (let byte = at; byte < at + length; byte++) hash = Math.imul(hash ^ (bytes[byte] as number), 0x0100_0193);
  return hash >>> 0;
}

/**
 * Rows by (scope, type, value), and these groups by address, or by value where it is none.
 *
 *     10.0.0.0/8 ─► group 4 ─groupNext─► group 9          a place: (family, words, prefix), or the hash of a value
 *                     │ groupHead          │ groupHead
 *                     ▼                    ▼
 *                   row 12 ─next─► 3     row 7
 *
 * Only the scopes Ip and Range have addresses, as in the local API: a user may well be called 10.0.0.1.
 */
export class Groups {
  readonly #rows: Rows;
  readonly #v4 = new PrefixTable(WORDS_V4);
  readonly #v6 = new PrefixTable(WORDS_V6);
  readonly #values = new PrefixTable(WORDS_V4);
  readonly #words = new Uint32Array(WORDS_V6);
  #table = this.#values;
  #prefix = 0;
  #size = 0;
  #used = 0;
  #free = -1;

  constructor(rows: Rows) {
    this.#rows = rows;
    // for as long as the ledger lives: these two have the numbers 0 and 1
    rows.scopes.take('Ip');
    rows.scopes.take('Range');
  }

  /** How many groups are in use. */
  get used(): number {
    return this.#used;
  }

  get bytes(): number {
    return this.#v4.bytes + this.#v6.bytes + this.#values.bytes;
  }

  /** Makes room for more groups of any kind. */
  async reserve(more: number, pace: Pace): Promise<void> {
    const { groupHead, groupNext } = this.#rows;
    if (this.#used + more > groupHead.length) {
      const length = this.#used + more + (this.#used >> 3);
      this.#rows.groupHead = enlarged(groupHead, length);
      this.#rows.groupNext = enlarged(groupNext, length);
    }
    for (const table of [this.#v4, this.#v6, this.#values]) await table.reserve(more, pace);
  }

  /** Puts a row first into its group, which is made when there is none. There must be room. */
  link(row: number): void {
    const rows = this.#rows;
    const { bytes, at, uuidBytes, valueBytes } = rows.textOf(row);
    const scope = rows.scope[row] as number;
    const first = this.#placeOf(scope, bytes, at + uuidBytes, valueBytes);
    let group = first;
    while (group >= 0 && !this.#isOf(group, row)) group = rows.groupNext[group] as number;
    if (group < 0) {
      group = this.#make();
      rows.groupNext[group] = first;
      this.#table.set(this.#words, this.#prefix, group);
      rows.next[row] = -1;
    } else {
      rows.next[row] = rows.groupHead[group] as number;
    }
    rows.groupHead[group] = row;
    rows.group[row] = group;
  }

  /** Takes a row out of its group, which is gone with its last row. */
  unlink(row: number): void {
    const rows = this.#rows;
    const group = rows.group[row] as number;
    const next = rows.next[row] as number;
    const head = rows.groupHead[group] as number;
    if (head === row && next < 0) {
      this.#drop(group, row);
      return;
    }
    if (head === row) {
      rows.groupHead[group] = next;
      return;
    }
    let before = head;
    while (rows.next[before] !== row) before = rows.next[before] as number;
    rows.next[before] = next;
  }

  /** Visits each group at an address: networks that hold all of `range`, the widest first, or those inside it. */
  lookup(range: AddressRange, contains: boolean, visit: (group: number) => void): void {
    for (let word = 0; word < range.words.length; word++) this.#words[word] = range.words[word] as number;
    const table = range.family === 4 ? this.#v4 : this.#v6;
    const each = (first: number): void => {
      for (let group = first; group >= 0; group = this.#rows.groupNext[group] as number) visit(group);
    };
    if (contains) table.around(this.#words, range.prefix, each);
    else table.inside(this.#words, range.prefix, each);
  }

  /** Visits each group of exactly this value, whatever its scope and type. */
  lookupValue(value: string, visit: (group: number) => void): void {
    const bytes = Buffer.from(jsonText(value));
    // as an address (scope 0 is Ip), then as a mere text
    const asAddress = this.#placeOf(0, bytes, 0, bytes.length);
    const asText = this.#table === this.#values ? -1 : this.#placeOf(-1, bytes, 0, bytes.length);
    for (const first of [asAddress, asText]) {
      for (let group = first; group >= 0; group = this.#rows.groupNext[group] as number) {
        const head = this.#rows.groupHead[group] as number;
        if (this.#rows.hasValue(head, bytes, 0, bytes.length)) visit(group);
      }
    }
  }

  /** Sets where a value has its place, and answers the first group there; -1: none. */
  #placeOf(scope: number, bytes: Uint8Array, at: number, length: number): number {
    const address = scope === 0 || scope === 1 ? readAddress(bytes, at, at + length, this.#words) : -1;
    if (address < 0) {
      this.#table = this.#values;
      this.#words[0] = hashOf(bytes, at, length);
      this.#prefix = 0;
    } else {
      this.#table = address >= IPV6 ? this.#v6 : this.#v4;
      this.#prefix = address >= IPV6 ? address - IPV6 : address;
    }
    return this.#table.get(this.#words, this.#prefix);
  }

  #isOf(group: number, row: number): boolean {
    const rows = this.#rows;
    const head = rows.groupHead[group] as number;
    if (rows.scope[head] !== rows.scope[row] || rows.type[head] !== rows.type[row]) return false;
    const { bytes, at, uuidBytes, valueBytes } = rows.textOf(row);
    return rows.hasValue(head, bytes, at + uuidBytes, valueBytes);
  }

  #make(): number {
    this.#used++;
    if (this.#free < 0) return this.#size++;
    const group = this.#free;
    this.#free = this.#rows.groupNext[group] as number;
    return group;
  }

  #drop(group: number, row: number): void {
    const rows = this.#rows;
    const { bytes, at, uuidBytes, valueBytes } = rows.textOf(row);
    const first = this.#placeOf(rows.scope[row] as number, bytes, at + uuidBytes, valueBytes);
    const after = rows.groupNext[group] as number;
    if (first !== group) {
      let before = first;
      while (rows.groupNext[before] !== group) before = rows.groupNext[before] as number;
      rows.groupNext[before] = after;
    } else if (after < 0) {
      this.#table.delete(this.#words, this.#prefix);
    } else {
      this.#table.set(this.#words, this.#prefix, after);
    }
    rows.groupHead[group] = -1;
    rows.groupNext[group] = this.#free;
    this.#free = group;
    this.#used--;
  }
}
