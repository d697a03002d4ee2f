import { type BasicLogger, basicLogger, init, type LDClient, type LDFeatureStore } from '@launchdarkly/node-server-sdk';
import { RedisFeatureStore } from '@launchdarkly/node-server-sdk-redis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { gone, put } from '../../test/support/flags-items.ts';
import { redisAvailable, RedisServer } from '../../test/support/redis.ts';
import { RedisReplica } from '../../test/support/redis-replica.ts';
import type { Item } from '../dataset/index.ts';

/** A boolean flag as SDKs evaluate it: on for everybody, or off. */
function flagOf(key: string, version: number, on: boolean): Item {
  const item = {
    key,
    version,
    on,
    prerequisites: [],
    targets: [],
    rules: [],
    fallthrough: { variation: 0 },
    offVariation: 1,
    variations: ['yes', 'no'],
    salt: key,
  };
  return { kind: 'flags', key, version, text: JSON.stringify(item) };
}

const logger = basicLogger({ level: 'none' });
const CONTEXT = { kind: 'user', key: 'somebody' };
const ROUNDS = 40;

describe.skipIf(!redisAvailable())('flags in Redis, and the SDKs that read and write them', () => {
  let server: RedisServer;
  const ends: (() => unknown)[] = [];
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
    await server.with((client) => client.flushall());
  });

  const options = (): { redisOpts: object; prefix: string; cacheTTL: number } => {
    return { redisOpts: { host: '127.0.0.1', port: server.port }, prefix: 'env', cacheTTL: 0 };
  };

  const replica = (): RedisReplica => {
    const made = new RedisReplica(server.url);
    ends.push(() => made.close());
    return made;
  };

  /** A client that reads Redis alone: nothing of it goes to any service. */
  const daemon = async (): Promise<LDClient> => {
    const client = init('sdk-key', {
      featureStore: RedisFeatureStore(options()),
      useLdd: true,
      sendEvents: false,
      diagnosticOptOut: true,
      logger,
    });
    ends.push(() => client.close());
    await client.waitForInitialization({ timeout: 10 });
    return client;
  };

  /** What a relay or SDK of the vendor writes with. */
  const vendorStore = (): LDFeatureStore => {
    const make = RedisFeatureStore(options()) as unknown as (context: {
      basicConfiguration: { logger: BasicLogger };
    }) => LDFeatureStore;
    const store = make({ basicConfiguration: { logger: logger as BasicLogger } });
    ends.push(() => store.close());
    return store;
  };

  const upsert = (store: LDFeatureStore, item: Item): Promise<void> =>
    new Promise((resolve) => store.upsert(FEATURES, JSON.parse(item.text) as never, () => resolve()));

  it('an SDK in daemon mode evaluates what was written here, changes and deletions too', async () => {
    const one = replica();
    await one.data.replace([flagOf('a', 1, true), flagOf('b', 1, false), flagOf('c', 1, true)]);
    const sdk = await daemon();
    expect(await sdk.variation('a', CONTEXT, 'default')).toBe('yes');
    expect(await sdk.variation('b', CONTEXT, 'default')).toBe('no');
    await one.data.apply([put(flagOf('a', 2, false)), gone('flags', 'c', 2)]);
    expect(await sdk.variation('a', CONTEXT, 'default')).toBe('no');
    expect(await sdk.variation('c', CONTEXT, 'default')).toBe('default');
    expect((await sdk.allFlagsState(CONTEXT)).allValues()).toEqual({ a: 'no', b: 'no' });
  });

  it('what an SDK wrote is read here', async () => {
    const store = vendorStore();
    const features = { a: JSON.parse(flagOf('a', 1, true).text), b: JSON.parse(flagOf('b', 3, true).text) };
    await new Promise<void>((resolve) => store.init({ features, segments: {} } as never, () => resolve()));
    await upsert(store, flagOf('a', 2, false));
    await new Promise<void>((resolve) => store.delete(FEATURES, 'b', 4, () => resolve()));
    const one = replica();
    const kept = await one.restore();
    expect([...(kept?.tombstones ?? [])]).toEqual([{ kind: 'flags', key: 'b', version: 4 }]);
    const [a, ...others] = [...one.data.snapshot().items('flags')];
    expect(others).toEqual([]);
    expect(a).toMatchObject({ key: 'a', version: 2 });
    expect(JSON.parse(a?.text ?? '')).toMatchObject({ key: 'a', version: 2, on: false });
  });

  // Fails when the comparison in PUT is removed.
  it('the highest version wins, whoever writes it', async () => {
    const [one, store] = [replica(), vendorStore()];
    await one.data.replace([flagOf('a', 1, true)]);
    await new Promise<void>((resolve) => store.initialized(() => resolve()));
    for (let round = 1; round <= ROUNDS; round++) {
      const [ours, theirs] = round % 2 === 0 ? [2 * round, 2 * round + 1] : [2 * round + 1, 2 * round];
      const upserted = upsert(store, flagOf('a', theirs, false));
      const applied = one.data.apply([put(flagOf('a', ours, true))]);
      await Promise.all([upserted, applied]);
      const held = await server.with((client) => client.hget('env:features', 'a'));
      expect(JSON.parse(held ?? '')).toMatchObject({ version: 2 * round + 1, on: ours > theirs });
    }
  });

  it('two replicas and an SDK that write different items at once lose none of them', async () => {
    const [one, two, store] = [replica(), replica(), vendorStore()];
    for (const each of [one, two]) await each.data.replace([flagOf('a', 1, true)]);
    const writes: Promise<unknown>[] = [];
    for (let round = 2; round <= ROUNDS; round++) {
      writes.push(one.data.apply([put(flagOf('a', round, true))]));
      writes.push(two.data.apply([put(flagOf('a', round, true))]));
      writes.push(upsert(store, flagOf(`of-the-sdk-${round}`, round, true)));
    }
    await Promise.all(writes);
    const held = await server.with((client) => client.hgetall('env:features'));
    expect(Object.keys(held)).toHaveLength(ROUNDS);
    expect(held['a']).toBe(flagOf('a', ROUNDS, true).text);
    // each state has one place, whoever was first
    expect(await server.with((client) => client.xlen('env:headgate:order'))).toBe(ROUNDS);
  });
});

const FEATURES = { namespace: 'features' };
