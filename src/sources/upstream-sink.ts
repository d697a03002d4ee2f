import type { Change, Item } from '../dataset/index.ts';

/** Where readers of events put what they have read: a connection that tells its listener, in its turn, while it may. */
export interface UpstreamSink {
  replace(items: AsyncIterable<Item>, state: string | undefined): Promise<void>;
  apply(changes: readonly Change[], state: string | undefined): Promise<void>;
  /** Applies those whose version is above the one that is held; at most one of an item. */
  applyRising(changes: readonly Change[]): Promise<void>;
  current(): Promise<void>;
}
