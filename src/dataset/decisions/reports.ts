import type { Decision } from './types.ts';

/** What became of what a source told. */
export interface CommitReport {
  /** Where the ledger stands now: the same as before when nothing changed. */
  readonly offset: number;
  readonly added: number;
  readonly removed: number;
  /** Ends that moved by more than the tolerance. */
  readonly refreshed: number;
  readonly unchanged: number;
  /** Over before they came, or to be removed and not held. */
  readonly ignored: number;
}

/** What subscribers are told after each commit. */
export interface Commit {
  /** Where the ledger stands. The same as before when rows were only forgotten, or when only `ready` changed. */
  readonly offset: number;
  readonly reach: number;
  readonly added: number;
  readonly removed: number;
  /** Rows told of that are not new: ends that moved, and later ends that were held back until now. */
  readonly published: number;
  /**
   * What a store has to write: the rows that changed, and the keys of those that were forgotten (undefined). A row is
   * given as it is when it is asked for. Who does not ask within the call asks within `exclusive`, for every commit
   * since the last write, and writes it all at once with the offset and reach of that moment.
   */
  records(): Iterable<readonly [key: string, value: Uint8Array | undefined]>;
}

/** Decisions that come and go. */
export interface DecisionDelta {
  readonly added: readonly Decision[];
  /** The source's own ids. */
  readonly removedIds: readonly number[];
}

/** What a ledger was, in an earlier life. */
export interface LedgerState {
  readonly offset: number;
  readonly reach: number;
  readonly nowMs: number;
  /** Sources whose rows were told by another one, then: they have told nothing yet in this life. */
  readonly untold?: readonly number[];
}
