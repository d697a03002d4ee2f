import type { Clock } from '../kernel/index.ts';
import type { Outbound } from '../outbound/index.ts';

/** Whose events: of a server's SDK, of a phone's, or of a browser's. */
export type EventAudience = 'server' | 'mobile' | 'client';

/** Analytics events in batches, or one diagnostic event. */
export type EventsKind = 'bulk' | 'diagnostic';

/** What one caller posted. */
export interface InboundEvents {
  readonly environmentId: string;
  /** What the events service knows the environment by: SDK key, mobile key or client-side ID. */
  readonly sdkKey: string;
  readonly audience: EventAudience;
  readonly what: EventsKind;
  /** The path upstream, which for `client` has the client-side ID in it. */
  readonly path: string;
  /** Those that matter, names in lower case. A diagnostic event is forwarded with all of them. */
  readonly headers: Readonly<Record<string, string>>;
  /** Inflated. Kept until it is forwarded: the caller must not change it. */
  readonly body: Uint8Array;
}

/** What a forwarder works with, and how it is set. */
export interface EventForwarderOptions {
  /** Only `send` is asked for. */
  readonly outbound: Pick<Outbound, 'send'>;
  /** Where the events service is, as an absolute URL; a path in it is kept. */
  readonly uri: string;
  readonly flushIntervalMs: number;
  /** How many events of one environment and audience may wait for their flush. */
  readonly capacity: number;
  /** Whether custom events of old SDKs keep their whole context, instead of its keys. */
  readonly inlineUsers: boolean;
  /** How much may be held in memory, in bytes, on its way included. Half of it for one environment and audience, and for all browsers and phones. */
  readonly bytesMax: number;
  readonly clock: Clock;
  /** For the jitter of repeated attempts; default `Math.random`. */
  readonly random?: () => number;
  /** The flag as JSON, for events of SDKs too old to say what a summary needs to know of it. */
  readonly flagText?: (environmentId: string, key: string) => string | undefined;
  /** Unix time in milliseconds; default `Date.now`. */
  readonly unixMs?: () => number;
}

/** Why events were given up before they were sent. */
export type DropCause = 'full' | 'invalid' | 'too-large' | 'refused' | 'closed';

/** Why a payload did not arrive. */
export type FailureCause = 'network' | 'status' | 'refused';

/** Payloads as they were posted, events in them, and bytes before compression. */
export interface EventTally {
  readonly payloads: number;
  readonly events: number;
  readonly bytes: number;
}

/** Everything that one environment's callers posted, and what became of it. */
export interface EnvironmentEventStats {
  readonly received: EventTally;
  readonly sent: EventTally;
  readonly failed: Readonly<Record<FailureCause, EventTally>>;
  readonly dropped: Readonly<Record<DropCause, EventTally>>;
}

/** The state of a forwarder. */
export interface EventStats {
  /** Bytes held now, those on their way included. */
  readonly heldBytes: number;
  /** Events that wait for their flush. */
  readonly heldEvents: number;
  /** Payloads on their way, or waiting to be tried again. */
  readonly posting: number;
  readonly environments: Readonly<Record<string, EnvironmentEventStats>>;
}
