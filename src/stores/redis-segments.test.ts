import { basicLogger } from '@launchdarkly/node-server-sdk';
import { RedisBigSegmentStore } from '@launchdarkly/node-server-sdk-redis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { redisAvailable, RedisServer } from '../../test/support/redis.ts';
import { systemClock } from '../kernel/index.ts';
import { openRedisBigSegments } from './redis-segments.ts';
import type { BigSegmentStore } from './vendor-segments.ts';

const HASH = 'CEXjZY7cHJG/ydFy7q4+YEFwVrG3/pkJwA4FAjrbfx0=';

describe.skipIf(!redisAvailable())('big segments in Redis', () => {
  let server: RedisServer;
  let segments: BigSegmentStore;
  beforeAll(async () => {
    server = await RedisServer.start();
    segments = openRedisBigSegments({ url: server.url, prefix: 'env', clock: systemClock, connectTimeoutMs: 300 });
  });
  afterAll(async () => {
    await segments.close();
    await server.stop();
  });
  afterEach(() => server.with((client) => client.flushall()));

  it('are not known before anybody wrote some', async () => {
    expect(await segments.membership(HASH)).toBeUndefined();
    expect(await segments.updatedMs()).toBeUndefined();
  });

  it("are read as the vendor's SDK reads them", async () => {
    await server.with(async (client) => {
      await client.set('env:big_segments_synchronized_on', '1700000000123');
      await client.sadd(`env:big_segment_include:${HASH}`, 'a.g1', 'both.g1', '__proto__.g2', '__proto__');
      await client.sadd(`env:big_segment_exclude:${HASH}`, 'b.g1', 'both.g1');
      await client.sadd('env:big_segment_exclude:another', 'c.g1');
    });
    expect(await segments.updatedMs()).toBe(1_700_000_000_123);
    const found = await segments.membership(HASH);
    expect(Object.entries(found ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1))).toEqual([
      ['__proto__', true],
      ['__proto__.g2', true],
      ['a.g1', true],
      ['b.g1', false],
      ['both.g1', true],
    ]);
    const make = RedisBigSegmentStore({ redisOpts: { host: '127.0.0.1', port: server.port }, prefix: 'env' });
    const theirs = make({ basicConfiguration: { logger: basicLogger({ level: 'none' }) } } as never);
    const expected = await theirs?.getUserMembership(HASH);
    // a plain object of theirs cannot hold this name
    const { ['__proto__']: _, ...comparable } = found ?? {};
    expect(comparable).toEqual({ ...expected });
    expect((await theirs?.getMetadata())?.lastUpToDate).toBe(await segments.updatedMs());
    theirs?.close();
    expect(await segments.membership('another')).toEqual({ 'c.g1': false });
  });

  it('cannot be read while Redis is away', async () => {
    await server.kill();
    await expect(segments.membership(HASH)).rejects.toMatchObject({ code: 'HG_STORE' });
    await expect(segments.updatedMs()).rejects.toMatchObject({ code: 'HG_STORE' });
    await server.restart();
    await expect.poll(() => segments.updatedMs().catch(String), { timeout: 20_000 }).toBeUndefined();
  });
});
