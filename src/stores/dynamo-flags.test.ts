import { GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { flag, gone, put, segment } from '../../test/support/flags-items.ts';
import { Dynalite } from '../../test/support/redis-dynalite.ts';
import { DataSet } from '../dataset/index.ts';
import { systemClock } from '../kernel/index.ts';
import { type DynamoFlags, openDynamoFlags } from './dynamo-flags.ts';

// Fails when status shows the address as it was given.
it('says where the table is without user and password', async () => {
  const flags = openDynamoFlags({ tableName: 't', url: 'http://me:hunter2@d:8000/x@y', clock: systemClock });
  expect(flags.status.dbServer).toBe('http://d:8000/x@y');
  await flags.close();
});

describe('flags in DynamoDB', () => {
  let server: Dynalite;
  let prefix: string;
  let prefixes = 0;
  const told: string[] = [];
  const keeps: DynamoFlags[] = [];
  beforeAll(async () => {
    vi.stubEnv('AWS_REGION', 'us-east-1');
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'id');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret');
    server = await Dynalite.start();
  });
  afterAll(() => {
    server.stop();
    vi.unstubAllEnvs();
  });
  afterEach(async () => {
    for (const keep of keeps.splice(0)) await keep.close();
    told.length = 0;
    prefix = `env-${++prefixes}`;
  });
  prefix = 'env-0';

  const open = (url = server.url): { keep: DynamoFlags; data: DataSet } => {
    const onFailure = (error: Error): void => void told.push(error.message);
    const options = { url, tableName: 'table', prefix, clock: systemClock, onFailure };
    const keep = openDynamoFlags({ ...options, onRecovery: () => told.push('back') });
    keeps.push(keep);
    const beforeCommit = keep.prepare.bind(keep);
    return { keep, data: new DataSet({ name: 'env', kinds: ['flags', 'segments'], beforeCommit }) };
  };

  const held = async (namespace: string, key: string): Promise<unknown> => {
    const Key = { namespace: { S: `${prefix}:${namespace}` }, key: { S: key } };
    return (await server.client.send(new GetItemCommand({ TableName: 'table', Key }))).Item;
  };

  it('are laid out as the vendor lays them out, and come back', async () => {
    const { keep, data } = open();
    expect(await keep.restore()).toBeUndefined();
    await data.replace([flag('a', 1), flag('b', 2), segment('s', 3)]);
    await data.apply([put(flag('a', 2)), gone('flags', 'b', 7)]);
    expect(await held('features', 'a')).toEqual({
      namespace: { S: `${prefix}:features` },
      key: { S: 'a' },
      version: { N: '2' },
      item: { S: flag('a', 2).text },
    });
    expect(await held('features', 'b')).toMatchObject({ version: { N: '7' } });
    expect(await held('$inited', `${prefix}:$inited`)).toBeDefined();
    const again = open();
    const kept = await again.keep.restore();
    await again.data.restore(kept!);
    expect(again.data.snapshot().digest).toBe(data.snapshot().digest);
    expect([...(kept?.tombstones ?? [])]).toEqual([{ kind: 'flags', key: 'b', version: 7 }]);
  });

  // Fails when the condition in #put is removed.
  it('are not replaced by lower versions; what is left over from before goes', async () => {
    const Item = (key: string, version: number): Record<string, { S: string } | { N: string }> => ({
      namespace: { S: `${prefix}:features` },
      key: { S: key },
      version: { N: String(version) },
      item: { S: flag(key, version).text },
    });
    for (const item of [Item('a', 9), Item('old', 1)]) {
      await server.client.send(new PutItemCommand({ TableName: 'table', Item: item }));
    }
    const { data } = open();
    await data.replace([flag('a', 1)]);
    expect(await held('features', 'a')).toMatchObject({ version: { N: '9' } });
    expect(await held('features', 'old')).toBeUndefined();
    await data.apply([put(flag('a', 10))]);
    expect(await held('features', 'a')).toMatchObject({ version: { N: '10' } });
  });

  it('that are too large for it are told of and left out', async () => {
    const { data } = open();
    await data.replace([flag('large', 1, 400 * 1024), flag('small', 1)]);
    expect(told).toEqual([expect.stringMatching(/^Cannot keep "large" of flags in DynamoDB: an item may have 409600/)]);
    expect(await held('features', 'large')).toBeUndefined();
    expect(await held('features', 'small')).toBeDefined();
  });

  it('are served on when it cannot be reached', async () => {
    const { keep, data } = open('http://127.0.0.1:1');
    await data.replace([flag('a', 1)]);
    expect(data.ready).toBe(true);
    expect(told).toHaveLength(1);
    expect(keep.status).toMatchObject({ state: 'INTERRUPTED', database: 'dynamodb', dbTable: 'table' });
  });
});
