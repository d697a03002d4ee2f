import { Edition } from './edition.ts';
import { type BuildOptions, PageBuilder } from './page-builder.ts';
import type { PageRules, Side } from './page.ts';
import { type Op, RunChange } from './run.ts';
import { allInOrder, type GroupReader } from './survivors.ts';
import { ROWS_PER_STEP, type Work } from './work.ts';

/** What an edition is made with. */
export interface Making {
  readonly groups: GroupReader;
  readonly dedup: boolean;
  /** Unix time in milliseconds. */
  readonly nowMs: number;
  readonly pages: { readonly fullBytes: number; readonly fullItems: number };
  readonly rules: PageRules;
}

/** How pages of one side are built. */
export function buildOptions({ groups, nowMs, pages }: Making, side: Side): BuildOptions {
  return { rows: groups.rows, side, nowMs, ...pages };
}

/**
 * All that a filter lets through: `new` has the live rows, or of each group its survivor; `deleted` has what was removed from
 * groups without a live row, so that a bouncer that was away for long forgets it.
 */
export function* makeFull(making: Making): Work<Edition> {
  const { groups, rules, nowMs } = making;
  const order = yield* allInOrder(groups.rows);
  const fresh = new PageBuilder(buildOptions(making, 'new'), rules);
  const gone = new PageBuilder(buildOptions(making, 'deleted'), rules);
  for (let at = 0; at < order.length; at++) {
    const row = order[at]!;
    if (isFresh(making, row)) fresh.add(row);
    else if (isForgotten(making, row)) gone.add(row);
    if (at % ROWS_PER_STEP === 0) yield;
  }
  return new Edition({ offset: groups.offset, fresh: fresh.finish(), gone: gone.finish(), builtAtMs: nowMs });
}

function isFresh({ groups, dedup }: Making, row: number): boolean {
  return groups.isLive(row) && (!dedup || groups.isSurvivor(row));
}

function isForgotten({ groups, dedup }: Making, row: number): boolean {
  if (!groups.isGone(row)) return false;
  groups.read(groups.rows.group[row]!);
  return groups.survivor === -1 && (!dedup || groups.longestGone === row);
}

/**
 * The same edition at a later offset, from the one before: only pages with rows of groups that were touched are made anew.
 *
 * @param touched - groups with a row that was logged since, each once
 */
export function* advance(before: Edition, making: Making, touched: Iterable<number>): Work<Edition> {
  const { groups, rules } = making;
  const fresh: Op[] = [];
  const gone: Op[] = yield* purged(before, groups);
  let steps = 0;
  for (const group of touched) {
    opsOf(making, group, { fresh, gone });
    if (++steps % ROWS_PER_STEP === 0) yield;
  }
  return new Edition({
    offset: groups.offset,
    fresh: yield* new RunChange(before.fresh, fresh, buildOptions(making, 'new'), rules).work(),
    gone: yield* new RunChange(before.gone, gone, buildOptions(making, 'deleted'), rules).work(),
    builtAtMs: before.builtAtMs,
  });
}

function opsOf(making: Making, group: number, { fresh, gone }: { fresh: Op[]; gone: Op[] }): void {
  const { groups, dedup } = making;
  const { rows } = groups;
  groups.read(group);
  const { survivor, longestGone } = groups;
  for (let row = rows.groupHead[group]!; row !== -1; row = rows.next[row]!) {
    const op = { id: rows.id[row]!, row };
    fresh.push({ ...op, wanted: dedup ? row === survivor : groups.isLive(row) });
    gone.push({ ...op, wanted: survivor === -1 && (dedup ? row === longestGone : groups.isGone(row)) });
  }
}

/**
 * Tombstones that are gone themselves. No log tells of that; and a group that lost its tombstones can get a live row, so that
 * they would stand in `deleted` beside it.
 */
function* purged(before: Edition, { rows }: GroupReader): Generator<void, Op[], void> {
  const ops: Op[] = [];
  for (const page of before.gone) {
    for (let at = 0; at < page.count; at++) {
      const row = page.rows[at]!;
      const id = page.ids[at]!;
      const stands = row < rows.size && rows.id[row] === id && rows.removed[row] !== 0;
      if (!stands) ops.push({ id, row, wanted: false });
    }
    yield;
  }
  return ops;
}
