import { enlarged } from './columns.ts';
import { ITEM_BYTES_MAX } from './intake.ts';
import type { Rows } from './rows.ts';
import { ITEM_HEAD, Page, type PageRules, type Side } from './page.ts';
import { secondsLeft, secondsSince, slotBytes } from './slot.ts';

/** A page is full with so many bytes: one write of a delivery. */
export const PAGE_BYTES: number = 60 * 1024;
/** An item with its duration is never larger than this, and one goes in whole into a page that is not full. */
const SCRATCH_BYTES_MORE: number = ITEM_BYTES_MAX + 128;

const COMMA = 0x2c;

/** How items become pages. */
export interface BuildOptions {
  readonly rows: Rows;
  readonly side: Side;
  /** Without the uuid, as in live answers. */
  readonly live?: boolean;
  /** Unix time in milliseconds, for the width of durations. */
  readonly nowMs: number;
  /** A page is full with so many bytes, or items. */
  readonly fullBytes: number;
  readonly fullItems: number;
}

/** So many items are most pages' worth. */
const ITEMS_BEGIN = 512;

/** Columns that grow, of the page that is being filled. */
class Columns {
  ids = new Float64Array(ITEMS_BEGIN);
  rows = new Uint32Array(ITEMS_BEGIN);
  untilMs = new Float64Array(ITEMS_BEGIN);
  slots = new Uint32Array(ITEMS_BEGIN);
  widths = new Uint8Array(ITEMS_BEGIN);

  grow(): void {
    const length = 2 * this.ids.length;
    this.ids = enlarged(this.ids, length);
    this.rows = enlarged(this.rows, length);
    this.untilMs = enlarged(this.untilMs, length);
    this.slots = enlarged(this.slots, length);
    this.widths = enlarged(this.widths, length);
  }
}

/**
 * Packs items, in the order in which they are added, into pages. The digits of their durations are left to the pages,
 * which write them when they are given out.
 */
export class PageBuilder {
  readonly #pages: Page[] = [];
  readonly #o: BuildOptions;
  readonly #rules: PageRules;
  readonly #columns = new Columns();
  #scratch: Uint8Array;
  #used = 0;
  #count = 0;

  constructor(o: BuildOptions, rules: PageRules) {
    this.#o = o;
    this.#rules = rules;
    this.#scratch = new Uint8Array(o.fullBytes < PAGE_BYTES ? o.fullBytes : PAGE_BYTES + SCRATCH_BYTES_MORE);
  }

  add(row: number): void {
    const { rows, live } = this.#o;
    const untilMs = rows.untilMs[row]!;
    const width = widthOf(untilMs, this.#o);
    // to add up what an item takes costs as much as to write it
    if (this.#used + SCRATCH_BYTES_MORE > this.#scratch.length) this.#reserve(itemBytes(row, this.#o));
    const slot = this.#begin(rows.id[row]!, row, untilMs);
    this.#columns.widths[this.#count++] = width;
    for (let byte = 0; byte < ITEM_HEAD.length; byte++)
      this.#scratch[slot - ITEM_HEAD.length + byte] = ITEM_HEAD[byte]!;
    const text = slot + width + 1;
    this.#used = live === true ? rows.copyTextLive(row, this.#scratch, text) : rows.copyText(row, this.#scratch, text);
    this.#endPageWhenFull();
  }

  /** An item as another page has it. */
  addFrom(page: Page, at: number): void {
    this.#reserve(page.itemEnd(at) - page.itemStart(at) + 1);
    const slot = this.#begin(page.ids[at]!, page.rows[at]!, page.untilMs[at]!);
    this.#columns.widths[this.#count++] = page.width(at);
    this.#used = page.copyItem(at, this.#scratch, slot - ITEM_HEAD.length);
    this.#endPageWhenFull();
  }

  /** Takes over a whole page as it is. */
  share(page: Page): void {
    this.#endPage();
    this.#pages.push(page);
  }

  /** Ends the page that is being filled, and answers all. */
  finish(): Page[] {
    this.#endPage();
    return this.#pages;
  }

  #endPage(): void {
    const count = this.#count;
    if (count === 0) return;
    const { ids, rows, untilMs, slots, widths } = this.#columns;
    const parts = {
      side: this.#o.side,
      bytes: this.#scratch.slice(0, this.#used),
      ids: ids.slice(0, count),
      rows: rows.slice(0, count),
      untilMs: untilMs.slice(0, count),
      slots: slots.slice(0, count),
      widths: widths.slice(0, count),
    };
    this.#pages.push(new Page(parts, this.#rules));
    const { meter } = this.#rules;
    meter.builtBytes = (meter.builtBytes ?? 0) + this.#used;
    this.#used = 0;
    this.#count = 0;
  }

  #reserve(bytes: number): void {
    if (this.#used + bytes <= this.#scratch.length) return;
    this.#scratch = enlarged(this.#scratch, 2 * (this.#used + bytes));
  }

  /** Begins an item; answers where the digits of its duration go. */
  #begin(id: number, row: number, untilMs: number): number {
    if (this.#used > 0) this.#scratch[this.#used++] = COMMA;
    if (this.#count === this.#columns.ids.length) this.#columns.grow();
    const slot = this.#used + ITEM_HEAD.length;
    this.#columns.ids[this.#count] = id;
    this.#columns.rows[this.#count] = row;
    this.#columns.untilMs[this.#count] = untilMs;
    this.#columns.slots[this.#count] = slot;
    return slot;
  }

  #endPageWhenFull(): void {
    if (this.#used >= this.#o.fullBytes || this.#count >= this.#o.fullItems) this.#endPage();
  }
}

/** How many bytes a row's item takes, with its comma. */
export function itemBytes(row: number, o: BuildOptions): number {
  const text = o.live === true ? o.rows.textBytesLive(row) : o.rows.textBytes(row);
  return ITEM_HEAD.length + widthOf(o.rows.untilMs[row]!, o) + 1 + text + 1;
}

function widthOf(untilMs: number, { side, nowMs }: BuildOptions): number {
  return slotBytes(side === 'new' ? secondsLeft(untilMs, nowMs) : secondsSince(untilMs, nowMs));
}
