import { type BuildOptions, itemBytes, PageBuilder } from './page-builder.ts';
import type { Page, PageRules } from './page.ts';

/** A page with more is split. */
const PAGE_BYTES_MAX = 64 * 1024;
/** A page with less joins its neighbour, when it is written anyway. */
const PAGE_BYTES_MIN = 16 * 1024;

/** An item that may have changed: by id, and by row, since an id can come again while a tombstone still has it. */
export interface Op {
  readonly id: number;
  readonly row: number;
  /** Whether the run is to have it. */
  readonly wanted: boolean;
}

/** An item of an old page, or a row that is new. */
type Source = { readonly page: Page; readonly at: number } | { readonly page: undefined; readonly row: number };

/**
 * Pages of one array, in order of id, with some items changed: pages without a change are the same objects as before.
 *
 * ```
 *  before   [ A ][ B ][ C ]          op in B                B + op ─► [ B' ]         up to 64 KiB
 *                                                                     [ B' ][ B" ]   beyond it
 *  after    [ A ][ B'][ C ]                                           [ B'+C ]       below 16 KiB
 * ```
 */
export class RunChange {
  readonly #before: readonly Page[];
  readonly #ops: readonly Op[];
  readonly #options: BuildOptions;
  readonly #rules: PageRules;
  readonly #after: Page[] = [];
  #op = 0;
  /** Items that are to become pages, and the bytes that they take at most. */
  #segment: Source[] = [];
  #segmentBytes = 0;

  constructor(before: readonly Page[], ops: Op[], options: BuildOptions, rules: PageRules) {
    this.#before = before;
    this.#ops = ops.sort((a, b) => a.id - b.id || a.row - b.row);
    this.#options = options;
    this.#rules = rules;
  }

  /** The pages after the change; yields once per page. */
  *work(): Generator<void, readonly Page[], void> {
    if (this.#ops.length === 0) return this.#before;
    for (let at = 0; at < this.#before.length; at++) {
      const page = this.#before[at]!;
      this.#page(page, this.#opsUpTo(this.#before[at + 1]));
      yield;
    }
    if (this.#before.length === 0) this.#append(this.#ops);
    this.#flush(true);
    return this.#after;
  }

  /** The ops for a page: those before the page that follows it. */
  #opsUpTo(following: Page | undefined): readonly Op[] {
    const first = this.#op;
    while (this.#op < this.#ops.length && (following === undefined || isBefore(this.#ops[this.#op]!, following)))
      this.#op++;
    return this.#ops.slice(first, this.#op);
  }

  #page(page: Page, ops: readonly Op[]): void {
    const changing = ops.filter((op) => this.#changes(page, op));
    if (changing.length > 0) return this.#merge(page, changing);
    if (this.#isSmall()) return this.#merge(page, []);
    this.#flush(false);
    this.#after.push(page);
  }

  #changes(page: Page, op: Op): boolean {
    const at = indexOf(page, op);
    if (at === -1) return op.wanted;
    // a row's text never changes
    return !op.wanted || page.untilMs[at] !== this.#options.rows.untilMs[op.row];
  }

  #isSmall(): boolean {
    if (this.#segment.length === 0) return false;
    return this.#segmentBytes < PAGE_BYTES_MIN && this.#segment.length <= this.#options.fullItems / 4;
  }

  #merge(page: Page, ops: readonly Op[]): void {
    // a segment that is large enough goes first, so that pages keep their borders
    if (this.#segment.length > 0 && !this.#isSmall()) this.#flush(false);
    let next = 0;
    for (let at = 0; at < page.count; at++) {
      for (; next < ops.length && compare(ops[next]!, page, at) < 0; next++) this.#append([ops[next]!]);
      if (next < ops.length && compare(ops[next]!, page, at) === 0) this.#append([ops[next++]!]);
      else this.#keep(page, at);
    }
    this.#append(ops.slice(next));
  }

  #keep(page: Page, at: number): void {
    this.#segment.push({ page, at });
    this.#segmentBytes += page.itemEnd(at) - page.itemStart(at) + 1;
  }

  #append(ops: readonly Op[]): void {
    for (const { row, wanted } of ops) {
      if (!wanted) continue;
      this.#segment.push({ page: undefined, row });
      this.#segmentBytes += itemBytes(row, this.#options);
    }
  }

  /** Makes pages of the segment: even ones, or at the end of the run full ones, since new ids are the highest. */
  #flush(last: boolean): void {
    if (last) this.#takeBackSmall();
    if (this.#segment.length === 0) return;
    const { fullBytes, fullItems } = this.#options;
    const parts = Math.max(Math.ceil(this.#segmentBytes / PAGE_BYTES_MAX), Math.ceil(this.#segment.length / fullItems));
    const even = {
      fullBytes: last ? fullBytes : Math.ceil(this.#segmentBytes / parts),
      fullItems: last ? fullItems : Math.ceil(this.#segment.length / parts),
    };
    const builder = new PageBuilder({ ...this.#options, ...even }, this.#rules);
    for (const source of this.#segment) {
      if (source.page === undefined) builder.add(source.row);
      else builder.addFrom(source.page, source.at);
    }
    this.#after.push(...builder.finish());
    this.#segment = [];
    this.#segmentBytes = 0;
  }

  /** The last page has no neighbour behind it: a small one joins the page before it. */
  #takeBackSmall(): void {
    const previous = this.#after.at(-1);
    const { fullBytes, fullItems } = this.#options;
    if (previous === undefined || !this.#isSmall()) return;
    // no more than a page can keep, or it would be taken back again and again
    if (previous.length + this.#segmentBytes > fullBytes || previous.count + this.#segment.length > fullItems) return;
    this.#after.pop();
    const rest = this.#segment;
    const restBytes = this.#segmentBytes;
    this.#segment = [];
    for (let at = 0; at < previous.count; at++) this.#keep(previous, at);
    this.#segment.push(...rest);
    this.#segmentBytes += restBytes;
  }
}

/** Where a page has an item; -1: nowhere. */
function indexOf(page: Page, op: Op): number {
  let low = 0;
  let high = page.count - 1;
  while (low <= high) {
    const middle = (low + high) >>> 1;
    const order = compare(op, page, middle);
    if (order === 0) return middle;
    if (order < 0) high = middle - 1;
    else low = middle + 1;
  }
  return -1;
}

function isBefore(op: Op, page: Page): boolean {
  return compare(op, page, 0) < 0;
}

function compare(op: Op, page: Page, at: number): number {
  return op.id - page.ids[at]! || op.row - page.rows[at]!;
}
