import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { Slices } from '../kernel/index.ts';
import { compareParts, draftPart, type Edit, emptyPart } from './draft.ts';
import type { Item } from './index.ts';
import { LEAF_BYTES_MAX, LEAF_BYTES_MIN, leafWeight } from './packer.ts';
import type { Part } from './snapshot.ts';

// many runs each, and a machine may be busy with other things
vi.setConfig({ testTimeout: 60_000 });

const meter = { pinnedBytes: 0 };
/** From crumbs to items that fill a leaf alone. */
const size = fc.oneof(fc.nat({ max: 40 }), fc.constantFrom(3000, 15_000, 40_000, 64_000, 100_000, 200_000));
const write = fc.record({ key: fc.nat({ max: 60 }), size, drop: fc.boolean() });
const writes = fc.array(write, { maxLength: 40 });

function itemOf(key: number, bytes: number, version: number): Item {
  return { kind: 'flags', key: String(key).padStart(3, '0'), version, text: `"${'x'.repeat(bytes)}"` };
}

function itemsOf(part: Part): Item[] {
  return part.leaves.flatMap(({ items }) => items);
}

/** The edits that a list of writes comes to, against what is held. */
function editsOf(part: Part, list: readonly { key: number; size: number; drop: boolean }[], version: number): Edit[] {
  const held = new Map(itemsOf(part).map((item) => [item.key, item]));
  const wanted = new Map(
    list.map((each) => [itemOf(each.key, 0, 0).key, each.drop ? undefined : itemOf(each.key, each.size, version)]),
  );
  return [...wanted]
    .map(([key, after]): Edit => ({ key, before: held.get(key), after }))
    .filter(({ before, after }) => before !== after)
    .toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

function checkLeaves(part: Part): void {
  const keys = itemsOf(part).map(({ key }) => key);
  expect(keys).toEqual([...new Set(keys)].toSorted());
  expect(part.count).toBe(keys.length);
  expect(part.textBytes).toBe(itemsOf(part).reduce((sum, { text }) => sum + text.length, 0));
  for (const [at, leaf] of part.leaves.entries()) {
    expect(leaf.items.length).toBeGreaterThan(0);
    expect(leafWeight(leaf) <= LEAF_BYTES_MAX || leaf.items.length === 1).toBe(true);
    const next = part.leaves[at + 1];
    const [a, b] = [leafWeight(leaf), next === undefined ? LEAF_BYTES_MAX : leafWeight(next)];
    // a crumb stays one only beside a neighbour with which it does not fit
    expect(Math.min(a, b) >= LEAF_BYTES_MIN || a + b > LEAF_BYTES_MAX).toBe(true);
  }
}

describe('draftPart', () => {
  it('keeps the leaves sorted and in size, shares what it did not touch, and leaves the old part as it was', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(writes, { maxLength: 6 }), async (rounds) => {
        let part = emptyPart('flags');
        for (const [at, list] of rounds.entries()) {
          const before = part;
          const [items, digest, leaves] = [itemsOf(before), before.digest, [...before.leaves]];
          const edits = editsOf(before, list, at + 1);
          const model = new Map(items.map((item) => [item.key, item]));
          for (const { key, after } of edits) {
            if (after === undefined) model.delete(key);
            else model.set(key, after);
          }
          const drafted = await draftPart(before, edits, meter, new Slices());
          part = drafted.part;
          expect(itemsOf(part)).toEqual([...model.values()].toSorted((a, b) => (a.key < b.key ? -1 : 1)));
          checkLeaves(part);
          expect(drafted.retired).toEqual(leaves.filter((leaf) => !part.leaves.includes(leaf)));
          expect([itemsOf(before), before.digest, [...before.leaves]]).toEqual([items, digest, leaves]);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('rebuilds one leaf for one change', async () => {
    const items = Array.from({ length: 400 }, (_, at) => itemOf(at, 1000, 1));
    const load = items.map((item): Edit => ({ key: item.key, before: undefined, after: item }));
    const { part } = await draftPart(emptyPart('flags'), load, meter, new Slices());
    expect(part.leaves.length).toBeGreaterThan(5);
    for (const key of ['000', '200', '399']) {
      const edit: Edit = { key, before: items[Number(key)], after: itemOf(Number(key), 1010, 2) };
      const next = await draftPart(part, [edit], meter, new Slices());
      expect(next.retired).toHaveLength(1);
      expect(next.part.leaves.filter((leaf) => !part.leaves.includes(leaf))).toHaveLength(1);
    }
    expect((await draftPart(part, [], meter, new Slices())).part).toBe(part);
  });

  it('counts on from leaf to leaf: a change in each must not keep it from pausing', async () => {
    const items = Array.from({ length: 400 }, (_, at) => itemOf(at, 1000, 1));
    const load = items.map((item): Edit => ({ key: item.key, before: undefined, after: item }));
    const { part } = await draftPart(emptyPart('flags'), load, meter, new Slices());
    const edits = part.leaves.flatMap(({ items: [first, second] }) =>
      [first!, second!].map((item): Edit => ({ key: item.key, before: item, after: { ...item, version: 2 } })),
    );
    const pauses = vi.spyOn(Slices.prototype, 'pause');
    await draftPart(part, edits, meter, new Slices(0));
    // fails when each leaf counts its steps anew: none of them has sixteen
    expect(pauses).toHaveBeenCalledTimes(Math.floor((2 * edits.length) / 16));
    pauses.mockRestore();
  });

  it('lets the loop turn while it builds', async () => {
    const edits = Array.from(
      { length: 1000 },
      (_, at): Edit => ({ key: itemOf(at, 0, 0).key, before: undefined, after: itemOf(at, 100, 1) }),
    );
    let turns = 0;
    const count = (): void => {
      turns++;
      next = setImmediate(count);
    };
    let next = setImmediate(count);
    await draftPart(emptyPart('flags'), edits, meter, new Slices(0));
    clearImmediate(next);
    // a look at each 16 edits, when merging and when hashing: fails when either pause is removed
    expect(turns).toBeGreaterThan((2 * 1000) / 16 - 10);
  });
});

describe('compareParts', () => {
  it('finds every key that differs, once, in order, and what it was on both sides', async () => {
    await fc.assert(
      fc.asyncProperty(writes, writes, writes, async (first, second, third) => {
        const draft = async (part: Part, list: typeof first, version: number): Promise<Part> =>
          (await draftPart(part, editsOf(part, list, version), meter, new Slices())).part;
        const base = await draft(emptyPart('flags'), first, 1);
        const a = await draft(base, second, 2);
        // some keys come back to what they were
        const b = await draft(base, third, 2);
        const found: Edit[] = [];
        await compareParts(a, b, (edit) => found.push(edit), new Slices());
        const [as, bs] = [a, b].map((part) => new Map(itemsOf(part).map((item) => [item.key, item])));
        const keys = [...new Set([...as!.keys(), ...bs!.keys()])].toSorted();
        const wanted = keys
          .map((key): Edit => ({ key, before: as!.get(key), after: bs!.get(key) }))
          .filter(({ before, after }) => JSON.stringify(before) !== JSON.stringify(after));
        expect(found).toEqual(wanted);
      }),
      { numRuns: 60 },
    );
  });

  it('does not look into leaves that both hold', async () => {
    const items = Array.from({ length: 400 }, (_, at) => itemOf(at, 1000, 1));
    const load = items.map((item): Edit => ({ key: item.key, before: undefined, after: item }));
    const { part } = await draftPart(emptyPart('flags'), load, meter, new Slices());
    const shared = new Proxy(part.leaves[0]!, {
      get: (leaf, name) => (name === 'items' ? unread() : Reflect.get(leaf, name)),
    });
    const unread = (): never => {
      throw new Error('a shared leaf was looked into');
    };
    const a: Part = { ...part, leaves: [shared, part.leaves[1]!] };
    const b: Part = { ...part, leaves: [shared, part.leaves[2]!] };
    const found: Edit[] = [];
    await compareParts(a, b, (edit) => found.push(edit), new Slices());
    expect(found).toHaveLength(part.leaves[1]!.items.length + part.leaves[2]!.items.length);
  });
});
