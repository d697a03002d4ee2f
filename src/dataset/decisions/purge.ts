import type { Pace } from '../pace.ts';
import type { Parts } from './parts.ts';

/** Forgets a removed row. */
export function forget({ rows, groups, agenda, order, tally }: Parts, row: number): void {
  groups.unlink(row);
  agenda.drop(row);
  tally.forget();
  rows.clear(row);
  order.cleared(row);
}

/** The oldest removed rows, as many as are beyond the bound. */
export function beyond({ rows, log, tally }: Parts, tombstonesMax: number): number[] {
  const excess = tally.tombstones - tombstonesMax;
  if (excess <= 0) return [];
  return log.first(excess, (row) => rows.removed[row] !== 0);
}

/** Whether {@link tidy} has something to do. */
export function isUntidy({ rows, order, log }: Parts): boolean {
  return rows.scattered || order.scattered || log.scattered;
}

/** Gives back room that nothing is in, in slices. */
export async function tidy({ rows, order, log }: Parts, reach: number, pace: Pace): Promise<void> {
  if (order.scattered) await order.gather(pace);
  if (log.scattered) await log.gather(reach, pace);
  if (rows.scattered) await rows.gather(pace);
}
