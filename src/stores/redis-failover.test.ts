import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { flag, put } from '../../test/support/flags-items.ts';
import { redisAvailable, RedisServer } from '../../test/support/redis.ts';
import { RedisReplica } from '../../test/support/redis-replica.ts';

describe.skipIf(!redisAvailable())('a failover to a copy that lags', () => {
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

  /** What a copy would hold now; the answer puts it in the place of what is there by then, in one step. */
  async function copied(): Promise<() => Promise<void>> {
    const held = await server.with(async (client) => {
      const keys = await client.keys('*');
      return await Promise.all(keys.map(async (key) => ({ key, bytes: await client.dumpBuffer(key) })));
    });
    return () =>
      server.with(async (client) => {
        const back = client.multi().flushall();
        for (const { key, bytes } of held) back.restore(key, 0, bytes ?? Buffer.alloc(0));
        await back.exec();
      });
  }

  const versions = (): Promise<Record<string, number>> =>
    server.with(async (client) => {
      const texts = Object.entries(await client.hgetall('env:features'));
      return Object.fromEntries(texts.map(([key, text]) => [key, (JSON.parse(text) as { version: number }).version]));
    });

  it('is noticed when another replica has taken the lost places since: nothing stays lost', async () => {
    const [one, two] = [replica(), replica()];
    await one.data.replace([flag('a', 1), flag('b', 1)]);
    await two.restore();
    const failOver = await copied();
    await one.data.apply([put(flag('a', 2))]);
    await failOver();
    // at the place that the lost change had
    await two.data.apply([put(flag('b', 2))]);
    await one.data.apply([put(flag('b', 2))]);
    expect(await versions()).toEqual({ a: 2, b: 2 });
    const kept = await replica().restore();
    expect(kept?.digest).toBe(one.position().digest);
  });

  it('is noticed when others have gone further than the lost places', async () => {
    const [one, two] = [replica(), replica()];
    await one.data.replace([flag('a', 1), flag('b', 1)]);
    await two.restore();
    const failOver = await copied();
    await one.data.apply([put(flag('a', 2))]);
    await failOver();
    await two.data.apply([put(flag('b', 2))]);
    await two.data.apply([put(flag('b', 3))]);
    await one.data.apply([put(flag('b', 3))]);
    expect(await versions()).toEqual({ a: 2, b: 3 });
  });
});
