import type { Rows } from './rows.ts';
import { ROWS_PER_STEP, type Work } from './work.ts';

/** Whether a filter lets a row pass. */
export type Matches = (row: number) => boolean;

/**
 * Reads groups (scope, type, value) as one filter sees them at one offset.
 *
 * ```
 *  group ─► row ─► row ─► row        until
 *           live   gone   live       ────────►
 *                         survivor = the live one that lasts longest; of equals the lowest id
 * ```
 *
 * `read` leaves what it found in the fields, so that a group costs no object.
 */
export class GroupReader {
  /** The survivor of the group read last; -1: no live row. */
  survivor = -1;
  /** Of the rows that were removed the one that would have lasted longest; -1: none. */
  longestGone = -1;
  /** The same of those removed after `from`. */
  longestGoneSince = -1;
  readonly rows: Rows;
  readonly offset: number;
  readonly #from: number;
  readonly #matches: Matches;

  /** @param from - the cursor of a delta; where there is none: 0 */
  constructor(rows: Rows, matches: Matches, at: { readonly offset: number; readonly from?: number }) {
    this.rows = rows;
    this.offset = at.offset;
    this.#from = at.from ?? 0;
    this.#matches = matches;
  }

  /** Whether a row is part of the answer, and the filter lets it pass. */
  isLive(row: number): boolean {
    return this.rows.visible(row, this.offset) && this.#matches(row);
  }

  /** Whether a row was removed, and the filter would let it pass. */
  isGone(row: number): boolean {
    const removed = this.rows.removed[row]!;
    return removed !== 0 && removed <= this.offset && this.rows.added[row] !== 0 && this.#matches(row);
  }

  /** Whether a live row is the survivor of its group. */
  isSurvivor(row: number): boolean {
    const { rows } = this;
    const group = rows.group[row]!;
    // nearly every group is one row
    if (rows.groupHead[group] === row && rows.next[row] === -1) return true;
    this.read(group);
    return this.survivor === row;
  }

  read(group: number): void {
    const { rows } = this;
    this.survivor = -1;
    this.longestGone = -1;
    this.longestGoneSince = -1;
    for (let row = rows.groupHead[group]!; row !== -1; row = rows.next[row]!) {
      if (this.isLive(row)) this.survivor = this.#longer(row, this.survivor);
      else if (this.isGone(row)) {
        this.longestGone = this.#longer(row, this.longestGone);
        if (rows.removed[row]! > this.#from) this.longestGoneSince = this.#longer(row, this.longestGoneSince);
      }
    }
  }

  #longer(row: number, other: number): number {
    if (other === -1) return row;
    const { untilMs, id } = this.rows;
    const more = untilMs[row]! - untilMs[other]!;
    return more > 0 || (more === 0 && id[row]! < id[other]!) ? row : other;
  }
}

/** All rows of groups. */
export function rowsOf(rows: Rows, groups: Iterable<number>): number[] {
  const found: number[] = [];
  for (const group of groups) {
    for (let row = rows.groupHead[group]!; row !== -1; row = rows.next[row]!) found.push(row);
  }
  return found;
}

/**
 * All rows by id, and rows of one id by number: an id can come again while a tombstone still has it, and whoever looks for an
 * item in a page must know where.
 */
export function* allInOrder(rows: Rows): Work<Uint32Array> {
  const order = rows.order().slice();
  for (let at = 1; at < order.length; at++) {
    for (let to = at; to > 0 && isBehind(rows, order[to - 1]!, order[to]!); to--) {
      [order[to - 1], order[to]] = [order[to]!, order[to - 1]!];
    }
    if (at % ROWS_PER_STEP === 0) yield;
  }
  return order;
}

function isBehind({ id }: Rows, first: number, second: number): boolean {
  return first > second && id[first] === id[second];
}

/** Beyond this the ledger's own order is looked through: linear, where sorting would block. */
const SORTED_AT_ONCE = 2048;

/** The same of some rows. */
export function* inOrder(rows: Rows, found: number[]): Work<ArrayLike<number>> {
  if (found.length <= SORTED_AT_ONCE) return found.sort((a, b) => rows.id[a]! - rows.id[b]! || a - b);
  const isFound = new Uint8Array(rows.size);
  for (const row of found) isFound[row] = 1;
  const order = yield* allInOrder(rows);
  const sorted = new Uint32Array(found.length);
  let size = 0;
  for (const row of order) if (isFound[row] === 1) sorted[size++] = row;
  return sorted;
}
