import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { FakeUpstream } from '../support/fake-upstream.ts';
import type { FakeItem } from '../support/fake-upstream-environment.ts';
import { type Headgate, startHeadgate } from '../support/headgate.ts';
import type { Line } from '../support/line-process.ts';
import { Dynalite } from '../support/redis-dynalite.ts';

const KEY = 'sdk-dddddddd-0000-4000-8000-000000000001';
const AWS = { AWS_REGION: 'eu-west-1', AWS_ACCESS_KEY_ID: 'some', AWS_SECRET_ACCESS_KEY: 'thing' };
const LOADED = 'environment loaded';
const RESTORED = 'environment restored';
const flag = (key: string, version: number): FakeItem => ({ key, version, on: true, salt: 's', rules: [] });

let dynamo: Dynalite;
let upstream: FakeUpstream;
const started: Headgate[] = [];

beforeEach(async () => {
  for (const [name, value] of Object.entries(AWS)) vi.stubEnv(name, value);
  dynamo = await Dynalite.start();
  upstream = await FakeUpstream.start();
});

afterEach(async () => {
  await Promise.all(started.splice(0).map((headgate) => headgate.kill()));
  await upstream.stop().catch(() => {});
  dynamo.stop();
  vi.unstubAllEnvs();
});

async function start(options: Parameters<typeof startHeadgate>[0]): Promise<Headgate> {
  const headgate = await startHeadgate(options);
  started.push(headgate);
  return headgate;
}

/** Waits until the log has this many lines that begin so. */
function until(headgate: Headgate, message: string, count: number): Promise<void> {
  const isSuch = ({ msg }: Line): boolean => String(msg).startsWith(message);
  return headgate.waitForLogs(`${count} × ${message}`, (logs) => logs.filter(isSuch).length === count, 20_000);
}

/** The variables have no port that the system picks. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function flagsOf(headgate: Headgate, filter = ''): Promise<Record<string, { version: number }>> {
  const response = await fetch(`${headgate.url}/sdk/flags${filter}`, { headers: { authorization: KEY } });
  expect(response.status).toBe(200);
  return (await response.json()) as Record<string, { version: number }>;
}

async function rowOf(namespace: string, key: string): Promise<unknown> {
  const Key = { namespace: { S: namespace }, key: { S: key } };
  const { Item } = await dynamo.client.send(new GetItemCommand({ TableName: dynamo.tableName, Key }));
  return Item?.['item']?.S === undefined ? Item : JSON.parse(Item['item'].S);
}

async function statusOf(headgate: Headgate): Promise<Record<string, { dataStoreStatus?: unknown }>> {
  const response = await fetch(`${headgate.url}/status`);
  return ((await response.json()) as { environments: Record<string, { dataStoreStatus?: unknown }> }).environments;
}

describe('flags in DynamoDB', () => {
  // Fails when FlagKeeping opens no DynamoDB, and its second half when filtered data go under the prefix of the whole.
  it('are served after a restart while the service is down, filtered data apart', { timeout: 60_000 }, async () => {
    const environment = upstream.environment(KEY, { flags: [flag('one', 3), flag('two', 5)] });
    environment.filters.set('half', (_kind, { key }) => key === 'one');
    const { tableName, url } = dynamo;
    const config = {
      flags: {
        upstream: { streamUri: upstream.url },
        environments: { shop: { sdkKey: KEY, prefix: 'shop', filters: ['half'] } },
      },
      store: { type: 'dynamodb', tableName, url },
    };
    const first = await start({ config });
    await until(first, LOADED, 2);
    expect(Object.keys(await flagsOf(first))).toEqual(['one', 'two']);
    expect(await rowOf('shop:features', 'two')).toMatchObject({ key: 'two', version: 5 });
    expect(await rowOf('shop.half:features', 'one')).toMatchObject({ key: 'one', version: 3 });
    expect(await rowOf('shop.half:features', 'two')).toBeUndefined();
    expect(await rowOf('shop:$inited', 'shop:$inited')).toBeDefined();
    expect((await statusOf(first))['shop']?.dataStoreStatus).toMatchObject({
      state: 'VALID',
      database: 'dynamodb',
      dbServer: url,
      dbTable: tableName,
      dbPrefix: 'shop',
    });
    await first.kill();
    await upstream.stop();

    const second = await start({ config });
    await until(second, RESTORED, 2);
    expect(await flagsOf(second)).toMatchObject({ one: { version: 3 }, two: { version: 5 } });
    expect(Object.keys(await flagsOf(second, '?filter=half'))).toEqual(['one']);
  });

  it("are kept under the vendor's variables, in the environment's own table", { timeout: 60_000 }, async () => {
    upstream.environment(KEY, { flags: [flag('one', 3)] });
    const env = {
      USE_DYNAMODB: 'true',
      DYNAMODB_TABLE: 'another',
      DYNAMODB_URL: dynamo.url,
      LD_ENV_shop: KEY,
      LD_TABLE_NAME_shop: dynamo.tableName,
      STREAM_URI: upstream.url,
      BASE_URI: upstream.url,
      IGNORE_CONNECTION_ERRORS: 'true',
      PORT: String(await freePort()),
    };
    const first = await start({ env });
    await until(first, LOADED, 1);
    expect(await rowOf('features', 'one')).toMatchObject({ key: 'one', version: 3 });
    await first.stop();
    await upstream.stop();
    const second = await start({ env });
    await until(second, RESTORED, 1);
    expect(await flagsOf(second)).toMatchObject({ one: { version: 3 } });
  });
});
