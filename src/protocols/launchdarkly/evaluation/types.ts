import type { Clock } from '../../../kernel/index.ts';

/** Who asks: decides which flags are seen. */
export type EvaluationAudience = 'server' | 'mobile' | 'client';

/** What is to be evaluated. */
export interface EvaluationRequest {
  readonly environmentId: string;
  /** Canonical JSON, from `parseContext`. */
  readonly context: string;
  readonly audience: EvaluationAudience;
  readonly withReasons: boolean;
  /** Only these flags; absent is all that the audience sees. */
  readonly keys?: readonly string[];
  /** Gives the request up: it rejects with the signal's reason, and nobody works for it any more. */
  readonly signal?: AbortSignal;
}

/** One flag for one context. `evalxMembers` and `flagEvalMembers` write it in the words of a protocol. */
export interface EvaluatedFlag {
  readonly key: string;
  /** The flag's own version. */
  readonly version: number;
  /** JSON members without braces and without the version: `"value":true,"variation":0,"trackEvents":true`. */
  readonly fields: string;
  /** Where in `fields` the version belongs: behind the variation. */
  readonly versionAt: number;
  /** Members that only FDv2 has, each with a comma before it: `,"samplingRatio":2`; mostly empty. */
  readonly extra: string;
}

/** All flags that were asked for, computed from one state of the data. */
export interface Evaluated {
  /** The state they were computed from. */
  readonly digest: string;
  readonly clock: number;
  readonly offset: number;
  /** Says what was known of big segments, as far as it had a say; empty when it had none. */
  readonly bigSegmentsRevision: string;
  /** In key order. */
  readonly flags: readonly EvaluatedFlag[];
  /** Of the keys asked for: what this audience does not see, or is gone. */
  readonly absent: readonly string[];
}

/** Where memberships of big segments are kept. */
export interface BigSegmentStore {
  /** What is known of a context, by segment reference; `contextHash` is base64 of the SHA-256 of its key. */
  membership(contextHash: string): Promise<Readonly<Record<string, boolean>> | undefined>;
  /** Unix time at which the store was last known to be up to date, in milliseconds; undefined if it never was. */
  updatedMs(): Promise<number | undefined>;
}

/** What an evaluator is made of. */
export interface EvaluationsOptions {
  readonly clock: Clock;
  /** How many threads evaluate, each with a copy of all data that it was asked for. They start with the first request. */
  readonly threads: number;
  /** Results are kept up to as many bytes. */
  readonly cacheBytesMax: number;
  /** Told of threads that ended, and of items that could not be read. */
  readonly onFailure: (error: unknown) => void;
  readonly bigSegments?: (environmentId: string) => BigSegmentStore | undefined;
  /** Big segments are stale when their store was not up to date for as long; default 300,000. */
  readonly bigSegmentsStaleMs?: number;
  /** Unix time in milliseconds; default `Date.now`. */
  readonly unixNow?: () => number;
  /** How a thread begins; the default is right but for tests. */
  readonly beginThread?: () => EvaluationThread;
}

/** What is going on, for metrics. */
export interface EvaluationsStats {
  readonly threads: number;
  readonly queued: number;
  readonly running: number;
  readonly evaluations: number;
  readonly cacheHits: number;
  readonly cacheMisses: number;
  readonly cacheEntries: number;
  readonly cacheBytes: number;
  /** Threads that ended without having been asked to. */
  readonly threadFailures: number;
  /** Items that could not be read; they count as absent. */
  readonly itemFailures: number;
}

/** A thread as the pool sees it. */
export interface EvaluationThread {
  /** Messages are handled one after the other, in this order. */
  post(message: ToThread): void;
  onMessage(listener: (message: FromThread) => void): void;
  /** Told once, unless `end` was called first. */
  onEnd(listener: (cause: string) => void): void;
  /** Whether it has work that the process must wait for. */
  hold(busy: boolean): void;
  end(): Promise<void>;
}

/** The state that data belong to. */
export interface DataState {
  readonly digest: string;
  readonly clock: number;
  readonly offset: number;
}

/** What is known of a context's big segments, and how good that is. */
export interface KnownMembership {
  readonly status: 'HEALTHY' | 'STALE' | 'STORE_ERROR';
  readonly membership: Readonly<Record<string, boolean>> | null;
}

/** The same of several contexts, by their key. */
export type KnownMemberships = ReadonlyMap<string, KnownMembership>;

/** Items of one kind; a text that is undefined says that the item is gone. */
export interface ItemsMessage {
  readonly type: 'items';
  readonly environmentId: string;
  readonly kind: string;
  readonly keys: readonly string[];
  readonly versions: readonly number[];
  readonly texts: readonly (string | undefined)[];
}

/** What the thread is asked. Nothing of what `items` brings is seen before the `commit`. */
export type ToThread =
  | { readonly type: 'begin'; readonly environmentId: string; readonly whole: boolean }
  | ItemsMessage
  | { readonly type: 'commit'; readonly environmentId: string; readonly state: DataState }
  | { readonly type: 'drop'; readonly environmentId: string }
  | EvaluateMessage
  | AffectedMessage;

export interface EvaluateMessage {
  readonly type: 'evaluate';
  readonly number: number;
  readonly environmentId: string;
  readonly context: string;
  readonly audience: EvaluationAudience;
  readonly withReasons: boolean;
  readonly keys: readonly string[] | undefined;
  /** Absent when the environment has no store of big segments. */
  readonly memberships: KnownMemberships | undefined;
}

export interface AffectedMessage {
  readonly type: 'affected';
  readonly number: number;
  readonly environmentId: string;
  /** Pairs of kind and key. */
  readonly changed: readonly (readonly [string, string])[];
}

/** Results in few pieces, since thousands of small objects cost the receiving thread more than their evaluation. */
export interface PackedFlags {
  readonly keys: string;
  /** Where each key ends. */
  readonly keyEnds: Uint32Array<ArrayBuffer>;
  readonly versions: Float64Array<ArrayBuffer>;
  readonly fields: string;
  /** Three per flag: where the version belongs, where the fields end, where what only FDv2 has ends. */
  readonly ends: Uint32Array<ArrayBuffer>;
  /** What it takes in memory. */
  readonly bytes: number;
}

export interface EvaluatedMessage {
  readonly type: 'evaluated';
  readonly number: number;
  readonly state: DataState;
  readonly packed: PackedFlags;
  /** Keys of contexts whose memberships had a say. */
  readonly consulted: readonly string[];
  /** Those of them that were not known: then the result is of no use. */
  readonly unknown: readonly string[];
}

/** An item whose text is of no use. */
export interface UnreadableMessage {
  readonly type: 'unreadable';
  readonly environmentId: string;
  readonly kind: string;
  readonly key: string;
  readonly cause: string;
}

/** What was asked with this number has its answer. */
export type Answer =
  | EvaluatedMessage
  | { readonly type: 'affected'; readonly number: number; readonly keys: readonly string[] }
  | { readonly type: 'failed'; readonly number: number; readonly cause: string };

/** What the thread says. */
export type FromThread = { readonly type: 'ready' } | UnreadableMessage | Answer;
