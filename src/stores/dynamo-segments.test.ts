import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CreateTableCommand, DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
// @ts-expect-error it comes without types
import dynalite from 'dynalite';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { loadSdk } from './dynamo-client.ts';
import { openDynamoBigSegments } from './dynamo-segments.ts';

const HASH = 'CEXjZY7cHJG/ydFy7q4+YEFwVrG3/pkJwA4FAjrbfx0=';

describe('big segments in DynamoDB', () => {
  let server: Server;
  let url: string;
  let client: DynamoDBClient;
  beforeAll(async () => {
    vi.stubEnv('AWS_REGION', 'us-east-1');
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'id');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret');
    server = dynalite({ createTableMs: 0 }) as Server;
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    client = new DynamoDBClient({ endpoint: url });
    await client.send(
      new CreateTableCommand({
        TableName: 'table',
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [
          { AttributeName: 'namespace', AttributeType: 'S' },
          { AttributeName: 'key', AttributeType: 'S' },
        ],
        KeySchema: [
          { AttributeName: 'namespace', KeyType: 'HASH' },
          { AttributeName: 'key', KeyType: 'RANGE' },
        ],
      }),
    );
  });
  afterAll(() => {
    client.destroy();
    server.close();
    vi.unstubAllEnvs();
  });

  it.each([
    ['with a prefix', 'env', 'env:'],
    ['without one', undefined, ''],
  ])('are read %s', async (_, prefix, before) => {
    const segments = openDynamoBigSegments({ tableName: 'table', url, ...(prefix === undefined ? {} : { prefix }) });
    expect(await segments.membership(HASH)).toBeUndefined();
    expect(await segments.updatedMs()).toBeUndefined();
    const name = { S: `${before}big_segments_metadata` };
    const rows = [
      { namespace: name, key: name, synchronizedOn: { N: '1700000000123' } },
      {
        namespace: { S: `${before}big_segments_user` },
        key: { S: HASH },
        included: { SS: ['a.g1', 'both.g1'] },
        excluded: { SS: ['b.g1', 'both.g1'] },
      },
    ];
    for (const Item of rows) await client.send(new PutItemCommand({ TableName: 'table', Item }));
    expect(await segments.updatedMs()).toBe(1_700_000_000_123);
    expect({ ...(await segments.membership(HASH)) }).toEqual({ 'a.g1': true, 'b.g1': false, 'both.g1': true });
    await segments.close();
  });

  it('cannot be read from a table that is not there, or without the package', async () => {
    const segments = openDynamoBigSegments({ tableName: 'another', url });
    await expect(segments.updatedMs()).rejects.toMatchObject({
      code: 'HG_STORE',
      message: expect.stringContaining('Cannot use the table another of DynamoDB'),
    });
    await segments.close();
    const absent = loadSdk(() => import('./no-such-package.ts' as string));
    await expect(absent).rejects.toMatchObject({
      code: 'HG_STORE',
      message: expect.stringContaining('the package @aws-sdk/client-dynamodb must be installed'),
    });
    expect(() => openDynamoBigSegments({ tableName: '' })).toThrow(expect.objectContaining({ code: 'HG_OPTION' }));
  });
});
