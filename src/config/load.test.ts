import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DECISION_VARIABLES } from './decisions-env.ts';
import { defaultConfig } from './defaults.ts';
import { type LoadOptions, loadConfig, type Loaded } from './load.ts';
import { VENDOR_NAMES } from './names.ts';
import type { Config, Problem } from './types.ts';

const MACHINE = { memoryLimitBytes: 512 * 2 ** 20, lowWater: true };
const ARCHIVE = '[OfflineMode]\nfileDataSource = flags.tar.gz\n';
const YAML_ARCHIVE = 'flags:\n  sources:\n    - { type: archive, path: flags.tar.gz }\n';

async function load(
  text: string | undefined,
  env?: Record<string, string>,
  options: Partial<LoadOptions> = {},
): Promise<Loaded> {
  return await loadConfig({
    ...(text === undefined ? {} : { file: 'relay.conf', readFile: async () => text }),
    env,
    fromEnv: env !== undefined,
    machine: MACHINE,
    ...options,
  });
}

async function loadYaml(text: string, env?: Record<string, string>, fromEnv = false): Promise<Loaded> {
  return await load(text, env, { file: 'headgate.yaml', readFile: async () => text, fromEnv });
}

function configOf({ config, problems }: Loaded): Config {
  expect(problems.filter(({ severity }) => severity === 'error')).toEqual([]);
  if (config === undefined) throw new Error('no configuration came without an error');
  return config;
}

function errorsOf({ config, problems }: Loaded): Problem[] {
  expect(config).toBeUndefined();
  return problems.filter(({ severity }) => severity === 'error');
}

/** A file that a small shop might have had for years. */
const SHOP = `# Relay for the shop
[Main]
    port = 8333
    logLevel = "warn"
    heartbeatInterval = 15s
    maxClientConnectionTime = 30m
    tlsEnabled = true
    tlsCert = "/etc/relay/cert.pem"    ; renewed monthly
    tlsKey = "/etc/relay/key.pem"
    tlsMinVersion = "1.2"
    exitOnError

[Events]
    sendEvents = true
    capacity = 2000

[Environment "Shop Production"]
    sdkKey = "sdk-00000000-0000-4000-8000-000000001111"
    mobileKey = "mob-00000000-0000-4000-8000-000000002222"
    envId = "507f1f77bcf86cd799433333"
    allowedOrigin = "https://shop.example.com"
    allowedOrigin = "https://www.shop.example.com"
    secureMode = true
    ttl = 5m
    projKey = shop

[Environment "Shop Test"]
    sdkKey = "sdk-00000000-0000-4000-8000-000000004444"
    projKey = shop
    logLevel = debug

[Filters "shop"]
    keys = checkout, search
`;

/** A file for a site without a way out. */
const OFFLINE = `[Main]
port = 8030
gracefulShutdownTimeout = 10s
[OfflineMode]
fileDataSource = /data/flags.tar.gz
fileDataSourceMonitoringInterval = 10s
envAllowedOrigin = https://a.example.com,https://b.example.com
[Concurrency]
maxConcurrent = 200
maxQueued = 1000
sendTimeout = 1m
[Http]
enableCompression = true
`;

describe("files under the vendor's names", () => {
  it('loads the file of a shop, and says what has no effect', async () => {
    const loaded = await load(SHOP);
    const config = configOf(loaded);
    expect(config).toMatchObject({
      origin: 'vendor',
      file: 'relay.conf',
      server: {
        port: 8333,
        tls: { certPath: '/etc/relay/cert.pem', keyPath: '/etc/relay/key.pem', minVersion: '1.2' },
        drainDelayMs: 0,
        graceMs: 30_000,
      },
      flags: { heartbeatMs: 15_000, connectionMsMax: 1_800_000, compression: 'off', sources: [] },
      exit: { onError: true, always: false },
      events: { send: true, capacity: 2000 },
      log: { level: 'warn' },
      limits: { enabled: false, mode: 'vendor' },
    });
    expect(config.environments).toEqual([
      {
        name: 'Shop Production',
        sdkKey: 'sdk-00000000-0000-4000-8000-000000001111',
        mobileKey: 'mob-00000000-0000-4000-8000-000000002222',
        envId: '507f1f77bcf86cd799433333',
        projectKey: 'shop',
        filterKeys: ['checkout', 'search'],
        prefix: undefined,
        tableName: undefined,
        allowedOrigins: ['https://shop.example.com', 'https://www.shop.example.com'],
        allowedHeaders: [],
        secureMode: true,
        logLevel: undefined,
        ttlMs: 300_000,
      },
      expect.objectContaining({ name: 'Shop Test', logLevel: 'debug', ttlMs: 0, secureMode: false }),
    ]);
    expect(loaded.problems.map(({ severity, where }) => `${severity} ${where}`)).toEqual([
      'info relay.conf:30',
      'info relay.conf',
    ]);
  });

  it('loads the file of a site without a way out, without a word', async () => {
    const loaded = await load(OFFLINE);
    expect(loaded.problems).toEqual([]);
    expect(configOf(loaded)).toMatchObject({
      server: { port: 8030, graceMs: 10_000 },
      flags: {
        compression: 'auto',
        sources: [
          {
            type: 'archive',
            path: '/data/flags.tar.gz',
            intervalMs: 10_000,
            allowedOrigins: ['https://a.example.com', 'https://b.example.com'],
            allowedHeaders: [],
          },
        ],
      },
      limits: {
        mode: 'vendor',
        enabled: true,
        slots: 200,
        queue: 1000,
        sendTimeoutMs: 60_000,
        fairness: 'off',
        parking: false,
      },
    });
  });

  it("has the vendor's defaults", async () => {
    expect(configOf(await load(ARCHIVE))).toMatchObject({
      server: {
        host: undefined,
        port: 8030,
        tls: undefined,
        bodyBytesMax: 5 * 2 ** 20,
        graceMs: 30_000,
        drainDelayMs: 0,
      },
      flags: {
        heartbeatMs: 180_000,
        connectionMsMax: undefined,
        initTimeoutMs: 10_000,
        disconnectedStatusMs: 60_000,
        credentialCleanupMs: 60_000,
        sources: [{ type: 'archive', path: 'flags.tar.gz', intervalMs: 1000 }],
      },
      upstream: {
        streamUri: 'https://stream.launchdarkly.com',
        baseUri: 'https://sdk.launchdarkly.com',
        clientSideBaseUri: 'https://clientsdk.launchdarkly.com',
      },
      log: { level: 'info' },
    });
  });

  it('takes a connection time of 0 as none', async () => {
    expect(
      configOf(await load(`${ARCHIVE}[Main]\nmaxClientConnectionTime = 0\n`)).flags.connectionMsMax,
    ).toBeUndefined();
  });

  it('sends browsers of a private instance to its own address', async () => {
    const custom = configOf(await load(`${ARCHIVE}[Main]\nbaseUri = https://ld.example.com\n`));
    expect(custom.upstream).toMatchObject({
      baseUri: 'https://ld.example.com',
      clientSideBaseUri: 'https://ld.example.com',
    });
    const old = configOf(await load(`${ARCHIVE}[Main]\nbaseUri = https://app.launchdarkly.com\n`));
    expect(old.upstream).toMatchObject({
      baseUri: 'https://sdk.launchdarkly.com',
      clientSideBaseUri: 'https://clientsdk.launchdarkly.com',
    });
  });
});

describe('the environment', () => {
  it('is enough by itself', async () => {
    const config = configOf(
      await load(undefined, {
        FILE_DATA_SOURCE: 'a.tar',
        PORT: '9000',
        LOG_LEVEL: 'debug',
        HTTP_ENABLE_COMPRESSION: '1',
      }),
    );
    expect(config).toMatchObject({
      origin: 'vendor',
      file: undefined,
      server: { port: 9000 },
      flags: { compression: 'auto', sources: [{ path: 'a.tar' }] },
      log: { level: 'debug' },
      limits: { enabled: false },
    });
  });

  it("wins over the vendor's file", async () => {
    const config = configOf(
      await load(`${ARCHIVE}[Main]\nport = 1\nlogLevel = warn\n`, { PORT: '2', FILE_DATA_SOURCE: 'b.tar' }),
    );
    expect(config).toMatchObject({
      server: { port: 2 },
      log: { level: 'warn' },
      flags: { sources: [{ path: 'b.tar' }] },
    });
  });

  it('wins over our own file, and leaves what it does not name', async () => {
    const config = configOf(
      await loadYaml(`server: { port: 1, host: 127.0.0.1 }\n${YAML_ARCHIVE}`, { PORT: '2' }, true),
    );
    expect(config).toMatchObject({
      origin: 'yaml',
      server: { port: 2, host: '127.0.0.1', drainDelayMs: 5000 },
      flags: { compression: 'auto' },
    });
  });

  it('does not count without --from-env', async () => {
    expect(configOf(await load(ARCHIVE, { PORT: '2' }, { fromEnv: false })).server.port).toBe(8030);
  });
});

describe('limits', () => {
  const infos = ({ problems }: Loaded): string[] =>
    problems.filter(({ severity }) => severity === 'info').map(({ message }) => message);

  it("are off under the vendor's names, with one line that recommends auto", async () => {
    for (const loaded of [
      await load(ARCHIVE),
      await load(`${ARCHIVE}[Concurrency]\nmaxConcurrent = 0\nmaxQueued = 9\n`),
    ]) {
      expect(configOf(loaded).limits).toMatchObject({ enabled: false, mode: 'vendor' });
      expect(infos(loaded)).toEqual([expect.stringContaining('HEADGATE_LIMITS=auto')]);
    }
  });

  it('are auto in our own file, even when it does not name them', async () => {
    const loaded = await loadYaml(YAML_ARCHIVE);
    expect(configOf(loaded).limits).toMatchObject({
      mode: 'auto',
      enabled: true,
      slots: 512,
      fairness: 'tenant',
      parking: true,
    });
    expect(infos(loaded)).toEqual([]);
  });

  it.each([true, false])(
    "are auto under the vendor's names when HEADGATE_LIMITS says so (--from-env %s)",
    async (fromEnv) => {
      const loaded = await load(ARCHIVE, { HEADGATE_LIMITS: 'auto' }, { fromEnv });
      expect(configOf(loaded).limits).toMatchObject({ mode: 'auto', slots: 512, waitStreamMsMax: 10_000 });
      expect(infos(loaded)).toEqual([]);
    },
  );

  it("keep the vendor's own numbers when auto was asked for", async () => {
    const text = `${ARCHIVE}[Concurrency]\nmaxConcurrent = 7\nmaxQueued = 8\nsendTimeout = 9s\n`;
    expect(configOf(await load(text, { HEADGATE_LIMITS: 'auto' })).limits).toMatchObject({
      mode: 'auto',
      slots: 7,
      queue: 8,
      sendTimeoutMs: 9000,
      fairness: 'tenant',
    });
    expect(
      configOf(await load(`${ARCHIVE}[Concurrency]\nmaxConcurrent = 0\n`, { HEADGATE_LIMITS: 'auto' })).limits.slots,
    ).toBe(512);
  });

  it('reckon without the low-water mark when HEADGATE_LOW_WATER is off', async () => {
    const { config } = await loadYaml(YAML_ARCHIVE, { HEADGATE_LOW_WATER: 'off' });
    expect(config?.limits).toMatchObject({ lowWaterMarkBytes: undefined, slackMs: 30_000 });
    expect(errorsOf(await load(ARCHIVE, { HEADGATE_LOW_WATER: 'no' }))).toEqual([
      { severity: 'error', where: 'HEADGATE_LOW_WATER', message: 'expected one of auto, off, got "no"' },
    ]);
  });

  // fails when the variable is not handed on, and when it counts where nothing is computed
  it('of the link are those of HEADGATE_LINK', async () => {
    const auto = await load(ARCHIVE, { HEADGATE_LIMITS: 'auto', HEADGATE_LINK: '100Mbit/s' });
    expect(configOf(auto).limits).toMatchObject({ slots: 63, parked: 31, linkBytesPerSecond: 12_500_000 });
    const own = await loadYaml(`${YAML_ARCHIVE}limits: { link: 10Gbit/s }\n`, { HEADGATE_LINK: 'off' });
    expect(configOf(own).limits.linkBytesPerSecond).toBe(Number.POSITIVE_INFINITY);
    const vendor = await load(ARCHIVE, { HEADGATE_LINK: '100Mbit/s' });
    expect(vendor.problems).toContainEqual(
      expect.objectContaining({
        severity: 'warning',
        where: 'HEADGATE_LINK',
        message: expect.stringContaining('has no effect'),
      }),
    );
    const off = await load(ARCHIVE, { HEADGATE_LINK: '1Gbit/s', HEADGATE_LIMITS: 'off' });
    expect(off.problems).toContainEqual(expect.objectContaining({ message: 'has no effect: limits are off' }));
    expect(errorsOf(await load(ARCHIVE, { HEADGATE_LINK: 'fast' }))).toEqual([
      {
        severity: 'error',
        where: 'HEADGATE_LINK',
        message: 'expected the speed of a link such as 100Mbit/s, 1Gbit/s or 50MB/s, or off, got "fast"',
      },
    ]);
    expect(errorsOf(await load(ARCHIVE, { HEADGATE_LINK: '9kbit/s' }))).toMatchObject([
      { message: 'expected at least 1Mbit/s, or off, got "9kbit/s"' },
    ]);
  });

  it('are off when HEADGATE_LIMITS says so, without a recommendation', async () => {
    const loaded = await load(`${ARCHIVE}[Concurrency]\nmaxConcurrent = 7\n`, { HEADGATE_LIMITS: 'off' });
    expect(configOf(loaded).limits).toMatchObject({ mode: 'off', enabled: false });
    expect(infos(loaded)).toEqual([]);
    expect(configOf(await loadYaml(YAML_ARCHIVE, { HEADGATE_LIMITS: 'off' })).limits.enabled).toBe(false);
  });

  it('of our own file are replaced one by one by the environment', async () => {
    const yaml = `limits: { slots: 5, queue: 6 }\n${YAML_ARCHIVE}`;
    expect(configOf(await loadYaml(yaml, { INIT_MAX_CONCURRENT: '9' }, true)).limits).toMatchObject({
      mode: 'auto',
      slots: 9,
      queue: 6,
    });
    expect(configOf(await loadYaml(yaml, { INIT_MAX_CONCURRENT: '0' }, true)).limits).toMatchObject({
      mode: 'off',
      enabled: false,
    });
  });

  it('refuse another word', async () => {
    expect(errorsOf(await load(ARCHIVE, { HEADGATE_LIMITS: 'maybe' }))).toEqual([
      { severity: 'error', where: 'HEADGATE_LIMITS', message: 'expected one of auto, off, got "maybe"' },
    ]);
  });

  it('notice a slip in our own variables', async () => {
    expect((await load(ARCHIVE, { HEADGATE_LIMIT: 'auto' })).problems).toContainEqual({
      severity: 'warning',
      where: 'HEADGATE_LIMIT',
      message: 'HEADGATE_LIMIT is ignored: no variable has this name (did you mean "HEADGATE_LIMITS"?)',
    });
  });
});

describe('values out of range are brought into it, with a warning', () => {
  const warnings = ({ problems }: Loaded): string[] =>
    problems.filter(({ severity }) => severity === 'warning').map(({ message }) => message);

  it.each([
    ['maxConcurrent = 65537', { slots: 65_536 }, 'maxConcurrent: expected at most 65536, got 65537; 65536 is used'],
    ['maxConcurrent = -1', { enabled: false }, 'maxConcurrent: expected at least 0, got -1; 0 is used'],
    [
      'maxConcurrent = 1\nmaxQueued = 1000001',
      { queue: 1_000_000 },
      'maxQueued: expected at most 1000000, got 1000001; 1000000 is used',
    ],
    ['maxConcurrent = 1\nmaxQueued = -5', { queue: 0 }, 'maxQueued: expected at least 0, got -5; 0 is used'],
    [
      'maxConcurrent = 1\nsendTimeout = 4999ms',
      { sendTimeoutMs: 5000 },
      'sendTimeout: expected at least 5s, got 4.999s; 5s is used',
    ],
    [
      'maxConcurrent = 1\nsendTimeout = -1s',
      { sendTimeoutMs: 5000 },
      'sendTimeout: expected at least 5s, got -1s; 5s is used',
    ],
  ])('%j', async (text, limits, warning) => {
    const loaded = await load(`${ARCHIVE}[Concurrency]\n${text}\n`);
    expect(configOf(loaded).limits).toMatchObject(limits);
    expect(warnings(loaded)).toEqual([warning]);
  });

  it.each([
    ['maxConcurrent = 65536', { slots: 65_536, queue: 0, sendTimeoutMs: 120_000 }],
    ['maxConcurrent = 0', { enabled: false }],
    ['maxConcurrent = 1\nsendTimeout = 0s', { sendTimeoutMs: 120_000 }],
    ['maxConcurrent = 1\nsendTimeout = 5s', { sendTimeoutMs: 5000 }],
    ['maxConcurrent = 1\nmaxQueued = 1000000', { queue: 1_000_000 }],
  ])('%j is in range', async (text, limits) => {
    const loaded = await load(`${ARCHIVE}[Concurrency]\n${text}\n`);
    expect(configOf(loaded).limits).toMatchObject(limits);
    expect(warnings(loaded)).toEqual([]);
  });

  it('intervals have a least value of 100 ms', async () => {
    const loaded = await load(
      `${ARCHIVE}fileDataSourceMonitoringInterval = 99ms\n[Main]\nexpiredCredentialCleanupInterval = 1ms\nheartbeatInterval = 0\n`,
    );
    expect(configOf(loaded).flags).toMatchObject({
      credentialCleanupMs: 100,
      heartbeatMs: 100,
      sources: [{ intervalMs: 100 }],
    });
    expect(loaded.problems.map(({ where }) => where)).toEqual([
      'relay.conf:3',
      'relay.conf:5',
      'relay.conf:6',
      'relay.conf',
    ]);
  });
});

describe('settings that contradict each other', () => {
  it.each([
    [
      '[Main]\ntlsEnabled = true',
      4,
      'TLS is enabled without tlsCert and tlsKey: give the paths of the PEM files, or disable TLS',
    ],
    ['[Main]\ntlsEnabled = true\ntlsCert = x', 4, 'TLS is enabled without tlsKey'],
    ['[AutoConfig]\nkey = x', 2, 'an archive and an automatic configuration key cannot be used together'],
    ['[Environment "a"]\nsdkKey = x', 3, 'environment "a" cannot be used in offline mode'],
    [
      '[AutoConfig]\nenvAllowedOrigin = http://x',
      4,
      'envAllowedOrigin needs key of [AutoConfig] (AUTO_CONFIG_KEY) as well',
    ],
    [
      '[Redis]\nhost = a\n[DynamoDB]\nenabled = true\ntableName = t',
      6,
      'only one database can be used, got Redis and DynamoDB',
    ],
    [
      '[Consul]\nhost = x\ntoken = y',
      4,
      'Consul is not supported: use Redis, or no database at all and HEADGATE_STORE',
    ],
    ['[Proxy]\ndomain = x\nntlmAuth', 4, 'proxies that ask for NTLM are not supported: remove it and let the proxy'],
    ['[Redis]\nurl = redis://a\nhost = a', 4, 'give Redis either url or host and port, not both: remove host'],
    ['[Redis]\nport = x', 4, 'port: expected a port or tcp://host:port, got "x"'],
    ['[Redis]\nhost = a\nclientKeyFile = x', 5, 'clientKeyFile needs both the certificate and its key'],
    ['[Events]\nmaxInboundPayloadSize = 0B', 4, 'maxInboundPayloadSize: expected more than 0 bytes, got 0'],
    ['[Main]\nmaxClientRequestBodySize = 0B', 4, 'maxClientRequestBodySize: expected more than 0 bytes, got 0'],
    ['[Main]\nport = 65536', 4, 'port: expected a port between 1 and 65535, got 65536'],
    ['[Filters "p"]\nkeys = a', 3, 'there are filters for project "p", but no environment has this projKey'],
  ])('%j', async (text, line, message) => {
    expect(errorsOf(await load(`${ARCHIVE}${text}\n`))).toEqual([
      { severity: 'error', where: `relay.conf:${line}`, message: expect.stringContaining(message) },
    ]);
  });

  it.each([
    [
      '[OfflineMode]\nfileDataSourceMonitoringInterval = 1s\n[Environment "a"]\nsdkKey = x',
      2,
      'fileDataSourceMonitoringInterval needs fileDataSource',
    ],
    [
      '[AutoConfig]\nkey = x\n[Environment "a"]\nsdkKey = x',
      3,
      'environment "a" cannot be used with automatic configuration',
    ],
    ['[AutoConfig]\nkey = x\n[Filters "p"]\nkeys = a', 3, 'filters cannot be used with automatic configuration'],
    ['[AutoConfig]\nkey = x\ncacheKey = y', 3, 'cacheKey needs cacheEncryptionKey (AUTO_CONFIG_CACHE_ENCRYPTION_KEY)'],
    [
      '[AutoConfig]\nkey = x\ncacheKey = y\ncacheEncryptionKey = z',
      3,
      'cacheKey needs something to keep the list of environments in: Redis, or a folder (HEADGATE_STORE)',
    ],
    ['[AutoConfig]\nkey = x\n[Redis]\nhost = y', 2, 'needs a prefix (envDatastorePrefix) that contains $CID'],
    [
      '[AutoConfig]\nkey = x\n[DynamoDB]\nenabled',
      2,
      'needs a prefix (envDatastorePrefix) or a tableName (envDatastoreTableName) that contains $CID',
    ],
    ['[Environment "a"]\nmobileKey = x', 1, 'environment "a" needs an sdkKey (LD_ENV_a), got nothing'],
    [
      '[Environment "a"]\nsdkKey = x\n[Filters "p"]\nkeys = a',
      1,
      'environment "a" needs a projKey (LD_PROJ_KEY_a), because there are filters',
    ],
    [
      '[Environment "a"]\nsdkKey = x\nprojKey = p\n[Filters "p"]\nkeys =',
      4,
      'filters of project "p": expected at least one key',
    ],
    [
      '[Environment "a"]\nsdkKey = x\nprojKey = p\n[Filters "p"]\nkeys = "a,,b"',
      4,
      'filters of project "p": expected keys between the commas',
    ],
    [
      '[Redis]\nhost = y\n[Environment "a"]\nsdkKey = x\nprefix = a\n[Environment "b"]\nsdkKey = y',
      6,
      'environment "b" needs a prefix of its own in Redis',
    ],
  ])('%j', async (text, line, message) => {
    expect(errorsOf(await load(text))).toContainEqual({
      severity: 'error',
      where: `relay.conf:${line}`,
      message: expect.stringContaining(message),
    });
  });

  it('are all reported, not only the first', async () => {
    const errors = errorsOf(
      await load(`${ARCHIVE}[Main]\ntlsEnabled\nport = x\nprot = 1\n[AutoConfig]\nkey = x\n`, {
        PORT: 'y',
        HEADGATE_LIMITS: 'z',
      }),
    );
    expect(errors.map(({ where }) => where)).toEqual([
      'relay.conf:2',
      'relay.conf:4',
      'relay.conf:5',
      'relay.conf:6',
      'PORT',
      'HEADGATE_LIMITS',
    ]);
  });

  it('accept a database name that keeps environments apart', async () => {
    for (const text of [
      'envDatastorePrefix = ld-$CID\n[Redis]\nhost = y',
      'envDatastoreTableName = ld-$CID\n[DynamoDB]\nenabled',
    ]) {
      expect((await load(`[AutoConfig]\nkey = x\n${text}\n`)).config).toBeDefined();
    }
  });
});

describe('what has no effect', () => {
  /** Settings that do not do what they do at the vendor's, and what is said of them. */
  const SAID: Readonly<Record<string, string>> = {
    'Events.metricsCapacity': 'info',
    'Redis.localTtl': 'info',
    'Redis.atomicUpsert': 'info',
    'DynamoDB.localTtl': 'info',
    'Http.idleConnTimeout': 'info',
    'Http.maxIdleConns': 'info',
    'Http.maxIdleConnsPerHost': 'info',
    'Http.disableKeepAlives': 'info',
    'Consul.host': 'error',
    'Proxy.domain': 'error',
    'Proxy.ntlmAuth': 'error',
    'Datadog.enabled': 'warning',
    'Datadog.statsAddr': 'warning',
    'Datadog.traceAddr': 'warning',
    'Datadog.tag': 'warning',
    'Datadog.prefix': 'warning',
    'Stackdriver.enabled': 'warning',
    'Stackdriver.projectID': 'warning',
    'Stackdriver.prefix': 'warning',
    'OpenTelemetry.metricsCardinalityLimit': 'warning',
    'OpenTelemetry.environmentStatusMetrics': 'warning',
    'OpenTelemetry.logsExporter': 'warning',
  };
  const SAMPLES: Readonly<Record<string, string>> = {
    boolean: 'true',
    bytes: '2MiB',
    duration: '77s',
    integer: '4444',
    positive: '4444',
    url: 'https://x.example.com',
    level: 'debug',
    tls: '1.3',
  };
  const WORDS = /has no effect: |is recognised but not supported yet: |(is|are) not supported: /;

  it.each(
    VENDOR_NAMES.filter(({ section, key }) => key !== undefined && section !== 'Environment' && section !== 'Filters'),
  )('[$section] $key is told exactly when it has none', async ({ section, key = '', type }) => {
    const value = key === 'atomicUpsert' ? 'false' : (SAMPLES[type] ?? 'x');
    const { problems } = await load(`[${section}]\n${key} = ${value}\n`);
    const said = problems.filter(({ message }) => WORDS.test(message)).map(({ severity }) => severity);
    expect(said).toEqual(SAID[`${section}.${key}`] === undefined ? [] : [SAID[`${section}.${key}`]]);
  });

  it('is not told when the setting asks for nothing', async () => {
    const { problems } = await load(
      `${OFFLINE}[Events]\nmetricsCapacity = 10000\n[Proxy]\nntlmAuth = false\ndomain =\n[Prometheus]\nenabled = false\nport = 8031\n`,
      { USE_CONSUL: 'false', USE_REDIS: 'false', CACHE_TTL: '30s' },
    );
    expect(problems).toEqual([]);
  });

  it('is told of each environment', async () => {
    const { problems } = await load(undefined, { LD_ENV_a: 'sdk-a', LD_LOG_LEVEL_a: 'debug', LD_ENV_b: 'sdk-b' });
    expect(problems.filter(({ where }) => where.startsWith('LD_'))).toEqual([
      {
        severity: 'info',
        where: 'LD_LOG_LEVEL_a',
        message: 'LD_LOG_LEVEL_a has no effect: all environments are logged at the level of Main',
      },
    ]);
  });
});

describe('where it comes from', () => {
  it('is told apart by the ending of the name, else by the first line', async () => {
    const origin = async (file: string, text: string): Promise<string> =>
      configOf(await load(text, undefined, { file, readFile: async () => text })).origin;
    expect(await origin('a.yml', YAML_ARCHIVE)).toBe('yaml');
    expect(await origin('a.json', '{"flags":{"sources":[{"type":"archive","path":"x"}]}}')).toBe('yaml');
    expect(await origin('a.conf', ARCHIVE)).toBe('vendor');
    expect(await origin('config', `# comment\n\n; comment\n  ${ARCHIVE}`)).toBe('vendor');
    expect(await origin('config', `# comment\n\n${YAML_ARCHIVE}`)).toBe('yaml');
  });

  it('must be there, unless a missing file is allowed', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'headgate-config-'));
    const file = join(directory, 'relay.conf');
    const options = { env: { FILE_DATA_SOURCE: 'x' }, fromEnv: true, machine: MACHINE };
    try {
      expect(errorsOf(await loadConfig({ ...options, file }))).toEqual([
        { severity: 'error', where: file, message: expect.stringContaining('Cannot read the file: ENOENT') },
      ]);
      const allowed = await loadConfig({ ...options, file, allowMissingFile: true });
      expect(configOf(allowed).file).toBeUndefined();
      expect(allowed.problems[0]).toMatchObject({ severity: 'info', where: file });
      // A directory is there, but cannot be read: that is no missing file.
      expect(errorsOf(await loadConfig({ ...options, file: directory, allowMissingFile: true }))).toHaveLength(1);
      await writeFile(file, ARCHIVE);
      expect(configOf(await loadConfig({ file, fromEnv: false })).flags.sources).toHaveLength(1);
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  it('must name something to serve', async () => {
    for (const loaded of [
      await load(''),
      await load(undefined, {}),
      await loadYaml(''),
      await loadYaml('flags:\n'),
      await load(undefined),
    ]) {
      expect(errorsOf(loaded)).toEqual([
        {
          severity: 'error',
          where: expect.any(String),
          message: expect.stringContaining('expected something to serve'),
        },
      ]);
    }
  });

  it('is frozen, all the way down', async () => {
    const config = configOf(await load(OFFLINE));
    const frozen = (value: unknown): boolean =>
      typeof value !== 'object' ||
      value === null ||
      (Object.isFrozen(value) && Object.values(value).every((inner) => frozen(inner)));
    expect(frozen(config)).toBe(true);
    expect(frozen(defaultConfig(MACHINE))).toBe(true);
  });

  it('computes limits from this machine when it is given none', async () => {
    const { config } = await loadConfig({ file: 'a.conf', readFile: async () => ARCHIVE, fromEnv: false });
    expect(config?.machine.memoryLimitBytes).toBeGreaterThan(0);
    expect(config?.machine.lowWater).toBe(false);
  });
});

describe('any input', () => {
  it('never throws, and there is no configuration exactly when there is an error', async () => {
    const piece = fc.constantFrom(
      '[Main]\n',
      '[OfflineMode]\nfileDataSource=x\n',
      'port=1\n',
      '[Environment "a"]\n',
      'sdkKey=x\n',
      '[',
      '"',
      '\n',
      '\\',
      'server:\n',
      '  port: 1\n',
      'limits: auto\n',
      'flags:',
      'decisions:\n',
      '  sources: [{ type: lapi, url: http://a, key: k }]\n',
      '  keyFile: x\n',
      'store: none\n',
      'api: { server: { decisions_stream: { page_size: -1 } } }\n',
      '&a',
      '*a',
      '- ',
      '{',
      ': ',
      '!!x ',
      '<<: *a\n',
      '%YAML',
      '\t',
    );
    const text = fc
      .array(fc.oneof(piece, fc.string({ maxLength: 5 })), { maxLength: 20 })
      .map((pieces) => pieces.join(''));
    const variables = fc.dictionary(
      fc.oneof(
        fc.constantFrom(
          ...VENDOR_NAMES.map(({ env }) => env),
          ...DECISION_VARIABLES,
          'HEADGATE_LIMITS',
          'LD_ENV_a',
          'BOUNCER_KEY_a',
        ),
        fc.string(),
      ),
      fc.oneof(fc.string(), fc.constantFrom('1', 'true', '5s', 'http://a')),
    );
    await fc.assert(
      fc.asyncProperty(
        text,
        fc.constantFrom('a.conf', 'a.yaml', 'a'),
        variables,
        fc.boolean(),
        async (content, file, env, fromEnv) => {
          const { config, problems } = await loadConfig({
            file,
            readFile: async () => content,
            env,
            fromEnv,
            machine: MACHINE,
          });
          expect(config === undefined).toBe(problems.some(({ severity }) => severity === 'error'));
          const lines = content.split('\n').length;
          for (const { where } of problems) {
            const line = where.startsWith(`${file}:`) ? Number(where.slice(file.length + 1).split(':')[0]) : 1;
            expect(line).toBeGreaterThanOrEqual(1);
            expect(line).toBeLessThanOrEqual(lines);
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});
