import type { Limiter } from '../../admission/index.ts';
import type { Copy, Filter } from '../../dataset/decisions/index.ts';
import type { Deliveries } from '../../delivery/index.ts';
import type { Clock } from '../../kernel/index.ts';

/** What the front needs of a ledger: where it stands, and when that changes. */
export interface DecisionLedger {
  /** Of the last commit; 0: none. */
  readonly offset: number;
  /** A cursor at or above it can be answered with what changed since. */
  readonly reach: number;
  /** Whether every source has told everything once. */
  readonly ready: boolean;
  /** How many entries a delta from there would look at. */
  entriesSince(offset: number): number;
  subscribe(listener: () => void): () => void;
}

/** What the front needs of the views: answers, encoded once for everybody. */
interface DecisionViews {
  full(filter: Filter, options: { readonly dedup: boolean }): Promise<Copy>;
  delta(filter: Filter, options: { readonly dedup: boolean; readonly from: number }): Copy | Promise<Copy>;
  /** A look-up bound by addresses or a value: a JSON array, or `null`. */
  find(filter: Filter): string;
  /** Any other look-up. */
  list(
    filter: Filter,
    page: { readonly limit?: number; readonly offset?: number; readonly idGt?: number },
  ): Promise<Copy>;
  /** Bytes that only copies keep alive. */
  readonly pinnedBytes: number;
}

/** A request as it goes on to an upstream. */
export interface ForwardRequest {
  readonly method: string;
  /** Path and query as the client sent them. */
  readonly target: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly signal?: AbortSignal;
}

/** What an upstream answered. */
export interface ForwardReply {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: AsyncIterable<Uint8Array>;
}

/** What the front needs of an upstream that it stands in front of. */
export interface Upstream {
  /** True: decisions of these scopes are held, now or once the promise has settled. False: they could not be had. */
  hold(scopes: readonly string[], signal?: AbortSignal): true | Promise<boolean>;
  /** The same for simulated decisions and for every scope. */
  holdWide(): true | Promise<boolean>;
  checkKey(key: string): Promise<'good' | 'refused' | 'unreachable'>;
  /** Rejects when the upstream cannot be reached. */
  forward(request: ForwardRequest): Promise<ForwardReply>;
}

/** Small values that survive a restart. Writes are batched, and never run ahead of the rows that they speak of. */
export interface SmallStore {
  entries(): Iterable<readonly [string, Uint8Array]>;
  set(key: string, value: Uint8Array): void;
  delete(key: string): void;
}

/** A key that is configured here. */
export interface BouncerKey {
  readonly name: string;
  /** SHA-512 of the key, in lower-case hex. */
  readonly sha512: string;
}

/** What the front works with, and how it is set. */
export interface FrontOptions {
  readonly clock: Clock;
  /** Unix time in milliseconds. */
  readonly wallNow: () => number;
  readonly limiter: Limiter;
  readonly deliveries: Deliveries;
  /** Whether slow readers are cut. Off where the limits are off. */
  readonly guarded: boolean;
  /** A fixed cap on one delivery, in milliseconds; absent: it grows with the size. */
  readonly capMs?: number;
  /** Whether a reader that takes nothing gives its place to others. */
  readonly parking: boolean;
  /** How long a pull waits for its turn, in milliseconds. */
  readonly waitMsMax: number;
  readonly ledger: DecisionLedger;
  readonly views: DecisionViews;
  readonly upstreams: readonly Upstream[];
  readonly keys: readonly BouncerKey[];
  /** Whether a key that is not configured here is checked with the upstreams. */
  readonly delegate: boolean;
  /** Absent: cursors and checked keys last as long as the process. */
  readonly cursors?: SmallStore;
  readonly keyStore?: SmallStore;
  /**
   * Whether everything up to an offset is stored, now or soon; false: it will not be. What a bouncer is told before that may
   * be unknown after a crash, and then nobody would tell it when that ends. Absent: there is no store to wait for.
   */
  readonly stored?: (offset: number) => true | Promise<boolean>;
  /** How many cursors one key may have: one for each address and filter. */
  readonly cursorsPerKeyMax: number;
  /** How long an answer waits for the first data, or for a scope to be pulled, in milliseconds. */
  readonly startWaitMs: number;
  /** Whether everything else under `/v1/` goes on to the first upstream. */
  readonly passthrough: boolean;
  /** Proxies whose X-Forwarded-For is believed: addresses and networks. */
  readonly trustedProxies: readonly string[];
  /** Organizational units whose client certificates stand for a key; none: no certificate does. */
  readonly bouncersAllowedOu: readonly string[];
  readonly bodyBytesMax: number;
  /** Uniform in [0, 1); spreads checks of keys. Default Math.random. */
  readonly random?: () => number;
}
