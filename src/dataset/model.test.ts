import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import {
  eventShape,
  evenShape,
  expectedText,
  makeSet,
  mapPlan,
  positionOf,
  Shelf,
  textOf,
} from '../../test/support/dataset-kit.ts';
import {
  type Change,
  type DataSet,
  type Item,
  type Outcome,
  planOf,
  type Position,
  type Since,
  type Snapshot,
  withVersion,
} from './index.ts';

// many runs each, and a machine may be busy with other things
vi.setConfig({ testTimeout: 60_000 });

const PLANS = [
  mapPlan,
  planOf({ kind: 'flags', shape: eventShape }, { kind: 'segments', shape: eventShape }),
  planOf('[', { kind: 'flags', shape: evenShape }, ']'),
];

/** What a source holds, and what it says when that changes: versions rise per key, tombstones included. */
class Source {
  readonly items = new Map<string, Item>();
  readonly #versions = new Map<string, number>();

  put(kind: string, key: string, value: string): Change {
    const version = this.#rise(kind, key);
    const item: Item = { kind, key, version, text: JSON.stringify({ key, version, value }) };
    this.items.set(`${kind} ${key}`, item);
    return { kind, key, version, item };
  }

  drop(kind: string, key: string): Change {
    this.items.delete(`${kind} ${key}`);
    return { kind, key, version: this.#rise(kind, key), item: undefined };
  }

  #rise(kind: string, key: string): number {
    const version = (this.#versions.get(`${kind} ${key}`) ?? 0) + 1;
    this.#versions.set(`${kind} ${key}`, version);
    return version;
  }
}

/** A client that takes a change only when its version is above what it holds, tombstones included (Node's store). */
class WaryClient {
  readonly held = new Map<string, { version: number; item: Item | undefined }>();
  load(snapshot: Snapshot): void {
    this.held.clear();
    for (const kind of snapshot.kinds)
      for (const item of snapshot.items(kind)) this.held.set(`${kind} ${item.key}`, { version: item.version, item });
  }
  take({ kind, key, version, item }: Change): void {
    const known = this.held.get(`${kind} ${key}`);
    if (known === undefined || version > known.version) this.held.set(`${kind} ${key}`, { version, item });
  }
  items(): Item[] {
    return sorted([...this.held.values()].flatMap(({ item }) => item ?? []));
  }
}

/** A client that trusts the order and takes everything (Go's, Python's). */
class TrustingClient {
  readonly held = new Map<string, Item>();
  load(snapshot: Snapshot): void {
    this.held.clear();
    for (const kind of snapshot.kinds)
      for (const item of snapshot.items(kind)) this.held.set(`${kind} ${item.key}`, item);
  }
  take({ kind, key, item }: Change): void {
    if (item === undefined) this.held.delete(`${kind} ${key}`);
    else this.held.set(`${kind} ${key}`, item);
  }
  items(): Item[] {
    return sorted([...this.held.values()]);
  }
}

function sorted(items: Iterable<Item>): Item[] {
  const name = (item: Item): string => `${item.kind} ${item.key}`;
  return [...items].toSorted((a, b) => (name(a) < name(b) ? -1 : 1));
}

function itemsOf(snapshot: Snapshot): Item[] {
  return sorted(snapshot.kinds.flatMap((kind) => [...snapshot.items(kind)]));
}

interface Write {
  readonly kind: string;
  readonly key: string;
  readonly value: string | undefined;
}
const write: fc.Arbitrary<Write> = fc.record({
  kind: fc.constantFrom('flags', 'segments'),
  key: fc.constantFrom('a', 'b', 'é', 'd'),
  value: fc.option(fc.constantFrom('on', 'off', 'x'.repeat(40_000)), { nil: undefined }),
});
/** Few keys, and each write comes or goes: what was there before comes back often, and with it its digest. */
const flip = fc.record({ key: fc.constantFrom('a', 'b'), edit: fc.boolean() });

/** A key that is there goes, or is edited; one that is not comes. */
function flipped(source: Source, { key, edit }: { key: string; edit: boolean }): Change {
  const there = source.items.has(`flags ${key}`);
  return there && !edit ? source.drop('flags', key) : source.put('flags', key, edit ? 'on' : 'off');
}

/** What happens to the data set, and which clients come, follow, and come back meanwhile. */
const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      act: fc.constantFrom('apply' as const, 'replace' as const),
      writes: fc.array(flip, { minLength: 1, maxLength: 2 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ act: fc.constantFrom('connect' as const, 'restart' as const) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      act: fc.constantFrom('follow' as const, 'follow' as const, 'return' as const),
      who: fc.nat({ max: 3 }),
    }),
  },
);

/** A client with its position now, the one it was first given, and the snapshot and offset it follows from. */
interface Guest {
  readonly wary: WaryClient;
  readonly trusting: TrustingClient;
  position: Position;
  readonly first: Position;
  basis: Snapshot;
  next: number;
}

function connect(set: DataSet): Guest {
  const basis = set.snapshot();
  const guest = {
    wary: new WaryClient(),
    trusting: new TrustingClient(),
    position: positionOf(basis),
    first: positionOf(basis),
    basis,
    next: basis.offset,
  };
  load(guest, basis);
  return guest;
}

function load(guest: Guest, snapshot: Snapshot): void {
  guest.wary.load(snapshot);
  guest.trusting.load(snapshot);
}

function take(guest: Guest, changes: readonly Change[]): void {
  for (const change of changes) {
    guest.wary.take(change);
    guest.trusting.take(change);
  }
}

/** Live changes by offset, as far as the log has them; false when the guest fell off its end. */
function follow(set: DataSet, guest: Guest): boolean {
  if (guest.next < set.log.first) return false;
  for (; guest.next < set.log.next; guest.next++) {
    const batch = set.log.at(guest.next)!;
    take(guest, batch.changes);
    guest.position = { digest: batch.digest, clock: batch.clock, view: 'test' };
  }
  return true;
}

/** Comes back with a position and does what the answer says. */
function comeBack(set: DataSet, guest: Guest, frozen: boolean): void {
  const since = set.since(frozen ? guest.first : guest.position, { frozen });
  if (since.kind === 'changes') take(guest, since.keys);
  if (since.kind === 'full') load(guest, set.snapshot());
  expect(since.kind).not.toBe('ahead');
  guest.position = positionOf(set.snapshot());
  guest.next = set.snapshot().offset;
}

/** What every guest would be sent, and what each offset leads to: the same before and after a restart. */
function answersOf(set: DataSet, guests: readonly Guest[], reach: number): unknown[] {
  const told = (since: Since | undefined): unknown => {
    if (since?.kind !== 'changes') return since?.kind;
    const { from, to, digest, clock } = since;
    return [from, to, digest, clock, since.keys.map(({ kind, key, version, item }) => [kind, key, version, item])];
  };
  const offsets = Array.from({ length: set.log.next - reach + 2 }, (_, at) => reach - 1 + at);
  return [
    guests.flatMap(({ position, first }) => [set.since(position), set.since(first, { frozen: true })].map(told)),
    offsets.map((offset) => told(set.sinceOffset(offset))),
    [set.snapshot().digest, set.snapshot().clock, set.snapshot().offset, itemsOf(set.snapshot())],
    [...set.tombstones()],
  ];
}

/** A new process, with what a store holds that took each write or only the last. Its guests have lost their connections. */
async function restarted(
  set: DataSet,
  shelf: Shelf,
  guests: readonly Guest[],
  logMaxBatches: number,
): Promise<DataSet> {
  const { logFirst } = shelf.writes.at(-1)!;
  const expected = answersOf(set, guests, logFirst);
  const next = makeSet({ logMaxBatches, beforeCommit: shelf.take });
  for (const [again, kept] of [
    [makeSet({ logMaxBatches }), shelf.whole()],
    [next, shelf.kept()],
  ] as const) {
    await again.restore(kept);
    expect(answersOf(again, guests, logFirst)).toEqual(expected);
    expect([again.log.first, again.log.next]).toEqual([set.log.next, set.log.next]);
    expect(again.log.at(set.log.next - 1)).toBeUndefined();
  }
  for (const guest of guests) guest.next = Number.NEGATIVE_INFINITY;
  return next;
}

function expectNoReset({ result }: Outcome): void {
  expect(result).not.toBe('reset');
}

function expectPresent(set: DataSet, guest: Guest): void {
  expect(guest.wary.items()).toEqual(itemsOf(set.snapshot()));
  expect(guest.trusting.items()).toEqual(itemsOf(set.snapshot()));
}

describe('any sequence of changes', () => {
  it.each([
    ['a log that holds all', 10_000],
    ['a log that forgets', 2],
  ])('brings every client to the present, however it comes back (%s)', async (_, logMaxBatches) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40, size: 'max' }), fc.boolean(), async (steps, frozen) => {
        const [shelf, source, guests] = [new Shelf(), new Source(), [] as Guest[]];
        let set = makeSet({ logMaxBatches, beforeCommit: shelf.take });
        await set.replace([]);
        for (const each of steps) {
          const guest = 'who' in each ? guests[each.who % guests.length] : undefined;
          if (each.act === 'connect') guests.push(connect(set));
          else if (each.act === 'restart') set = await restarted(set, shelf, guests, logMaxBatches);
          else if (each.act === 'apply' || each.act === 'replace') {
            const changes = each.writes.map((one) => flipped(source, one));
            // a full put says nothing of deletions, so what it gives a deleted key is last + 1, as the source did
            const outcome =
              each.act === 'apply' ? await set.apply(changes) : await set.replace([...source.items.values()]);
            expectNoReset(outcome);
          } else if (guest !== undefined && each.act === 'follow') {
            if (!follow(set, guest)) comeBack(set, guest, frozen);
            expectPresent(set, guest);
          } else if (guest !== undefined && each.act === 'return') {
            comeBack(set, guest, frozen);
            expectPresent(set, guest);
          }
        }
        expect(itemsOf(set.snapshot())).toEqual(sorted(source.items.values()));
        for (const guest of guests) {
          comeBack(set, guest, frozen);
          expectPresent(set, guest);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('gives the difference between any two moments, and follows on from there', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(write, { minLength: 1, maxLength: 4 }), { maxLength: 10 }),
        fc.nat(),
        fc.nat(),
        async (rounds, from, to) => {
          const [set, source] = [makeSet({ logMaxBatches: 1 }), new Source()];
          await set.replace([]);
          let guest = connect(set);
          for (const [at, writes] of rounds.entries()) {
            if (at === from % rounds.length) guest = connect(set);
            await set.apply(
              writes.map(({ kind, key, value }) =>
                value === undefined ? source.drop(kind, key) : source.put(kind, key, value),
              ),
            );
            if (at !== to % rounds.length) continue;
            const difference = await set.difference(guest.basis);
            take(guest, difference!.keys);
            guest.next = difference!.to;
            expectPresent(set, guest);
            expect(difference!.digest).toBe(set.snapshot().digest);
          }
          // whoever was given a difference goes on by offset; the log here holds one batch only
          if (follow(set, guest)) expectPresent(set, guest);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('leaves every earlier snapshot as it was, in every view and encoding', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(write, { minLength: 1, maxLength: 4 }), { maxLength: 8 }), async (rounds) => {
        const [set, source] = [makeSet(), new Source()];
        await set.replace([]);
        const moments: { snapshot: Snapshot; items: Item[]; texts: string[] }[] = [];
        for (const writes of rounds) {
          await set.apply(
            writes.map(({ kind, key, value }) =>
              value === undefined ? source.drop(kind, key) : source.put(kind, key, value),
            ),
          );
          const snapshot = set.snapshot();
          moments.push({
            snapshot,
            items: itemsOf(snapshot),
            texts: PLANS.map((plan) => expectedText(snapshot, plan)),
          });
        }
        for (const { snapshot, items, texts } of moments) {
          expect(itemsOf(snapshot)).toEqual(items);
          for (const [at, plan] of PLANS.entries()) {
            expect(await textOf(snapshot, plan, 'identity')).toBe(texts[at]);
            expect(await textOf(snapshot, plan, 'gzip')).toBe(texts[at]);
            expect(snapshot.byteLength(plan)).toBe(Buffer.byteLength(texts[at]!));
          }
        }
      }),
      { numRuns: 40 },
    );
  });

  it('replacing is applying the difference', async () => {
    const contents = fc.uniqueArray(
      fc.record({
        key: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
        version: fc.integer({ min: 1, max: 3 }),
        value: fc.constantFrom('on', 'off'),
      }),
      { selector: ({ key }) => key },
    );
    await fc.assert(
      fc.asyncProperty(
        contents,
        contents,
        fc.constantFrom('source' as const, 'effective' as const),
        async (before, after, versions) => {
          const itemOf = ({ key, version, value }: (typeof before)[number]): Item => ({
            kind: 'flags',
            key,
            version,
            text: JSON.stringify({ key, version, value }),
          });
          const [replaced, applied] = [makeSet(), makeSet()];
          for (const set of [replaced, applied]) await set.replace(before.map(itemOf), versions);
          const keys = new Set(after.map(({ key }) => key));
          const drops = before
            .filter(({ key }) => !keys.has(key))
            .map(({ key, version }): Change => ({ kind: 'flags', key, version: version + 1, item: undefined }));
          const puts = after
            .map(itemOf)
            .map((item): Change => ({ kind: 'flags', key: item.key, version: item.version, item }));
          const outcomes = [
            await replaced.replace(after.map(itemOf), versions),
            await applied.apply([...puts, ...drops], versions),
          ];
          expect(outcomes[0]!.result).toBe(outcomes[1]!.result);
          expect(outcomes[0]!.batch?.changes).toEqual(outcomes[1]!.batch?.changes);
          expect(replaced.snapshot().digest).toBe(applied.snapshot().digest);
          expect(replaced.snapshot().clock).toBe(applied.snapshot().clock);
          expect([...replaced.tombstones()]).toEqual([...applied.tombstones()]);
        },
      ),
    );
  });
});

describe('digests', () => {
  const items = fc.uniqueArray(
    fc.record({
      kind: fc.constantFrom('flags', 'segments'),
      key: fc.constantFrom('a', 'b', 'ab', ''),
      version: fc.nat({ max: 2 }),
      value: fc.constantFrom('', 'a'),
    }),
    { selector: ({ kind, key }) => `${kind} ${key}` },
  );
  const itemOf = ({
    kind,
    key,
    version,
    value,
  }: {
    kind: string;
    key: string;
    version: number;
    value: string;
  }): Item => ({ kind, key, version, text: JSON.stringify({ value }) });

  it('of the same content are the same, whatever the order and the way there; of other content others', async () => {
    await fc.assert(
      fc.asyncProperty(items, items, fc.nat(), async (one, other, turn) => {
        const [a, b, c] = [makeSet(), makeSet(), makeSet()];
        await a.replace(one.map(itemOf));
        await b.replace(other.map(itemOf));
        // there by a detour: other content first, then one change after the other in another order
        await c.replace(other.map(itemOf));
        await c.replace([]);
        const at = one.length === 0 ? 0 : turn % one.length;
        for (const each of [...one.slice(at), ...one.slice(0, at)]) {
          const item = itemOf(each);
          await c.apply([{ kind: item.kind, key: item.key, version: item.version, item }]);
        }
        expect(c.snapshot().digest).toBe(a.snapshot().digest);
        for (const kind of c.kinds) expect(c.snapshot().digestOf(kind)).toBe(a.snapshot().digestOf(kind));
        const same = JSON.stringify(sorted(one.map(itemOf))) === JSON.stringify(sorted(other.map(itemOf)));
        expect(a.snapshot().digest === b.snapshot().digest).toBe(same);
      }),
    );
  });
});

describe('effective versions', () => {
  it('rise with every change of content, and only then, and stand in the text', async () => {
    const rounds = fc.array(
      fc.option(fc.record({ version: fc.nat({ max: 4 }), value: fc.constantFrom('on', 'off') }), { nil: undefined }),
      { maxLength: 12 },
    );
    await fc.assert(
      fc.asyncProperty(rounds, async (states) => {
        const set = makeSet();
        await set.replace([]);
        let [last, content, source] = [-1, 'none', -1];
        for (const state of states) {
          const before = set.snapshot();
          const text = state && JSON.stringify({ version: state.version, value: state.value });
          const outcome = await set.replace(
            state === undefined ? [] : [{ kind: 'flags', key: 'k', version: state.version, text: text! }],
            'effective',
          );
          const item = set.snapshot().get('flags', 'k');
          const version = item?.version ?? [...set.tombstones()][0]?.version ?? -1;
          const changed = (state?.value ?? 'none') !== content || (state?.version ?? -1) > Math.max(source, last);
          expect(outcome.result).toBe(changed ? 'changed' : 'unchanged');
          expect(changed ? version > last : set.snapshot() === before).toBe(true);
          expect(item?.text).toBe(text && withVersion(text, version));
          [last, content, source] = [version, state?.value ?? 'none', state?.version ?? -1];
        }
      }),
      { numRuns: 200 },
    );
  });
});
