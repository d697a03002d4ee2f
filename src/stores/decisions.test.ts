import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { contentOf } from '../../test/support/store-contract.ts';
import { turns, until } from '../../test/support/conditions.ts';
import { type Commit, type Decision, Ledger } from '../dataset/decisions/index.ts';
import { FakeClock, type HeadgateError, HeadgateError as Failure } from '../kernel/index.ts';
import { DecisionKeeper, type KeeperOptions } from './decisions.ts';
import { openMemoryStore } from './memory.ts';
import type { Store, Write } from './store.ts';

const NOW_MS = 1_700_000_000_000;
const HOUR_MS = 3_600_000;

function decision(id: number, untilMs: number = NOW_MS + HOUR_MS, value: string = `192.0.2.${id}`): Decision {
  return {
    id,
    uuid: undefined,
    origin: 'cscli',
    scenario: 'manual',
    scope: 'Ip',
    type: 'ban',
    value,
    untilMs,
    simulated: false,
  };
}

async function pull(
  ledger: Ledger,
  decisions: readonly Decision[],
  nowMs: number = NOW_MS,
  source: number = 0,
): Promise<void> {
  const full = ledger.begin(source, { toleranceMs: 0 });
  for (const one of decisions) full.add(one);
  await full.commit(nowMs);
}

/** Every row of a ledger, with what decides how it is told. */
function rowsOf({ rows }: Ledger): unknown[] {
  return Array.from(rows.order(), (row) => ({
    text: rows.text(row),
    untilMs: rows.untilMs[row],
    toldMs: rows.toldMs[row],
    added: rows.added[row],
    touched: rows.touched[row],
    removed: rows.removed[row],
  }));
}

/** A store whose writes wait, or fail, as the test says. */
class HeldStore implements Store {
  readonly kind = 'memory';
  readonly inner: Store = openMemoryStore();
  /** Every write that was done, whole. */
  readonly done: (readonly Write[])[] = [];
  failure: string | undefined;
  /** Whether it lets the event loop turn after each of the writes that it reads, as a store does with many. */
  slow = false;
  attempts = 0;
  #gate: Promise<void> = Promise.resolve();

  entries: Store['entries'] = (table) => this.inner.entries(table);
  get: Store['get'] = (table, key) => this.inner.get(table, key);
  close: Store['close'] = () => this.inner.close();

  /** The next writes are read at once, and done only when the answer is called. */
  hold(): () => void {
    let open: () => void = () => {};
    this.#gate = new Promise((resolve) => {
      open = resolve;
    });
    return open;
  }

  async write(writes: Iterable<Write>): Promise<void> {
    this.attempts++;
    const all: Write[] = [];
    for (const write of writes) {
      all.push(write);
      if (this.slow) await turns(7);
    }
    await this.#gate;
    if (this.failure !== undefined) throw new Failure('HG_STORE', this.failure);
    await this.inner.write(all);
    this.done.push(all);
  }
}

class Kit {
  readonly clock = new FakeClock();
  readonly store: HeldStore;
  readonly failures: HeadgateError[] = [];
  recoveries = 0;

  constructor(store: HeldStore = new HeldStore()) {
    this.store = store;
  }

  get options(): KeeperOptions {
    return {
      clock: this.clock,
      wallNow: () => NOW_MS + this.clock.now(),
      onFailure: (error) => this.failures.push(error),
      onRecovery: () => {
        this.recoveries++;
      },
    };
  }

  keep(ledger: Ledger): Promise<DecisionKeeper> {
    return DecisionKeeper.open(this.store, ledger, this.options);
  }

  /** Lets time pass, and what falls due be done. */
  async pass(ms: number): Promise<void> {
    this.clock.advance(ms);
    await turns(20);
  }
}

async function stateOf(store: Store): Promise<{ offset?: number; reach?: number; savedAtMs?: number }> {
  const bytes = await store.get('decision-meta', 'state');
  return JSON.parse(Buffer.from(bytes ?? '{}').toString()) as { offset?: number; reach?: number; savedAtMs?: number };
}

function rowKeysOf(writes: readonly Write[]): Set<string> {
  return new Set(writes.filter(({ table }) => table === 'decision-rows').map(({ key }) => key));
}

describe('what is kept', () => {
  it('is nothing at first', async () => {
    const kit = new Kit();
    const keeper = await kit.keep(new Ledger());
    expect(keeper.restored).toBeUndefined();
    expect([...keeper.cursors.entries(), ...keeper.keys.entries()]).toEqual([]);
    await keeper.close();
    expect(kit.store.attempts).toBe(0);
  });

  it('comes back: rows, tombstones, what is held back, offset and reach', async () => {
    const kit = new Kit();
    const ledger = new Ledger({ random: () => 0.5 });
    const keeper = await kit.keep(ledger);
    await pull(ledger, [decision(1), decision(2), decision(3, NOW_MS + 1000)]);
    await ledger.patch(0, { added: [decision(4)], removedIds: [1] }, { nowMs: NOW_MS, toleranceMs: 0 });
    // 2 is renewed and held back, 3 ends
    await ledger.patch(
      0,
      { added: [decision(2, NOW_MS + 2 * HOUR_MS)], removedIds: [] },
      { nowMs: NOW_MS, toleranceMs: 0 },
    );
    await ledger.tick(NOW_MS + 2000);
    await keeper.close();
    const again = new Ledger({ random: () => 0.5 });
    const other = await kit.keep(again);
    expect(other.restored).toEqual({ rows: 4, offset: ledger.offset, savedAtMs: NOW_MS, strangers: [] });
    expect([again.offset, again.reach, again.count, again.tombstones]).toEqual([ledger.offset, ledger.reach, 2, 2]);
    expect(rowsOf(again)).toEqual(rowsOf(ledger));
    expect(again.ready).toBe(true);
    await other.close();
  });

  it('is forgotten when the ledger forgets it', async () => {
    const kit = new Kit();
    const ledger = new Ledger({ keepExpiredMs: HOUR_MS });
    const keeper = await kit.keep(ledger);
    await pull(ledger, [decision(1), decision(2)]);
    await ledger.tick(NOW_MS + HOUR_MS);
    await keeper.flush();
    expect(await contentOf(kit.store, 'decision-rows')).toHaveLength(2);
    await ledger.tick(NOW_MS + 3 * HOUR_MS);
    await keeper.close();
    expect(await contentOf(kit.store, 'decision-rows')).toEqual([]);
    expect(await stateOf(kit.store)).toMatchObject({ offset: ledger.offset, reach: ledger.reach });
    const again = new Ledger();
    const other = await kit.keep(again);
    expect([again.offset, again.reach, again.count]).toEqual([ledger.offset, ledger.reach, 0]);
    expect(again.reach).toBeGreaterThan(0);
    await other.close();
  });

  // Fails when `ordered` answers the key as it is: the file is then larger by half.
  it('is in the order in which rows come, which LMDB packs densely', async () => {
    const kit = new Kit();
    const ledger = new Ledger();
    const keeper = await kit.keep(ledger);
    await pull(
      ledger,
      Array.from({ length: 120 }, (_, id) => decision(id)),
    );
    await keeper.close();
    const keys = (await contentOf(kit.store, 'decision-rows')).map(([key]) => key);
    expect(new Set(keys).size).toBe(120);
    const written = [...rowKeysOf(kit.store.done[0] ?? [])];
    expect(keys).toEqual(written);
  });

  // fails when open() does not tell the ledger which numbers are strangers
  it('counts for a source only while its number has the same name', async () => {
    const store = openMemoryStore();
    const open = async (ledger: Ledger, sources: readonly string[]): Promise<DecisionKeeper> =>
      await DecisionKeeper.open(store, ledger, {
        clock: new FakeClock(),
        wallNow: () => NOW_MS,
        sources,
        onFailure() {},
      });
    const first = new Ledger({ sources: 2 });
    const keeper = await open(first, ['one', 'two']);
    await pull(first, [decision(1)]);
    await pull(first, [decision(2)], NOW_MS, 1);
    await keeper.close();
    for (const [sources, strangers, ready] of [
      [['one', 'two'], [], true],
      [['two', 'one'], [0, 1], false],
      [['one', 'three'], [1], false],
      [['one'], [1], true],
    ] as const) {
      const ledger = new Ledger({ sources: sources.length });
      const again = await open(ledger, sources);
      expect([again.restored?.strangers, ledger.ready, ledger.count]).toEqual([strangers, ready, 2]);
    }
    // fails when #namesOfRows() does not ask whether every source has told its own
    const half = new Ledger({ sources: 2 });
    const halfKeeper = await open(half, ['two', 'one']);
    await pull(half, [decision(2), decision(3)], NOW_MS, 0);
    await halfKeeper.close();
    const last = await open(new Ledger({ sources: 2 }), ['two', 'one']);
    expect(last.restored?.strangers).toEqual([0, 1]);
    await store.close();
  });

  it('is refused when a newer version wrote it', async () => {
    const kit = new Kit();
    await kit.store.inner.write([{ table: 'decision-meta', key: 'state', value: Buffer.from('{"format":2}') }]);
    await expect(kit.keep(new Ledger())).rejects.toMatchObject({
      code: 'HG_STORE',
      message: expect.stringContaining('this version of Headgate reads format 1, got 2'),
    });
  });
});

describe('a commit', () => {
  it('is written at once, whole, with the offset that its rows are at', async () => {
    const kit = new Kit();
    const ledger = new Ledger();
    const keeper = await kit.keep(ledger);
    await pull(
      ledger,
      Array.from({ length: 20 }, (_, id) => decision(id)),
    );
    await kit.pass(0);
    expect(kit.store.done).toHaveLength(1);
    const [writes = []] = kit.store.done;
    expect(rowKeysOf(writes).size).toBe(20);
    expect(writes.at(-1)).toMatchObject({ table: 'decision-meta', key: 'state' });
    expect(await stateOf(kit.store)).toEqual({ format: 1, offset: 1, reach: 0, savedAtMs: NOW_MS });
    await keeper.close();
  });

  // Fails when #takeAll is called before `exclusive`, or the rows are read after it has ended.
  it('that comes while another is written waits for the next write, and those that wait are written together', async () => {
    const kit = new Kit();
    const ledger = new Ledger();
    const keeper = await kit.keep(ledger);
    const open = kit.store.hold();
    await pull(ledger, [decision(1)]);
    await kit.pass(0);
    for (let id = 2; id <= 5; id++) {
      await ledger.patch(0, { added: [decision(id)], removedIds: [id - 1] }, { nowMs: NOW_MS, toleranceMs: 0 });
    }
    await kit.pass(0);
    expect(kit.store.attempts).toBe(1);
    open();
    await turns(20);
    await kit.pass(0);
    expect(kit.store.done.map((writes) => rowKeysOf(writes).size)).toEqual([1, 5]);
    expect(await stateOf(kit.store)).toMatchObject({ offset: 5 });
    await keeper.close();
  });

  it('does not wait for the store, nor do those who read', async () => {
    const kit = new Kit();
    const ledger = new Ledger();
    const keeper = await kit.keep(ledger);
    const open = kit.store.hold();
    await pull(ledger, [decision(1)]);
    await kit.pass(0);
    await pull(ledger, [decision(1), decision(2)]);
    await ledger.exclusive(async () => {});
    expect(ledger.count).toBe(2);
    expect(kit.store.done).toHaveLength(0);
    open();
    await keeper.close();
  });

  // Fails when `flush` does not wait for the write in progress before it writes.
  it('that comes while another is written is flushed too', async () => {
    const kit = new Kit();
    const ledger = new Ledger();
    const keeper = await kit.keep(ledger);
    const open = kit.store.hold();
    await pull(ledger, [decision(1)]);
    await kit.pass(0);
    await pull(ledger, [decision(2)]);
    const flushed = keeper.flush();
    open();
    await flushed;
    expect(keeper.storedOffset).toBe(2);
    await keeper.close();
  });

  it('is not listened to any more once the keeper was closed', async () => {
    const kit = new Kit();
    const ledger = new Ledger();
    let listeners = 0;
    const subscribe = ledger.subscribe.bind(ledger);
    ledger.subscribe = (listener) => {
      const end = subscribe(listener);
      listeners++;
      return () => {
        listeners--;
        end();
      };
    };
    const keeper = await kit.keep(ledger);
    expect(listeners).toBe(1);
    await keeper.close();
    expect(listeners).toBe(0);
  });

  it('that is stored can be waited for', async () => {
    const kit = new Kit();
    const ledger = new Ledger();
    const keeper = await kit.keep(ledger);
    expect(keeper.stored(0)).toBe(true);
    const open = kit.store.hold();
    await pull(ledger, [decision(1)]);
    const [first, never] = [keeper.stored(1), keeper.stored(2)];
    expect(first).toBeInstanceOf(Promise);
    await kit.pass(0);
    expect(keeper.storedOffset).toBe(0);
    open();
    expect(await first).toBe(true);
    expect(keeper.stored(1)).toBe(true);
    await keeper.close();
    expect(await never).toBe(false);
    expect(await keeper.stored(2)).toBe(false);
  });
});

describe('cursors and keys', () => {
  // Fails at 199 ms when BEHIND_MS_MAX is lower, at 200 ms when it is higher.
  it('are written together, 200 ms after the first of them', async () => {
    const kit = new Kit();
    const keeper = await kit.keep(new Ledger());
    keeper.cursors.set('a', Buffer.from('1'));
    await kit.pass(100);
    keeper.cursors.set('b', Buffer.from('2'));
    keeper.cursors.set('a', Buffer.from('3'));
    keeper.keys.set('k', Buffer.from('good'));
    await kit.pass(99);
    expect(kit.store.attempts).toBe(0);
    await kit.pass(1);
    expect(kit.store.done).toHaveLength(1);
    expect(await contentOf(kit.store, 'decision-cursors')).toEqual([
      ['a', '3'],
      ['b', '2'],
    ]);
    expect(await contentOf(kit.store, 'decision-keys')).toEqual([['k', 'good']]);
    keeper.cursors.delete('a');
    await kit.pass(200);
    // nothing is written twice
    expect(kit.store.done[1]?.map(({ table, key }) => [table, key])).toEqual([
      ['decision-cursors', 'a'],
      ['decision-meta', 'state'],
    ]);
    keeper.cursors.delete('never there');
    await kit.pass(200);
    expect(kit.store.attempts).toBe(2);
    expect(await contentOf(kit.store, 'decision-cursors')).toEqual([['b', '2']]);
    await keeper.close();
  });

  it('come back, and are there at once before they are written', async () => {
    const kit = new Kit();
    const keeper = await kit.keep(new Ledger());
    keeper.cursors.set('a', Buffer.from('1'));
    keeper.keys.set('k', Buffer.from('good'));
    expect([...keeper.cursors.entries()]).toEqual([['a', Buffer.from('1')]]);
    await keeper.close();
    const other = await kit.keep(new Ledger());
    expect(Array.from(other.cursors.entries(), ([key, value]) => [key, String(Buffer.from(value))])).toEqual([
      ['a', '1'],
    ]);
    expect(Array.from(other.keys.entries(), ([key, value]) => [key, String(Buffer.from(value))])).toEqual([
      ['k', 'good'],
    ]);
    await other.close();
  });

  // Fails when #attempt does not read the rows within `exclusive`, or to its end there; when cursors are written while commits
  // wait; and when #putBack leaves anything out.
  it('are never ahead of the rows that they speak of, whatever is written, held up or fails', async () => {
    const ids = fc.uniqueArray(fc.nat(9), { maxLength: 5 });
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.record({ do: fc.constant('commit' as const), added: ids, removed: ids }) },
      { weight: 4, arbitrary: fc.record({ do: fc.constant('cursor' as const), key: fc.constantFrom('a', 'b', 'c') }) },
      { weight: 3, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(0, 100, 200, 5000) }) },
      {
        weight: 2,
        arbitrary: fc.record({ do: fc.constantFrom('fail', 'work', 'hold', 'open', 'slow', 'fast') }),
      },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const run = new Run(await Run.kept());
        for (const one of steps) await run.step(one);
        expect(await run.problems()).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });
});

type Step =
  | { do: 'commit'; added: number[]; removed: number[] }
  | { do: 'cursor'; key: string }
  | { do: 'pass'; ms: number }
  | { do: string };

/** A ledger that is kept while its store holds up, fails or is slow, and what it was at each offset. */
class Run {
  readonly #kit: Kit;
  readonly #ledger: Ledger;
  readonly #keeper: DecisionKeeper;
  readonly #states = new Map<number, unknown[]>([[0, []]]);
  #open: () => void = () => {};
  #untilMs = NOW_MS + HOUR_MS;

  constructor({ kit, ledger, keeper }: { kit: Kit; ledger: Ledger; keeper: DecisionKeeper }) {
    this.#kit = kit;
    this.#ledger = ledger;
    this.#keeper = keeper;
  }

  static async kept(): Promise<{ kit: Kit; ledger: Ledger; keeper: DecisionKeeper }> {
    const kit = new Kit();
    const ledger = new Ledger({ random: () => 0 });
    return { kit, ledger, keeper: await kit.keep(ledger) };
  }

  async step(one: Step): Promise<void> {
    const { store } = this.#kit;
    if ('added' in one) {
      this.#untilMs += 1;
      const delta = { added: one.added.map((id) => decision(id, this.#untilMs)), removedIds: one.removed };
      await this.#ledger.patch(0, delta, { nowMs: NOW_MS, toleranceMs: 0 });
      this.#states.set(this.#ledger.offset, rowsOf(this.#ledger));
    }
    if ('key' in one) this.#keeper.cursors.set(one.key, Buffer.from(String(this.#ledger.offset)));
    if ('ms' in one) await this.#kit.pass(one.ms);
    if (one.do === 'fail') store.failure = 'full';
    if (one.do === 'work') store.failure = undefined;
    if (one.do === 'slow' || one.do === 'fast') store.slow = one.do === 'slow';
    if (one.do === 'hold') {
      this.#open();
      this.#open = store.hold();
    }
    if (one.do === 'open') this.#open();
  }

  /** What is wrong with what would be found if the process had died after any of the writes, or at the end. */
  async problems(): Promise<string[]> {
    const { store, options } = this.#kit;
    this.#open();
    store.failure = undefined;
    await this.#keeper.close();
    const problems: string[] = [];
    const found = openMemoryStore();
    for (const [at, writes] of store.done.entries()) {
      await found.write(writes);
      const { offset = 0 } = await stateOf(found);
      const again = new Ledger({ random: () => 0 });
      await (await DecisionKeeper.open(found, again, options)).close();
      const rows = JSON.stringify(rowsOf(again));
      if (rows !== JSON.stringify(this.#states.get(offset))) problems.push(`write ${at}: at ${offset} it has ${rows}`);
      for (const [key, cursor] of await contentOf(found, 'decision-cursors')) {
        if (Number(cursor) > offset) problems.push(`write ${at}: ${key} is at ${cursor}, the rows at ${offset}`);
      }
    }
    const { offset = 0 } = await stateOf(store);
    if (offset !== this.#ledger.offset) problems.push(`in the end it is at ${offset}, not ${this.#ledger.offset}`);
    const texts = Array.from(
      this.#keeper.cursors.entries(),
      ([key, value]) => `${key}${Buffer.from(value).toString()}`,
    );
    const kept = (await contentOf(store, 'decision-cursors')).map(([key, text]) => `${key}${text}`);
    if (String(texts.toSorted(byText)) !== String(kept)) problems.push(`in the end it has the cursors ${String(kept)}`);
    return problems;
  }
}

const byText = (a: string, b: string): number => (a < b ? -1 : 1);

describe('a store that fails', () => {
  it('is told once, tried again after 1, 2, 4 … 30 seconds, and gets everything when it works', async () => {
    const kit = new Kit();
    const ledger = new Ledger();
    const keeper = await kit.keep(ledger);
    kit.store.failure = 'the disk is full';
    await pull(ledger, [decision(1)]);
    keeper.cursors.set('a', Buffer.from('1'));
    keeper.keys.set('k', Buffer.from('good'));
    const waiting = keeper.stored(1);
    await kit.pass(0);
    expect(kit.failures.map(({ code, message }) => [code, message])).toEqual([['HG_STORE', 'the disk is full']]);
    expect(keeper.failing).toBe(true);
    expect(await waiting).toBe(false);
    expect(await keeper.stored(1)).toBe(false);
    const tried: number[] = [];
    for (let second = 1; second <= 100; second++) {
      const before = kit.store.attempts;
      // what comes meanwhile makes it neither sooner nor more often
      if (second % 10 === 0) await pull(ledger, [decision(1), decision(second)]);
      keeper.cursors.set('b', Buffer.from(String(second)));
      await kit.pass(1000);
      if (kit.store.attempts > before) tried.push(second);
      expect(kit.store.attempts - before).toBeLessThan(2);
    }
    expect(tried).toEqual([1, 3, 7, 15, 31, 61, 91]);
    expect(kit.failures).toHaveLength(1);
    expect(kit.recoveries).toBe(0);
    kit.store.failure = undefined;
    await kit.pass(30_000);
    expect([kit.failures.length, kit.recoveries, keeper.failing]).toEqual([1, 1, false]);
    expect(kit.store.done).toHaveLength(1);
    expect(await stateOf(kit.store)).toMatchObject({ offset: ledger.offset });
    expect(await contentOf(kit.store, 'decision-cursors')).toEqual([
      ['a', '1'],
      ['b', '100'],
    ]);
    expect(await contentOf(kit.store, 'decision-keys')).toEqual([['k', 'good']]);
    expect(keeper.stored(ledger.offset)).toBe(true);
    // it is a new failure when it fails again, and is tried after a second again
    kit.store.failure = 'the disk is full again';
    await pull(ledger, []);
    await kit.pass(0);
    expect(kit.failures.map(({ message }) => message)).toEqual(['the disk is full', 'the disk is full again']);
    kit.store.failure = undefined;
    await kit.pass(1000);
    expect(kit.recoveries).toBe(2);
    await keeper.close();
  });

  it('does not keep the keeper from being closed', async () => {
    const kit = new Kit();
    const ledger = new Ledger();
    const keeper = await kit.keep(ledger);
    kit.store.failure = 'gone';
    await pull(ledger, [decision(1)]);
    await keeper.close();
    await keeper.close();
    expect(kit.failures).toHaveLength(1);
    expect(kit.clock.armed).toBe(0);
    await pull(ledger, []);
    await kit.pass(100_000);
    expect(kit.store.attempts).toBe(1);
  });

  it('is given up after a day of commits, which are not held for ever', async () => {
    const kit = new Kit();
    let listener: (commit: Commit) => void = () => {};
    let unsubscribed = 0;
    const ledger = {
      offset: 0,
      reach: 0,
      exclusive: <T>(work: () => Promise<T>) => work(),
      subscribe: (run: (commit: Commit) => void) => {
        listener = run;
        return () => {
          listener = () => {};
          unsubscribed++;
        };
      },
      ready: true,
      restore: async () => {},
    };
    const keeper = await DecisionKeeper.open(kit.store, ledger, kit.options);
    kit.store.failure = 'full';
    const commit = (): void => {
      ledger.offset++;
      listener({ offset: ledger.offset, reach: 0, added: 1, removed: 0, published: 0, records: () => [] });
    };
    commit();
    await kit.pass(0);
    for (let at = 0; at < 86_400; at++) commit();
    expect(kit.failures.map(({ message }) => message)).toEqual([
      'full',
      'Cannot keep decisions: the store has failed for 86400 commits; it is left as it is until the next start',
    ]);
    kit.store.failure = undefined;
    expect(unsubscribed).toBe(1);
    commit();
    keeper.cursors.set('a', Buffer.from('1'));
    await kit.pass(100_000);
    expect([kit.store.attempts, keeper.failing]).toEqual([1, true]);
    await keeper.close();
    expect(await stateOf(kit.store)).toEqual({});
  });
});

describe('the age of what is kept', () => {
  it('is known to a minute, also when nothing changes', async () => {
    const kit = new Kit();
    const ledger = new Ledger();
    const keeper = await kit.keep(ledger);
    await pull(ledger, [decision(1)]);
    await kit.pass(0);
    for (let minute = 1; minute <= 3; minute++) {
      await kit.pass(60_000);
      expect(await stateOf(kit.store)).toMatchObject({ offset: 1, savedAtMs: NOW_MS + minute * 60_000 });
    }
    await keeper.close();
    const other = await kit.keep(new Ledger());
    expect(other.restored).toEqual({ rows: 1, offset: 1, savedAtMs: NOW_MS + 180_000, strangers: [] });
    await other.close();
  });
});

describe('many rows', () => {
  it('are written and restored while the event loop turns', { timeout: 30_000 }, async () => {
    const kit = new Kit();
    const ledger = new Ledger();
    const keeper = await kit.keep(ledger);
    await pull(
      ledger,
      Array.from({ length: 20_000 }, (_, id) => decision(id, NOW_MS + HOUR_MS, `10.1.${id >> 8}.${id & 255}`)),
    );
    await kit.pass(0);
    await until('the rows', () => kit.store.done.length === 1);
    await keeper.close();
    const again = new Ledger();
    let turned = 0;
    const count = (): void => {
      turned++;
      immediate = setImmediate(count);
    };
    let immediate = setImmediate(count);
    const other = await kit.keep(again);
    clearImmediate(immediate);
    expect(turned).toBeGreaterThan(2);
    expect(other.restored?.rows).toBe(20_000);
    expect(rowsOf(again)).toEqual(rowsOf(ledger));
    await other.close();
  });
});
