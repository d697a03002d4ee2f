import type { DataSet } from '../../dataset/index.ts';
import type { Clock } from '../../kernel/index.ts';
import { type Claim, nextChange } from './positions.ts';

/**
 * Whoever names a position waits until there are data, at most `waitMsMax`. After a restart all come at once, and what was
 * kept is there in a moment: a stream that is opened before it could only be given everything.
 */
export function untilData(data: DataSet, { position }: Claim, clock: Clock, waitMsMax: number): Promise<void> {
  if (data.ready || position === undefined || waitMsMax <= 0) return Promise.resolve();
  // the first thing that a data set tells is that it has data
  return nextChange(data, clock, waitMsMax);
}
