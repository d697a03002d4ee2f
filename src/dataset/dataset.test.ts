import { describe, expect, it, vi } from 'vitest';
import {
  flag,
  gone,
  groupsOf,
  KINDS,
  makeSet,
  mapPlan,
  mapShape,
  positionOf,
  put,
  textOf,
} from '../../test/support/dataset-kit.ts';
import { type Change, DataSet, type DataSetEvent, type DataSetOptions, type Item, payloadOf, planOf } from './index.ts';

// many runs each, and a machine may be busy with other things
vi.setConfig({ testTimeout: 60_000 });

const many = (count: number, version = 1): Item[] =>
  Array.from({ length: count }, (_, at) => flag(`k${100_000 + at}`, version, 'x'.repeat(50)));

describe('a new data set', () => {
  it('is empty and not ready, and says so to everyone', async () => {
    const set = makeSet();
    expect([set.ready, set.snapshot().count, set.snapshot().clock, set.snapshot().offset]).toEqual([false, 0, 0, 0]);
    expect([set.name, set.kinds, set.snapshot().kinds]).toEqual(['test', KINDS, KINDS]);
    expect(set.snapshot().digest).toBe('A'.repeat(43));
    expect(set.since(positionOf(set.snapshot()))).toEqual({ kind: 'full' });
    await expect(set.apply([put(flag('k', 1))])).rejects.toMatchObject({ code: 'HG_SOURCE' });
  });

  it('becomes ready with the first data, which are no batch', async () => {
    const set = makeSet();
    const events: DataSetEvent[] = [];
    set.subscribe((event) => events.push(event));
    const empty = set.snapshot();
    expect(await set.replace([flag('k', 3)])).toEqual({ result: 'loaded', changed: 1, batch: undefined });
    expect([set.ready, set.log.first, set.log.next, set.snapshot().offset, set.snapshot().clock]).toEqual([
      true,
      1,
      1,
      1,
      3,
    ]);
    expect(events).toEqual([{ type: 'reset' }]);
    // the empty set before was nobody's basis
    expect(set.since(positionOf(empty))).toEqual({ kind: 'full' });
    expect(set.since(positionOf(set.snapshot()))).toEqual({ kind: 'current' });
  });

  it('becomes ready with no items too', async () => {
    const set = makeSet();
    expect((await set.replace([])).result).toBe('loaded');
    expect(set.ready).toBe(true);
    expect((await set.replace([])).result).toBe('unchanged');
  });

  it('goes on from an earlier life', async () => {
    const first = makeSet();
    await first.replace([flag('k', 3), flag('l', 1)]);
    await first.apply([gone('l', 2)]);
    const { offset, clock, digest } = first.snapshot();
    const second = makeSet({ firstOffset: offset, tombstones: first.tombstones() });
    await second.replace(first.snapshot().items('flags'));
    expect(second.snapshot()).toMatchObject({ offset, clock, digest });
    const third = makeSet({ firstOffset: offset, firstClock: 50 });
    await third.replace(first.snapshot().items('flags'));
    expect(third.snapshot()).toMatchObject({ offset, clock: 50, digest });
    await third.apply([put(flag('k', 4))]);
    expect(third.snapshot().clock).toBe(51);
    expect((await second.apply([put(flag('l', 2))])).result).toBe('reset');
  });

  const bad: [string, Partial<Record<keyof DataSetOptions, unknown>>][] = [
    ['no name', { name: '' }],
    ['a name that is none', { name: 1 }],
    ['no kinds', { kinds: [] }],
    ['kinds that are no list', { kinds: 'flags' }],
    ['a kind twice', { kinds: ['a', 'a'] }],
    ['a kind with a NUL', { kinds: ['a\0'] }],
    ['an empty kind', { kinds: [''] }],
    ['a kind too long', { kinds: ['k'.repeat(65)] }],
    ['a kind that is no text', { kinds: [1] }],
    ['no batches', { logMaxBatches: 0 }],
    ['half a batch', { logMaxBatches: 1.5 }],
    ['no bytes', { logMaxBytes: 0 }],
    ['bytes without bound', { logMaxBytes: Number.POSITIVE_INFINITY }],
    ['no tombstones', { tombstonesMax: 0 }],
    ['an offset below the first', { firstOffset: 0 }],
    ['a negative clock', { firstClock: -1 }],
  ];
  it.each(bad)('refuses %s', (_, options) => {
    const make = (): DataSet => new DataSet({ name: 'test', kinds: KINDS, ...options } as DataSetOptions);
    expect(make).toThrow(expect.objectContaining({ code: 'HG_OPTION' }));
    expect(make).toThrow(/^Cannot make a data set: .*, got /);
  });

  it('takes the least there is', () => {
    expect(
      makeSet({ logMaxBatches: 1, logMaxBytes: 1, tombstonesMax: 1, firstOffset: 1, kinds: ['k'.repeat(64)] }).ready,
    ).toBe(false);
  });
});

describe('a write', () => {
  const refused: [string, unknown][] = [
    ['another kind', { ...flag('k', 1), kind: 'other' }],
    ['a kind that is no text', { ...flag('k', 1), kind: 1 }],
    ['a key that is no text', { ...flag('k', 1), key: 1 }],
    ['a negative version', flag('k', -1)],
    ['half a version', flag('k', 0.5)],
    ['a version that has no successor', flag('k', Number.MAX_SAFE_INTEGER)],
    ['a version that is no number', { ...flag('k', 1), version: '1' }],
    ['a text that is none', { ...flag('k', 1), text: undefined }],
    ['a line feed in the text', { ...flag('k', 1), text: '{\n}' }],
    ['a carriage return in the text', { ...flag('k', 1), text: '{\r}' }],
  ];
  it.each(refused)('refuses %s, and changes nothing', async (_, item) => {
    const set = makeSet();
    await set.replace([flag('a', 1)]);
    const before = set.snapshot();
    const bad = item as Item;
    await expect(set.replace([flag('b', 1), bad])).rejects.toMatchObject({ code: 'HG_SOURCE' });
    await expect(set.apply([put(flag('b', 1)), put(bad)])).rejects.toMatchObject({ code: 'HG_SOURCE' });
    expect(set.snapshot()).toBe(before);
  });

  it('takes the highest version that has a successor', async () => {
    const set = makeSet();
    await set.replace([flag('k', Number.MAX_SAFE_INTEGER - 1)]);
    expect((await set.replace([])).batch?.changes).toMatchObject([gone('k', Number.MAX_SAFE_INTEGER)]);
  });

  it('refuses a change whose item is another one', async () => {
    const set = makeSet();
    await set.replace([]);
    const item = flag('k', 2);
    for (const wrong of [
      { ...put(item), key: 'l' },
      { ...put(item), kind: 'segments' },
      { ...put(item), version: 3 },
    ]) {
      await expect(set.apply([wrong])).rejects.toThrow('its item must be the same one, got flags k version 2');
    }
  });

  it('keeps a copy, so what the caller does with its objects afterwards does not matter', async () => {
    const set = makeSet();
    const item = { ...flag('k', 1) };
    const changes = [put({ ...flag('l', 1) })];
    await set.replace([item]);
    item.text = 'spoilt';
    const applied = set.apply(changes);
    changes.length = 0;
    await applied;
    expect([set.snapshot().get('flags', 'k'), set.snapshot().get('flags', 'l')]).toEqual([flag('k', 1), flag('l', 1)]);
  });

  it('takes items in any order, of a key that comes twice the last', async () => {
    const set = makeSet();
    await set.replace([flag('b', 9), flag('c', 1), flag('a', 1), flag('b', 2), { ...flag('b', 4), kind: 'segments' }]);
    expect([...set.snapshot().items('flags')]).toEqual([flag('a', 1), flag('b', 2), flag('c', 1)]);
    expect([
      set.snapshot().countOf('flags'),
      set.snapshot().countOf('segments'),
      set.snapshot().countOf('other'),
    ]).toEqual([3, 1, 0]);
    expect(set.snapshot().clock).toBe(8);
  });

  it('takes items as they come from afar', async () => {
    const set = makeSet();
    await set.replace(
      (async function* () {
        yield flag('a', 1);
        await Promise.resolve();
        yield flag('b', 1);
      })(),
    );
    expect(set.snapshot().count).toBe(2);
  });

  it('that fails on the way leaves everything as it was, and the next one its turn', async () => {
    const set = makeSet();
    await set.replace([flag('a', 1)]);
    const before = set.snapshot();
    const broken = async function* (): AsyncGenerator<Item> {
      yield flag('b', 1);
      throw new Error('connection lost');
    };
    const failing = set.replace(broken());
    const next = set.apply([put(flag('c', 1))]);
    await expect(failing).rejects.toThrow('connection lost');
    expect(set.snapshot()).toBe(before);
    expect((await next).result).toBe('changed');
    expect([...set.snapshot().items('flags')].map(({ key }) => key)).toEqual(['a', 'c']);
  });

  it('waits for the one before, in the order of the calls', async () => {
    const set = makeSet();
    let open = (): void => {};
    const gate = new Promise<void>((resolve) => (open = resolve));
    const slow = async function* (): AsyncGenerator<Item> {
      yield flag('a', 1);
      await gate;
    };
    const done: string[] = [];
    const writes = [
      set.replace(slow()).then(() => done.push('replace')),
      set.apply([put(flag('a', 2))]).then(() => done.push('apply')),
      set.replace([flag('a', 3)]).then(() => done.push('again')),
    ];
    await new Promise((resolve) => setImmediate(resolve));
    expect([set.ready, done]).toEqual([false, []]);
    open();
    await Promise.all(writes);
    // fails when writes are not chained: the patch would come before the data it patches
    expect(done).toEqual(['replace', 'apply', 'again']);
    expect(set.snapshot().get('flags', 'a')?.version).toBe(3);
  });

  it('is seen whole or not at all, while the loop turns', async () => {
    const set = makeSet();
    await set.replace(many(5000));
    const [old, seen] = [set.snapshot(), new Set<string>()];
    let turns = 0;
    const look = (): void => {
      turns++;
      const { digest, offset } = set.snapshot();
      seen.add(`${digest} ${offset} ${set.log.next} ${set.since(positionOf(old)).kind}`);
      next = setImmediate(look);
    };
    let next = setImmediate(look);
    const outcome = await set.replace(many(5000, 2));
    clearImmediate(next);
    look();
    clearImmediate(next);
    expect(outcome.changed).toBe(5000);
    expect(turns).toBeGreaterThan(3);
    expect([...seen]).toEqual([`${old.digest} 1 1 current`, `${set.snapshot().digest} 2 2 changes`]);
    expect([...old.items('flags')].every(({ version }) => version === 1)).toBe(true);
  });

  it('is one batch, in order, whole in the log', async () => {
    const set = makeSet();
    await set.replace([flag('a', 1), flag('b', 1)]);
    const changes: Change[] = [
      { ...gone('z', 9, 'segments') },
      put({ ...flag('s', 1), kind: 'segments' }),
      put(flag('c', 1)),
      gone('a', 2),
      put(flag('b', 1)),
    ];
    const { batch } = await set.apply(changes);
    expect(batch?.changes).toMatchObject([gone('a', 2), put(flag('c', 1)), { kind: 'segments', key: 's' }]);
    expect(batch?.changes).toHaveLength(3);
    expect(batch).toMatchObject({ offset: 1, digest: set.snapshot().digest, clock: set.snapshot().clock });
    expect([set.log.first, set.log.next, set.log.at(1)]).toEqual([1, 2, batch]);
    expect(set.snapshot().offset).toBe(2);
  });

  it('bounds the log', async () => {
    const set = makeSet({ logMaxBatches: 2 });
    await set.replace([]);
    for (let version = 1; version <= 4; version++) await set.apply([put(flag('k', version))]);
    expect([set.log.first, set.log.next]).toEqual([3, 5]);
  });

  it('bounds the clock to the safe integers', async () => {
    const set = makeSet();
    const version = Number.MAX_SAFE_INTEGER - 1;
    await set.replace([flag('a', version), flag('b', version)]);
    expect(set.snapshot().clock).toBe(Number.MAX_SAFE_INTEGER);
  });
});

describe('since', () => {
  it('knows full copies, the present, the past, and what is ahead', async () => {
    const set = makeSet();
    await set.replace([flag('k', 1)]);
    const past = positionOf(set.snapshot());
    await set.apply([put(flag('k', 2))]);
    const now = positionOf(set.snapshot());
    const unknown = { ...now, digest: 'B'.repeat(42) + 'A' };
    expect(set.since(undefined)).toEqual({ kind: 'full' });
    expect(set.since(now)).toEqual({ kind: 'current' });
    expect(set.since(past)).toMatchObject({
      kind: 'changes',
      from: 1,
      to: 2,
      keys: [put(flag('k', 2))],
      digest: now.digest,
      clock: now.clock,
    });
    expect(set.since(unknown)).toEqual({ kind: 'full' });
    expect(set.since({ ...unknown, clock: now.clock + 1 })).toEqual({ kind: 'ahead' });
    // a known digest is known whatever its clock says
    expect(set.since({ ...past, clock: 99 }).kind).toBe('changes');
  });

  it('counts from the earliest state with that digest, and shows every key touched since', async () => {
    const set = makeSet();
    await set.replace([flag('k', 1)]);
    const start = positionOf(set.snapshot());
    await set.apply([put(flag('new', 1))]);
    await set.apply([gone('new', 2)]);
    expect(set.snapshot().digest).toBe(start.digest);
    // content says it all for a client that names its latest position
    expect(set.since(start)).toEqual({ kind: 'current' });
    // a client whose position is frozen may have seen 'new': fails when `frozen` is not asked for
    expect(set.since(start, { frozen: true })).toMatchObject({
      kind: 'changes',
      from: 1,
      to: 3,
      keys: [gone('new', 2)],
    });
    await set.apply([put(flag('k', 2))]);
    expect(set.since(start)).toMatchObject({ keys: [gone('new', 2), put(flag('k', 2))] });
  });

  it('tells a frozen position that it is current only when nothing was touched since it was given out', async () => {
    const set = makeSet({ logMaxBatches: 2 });
    await set.replace([flag('k', 1)]);
    const start = positionOf(set.snapshot());
    expect(set.since(start, { frozen: true })).toEqual({ kind: 'current' });
    await set.apply([put(flag('new', 1))]);
    await set.apply([gone('new', 2)]);
    const again = positionOf(set.snapshot());
    expect(again.digest).toBe(start.digest);
    expect(set.since(again, { frozen: true })).toEqual({ kind: 'current' });
    expect(set.since(start, { frozen: true })).toMatchObject({ from: 1, keys: [gone('new', 2)] });
    await set.apply([put(flag('new', 3))]);
    await set.apply([gone('new', 4)]);
    // its state is evicted. The log holds two younger ones with that digest, and says nothing of what came before them:
    // fails when the clock is not compared
    expect(set.since(start, { frozen: true })).toEqual({ kind: 'full' });
    expect(set.since(again, { frozen: true })).toMatchObject({ from: 3, keys: [gone('new', 4)] });
    expect(set.since(start)).toEqual({ kind: 'current' });
  });

  it('knows a frozen position whose clock rose without a batch', async () => {
    const set = makeSet();
    await set.replace([flag('k', 1)]);
    const start = positionOf(set.snapshot());
    await set.apply([gone('other', 7)]);
    const later = positionOf(set.snapshot());
    expect(later).toEqual({ ...start, clock: 8 });
    expect([set.since(start, { frozen: true }), set.since(later, { frozen: true })]).toEqual([
      { kind: 'current' },
      { kind: 'current' },
    ]);
    expect(set.since({ ...later, clock: 9 }, { frozen: true })).toEqual({ kind: 'full' });
    expect(set.since({ ...later, clock: 0 }, { frozen: true })).toEqual({ kind: 'full' });
    await set.apply([put(flag('k', 2))]);
    for (const position of [start, later])
      expect(set.since(position, { frozen: true })).toMatchObject({ from: 1, to: 2 });
    expect(set.since({ ...later, clock: 9 }, { frozen: true })).toEqual({ kind: 'full' });
    expect(set.since({ ...later, clock: 10 }, { frozen: true })).toEqual({ kind: 'ahead' });
  });

  it('believes no frozen position when the clock stands at its bound', async () => {
    const set = makeSet();
    await set.replace([flag('a', Number.MAX_SAFE_INTEGER - 1), flag('b', 1)]);
    const position = positionOf(set.snapshot());
    expect(position.clock).toBe(Number.MAX_SAFE_INTEGER);
    expect(set.since(position, { frozen: true })).toEqual({ kind: 'full' });
    expect(set.since(position)).toEqual({ kind: 'current' });
  });
});

describe('sinceOffset', () => {
  it('catches up from a cursor within the log, and knows no other', async () => {
    const set = makeSet({ logMaxBatches: 2 });
    await set.replace([]);
    for (let version = 1; version <= 4; version++) await set.apply([put(flag('k', version))]);
    expect([set.log.first, set.log.next]).toEqual([3, 5]);
    expect([2, 6].map((offset) => set.sinceOffset(offset))).toEqual([undefined, undefined]);
    expect(set.sinceOffset(3)).toMatchObject({ from: 3, to: 5, keys: [put(flag('k', 4))] });
    expect(set.sinceOffset(5)).toMatchObject({ from: 5, to: 5, keys: [], bytes: 0 });
  });
});

describe('difference', () => {
  it('leads from a snapshot to now, whatever the log still knows', async () => {
    const set = makeSet({ logMaxBatches: 1 });
    await set.replace([flag('a', 1), flag('b', 1), flag('c', 1)]);
    const pin = set.pin();
    await set.apply([put(flag('a', 2)), gone('b', 7)]);
    await set.apply([put(flag('d', 1))]);
    await set.apply([
      put(flag('e', 1)),
      { ...put(flag('e', 1)), kind: 'segments', item: { ...flag('e', 1), kind: 'segments' } },
    ]);
    await set.apply([gone('e', 2)]);
    const difference = await set.difference(pin.snapshot);
    expect(difference).toMatchObject({
      kind: 'changes',
      from: 1,
      to: set.snapshot().offset,
      digest: set.snapshot().digest,
      clock: set.snapshot().clock,
    });
    expect(difference?.keys.map(({ kind, key, version }) => `${kind} ${key} ${version}`)).toEqual([
      'flags a 2',
      'flags b 7',
      'flags d 1',
      'segments e 1',
    ]);
    expect(difference?.bytes).toBeGreaterThan(0);
    expect(await set.difference(set.snapshot())).toMatchObject({ keys: [], bytes: 0 });
  });

  it('deletes with a version that rises even when the tombstone is forgotten', async () => {
    const set = makeSet({ tombstonesMax: 1 });
    await set.replace([flag('a', 5), flag('b', 1)]);
    const before = set.snapshot();
    await set.replace([]);
    expect((await set.difference(before))?.keys).toEqual([gone('a', 6), gone('b', 2)]);
  });

  it('is none when a version would not rise', async () => {
    const set = makeSet();
    await set.replace([flag('a', 5), flag('b', 1)]);
    const before = set.snapshot();
    await set.apply([put(flag('a', 4))]);
    await set.apply([put(flag('b', 2))]);
    expect(await set.difference(before)).toBeUndefined();
    await set.apply([put(flag('a', 6))]);
    expect((await set.difference(before))?.keys).toHaveLength(2);
  });
});

describe('subscribe', () => {
  it('tells each subscription once, at the moment at which readers see it', async () => {
    const set = makeSet();
    const offsets: number[] = [];
    const listener = (): void => void offsets.push(set.snapshot().offset);
    const ends = [set.subscribe(listener), set.subscribe(listener)];
    await set.replace([]);
    expect(offsets).toEqual([1, 1]);
    ends[0]!();
    ends[0]!();
    await set.apply([put(flag('k', 1))]);
    // fails when listeners are kept by their function: ending one would end both
    expect(offsets).toEqual([1, 1, 2]);
  });

  it('tells nobody who ended meanwhile, nor who came meanwhile', async () => {
    const set = makeSet();
    const told: string[] = [];
    set.subscribe(() => {
      told.push('first');
      end();
      set.subscribe(() => told.push('late'));
    });
    const end = set.subscribe(() => told.push('second'));
    await set.replace([]);
    expect(told).toEqual(['first']);
  });

  it('lets a listener that throws harm neither the write nor the others', async () => {
    const set = makeSet();
    const told = vi.fn<() => void>();
    const later = vi.spyOn(globalThis, 'queueMicrotask').mockImplementation(() => {});
    set.subscribe(() => {
      throw new Error('a fault of the listener');
    });
    set.subscribe(told);
    expect((await set.replace([])).result).toBe('loaded');
    expect(told).toHaveBeenCalledTimes(1);
    // and it does not vanish
    const thrown = later.mock.calls.at(-1)![0];
    later.mockRestore();
    expect(thrown).toThrow('a fault of the listener');
  });
});

describe('trim', () => {
  it('lets go of what nobody asked for, in the encoding in which nobody did', async () => {
    const set = makeSet();
    await set.replace([flag('a', 1)]);
    const [leaf] = set.snapshot().leavesOf('flags');
    const plain = async (): Promise<unknown> => groupsOf(payloadOf(set.snapshot(), mapPlan, 'identity'));
    await plain();
    const withPlain = leaf!.heldBytes;
    await groupsOf(payloadOf(set.snapshot(), mapPlan, 'gzip'));
    const withBoth = leaf!.heldBytes;
    set.trim(1000, 60);
    expect(leaf!.heldBytes).toBe(withBoth);
    await plain();
    set.trim(1059, 60);
    expect(leaf!.heldBytes).toBe(withBoth);
    set.trim(1060, 60);
    expect(leaf!.heldBytes).toBe(withPlain);
    set.trim(1118, 60);
    expect(leaf!.heldBytes).toBe(withPlain);
    set.trim(1119, 60);
    expect(leaf!.heldBytes).toBe(leaf!.textBytes);
    expect(JSON.parse(await textOf(set.snapshot(), mapPlan, 'gzip'))).toBeDefined();
  });

  it('waits ten minutes when it is not told', async () => {
    const set = makeSet();
    await set.replace([flag('a', 1)]);
    const [leaf] = set.snapshot().leavesOf('flags');
    await groupsOf(payloadOf(set.snapshot(), planOf({ kind: 'flags', shape: mapShape }), 'identity'));
    set.trim(0);
    set.trim(599_999);
    expect(leaf!.heldBytes).toBeGreaterThan(leaf!.textBytes);
    set.trim(600_000);
    expect(leaf!.heldBytes).toBe(leaf!.textBytes);
  });
});

describe('Snapshot', () => {
  it('finds every item, and none that is not there', async () => {
    const set = makeSet();
    const items = many(3000);
    await set.replace(items);
    const snapshot = set.snapshot();
    expect(snapshot.leavesOf('flags').length).toBeGreaterThan(3);
    expect(items.every((item) => snapshot.get('flags', item.key)?.text === item.text)).toBe(true);
    expect(['', 'k', 'k1000000', 'k103000', 'z'].map((key) => snapshot.get('flags', key))).toEqual(
      Array(5).fill(undefined),
    );
    expect([snapshot.get('segments', 'k100000'), snapshot.get('other', 'k100000')]).toEqual([undefined, undefined]);
    expect([snapshot.count, snapshot.textBytes]).toEqual([3000, items.reduce((sum, { text }) => sum + text.length, 0)]);
  });

  it('has a digest per kind, and the digest of nothing for what it does not know', async () => {
    const [both, flags] = [makeSet(), makeSet()];
    await both.replace([flag('a', 1), { ...flag('a', 1), kind: 'segments' }]);
    await flags.replace([flag('a', 1)]);
    expect(both.snapshot().digestOf('flags')).toBe(flags.snapshot().digest);
    expect(both.snapshot().digestOf('segments')).not.toBe(both.snapshot().digestOf('flags'));
    expect(both.snapshot().digestOf('other')).toBe(flags.snapshot().digestOf('segments'));
  });
});
