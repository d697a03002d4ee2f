import type { LogLevel, UpstreamTlsConfig } from './types-shared.ts';

/** An offline archive, as the vendor's service writes it. */
export interface ArchiveSource {
  readonly type: 'archive';
  readonly path: string;
  /** How often the file is looked at for changes. */
  readonly intervalMs: number;
  readonly allowedOrigins: readonly string[];
  readonly allowedHeaders: readonly string[];
  /** What its environments are kept under in a database, with `$CID` where their ID goes. */
  readonly prefix?: string;
  /** The DynamoDB table of each environment, with `$CID` where its ID goes. */
  readonly tableName?: string;
}

/** Files of flags and segments that stand for one environment. */
export interface FileSource {
  readonly type: 'file';
  readonly name: string;
  readonly paths: readonly string[];
  readonly intervalMs: number;
  readonly sdkKey: string | undefined;
  readonly mobileKey: string | undefined;
  readonly envId: string | undefined;
  readonly projectKey: string | undefined;
  /** What polls may be cached for; 0 = not at all. */
  readonly ttlMs: number;
  readonly secureMode: boolean;
  readonly allowedOrigins: readonly string[];
  readonly allowedHeaders: readonly string[];
  /** What it is kept under in a database. */
  readonly prefix?: string;
  /** Its DynamoDB table. */
  readonly tableName?: string;
}

/** Where flags come from. */
export type FlagSource = ArchiveSource | FileSource;

/** Evaluation for browsers and phones, which are told values and not rules. */
export interface EvaluationConfig {
  /** Threads that evaluate; `auto`: one less than there are cores, at least one. */
  readonly threads: number | 'auto';
  /** Results that are kept for the next who asks the same. */
  readonly cacheBytesMax: number;
}

/** Big segments, which something else keeps up to date in the database. */
export interface BigSegmentsConfig {
  /** Whether `/status` says that an environment is degraded while its big segments are stale. */
  readonly staleAsDegraded: boolean;
  /** How long after the last update they count as stale. */
  readonly staleThresholdMs: number;
}

/** The feature-flag front and its sources. */
export interface FlagsConfig {
  readonly heartbeatMs: number;
  /** A stream is closed after this; undefined = never. */
  readonly connectionMsMax: number | undefined;
  readonly compression: 'auto' | 'off';
  /** The `retry:` line of streams; undefined = none, the client's own backoff. */
  readonly retryMs: number | undefined;
  /** Which clients of the first stream protocol get changes instead of a full copy when they come back. */
  readonly catchUp: 'safe' | 'all' | 'off';
  /** How long a client that seems ahead of us waits for our source. */
  readonly aheadWaitMs: number;
  readonly logBatchesMax: number;
  readonly logBytesMax: number;
  /** How long a start waits for the first data of every environment, before it is ready without some. */
  readonly initTimeoutMs: number;
  /** How long an upstream may be lost before `/status` says that the environment is disconnected. */
  readonly disconnectedStatusMs: number;
  /** How often keys are looked at that have expired. */
  readonly credentialCleanupMs: number;
  /** The longest that a ping of a browser's or a phone's stream is held back, at random; 0: none is. */
  readonly pingJitterMs: number;
  /** The protocol that an upstream is spoken to in; `auto`: the newer one where it has it. */
  readonly upstreamProtocol: 'auto' | 'fdv1' | 'fdv2';
  readonly evaluation: EvaluationConfig;
  readonly bigSegments: BigSegmentsConfig;
  readonly sources: readonly FlagSource[];
}

/** How Headgate presents itself to Redis over TLS. The certificate of Redis must carry the name in its address. */
export type RedisTlsConfig = Omit<UpstreamTlsConfig, 'serverName'>;

/** The Redis that flags are kept in, in the vendor's layout. */
export interface RedisConfig {
  /** `redis://host:port`, or `rediss://…` over TLS; without user and password. */
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  /** Present when the connection is over TLS. */
  readonly tls?: RedisTlsConfig;
  readonly connectTimeoutMs?: number;
  readonly readTimeoutMs?: number;
  /** What stands before the keys of an environment that names no prefix. */
  readonly prefix: string;
}

/** The DynamoDB that flags are kept in, in the vendor's layout. Region and credentials are those of AWS's own variables. */
export interface DynamoDbConfig {
  /** The table of environments that name none. */
  readonly tableName: string | undefined;
  /** Another address than that of the region. */
  readonly url: string | undefined;
  /** What stands before the names of an environment that has no prefix of its own; undefined: nothing does. */
  readonly prefix: string | undefined;
}

/** An environment of the vendor's service, by its keys. */
export interface EnvironmentConfig {
  readonly name: string;
  readonly sdkKey: string;
  readonly mobileKey: string | undefined;
  readonly envId: string | undefined;
  readonly projectKey: string | undefined;
  /** Payload filters that clients may ask for besides the whole. */
  readonly filterKeys: readonly string[];
  readonly prefix: string | undefined;
  readonly tableName: string | undefined;
  readonly allowedOrigins: readonly string[];
  readonly allowedHeaders: readonly string[];
  readonly secureMode: boolean;
  readonly logLevel: LogLevel | undefined;
  readonly ttlMs: number;
}

/** Where the list of environments comes from, when the vendor's service keeps it. */
export interface AutoConfigConfig {
  readonly key: string;
  /** What environments are kept under in a database, with `$CID` where their ID goes. */
  readonly prefix: string | undefined;
  readonly tableName: string | undefined;
  readonly allowedOrigins: readonly string[];
  readonly allowedHeaders: readonly string[];
  /** Where the list is kept, encrypted, for a start without the service; undefined: nowhere. */
  readonly cache: { readonly name: string; readonly encryptionKey: string } | undefined;
}

/** Where the events of SDKs go. */
export interface EventsConfig {
  /** False: event routes answer that there is no event proxy. */
  readonly send: boolean;
  readonly uri: string;
  readonly flushIntervalMs: number;
  /** Events held per environment between two flushes; what comes beyond it is dropped and counted. */
  readonly capacity: number;
  /** Whether contexts stand whole in each event that is summarized here. */
  readonly inlineUsers: boolean;
  /** Longest body of a request with events; undefined: that of every other request. */
  readonly inboundPayloadBytesMax: number | undefined;
  /** Events held of all environments together. */
  readonly heldBytesMax: number;
}

/** The addresses of the vendor's service, or of a relay that stands for it. */
export interface UpstreamConfig {
  readonly streamUri: string;
  readonly baseUri: string;
  readonly clientSideBaseUri: string;
}

/** How connections to the service are made. */
export interface OutboundConfig {
  readonly proxy: ProxyConfig | undefined;
  /** Certificates to trust besides the system's own, as paths of PEM files. */
  readonly caPaths: readonly string[];
}

/** An HTTP proxy that every connection to the service goes through. */
export interface ProxyConfig {
  /** Without user and password. */
  readonly url: string;
  readonly user?: string;
  readonly password?: string;
}
