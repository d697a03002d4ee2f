import type { KeptData, PendingWrite } from '../dataset/index.ts';

/** What was kept of a data set of flags, and how old it is. */
export interface KeptFlags extends KeptData {
  /** When it was last known to be up to date, Unix time in milliseconds. */
  readonly savedMs: number;
  /** The upstream's selector for it, where its protocol has one. */
  readonly state?: string;
}

/** What one data set of flags is kept by. */
export interface FlagKeep {
  /** What was kept, for `DataSet.restore`; undefined when there is nothing that can be used. */
  restore(): Promise<KeptFlags | undefined>;
  /**
   * For `DataSetOptions.beforeCommit`: resolves when the write is kept, and never rejects. A store that fails or takes
   * too long is told of elsewhere and holds up nobody.
   */
  prepare(write: PendingWrite): Promise<void>;
  /**
   * The upstream says that what was last written is all there is.
   *
   * @param state - its selector for that
   */
  committed(state: string | undefined): void;
  /** Keeps what is not kept yet, as far as the store allows, and nothing more. Idempotent. */
  close(): Promise<void>;
}
