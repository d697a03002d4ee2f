import type { Limiter } from '../../admission/index.ts';
import type { PendingWrite } from '../../dataset/index.ts';
import type { Deliveries } from '../../delivery/index.ts';
import type { Clock } from '../../kernel/index.ts';
import type { CatchUpMode } from './quirks.ts';

/** What the front works with, and how it is set. */
export interface FrontOptions {
  readonly clock: Clock;
  readonly limiter: Limiter;
  readonly deliveries: Deliveries;
  /** Whether slow readers are cut. Off where the limits are off. */
  readonly guarded: boolean;
  /** A fixed cap on one delivery, in milliseconds; absent: it grows with the size. */
  readonly capMs?: number;
  /** Whether a reader that takes nothing gives its place to others. */
  readonly parking: boolean;
  /** How long a stream waits for its turn before its headers, and a poll, in milliseconds. */
  readonly streamWaitMsMax: number;
  readonly pollWaitMsMax: number;
  /** How long a client that seems ahead of us waits for our source, in milliseconds. */
  readonly aheadWaitMsMax: number;
  /** How long a source may be away before its environment is called disconnected, in milliseconds. */
  readonly disconnectedMs: number;
  /** Whether big segments that are stale count as an environment that is not well. */
  readonly staleAsDegraded: boolean;
  /** How often streams are looked at whose key has gone meanwhile, in milliseconds; absent: only when a key goes. */
  readonly credentialLookMs?: number;
  readonly heartbeatMs: number;
  readonly connectionMsMax?: number;
  /** What streams tell clients to wait before they reconnect, in milliseconds; absent: their own backoff. */
  readonly retryMs?: number;
  readonly compression: boolean;
  readonly catchUp: CatchUpMode;
  readonly logBatchesMax: number;
  readonly logBytesMax: number;
  /** Told of each write before any reader sees it; what it waits for is kept by then. */
  readonly prepare?: (environmentId: string, write: PendingWrite) => Promise<void>;
  /** Told when bytes that only deliveries kept alive are free again. */
  readonly onPinnedDropped: () => void;
}
