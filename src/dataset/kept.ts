import type { Change, Item } from './item.ts';
import type { Tombstone } from './tombstones.ts';

/**
 * A batch of the log as it outlives the process: what it touched, and what the data set was after it. Texts are not
 * among it, since whoever catches up is sent the latest item of each key.
 */
export interface KeptBatch {
  readonly offset: number;
  /** Digest and clock of the data set after it. */
  readonly digest: string;
  readonly clock: number;
  readonly keys: readonly KeptKey[];
}

/** A key that a batch touched, and the version that it has or was deleted at since. */
export interface KeptKey {
  readonly kind: string;
  readonly key: string;
  readonly version: number;
  readonly deleted: boolean;
}

/** What a data set was in an earlier life: what `DataSet.restore` takes. */
export interface KeptData {
  readonly items: Iterable<Item> | AsyncIterable<Item>;
  /** Oldest first. */
  readonly tombstones: Iterable<Tombstone>;
  /** Offset of its last snapshot: one above that of its last batch. */
  readonly offset: number;
  /** What the items must add up to. */
  readonly digest: string;
  readonly clock: number;
  /**
   * Oldest first, without a gap, up to the one below `offset`. The first says at which state the log begins, and its
   * keys do not count; with none it begins at the present.
   */
  readonly log: readonly KeptBatch[];
}

/**
 * A write that is drafted and that no reader sees yet. What it gives stays as it is, however long it is kept; the log
 * and the tombstones must be asked for before the write goes on.
 */
export interface PendingWrite {
  /** As in `Outcome`; 'clock': nothing that readers see but the clock, since something was deleted that was not there. */
  readonly result: 'loaded' | 'changed' | 'reset' | 'clock';
  /** Whether its source told everything that it holds, and not what had changed. */
  readonly isWhole: boolean;
  /** Of the snapshot after it. */
  readonly offset: number;
  readonly digest: string;
  readonly clock: number;
  readonly before: { readonly offset: number; readonly digest: string; readonly clock: number };
  /** As clients see them: with the versions that count, in (kind, key) order. */
  readonly changes: readonly Change[];
  /** Deletions of what was not there, whose versions count from now on. */
  readonly graves: readonly Change[];
  /** The state at which the log begins after it, as an offset: batches below are forgotten. */
  readonly logFirst: number;
  /** Everything after the write: what a store needs that begins anew, as for 'loaded' and 'reset'. */
  items(): Iterable<Item>;
  /** Oldest first. A key may come twice; the last counts. */
  tombstones(): Iterable<Tombstone>;
  /** As `KeptData.log`. */
  log(): readonly KeptBatch[];
}
