import { describe, expect, it } from 'vitest';
import { type Loaded, loadConfig } from './load.ts';
import type { Config } from './types.ts';

const MACHINE = { memoryLimitBytes: 512 * 2 ** 20, lowWater: true };
const ONE = '[Environment "a"]\nsdkKey = sdk-a\n';
const TWO = `${ONE}prefix = pa\n[Environment "b"]\nsdkKey = sdk-b\nprefix = pb\n`;

async function load(text: string, env?: Record<string, string>, fromEnv = false): Promise<Loaded> {
  const readFile = async (): Promise<string> => text;
  return await loadConfig({ file: 'relay.conf', readFile, env, fromEnv, machine: MACHINE });
}

async function configOf(text: string, env?: Record<string, string>, fromEnv = false): Promise<Config> {
  const { config, problems } = await load(text, env, fromEnv);
  expect(problems.filter(({ severity }) => severity === 'error')).toEqual([]);
  if (config === undefined) throw new Error('no configuration came without an error');
  return config;
}

async function complaintsOf(text: string, env?: Record<string, string>): Promise<string[]> {
  const { problems } = await load(text, env);
  return problems
    .filter(({ message }) => !/HEADGATE_LIMITS=auto|share no order of changes in DynamoDB/.test(message))
    .map(({ severity, where, message }) => `${severity} ${where} ${message}`);
}

describe('environments of the service', () => {
  it('have filters, those of their project', async () => {
    const text = `${ONE}projKey = shop\n[Environment "b"]\nsdkKey = sdk-b\nprojKey = other\n[Filters "shop"]\nkeys = one\nkeys = two\n`;
    const { environments } = await configOf(text);
    expect(environments.map(({ name, filterKeys }) => [name, filterKeys])).toEqual([
      ['a', ['one', 'two']],
      ['b', []],
    ]);
  });

  // Fails when checkKeys looks at sdkKey alone, or not at all.
  it.each(['sdkKey', 'mobileKey', 'envId'])('never share their %s', async (key) => {
    const text = `[Environment "a"]\nsdkKey = 1\n${key} = same\n[Environment "b"]\nsdkKey = 2\n${key} = same\n`;
    expect(await complaintsOf(text)).toEqual([
      `error relay.conf:4 environment "b" has the ${key} of "a": give it its own`,
    ]);
  });

  it('may have the same text as a key of one kind and of another', async () => {
    const text = '[Environment "a"]\nsdkKey = same\n[Environment "b"]\nsdkKey = x\nmobileKey = same\n';
    expect(await complaintsOf(text)).toEqual([]);
  });

  it('of our own file are completed and outdone by the environment', async () => {
    const yaml = `
flags:
  environments:
    a: { sdkKey: sdk-file, mobileKey: mob-file, filters: [f], ttl: 5m, allowedOrigins: [https://a] }
`;
    const env = { LD_ENV_a: 'sdk-env', LD_TTL_a: '1m', LD_ENV_b: 'sdk-b' };
    const { config } = await loadConfig({ file: 'hg.yaml', readFile: async () => yaml, env, fromEnv: true });
    expect(config?.environments).toMatchObject([
      {
        name: 'a',
        sdkKey: 'sdk-env',
        mobileKey: 'mob-file',
        filterKeys: ['f'],
        ttlMs: 60_000,
        allowedOrigins: ['https://a'],
      },
      { name: 'b', sdkKey: 'sdk-b' },
    ]);
  });
});

describe('the addresses of the service', () => {
  it('are http or https', async () => {
    const text = `${ONE}[Main]\nstreamUri = ftp://a\nbaseUri = ftp://b\nclientSideBaseUri = ws://c\n[Events]\neventsUri = s3://d\n[Proxy]\nurl = socks5://me:hunter2@e\n`;
    expect(await complaintsOf(text)).toEqual([
      'error relay.conf:4 streamUri: expected http:// or https://, got ftp://',
      'error relay.conf:5 baseUri: expected http:// or https://, got ftp://',
      'error relay.conf:6 clientSideBaseUri: expected http:// or https://, got ws://',
      'error relay.conf:8 eventsUri: expected http:// or https://, got s3://',
      'error relay.conf:10 url of the proxy: expected http:// or https://, got socks5://',
    ]);
  });

  it('are warned about when only some of them are of another instance', async () => {
    expect(await complaintsOf(`${ONE}[Main]\nstreamUri = http://hg:8030\n[Events]\nsendEvents\n`)).toEqual([
      'warning relay.conf:4 flags come from http://hg:8030, and what is polled from https://sdk.launchdarkly.com: set baseUri as well',
      'warning relay.conf:6 flags come from http://hg:8030, and events go to https://events.launchdarkly.com: set eventsUri, unless that is meant',
    ]);
    const whole = `${ONE}[Main]\nstreamUri = http://hg\nbaseUri = http://hg\n[Events]\nsendEvents\neventsUri = http://hg\n`;
    expect(await complaintsOf(whole)).toEqual([]);
    const federal = `${ONE}[Main]\nstreamUri = https://stream.launchdarkly.us\nbaseUri = https://sdk.launchdarkly.us\n[Events]\nsendEvents\neventsUri = https://events.launchdarkly.us\n`;
    expect(await complaintsOf(federal)).toEqual([]);
  });

  it('tell that HTTPS_PROXY is not looked at, unless a proxy is set', async () => {
    const env = { HTTPS_PROXY: 'http://me:hunter2@proxy' };
    expect(await complaintsOf(ONE, env)).toEqual([
      'info HTTPS_PROXY HTTPS_PROXY is not looked at: to go to the service through a proxy, set url of [Proxy] (PROXY_URL)',
    ]);
    expect(await complaintsOf(`${ONE}[Proxy]\nurl = http://proxy\n`, env)).toEqual([]);
    expect(await complaintsOf('[OfflineMode]\nfileDataSource = x\n', env)).toEqual([]);
  });
});

describe('events', () => {
  it('are held for a while, whatever the file says', async () => {
    const text = `${ONE}[Events]\nsendEvents\nflushInterval = 0\n`;
    expect(await complaintsOf(text)).toEqual([
      'warning relay.conf:5 flushInterval: expected at least 100ms, got 0s; 100ms is used',
    ]);
    expect((await configOf(text)).events).toMatchObject({ send: true, flushIntervalMs: 100, capacity: 1000 });
  });

  it('of files are told to need a service that knows the keys', async () => {
    const text = '[OfflineMode]\nfileDataSource = x\n[Events]\nsendEvents\n';
    expect(await complaintsOf(text)).toEqual([
      'info relay.conf:4 events are sent to https://events.launchdarkly.com under the keys of files: it has to know them',
    ]);
  });
});

describe('the proxy', () => {
  it('has a user and a password beside its address', async () => {
    const text = `${ONE}[Proxy]\nurl = http://proxy:3128/\nuser = me\npassword = hunter2\ncaCertFiles = a.pem, b.pem\n`;
    expect((await configOf(text)).outbound).toEqual({
      proxy: { url: 'http://proxy:3128', user: 'me', password: 'hunter2' },
      caPaths: ['a.pem', 'b.pem'],
    });
  });

  it('may have them in its address, where settings of their own go before them', async () => {
    expect((await configOf(`${ONE}[Proxy]\nurl = http://me:a%40b@proxy:3128\n`)).outbound.proxy).toEqual({
      url: 'http://proxy:3128',
      user: 'me',
      password: 'a@b',
    });
    const both = `${ONE}[Proxy]\nurl = http://me:%zz@proxy\nuser = you\n`;
    expect((await configOf(both)).outbound.proxy).toMatchObject({ user: 'you', password: '%zz' });
  });

  it('is nothing without an address', async () => {
    expect(await complaintsOf(`${ONE}[Proxy]\nuser = me\n`)).toEqual([
      'warning relay.conf:4 user of the proxy has no effect without its url (PROXY_URL)',
    ]);
  });
});

describe('Redis', () => {
  it.each([
    ['host = redis', { url: 'redis://redis:6379', prefix: 'launchdarkly' }],
    ['port = 6380', { url: 'redis://localhost:6380', prefix: 'launchdarkly' }],
    ['host = h\nport = tcp://10.0.0.1:6380', { url: 'redis://h:6380', prefix: 'launchdarkly' }],
    ['host = "::1"', { url: 'redis://[::1]:6379', prefix: 'launchdarkly' }],
    ['url = redis://:p%40ss@r:1/3', { url: 'redis://r:1/3', password: 'p@ss', prefix: 'launchdarkly' }],
    [
      'url = redis://a:b@r\nusername = me\npassword = secret',
      { url: 'redis://r', username: 'me', password: 'secret', prefix: 'launchdarkly' },
    ],
    ['url = rediss://r', { url: 'rediss://r', tls: { verify: true }, prefix: 'launchdarkly' }],
    [
      'url = redis://r\ntls = true\ncaFile = ca\nclientCertificateFile = c\nclientKeyFile = k',
      {
        url: 'rediss://r',
        tls: { verify: true, caPath: 'ca', certPath: 'c', keyPath: 'k' },
        prefix: 'launchdarkly',
      },
    ],
    [
      'host = r\nconnectTimeout = 3s\nreadTimeout = 500ms',
      { url: 'redis://r:6379', connectTimeoutMs: 3000, readTimeoutMs: 500, prefix: 'launchdarkly' },
    ],
  ])('%j', async (text, redis) => {
    const config = await configOf(`${TWO}[Redis]\n${text}\n`);
    expect(config.redis).toEqual(redis);
    expect(config).toMatchObject({ store: { type: 'redis', path: '' }, dynamoDb: undefined });
  });

  it('is on when a variable says so, and off when it says so', async () => {
    expect((await configOf(TWO, { USE_REDIS: '1' }, true)).redis?.url).toBe('redis://localhost:6379');
    expect((await configOf(TWO, { REDIS_URL: 'redis://r' }, true)).redis).toBeUndefined();
    expect((await configOf(`${TWO}[Redis]\nhost = r\n`, { USE_REDIS: '0' }, true)).redis).toBeUndefined();
  });

  it('never has its password told', async () => {
    const complaints = await complaintsOf(`${TWO}[Redis]\nurl = http://:hunter2@redis\n`);
    expect(complaints).toEqual([
      'error relay.conf:8 expected an address such as redis://127.0.0.1:6379, or rediss:// over TLS, got a value that is not shown here',
    ]);
  });

  it('is told that files of certificates mean nothing without TLS', async () => {
    expect(await complaintsOf(`${TWO}[Redis]\nhost = r\ncaFile = ca\n`)).toEqual([
      'warning relay.conf:8 the certificate files of Redis have no effect without tls (REDIS_TLS)',
    ]);
  });
});

describe('what is kept in a database', () => {
  const REDIS = '[Redis]\nhost = r\n';
  const DYNAMO = '[DynamoDB]\nenabled\n';

  // Fails when checkDatabaseNames only wants a prefix and does not compare them.
  it('is never written over by another environment', async () => {
    expect(await complaintsOf(`${TWO.replace('= pb', '= pa')}${REDIS}`)).toEqual([
      'error relay.conf:4 environment "b" would write over "a" in Redis: give it its own prefix',
    ]);
    const tables = TWO.replace('prefix = pb', 'prefix = pa\ntableName = tb');
    await configOf(`${tables}${DYNAMO}tableName = t\n`);
    expect(await complaintsOf(`${TWO.replace('= pb', '= pa')}${DYNAMO}tableName = t\n`)).toEqual([
      'error relay.conf:4 environment "b" would write over "a" in DynamoDB: give it its own prefix or tableName',
    ]);
  });

  it('has a table', async () => {
    expect(await complaintsOf(`${TWO}tableName = t\n${DYNAMO}`)).toEqual([
      'error relay.conf:1 environment "a" needs a tableName, since DynamoDB has none for all (DYNAMODB_TABLE)',
    ]);
    const automatic = `[AutoConfig]\nkey = x\nenvDatastorePrefix = $CID\n${DYNAMO}`;
    expect(await complaintsOf(automatic)).toEqual([
      'error relay.conf:2 automatic configuration with DynamoDB needs a table: set tableName (DYNAMODB_TABLE)',
    ]);
    expect((await configOf(`${automatic}tableName = t\nurl = http://d:8000\n`)).dynamoDb).toEqual({
      tableName: 't',
      url: 'http://d:8000',
    });
  });

  it('of an archive is told to keep apart', async () => {
    const archive = '[OfflineMode]\nfileDataSource = x\n';
    expect(await complaintsOf(`${archive}envDatastorePrefix = ld\n${REDIS}`)).toEqual([
      'warning relay.conf:2 several environments of one archive would write over each other in the database: give it a prefix (envDatastorePrefix) that contains $CID',
    ]);
    const kept = await configOf(`${archive}envDatastorePrefix = ld-$CID\nenvDatastoreTableName = t\n${REDIS}`);
    expect(kept.flags.sources).toMatchObject([{ prefix: 'ld-$CID', tableName: 't' }]);
    expect(await complaintsOf(`${archive}envDatastoreTableName = t-$CID\n${DYNAMO}`)).toEqual([]);
  });
});
