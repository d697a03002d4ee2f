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
      'warning HEADGATE_STORE nothing is kept in the store: flags are in Redis, and there are no decisions',
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
    [`${YAML}${LAPI}store: { type: redis }\n`, 'redis'],
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
    ['store: { type: redis, path: x }', '1:29 store.path: has no effect while store.type is redis'],
    ['store: { type: lmdb, url: redis://r }', '1:27 store.url: has no effect while store.type is lmdb'],
    ['store: { username: x }', '1:20 store.username: has no effect unless store.type is redis'],
    ['store: { type: redis, url: http://r }', '1:28 store.url: expected an address such as redis://127.0.0.1:6379'],
    ['store: { type: redis, tls: { cert: c } }', '1:23 store.tls: expected key beside the other of the two, got none'],
    ['store: { type: redis, url: "x:hunter2@y" }', '1:28 store.url: expected an address such as redis://127.0.0.1'],
    ['store: { type: mongo }', '1:16 store.type: expected one of lmdb, redis, none, got "mongo"'],
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
  const BIG = 'flags: { environments: { a: { sdkKey: k, prefix: p } }, bigSegments: { dynamoDb: { tableName: t } } }\n';
  const SAID =
    'flags are not written to DynamoDB, where only big segments are looked up: for SDKs that read flags from the database use Redis, and for restarts HEADGATE_STORE, the path of a folder';

  it('has big segments alone, which is told, and flags are kept as without it', async () => {
    const own = await load('hg.yaml', BIG);
    expect(complaintsOf(own)).toEqual([`warning hg.yaml:1:72 ${SAID}`]);
    expect(own.config).toMatchObject({ dynamoDb: { tableName: 't' }, store: { type: 'lmdb' } });
    const vendor = await load('relay.conf', `${ONE}[DynamoDB]\nenabled\ntableName = t\n`);
    expect(complaintsOf(vendor)).toEqual([`warning relay.conf:5 ${SAID}`]);
    expect(vendor.config).toMatchObject({ dynamoDb: { tableName: 't' }, store: { type: 'none' } });
    const env = { HEADGATE_STORE: '/data' };
    expect((await load('relay.conf', `${ONE}[DynamoDB]\nenabled\ntableName = t\n`, env)).config?.store).toEqual({
      type: 'lmdb',
      path: '/data',
    });
  });

  it('stands in place of the Redis of the file when a variable says so', async () => {
    const env = { USE_DYNAMODB: '1', DYNAMODB_TABLE: 't' };
    const { config } = await load('hg.yaml', `${YAML}store: { type: redis }\n`, env, true);
    expect(config).toMatchObject({ redis: undefined, dynamoDb: { tableName: 't' }, store: { type: 'none' } });
  });

  it('is not used beside Redis', async () => {
    expect(complaintsOf(await load('hg.yaml', `${BIG}store: { type: redis }\n`))).toEqual([
      'error hg.yaml:1:72 only one database can be used, got Redis and DynamoDB: remove all but one',
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
