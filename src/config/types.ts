import type {
  AutoConfigConfig,
  DynamoDbConfig,
  EnvironmentConfig,
  EventsConfig,
  FlagsConfig,
  OutboundConfig,
  RedisConfig,
  UpstreamConfig,
} from './types-flags.ts';
import type { LogLevel, UpstreamTlsConfig } from './types-shared.ts';

export type {
  ArchiveSource,
  AutoConfigConfig,
  BigSegmentsConfig,
  DynamoDbConfig,
  EnvironmentConfig,
  EvaluationConfig,
  EventsConfig,
  FileSource,
  FlagsConfig,
  FlagSource,
  OutboundConfig,
  ProxyConfig,
  RedisConfig,
  RedisTlsConfig,
  UpstreamConfig,
} from './types-flags.ts';
export type { LogLevel, UpstreamTlsConfig } from './types-shared.ts';

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

/** Environment variables, by name. */
export type Variables = Readonly<Record<string, string | undefined>>;

/** What the limits are computed from. */
export interface Machine {
  /** Memory this process may use: the container's limit, or the machine's memory. */
  readonly memoryLimitBytes: number;
  /** Where that was found; absent where nobody looked. */
  readonly source?: 'cgroup v2' | 'cgroup v1' | 'machine';
  /** Whether the low-water mark (TCP_NOTSENT_LOWAT) can be set on the listening socket. */
  readonly lowWater: boolean;
}

/** The names a configuration was written under: they decide what an unset limit means. */
export type Origin = 'yaml' | 'vendor' | 'environment' | 'default';

/** Least TLS version accepted. */
export type TlsVersion = '1.0' | '1.1' | '1.2' | '1.3';

/**
 * What is asked of a client's certificate: `none` nothing, `request` one that need not be good, `verify-if-given` a good
 * one or none, `require` a good one.
 */
export type ClientVerification = 'none' | 'request' | 'verify-if-given' | 'require';

/** Certificate and key, as paths of PEM files. */
export interface TlsConfig {
  readonly certPath: string;
  readonly keyPath: string;
  readonly minVersion: TlsVersion;
  /** Certificates that a client's own must come from, as the path of a PEM file. */
  readonly clientCaPath?: string;
  /** Absent: `none`. */
  readonly clientVerification?: ClientVerification;
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
  readonly waitDecisionsMs?: number;
  readonly parked?: number;
  readonly pinnedBytes?: number;
  readonly sendTimeoutMs?: number;
  /** What the link carries; `Infinity`: it bounds nothing. */
  readonly linkBytesPerSecond?: number;
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
  readonly waitDecisionsMsMax: number;
  /** Whether a reader that takes nothing gives its slot on while others wait. */
  readonly parking: boolean;
  readonly parked: number;
  /** Bytes of pages that only deliveries keep alive. */
  readonly pinnedBytesMax: number;
  /** Longest delivery; undefined = scales with the payload, from the floor rate. */
  readonly sendTimeoutMs: number | undefined;
  /** What `auto` takes the link to carry, that all deliveries in progress share. */
  readonly linkBytesPerSecond: number;
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

/** A local API that decisions are pulled from. */
export interface LapiSourceConfig {
  readonly type: 'lapi';
  /** Unique among the sources; shown in logs and `/status`. */
  readonly name: string;
  /** Its base address, without credentials, a query or a slash at the end. */
  readonly url: string;
  /** The key that Headgate presents as a bouncer; empty when a client certificate stands for it. */
  readonly key: string;
  readonly intervalMs: number;
  /** How often everything is pulled again and compared. */
  readonly resyncMs: number;
  /** Scopes to hold from the start besides ip, range, country and as. */
  readonly scopes: readonly string[];
  readonly tls: UpstreamTlsConfig | undefined;
}

/** Files of decisions: JSON, CSV, or plain lists of addresses. */
export interface DecisionFileConfig {
  readonly type: 'file';
  /** Unique among the sources; shown in logs and `/status`. */
  readonly name: string;
  readonly paths: readonly string[];
  /** How often the files are looked at for changes. */
  readonly intervalMs: number;
  /** For rows that do not say how long they last. */
  readonly durationMs: number;
  /** The origin of all rows. */
  readonly origin: string;
  /** For rows that name none. */
  readonly scenario: string;
  /** For rows that name none. */
  readonly decisionType: string;
}

/** Where decisions come from. */
export type DecisionSource = LapiSourceConfig | DecisionFileConfig;

/** A key that a bouncer may ask with. */
export interface BouncerKeyConfig {
  readonly name: string;
  /** SHA-512 of the key, in lower-case hex. */
  readonly sha512: string;
}

/** The decisions front and its sources. */
export interface DecisionsConfig {
  /** True when there is a source. */
  readonly enabled: boolean;
  readonly sources: readonly DecisionSource[];
  readonly keys: readonly BouncerKeyConfig[];
  /** A file of more keys, which {@link parseKeyFile} reads. */
  readonly keyFilePath: string | undefined;
  /** Whether a key that is not known here is checked with the upstreams. */
  readonly delegate: boolean;
  /** Whether everything else under `/v1/` goes on to the first upstream. */
  readonly passthrough: boolean;
  /** How long a pull waits for a slot; the same as the limits' `waitDecisionsMsMax`. */
  readonly waitMsMax: number;
  /** How long an encoded page is used again: a ban may end later by this much. */
  readonly granularityMs: number;
  /** How long answers wait for the first pull after a start. */
  readonly startWaitMs: number;
  /** Decisions per page at most: bounds what one answer holds. */
  readonly pageItemsMax: number;
  /** Cursors kept for one key: one for each address and set of filters. */
  readonly cursorsPerKeyMax: number;
  /** How often bouncers poll: a longer end is told three polls before the end they know. */
  readonly pollMs: number;
  /** Proxies whose X-Forwarded-For is believed: addresses and networks. */
  readonly trustedProxies: readonly string[];
  /** Organizational units whose client certificates stand for a key; empty: none. */
  readonly bouncersAllowedOu: readonly string[];
}

/** Where what must survive a restart is kept. */
export interface StoreConfig {
  /**
   * `lmdb`: a folder of our own; `redis`: {@link Config.redis}; `dynamodb`: {@link Config.dynamoDb}; `none`: nowhere.
   * Flags are kept in `Config.redis` or `Config.dynamoDb` whenever there is one, and in the store when there is none.
   */
  readonly type: 'lmdb' | 'redis' | 'dynamodb' | 'none';
  /** The folder; empty but for `lmdb`. */
  readonly path: string;
}

/** When to end by ourselves. */
export interface ExitConfig {
  /** End when a source fails at start. */
  readonly onError: boolean;
  /** End as soon as every source has loaded once; do not listen. */
  readonly always: boolean;
  /** An upstream that cannot be reached at start is no failure: what the store has is served, or clients wait. */
  readonly ignoreConnectionErrors: boolean;
}

/** What is logged, and how it looks. */
export interface LogConfig {
  readonly level: LogLevel;
  readonly format: 'json' | 'pretty';
}

/** Where operators ask: metrics, health, status. */
export interface AdminConfig {
  readonly enabled: boolean;
  /** Address to bind; undefined binds every address. */
  readonly host: string | undefined;
  readonly port: number;
  /** What has to be shown there, but for what is open; undefined: nothing on loopback, elsewhere nobody may ask. */
  readonly token: string | undefined;
  /** Whether `/metrics` answers without a token. */
  readonly openMetrics: boolean;
  /** What stands before the names of the vendor's relay of version 8; undefined: they are not shown. */
  readonly relay8Prefix: string | undefined;
}

/** What goes to an OpenTelemetry collector. */
export interface OtlpConfig {
  readonly metrics: boolean;
  readonly traces: boolean;
  /** Where to; undefined: as OpenTelemetry's own variables say. */
  readonly metricsUrl: string | undefined;
  readonly tracesUrl: string | undefined;
  /** Between two times that metrics are sent. */
  readonly intervalMs: number;
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
  readonly decisions: DecisionsConfig;
  readonly store: StoreConfig;
  readonly environments: readonly EnvironmentConfig[];
  readonly exit: ExitConfig;
  readonly autoConfig: AutoConfigConfig | undefined;
  readonly events: EventsConfig;
  readonly upstream: UpstreamConfig;
  readonly outbound: OutboundConfig;
  readonly redis: RedisConfig | undefined;
  readonly dynamoDb: DynamoDbConfig | undefined;
  readonly log: LogConfig;
  readonly admin: AdminConfig;
  readonly otlp: OtlpConfig;
}

/** Removes `readonly`, all the way down: what a reader fills in before the whole is frozen. */
export type Mutable<T> = T extends readonly (infer Item)[]
  ? Mutable<Item>[]
  : T extends object
    ? { -readonly [Key in keyof T]: Mutable<T[Key]> }
    : T;
