import type { Change, Item } from '../dataset/index.ts';
import type { Clock, HeadgateError } from '../kernel/index.ts';
import type { Outbound } from '../outbound/index.ts';

/** Which of the vendor's protocols is spoken; `auto` tries FDv2 and settles for FDv1 where it is not known. */
export type UpstreamProtocol = 'auto' | 'fdv1' | 'fdv2';

/** Settings of {@link openUpstream}. */
export interface UpstreamOptions {
  /** What messages call the environment. */
  readonly name: string;
  /** Base of the streams' addresses; may have a path. */
  readonly streamUri: string;
  /** Base of the polls' addresses; may have a path. */
  readonly baseUri: string;
  readonly sdkKey: string;
  /** Which part of the environment is asked for. */
  readonly filterKey?: string;
  readonly protocol: UpstreamProtocol;
  readonly outbound: Outbound;
  readonly clock: Clock;
  readonly random?: () => number;
  /** FDv2: the selector of what is held already, from a store. It is sent as `basis`, and what comes back are changes alone. */
  readonly state?: string;
  readonly listener: UpstreamListener;
}

/**
 * What an upstream tells. Calls never overlap. When a promise rejects nothing was taken, the connection is given up, and the next
 * one asks again for what is missing.
 */
export interface UpstreamListener {
  /**
   * Everything that is held upstream now, of the kinds `flags` and `segments`. To be taken as a whole or not at all: the iteration throws
   * when the connection breaks in the middle, and the promise must then reject. `state` is FDv2's selector.
   */
  replace(items: AsyncIterable<Item>, state: string | undefined): Promise<void>;
  /**
   * What changed, in the order in which upstream says it; `state` is the selector of all of it. What comes while a call is under way
   * is in the next one: whole payloads, and of each item what was said last.
   */
  apply(changes: readonly Change[], state: string | undefined): Promise<void>;
  /** Upstream says that what is held is up to date. */
  current(state: string | undefined): void;
  /** The version that is held, tombstones included: FDv1 changes that do not rise are dropped. */
  versionOf(kind: string, key: string): number | undefined;
  status(status: UpstreamStatus): void;
  /** 401 or 403: the key is not known there, or not any more. Told at each attempt. */
  refused?(status: number): void;
  /** An attempt failed, or a connection broke; what is wrong in words. Another attempt follows by itself. */
  failed?(error: HeadgateError): void;
}

/** What went wrong with an upstream last. */
export interface UpstreamError {
  readonly kind: 'NETWORK_ERROR' | 'ERROR_RESPONSE' | 'INVALID_DATA' | 'STORE_ERROR' | 'UNKNOWN';
  /** Milliseconds since 1970. */
  readonly timeMs: number;
  readonly statusCode?: number;
}

/** How things are between us and an upstream, in the words of the vendor's SDKs. */
export interface UpstreamStatus {
  /**
   * INITIALIZING: there never was a connection that delivered. VALID: what is held is up to date, as far as we know.
   * INTERRUPTED: it was. OFF: the key is refused.
   */
  readonly state: 'INITIALIZING' | 'VALID' | 'INTERRUPTED' | 'OFF';
  /** Since when, in milliseconds since 1970. */
  readonly sinceMs: number;
  readonly lastError?: UpstreamError;
}

/** A connection to an upstream, kept up. */
export interface Upstream {
  /** What upstream calls the environment, once an answer has said so in `X-Ld-EnvId`. */
  readonly envId: string | undefined;
  /** Which protocol is spoken now. */
  readonly speaks: 'fdv1' | 'fdv2';
  /** Connects. Resolves after the first attempt, whatever came of it; never rejects. */
  start(): Promise<void>;
  /** Lets go. The listener is not called any more once the promise has resolved. */
  stop(): Promise<void>;
  /** Asks for everything anew, now; what is there is kept, and followed, until the answer is in. */
  reconnect(): void;
  /** Connects with another key; the connection that there is goes on until the new one has delivered. */
  setKey(sdkKey: string): void;
}
