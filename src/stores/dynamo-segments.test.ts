import { PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Dynalite } from '../../test/support/redis-dynalite.ts';
import { loadSdk } from './dynamo-client.ts';
import { openDynamoBigSegments } from './dynamo-segments.ts';

const HASH = 'CEXjZY7cHJG/ydFy7q4+YEFwVrG3/pkJwA4FAjrbfx0=';

describe('big segments in DynamoDB', () => {
  let server: Dynalite;
  let url: string;
  beforeAll(async () => {
    vi.stubEnv('AWS_REGION', 'us-east-1');
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'id');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret');
    server = await Dynalite.start();
    url = server.url;
  });
  afterAll(() => {
    server.stop();
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
    for (const Item of rows) await server.client.send(new PutItemCommand({ TableName: 'table', Item }));
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
