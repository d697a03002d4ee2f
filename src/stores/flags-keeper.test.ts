import { describe, expect, it, vi } from 'vitest';
import { turns, until } from '../../test/support/conditions.ts';
import { flag, gone, KINDS, put } from '../../test/support/dataset-kit.ts';
import { PersistStore } from '../../test/support/persist-store.ts';
import { contentOf } from '../../test/support/store-contract.ts';
import { DataSet } from '../dataset/index.ts';
import { FakeClock } from '../kernel/index.ts';
import { FlagKeeper } from './flags.ts';
import type { FlagKeep } from './flags-keep.ts';
import { STATES, tablesOf } from './flags-records.ts';
import { openMemoryStore } from './memory.ts';
import type { Store } from './store.ts';

// a machine may be busy with other things
vi.setConfig({ testTimeout: 60_000 });

const NOW_MS = 1_700_000_000_000;

interface Process {
  readonly clock: FakeClock;
  readonly store: PersistStore;
  readonly keeper: FlagKeeper;
  readonly failures: string[];
}

function begin(inner: Store = openMemoryStore()): Process {
  const [clock, store, failures] = [new FakeClock(), new PersistStore(inner), [] as string[]];
  const keeper = new FlagKeeper({
    store,
    clock,
    wallNow: () => NOW_MS + clock.now(),
    onFailure: ({ code, message }) => failures.push(`${code} ${message}`),
  });
  return { clock, store, keeper, failures };
}

function setOf(keep: FlagKeep, name = 'production'): DataSet {
  return new DataSet({ name, kinds: KINDS, beforeCommit: (write) => keep.prepare(write) });
}

/** A store in which a data set with some history lies. */
async function filled(ids: readonly string[] = ['production']): Promise<Store> {
  const { keeper, store } = begin();
  for (const id of ids) {
    const keep = keeper.keep(id);
    const set = setOf(keep, id);
    await set.replace([flag('a', 1), flag('b', 1)]);
    await set.apply([put(flag('a', 2)), gone('b', 2)]);
    keep.committed('(p:1)');
    await keep.close();
  }
  return store.inner;
}

/** What of it another process is told. */
async function kept(store: Store): Promise<{ savedMs: number; state: string | undefined; offset: number } | undefined> {
  const found = await begin(store).keeper.keep('production').restore();
  return found && { savedMs: found.savedMs, state: found.state, offset: found.offset };
}

describe('how old the data are, and the selector of the upstream', () => {
  it('are known to a second when the selector changes, and to a minute when nothing does', async () => {
    const { clock, store, keeper } = begin();
    const keep = keeper.keep('production');
    const set = setOf(keep);
    await set.replace([flag('a', 1)]);
    expect(await kept(store.inner)).toEqual({ savedMs: NOW_MS, state: undefined, offset: 1 });
    clock.advance(10);
    keep.committed('(p:1)');
    clock.advance(999);
    await turns(5);
    expect((await kept(store.inner))?.state).toBeUndefined();
    clock.advance(1);
    await turns(5);
    expect(await kept(store.inner)).toEqual({ savedMs: NOW_MS + 10, state: '(p:1)', offset: 1 });
    // said every second: written once a minute
    store.attempts = 0;
    for (let second = 0; second < 120; second++) {
      keep.committed('(p:1)');
      clock.advance(1000);
      await turns(2);
    }
    expect(store.attempts).toBe(2);
    expect((await kept(store.inner))?.savedMs).toBeGreaterThanOrEqual(NOW_MS + 60_000);
    // one that is no more is none
    keep.committed(undefined);
    await keep.close();
    expect((await kept(store.inner))?.state).toBeUndefined();
  });

  it('go with the next write, and are never ahead of the data', async () => {
    const { clock, store, keeper } = begin();
    const keep = keeper.keep('production');
    const set = setOf(keep);
    await set.replace([flag('a', 1)]);
    keep.committed('(p:1)');
    await set.apply([put(flag('a', 2))]);
    expect(await kept(store.inner)).toMatchObject({ state: '(p:1)', offset: 2 });
    store.failure = 'the disk is full';
    await set.apply([put(flag('a', 3))]);
    keep.committed('(p:3)');
    clock.advance(500);
    await turns(5);
    store.failure = undefined;
    const release = store.hold();
    clock.advance(500);
    await turns(5);
    await set.apply([put(flag('a', 4))]);
    keep.committed('(p:4)');
    release();
    await until('what waits to be written', () => store.attempts >= 4);
    await turns(10);
    // of the write that was made when the upstream had said this, not of what was said since
    expect(await kept(store.inner)).toMatchObject({ state: '(p:3)', offset: 4 });
    clock.advance(1000);
    await turns(5);
    expect(await kept(store.inner)).toMatchObject({ state: '(p:4)', offset: 4 });
  });

  it('are never ahead of the data that are written whole, however long that takes', async () => {
    const { clock, store, keeper } = begin();
    const keep = keeper.keep('production');
    const set = setOf(keep);
    const seen: string[] = [];
    store.onWritten = async () => {
      const found = await kept(store.inner);
      if (found !== undefined) seen.push(`${found.offset} ${found.state}`);
    };
    const release = store.hold();
    const loaded = set.replace([flag('a', 1)]);
    await turns(10);
    clock.advance(2000);
    await loaded;
    keep.committed('(p:1)');
    await set.apply([put(flag('a', 2))]);
    keep.committed('(p:2)');
    release();
    await until('all of it', () => seen.some((one) => one.startsWith('2 ')));
    expect(seen).toEqual(['1 undefined', '2 (p:1)']);
  });

  it('are kept at the end', async () => {
    expect(await kept(await filled())).toEqual({ savedMs: NOW_MS, state: '(p:1)', offset: 2 });
  });
});

describe('what cannot be read', () => {
  const tables = tablesOf('production', 0);
  it.each([
    ['a state that is none', STATES, 'production', 'what?'],
    ['a state that is no object', STATES, 'production', '7'],
    ['a state of another format', STATES, 'production', '{"format":2}'],
    ['a state without an offset', STATES, 'production', '{"format":1,"slot":0,"digest":"","clock":1,"savedMs":1}'],
    [
      'a state in a third place',
      STATES,
      'production',
      '{"format":1,"slot":2,"digest":"","clock":1,"savedMs":1,"offset":1}',
    ],
    ['a grave that is none', tables.graves, 'flags b', 'b'],
    ['a grave without a kind', tables.graves, 'flags', '1 1'],
    ['a batch that is none', tables.log, '0000000000000001 00000000', '{}'],
    ['a batch that is no JSON', tables.log, '0000000000000001 00000000', '['],
    ['a key of a batch that is none', tables.log, '0000000000000001 00000000', '["",1,[["flags",7]]]'],
  ])('is told, counts as nothing, and is replaced: %s', async (_, table, key, text) => {
    const inner = await filled(['production', 'other']);
    const others = await contentOf(inner, tablesOf('other', 0).items);
    await inner.write([{ table, key, value: Buffer.from(text) }]);
    const { keeper, failures } = begin(inner);
    const keep = keeper.keep('production');
    expect(await keep.restore()).toBeUndefined();
    expect(failures).toHaveLength(1);
    expect(failures[0]).toMatch(/^HG_STORE Cannot restore production: .*, got .*fetched anew/);
    const set = setOf(keep);
    await set.replace([flag('new', 1)]);
    await keep.close();
    const again = new DataSet({ name: 'production', kinds: KINDS });
    await again.restore((await begin(inner).keeper.keep('production').restore())!);
    expect(again.snapshot().digest).toBe(set.snapshot().digest);
    expect(await contentOf(inner, tablesOf('other', 0).items)).toEqual(others);
    expect((await begin(inner).keeper.keep('other').restore())?.state).toBe('(p:1)');
  });

  it.each([
    ['an item that is none', 'flags a', 'what'],
    ['an item that is another one', 'flags a', '2 {"key":"a","version":3}'],
    ['an item too many', 'flags c', '2 {"key":"c","version":2}'],
    ['an item without a kind', 'flags', '2 {}'],
  ])('is found out when the data are put back: %s', async (_, key, text) => {
    const inner = await filled();
    await inner.write([{ table: tables.items, key, value: Buffer.from(text) }]);
    const { keeper } = begin(inner);
    const keep = keeper.keep('production');
    const set = setOf(keep);
    await expect(set.restore((await keep.restore())!)).rejects.toMatchObject({ code: 'HG_STORE' });
    await set.replace([flag('new', 1)]);
    const again = new DataSet({ name: 'production', kinds: KINDS });
    await again.restore((await begin(inner).keeper.keep('production').restore())!);
    expect(again.snapshot().digest).toBe(set.snapshot().digest);
  });

  it('is not gone on from: other data are written whole', async () => {
    const { keeper, store } = begin(await filled());
    const keep = keeper.keep('production');
    await keep.restore();
    const other = begin(await filled(['other'])).keeper.keep('other');
    const set = setOf(keep);
    const found = (await other.restore())!;
    await set.restore({ ...found, offset: found.offset + 1, log: [] });
    await set.apply([put(flag('a', 9))]);
    const again = new DataSet({ name: 'production', kinds: KINDS });
    await again.restore((await begin(store.inner).keeper.keep('production').restore())!);
    expect(again.snapshot()).toMatchObject({ digest: set.snapshot().digest, offset: set.snapshot().offset });
    expect(again.sinceOffset(set.snapshot().offset - 1)?.keys).toMatchObject([put(flag('a', 9))]);
  });

  it('does not hold a start up when the store does not answer', async () => {
    const { keeper, store, clock, failures } = begin(await filled());
    store.hold();
    const restored = keeper.keep('production').restore();
    await turns(5);
    clock.advance(10_000);
    expect(await restored).toBeUndefined();
    expect(failures[0]).toContain('HG_STORE Cannot restore production: the store has not answered for 10000 ms');
  });
});

describe('a data set that is no more', () => {
  it('is forgotten, with everything that was kept of it', async () => {
    const inner = await filled(['production', 'other']);
    const { keeper, failures } = begin(inner);
    const keep = keeper.keep('production');
    const set = setOf(keep);
    await set.restore((await keep.restore())!);
    expect((await keeper.ids()).toSorted()).toEqual(['other', 'production']);
    await Promise.all([set.apply([put(flag('a', 3))]), keeper.remove('production')]);
    expect(await keeper.ids()).toEqual(['other']);
    for (const table of Object.values(tablesOf('production', 0)) as string[])
      expect(await contentOf(inner, table)).toEqual([]);
    expect(await contentOf(inner, tablesOf('other', 0).items)).not.toEqual([]);
    await keeper.remove('production');
    expect(failures).toEqual([]);
    // one that comes back at once waits until that is over
    const removed = keeper.remove('other');
    const next = setOf(keeper.keep('other'), 'other');
    await next.replace([flag('a', 7)]);
    await removed;
    expect((await begin(inner).keeper.keep('other').restore())?.digest).toBe(next.snapshot().digest);
  });

  it('holds up the one that takes its name no longer than a store may, when its removal hangs', async () => {
    const { clock, store, keeper, failures } = begin(await filled());
    const release = store.hold();
    const removed = keeper.remove('production');
    const restored = keeper.keep('production').restore();
    await turns(10);
    clock.advance(10_000);
    expect(await restored).toBeUndefined();
    expect(failures).toEqual(['HG_STORE Cannot restore production: the store has not answered for 10000 ms']);
    release();
    await removed;
  });

  it('counts no more when its removal breaks off, and goes the next time', async () => {
    const inner = await filled();
    const { keeper, store, failures } = begin(inner);
    store.onWritten = () => {
      store.failure = 'the disk is gone';
      return Promise.resolve();
    };
    await keeper.remove('production');
    expect(failures).toEqual(['HG_STORE the disk is gone']);
    expect(await contentOf(inner, tablesOf('production', 0).items)).not.toEqual([]);
    expect(await begin(inner).keeper.keep('production').restore()).toBeUndefined();
    const next = begin(inner).keeper;
    expect(await next.ids()).toEqual([]);
    await next.remove('production');
    expect(await contentOf(inner, tablesOf('production', 0).items)).toEqual([]);
    expect(await contentOf(inner, STATES)).toEqual([]);
  });
});

describe('deletions that the data set has forgotten', () => {
  it('leave the store too', async () => {
    const inner = await filled();
    const { graves } = tablesOf('production', 0);
    const value = Buffer.from('7 3');
    await inner.write(Array.from({ length: 200_000 }, (_, at) => ({ table: graves, key: `flags gone ${at}`, value })));
    const { keeper } = begin(inner);
    const keep = keeper.keep('production');
    const set = new DataSet({
      name: 'production',
      kinds: KINDS,
      tombstonesMax: 10,
      beforeCommit: (write) => keep.prepare(write),
    });
    await set.restore((await keep.restore())!);
    await set.apply([gone('a', 3)]);
    await keep.close();
    const kept = (await begin(inner).keeper.keep('production').restore())!;
    expect([...kept.tombstones]).toHaveLength(11);
    expect([...kept.tombstones].slice(-10)).toMatchObject([...set.tombstones()]);
    expect((await contentOf(inner, graves)).length).toBe(0);
  });
});

describe('a record beside the data', () => {
  it('is loaded as it was saved last, and says when it cannot be', async () => {
    const { keeper, store, failures } = begin();
    const record = keeper.record('environments');
    expect(await record.load()).toBeUndefined();
    await record.save(Buffer.from('one'));
    await keeper.record('others').save(Buffer.from('two'));
    expect(Buffer.from((await record.load())!).toString()).toBe('one');
    store.failure = 'the disk is full';
    await expect(record.save(Buffer.from('three'))).rejects.toMatchObject({ code: 'HG_STORE' });
    expect(failures).toEqual(['HG_STORE the disk is full']);
    store.failure = undefined;
    expect(Buffer.from((await begin(store.inner).keeper.record('environments').load())!).toString()).toBe('one');
  });
});
