import { Edition } from './edition.ts';
import { buildOptions, type Making } from './full.ts';
import { itemBytes, PageBuilder } from './page-builder.ts';
import type { Page, Side } from './page.ts';
import { SmallAnswer } from './small.ts';
import { type GroupReader, inOrder } from './survivors.ts';
import { ROWS_PER_STEP, type Work } from './work.ts';

/** The rows of an answer. */
export interface Found {
  readonly fresh: number[];
  readonly gone: number[];
  /** What they take at most. */
  bytes: number;
}

/**
 * What a delta from a cursor tells, group by group:
 *
 * ```
 *  live rows?  yes ─► the survivor, if it was touched since, or a row that would have lasted longer was removed since
 *              no  ─► deleted, if one was removed since
 * ```
 *
 * So a group is never in both. Without dedup all rows that were touched, and all that were removed.
 *
 * @param groupsTouched - groups with a row that was logged since; each once
 */
export function* findDelta(making: Making, from: number, groupsTouched: Iterable<number>): Work<Found> {
  const found: Found = { fresh: [], gone: [], bytes: 0 };
  let steps = 0;
  for (const group of groupsTouched) {
    making.groups.read(group);
    if (making.groups.survivor !== -1) addFresh(making, from, group, found);
    else if (making.groups.longestGoneSince !== -1) addGone(making, from, group, found);
    if (++steps % ROWS_PER_STEP === 0) yield;
  }
  found.bytes = (yield* bytesOf(making, 'new', found.fresh)) + (yield* bytesOf(making, 'deleted', found.gone));
  return found;
}

function* bytesOf(making: Making, side: Side, found: readonly number[]): Work<number> {
  const options = buildOptions(making, side);
  let bytes = 0;
  for (let at = 0; at < found.length; at++) {
    bytes += itemBytes(found[at]!, options);
    if (at % ROWS_PER_STEP === 0) yield;
  }
  return bytes;
}

function addFresh({ groups, dedup }: Making, from: number, group: number, found: Found): void {
  const { rows, survivor } = groups;
  // whoever knew the longer one must not keep it
  const wanted = rows.touched[survivor]! > from || outlives(groups);
  if (wanted) found.fresh.push(survivor);
  if (dedup) return;
  for (let row = rows.groupHead[group]!; row !== -1; row = rows.next[row]!) {
    if (row !== survivor && rows.touched[row]! > from && groups.isLive(row)) found.fresh.push(row);
  }
}

function outlives({ rows, survivor, longestGoneSince }: GroupReader): boolean {
  return longestGoneSince !== -1 && rows.untilMs[longestGoneSince]! > rows.untilMs[survivor]!;
}

function addGone({ groups, dedup }: Making, from: number, group: number, found: Found): void {
  const { rows, longestGoneSince } = groups;
  found.gone.push(longestGoneSince);
  if (dedup) return;
  for (let row = rows.groupHead[group]!; row !== -1; row = rows.next[row]!) {
    if (row !== longestGoneSince && rows.removed[row]! > from && groups.isGone(row)) found.gone.push(row);
  }
}

/** A small answer from what was found. */
export function* smallAnswer(making: Making, { fresh, gone, bytes }: Found): Work<SmallAnswer> {
  const { offset, rows } = making.groups;
  const pageOf = (side: Side, found: ArrayLike<number>): Page | undefined => {
    if (found.length === 0) return undefined;
    // one page, whatever its size
    const options = { ...buildOptions(making, side), fullBytes: bytes + 1, fullItems: Number.POSITIVE_INFINITY };
    const builder = new PageBuilder(options, making.rules);
    for (let at = 0; at < found.length; at++) builder.add(found[at]!);
    return builder.finish()[0];
  };
  const freshPage = pageOf('new', yield* inOrder(rows, fresh));
  const gonePage = pageOf('deleted', yield* inOrder(rows, gone));
  return new SmallAnswer({ offset, fresh: freshPage, gone: gonePage, list: false });
}

/**
 * A large one, in pages.
 *
 * ```
 *  donor  {"new": [ page A , page B , page C ] …      a full answer, or a delta from another cursor, of the same offset
 *                      x        |        |
 *  delta  {"new": [  own    , page B , page C ] …     pages all of which are wanted are the same objects
 * ```
 *
 * After a bulk import bouncers come with as many cursors as there were commits in one interval between polls, and each wants
 * nearly the same.
 */
export function* makeEdition(making: Making, { fresh, gone }: Found, donor: Edition | undefined): Work<Edition> {
  const { rows, offset } = making.groups;
  return new Edition({
    offset,
    fresh: yield* pagesOf(making, 'new', yield* inOrder(rows, fresh), donor?.fresh),
    gone: yield* pagesOf(making, 'deleted', yield* inOrder(rows, gone), donor?.gone),
    builtAtMs: Math.min(making.nowMs, donor?.builtAtMs ?? making.nowMs),
  });
}

function* pagesOf(
  making: Making,
  side: Side,
  order: ArrayLike<number>,
  shared: readonly Page[] = [],
): Work<readonly Page[]> {
  const builder = new PageBuilder(buildOptions(making, side), making.rules);
  // by its first row, since a page is wanted as a whole or not at all
  const byFirst = new Map(shared.map((page) => [page.rows[0], page]));
  for (let at = 0, steps = 0; at < order.length; steps++) {
    const page = byFirst.get(order[at]!);
    if (page !== undefined && isAllOf(page, order, at)) {
      builder.share(page);
      at += page.count;
    } else builder.add(order[at++]!);
    if (steps % ROWS_PER_STEP === 0) yield;
  }
  return builder.finish();
}

/** Whether the rows from here on are those of the page. Both are of one offset, at which a row is what it was. */
function isAllOf(page: Page, order: ArrayLike<number>, at: number): boolean {
  return page.rows.every((row, next) => row === order[at + next]);
}
