import type { Pace } from '../pace.ts';
import { Agenda } from './agenda.ts';
import { enlarged } from './columns.ts';
import { Groups } from './groups.ts';
import { Log } from './log.ts';
import { Order } from './order.ts';
import { RowIndex } from './row-index.ts';
import { Rows } from './rows.ts';
import { Tally } from './tally.ts';

/** What a commit needs to know about each row and group while it is made; all zero in between. */
interface Marks {
  rows: Uint8Array;
  groups: Uint8Array;
}

/** How a ledger behaves. */
export interface Rules {
  readonly refreshMarginMs: number;
  readonly keepExpiredMs: number;
  readonly random: () => number;
}

/** What a ledger is made of. */
export interface Parts {
  readonly rows: Rows;
  readonly groups: Groups;
  readonly index: RowIndex;
  readonly agenda: Agenda;
  readonly log: Log;
  readonly order: Order;
  readonly tally: Tally;
  readonly marks: Marks;
  readonly rules: Rules;
}

/**
 * Room for groups is made this many at a time: there are tables for three kinds of places, and which of them the rows to
 * come will need is not known before.
 */
export const GROUPS_AT_ONCE = 4096;

export function makeParts(rules: Rules): Parts {
  const rows = new Rows();
  return {
    rows,
    groups: new Groups(rows),
    index: new RowIndex(rows),
    agenda: new Agenda(),
    log: new Log(rows),
    order: new Order(rows),
    tally: new Tally(),
    marks: { rows: new Uint8Array(0), groups: new Uint8Array(0) },
    rules,
  };
}

/** Makes room for so many more rows, in slices. Readers see the same as before, in other arrays. */
export async function reserveRows({ rows, index, agenda, marks }: Parts, more: number, pace: Pace): Promise<void> {
  if (rows.room < more) {
    const needed = rows.used + more;
    // an eighth in reserve: few commits have to grow, and little is held for nothing
    const capacity = needed + (needed >> 3);
    await rows.grow(capacity, pace);
    await agenda.grow(capacity, pace);
    marks.rows = enlarged(marks.rows, capacity);
  }
  await index.reserve(more, pace);
}

/** Makes room for {@link GROUPS_AT_ONCE} more groups, or for fewer. */
export async function reserveGroups({ rows, groups, marks }: Parts, more: number, pace: Pace): Promise<void> {
  await groups.reserve(Math.min(more, GROUPS_AT_ONCE), pace);
  if (marks.groups.length < rows.groupHead.length) marks.groups = enlarged(marks.groups, rows.groupHead.length);
}
