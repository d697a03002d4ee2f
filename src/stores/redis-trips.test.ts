import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { flag, put } from '../../test/support/flags-items.ts';
import { redisAvailable, RedisServer } from '../../test/support/redis.ts';
import { RedisProxy } from '../../test/support/redis-proxy.ts';
import { RedisReplica } from '../../test/support/redis-replica.ts';
import { FakeClock } from '../kernel/index.ts';
import { News } from './redis-news.ts';
import { OrderBook } from './redis-order.ts';

const WRITES = 50;

describe.skipIf(!redisAvailable())('a Redis that is far away', () => {
  let server: RedisServer;
  const replicas: RedisReplica[] = [];
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());
  afterEach(async () => {
    for (const each of replicas.splice(0)) await each.close();
    await server.with((client) => client.flushall());
  });

  const replica = (url = server.url, clock = new FakeClock()): RedisReplica => {
    const made = new RedisReplica(url, { clock });
    replicas.push(made);
    return made;
  };

  /** How often each command was carried out since the server began. */
  const counted = async (...names: string[]): Promise<number[]> => {
    const stats = await server.with((client) => client.info('commandstats'));
    return names.map((name) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0));
  };

  it('is asked once for each write, and not for what this replica wrote itself', async () => {
    const one = replica();
    await one.data.replace([flag('a', 1)]);
    const before = await counted('xrange', 'multi');
    for (let version = 2; version <= WRITES + 1; version++) {
      await one.data.apply([put(flag('a', version))]);
      one.keep.committed(`state ${version}`);
    }
    const after = await counted('xrange', 'multi');
    // only a look reads a range of the order
    expect(after.map((count, at) => count - before[at]!)).toEqual([0, WRITES]);
    const said = (): Promise<string | null> => server.with((client) => client.hget('env:headgate:state', 'state'));
    await expect.poll(said).toBe(`state ${WRITES + 1}`);
    // what was not read back is what a reader finds
    const two = replica();
    await two.restore();
    expect(two.position()).toEqual(one.position());
  });

  it('is not waited for when it is known to have a write, nor for what upstream says', async () => {
    const proxy = await RedisProxy.start(server.port);
    const [one, two] = [replica(), replica(proxy.url)];
    for (const each of [one, two]) await each.data.replace([flag('a', 1)]);
    const first = one.position();
    await one.data.apply([put(flag('a', 2))]);
    await two.until('the second to hear', () => two.keep.order.isNewer(one.position(), first) === true);
    proxy.hold();
    two.keep.committed('before');
    await two.until('it to be on its way', () => proxy.held > 0);
    await two.data.apply([put(flag('a', 2))]);
    two.keep.committed('after');
    expect(two.told).toEqual([]);
    expect(two.position().digest).toBe(one.position().digest);
    proxy.release();
    const said = (): Promise<string | null> => server.with((client) => client.hget('env:headgate:state', 'state'));
    await expect.poll(said).toBe('after');
    await two.close();
    await proxy.stop();
  });
});

it('news are what the book does not have when it is looked at, or what may have been missed', () => {
  const book = new OrderBook();
  const news = new News();
  expect(news.isAny(book)).toBe(true);
  news.look();
  expect(news.isAny(book)).toBe(false);
  // one's own, before the answer
  news.hear('1-0 d1');
  book.take([{ place: 1, digest: 'd1', clock: 1, before: '', isReset: true, keys: [] }]);
  expect(news.isAny(book)).toBe(false);
  // another one's at a place that was lost and given away again
  news.hear('1-0 other');
  expect(news.isAny(book)).toBe(true);
  news.look();
  news.hear('2-0 d2');
  news.hear('1-0 d1');
  expect(news.isAny(book)).toBe(true);
  // until a look
  expect(news.isAny(book)).toBe(true);
  news.look();
  news.hear(undefined);
  expect(news.isAny(book)).toBe(true);
  news.look();
  for (let place = 2; place < 3000; place++) news.hear(`${place}-0 d`);
  expect(news.isAny(book)).toBe(true);
});
