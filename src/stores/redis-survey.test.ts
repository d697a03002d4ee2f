import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { flag, gone, put } from '../../test/support/flags-items.ts';
import { redisAvailable, RedisServer } from '../../test/support/redis.ts';
import { RedisReplica } from '../../test/support/redis-replica.ts';

/** An item that upstream made and deleted again, and another one that changes each time. */
const [BEFORE, WITH, AFTER] = [[flag('count', 1)], [flag('a', 1), flag('count', 2)], [flag('count', 4)]];

describe.skipIf(!redisAvailable())('a replica that does not know an item in Redis', () => {
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

  const replica = (): RedisReplica => {
    const made = new RedisReplica(server.url);
    replicas.push(made);
    return made;
  };

  /** `key version`, `gone` after it when it is a deletion. */
  const held = (): Promise<string[]> =>
    server.with(async (client) => {
      const texts = Object.entries(await client.hgetall('env:features'));
      const items = texts.map(([key, text]) => ({ ...(JSON.parse(text) as { version: number; deleted?: true }), key }));
      return items.map(({ key, version, deleted }) => `${key} ${version}${deleted ? ' gone' : ''}`).toSorted();
    });

  it('and is newer for certain, without a place in the order, leaves a grave: no lower version comes after it', async () => {
    const [one, two, three] = [replica(), replica(), replica()];
    await one.data.replace(WITH);
    await two.data.replace(AFTER);
    expect(await held()).toEqual(['a 1 gone', 'count 4']);
    await three.data.replace(WITH);
    await one.data.apply([put(flag('count', 3))]);
    expect(await held()).toEqual(['a 1 gone', 'count 4']);
    // made again
    await two.data.apply([put(flag('a', 6)), put(flag('count', 5))]);
    expect(await held()).toEqual(['a 6', 'count 5']);
  });

  it('and is newer for certain, past a place of the order, is not kept from writing by what it never saw', async () => {
    const [one, two] = [replica(), replica()];
    for (const each of [one, two]) await each.data.replace(BEFORE);
    await one.data.apply([put(flag('a', 1)), put(flag('count', 2))]);
    await two.data.replace(AFTER);
    expect(await held()).toEqual(['a 1 gone', 'count 4']);
    await one.until('the first to hear', () => one.keep.order.isNewer(two.position(), one.position()) === true);
    await one.data.apply([gone('flags', 'a', 5), put(flag('count', 4))]);
    expect(one.position().digest).toBe(two.position().digest);
    await two.data.apply([put(flag('count', 5))]);
    expect(await held()).toEqual(['a 1 gone', 'count 5']);
  });

  it('and only has one that Redis does not know leaves both', async () => {
    const [one, two] = [replica(), replica()];
    await one.data.replace([flag('b', 1), flag('y', 1)]);
    // behind, before x was deleted and y made, or ahead, after the contrary: nothing tells
    await two.data.replace([flag('b', 1), flag('x', 1)]);
    expect(await held()).toEqual(['b 1', 'y 1']);
    await two.data.apply([put(flag('b', 2))]);
    expect(await held()).toEqual(['b 2', 'x 1', 'y 1 gone']);
  });
});
