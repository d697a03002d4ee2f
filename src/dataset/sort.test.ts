import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { Slices } from '../kernel/index.ts';
import { sortByKey } from './sort.ts';

// many runs each, and a machine may be busy with other things
vi.setConfig({ testTimeout: 60_000 });

const keyed = fc.array(
  fc.record({
    key: fc.string({ unit: fc.constantFrom('a', 'b', 'é', '\ud800', '\uffff'), maxLength: 3 }),
    at: fc.nat(),
  }),
);

describe('sortByKey', () => {
  it('sorts by UTF-16 code units and keeps the order of arrival among equals', async () => {
    await fc.assert(
      fc.asyncProperty(keyed, async (items) => {
        const wanted = items.toSorted((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
        expect(await sortByKey([...items], new Slices())).toEqual(wanted);
      }),
    );
  });

  it('does so beyond one run, for an even and an odd number of runs', async () => {
    for (const length of [1024, 1025, 2048, 3000, 5000]) {
      const items = Array.from({ length }, (_, at) => ({ key: String((at * 7919) % 500), at }));
      const wanted = items.toSorted((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
      expect(await sortByKey(items, new Slices())).toEqual(wanted);
    }
  });

  it('hands back what is in order already', async () => {
    const items = Array.from({ length: 3000 }, (_, at) => ({ key: String(at).padStart(5, '0') }));
    expect(await sortByKey(items, new Slices())).toBe(items);
    expect(await sortByKey([], new Slices())).toEqual([]);
  });

  it('lets the loop turn meanwhile', async () => {
    const items = Array.from({ length: 20_000 }, (_, at) => ({ key: String((at * 7919) % 20_000) }));
    let turns = 0;
    const count = (): void => {
      turns++;
      next = setImmediate(count);
    };
    let next = setImmediate(count);
    // a slice of no time is due at every look
    await sortByKey(items, new Slices(0));
    clearImmediate(next);
    // 20 runs, and 5 rounds of merging 20,000 items with a look at each 256: fails when a pause is removed
    expect(turns).toBeGreaterThan(20 + 5 * 60);
  });
});
