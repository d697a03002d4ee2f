import { describe, expect, it, vi } from 'vitest';
import { turns, until } from '../../test/support/conditions.ts';
import { flag, gone, KINDS, put } from '../../test/support/dataset-kit.ts';
import { PersistStore } from '../../test/support/persist-store.ts';
import { contentOf } from '../../test/support/store-contract.ts';
import { type Change, DataSet, type Item } from '../dataset/index.ts';
import { FakeClock } from '../kernel/index.ts';
import { FlagKeeper } from './flags.ts';
import { tablesOf } from './flags-records.ts';
import { openMemoryStore } from './memory.ts';
import type { Store } from './store.ts';

// a machine may be busy with other things
vi.setConfig({ testTimeout: 60_000 });

const NOW_MS = 1_700_000_000_000;

/** A process that keeps data sets. */
class World {
  readonly clock = new FakeClock();
  readonly failures: string[] = [];
  recoveries = 0;
  readonly store: PersistStore;
  readonly keeper: FlagKeeper;

  constructor(inner: Store = openMemoryStore()) {
    this.store = new PersistStore(inner);
    this.keeper = new FlagKeeper({
      store: this.store,
      clock: this.clock,
      wallNow: () => NOW_MS + this.clock.now(),
      onFailure: ({ code, message }) => this.failures.push(`${code} ${message}`),
      onRecovery: () => this.recoveries++,
    });
  }

  /** A new data set that is kept. */
  open(id = 'production', logMaxBatches = 10_000): DataSet {
    const keep = this.keeper.keep(id);
    return new DataSet({ name: id, kinds: KINDS, logMaxBatches, beforeCommit: (write) => keep.prepare(write) });
  }
}

/** What another process makes of what is in the store; undefined when there is nothing. */
async function found(
  store: Store,
  id = 'production',
): Promise<{ set: DataSet; savedMs: number; state: string | undefined } | undefined> {
  const { keeper, failures } = new World(store);
  const kept = await keeper.keep(id).restore();
  expect(failures).toEqual([]);
  if (kept === undefined) return undefined;
  const set = new DataSet({ name: id, kinds: KINDS });
  await set.restore(kept);
  return { set, savedMs: kept.savedMs, state: kept.state };
}

function itemsOf(set: DataSet): Item[] {
  return set.kinds.flatMap((kind) => [...set.snapshot().items(kind)]);
}

/** That another process would know everything that this one does. */
async function expectKept(world: World, set: DataSet): Promise<void> {
  const other = (await found(world.store.inner, set.name))?.set;
  expect(other?.snapshot()).toMatchObject(placeOf(set));
  expect(itemsOf(other!)).toEqual(itemsOf(set));
  expect([...other!.tombstones()]).toEqual([...set.tombstones()]);
  const graves = [0, 1].map((slot) => contentOf(world.store.inner, tablesOf(set.name, slot as 0 | 1).graves));
  expect((await Promise.all(graves)).flat()).toHaveLength([...set.tombstones()].length);
  // also those of an earlier life, and none that the log has forgotten
  for (let offset = Math.max(0, set.log.first - 20); offset <= set.log.next; offset++) {
    expect(keysSince(other!, offset)).toEqual(keysSince(set, offset));
  }
}

function keysSince(set: DataSet, offset: number): unknown {
  return set.sinceOffset(offset)?.keys.map(({ kind, key, version, item }) => [kind, key, version, item]);
}

function placeOf(set: DataSet): object {
  const { offset, digest, clock } = set.snapshot();
  return { offset, digest, clock };
}

/** Runs what waits for promises, and for turns of the event loop, while the clock stands still. */
async function settled(): Promise<void> {
  await turns(30);
}

describe('a data set that is kept', () => {
  it('is in the store before anybody sees it', async () => {
    const world = new World();
    const set = world.open();
    expect(await found(world.store.inner)).toBeUndefined();
    const told: Promise<void>[] = [];
    set.subscribe(() => told.push(expectKept(world, set)));
    await set.replace([flag('a', 1), flag('b', 1), { ...flag('s', 4), kind: 'segments' }]);
    await Promise.all(told);
    const steps: readonly (() => Promise<unknown>)[] = [
      () => set.apply([put(flag('a', 2)), gone('b', 2)]),
      () => set.apply([put(flag('a', 3)), gone('s', 5, 'segments'), gone('never', 2)]),
      () => set.apply([gone('b', 7)]),
      () => set.apply([put(flag('b', 8))]),
      () => set.replace([flag('b', 8), flag('c', 1)]),
      () => set.apply([put(flag('b', 3))]),
      () => set.apply([put(flag('b', 9)), put(flag('with spaces', 1)), put(flag('', 1)), put(flag('日本', 1))]),
    ];
    for (const step of steps) {
      await step();
      await Promise.all(told);
      await expectKept(world, set);
    }
    expect(told).toHaveLength(7);
    expect([world.failures, world.recoveries]).toEqual([[], 0]);
  });

  it('goes on in another process, and in the one after it', async () => {
    let inner: Store = openMemoryStore();
    const offsets: number[] = [];
    for (let life = 1; life <= 4; life++) {
      const world = new World(inner);
      const keep = world.keeper.keep('production');
      const set = new DataSet({ name: 'production', kinds: KINDS, beforeCommit: (write) => keep.prepare(write) });
      const kept = await keep.restore();
      expect(kept === undefined).toBe(life === 1);
      if (kept !== undefined) await set.restore(kept);
      await set.replace([flag('a', life), flag('b', life)]);
      await set.apply([put(flag('b', 1 + life)), gone(`c${life}`, 1), gone('c1', life)]);
      await set.replace([flag('a', life), flag('b', 1)], 'effective');
      await expectKept(world, set);
      offsets.push(set.snapshot().offset);
      inner = world.store.inner;
    }
    expect(offsets).toEqual([2, 4, 6, 8]);
    // one rewrite, at first: nobody wrote the whole into the other place again
    expect(await contentOf(inner, tablesOf('production', 0).items)).not.toEqual([]);
    expect(await contentOf(inner, tablesOf('production', 1).items)).toEqual([]);
  });

  it('holds no more of the log than the data set does, batches of many keys included', async () => {
    const world = new World();
    const set = world.open('production', 3);
    const many = (version: number): Change[] => Array.from({ length: 1200 }, (_, at) => put(flag(`k${at}`, version)));
    await set.replace([]);
    for (let version = 1; version <= 6; version++) {
      await set.apply(version % 2 === 0 ? many(version) : [put(flag('one', version))]);
      await expectKept(world, set);
    }
    // the batch before the first says at which digest the log begins
    const log = await contentOf(world.store.inner, tablesOf('production', 0).log);
    expect(new Set(log.map(([key]) => Number(key.split(' ')[0])))).toEqual(new Set([3, 4, 5, 6]));
  });

  it('is of its own, whatever else is kept', async () => {
    const world = new World();
    const sets = ['a', 'b', 'a b', '', '\0'].map((id) => [id, world.open(id === '' ? 'empty' : id)] as const);
    for (const [at, [, set]] of sets.entries()) await set.replace([flag('k', at + 1)]);
    for (const [, set] of sets) await expectKept(world, set);
    expect((await world.keeper.ids()).toSorted()).toEqual(['\0', 'a', 'a b', 'b', 'empty']);
  });
});

describe('a whole data set', () => {
  const large = (version: number): Item[] =>
    Array.from({ length: 5 }, (_, at) => flag(`k${at}`, version, `${version}`.repeat(3_000_000)));

  it('is written beside the one before, in groups, and counts from one moment on', async () => {
    const world = new World();
    const set = world.open();
    const places: (object | undefined)[] = [];
    world.store.onWritten = async () => {
      const other = await found(world.store.inner);
      places.push(other && placeOf(other.set));
    };
    await set.replace(large(2));
    const first = placeOf(set);
    expect(places.filter((place) => place === undefined)).toHaveLength(3);
    expect(places.at(-1)).toEqual(first);
    // versions that fall: everybody needs a full copy, and so does the store
    expect((await set.replace(large(1))).result).toBe('reset');
    await until('the place before to be cleared', () => world.store.attempts >= 10);
    await settled();
    const distinct = places.filter((place, at) => at === 0 || JSON.stringify(place) !== JSON.stringify(places[at - 1]));
    expect(distinct).toEqual([undefined, first, placeOf(set)]);
    expect((await contentOf(world.store.inner, tablesOf('production', 0).items)).length).toBe(0);
  });

  it('is written anew when it breaks off, whatever that left', async () => {
    const inner = openMemoryStore();
    const world = new World(inner);
    world.store.onWritten = () => {
      world.store.failure = 'no space';
      return Promise.resolve();
    };
    // what is served does not wait for the store
    expect((await world.open().replace([...large(1), flag('a of the first', 1)])).result).toBe('loaded');
    expect(await found(inner)).toBeUndefined();
    const again = new World(inner);
    const set = again.open();
    await set.replace(large(2));
    await expectKept(again, set);
  });
});

describe('a store that fails', () => {
  it('is told once, tried again after 1, 2, 4 ... 30 seconds, and gets everything', async () => {
    const world = new World();
    const set = world.open();
    await set.replace([flag('a', 1)]);
    const before = placeOf(set);
    world.store.failure = 'the disk is full';
    world.store.attempts = 0;
    for (let version = 2; version <= 5; version++) await set.apply([put(flag('a', version)), gone('b', version)]);
    expect(world.failures).toEqual(['HG_STORE the disk is full']);
    const tried: number[] = [];
    let seen = world.store.attempts;
    for (let second = 1; second <= 75; second++) {
      world.clock.advance(1000);
      await settled();
      if (world.store.attempts > seen) tried.push(second);
      seen = world.store.attempts;
    }
    expect(tried).toEqual([1, 3, 7, 15, 31, 61]);
    expect((await found(world.store.inner))?.set.snapshot()).toMatchObject(before);
    world.store.failure = undefined;
    expect([world.recoveries, world.keeper.failing]).toEqual([0, true]);
    world.clock.advance(30_000);
    await until('everything to be written', () => world.recoveries === 1);
    expect(world.keeper.failing).toBe(false);
    await expectKept(world, set);
    await set.apply([put(flag('a', 9))]);
    await expectKept(world, set);
    expect([world.failures.length, world.recoveries]).toEqual([1, 1]);
  });

  it('holds nobody up for longer than two seconds when it does not answer, and then not at all', async () => {
    const world = new World();
    const set = world.open();
    await set.replace([flag('a', 1)]);
    const release = world.store.hold();
    const write = set.apply([put(flag('a', 2))]);
    await settled();
    world.clock.advance(1999);
    await settled();
    expect([set.snapshot().get('flags', 'a')?.version, world.failures]).toEqual([1, []]);
    world.clock.advance(1);
    await write;
    expect(set.snapshot().get('flags', 'a')?.version).toBe(2);
    expect(world.failures).toEqual(['HG_STORE Cannot keep flags: the store has not answered for 2000 ms']);
    await set.apply([put(flag('a', 3))]);
    await set.apply([put(flag('a', 4))]);
    release();
    await until('everything to be written', () => world.recoveries === 1);
    await expectKept(world, set);
  });

  it('is waited for again once it has everything', async () => {
    const world = new World();
    const set = world.open();
    world.store.failure = 'the disk is full';
    await set.replace([flag('a', 1)]);
    world.store.failure = undefined;
    world.clock.advance(1000);
    await until('everything to be written', () => world.recoveries === 1);
    const release = world.store.hold();
    const write = set.apply([put(flag('a', 2))]);
    await settled();
    expect(set.snapshot().get('flags', 'a')?.version).toBe(1);
    release();
    await write;
  });

  it('gets the newest data whole when more is missing than is held for it', async () => {
    const world = new World();
    const set = world.open('production', 100);
    await set.replace([flag('a', 1)]);
    world.store.failure = 'the disk is full';
    for (let version = 2; version <= 1500; version++) await set.apply([put(flag('a', version)), gone('b', version)]);
    for (let at = 0; at < 5; at++) await set.apply([put(flag(`big${at}`, 1, 'x'.repeat(5_000_000)))]);
    world.store.failure = undefined;
    world.clock.advance(1000);
    await until('everything to be written', () => world.recoveries === 1);
    await expectKept(world, set);
    expect((await contentOf(world.store.inner, tablesOf('production', 0).items)).length).toBe(0);
  });

  it('is written to at the end once more, and left when it does not answer', async () => {
    const world = new World();
    const keep = world.keeper.keep('production');
    const set = new DataSet({ name: 'production', kinds: KINDS, beforeCommit: (write) => keep.prepare(write) });
    world.store.failure = 'the disk is full';
    await set.replace([flag('a', 1)]);
    world.store.failure = undefined;
    await keep.close();
    await keep.close();
    await expectKept(world, set);
    // what is over keeps nothing, and another goes on
    await set.apply([put(flag('a', 2))]);
    expect((await found(world.store.inner))?.set.versionOf('flags', 'a')).toBe(1);
    const next = world.open();
    await next.replace([flag('a', 3)]);
    await expectKept(world, next);

    world.store.hold();
    const write = next.apply([put(flag('a', 4))]);
    await settled();
    const closed = world.keeper.keep('production').close();
    await settled();
    world.clock.advance(10_000);
    await closed;
    await write;
  });
});

describe('many data sets', () => {
  it('share writes: what comes while one is on its way is written together', async () => {
    const world = new World();
    const sets = Array.from({ length: 50 }, (_, at) => world.open(`environment ${at}`));
    await Promise.all(sets.map((set) => set.replace([flag('a', 1)])));
    await settled();
    world.store.attempts = 0;
    await Promise.all(sets.map((set) => set.apply([put(flag('a', 2))])));
    expect(world.store.attempts).toBeLessThanOrEqual(3);
    for (const set of sets.slice(0, 5)) await expectKept(world, set);
  });

  it('fail together once, and alone from then on', async () => {
    const world = new World();
    const [first, good, bad] = ['first', 'good', 'bad'].map((id) => world.open(id));
    for (const set of [first!, good!, bad!]) await set.replace([]);
    // no store takes a key of this length
    const key = 'x'.repeat(70_000);
    const writes = [
      first!.apply([put(flag('a', 1))]),
      good!.apply([put(flag('a', 1))]),
      bad!.apply([put(flag(key, 1))]),
    ];
    await Promise.all(writes);
    expect(world.failures).toHaveLength(1);
    world.clock.advance(1000);
    await settled();
    await expectKept(world, good!);
    expect((await found(world.store.inner, 'bad'))?.set.snapshot().count).toBe(0);
  });
});
