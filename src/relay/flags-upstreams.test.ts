import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../test/support/conditions.ts';
import { type FakeEnvironment, FakeUpstream } from '../../test/support/fake-upstream.ts';
import { fakeFront } from '../../test/support/flags-fakes.ts';
import { PersistStore } from '../../test/support/persist-store.ts';
import { defaultConfig } from '../config/index.ts';
import { Deliveries } from '../delivery/index.ts';
import { systemClock } from '../kernel/index.ts';
import { Limiter } from '../admission/index.ts';
import { openLog } from '../observability/index.ts';
import { Outbound } from '../outbound/index.ts';
import { FlagsFront } from '../protocols/launchdarkly/index.ts';
import { FlagKeeper } from '../stores/index.ts';
import { FlagKeeping } from './flags-keep.ts';
import { type RelayedEnvironment, UpstreamEnvironments } from './flags-upstreams.ts';
import type { Shared } from './service.ts';

let upstream: FakeUpstream;
let source: FakeEnvironment;
let store: PersistStore;
let outbound: Outbound;
let front: FlagsFront;
let keeping: FlagKeeping;
let environments: UpstreamEnvironments;

beforeEach(async () => {
  upstream = await FakeUpstream.start();
  source = upstream.environment('sdk-a', { flags: [{ key: 'a', version: 1 }] });
  store = new PersistStore();
  outbound = await Outbound.open({ userAgent: 'test' });
  const config = defaultConfig();
  const shared: Shared = {
    version: 'test',
    config: { ...config, upstream: { ...config.upstream, streamUri: upstream.url, baseUri: upstream.url } },
    clock: systemClock,
    log: openLog({ level: 'none', clock: systemClock }),
    limiter: Limiter.disabled('copies'),
    deliveries: new Deliveries(),
    store,
  };
  keeping = new FlagKeeping(shared);
  front = new FlagsFront({ ...fakeFront(), prepare: (id, write) => keeping.prepare(id, write) });
  environments = new UpstreamEnvironments({ shared, front, outbound, keeping });
});

afterEach(async () => {
  await environments.stop();
  await keeping.close();
  front.close();
  outbound.close();
  await upstream.stop();
});

function environment(sdkKey = 'sdk-a', id = 'a'): RelayedEnvironment {
  const info = { id, name: id, sdkKeys: [{ value: sdkKey }], ttlMs: 0 };
  return { info, sdkKey, filterKeys: [], under: { prefix: undefined, tableName: undefined } };
}

function held(key: string): number | undefined {
  return front.environments()[0]?.data.snapshot().get('flags', key)?.version;
}

describe('environments of an upstream', () => {
  // Fails when a successor does not wait: it is given its predecessor's selector without the data, and is not kept.
  it('one that comes back while its predecessor is being written begins anew, and is kept', async () => {
    environments.upsert(environment());
    await until('its data', () => held('a') === 1);
    await until('its place in the store', () => store.attempts > 0);
    const release = store.hold();
    source.patch('flags', { key: 'a', version: 2 });
    const { attempts } = store;
    await until('a write under way', () => store.attempts > attempts);
    environments.remove('a');
    environments.upsert(environment());
    release();
    await until('its data again', () => held('a') === 2);
    source.patch('flags', { key: 'a', version: 3 });
    await until('a change', () => held('a') === 3);
    await environments.stop();
    await keeping.close();

    const keeper = new FlagKeeper({ store, clock: systemClock, onFailure: () => {} });
    const kept = await keeper.keep('a').restore();
    const items = [];
    for await (const item of kept?.items ?? []) items.push(`${item.key} ${item.version}`);
    expect(items).toEqual(['a 3']);
  });

  it('one that is gone is forgotten by the store', async () => {
    environments.upsert(environment());
    await until('its data', () => held('a') === 1);
    environments.remove('a');
    const keeper = new FlagKeeper({ store, clock: systemClock, onFailure: () => {} });
    let ids: readonly string[] = ['a'];
    await until('it gone', () => {
      void keeper.ids().then((found) => (ids = found));
      return ids.length === 0;
    });
    expect(front.environments()).toEqual([]);
  });

  // Fails when nobody catches what #start throws: the process would end.
  it('one that cannot be followed at all leaves the others alone', async () => {
    environments.upsert(environment('sdk key', 'broken'));
    environments.upsert(environment());
    expect(await environments.started()).toBe(false);
    const [broken, good] = front.environments();
    expect(broken?.connection).toMatchObject({ state: 'OFF', lastError: { kind: 'UNKNOWN' } });
    expect(good?.data.ready).toBe(true);
  });

  it('are started when each has data or a key that is refused, whichever comes last', async () => {
    environments.upsert(environment('sdk-nobody', 'refused'));
    environments.upsert(environment());
    expect(await environments.started()).toBe(false);
    environments.remove('refused');
    expect(await environments.started()).toBe(true);
  });
});
