import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { flag, gone, put, segment } from '../../test/support/flags-items.ts';
import { redisAvailable, RedisServer } from '../../test/support/redis.ts';
import { RedisProxy } from '../../test/support/redis-proxy.ts';
import { RedisReplica } from '../../test/support/redis-replica.ts';
import { type Clock, FakeClock } from '../kernel/index.ts';
import { openRedisFlags, RedisLink } from './index.ts';

const TOMBSTONE =
  '{"key":"$deleted","on":false,"prerequisites":[],"targets":[],"contextTargets":[],"rules":[],"fallthrough":{},"offVariation":null,"variations":[],"clientSide":false,"salt":"","trackEvents":false,"trackEventsFallthrough":false,"debugEventsUntilDate":null,"version":7,"deleted":true}';

describe.skipIf(!redisAvailable())('flags in Redis', () => {
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

  const replica = (more: { readTimeoutMs?: number; clock?: Clock } = {}): RedisReplica => {
    const made = new RedisReplica(server.url, more);
    replicas.push(made);
    return made;
  };

  it('are laid out as the vendor lays them out, a deletion to the letter', async () => {
    const one = replica();
    await one.data.replace([flag('a', 1), flag('b', 2), segment('s', 3)]);
    await one.data.apply([gone('flags', 'b', 7)]);
    await server.with(async (client) => {
      expect(await client.hgetall('env:features')).toEqual({ a: flag('a', 1).text, b: TOMBSTONE });
      expect(await client.hgetall('env:segments')).toEqual({ s: segment('s', 3).text });
      expect(await client.get('env:$inited')).toBe('');
      expect(await client.exists('env:headgate:gate')).toBe(0);
    });
    expect(one.keep.status).toMatchObject({ state: 'VALID', database: 'redis', dbServer: server.url, dbPrefix: 'env' });
  });

  it('come back with the log of all replicas, and what upstream said of them', async () => {
    const one = replica();
    await one.data.replace([flag('a', 1), flag('b', 2)]);
    const positions = [one.position()];
    await one.data.apply([put(flag('a', 2))]);
    positions.push(one.position());
    await one.data.apply([gone('flags', 'b', 3), put(segment('s', 1))]);
    one.keep.committed('(p:1:2)');
    await expect.poll(() => server.with((client) => client.hget('env:headgate:state', 'state'))).toBe('(p:1:2)');

    const two = replica();
    const kept = await two.restore();
    expect(kept).toMatchObject({ state: '(p:1:2)', digest: one.position().digest });
    expect(kept?.savedMs).toBeGreaterThan(Date.now() - 60_000);
    expect(two.position().digest).toBe(one.position().digest);
    expect(keysSince(two, positions[1])).toEqual(['b 3 gone', 's 1']);
    expect(keysSince(two, positions[0])).toEqual(['a 2', 'b 3 gone', 's 1']);
    // goes on from there
    await two.data.apply([put(flag('a', 3))]);
    expect(await field(server, 'a')).toBe(flag('a', 3).text);
    expect(two.keep.order.isNewer(two.position(), one.position())).toBe(true);
  });

  it('of another writer come back without a log, whatever stands in them', async () => {
    await server.with(async (client) => {
      await client.hset('env:features', {
        a: '{"key":"a",\n"version":4}',
        gone: '{"version":9,"deleted":true}',
        bad: '{',
      });
      await client.set('env:$inited', '');
    });
    const one = replica();
    const kept = await one.restore();
    expect(kept).toMatchObject({ log: [], tombstones: [{ kind: 'flags', key: 'gone', version: 9 }] });
    expect([...one.data.snapshot().items('flags')].map(({ text }) => text)).toEqual(['{"key":"a", "version":4}']);
    await one.data.apply([put(flag('a', 5))]);
    expect(await field(server, 'a')).toBe(flag('a', 5).text);
  });

  it('are none before anybody has written a whole set', async () => {
    await server.with((client) => client.hset('env:features', { a: '{"version":4}' }));
    expect(await replica().restore()).toBeUndefined();
  });

  it('of a replica that is behind take nothing back, and it knows that others are further', async () => {
    const [one, two] = [replica(), replica()];
    await one.data.replace([flag('a', 1), flag('b', 1)]);
    await two.data.replace([flag('a', 1), flag('b', 1)]);
    const first = one.position();
    await one.data.apply([put(flag('a', 2))]);
    await one.data.apply([put(flag('b', 2))]);
    await two.until('the second replica to hear', () => two.keep.order.isNewer(one.position(), first) === true);
    expect(two.keep.order.isNewer(one.position(), two.position())).toBe(true);
    await two.data.apply([put(flag('a', 2))]);
    expect(await field(server, 'b')).toBe(flag('b', 2).text);
    expect(two.keep.order.isNewer(two.position(), one.position())).toBe(false);
    expect(await length(server)).toBe(3);
    await two.data.apply([put(flag('b', 2))]);
    expect(two.position().digest).toBe(one.position().digest);
    expect(await length(server)).toBe(3);
    // and overtakes
    await two.data.apply([put(flag('b', 3))]);
    expect(await length(server)).toBe(4);
    await one.until('the first to hear', () => one.keep.order.isNewer(two.position(), one.position()) === true);
  });

  it('may arrive in other batches at another replica', async () => {
    const [one, two] = [replica(), replica()];
    const both = [flag('a', 1), flag('b', 1), flag('c', 1)];
    await one.data.replace(both);
    await two.data.replace(both);
    const first = one.position();
    await one.data.apply([put(flag('a', 2)), put(flag('b', 2))]);
    // behind, in a state that nobody else had
    await two.data.apply([put(flag('a', 2))]);
    expect(await length(server)).toBe(2);
    expect(two.keep.order.isNewer(two.position(), one.position())).toBeUndefined();
    // whoever was anywhere after the last place that both had may be newer, and is taken to be
    expect(two.keep.order.isNewer(one.position(), two.position())).toBe(true);
    expect(two.keep.order.isNewer(first, two.position())).toBe(false);
    // ahead, past the other's state
    await two.data.apply([put(flag('b', 2)), put(flag('c', 2))]);
    expect(await length(server)).toBe(3);
    expect(await field(server, 'c')).toBe(flag('c', 2).text);
    await one.until('the first to hear', () => one.keep.order.isNewer(two.position(), one.position()) === true);
    await one.data.apply([put(flag('c', 2))]);
    expect(one.position().digest).toBe(two.position().digest);
    expect(await length(server)).toBe(3);
  });

  it('of a digest that comes back have a new, later place', async () => {
    const [one, two] = [replica(), replica()];
    await one.data.replace([flag('a', 1)]);
    await two.data.replace([flag('a', 1)]);
    const first = one.position();
    await one.data.apply([put(flag('x', 1))]);
    const second = one.position();
    await one.data.apply([gone('flags', 'x', 2)]);
    expect(one.position().digest).toBe(first.digest);
    await two.until('all of it', () => two.keep.order.isNewer(one.position(), second) !== undefined);
    expect(one.keep.order.isNewer(second, one.position())).toBe(false);
    // the one that is still at the first place is not taken to be at the third
    expect(two.keep.order.isNewer(second, two.position())).toBe(true);
    await two.data.apply([put(flag('x', 1))]);
    expect(await length(server)).toBe(3);
    expect((await server.with((client) => client.hget('env:features', 'x'))) ?? '').toContain('"deleted":true');
  });

  it('of a source that lags behind what was restored take nothing back', async () => {
    const [one, two] = [replica(), replica()];
    await one.data.replace([flag('a', 1)]);
    const first = one.position();
    await one.data.apply([put(flag('a', 2))]);
    await two.restore();
    await expect(two.data.replace([flag('a', 1)])).rejects.toThrow('must not lag behind');
    expect(await field(server, 'a')).toBe(flag('a', 2).text);
    expect(two.position().digest).toBe(one.position().digest);
    expect(two.keep.order.isNewer(first, two.position())).toBe(false);
    expect((await two.data.replace([flag('a', 2)])).result).toBe('unchanged');
    await two.data.apply([put(flag('a', 3))]);
    expect(await field(server, 'a')).toBe(flag('a', 3).text);
    expect(await length(server)).toBe(3);
  });

  it('of a source that lags are no deletion of what it does not know yet', async () => {
    const [one, two] = [replica(), replica()];
    await one.data.replace([flag('a', 1)]);
    await one.data.apply([put(flag('new', 5))]);
    await two.restore();
    await expect(two.data.replace([flag('a', 1)])).rejects.toThrow('must not lag behind');
    expect(await field(server, 'new')).toBe(flag('new', 5).text);
    // a deletion that is told as one is no sign of it
    await two.data.apply([gone('flags', 'new', 6)]);
    expect(await field(server, 'new')).toContain('"version":6,"deleted":true');
    await two.until('the first to hear', () => one.keep.order.isNewer(two.position(), one.position()) === true);
  });

  it('of a source that tells an old state for long are its rollback', async () => {
    const clock = new FakeClock();
    const [one, two] = [replica({ clock }), replica()];
    for (const each of [one, two]) await each.data.replace([flag('a', 1)]);
    for (const each of [one, two]) await each.data.apply([put(flag('a', 2))]);
    await expect(one.data.replace([flag('a', 1)])).rejects.toThrow('must not lag behind');
    clock.advance(29_999);
    await expect(one.data.replace([flag('a', 1)])).rejects.toThrow('must not lag behind');
    clock.advance(1);
    expect((await one.data.replace([flag('a', 1)])).result).toBe('reset');
    expect(await field(server, 'a')).toBe(flag('a', 1).text);
    expect(await length(server)).toBe(3);
    // the others see that it has a new place, and need not wait
    expect((await two.data.replace([flag('a', 1)])).result).toBe('reset');
    expect(await length(server)).toBe(3);
    expect(two.keep.order.isNewer(one.position(), two.position())).toBe(false);
  });

  it('of a moment ago are known to whoever looks', async () => {
    const [one, two] = [replica(), replica()];
    for (const each of [one, two]) await each.data.replace([flag('a', 1)]);
    await two.keep.order.look();
    // the news cannot arrive meanwhile: nothing is awaited but the look
    await server.with((client) => client.client('KILL', 'TYPE', 'pubsub'));
    await one.data.apply([put(flag('a', 2))]);
    await two.keep.order.look();
    expect(two.keep.order.isNewer(one.position(), two.position())).toBe(true);
  });

  it('that roll back replace everything, once', async () => {
    const [one, two] = [replica(), replica()];
    for (const each of [one, two]) await each.data.replace([flag('a', 5), flag('b', 5)]);
    for (const each of [one, two]) await each.data.replace([flag('a', 4)]);
    expect(await server.with((client) => client.hgetall('env:features'))).toMatchObject({ a: flag('a', 4).text });
    expect(await length(server)).toBe(2);
    // a replica that starts now has no log over the break
    const three = replica();
    expect((await three.restore())?.log).toHaveLength(1);
  });

  it('of more than some megabytes go over a connection of their own', async () => {
    const one = replica();
    const items = Array.from({ length: 12 }, (_, at) => flag(`large-${at}`, 1, 1_000_000));
    await one.data.replace(items);
    await expect.poll(() => server.with((client) => client.hlen('env:features')), { timeout: 20_000 }).toBe(12);
    expect(await length(server)).toBe(1);
    const two = replica();
    await two.restore();
    expect(two.position().digest).toBe(one.position().digest);
  });

  it('are served on while Redis is away, and all of them are written when an empty one is back', async () => {
    const one = replica();
    await one.data.replace([flag('a', 1), flag('b', 1)]);
    await server.kill();
    const beganMs = performance.now();
    await one.data.apply([put(flag('a', 2))]);
    const waitedMs = performance.now() - beganMs;
    expect(waitedMs).toBeLessThan(4000);
    for (let version = 3; version <= 40; version++) await one.data.apply([put(flag('a', version))]);
    one.keep.committed('state 40');
    // only the first one waited
    expect(performance.now() - beganMs - waitedMs).toBeLessThan(1000);
    expect(one.told).toEqual(['HG_STORE']);
    expect(one.keep.status.state).toBe('INTERRUPTED');
    await server.restart();
    await one.until('Redis to be written to again', () => one.told.length === 2);
    expect(one.told).toEqual(['HG_STORE', 'back']);
    expect(one.keep.status.state).toBe('VALID');
    expect(await server.with((client) => client.hget('env:headgate:state', 'state'))).toBe('state 40');
    expect(await server.with((client) => client.hgetall('env:features'))).toEqual({
      a: flag('a', 40).text,
      b: flag('b', 1).text,
    });
    const two = replica();
    await two.restore();
    expect(two.position().digest).toBe(one.position().digest);
  });

  it('that Redis lost while nothing changed are written again, whether they were loaded or restored', async () => {
    const one = replica();
    await one.data.replace([flag('a', 1)]);
    const two = replica();
    await two.restore();
    await one.close();
    await server.restart();
    await expect.poll(() => field(server, 'a').catch(String), { timeout: 20_000 }).toBe(flag('a', 1).text);
    expect(await server.with((client) => client.get('env:$inited'))).toBe('');
  });

  it('that were lost without a word are looked for now and then, and written again', async () => {
    const clock = new FakeClock();
    const one = replica({ clock });
    await one.data.replace([flag('a', 1)]);
    await server.with((client) => client.flushall());
    clock.advance(10_000);
    await expect.poll(() => field(server, 'a')).toBe(flag('a', 1).text);
    // and before a write all the same
    await server.with((client) => client.flushall());
    await one.data.apply([put(flag('b', 1))]);
    expect(await server.with((client) => client.hkeys('env:features'))).toEqual(['a', 'b']);
  });

  it('of a replica that was cut off go on where the order is', async () => {
    const proxy = await RedisProxy.start(server.port);
    const [one, two] = [replica(), new RedisReplica(proxy.url, { readTimeoutMs: 300 })];
    replicas.push(two);
    for (const each of [one, two]) await each.data.replace([flag('a', 1), flag('b', 1)]);
    proxy.hold();
    await two.data.apply([put(flag('a', 2))]);
    await two.data.apply([put(flag('a', 3))]);
    await one.data.apply([put(flag('a', 2))]);
    expect(two.told).toEqual(['HG_STORE']);
    await two.until('the other connection', () => two.told.length === 2);
    expect(await field(server, 'a')).toBe(flag('a', 3).text);
    expect(two.keep.order.isNewer(two.position(), one.position())).toBe(true);
    expect(await length(server)).toBe(3);
    await two.close();
    await proxy.stop();
  });

  it('are kept by environments on one link', async () => {
    const link = new RedisLink({ url: server.url, clock: replica().clock });
    const options = { url: server.url, clock: replica().clock, link };
    const keeps = [openRedisFlags({ ...options, prefix: 'x' }), openRedisFlags({ ...options, prefix: 'y' })];
    for (const keep of keeps) expect(await keep.restore()).toBeUndefined();
    const connections = await server.with((client) => client.client('LIST'));
    for (const keep of keeps) await keep.close();
    expect(String(connections).split('\n').length).toBeLessThan(12);
    link.close();
  });
});

function keysSince(
  replica: RedisReplica,
  position: { digest: string; clock: number; view: string } | undefined,
): string[] {
  const since = replica.data.since(position);
  if (since.kind !== 'changes') return [since.kind];
  return since.keys.map(({ key, version, item }) => `${key} ${version}${item === undefined ? ' gone' : ''}`).toSorted();
}

function field(server: RedisServer, key: string): Promise<string | null> {
  return server.with((client) => client.hget('env:features', key));
}

function length(server: RedisServer): Promise<number> {
  return server.with((client) => client.xlen('env:headgate:order'));
}
