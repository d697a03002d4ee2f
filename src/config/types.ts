/** How much a message matters: an error stops the start, a warning and an info do not. */
export type Severity = 'error' | 'warning' | 'info';

/** One thing that is wrong, or worth knowing, about a configuration. */
export interface Problem {
  readonly severity: Severity;
  /** Where it is: `relay.conf:12`, `headgate.yaml:3:9`, or the name of an environment variable. */
  readonly where: string;
  /** What was expected, what came, and what to do. */
  readonly message: string;
}

/** What the limits are computed from. */
export interface Machine {
  /** Memory this process may use: the container's limit, or the machine's memory. */
  readonly memoryLimitBytes: number;
  /** Whether the low-water mark (TCP_NOTSENT_LOWAT) can be set on the listening socket. */
  readonly lowWater: boolean;
}

/** The names a configuration was written under: they decide what an unset limit means. */
export type Origin = 'yaml' | 'vendor' | 'default';

/** How much is logged: this level and everything above it. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'none';

/** Least TLS version accepted. */
export type TlsVersion = '1.0' | '1.1' | '1.2' | '1.3';

/** Certificate and key, as paths of PEM files. */
export interface TlsConfig {
  readonly certPath: string;
  readonly keyPath: string;
  readonly minVersion: TlsVersion;
}

/** The listening socket and what one connection may cost. */
export interface ServerConfig {
  /** Address to bind; undefined binds every address, IPv6 and IPv4. */
  readonly host: string | undefined;
  readonly port: number;
  readonly tls: TlsConfig | undefined;
  readonly http2: boolean;
  /** Connections the kernel holds until they are accepted. */
  readonly backlog: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  readonly headerBytesMax: number;
  readonly bodyBytesMax: number;
  readonly http2ConcurrentStreamsMax: number;
  /** Between "not ready" on the health check and closing the listening socket. */
  readonly drainDelayMs: number;
  /** How long deliveries may finish after the listening socket was closed. */
  readonly graceMs: number;
}

/** What a limits setting says: a mode, and the values that replace the mode's own. */
export interface LimitsSpec {
  /** `auto` protects, from the memory limit; `off` limits nothing; `vendor` is what the vendor's names mean. */
  readonly mode: 'auto' | 'off' | 'vendor';
  readonly slots?: number;
  readonly queue?: number;
  readonly waitStreamMs?: number;
  readonly waitPollMs?: number;
  readonly parked?: number;
  readonly pinnedBytes?: number;
  readonly sendTimeoutMs?: number;
  readonly floorBytesPerSecond?: number;
  readonly slackMs?: number;
  readonly fairness?: 'tenant' | 'off';
  readonly parking?: boolean;
  readonly earlyShed?: boolean;
  readonly turnBytes?: number;
  /** `off` leaves the kernel's own buffering. */
  readonly lowWaterMarkBytes?: number | 'off';
}

/** The limits in force. `Infinity` stands for "no bound". */
export interface LimitsConfig {
  readonly mode: 'auto' | 'off' | 'vendor';
  /** False: no refusal, no queue, no delivery deadline. */
  readonly enabled: boolean;
  /** Deliveries in progress. */
  readonly slots: number;
  /** Callers waiting for a slot. */
  readonly queue: number;
  readonly waitStreamMsMax: number;
  readonly waitPollMsMax: number;
  /** Whether a reader that takes nothing gives its slot on while others wait. */
  readonly parking: boolean;
  readonly parked: number;
  /** Bytes of pages that only deliveries keep alive. */
  readonly pinnedBytesMax: number;
  /** Longest delivery; undefined = scales with the payload, from the floor rate. */
  readonly sendTimeoutMs: number | undefined;
  /** A reader slower than this is cut; 0 = no floor. */
  readonly floorBytesPerSecond: number;
  /** Allowance on top of what the floor rate gives. */
  readonly slackMs: number;
  readonly fairness: 'tenant' | 'off';
  /** Refuse at once when the wait cannot be met. */
  readonly earlyShed: boolean;
  /** Bytes all deliveries together may hand over per turn of the event loop. */
  readonly turnBytesMax: number;
  /** TCP_NOTSENT_LOWAT of the listening socket; undefined = left alone. */
  readonly lowWaterMarkBytes: number | undefined;
}

/** An offline archive, as the vendor's service writes it. */
export interface ArchiveSource {
  readonly type: 'archive';
  readonly path: string;
  /** How often the file is looked at for changes. */
  readonly intervalMs: number;
  readonly allowedOrigins: readonly string[];
  readonly allowedHeaders: readonly string[];
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
}

/** Where flags come from. */
export type FlagSource = ArchiveSource | FileSource;

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
  /** How long the first request of an environment waits for its data. */
  readonly initTimeoutMs: number;
  readonly disconnectedStatusMs: number;
  readonly credentialCleanupMs: number;
  readonly sources: readonly FlagSource[];
}

/** An environment of the vendor's service, by its keys. Carried; needs an upstream connection. */
export interface EnvironmentConfig {
  readonly name: string;
  readonly sdkKey: string;
  readonly mobileKey: string | undefined;
  readonly envId: string | undefined;
  readonly projectKey: string | undefined;
  readonly filterKeys: readonly string[];
  readonly prefix: string | undefined;
  readonly tableName: string | undefined;
  readonly allowedOrigins: readonly string[];
  readonly allowedHeaders: readonly string[];
  readonly secureMode: boolean;
  readonly logLevel: LogLevel | undefined;
  readonly ttlMs: number;
}

/** When to end by ourselves. */
export interface ExitConfig {
  /** End when a source fails at start. */
  readonly onError: boolean;
  /** End as soon as every source has loaded once; do not listen. */
  readonly always: boolean;
  readonly ignoreConnectionErrors: boolean;
}

/** Where events would go. Carried; events are not forwarded. */
export interface EventsConfig {
  readonly send: boolean;
  readonly uri: string;
  readonly flushIntervalMs: number;
  readonly capacity: number;
  readonly inlineUsers: boolean;
  readonly inboundPayloadBytesMax: number | undefined;
}

/** The vendor's service. Carried; needs an upstream connection. */
export interface UpstreamConfig {
  readonly streamUri: string;
  readonly baseUri: string;
  readonly clientSideBaseUri: string;
}

/** What is logged, and how it looks. */
export interface LogConfig {
  readonly level: LogLevel;
  readonly format: 'json' | 'pretty';
}

/** Everything that was decided before the start. Frozen, all the way down. */
export interface Config {
  readonly origin: Origin;
  /** The file it came from, as given. */
  readonly file: string | undefined;
  readonly machine: Machine;
  readonly server: ServerConfig;
  readonly limits: LimitsConfig;
  readonly flags: FlagsConfig;
  readonly environments: readonly EnvironmentConfig[];
  readonly exit: ExitConfig;
  readonly events: EventsConfig;
  readonly upstream: UpstreamConfig;
  readonly log: LogConfig;
}

/** Removes `readonly`, all the way down: what a reader fills in before the whole is frozen. */
export type Mutable<T> = T extends readonly (infer Item)[]
  ? Mutable<Item>[]
  : T extends object
    ? { -readonly [Key in keyof T]: Mutable<T[Key]> }
    : T;
