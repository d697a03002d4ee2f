import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { turns, until } from '../../test/support/conditions.ts';
import { FakeUpstream } from '../../test/support/fake-upstream.ts';
import { fakeFront } from '../../test/support/flags-fakes.ts';
import { PersistStore } from '../../test/support/persist-store.ts';
import { Limiter } from '../admission/index.ts';
import { defaultConfig } from '../config/index.ts';
import { Deliveries } from '../delivery/index.ts';
import { FakeClock } from '../kernel/index.ts';
import { openLog } from '../observability/index.ts';
import { Outbound } from '../outbound/index.ts';
import { FlagsFront } from '../protocols/launchdarkly/index.ts';
import { FlagKeeper } from '../stores/index.ts';
import { FlagKeeping } from './flags-keep.ts';
import { Line } from './flags-line.ts';
import { UpstreamEnvironments } from './flags-upstreams.ts';
import type { Shared } from './service.ts';

const COUNT = 100;
const STREAM = '/sdk/stream';

/** A relay's environments, until it is stopped; their clock stands still. */
interface Relay {
  readonly clock: FakeClock;
  readonly front: FlagsFront;
  readonly environments: UpstreamEnvironments;
  ready(): number;
  stop(): Promise<void>;
}

let upstream: FakeUpstream;
let store: PersistStore;
let relay: Relay;

beforeEach(async () => {
  upstream = await FakeUpstream.start();
  for (let at = 0; at < COUNT; at += 1) upstream.environment(`sdk-${at}`, { flags: [{ key: 'a', version: 1 }] });
  store = new PersistStore();
  relay = await begin();
});

afterEach(async () => {
  await relay.stop();
  await upstream.stop();
});

async function begin(): Promise<Relay> {
  const outbound = await Outbound.open({ userAgent: 'test' });
  const clock = new FakeClock();
  const config = defaultConfig();
  const shared: Shared = {
    version: 'test',
    config: { ...config, upstream: { ...config.upstream, streamUri: upstream.url, baseUri: upstream.url } },
    clock,
    log: openLog({ level: 'none', clock }),
    limiter: Limiter.disabled('copies'),
    deliveries: new Deliveries(),
    store,
  };
  const keeping = new FlagKeeping(shared);
  const front = new FlagsFront({ ...fakeFront(), prepare: (id, write) => keeping.prepare(id, write) });
  const environments = new UpstreamEnvironments({ shared, front, outbound, keeping });
  const stop = async (): Promise<void> => {
    await environments.stop();
    await keeping.close();
    front.close();
    outbound.close();
  };
  const ready = (): number => front.environments().filter(({ data }) => data.ready).length;
  return { clock, front, environments, ready, stop };
}

/** Another process, of the same store. */
async function beginAgain(): Promise<void> {
  upsertAll();
  await relay.environments.started();
  await relay.stop();
  relay = await begin();
  upstream.requests.length = 0;
}

function upsert(at: number, sdkKey = `sdk-${at}`): void {
  const info = { id: `env-${at}`, name: `env-${at}`, sdkKeys: [{ value: sdkKey }], ttlMs: 0 };
  const under = { prefix: undefined, tableName: undefined };
  relay.environments.upsert({ info, sdkKey, filterKeys: [], under });
}

function upsertAll(count: number = COUNT): void {
  for (let at = 0; at < count; at += 1) upsert(at);
}

async function asked(count: number): Promise<void> {
  await upstream.until(`${count} requests`, () => upstream.seen(STREAM).length >= count);
  // one more would be there by then
  await turns(50);
  expect(upstream.seen(STREAM)).toHaveLength(count);
}

describe('many environments that begin at once', () => {
  it('are 32 at a time, each until it has its data', async () => {
    upstream.fault(...Array.from({ length: COUNT }, () => ({ kind: 'hold', bytes: 10 }) as const));
    upsertAll();
    for (const count of [32, 64, 96, COUNT]) {
      await asked(count);
      upstream.release();
    }
    expect(await relay.environments.started()).toBe(true);
    expect([relay.ready(), upstream.streams()]).toEqual([COUNT, COUNT]);
  });

  it('wait for 5 s at most for some that hang, which go on all the same', async () => {
    upstream.fault(...Array.from({ length: 40 }, () => ({ kind: 'hold', bytes: 10 }) as const));
    upsertAll();
    await asked(32);
    relay.clock.advance(4999);
    await asked(32);
    relay.clock.advance(1);
    await until('those who do not hang', () => relay.ready() === COUNT - 40);
    upstream.release();
    await until('the others', () => relay.ready() === COUNT);
    expect(upstream.seen(STREAM)).toHaveLength(COUNT);
  });

  it('do not wait for one that is removed, and one that waits begins no more then', async () => {
    upstream.fault(...Array.from({ length: 32 }, () => ({ kind: 'stall' }) as const));
    upsertAll();
    await asked(32);
    relay.environments.remove('env-0');
    // one that has not begun is not to begin
    relay.environments.remove('env-50');
    await until('the others', () => relay.ready() === COUNT - 33);
    expect(upstream.seen(STREAM).map(({ key }) => key)).not.toContain('sdk-50');
  });

  it('do not wait for those whose key is refused, or whose first attempt fails', async () => {
    upstream.fault(...Array.from({ length: 10 }, () => ({ kind: 'cut', bytes: 10 }) as const));
    for (let at = 0; at < COUNT; at += 1) upsert(at, at % 2 === 0 ? `sdk-${at}` : `sdk-nobody-${at}`);
    await until('those with a key', () => relay.ready() === COUNT / 2 - 10);
    await upstream.until('each to have asked', () => upstream.seen(STREAM).length === COUNT);
    expect(new Set(upstream.seen(STREAM).map(({ key }) => key)).size).toBe(COUNT);
  });

  it('have what was kept of them before anybody connects', async () => {
    await beginAgain();
    let atFirst: number | undefined;
    upstream.onChange(() => {
      if (upstream.seen(STREAM).length > 0) atFirst ??= relay.ready();
    });
    upsertAll();
    await asked(COUNT);
    expect(atFirst).toBe(COUNT);
  });

  it('have it also when they come later, and are forgotten also while they wait', async () => {
    await beginAgain();
    upstream.fault(...Array.from({ length: 32 }, () => ({ kind: 'stall' }) as const));
    upsertAll(COUNT - 1);
    await asked(32);
    const keeper = new FlagKeeper({ store, clock: relay.clock, onFailure: () => {} });
    relay.environments.remove('env-50');
    let ids: readonly string[] = ['env-50'];
    await until('it forgotten', () => {
      void keeper.ids().then((found) => (ids = found));
      return !ids.includes('env-50');
    });
    upsert(COUNT - 1);
    const later = relay.front.environments().find(({ info }) => info.id === `env-${COUNT - 1}`);
    let isReady: boolean | undefined;
    upstream.onChange(() => {
      if (upstream.seen(STREAM).length > 32) isReady ??= later?.data.ready;
    });
    relay.environments.remove('env-0');
    await upstream.until('another request', () => upstream.seen(STREAM).length > 32);
    expect(isReady).toBe(true);
  });

  it('are not kept from connecting by a store that hangs', async () => {
    const release = store.hold();
    upsertAll();
    await turns(20);
    // who asks from now on is answered
    store.hold()();
    await turns(20);
    expect(upstream.seen(STREAM)).toHaveLength(0);
    relay.clock.advance(250);
    await until('those who did not ask in vain', () => relay.ready() === COUNT - 32);
    release();
    await until('all', () => relay.ready() === COUNT);
  });
});

describe('a line', () => {
  it('lets in by order of arrival, those ahead first, and each place once', async () => {
    const clock = new FakeClock();
    const line = new Line({ places: 2, clock });
    const entered: string[] = [];
    const join = (name: string, isAhead = false): { leave(): void } => {
      const place = line.join({ msMax: 10, isAhead });
      void place.turn.then(() => entered.push(name));
      return place;
    };
    const [a, b, c] = [join('a'), join('b'), join('c')];
    const d = join('d', true);
    const e = join('e');
    await turns();
    expect(entered).toEqual(['a', 'b']);
    a.leave();
    a.leave();
    await turns();
    expect(entered).toEqual(['a', 'b', 'd']);
    // who leaves before its turn is told, and has no place
    c.leave();
    await turns();
    expect(entered).toEqual(['a', 'b', 'd', 'c']);
    clock.advance(10);
    b.leave();
    d.leave();
    join('f');
    join('g');
    await turns();
    expect(entered).toEqual(['a', 'b', 'd', 'c', 'e', 'f']);
    e.leave();
    await turns();
    expect(entered.at(-1)).toBe('g');
    expect(clock.armed).toBe(2);
  });
});
