import { describe, expect, it } from 'vitest';
import { flag, gone, makeSet, positionOf, put, Shelf } from '../../test/support/dataset-kit.ts';
import { turns } from '../../test/support/conditions.ts';
import type { HeadgateError } from '../kernel/index.ts';
import type { DataSet, DataSetEvent, Item, KeptData, PendingWrite } from './index.ts';

/** Everything that a reader or a later write could notice. */
function stateOf(set: DataSet): unknown {
  const { digest, clock, offset } = set.snapshot();
  const { first, next } = set.log;
  const batches = Array.from({ length: next - first }, (_, at) => set.log.at(first + at));
  const since = Array.from({ length: next - first + 1 }, (_, at) => set.sinceOffset(first + at)?.keys);
  return { digest, clock, offset, first, next, batches, since, graves: [...set.tombstones()], ready: set.ready };
}

/** A set with a log, in which keys were changed twice, deleted, and deleted again. */
async function livedSet(shelf = new Shelf()): Promise<DataSet> {
  const set = makeSet({ beforeCommit: shelf.take });
  await set.replace([flag('a', 1), flag('b', 1), flag('c', 1)]);
  await set.apply([put(flag('a', 2)), gone('b', 2)]);
  await set.apply([put(flag('a', 3)), put(flag('d', 1))]);
  await set.apply([gone('b', 9)]);
  return set;
}

describe('a write that is held before anybody sees it', () => {
  it('shows nothing until it is let go, and the next one waits for it', async () => {
    let release: () => void = () => {};
    const asked: PendingWrite[] = [];
    const set = makeSet({
      beforeCommit: async (write) => {
        asked.push(write);
        if (asked.length === 1) return;
        await new Promise<void>((resolve) => (release = resolve));
      },
    });
    await set.replace([flag('a', 1)]);
    const events: DataSetEvent[] = [];
    set.subscribe((event) => events.push(event));
    const [before, snapshot] = [stateOf(set), set.snapshot()];
    const first = set.apply([put(flag('a', 2)), put(flag('b', 1))]);
    const second = set.apply([gone('b', 2)]);
    await turns(20);
    expect([stateOf(set), set.snapshot() === snapshot, events, asked.length]).toEqual([before, true, [], 2]);
    release();
    expect((await first).batch?.offset).toBe(snapshot.offset);
    expect(set.snapshot().get('flags', 'a')?.version).toBe(2);
    await turns(20);
    release();
    expect((await second).result).toBe('changed');
    expect(set.snapshot().get('flags', 'b')).toBeUndefined();
  });

  it.each<[string, (set: DataSet) => Promise<unknown>]>([
    ['a batch', (set) => set.apply([put(flag('a', 4)), gone('d', 2), put(flag('b', 10))])],
    ['a whole data set', (set) => set.replace([flag('z', 1)])],
    ['a version that falls', (set) => set.apply([put(flag('a', 1))])],
    ['a deletion of what is not there', (set) => set.apply([gone('b', 12), gone('never', 7)])],
  ])('changes nothing when it is refused: %s', async (_, write) => {
    const refusals: Error[] = [];
    const set = makeSet({
      beforeCommit: () => (refusals.length === 0 ? Promise.resolve() : Promise.reject(refusals[0]!)),
    });
    await set.replace([flag('a', 1), flag('b', 1), flag('c', 1)]);
    await set.apply([put(flag('a', 2)), gone('b', 2)]);
    await set.apply([put(flag('a', 3)), put(flag('d', 1))]);
    const other = await livedSet();
    const before = stateOf(set);
    refusals.push(new Error('no'));
    await expect(write(set)).rejects.toThrow('no');
    expect(stateOf(set)).toEqual(before);
    // and leaves no mark that the next one would stumble over
    refusals.pop();
    await set.apply([gone('b', 9)]);
    await set.apply([put(flag('a', 5)), put(flag('b', 10)), gone('c', 2)]);
    await other.apply([put(flag('a', 5)), put(flag('b', 10)), gone('c', 2)]);
    expect(JSON.stringify(stateOf(set))).toEqual(JSON.stringify(stateOf(other)));
  });

  it('refuses the first data as well', async () => {
    let isRefused = true;
    const set = makeSet({ beforeCommit: () => (isRefused ? Promise.reject(new Error('no')) : Promise.resolve()) });
    const before = stateOf(set);
    await expect(set.replace([flag('a', 1)])).rejects.toThrow('no');
    expect(stateOf(set)).toEqual(before);
    isRefused = false;
    expect((await set.replace([flag('a', 1)])).result).toBe('loaded');
  });

  it('says what it is, in the versions that clients see', async () => {
    const shelf = new Shelf();
    const set = makeSet({ beforeCommit: shelf.take, logMaxBatches: 2 });
    const at = (): object => {
      const { offset, digest, clock } = set.snapshot();
      return { offset, digest, clock };
    };
    const places = [at()];
    const write = async (run: Promise<unknown>): Promise<void> => {
      await run;
      places.push(at());
    };
    await write(set.replace([flag('a', 1)]));
    await write(set.replace([{ ...flag('a', 1, 'x') }], 'effective'));
    await write(set.apply([gone('none', 4)]));
    await write(set.apply([put(flag('b', 1))]));
    await write(set.apply([put(flag('c', 1))]));
    await write(set.apply([put(flag('c', 1, 'other'))]));
    await set.apply([put(flag('b', 1))]);
    expect(shelf.writes).toMatchObject([
      { result: 'loaded', logFirst: 1 },
      { result: 'changed', logFirst: 1, changes: [{ key: 'a', version: 2, item: { version: 2 } }] },
      { result: 'clock', logFirst: 1, changes: [], graves: [{ key: 'none', version: 4 }] },
      { result: 'changed', logFirst: 1 },
      { result: 'changed', logFirst: 2 },
      { result: 'reset', logFirst: 5 },
    ]);
    expect(shelf.writes.map(({ before }) => before)).toEqual(places.slice(0, -1));
    expect(shelf.writes.map(({ offset, digest, clock }) => ({ offset, digest, clock }))).toEqual(places.slice(1));
  });
});

describe('what was kept', () => {
  it('is there again, with everything that was given out', async () => {
    const shelf = new Shelf();
    const set = await livedSet(shelf);
    const again = makeSet();
    const events: DataSetEvent[] = [];
    again.subscribe((event) => events.push(event));
    await again.restore(shelf.kept());
    expect(events).toEqual([{ type: 'reset' }]);
    expect(again.ready).toBe(true);
    for (const { digest, clock } of shelf.writes) {
      const position = { digest, clock, view: 'test' };
      for (const frozen of [false, true]) {
        expect(again.since(position, { frozen }).kind).toBe(set.since(position, { frozen }).kind);
        expect(again.since(position, { frozen }).kind).not.toBe('full');
      }
    }
    expect(['a', 'b', 'd', 'none'].map((key) => again.versionOf('flags', key))).toEqual([3, 9, 1, undefined]);
    // a deletion that was remembered is one still
    expect((await again.apply([put(flag('b', 5))])).result).toBe('reset');
  });

  it('is followed live from the restart on, and never from before', async () => {
    const shelf = new Shelf();
    const set = await livedSet(shelf);
    const again = makeSet();
    await again.restore(shelf.kept());
    expect([again.log.first, again.log.next]).toEqual([set.log.next, set.log.next]);
    const before = Array.from({ length: set.log.next }, (_, at) => again.log.at(at));
    expect(before.every((batch) => batch === undefined)).toBe(true);
    await again.apply([put(flag('a', 4))]);
    expect(again.log.at(set.log.next)?.changes).toMatchObject([put(flag('a', 4))]);
    expect(again.log.first).toBe(set.log.next);
    // who comes back from before is sent the latest of each key, and each once
    const since = again.sinceOffset(set.log.first);
    expect(since?.keys.map(({ key, version }) => `${key} ${version}`)).toEqual(['b 2', 'd 1', 'a 4']);
    expect(again.sinceOffset(set.log.first - 1)).toBeUndefined();
  });

  it('keeps the versions that were raised: the same file is no change, an edited one rises', async () => {
    const shelf = new Shelf();
    const set = makeSet({ beforeCommit: shelf.take });
    await set.replace([flag('a', 1)], 'effective');
    await set.replace([flag('a', 1, 'x')], 'effective');
    await set.replace([flag('a', 1, 'y')], 'effective');
    const again = makeSet();
    await again.restore(shelf.kept());
    expect((await again.replace([flag('a', 1, 'y')], 'effective')).result).toBe('unchanged');
    expect(again.snapshot().digest).toBe(set.snapshot().digest);
    expect((await again.replace([flag('a', 1, 'z')], 'effective')).batch?.changes).toMatchObject([{ version: 4 }]);
    const without = makeSet();
    await without.restore({ ...shelf.kept(), log: [] });
    expect((await without.replace([], 'effective')).batch?.changes).toMatchObject([{ version: 4, item: undefined }]);
  });

  it('begins its log at the present when no log was kept, and is cut to the bounds of now', async () => {
    const shelf = new Shelf();
    const set = await livedSet(shelf);
    const without = makeSet();
    await without.restore({ ...shelf.kept(), log: [] });
    expect(without.since(positionOf(set.snapshot()))).toEqual({ kind: 'current' });
    expect(without.sinceOffset(set.log.next)?.keys).toEqual([]);
    expect(without.sinceOffset(set.log.next - 1)).toBeUndefined();
    const short = makeSet({ logMaxBatches: 1, tombstonesMax: 1 });
    await short.restore({
      ...shelf.kept(),
      tombstones: [...set.tombstones(), { kind: 'flags', key: 'x', version: 3 }],
    });
    expect(short.sinceOffset(set.log.next - 1)?.keys).toHaveLength(2);
    expect(short.sinceOffset(set.log.next - 2)).toBeUndefined();
    expect([...short.tombstones()]).toEqual([{ kind: 'flags', key: 'x', version: 3 }]);
  });

  it('is taken in slices', async () => {
    const items = Array.from({ length: 20_000 }, (_, at) => flag(`key-${at}`, 1));
    const shelf = new Shelf();
    await makeSet({ beforeCommit: shelf.take }).replace(items);
    const again = makeSet();
    let seen = 0;
    const restoring = again.restore(shelf.kept());
    const watching = (async () => {
      for (; !again.ready; seen++) await turns();
    })();
    await restoring;
    await watching;
    expect(seen).toBeGreaterThan(5);
    expect(again.snapshot().count).toBe(20_000);
  });
});

describe('what was kept and cannot be right', () => {
  const broken = (kept: KeptData): [string, KeptData][] => {
    const [base, one, two] = kept.log;
    const items = [...(kept.items as Item[])];
    const keys = two!.keys.map((key) => ({ ...key, version: key.version + 1 }));
    return [
      ['an item that is missing', { ...kept, items: items.slice(1) }],
      ['an item too many', { ...kept, items: [...items, flag('more', 1)] }],
      ['an item of another kind', { ...kept, items: [{ ...items[0]!, kind: 'others' }, ...items.slice(1)] }],
      ['another digest', { ...kept, digest: base!.digest }],
      ['no offset', { ...kept, offset: Number.NaN }],
      ['a clock below none', { ...kept, clock: -1 }],
      ['a log with a gap', { ...kept, log: [base!, two!] }],
      ['a log that ends early', { ...kept, log: [base!, one!] }],
      ['a log out of order', { ...kept, log: [base!, two!, one!] }],
      ['a log that leads elsewhere', { ...kept, log: [base!, one!, { ...two!, digest: one!.digest }] }],
      ['a log beyond the clock', { ...kept, log: [base!, one!, { ...two!, clock: kept.clock + 1 }] }],
      ['a clock that falls', { ...kept, log: [base!, { ...one!, clock: 0 }, two!] }],
      ['a key at another version', { ...kept, log: [base!, one!, { ...two!, keys }] }],
      ['a key that is not gone', { ...kept, log: [base!, one!, { ...two!, keys: [{ ...keys[0]!, deleted: true }] }] }],
      ['a tombstone without a version', { ...kept, tombstones: [{ kind: 'flags', key: 'b', version: -1 }] }],
    ];
  };

  it('is refused whole, and the data set begins anew', async () => {
    const shelf = new Shelf();
    await livedSet(shelf);
    for (const [what, kept] of broken(shelf.kept())) {
      const set = makeSet();
      const before = stateOf(set);
      const code = await set.restore(kept).then(
        () => 'taken',
        (error: HeadgateError) => error.code,
      );
      expect([what, code, stateOf(set)]).toEqual([what, 'HG_STORE', before]);
      expect([what, (await set.replace([flag('a', 1)])).result]).toEqual([what, 'loaded']);
    }
    // what they were made of is right
    await makeSet().restore(shelf.kept());
  });

  it('is refused where there are data', async () => {
    const shelf = new Shelf();
    const set = await livedSet(shelf);
    await expect(set.restore(shelf.kept())).rejects.toMatchObject({ code: 'HG_STORE' });
  });

  it('is refused when it cannot be read to its end', async () => {
    const set = makeSet();
    async function* items(): AsyncGenerator<Item> {
      yield flag('a', 1);
      throw new Error('the disk is gone');
    }
    const kept = { items: items(), tombstones: [], offset: 1, digest: '', clock: 0, log: [] };
    await expect(set.restore(kept)).rejects.toMatchObject({
      code: 'HG_STORE',
      message: expect.stringContaining('the disk is gone') as string,
    });
    expect(set.ready).toBe(false);
  });
});
