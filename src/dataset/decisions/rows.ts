import type { Pace } from '../pace.ts';
import { Arena } from './arena.ts';
import { enlarged } from './columns.ts';
import { textOfJson } from './json-text.ts';
import { Names } from './names.ts';

/** Shown ids of source k begin at k times this: a source's own ids are below it. */
export const IDS_PER_SOURCE: number = 2 ** 40;

const BLOCK_BITS = 18;
const NAMES_MAX = 65_536;
const SCENARIOS_MAX = 2 ** 31;
const ID = Buffer.from(',"id":');
const UUID = Buffer.from(',"uuid":"');
const VALUE = Buffer.from('","value":"');
const VALUE_LIVE = Buffer.from(',"value":"');
const END = Buffer.from('"}');
const ZERO = 0x30;
const decoder = new TextDecoder();

/** A row's own texts, as they stand in JSON: `uuidBytes` of uuid, then `valueBytes` of value, from `at` on. */
export interface RowText {
  readonly bytes: Uint8Array;
  readonly at: number;
  readonly uuidBytes: number;
  readonly valueBytes: number;
}

/** What a row is made with, beside its texts. Names are numbers of {@link Rows}, each taken once for this row. */
export interface RowHead {
  readonly source: number;
  /** The source's own. */
  readonly id: number;
  readonly untilMs: number;
  readonly origin: number;
  readonly scenario: number;
  readonly scope: number;
  readonly type: number;
  readonly simulated: number;
}

function copy(from: Uint8Array, into: Uint8Array, at: number): number {
  for (let byte = 0; byte < from.length; byte++) into[at + byte] = from[byte] as number;
  return at + from.length;
}

function digitsOf(whole: number): number {
  let digits = 1;
  for (let bound = 10; whole >= bound; bound *= 10) digits++;
  return digits;
}

/**
 * All decisions, live and removed, one row each, in columns; the rows of a group and the groups of a place are chained.
 *
 *      row │ id  untilMs  …  origin ─► names    group  next        group │ groupHead  groupNext
 *     ─────┼──────────────────────────────────────────────        ───────┼─────────────────────
 *        0 │ 7                                      0     2           0  │  0 ─► row      -1
 *        1 │ 8                                      1    -1           1  │  1             -1
 *        2 │ 9                                      0    -1
 *
 * Columns are replaced when they grow: read the property again after every await. Whoever writes them is the ledger.
 */
export class Rows {
  /** Shown id: the source's own, plus 2^40 times the number of the source. */
  id: Float64Array = new Float64Array(0);
  untilMs: Float64Array = new Float64Array(0);
  /** The end that bouncers have been told of this row, or of the row that this one renews; earlier than `untilMs` while the later end is held back. */
  toldMs: Float64Array = new Float64Array(0);
  /** The commit that brought it; 0: this number is not in use. */
  added: Float64Array = new Float64Array(0);
  /** A bouncer at this offset or later knows `toldMs` of it, or (removed rows) that it is gone. */
  touched: Float64Array = new Float64Array(0);
  /** The commit in which it last changed in any way that a full copy shows, a later end that is held back included. */
  changed: Float64Array = new Float64Array(0);
  /** The commit that removed it; 0: live. */
  removed: Float64Array = new Float64Array(0);
  origin: Uint16Array = new Uint16Array(0);
  scenario: Uint32Array = new Uint32Array(0);
  scope: Uint16Array = new Uint16Array(0);
  type: Uint16Array = new Uint16Array(0);
  simulated: Uint8Array = new Uint8Array(0);
  source: Uint8Array = new Uint8Array(0);
  group: Int32Array = new Int32Array(0);
  /** The next row of the same group; -1: none. */
  next: Int32Array = new Int32Array(0);
  /** By group: its first row; -1: this number is not in use. */
  groupHead: Int32Array = new Int32Array(0);
  /** By group: the next one at the same address or of the same value; -1: none. */
  groupNext: Int32Array = new Int32Array(0);
  readonly origins: Names = new Names('origin', NAMES_MAX);
  readonly scenarios: Names = new Names('scenario', SCENARIOS_MAX);
  readonly scopes: Names = new Names('scope', NAMES_MAX);
  readonly types: Names = new Names('type', NAMES_MAX);

  #place: Uint32Array = new Uint32Array(0);
  #uuidBytes: Uint16Array = new Uint16Array(0);
  #valueBytes: Uint16Array = new Uint16Array(0);
  #free: Int32Array = new Int32Array(0);
  readonly #texts = new Arena(BLOCK_BITS);
  #size = 0;
  #freeCount = 0;
  #capacity = 0;
  #order: () => Uint32Array = () => new Uint32Array(0);

  /** Row numbers are below it. */
  get size(): number {
    return this.#size;
  }

  /** How many rows are in use, live and removed. */
  get used(): number {
    return this.#size - this.#freeCount;
  }

  get bytes(): number {
    return (
      this.#capacity * 92 +
      this.groupHead.length * 8 +
      this.#texts.bytes +
      this.origins.bytes +
      this.scenarios.bytes +
      this.scopes.bytes +
      this.types.bytes
    );
  }

  /** Whether a reader at this offset sees the row as live. */
  visible(row: number, offset: number): boolean {
    const added = this.added[row] as number;
    if (added === 0 || added > offset) return false;
    const removed = this.removed[row] as number;
    return removed === 0 || removed > offset;
  }

  /** All rows, live and removed, by shown id. */
  order(): Uint32Array {
    return this.#order();
  }

  /** Bytes that {@link copyText} writes. */
  textBytes(row: number): number {
    const uuidBytes = this.#uuidBytes[row] as number;
    const uuid = uuidBytes === 0 ? VALUE_LIVE.length : UUID.length + uuidBytes + VALUE.length;
    return this.#headBytes(row) + uuid + (this.#valueBytes[row] as number) + END.length;
  }

  /** Bytes that {@link copyTextLive} writes. */
  textBytesLive(row: number): number {
    return this.#headBytes(row) + VALUE_LIVE.length + (this.#valueBytes[row] as number) + END.length;
  }

  /**
   * Writes the item from behind its duration on, `,"id":1,"origin":…,"uuid":"…","value":"…"}`, as Go's encoder does.
   *
   * @returns where it ends
   */
  copyText(row: number, into: Uint8Array, at: number): number {
    const uuidBytes = this.#uuidBytes[row] as number;
    if (uuidBytes === 0) return this.copyTextLive(row, into, at);
    let to = copy(UUID, into, this.#copyHead(row, into, at));
    const block = this.#texts.block(this.#place[row] as number);
    let from = this.#texts.offset(this.#place[row] as number);
    const value = from + uuidBytes;
    while (from < value) into[to++] = block[from++] as number;
    to = copy(VALUE, into, to);
    const end = value + (this.#valueBytes[row] as number);
    while (from < end) into[to++] = block[from++] as number;
    return copy(END, into, to);
  }

  /** As {@link copyText}, without the uuid: the form that live look-ups have. */
  copyTextLive(row: number, into: Uint8Array, at: number): number {
    let to = copy(VALUE_LIVE, into, this.#copyHead(row, into, at));
    const place = this.#place[row] as number;
    const block = this.#texts.block(place);
    let from = this.#texts.offset(place) + (this.#uuidBytes[row] as number);
    const end = from + (this.#valueBytes[row] as number);
    while (from < end) into[to++] = block[from++] as number;
    return copy(END, into, to);
  }

  /** What {@link copyText} writes. */
  text(row: number): string {
    const bytes = Buffer.allocUnsafe(this.textBytes(row));
    this.copyText(row, bytes, 0);
    return bytes.toString();
  }

  /** What {@link copyTextLive} writes. */
  textLive(row: number): string {
    const bytes = Buffer.allocUnsafe(this.textBytesLive(row));
    this.copyTextLive(row, bytes, 0);
    return bytes.toString();
  }

  valueOf(row: number): string {
    const place = this.#place[row] as number;
    return this.#decode(place, this.#uuidBytes[row] as number, this.#valueBytes[row] as number);
  }

  /** Empty when the source gave none. */
  uuidOf(row: number): string {
    return this.#decode(this.#place[row] as number, 0, this.#uuidBytes[row] as number);
  }

  /** The row's own texts where they lie. They may move: not to be kept across an await. */
  textOf(row: number): RowText {
    const place = this.#place[row] as number;
    const valueBytes = this.#valueBytes[row] as number;
    const uuidBytes = this.#uuidBytes[row] as number;
    return { bytes: this.#texts.block(place), at: this.#texts.offset(place), uuidBytes, valueBytes };
  }

  /** Whether the row's value, as it stands in JSON, is these bytes. */
  hasValue(row: number, bytes: Uint8Array, at: number, length: number): boolean {
    return this.#valueBytes[row] === length && this.#equals(row, this.#uuidBytes[row] as number, { bytes, at, length });
  }

  /** Whether the row's uuid and value are these. */
  hasText(row: number, { bytes, at, uuidBytes, valueBytes }: RowText): boolean {
    if (this.#uuidBytes[row] !== uuidBytes || this.#valueBytes[row] !== valueBytes) return false;
    return this.#equals(row, 0, { bytes, at, length: uuidBytes + valueBytes });
  }

  #decode(place: number, skip: number, length: number): string {
    const from = this.#texts.offset(place) + skip;
    return textOfJson(decoder.decode(this.#texts.block(place).subarray(from, from + length)));
  }

  #equals(row: number, skip: number, other: { bytes: Uint8Array; at: number; length: number }): boolean {
    const place = this.#place[row] as number;
    const block = this.#texts.block(place);
    const from = this.#texts.offset(place) + skip;
    const { bytes, at, length } = other;
    for (let byte = 0; byte < length; byte++) if (block[from + byte] !== bytes[at + byte]) return false;
    return true;
  }

  #headBytes(row: number): number {
    return (
      ID.length +
      digitsOf(this.id[row] as number) +
      this.origins.pieceBytes(this.origin[row] as number) +
      this.scenarios.pieceBytes(this.scenario[row] as number) +
      this.scopes.pieceBytes(this.scope[row] as number) +
      this.types.pieceBytes(this.type[row] as number)
    );
  }

  #copyHead(row: number, into: Uint8Array, at: number): number {
    let to = copy(ID, into, at);
    let rest = this.id[row] as number;
    const end = to + digitsOf(rest);
    for (let digit = end - 1; digit >= to; digit--) {
      const tenth = Math.floor(rest / 10);
      into[digit] = ZERO + (rest - tenth * 10);
      rest = tenth;
    }
    to = this.origins.copyPiece(this.origin[row] as number, into, end);
    to = this.scenarios.copyPiece(this.scenario[row] as number, into, to);
    to = this.scopes.copyPiece(this.scope[row] as number, into, to);
    return this.types.copyPiece(this.type[row] as number, into, to);
  }

  // From here on: for the ledger only.

  get capacity(): number {
    return this.#capacity;
  }

  /** Rows that can be made without growing. */
  get room(): number {
    return this.#capacity - this.used;
  }

  /** How {@link order} is answered. */
  orderBy(order: () => Uint32Array): void {
    this.#order = order;
  }

  /** Makes room for so many rows, a column at a time. */
  async grow(capacity: number, pace: Pace): Promise<void> {
    const wide = ['id', 'untilMs', 'toldMs', 'added', 'touched', 'changed', 'removed'] as const;
    for (const name of wide) {
      this[name] = enlarged(this[name], capacity);
      if (pace.due()) await pace.pause();
    }
    this.group = enlarged(this.group, capacity);
    this.next = enlarged(this.next, capacity);
    this.scenario = enlarged(this.scenario, capacity);
    if (pace.due()) await pace.pause();
    for (const name of ['origin', 'scope', 'type'] as const) this[name] = enlarged(this[name], capacity);
    for (const name of ['simulated', 'source'] as const) this[name] = enlarged(this[name], capacity);
    if (pace.due()) await pace.pause();
    this.#place = enlarged(this.#place, capacity);
    this.#free = enlarged(this.#free, capacity);
    this.#uuidBytes = enlarged(this.#uuidBytes, capacity);
    this.#valueBytes = enlarged(this.#valueBytes, capacity);
    this.#capacity = capacity;
  }

  /** Makes a row that nobody sees yet: `added` is for the caller to set. There must be room. */
  make(head: RowHead, text: RowText): number {
    const row = this.#freeCount > 0 ? (this.#free[--this.#freeCount] as number) : this.#size++;
    this.id[row] = head.id + head.source * IDS_PER_SOURCE;
    this.untilMs[row] = head.untilMs;
    this.toldMs[row] = head.untilMs;
    this.origin[row] = head.origin;
    this.scenario[row] = head.scenario;
    this.scope[row] = head.scope;
    this.type[row] = head.type;
    this.simulated[row] = head.simulated;
    this.source[row] = head.source;
    this.#uuidBytes[row] = text.uuidBytes;
    this.#valueBytes[row] = text.valueBytes;
    this.#place[row] = this.#texts.put(text.bytes, text.at, text.uuidBytes + text.valueBytes);
    return row;
  }

  /** Lets go of what the row holds. Its number is used again only after {@link reuse}. */
  clear(row: number): void {
    this.added[row] = 0;
    this.removed[row] = 0;
    this.touched[row] = 0;
    this.changed[row] = 0;
    this.origins.drop(this.origin[row] as number);
    this.scenarios.drop(this.scenario[row] as number);
    this.scopes.drop(this.scope[row] as number);
    this.types.drop(this.type[row] as number);
    this.#texts.free(this.#place[row] as number, this.#textLength(row));
  }

  reuse(row: number): void {
    this.#free[this.#freeCount++] = row;
  }

  /** Whether the texts take so much more than they hold that moving them together is worth it. */
  get scattered(): boolean {
    return this.#texts.idleBytes > Math.max(4 * 2 ** BLOCK_BITS, this.#texts.bytes / 2);
  }

  /** Moves texts out of blocks that hold little. */
  async gather(pace: Pace): Promise<void> {
    const sparse = this.#texts.sparse();
    for (let row = 0; row < this.#size; row++) {
      const place = this.#place[row] as number;
      if (this.added[row] !== 0 && sparse[this.#texts.blockNumber(place)] === 1) {
        const length = this.#textLength(row);
        this.#place[row] = this.#texts.put(this.#texts.block(place), this.#texts.offset(place), length);
        this.#texts.free(place, length);
      }
      if (pace.due()) await pace.pause();
    }
  }

  #textLength(row: number): number {
    return (this.#uuidBytes[row] as number) + (this.#valueBytes[row] as number);
  }
}
