import { describe, expect, it } from 'vitest';
import { VENDOR_NAMES } from './names.ts';
import { Problems } from './problems.ts';
import { type Setting, VendorSettings } from './settings.ts';
import { readVendorVariables } from './vendor-env.ts';
import { readVendorFile } from './vendor-file.ts';

/**
 * Every name of the vendor's documentation, versions 8 and 9, with a value it allows: section, property, variable, text,
 * and what the text is read as. Written out by hand, so that a name that gets lost in the table is missed here.
 */
const NAMES: readonly (readonly [
  section: string,
  property: string,
  variable: string,
  text: string,
  value: Setting['value'],
])[] = [
  ['Main', 'streamUri', 'STREAM_URI', 'https://stream.example.com', 'https://stream.example.com'],
  ['Main', 'baseUri', 'BASE_URI', 'https://base.example.com', 'https://base.example.com'],
  ['Main', 'clientSideBaseUri', 'CLIENT_SIDE_BASE_URI', 'https://client.example.com', 'https://client.example.com'],
  ['Main', 'exitOnError', 'EXIT_ON_ERROR', 'true', true],
  ['Main', 'exitAlways', 'EXIT_ALWAYS', '1', true],
  ['Main', 'ignoreConnectionErrors', 'IGNORE_CONNECTION_ERRORS', 'true', true],
  ['Main', 'port', 'PORT', '8333', 8333],
  ['Main', 'initTimeout', 'INIT_TIMEOUT', '33s', 33_000],
  ['Main', 'heartbeatInterval', 'HEARTBEAT_INTERVAL', '90s', 90_000],
  ['Main', 'maxClientConnectionTime', 'MAX_CLIENT_CONNECTION_TIME', '30m', 1_800_000],
  ['Main', 'disconnectedStatusTime', 'DISCONNECTED_STATUS_TIME', '3m', 180_000],
  ['Main', 'tlsEnabled', 'TLS_ENABLED', 'yes', true],
  ['Main', 'tlsCert', 'TLS_CERT', 'cert.pem', 'cert.pem'],
  ['Main', 'tlsKey', 'TLS_KEY', 'key.pem', 'key.pem'],
  ['Main', 'tlsMinVersion', 'TLS_MIN_VERSION', '1.3', '1.3'],
  ['Main', 'logLevel', 'LOG_LEVEL', 'WARN', 'warn'],
  ['Main', 'bigSegmentsStaleAsDegraded', 'BIG_SEGMENTS_STALE_AS_DEGRADED', 'true', true],
  ['Main', 'bigSegmentsStaleThreshold', 'BIG_SEGMENTS_STALE_THRESHOLD', '10m', 600_000],
  ['Main', 'expiredCredentialCleanupInterval', 'EXPIRED_CREDENTIAL_CLEANUP_INTERVAL', '1s', 1000],
  ['Main', 'gracefulShutdownTimeout', 'GRACEFUL_SHUTDOWN_TIMEOUT', '45s', 45_000],
  ['Main', 'maxClientRequestBodySize', 'MAX_CLIENT_REQUEST_BODY_SIZE', '10MiB', 10 * 2 ** 20],
  ['Main', 'pingStreamJitterTime', 'PING_STREAM_JITTER_TIME', '5s', 5000],
  ['AutoConfig', 'key', 'AUTO_CONFIG_KEY', 'rel-abc', 'rel-abc'],
  ['AutoConfig', 'cacheKey', 'AUTO_CONFIG_CACHE_KEY', 'cache', 'cache'],
  ['AutoConfig', 'cacheEncryptionKey', 'AUTO_CONFIG_CACHE_ENCRYPTION_KEY', 'c2VjcmV0', 'c2VjcmV0'],
  ['AutoConfig', 'envDatastorePrefix', 'ENV_DATASTORE_PREFIX', 'ld-$CID', 'ld-$CID'],
  ['AutoConfig', 'envDatastoreTableName', 'ENV_DATASTORE_TABLE_NAME', 't-$CID', 't-$CID'],
  ['AutoConfig', 'envAllowedOrigin', 'ENV_ALLOWED_ORIGIN', 'http://a,http://b', ['http://a', 'http://b']],
  ['AutoConfig', 'envAllowedHeader', 'ENV_ALLOWED_HEADER', 'X-One', ['X-One']],
  ['OfflineMode', 'fileDataSource', 'FILE_DATA_SOURCE', '/data/flags.tar.gz', '/data/flags.tar.gz'],
  ['OfflineMode', 'fileDataSourceMonitoringInterval', 'FILE_DATA_SOURCE_MONITORING_INTERVAL', '5m', 300_000],
  ['OfflineMode', 'envDatastorePrefix', 'ENV_DATASTORE_PREFIX', 'ld', 'ld'],
  ['OfflineMode', 'envDatastoreTableName', 'ENV_DATASTORE_TABLE_NAME', 't', 't'],
  ['OfflineMode', 'envAllowedOrigin', 'ENV_ALLOWED_ORIGIN', 'http://a', ['http://a']],
  ['OfflineMode', 'envAllowedHeader', 'ENV_ALLOWED_HEADER', 'X-One,X-Two', ['X-One', 'X-Two']],
  ['Events', 'sendEvents', 'USE_EVENTS', 'true', true],
  ['Events', 'eventsUri', 'EVENTS_HOST', 'https://events.example.com', 'https://events.example.com'],
  ['Events', 'flushInterval', 'EVENTS_FLUSH_INTERVAL', '2s', 2000],
  ['Events', 'capacity', 'EVENTS_CAPACITY', '500', 500],
  ['Events', 'inlineUsers', 'EVENTS_INLINE_USERS', 'true', true],
  ['Events', 'maxInboundPayloadSize', 'EVENTS_MAX_INBOUND_PAYLOAD_SIZE', '1MiB', 2 ** 20],
  ['Events', 'metricsCapacity', 'EVENTS_METRICS_CAPACITY', '20000', 20_000],
  ['Environment "prod"', 'sdkKey', 'LD_ENV_prod', 'sdk-1', 'sdk-1'],
  ['Environment "prod"', 'mobileKey', 'LD_MOBILE_KEY_prod', 'mob-1', 'mob-1'],
  ['Environment "prod"', 'envId', 'LD_CLIENT_SIDE_ID_prod', '507f1f77', '507f1f77'],
  ['Environment "prod"', 'secureMode', 'LD_SECURE_MODE_prod', 'true', true],
  ['Environment "prod"', 'prefix', 'LD_PREFIX_prod', 'p1', 'p1'],
  ['Environment "prod"', 'tableName', 'LD_TABLE_NAME_prod', 't1', 't1'],
  ['Environment "prod"', 'allowedOrigin', 'LD_ALLOWED_ORIGIN_prod', 'http://a,http://b', ['http://a', 'http://b']],
  ['Environment "prod"', 'allowedHeader', 'LD_ALLOWED_HEADER_prod', 'X-A', ['X-A']],
  ['Environment "prod"', 'logLevel', 'LD_LOG_LEVEL_prod', 'debug', 'debug'],
  ['Environment "prod"', 'ttl', 'LD_TTL_prod', '5m', 300_000],
  ['Environment "prod"', 'projKey', 'LD_PROJ_KEY_prod', 'shop', 'shop'],
  ['Filters "shop"', 'keys', 'LD_FILTER_KEYS_shop', 'one,two', ['one', 'two']],
  ['Redis', '', 'USE_REDIS', '1', true],
  ['Redis', 'host', 'REDIS_HOST', 'redis', 'redis'],
  ['Redis', 'port', 'REDIS_PORT', 'tcp://10.0.0.1:6379', 'tcp://10.0.0.1:6379'],
  ['Redis', 'url', 'REDIS_URL', 'redis://redis:6379', 'redis://redis:6379'],
  ['Redis', 'tls', 'REDIS_TLS', 'true', true],
  ['Redis', 'username', 'REDIS_USERNAME', 'me', 'me'],
  ['Redis', 'password', 'REDIS_PASSWORD', 'secret', 'secret'],
  ['Redis', 'localTtl', 'CACHE_TTL', '1m', 60_000],
  ['Redis', 'clientCertificateFile', 'REDIS_CLIENT_CERT_FILE', 'c.pem', 'c.pem'],
  ['Redis', 'clientKeyFile', 'REDIS_CLIENT_KEY_FILE', 'k.pem', 'k.pem'],
  ['Redis', 'caFile', 'REDIS_CA_FILE', 'ca.pem', 'ca.pem'],
  ['Redis', 'atomicUpsert', 'REDIS_ATOMIC_UPSERT', 'true', true],
  ['Redis', 'connectTimeout', 'REDIS_CONNECT_TIMEOUT', '3s', 3000],
  ['Redis', 'readTimeout', 'REDIS_READ_TIMEOUT', '3s', 3000],
  ['DynamoDB', 'enabled', 'USE_DYNAMODB', 'true', true],
  ['DynamoDB', 'tableName', 'DYNAMODB_TABLE', 'flags', 'flags'],
  ['DynamoDB', 'url', 'DYNAMODB_URL', 'http://localhost:8000', 'http://localhost:8000'],
  ['DynamoDB', 'localTtl', 'CACHE_TTL', '1m', 60_000],
  ['Consul', '', 'USE_CONSUL', 'true', true],
  ['Consul', 'host', 'CONSUL_HOST', 'consul', 'consul'],
  ['Consul', 'token', 'CONSUL_TOKEN', 'secret', 'secret'],
  ['Consul', 'tokenFile', 'CONSUL_TOKEN_FILE', '/run/token', '/run/token'],
  ['Consul', 'localTtl', 'CACHE_TTL', '1m', 60_000],
  ['Datadog', 'enabled', 'USE_DATADOG', 'true', true],
  ['Datadog', 'statsAddr', 'DATADOG_STATS_ADDR', 'localhost:8125', 'localhost:8125'],
  ['Datadog', 'traceAddr', 'DATADOG_TRACE_ADDR', 'localhost:8126', 'localhost:8126'],
  ['Datadog', 'prefix', 'DATADOG_PREFIX', 'relay', 'relay'],
  ['Stackdriver', 'enabled', 'USE_STACKDRIVER', 'true', true],
  ['Stackdriver', 'projectID', 'STACKDRIVER_PROJECT_ID', 'p', 'p'],
  ['Stackdriver', 'prefix', 'STACKDRIVER_PREFIX', 'relay', 'relay'],
  ['Prometheus', 'enabled', 'USE_PROMETHEUS', 'true', true],
  ['Prometheus', 'port', 'PROMETHEUS_PORT', '9000', 9000],
  ['Prometheus', 'prefix', 'PROMETHEUS_PREFIX', 'relay', 'relay'],
  ['OpenTelemetry', 'enabled', 'USE_OTLP', 'true', true],
  ['OpenTelemetry', 'protocol', 'OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc', 'grpc'],
  ['OpenTelemetry', 'metricsCardinalityLimit', 'OTEL_METRICS_CARDINALITY_LIMIT', '0', 0],
  ['OpenTelemetry', 'environmentStatusMetrics', 'OTEL_ENVIRONMENT_STATUS_METRICS', 'true', true],
  ['OpenTelemetry', 'logsExporter', 'OTEL_LOGS_EXPORTER', 'none', 'none'],
  ['OpenTelemetry', 'tracesExporter', 'OTEL_TRACES_EXPORTER', 'otlp', 'otlp'],
  ['OpenTelemetry', 'metricsExporter', 'OTEL_METRICS_EXPORTER', 'otlp', 'otlp'],
  ['Proxy', 'url', 'PROXY_URL', 'http://proxy:3128', 'http://proxy:3128'],
  ['Proxy', 'user', 'PROXY_AUTH_USER', 'me', 'me'],
  ['Proxy', 'password', 'PROXY_AUTH_PASSWORD', 'secret', 'secret'],
  ['Proxy', 'domain', 'PROXY_AUTH_DOMAIN', 'corp', 'corp'],
  ['Proxy', 'ntlmAuth', 'PROXY_AUTH_NTLM', 'true', true],
  ['Proxy', 'caCertFiles', 'PROXY_CA_CERTS', 'a.pem,b.pem', ['a.pem', 'b.pem']],
  ['Http', 'enableCompression', 'HTTP_ENABLE_COMPRESSION', 'true', true],
  ['Http', 'idleConnTimeout', 'HTTP_IDLE_CONN_TIMEOUT', '30s', 30_000],
  ['Http', 'maxIdleConns', 'HTTP_MAX_IDLE_CONNS', '200', 200],
  ['Http', 'maxIdleConnsPerHost', 'HTTP_MAX_IDLE_CONNS_PER_HOST', '20', 20],
  ['Http', 'disableKeepAlives', 'HTTP_DISABLE_KEEPALIVE', 'true', true],
  ['Concurrency', 'maxConcurrent', 'INIT_MAX_CONCURRENT', '200', 200],
  ['Concurrency', 'maxQueued', 'INIT_MAX_QUEUED', '1000', 1000],
  ['Concurrency', 'sendTimeout', 'INIT_SEND_TIMEOUT', '15s', 15_000],
];

/** What must be set besides, so that variables of a section are for us. */
const SWITCHES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Redis: { USE_REDIS: '1' },
  DynamoDB: { USE_DYNAMODB: '1' },
  Consul: { USE_CONSUL: '1' },
  Datadog: { USE_DATADOG: '1' },
  Stackdriver: { USE_STACKDRIVER: '1' },
  Prometheus: { USE_PROMETHEUS: '1' },
  OpenTelemetry: { USE_OTLP: '1' },
  OfflineMode: { FILE_DATA_SOURCE: 'x' },
  'Environment "prod"': { LD_ENV_prod: 'sdk-1' },
};

function settingOf(settings: VendorSettings, section: string, key: string): Setting | undefined {
  const named = /^(\w+) "(.*)"$/.exec(section);
  return settings.group(named?.[1] ?? section, named?.[2]).get(key);
}

function fromFile(text: string): { settings: VendorSettings; problems: Problems } {
  const settings = new VendorSettings();
  const problems = new Problems();
  readVendorFile(text, 'relay.conf', settings, problems);
  return { settings, problems };
}

function fromVariables(variables: Record<string, string>, text = ''): { settings: VendorSettings; problems: Problems } {
  const { settings, problems } = fromFile(text);
  readVendorVariables(variables, settings, problems);
  return { settings, problems };
}

describe('every name of the vendor', () => {
  it.each(NAMES.filter(([, property]) => property !== ''))(
    '[%s] %s is read from the file',
    (...[section, property, , text, value]) => {
      const { settings, problems } = fromFile(`[${section}]\n${property} = "${text}"\n`);
      expect(problems.list()).toEqual([]);
      expect(settingOf(settings, section, property)).toMatchObject({ value, where: 'relay.conf:2', called: property });
    },
  );

  it.each(NAMES)('[%s] %s is read from %s', (...[section, property, variable, text, value]) => {
    const { settings, problems } = fromVariables({ ...SWITCHES[section], [variable]: text });
    expect(problems.list()).toEqual([]);
    expect(settingOf(settings, section, property === '' ? variable : property)).toMatchObject({
      value,
      where: variable,
      called: variable,
    });
  });

  it('knows no more and no fewer than the documentation', () => {
    const tag = 'Datadog.tag.DATADOG_TAG_';
    const known = VENDOR_NAMES.map(({ section, key, env }) => `${section}.${key ?? ''}.${env}`);
    const documented = NAMES.map(
      ([section, property, variable]) =>
        `${section.replace(/ ".*"/, '')}.${property}.${variable.replace(/_(prod|shop)$/, '_')}`,
    );
    expect(known.filter((name) => name !== tag).toSorted()).toEqual(documented.toSorted());
    expect(known).toContain(tag);
  });

  it('reads tags, one a line or one a variable', () => {
    const { settings } = fromVariables(
      { DATADOG_TAG_b: 'two' },
      '[Datadog]\nenabled\ntag = a:one,and:more\ntag = c:three\n',
    );
    expect(settings.list('Datadog', 'tag')).toEqual(['a:one,and:more', 'c:three', 'b:two']);
    expect(fromFile('[Datadog]\ntag = a\ntag\ntag = b').settings.list('Datadog', 'tag')).toEqual(['b']);
  });
});

describe('the file', () => {
  it('ignores the case of sections and settings, and keeps that of names', () => {
    const { settings, problems } = fromFile('[MAIN]\nPORT = 1\n[environment "Prod"]\nSDKKEY = a\n');
    expect(problems.list()).toEqual([]);
    expect(settings.number('Main', 'port')).toBe(1);
    expect([...settings.environments.keys()]).toEqual(['Prod']);
  });

  it('takes the last of several single values and every item of a list', () => {
    const { settings } = fromFile('[Main]\nport = 1\nport = 2\n[Proxy]\ncaCertFiles = a, b\ncaCertFiles = c\n');
    expect(settings.number('Main', 'port')).toBe(2);
    expect(settings.list('Proxy', 'caCertFiles')).toEqual(['a', 'b', 'c']);
  });

  it('takes a yes-or-no setting without a value as yes', () => {
    expect(fromFile('[Main]\nexitAlways\n').settings.flag('Main', 'exitAlways')).toBe(true);
  });

  it.each([
    ['[Main]\nprot = 1', 'relay.conf:2', 'no setting of [Main] is named "prot" (did you mean "port"?)'],
    [
      '[Main]\nport = 1\nqwertyuiop = 1',
      'relay.conf:3',
      'no setting of [Main] is named "qwertyuiop"; known: streamUri',
    ],
    ['[Mian]\nport = 1', 'relay.conf:1', 'no section is named "Mian" (did you mean "Main"?)'],
    [
      '[Environment]\nsdkKey = 1',
      'relay.conf:1',
      'expected a name in quotes, as in [Environment "name"], got [Environment]',
    ],
    ['[Main "x"]\nport = 1', 'relay.conf:1', 'expected [Main] without a name, got "x"'],
    ['[Main]\nport', 'relay.conf:2', 'port: expected "=" and a value, got nothing'],
    ['[Main]\nport = eighty', 'relay.conf:2', 'port: expected a whole number above 0, got "eighty"'],
    ['[Main]\nport = 0', 'relay.conf:2', 'port: expected a whole number above 0, got "0"'],
    ['[Main]\nexitAlways = maybe', 'relay.conf:2', 'exitAlways: expected true or false, got "maybe"'],
    ['[Main]\nheartbeatInterval = 180', 'relay.conf:2', 'heartbeatInterval: expected a duration such as 500ms'],
    ['[Main]\ninitTimeout = -3s', 'relay.conf:2', 'initTimeout: expected a duration of 0 or more, got "-3s"'],
    ['[Main]\nstreamUri = example.com', 'relay.conf:2', 'streamUri: expected an absolute URL'],
    ['[Main]\nlogLevel = loud', 'relay.conf:2', 'logLevel: expected one of debug, info, warn, error, none, got "loud"'],
    ['[Main]\ntlsMinVersion = 1.4', 'relay.conf:2', 'tlsMinVersion: expected one of 1.0, 1.1, 1.2, 1.3, got "1.4"'],
    [
      '[Events]\nmaxInboundPayloadSize = 5',
      'relay.conf:2',
      'maxInboundPayloadSize: expected a number and a unit such as 100KiB or 5MiB, got "5"',
    ],
    ['[Concurrency]\nmaxConcurrent = many', 'relay.conf:2', 'maxConcurrent: expected a whole number, got "many"'],
  ])('reports %j', (text, where, message) => {
    expect(fromFile(text).problems.list()).toEqual([
      { severity: 'error', where, message: expect.stringContaining(message) },
    ]);
  });

  it('never repeats a value that may hold a secret', () => {
    const [problem] = fromFile('[Redis]\nurl = "hunter2@redis"').problems.list();
    expect(problem?.message).toBe(
      'url: expected an absolute URL such as https://example.com, got a value that is not shown here',
    );
  });
});

describe('the environment', () => {
  it('wins over the file, and adds to its lists', () => {
    const { settings } = fromVariables(
      { PORT: '2', PROXY_CA_CERTS: 'c' },
      '[Main]\nport = 1\n[Proxy]\ncaCertFiles = a\n',
    );
    expect(settings.get('Main', 'port')).toMatchObject({ value: 2, where: 'PORT' });
    expect(settings.list('Proxy', 'caCertFiles')).toEqual(['a', 'c']);
  });

  it('leaves a number, a duration or a yes-or-no as it was when it is empty', () => {
    const { settings, problems } = fromVariables(
      { PORT: '', EXIT_ALWAYS: '', TLS_CERT: '' },
      '[Main]\nport = 1\nexitAlways\ntlsCert = x\n',
    );
    expect(problems.list()).toEqual([]);
    expect(settings.number('Main', 'port')).toBe(1);
    expect(settings.flag('Main', 'exitAlways')).toBe(true);
    expect(settings.text('Main', 'tlsCert')).toBeUndefined();
  });

  it('completes an environment of the file', () => {
    const { settings } = fromVariables(
      { LD_ENV_prod: 'sdk-env' },
      '[Environment "prod"]\nsdkKey = sdk-file\nmobileKey = mob-file\n',
    );
    expect(settingOf(settings, 'Environment "prod"', 'sdkKey')?.value).toBe('sdk-env');
    expect(settingOf(settings, 'Environment "prod"', 'mobileKey')?.value).toBe('mob-file');
  });

  // Fails when #switchedOn always says yes.
  it.each([
    'REDIS_URL',
    'CONSUL_HOST',
    'DYNAMODB_URL',
    'DATADOG_PREFIX',
    'STACKDRIVER_PREFIX',
    'PROMETHEUS_PORT',
    'OTEL_LOGS_EXPORTER',
    'REDIS_TTL',
    'CACHE_TTL',
  ])('leaves %s to other programs unless its section is on', (variable) => {
    const { settings, problems } = fromVariables({ [variable]: 'anything' });
    expect(problems.list()).toEqual([]);
    expect([...settings.single()]).toEqual([]);
  });

  it('reads the variables of a section that the file has', () => {
    const { settings } = fromVariables({ REDIS_PASSWORD: 'x', CACHE_TTL: '1m' }, '[Redis]\nhost = redis\n');
    expect(settings.text('Redis', 'password')).toBe('x');
    expect(settings.number('Redis', 'localTtl')).toBe(60_000);
  });

  it('gives the shared variables to the mode that is on', () => {
    const offline = fromVariables({ FILE_DATA_SOURCE: 'x', ENV_ALLOWED_ORIGIN: 'http://a' }).settings;
    expect(offline.list('OfflineMode', 'envAllowedOrigin')).toEqual(['http://a']);
    expect(offline.list('AutoConfig', 'envAllowedOrigin')).toEqual([]);
    const automatic = fromVariables({ AUTO_CONFIG_KEY: 'x', ENV_ALLOWED_ORIGIN: 'http://a' }).settings;
    expect(automatic.list('AutoConfig', 'envAllowedOrigin')).toEqual(['http://a']);
  });

  it.each([
    ['LD_ENV_', 'error', 'expected a name after LD_ENV_, as in LD_ENV_production, got nothing'],
    ['LD_MOBILE_KEY_', 'error', 'expected a name after LD_MOBILE_KEY_, as in LD_MOBILE_KEY_production, got nothing'],
    ['LD_FILTER_KEYS_', 'error', 'expected a name after LD_FILTER_KEYS_, as in LD_FILTER_KEYS_my-project, got nothing'],
    ['LD_TTL_prod', 'warning', 'LD_TTL_prod is ignored: there is no LD_ENV_prod to give the environment its key'],
    [
      'LD_MOBILEKEY_prod',
      'warning',
      'LD_MOBILEKEY_prod is ignored: no variable has this name (did you mean "LD_MOBILE_KEY_prod"?)',
    ],
    [
      'INIT_MAX_QUEUD',
      'warning',
      'INIT_MAX_QUEUD is ignored: no variable has this name (did you mean "INIT_MAX_QUEUED"?)',
    ],
    ['EVENTS_SAMPLING_INTERVAL', 'error', 'no longer supported: remove it'],
  ])('notices %s', (variable, severity, message) => {
    expect(fromVariables({ [variable]: 'x' }).problems.list()).toEqual([{ severity, where: variable, message }]);
  });

  it('refuses obsolete variables that would be missed', () => {
    expect(fromVariables({ EVENTS_SAMPLING_INTERVAL: '' }).problems.list()).toEqual([]);
    expect(fromVariables({ USE_REDIS: '1', REDIS_TTL: '3' }).problems.list()).toEqual([
      { severity: 'error', where: 'REDIS_TTL', message: 'no longer supported: use CACHE_TTL' },
    ]);
    expect(fromVariables({ LD_ENV_a: 'k', LD_TTL_MINUTES_a: '3' }).problems.list()).toEqual([
      { severity: 'error', where: 'LD_TTL_MINUTES_a', message: 'no longer supported: use LD_TTL_a' },
    ]);
  });

  it.each([
    'PATH',
    'LD_LIBRARY_PATH',
    'LD_PRELOAD',
    'LD_TRACE_LOG_BIG_SEGMENTS',
    'INIT',
    'HOME',
    'OTEL_SERVICE_NAME',
    'REDIS',
  ])('leaves %s alone', (variable) => {
    expect(fromVariables({ [variable]: 'x' }).problems.list()).toEqual([]);
  });
});
