import type { Change, Item } from '../dataset/index.ts';

/** Where readers of events put what they have read: a connection that tells its listener, in its turn, while it may. */
export interface UpstreamSink {
  replace(items: AsyncIterable<Item>, state: string | undefined): Promise<void>;
  apply(changes: readonly Change[], state: string | undefined): Promise<void>;
  /** Applies a change unless its version is not above the one that is held. */
  applyRising(change: Change): Promise<void>;
  current(): Promise<void>;
}
