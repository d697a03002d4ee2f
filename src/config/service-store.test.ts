import { describe, expect, it } from 'vitest';
import { type Loaded, loadConfig } from './load.ts';
import type { Config } from './types.ts';

const MACHINE = { memoryLimitBytes: 512 * 2 ** 20, lowWater: true };
const ONE = '[Environment "a"]\nsdkKey = sdk-a\nprefix = pa\n';
const AUTO = '[AutoConfig]\nkey = rel-1\ncacheKey = c\ncacheEncryptionKey = e\n';
const YAML = 'flags: { environments: { a: { sdkKey: k, prefix: p } } }\n';
const LAPI = 'decisions: { sources: [{ type: lapi, url: http://a, key: k }] }\n';

async function load(file: string, text: string, env: Record<string, string> = {}, fromEnv = false): Promise<Loaded> {
  return await loadConfig({ file, readFile: async () => text, env, fromEnv, machine: MACHINE });
}

function configOf({ config, problems }: Loaded): Config {
  expect(problems.filter(({ severity }) => severity !== 'info')).toEqual([]);
  if (config === undefined) throw new Error('no configuration came without an error');
  return config;
}

function complaintsOf({ problems }: Loaded): string[] {
  return problems
    .filter(({ severity }) => severity !== 'info')
    .map(({ severity, where, message }) => `${severity} ${where} ${message}`);
}

describe("the store under the vendor's names", () => {
  it('is none without a database, as it is there', async () => {
    expect(configOf(await load('relay.conf', ONE)).store).toEqual({ type: 'none', path: '' });
    expect(configOf(await load('relay.conf', '', { LD_ENV_a: 'k' }, true)).store.type).toBe('none');
  });

  it.each([
    ['/data', { type: 'lmdb', path: '/data' }],
    ['lmdb:/data', { type: 'lmdb', path: '/data' }],
    ['none', { type: 'none', path: '' }],
    ['', { type: 'none', path: '' }],
  ])('is what HEADGATE_STORE says, with and without --from-env: %j', async (text, store) => {
    for (const fromEnv of [true, false]) {
      expect(configOf(await load('relay.conf', ONE, { HEADGATE_STORE: text }, fromEnv)).store).toEqual(store);
    }
  });

  it('is told where HEADGATE_STORE says what it cannot be', async () => {
    expect(complaintsOf(await load('relay.conf', ONE, { HEADGATE_STORE: 'redis://:hunter2@r' }))).toEqual([
      'error HEADGATE_STORE expected the path of a folder, or none, got an address of Redis: set USE_REDIS=true and REDIS_URL, or store.type redis in our own file',
    ]);
    expect(complaintsOf(await load('relay.conf', ONE, { HEADGATE_STORE: 'lmdb:' }))).toEqual([
      'error HEADGATE_STORE expected the path of a folder, or none, got "lmdb:"',
    ]);
    expect(complaintsOf(await load('relay.conf', `${ONE}[Redis]\nhost = r\n`, { HEADGATE_STORE: '/x' }))).toEqual([
      'warning HEADGATE_STORE nothing is kept in /x: flags are in Redis, and there is nothing else to keep',
    ]);
  });

  it('keeps decisions in a folder of their own, beside flags in Redis', async () => {
    const env = { HEADGATE_LAPI_URL: 'http://a', HEADGATE_LAPI_KEY: 'k' };
    const config = configOf(await load('relay.conf', `${ONE}[Redis]\nhost = r\n`, env, true));
    expect(config).toMatchObject({
      store: { type: 'lmdb', path: './headgate-data' },
      redis: { url: 'redis://r:6379' },
    });
  });
});

describe('the store of our own file', () => {
  it.each([
    [YAML, 'lmdb'],
    ['flags: { autoConfig: { key: k } }\n', 'lmdb'],
    [`${YAML}store: none\n`, 'none'],
    ['flags: { sources: [{ type: archive, path: a }] }\n', 'none'],
    [`${YAML}store: { type: redis }\n`, 'redis'],
    [`${YAML}store: { type: dynamodb, tableName: t }\n`, 'dynamodb'],
    [`${YAML}${LAPI}store: { type: redis, path: d }\n`, 'lmdb'],
    [`${YAML}${LAPI}store: { type: dynamodb, tableName: t, path: d }\n`, 'lmdb'],
  ])('%j is %s', async (text, type) => {
    expect(configOf(await load('hg.yaml', text)).store.type).toBe(type);
  });

  it('may be a Redis with all that can be said of it', async () => {
    const text = `${YAML}
store:
  type: redis
  url: redis://me:hunter2@r:1/2
  username: you
  prefix: flags
  connectTimeout: 1s
  readTimeout: 2s
  tls: { ca: ca, cert: c, key: k, verify: false }
`;
    expect(configOf(await load('hg.yaml', text)).redis).toEqual({
      url: 'rediss://r:1/2',
      username: 'you',
      password: 'hunter2',
      prefix: 'flags',
      connectTimeoutMs: 1000,
      readTimeoutMs: 2000,
      tls: { caPath: 'ca', certPath: 'c', keyPath: 'k', verify: false },
    });
  });

  it.each([
    ['store: { type: redis, tableName: x }', '1:34 store.tableName: has no effect while store.type is redis'],
    [
      'store: { type: dynamodb, tableName: t, username: x }',
      '1:50 store.username: has no effect while store.type is dynamodb',
    ],
    ['store: { url: http://x }', '1:15 store.url: has no effect unless store.type is redis or dynamodb'],
    ['store: { tableName: x }', '1:21 store.tableName: has no effect unless store.type is dynamodb'],
    ['store: { type: dynamodb, tableName: t, url: redis://:hunter2@r }', '1:45 store.url: expected a base address'],
    ['store: { type: lmdb, url: redis://r }', '1:27 store.url: has no effect while store.type is lmdb'],
    ['store: { username: x }', '1:20 store.username: has no effect unless store.type is redis'],
    ['store: { type: redis, url: http://r }', '1:28 store.url: expected an address such as redis://127.0.0.1:6379'],
    ['store: { type: redis, tls: { cert: c } }', '1:23 store.tls: expected key beside the other of the two, got none'],
    ['store: { type: redis, url: "x:hunter2@y" }', '1:28 store.url: expected an address such as redis://127.0.0.1'],
    ['store: { type: mongo }', '1:16 store.type: expected one of lmdb, redis, dynamodb, none, got "mongo"'],
  ])('%j', async (text, message) => {
    const complaints = complaintsOf(await load('hg.yaml', `${text}\n${YAML}`));
    expect(complaints).toEqual([expect.stringContaining(`error hg.yaml:${message}`)]);
    expect(complaints.join()).not.toContain('hunter2');
  });
});

describe('the list of environments', () => {
  it('is kept where there is something to keep it in', async () => {
    const cache = { name: 'c', encryptionKey: 'e' };
    const redis = `${AUTO}envDatastorePrefix = ld-$CID\n[Redis]\nhost = r\n`;
    expect(configOf(await load('relay.conf', redis)).autoConfig).toMatchObject({ prefix: 'ld-$CID', cache });
    expect(configOf(await load('relay.conf', AUTO, { HEADGATE_STORE: '/data' })).autoConfig?.cache).toEqual(cache);
    expect(configOf(await load('relay.conf', redis, { HEADGATE_STORE: '/data' })).store.path).toBe('/data');
    expect(configOf(await load('relay.conf', redis, { HEADGATE_STORE: 'none' })).store.type).toBe('redis');
  });

  // Fails when checkCache takes any database for one that keeps the list.
  it('is not kept in DynamoDB', async () => {
    const dynamo = `${AUTO}envDatastorePrefix = ld-$CID\n[DynamoDB]\nenabled\ntableName = t\n`;
    expect(complaintsOf(await load('relay.conf', dynamo))).toEqual([
      'error relay.conf:3 the list of environments is not kept in DynamoDB: set HEADGATE_STORE to the path of a folder, or remove cacheKey',
    ]);
  });

  it('is not kept without a name, which is told', async () => {
    expect(complaintsOf(await load('relay.conf', AUTO.replace('cacheKey = c\n', '')))).toEqual([
      'warning relay.conf:3 cacheEncryptionKey has no effect without cacheKey (AUTO_CONFIG_CACHE_KEY), the name under which the list is kept',
    ]);
  });

  it('of our own file needs no name, but a key', async () => {
    const text = (settings: string): string => `flags: { autoConfig: { key: k, ${settings} } }\n`;
    expect(configOf(await load('hg.yaml', text('cacheEncryptionKey: e'))).autoConfig?.cache).toEqual({
      name: 'auto-config',
      encryptionKey: 'e',
    });
    expect(complaintsOf(await load('hg.yaml', text('cacheKey: c')))).toEqual([
      'error hg.yaml:1:42 flags.autoConfig.cacheKey: expected a cacheEncryptionKey beside it, since what is kept has keys in it, got none',
    ]);
  });

  it('stands alone', async () => {
    const text = `flags:
  autoConfig: { key: k }
  environments: { a: { sdkKey: x } }
  sources: [{ type: archive, path: p }, { type: file, name: f, paths: p, sdkKey: y }]
`;
    expect(complaintsOf(await load('hg.yaml', text))).toEqual([
      'error hg.yaml:3:19 environment "a" cannot be used with automatic configuration: remove one of the two',
      'error hg.yaml:4:36 an archive and an automatic configuration key cannot be used together: remove one of them',
    ]);
  });
});

describe('automatic configuration of our own file', () => {
  it('is completed and outdone by the environment', async () => {
    const text =
      'flags: { autoConfig: { key: k, prefix: p, allowedOrigins: [https://a] } }\nstore: { type: lmdb, path: /d }\n';
    const env = { AUTO_CONFIG_CACHE_KEY: 'c', AUTO_CONFIG_CACHE_ENCRYPTION_KEY: 'e' };
    expect(configOf(await load('hg.yaml', text, env, true)).autoConfig).toEqual({
      key: 'k',
      prefix: 'p',
      tableName: undefined,
      allowedOrigins: ['https://a'],
      allowedHeaders: [],
      cache: { name: 'c', encryptionKey: 'e' },
    });
    expect(configOf(await load('hg.yaml', text, { AUTO_CONFIG_KEY: 'k2' }, true)).autoConfig?.key).toBe('k2');
  });

  it('is not there without a key, which is told', async () => {
    const env = { AUTO_CONFIG_CACHE_KEY: 'c', AUTO_CONFIG_CACHE_ENCRYPTION_KEY: 'e', LD_ENV_a: 'k' };
    expect(complaintsOf(await load('relay.conf', '', env, true))).toEqual([
      'warning AUTO_CONFIG_CACHE_KEY cacheKey has no effect without key of [AutoConfig] (AUTO_CONFIG_KEY)',
    ]);
  });
});

describe('DynamoDB', () => {
  const OWN = `${YAML}store: { type: dynamodb, tableName: t, url: "http://d:8000", prefix: all }\n`;
  const VENDOR = `${ONE}[DynamoDB]\nenabled\ntableName = t\n`;
  const NO_ORDER = expect.stringContaining('replicas share no order of changes in DynamoDB') as unknown;

  // Fails when settleStore keeps flags that are in a database in a folder, or in none.
  it('keeps flags, and replicas share no order there, which is told', async () => {
    const own = await load('hg.yaml', OWN);
    expect(own.problems).toEqual([{ severity: 'info', where: 'hg.yaml:2:1', message: NO_ORDER }]);
    expect(own.config).toMatchObject({
      dynamoDb: { tableName: 't', url: 'http://d:8000', prefix: 'all' },
      store: { type: 'dynamodb', path: '' },
    });
    const vendor = await load('relay.conf', VENDOR);
    expect(vendor.problems).toContainEqual({ severity: 'info', where: 'relay.conf:5', message: NO_ORDER });
    expect(complaintsOf(vendor)).toEqual([]);
    expect(vendor.config).toMatchObject({ dynamoDb: { tableName: 't' }, store: { type: 'dynamodb' } });
    const none = await load('relay.conf', VENDOR, { HEADGATE_STORE: 'none' });
    expect(configOf(none).store.type).toBe('dynamodb');
  });

  it('stands in place of the Redis of the file when a variable says so, and the other way round', async () => {
    const env = { USE_DYNAMODB: '1', DYNAMODB_TABLE: 't' };
    const { config } = await load('hg.yaml', `${YAML}store: { type: redis }\n`, env, true);
    expect(config).toMatchObject({ redis: undefined, dynamoDb: { tableName: 't' }, store: { type: 'dynamodb' } });
    expect((await load('hg.yaml', OWN, { USE_REDIS: '1' }, true)).config).toMatchObject({
      redis: { url: 'redis://localhost:6379' },
      dynamoDb: undefined,
      store: { type: 'redis' },
    });
  });

  it('of our own file is completed by variables', async () => {
    const { config } = await load('hg.yaml', OWN, { USE_DYNAMODB: '1', DYNAMODB_TABLE: 't2' }, true);
    expect(config?.dynamoDb).toEqual({ tableName: 't2', url: 'http://d:8000', prefix: 'all' });
  });

  it.each([
    ['a: { sdkKey: k, prefix: p }, b: { sdkKey: l, prefix: p }', 'environment "b" would write over "a" in DynamoDB'],
    ['a: { sdkKey: k, prefix: p }, b: { sdkKey: l }', 'environment "b" needs a prefix or tableName of its own'],
    [
      'a: { sdkKey: k, prefix: p, filters: f }, b: { sdkKey: l, prefix: p.f }',
      'environment "b" would write over "a" in DynamoDB',
    ],
  ])('has no two in one place: %s', async (environments, message) => {
    const text = `flags: { environments: { ${environments} } }\nstore: { type: dynamodb, tableName: t }\n`;
    expect(complaintsOf(await load('hg.yaml', text))).toEqual([expect.stringContaining(message)]);
  });

  it.each([
    [
      'environments: { a: { sdkKey: k, prefix: p } }',
      'environment "a" needs a tableName, since DynamoDB has none for all',
    ],
    ['sources: [{ type: archive, path: a, prefix: $CID }]', 'the archive needs a table of DynamoDB'],
    ['autoConfig: { key: k, prefix: $CID }', 'automatic configuration with DynamoDB needs a table'],
  ])('needs a table: %s', async (flags, message) => {
    const text = `flags: { ${flags} }\nstore: { type: dynamodb }\n`;
    const [complaint, more] = complaintsOf(await load('hg.yaml', text));
    expect(complaint).toContain(message);
    expect(complaint).toContain('(store.tableName)');
    expect(more).toBeUndefined();
  });
});

describe('decisions beside a database', () => {
  it.each([
    ['redis', 'Redis'],
    ['dynamodb, tableName: t', 'DynamoDB'],
  ])('are not kept in %s', async (type, database) => {
    const text = `${YAML}${LAPI}store: { type: ${type} }\n`;
    expect(complaintsOf(await load('hg.yaml', text))).toEqual([
      `error hg.yaml:3:1 decisions are not kept in ${database}, where replicas would write over each other: name a folder for them with store.path; flags stay in ${database}`,
    ]);
    expect(complaintsOf(await load('hg.yaml', `${LAPI}store: { type: ${type} }\n`))).toEqual([
      `error hg.yaml:2:1 decisions are not kept in ${database}, where replicas would write over each other: use store.type lmdb, a folder of its own for each replica`,
    ]);
    const folder = await load('hg.yaml', text, { HEADGATE_STORE: '/d' });
    expect(configOf(folder).store).toEqual({ type: 'lmdb', path: '/d' });
  });

  it('have a folder, of which is told where the database has nothing', async () => {
    const env = { HEADGATE_LAPI_URL: 'http://a', HEADGATE_LAPI_KEY: 'k', USE_REDIS: '1' };
    const loaded = await load('hg.yaml', '', env, true);
    expect(complaintsOf(loaded)).toEqual([
      'warning USE_REDIS nothing is kept in Redis: there are no flags, and decisions have a folder of their own',
    ]);
    expect(loaded.config?.store.type).toBe('lmdb');
  });
});

describe('an environment without a prefix', () => {
  const text = (store: string): string => `flags: { environments: { a: { sdkKey: k } } }\nstore: { ${store} }\n`;

  it.each([
    ['type: redis', 'no prefix of its own in Redis, and is kept under "launchdarkly": with a second'],
    ['type: dynamodb, tableName: t', 'no prefix or tableName of its own in DynamoDB: with a second'],
  ])('is told: %s', async (store, message) => {
    expect(complaintsOf(await load('hg.yaml', text(store)))).toEqual([expect.stringContaining(message)]);
  });

  it.each(['type: redis, prefix: p', 'type: dynamodb, tableName: t, prefix: p'])('has that of %s', async (store) => {
    expect(complaintsOf(await load('hg.yaml', text(store)))).toEqual([]);
  });
});

describe('files in a database', () => {
  const file = (name: string, more = ''): string => `{ type: file, name: ${name}, paths: p, sdkKey: k${name}${more} }`;
  const text = (...files: readonly string[]): string =>
    `flags: { sources: [${files.join(', ')}] }\nstore: { type: redis }\n`;

  // Fails when checkDatabaseNames looks at the environments of the service only.
  it('need names of their own', async () => {
    expect(complaintsOf(await load('hg.yaml', text(file('a', ', prefix: pa'), file('b', ', prefix: pb'))))).toEqual([]);
    expect(complaintsOf(await load('hg.yaml', text(file('a', ', prefix: p'), file('b', ', prefix: p'))))).toEqual([
      'error hg.yaml environment "b" would write over "a" in Redis: give it its own prefix',
    ]);
    expect(complaintsOf(await load('hg.yaml', text(file('a'), file('b', ', prefix: p'))))).toEqual([
      'error hg.yaml environment "a" needs a prefix of its own in Redis',
    ]);
  });
});

describe('our own variables', () => {
  it('set what the vendor has no name for', async () => {
    const env = { HEADGATE_UPSTREAM_PROTOCOL: 'fdv1', HEADGATE_EVALUATION_THREADS: '3' };
    expect(configOf(await load('relay.conf', ONE, env)).flags).toMatchObject({
      upstreamProtocol: 'fdv1',
      evaluation: { threads: 3 },
    });
    const text = YAML.replace('flags: {', 'flags: { evaluation: { threads: 2 },');
    expect(configOf(await load('hg.yaml', text, { HEADGATE_EVALUATION_THREADS: 'auto' })).flags).toMatchObject({
      evaluation: { threads: 'auto' },
    });
  });

  it.each(['0', '65', 'many'])('refuse %s threads', async (threads) => {
    expect(complaintsOf(await load('relay.conf', ONE, { HEADGATE_EVALUATION_THREADS: threads }))).toEqual([
      `error HEADGATE_EVALUATION_THREADS expected a whole number from 1 to 64, or auto, got "${threads}"`,
    ]);
  });

  it('refuse another protocol', async () => {
    expect(complaintsOf(await load('relay.conf', ONE, { HEADGATE_UPSTREAM_PROTOCOL: 'v3' }))).toEqual([
      'error HEADGATE_UPSTREAM_PROTOCOL expected one of auto, fdv1, fdv2, got "v3"',
    ]);
  });
});
