import type { FrontOptions } from './deps.ts';
import type { Keys } from './keys.ts';
import type { Cursors } from './positions.ts';

/** What `/status` says of the front; sources and stores speak for themselves. */
export interface FrontStatus {
  readonly ready: boolean;
  readonly offset: number;
  /** Cursors below it are answered in full. */
  readonly reach: number;
  readonly cursors: number;
  readonly keys: Keys['counts'];
  /** Bytes of pages that only deliveries keep alive. */
  readonly pinnedBytes: number;
}

export function statusOf({ ledger, views }: FrontOptions, keys: Keys, cursors: Cursors): FrontStatus {
  const { ready, offset, reach } = ledger;
  return { ready, offset, reach, cursors: cursors.size, keys: keys.counts, pinnedBytes: views.pinnedBytes };
}
