/** How a value is read. `positive` is a whole number above 0; `multi` keeps each repetition as it is, commas and all. */
type ValueType =
  | 'bytes'
  | 'boolean'
  | 'duration'
  | 'integer'
  | 'level'
  | 'list'
  | 'multi'
  | 'positive'
  | 'text'
  | 'tls'
  | 'url';

/** A setting of the vendor's relay: its name in the file, its name in the environment, and what becomes of it here. */
export interface VendorName {
  readonly section: string;
  /** Name in the section; undefined where only the environment has one. */
  readonly key: string | undefined;
  /** Environment variable; in named sections a prefix that the section's name follows. */
  readonly env: string;
  readonly type: ValueType;
  /** What happens instead, for a setting that is not built yet; undefined = it takes effect. */
  readonly instead?: string;
  /** Why it has no effect, and needs none. */
  readonly moot?: string;
  /** Why it cannot be used, and what to do: the start is refused. */
  readonly refused?: string;
  /** The value that asks for nothing, so that nothing is said. */
  readonly idle?: boolean | string | number;
  /** Its value may hold a password or key: messages do not repeat it. */
  readonly secret?: true;
}

type Row = readonly [key: string | undefined, env: string, type: ValueType, extra?: Partial<VendorName>];

function rows(section: string, instead: string | undefined, list: readonly Row[]): VendorName[] {
  return list.map(([key, env, type, extra]) => ({
    section,
    key,
    env,
    type,
    ...(instead === undefined ? {} : { instead }),
    ...extra,
  }));
}

const NO_CONSUL =
  'Consul is not supported: use Redis, or no database at all and HEADGATE_STORE, the path of a folder in which Headgate keeps what a restart needs';
const NO_NTLM =
  'proxies that ask for NTLM are not supported: remove it and let the proxy ask for a user and a password (Basic), or put one that speaks NTLM in between, such as cntlm';
const IN_MEMORY = 'everything is held in memory, and never looked up in the database';
const OWN_POOL = 'connections to the service are kept open while they are used, and closed when they are not';
const NO_EXPORT = 'metrics are not sent there; remove it';
const secret = { secret: true } as const;

/** Every setting of the vendor's relay, versions 8 and 9. */
export const VENDOR_NAMES: readonly VendorName[] = [
  ...rows('Main', undefined, [
    ['streamUri', 'STREAM_URI', 'url'],
    ['baseUri', 'BASE_URI', 'url'],
    ['clientSideBaseUri', 'CLIENT_SIDE_BASE_URI', 'url'],
    ['exitOnError', 'EXIT_ON_ERROR', 'boolean'],
    ['exitAlways', 'EXIT_ALWAYS', 'boolean'],
    ['ignoreConnectionErrors', 'IGNORE_CONNECTION_ERRORS', 'boolean'],
    ['port', 'PORT', 'positive'],
    ['initTimeout', 'INIT_TIMEOUT', 'duration'],
    ['heartbeatInterval', 'HEARTBEAT_INTERVAL', 'duration'],
    ['maxClientConnectionTime', 'MAX_CLIENT_CONNECTION_TIME', 'duration'],
    ['disconnectedStatusTime', 'DISCONNECTED_STATUS_TIME', 'duration'],
    ['tlsEnabled', 'TLS_ENABLED', 'boolean'],
    ['tlsCert', 'TLS_CERT', 'text'],
    ['tlsKey', 'TLS_KEY', 'text'],
    ['tlsMinVersion', 'TLS_MIN_VERSION', 'tls'],
    ['logLevel', 'LOG_LEVEL', 'level'],
    ['bigSegmentsStaleAsDegraded', 'BIG_SEGMENTS_STALE_AS_DEGRADED', 'boolean'],
    ['bigSegmentsStaleThreshold', 'BIG_SEGMENTS_STALE_THRESHOLD', 'duration'],
    ['expiredCredentialCleanupInterval', 'EXPIRED_CREDENTIAL_CLEANUP_INTERVAL', 'duration'],
    ['gracefulShutdownTimeout', 'GRACEFUL_SHUTDOWN_TIMEOUT', 'duration'],
    ['maxClientRequestBodySize', 'MAX_CLIENT_REQUEST_BODY_SIZE', 'bytes'],
    ['pingStreamJitterTime', 'PING_STREAM_JITTER_TIME', 'duration'],
  ]),
  ...rows('AutoConfig', undefined, [
    ['key', 'AUTO_CONFIG_KEY', 'text', secret],
    ['cacheKey', 'AUTO_CONFIG_CACHE_KEY', 'text'],
    ['cacheEncryptionKey', 'AUTO_CONFIG_CACHE_ENCRYPTION_KEY', 'text', secret],
    ['envDatastorePrefix', 'ENV_DATASTORE_PREFIX', 'text'],
    ['envDatastoreTableName', 'ENV_DATASTORE_TABLE_NAME', 'text'],
    ['envAllowedOrigin', 'ENV_ALLOWED_ORIGIN', 'list'],
    ['envAllowedHeader', 'ENV_ALLOWED_HEADER', 'list'],
  ]),
  ...rows('OfflineMode', undefined, [
    ['fileDataSource', 'FILE_DATA_SOURCE', 'text'],
    ['fileDataSourceMonitoringInterval', 'FILE_DATA_SOURCE_MONITORING_INTERVAL', 'duration'],
    ['envDatastorePrefix', 'ENV_DATASTORE_PREFIX', 'text'],
    ['envDatastoreTableName', 'ENV_DATASTORE_TABLE_NAME', 'text'],
    ['envAllowedOrigin', 'ENV_ALLOWED_ORIGIN', 'list'],
    ['envAllowedHeader', 'ENV_ALLOWED_HEADER', 'list'],
  ]),
  ...rows('Events', undefined, [
    ['sendEvents', 'USE_EVENTS', 'boolean'],
    ['eventsUri', 'EVENTS_HOST', 'url'],
    ['flushInterval', 'EVENTS_FLUSH_INTERVAL', 'duration'],
    ['capacity', 'EVENTS_CAPACITY', 'positive'],
    ['inlineUsers', 'EVENTS_INLINE_USERS', 'boolean'],
    ['maxInboundPayloadSize', 'EVENTS_MAX_INBOUND_PAYLOAD_SIZE', 'bytes'],
    [
      'metricsCapacity',
      'EVENTS_METRICS_CAPACITY',
      'integer',
      { moot: 'Headgate does not report its own use to the service', idle: 10_000 },
    ],
  ]),
  ...rows('Environment', undefined, [
    ['sdkKey', 'LD_ENV_', 'text', secret],
    ['mobileKey', 'LD_MOBILE_KEY_', 'text', secret],
    ['envId', 'LD_CLIENT_SIDE_ID_', 'text', secret],
    ['secureMode', 'LD_SECURE_MODE_', 'boolean'],
    ['prefix', 'LD_PREFIX_', 'text'],
    ['tableName', 'LD_TABLE_NAME_', 'text'],
    ['allowedOrigin', 'LD_ALLOWED_ORIGIN_', 'list'],
    ['allowedHeader', 'LD_ALLOWED_HEADER_', 'list'],
    ['logLevel', 'LD_LOG_LEVEL_', 'level', { moot: 'all environments are logged at the level of Main' }],
    ['ttl', 'LD_TTL_', 'duration'],
    ['projKey', 'LD_PROJ_KEY_', 'text'],
  ]),
  ...rows('Filters', undefined, [['keys', 'LD_FILTER_KEYS_', 'list']]),
  ...rows('Redis', undefined, [
    [undefined, 'USE_REDIS', 'boolean'],
    ['host', 'REDIS_HOST', 'text'],
    ['port', 'REDIS_PORT', 'text'],
    ['url', 'REDIS_URL', 'url', secret],
    ['tls', 'REDIS_TLS', 'boolean'],
    ['username', 'REDIS_USERNAME', 'text'],
    ['password', 'REDIS_PASSWORD', 'text', secret],
    ['localTtl', 'CACHE_TTL', 'duration', { moot: IN_MEMORY, idle: 30_000 }],
    ['clientCertificateFile', 'REDIS_CLIENT_CERT_FILE', 'text'],
    ['clientKeyFile', 'REDIS_CLIENT_KEY_FILE', 'text'],
    ['caFile', 'REDIS_CA_FILE', 'text'],
    [
      'atomicUpsert',
      'REDIS_ATOMIC_UPSERT',
      'boolean',
      { moot: 'an item is only ever replaced by a newer one, in one step', idle: true },
    ],
    ['connectTimeout', 'REDIS_CONNECT_TIMEOUT', 'duration'],
    ['readTimeout', 'REDIS_READ_TIMEOUT', 'duration'],
  ]),
  ...rows('DynamoDB', undefined, [
    ['enabled', 'USE_DYNAMODB', 'boolean'],
    ['tableName', 'DYNAMODB_TABLE', 'text'],
    ['url', 'DYNAMODB_URL', 'url', secret],
    ['localTtl', 'CACHE_TTL', 'duration', { moot: IN_MEMORY, idle: 30_000 }],
  ]),
  ...rows('Consul', undefined, [
    [undefined, 'USE_CONSUL', 'boolean', { idle: false, refused: NO_CONSUL }],
    ['host', 'CONSUL_HOST', 'text', { refused: NO_CONSUL }],
    ['token', 'CONSUL_TOKEN', 'text', secret],
    ['tokenFile', 'CONSUL_TOKEN_FILE', 'text'],
    ['localTtl', 'CACHE_TTL', 'duration'],
  ]),
  ...rows('Datadog', NO_EXPORT, [
    ['enabled', 'USE_DATADOG', 'boolean', { idle: false }],
    ['statsAddr', 'DATADOG_STATS_ADDR', 'text'],
    ['traceAddr', 'DATADOG_TRACE_ADDR', 'text'],
    ['tag', 'DATADOG_TAG_', 'multi'],
    ['prefix', 'DATADOG_PREFIX', 'text'],
  ]),
  ...rows('Stackdriver', NO_EXPORT, [
    ['enabled', 'USE_STACKDRIVER', 'boolean', { idle: false }],
    ['projectID', 'STACKDRIVER_PROJECT_ID', 'text'],
    ['prefix', 'STACKDRIVER_PREFIX', 'text'],
  ]),
  ...rows('Prometheus', undefined, [
    ['enabled', 'USE_PROMETHEUS', 'boolean'],
    ['port', 'PROMETHEUS_PORT', 'positive'],
    ['prefix', 'PROMETHEUS_PREFIX', 'text'],
  ]),
  ...rows('OpenTelemetry', undefined, [
    ['enabled', 'USE_OTLP', 'boolean'],
    ['protocol', 'OTEL_EXPORTER_OTLP_PROTOCOL', 'text'],
    [
      'metricsCardinalityLimit',
      'OTEL_METRICS_CARDINALITY_LIMIT',
      'integer',
      { instead: 'a metric has 4,000 series at most; remove it', idle: 2000 },
    ],
    [
      'environmentStatusMetrics',
      'OTEL_ENVIRONMENT_STATUS_METRICS',
      'boolean',
      { instead: 'the state of environments is told as headgate.environment.*; remove it', idle: false },
    ],
    ['logsExporter', 'OTEL_LOGS_EXPORTER', 'text', { instead: 'logs go to standard output; remove it', idle: 'none' }],
    ['tracesExporter', 'OTEL_TRACES_EXPORTER', 'text'],
    ['metricsExporter', 'OTEL_METRICS_EXPORTER', 'text'],
  ]),
  ...rows('Proxy', undefined, [
    ['url', 'PROXY_URL', 'url', secret],
    ['user', 'PROXY_AUTH_USER', 'text'],
    ['password', 'PROXY_AUTH_PASSWORD', 'text', secret],
    ['domain', 'PROXY_AUTH_DOMAIN', 'text', { refused: NO_NTLM }],
    ['ntlmAuth', 'PROXY_AUTH_NTLM', 'boolean', { idle: false, refused: NO_NTLM }],
    ['caCertFiles', 'PROXY_CA_CERTS', 'list'],
  ]),
  ...rows('Http', undefined, [
    ['enableCompression', 'HTTP_ENABLE_COMPRESSION', 'boolean'],
    ['idleConnTimeout', 'HTTP_IDLE_CONN_TIMEOUT', 'duration', { moot: OWN_POOL }],
    ['maxIdleConns', 'HTTP_MAX_IDLE_CONNS', 'integer', { moot: OWN_POOL }],
    ['maxIdleConnsPerHost', 'HTTP_MAX_IDLE_CONNS_PER_HOST', 'integer', { moot: OWN_POOL }],
    ['disableKeepAlives', 'HTTP_DISABLE_KEEPALIVE', 'boolean', { moot: OWN_POOL, idle: false }],
  ]),
  ...rows('Concurrency', undefined, [
    ['maxConcurrent', 'INIT_MAX_CONCURRENT', 'integer'],
    ['maxQueued', 'INIT_MAX_QUEUED', 'integer'],
    ['sendTimeout', 'INIT_SEND_TIMEOUT', 'duration'],
  ]),
];

/** Section names, as the vendor writes them. */
export const SECTIONS: readonly string[] = [...new Set(VENDOR_NAMES.map((name) => name.section))];

/** Sections that have a name of their own in quotes: `[Environment "production"]`. */
export const NAMED_SECTIONS: ReadonlySet<string> = new Set(['Environment', 'Filters']);

/** Variables that only count when this one says so: other programs on the machine use the same names. */
export const SECTION_SWITCHES: ReadonlyMap<string, string> = new Map([
  ['Redis', 'USE_REDIS'],
  ['DynamoDB', 'USE_DYNAMODB'],
  ['Consul', 'USE_CONSUL'],
  ['Datadog', 'USE_DATADOG'],
  ['Stackdriver', 'USE_STACKDRIVER'],
  ['Prometheus', 'USE_PROMETHEUS'],
  ['OpenTelemetry', 'USE_OTLP'],
]);

/** Variables the vendor once had, and what to use instead. A set one is an error there, so that nobody misses it. */
export const OBSOLETE_VARIABLES: ReadonlyMap<string, string | undefined> = new Map([
  ['EVENTS_SAMPLING_INTERVAL', undefined],
  ['REDIS_TTL', 'CACHE_TTL'],
]);
