import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FakeClock } from '../../kernel/index.ts';
import type { Caller } from './callers.ts';
import { SHARED_MS } from './cursor.ts';
import type { SmallStore } from './deps.ts';
import { type CursorName, Cursors, type CursorsOptions } from './positions.ts';

const NAME: CursorName = { id: 'aa', address: '192.0.2.1', meaning: '[all]' };
const DAY_MS = 86_400_000;

/** A connection that the test ends. */
class Connection implements Caller {
  isGone = false;
  #listeners: (() => void)[] = [];

  onGone(listener: () => void): void {
    if (this.isGone) listener();
    else this.#listeners.push(listener);
  }

  close(): void {
    this.isGone = true;
    for (const listener of this.#listeners.splice(0)) listener();
  }
}

/** A store that has written everything at once. */
class Store implements SmallStore {
  readonly values: Map<string, Uint8Array>;

  /** @param values - what another process has left. */
  constructor(values = new Map<string, Uint8Array>()) {
    this.values = values;
  }

  entries(): Iterable<readonly [string, Uint8Array]> {
    return [...this.values];
  }

  set(key: string, value: Uint8Array): void {
    this.values.set(key, value);
  }

  delete(key: string): void {
    this.values.delete(key);
  }

  texts(): string[] {
    return [...this.values].map(([key, value]) => `${key} = ${Buffer.from(value).toString()}`);
  }
}

function kit(more: Partial<CursorsOptions> = {}) {
  const clock = new FakeClock();
  const told: string[] = [];
  const wall = { ms: 1_800_000_000_000 };
  const store = new Store();
  const options: CursorsOptions = {
    clock,
    wallNow: () => wall.ms + clock.now(),
    store,
    perKeyMax: 4,
    onShared: ({ address }) => told.push(`shared ${address}`),
    onEvicted: ({ address }) => told.push(`evicted ${address}`),
    ...more,
  };
  return { clock, told, store, wall, options, cursors: new Cursors(options) };
}

describe('a cursor', () => {
  it('is not there before a reply was received', () => {
    const { cursors } = kit();
    expect(cursors.enter(NAME, new Connection())).toBeUndefined();
    expect(cursors.size).toBe(0);
    cursors.moved(NAME, undefined, 7);
    expect(cursors.enter(NAME, undefined)).toBe(7);
  });

  it.each([
    ['key', { id: 'bb' }],
    ['address', { address: '192.0.2.2' }],
    ['filter', { meaning: '[other]' }],
  ])('belongs to one %s', (_, other) => {
    const { cursors } = kit();
    cursors.moved(NAME, undefined, 7);
    expect(cursors.enter({ ...NAME, ...other }, undefined)).toBeUndefined();
  });

  it('goes on from one connection to the next, and may go back', () => {
    const { cursors, told } = kit();
    const [first, second] = [new Connection(), new Connection()];
    cursors.moved(NAME, first, 7);
    first.close();
    expect(cursors.enter(NAME, second)).toBe(7);
    cursors.moved(NAME, second, 5);
    second.close();
    expect(cursors.enter(NAME, new Connection())).toBe(5);
    expect(told).toEqual([]);
  });

  // fails when `#here.get(caller)` in enter() is left out: the first one would be answered from 9 on
  it('has a position for each of two connections, and says once that there are two', () => {
    const { cursors, told } = kit();
    const [first, second] = [new Connection(), new Connection()];
    cursors.moved(NAME, first, 7);
    cursors.moved(NAME, second, 9);
    expect(cursors.enter(NAME, first)).toBe(7);
    expect(cursors.enter(NAME, second)).toBe(9);
    cursors.moved(NAME, first, 11);
    expect(cursors.enter(NAME, second)).toBe(9);
    expect(told).toEqual(['shared 192.0.2.1']);
  });

  // fails when `oldest` leaves out what is here, or what was left
  it('answers a connection that is new from the older one', () => {
    const { cursors } = kit();
    const [first, second] = [new Connection(), new Connection()];
    cursors.moved(NAME, first, 7);
    cursors.moved(NAME, second, 9);
    expect(cursors.enter(NAME, new Connection())).toBe(7);
    first.close();
    expect(cursors.enter(NAME, new Connection())).toBe(7);
  });

  // fails when #stand() clears what was left although several were seen
  it('keeps what several have left until each of them is back', () => {
    const { cursors } = kit();
    const [first, second] = [new Connection(), new Connection()];
    cursors.moved(NAME, first, 7);
    cursors.moved(NAME, second, 9);
    first.close();
    second.close();
    const third = new Connection();
    expect(cursors.enter(NAME, third)).toBe(7);
    cursors.moved(NAME, third, 12);
    expect(cursors.enter(NAME, new Connection())).toBe(7);
  });

  // fails when #gone() does not say that there were several
  it('still knows that there are several when both have kept their connections for long', () => {
    const { cursors, clock } = kit();
    const [first, second] = [new Connection(), new Connection()];
    cursors.moved(NAME, first, 7);
    cursors.moved(NAME, second, 9);
    clock.advance(10 * SHARED_MS);
    first.close();
    second.close();
    cursors.moved(NAME, new Connection(), 12);
    expect(cursors.enter(NAME, new Connection())).toBe(7);
  });

  // fails when a turn of #leave() drops what was left since the turn before
  it('keeps what was left by one of several for a while at least', () => {
    const { cursors, clock } = kit();
    const steady = new Connection();
    cursors.moved(NAME, steady, 7);
    const pass = (offset: number): void => {
      const passing = new Connection();
      cursors.moved(NAME, passing, offset);
      passing.close();
    };
    pass(8);
    clock.advance(SHARED_MS - 1);
    cursors.moved(NAME, steady, 20);
    pass(10);
    clock.advance(1);
    pass(21);
    expect(cursors.enter(NAME, new Connection())).toBeLessThanOrEqual(10);
  });

  // fails when #leave() never turns: the oldest would stay at 7 for ever
  it('forgets in the end what nobody came back for', () => {
    const { cursors, clock } = kit();
    const steady = new Connection();
    cursors.moved(NAME, steady, 7);
    const turn = (offset: number): number | undefined => {
      clock.advance(SHARED_MS / 2);
      const passing = new Connection();
      cursors.moved(NAME, steady, offset);
      const from = cursors.enter(NAME, passing);
      cursors.moved(NAME, passing, offset);
      passing.close();
      return from;
    };
    const froms = [10, 20, 30, 40, 50, 60, 70, 80].map(turn);
    expect(froms.slice(1, 3)).toEqual([10, 10]);
    expect(froms.at(-1)).toBeGreaterThan(20);
    for (const [at, from = 0] of froms.entries()) expect(from).toBeLessThanOrEqual(10 * (at + 1));
  });

  it('is moved by a receipt that comes after the end of its connection, unless somebody else has come', () => {
    const { cursors, told } = kit();
    const first = new Connection();
    cursors.moved(NAME, first, 7);
    first.close();
    cursors.moved(NAME, first, 8);
    const second = new Connection();
    expect(cursors.enter(NAME, second)).toBe(8);
    cursors.moved(NAME, first, 9);
    expect(cursors.enter(NAME, second)).toBe(8);
    second.close();
    expect(cursors.enter(NAME, undefined)).toBe(8);
    expect(told).toEqual([]);
  });

  it('is one position where connections say nothing', () => {
    const { cursors } = kit();
    cursors.moved(NAME, undefined, 9);
    cursors.moved(NAME, undefined, 7);
    expect(cursors.enter(NAME, undefined)).toBe(7);
  });
});

describe('cursors', () => {
  // fails when #evictOldest takes the first one instead
  it('of one key are bounded: the one not used for longest goes, and is told', () => {
    const { cursors, clock, told, store } = kit();
    const at = (last: number): CursorName => ({ ...NAME, address: `192.0.2.${last}` });
    for (const last of [1, 2, 3, 4]) {
      cursors.moved(at(last), undefined, last);
      clock.advance(1000);
    }
    cursors.enter(at(1), undefined);
    cursors.moved(at(5), undefined, 5);
    cursors.moved({ ...at(6), id: 'bb' }, undefined, 6);
    cursors.flush();
    expect(told).toEqual(['evicted 192.0.2.2']);
    expect(cursors.size).toBe(5);
    expect(store.texts().filter((text) => text.includes('192.0.2.2 '))).toEqual([]);
    expect([1, 2, 3, 4, 5].map((last) => cursors.enter(at(last), undefined))).toEqual([1, undefined, 3, 4, 5]);
  });

  it('of a key that may have one only are replaced', () => {
    const { cursors } = kit({ perKeyMax: 1 });
    cursors.moved(NAME, undefined, 1);
    cursors.moved({ ...NAME, address: '192.0.2.9' }, undefined, 2);
    expect(cursors.size).toBe(1);
    expect(cursors.enter({ ...NAME, address: '192.0.2.9' }, undefined)).toBe(2);
  });

  it('are saved together, readable, and found again after a restart', () => {
    const { cursors, clock, store, options } = kit();
    const withSpaces = { ...NAME, meaning: '["a b",null]' };
    cursors.moved(NAME, undefined, 7);
    cursors.moved(withSpaces, undefined, 8);
    expect(store.texts()).toEqual([]);
    clock.advance(1000);
    expect(store.texts()[0]).toBe('aa 192.0.2.1 [all] = {"offset":7,"usedMs":1800000000000,"shared":false}');
    const again = new Cursors(options);
    expect([again.enter(NAME, undefined), again.enter(withSpaces, undefined)]).toEqual([7, 8]);
  });

  it('are not saved ahead of what the slowest of several has', () => {
    const { cursors, store } = kit();
    cursors.moved(NAME, new Connection(), 7);
    cursors.moved(NAME, new Connection(), 9);
    cursors.flush();
    expect(store.texts()).toEqual([expect.stringContaining('{"offset":7,')]);
    expect(store.texts()).toEqual([expect.stringContaining('"shared":true')]);
  });

  it('that do not move are saved again now and then, for the sake of their age', () => {
    const { cursors, clock, store } = kit();
    cursors.moved(NAME, undefined, 7);
    cursors.flush();
    clock.advance(3_600_000);
    cursors.enter(NAME, undefined);
    cursors.flush();
    expect(store.texts()).toEqual([expect.stringContaining('"usedMs":1800000000000')]);
    clock.advance(6 * 3_600_000);
    cursors.enter(NAME, undefined);
    clock.advance(1000);
    expect(store.texts()).toEqual([expect.stringContaining('"usedMs":1800025200000')]);
  });

  // fails when #sweep, or the look at `usedMs` in #restore, is left out
  it('that were not used for a week go, from memory and from the store', () => {
    const { cursors, clock, store, wall, options } = kit();
    cursors.moved(NAME, undefined, 7);
    cursors.flush();
    wall.ms += 8 * DAY_MS;
    const again = new Cursors(options);
    expect([again.size, store.texts()]).toEqual([0, []]);
    expect(cursors.size).toBe(1);
    clock.advance(3_600_000);
    expect(cursors.size).toBe(0);
  });

  it('that cannot be read are dropped', () => {
    const { options, store } = kit();
    store.set('one', Buffer.from('{"offset":1,"usedMs":1}'));
    store.set('aa 192.0.2.1 x', Buffer.from('{"offset":1.5,"usedMs":1800000000000}'));
    store.set('aa 192.0.2.1 y', Buffer.from('nothing'));
    expect([new Cursors(options).size, store.texts()]).toEqual([0, []]);
  });
});

/** What happens to bouncers, one after the other. */
type Act =
  | { readonly do: 'commit' }
  | { readonly do: 'pass'; readonly ms: number }
  | { readonly do: 'restart'; readonly saved: boolean }
  | { readonly do: 'close'; readonly bouncer: number }
  | {
      readonly do: 'poll';
      readonly bouncer: number;
      readonly startup: boolean;
      readonly end: End;
      readonly reconnect: boolean;
    };

/** `doubt`: received, and we could not tell. `late`: we could, after the end of its connection. `cut`: not received. */
type End = 'received' | 'doubt' | 'late' | 'cut';

/** A bouncer as itself: what it has, and by which connection it asks. */
interface Bouncer {
  /** It has everything up to here. */
  at: number | undefined;
  connection: Connection;
}

/** Plays acts on cursors, and finds out whether a bouncer was answered from beyond what it has. */
class World {
  readonly misses: string[] = [];
  readonly bouncers: Bouncer[];
  readonly #kit = kit();
  readonly #named: boolean;
  #store: Store;
  #cursors: Cursors;
  #offset = 1;

  constructor(count: number, named: boolean) {
    this.#store = this.#kit.store;
    this.#cursors = this.#kit.cursors;
    this.#named = named;
    this.bouncers = Array.from({ length: count }, () => ({ at: undefined, connection: new Connection() }));
  }

  play(act: Act): void {
    if (act.do === 'commit') this.#offset++;
    else if (act.do === 'pass') this.#kit.clock.advance(act.ms);
    else if (act.do === 'restart') this.#restart(act.saved);
    else if (act.do === 'close') this.#reconnect(this.#bouncer(act.bouncer));
    else this.#poll(this.#bouncer(act.bouncer), act);
  }

  #bouncer(number: number): Bouncer {
    const bouncer = this.bouncers[number % this.bouncers.length];
    if (bouncer === undefined) throw new Error('Broken test: no bouncer');
    return bouncer;
  }

  #poll(bouncer: Bouncer, { startup, end, reconnect }: Extract<Act, { do: 'poll' }>): void {
    if (reconnect) this.#reconnect(bouncer);
    const { connection } = bouncer;
    const caller = this.#named ? connection : undefined;
    const from = startup ? undefined : this.#cursors.enter(NAME, caller);
    if (from !== undefined && !(from <= (bouncer.at ?? -1)))
      this.misses.push(`answered from ${from}, has ${bouncer.at}`);
    const offset = this.#offset;
    if (end !== 'cut') bouncer.at = offset;
    // a bouncer whose first pull failed asks for everything again
    else if (startup) return;
    if (end === 'late') this.#reconnect(bouncer);
    if (end === 'received' || end === 'late') this.#cursors.moved(NAME, caller, offset);
    else if (end === 'cut') this.#reconnect(bouncer);
  }

  #reconnect(bouncer: Bouncer): void {
    bouncer.connection.close();
    bouncer.connection = new Connection();
  }

  #restart(saved: boolean): void {
    if (saved) this.#cursors.close();
    // killed: what was not saved is lost, and what the dead would have written is not written
    this.#store = new Store(new Map(this.#store.values));
    this.#cursors = new Cursors({ ...this.#kit.options, store: this.#store });
    for (const bouncer of this.bouncers) bouncer.connection = new Connection();
  }
}

const commit: fc.Arbitrary<Act> = fc.constant({ do: 'commit' });
const restart: fc.Arbitrary<Act> = fc.record({ do: fc.constant('restart' as const), saved: fc.boolean() });
const close: fc.Arbitrary<Act> = fc.record({ do: fc.constant('close' as const), bouncer: fc.nat(3) });
const pass = (msMax: number): fc.Arbitrary<Act> =>
  fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: msMax }) });
const poll = (startup: fc.Arbitrary<boolean>): fc.Arbitrary<Act> =>
  fc.record({
    do: fc.constant('poll' as const),
    bouncer: fc.nat(3),
    startup,
    end: fc.constantFrom<End>('received', 'received', 'doubt', 'late', 'cut'),
    reconnect: fc.boolean(),
  });

describe('no bouncer misses anything', () => {
  // fails when enter() answers from `moved` replies that were cut, or when #save is ahead of `oldest`
  it('when it is alone, whatever its connections, replies and our process come to', () => {
    const acts = fc.array(
      fc.oneof(commit, restart, close, pass(2 * SHARED_MS), poll(fc.constant(false)), poll(fc.boolean())),
      { maxLength: 60 },
    );
    fc.assert(
      fc.property(acts, fc.boolean(), (list, named) => {
        const world = new World(1, named);
        for (const act of list) world.play(act);
        expect(world.misses).toEqual([]);
      }),
      { numRuns: 2000 },
    );
  });

  // fails when what several have left is cleared by the first that comes back, or when `shared` is not saved at once
  it('when several ask behind one address over connections of their own, and none is away for long', () => {
    const several = fc.oneof(
      commit,
      commit,
      restart,
      close,
      pass(1000),
      poll(fc.constant(false)),
      poll(fc.constant(false)),
    );
    fc.assert(
      fc.property(fc.array(several, { maxLength: 80 }), fc.integer({ min: 2, max: 4 }), (list, count) => {
        const world = new World(count, true);
        // each has asked for everything once, and their connections were open at the same time
        for (let bouncer = 0; bouncer < count; bouncer++) {
          world.play({ do: 'poll', bouncer, startup: true, end: 'received', reconnect: false });
        }
        for (const act of list) world.play(act);
        expect(world.misses).toEqual([]);
      }),
      { numRuns: 2000 },
    );
  });
});

// Fails when lags() counts a cursor that needs everything as one that needs a delta.
it('tells how far each cursor is behind; one that no delta can answer misses everything', () => {
  const { cursors } = kit({ perKeyMax: 10 });
  const at = (address: string, offset: number): void => cursors.moved({ ...NAME, address }, undefined, offset);
  at('192.0.2.1', 100);
  at('192.0.2.2', 99);
  at('192.0.2.3', 90);
  at('192.0.2.4', 89);
  at('192.0.2.5', 94);
  at('192.0.2.6', 101);
  expect(cursors.lags({ offset: 100, reach: 0 })).toEqual({ current: 1, few: 3, many: 2 });
  expect(cursors.lags({ offset: 100, reach: 95 })).toEqual({ current: 1, few: 1, many: 4 });
});

// fails when lags() does not look at when a cursor was last used
it('tells nothing of bouncers that did not ask for ten minutes', () => {
  const { cursors, clock } = kit({ perKeyMax: 10 });
  cursors.moved({ ...NAME, address: '192.0.2.1' }, undefined, 1);
  clock.advance(600_000);
  cursors.moved({ ...NAME, address: '192.0.2.2' }, undefined, 100);
  expect(cursors.lags({ offset: 100, reach: 0 })).toEqual({ current: 1, few: 0, many: 1 });
  clock.advance(1);
  expect(cursors.lags({ offset: 100, reach: 0 })).toEqual({ current: 1, few: 0, many: 0 });
  expect(cursors.size).toBe(2);
});
