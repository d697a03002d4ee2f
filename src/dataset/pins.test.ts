import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { flag, gone, groupsOf, makeSet, mapPlan, put } from '../../test/support/dataset-kit.ts';
import { type Change, type DataSet, type Pin, payloadOf } from './index.ts';

// many runs each, and a machine may be busy with other things
vi.setConfig({ testTimeout: 60_000 });

async function large(): Promise<DataSet> {
  const set = makeSet();
  await set.replace(Array.from({ length: 400 }, (_, at) => flag(`k${1000 + at}`, 1, 'x'.repeat(1000))));
  return set;
}

/** What `pinnedBytes` must say, by its definition. */
function expectedBytes(set: DataSet, pins: Iterable<Pin>): number {
  const now = new Set(['flags', 'segments'].flatMap((kind) => set.snapshot().leavesOf(kind)));
  const only = new Set(
    [...pins]
      .flatMap(({ snapshot }) => ['flags', 'segments'].flatMap((kind) => snapshot.leavesOf(kind)))
      .filter((leaf) => !now.has(leaf)),
  );
  return [...only].reduce((sum, leaf) => sum + leaf.heldBytes, 0);
}

describe('pins', () => {
  it('hold the snapshot of now, and cost nothing while it is the newest', async () => {
    const set = await large();
    const pin = set.pin();
    expect(pin.snapshot).toBe(set.snapshot());
    await groupsOf(payloadOf(pin.snapshot, mapPlan, 'identity'));
    expect(set.pinnedBytes).toBe(0);
    expect(pin.release()).toBe(0);
  });

  it('count what only they keep alive, once however many they are, until the last is released', async () => {
    const set = await large();
    const pins = [set.pin(), set.pin()];
    await set.apply([put(flag('k1000', 2))]);
    const [leaf] = pins[0]!.snapshot.leavesOf('flags');
    expect(set.pinnedBytes).toBe(leaf!.textBytes);
    pins.push(set.pin());
    await groupsOf(payloadOf(pins[0]!.snapshot, mapPlan, 'identity'));
    await groupsOf(payloadOf(pins[0]!.snapshot, mapPlan, 'gzip'));
    expect(set.pinnedBytes).toBe(leaf!.heldBytes);
    expect(leaf!.heldBytes).toBeGreaterThan(2 * leaf!.textBytes);
    expect(pins[0]!.release()).toBe(0);
    expect(pins[0]!.release()).toBe(0);
    expect(set.pinnedBytes).toBe(leaf!.heldBytes);
    expect(pins[1]!.release()).toBe(leaf!.heldBytes);
    expect([set.pinnedBytes, pins[2]!.release()]).toEqual([0, 0]);
  });

  it('released twice give back what is theirs only', async () => {
    const set = await large();
    const [first, second] = [set.pin(), set.pin()];
    await set.apply([put(flag('k1000', 2))]);
    first.release();
    // fails when `held` is removed: the second release would take the other's place
    first.release();
    expect(set.pinnedBytes).toBeGreaterThan(0);
    expect(second.release()).toBeGreaterThan(0);
  });

  it('are released at the end of a using block', async () => {
    const set = await large();
    {
      using pin = set.pin();
      await set.apply([put(flag('k1000', 2))]);
      expect(pin.snapshot).not.toBe(set.snapshot());
      expect(set.pinnedBytes).toBeGreaterThan(0);
    }
    expect(set.pinnedBytes).toBe(0);
  });

  it('tell who asked when bytes came free', async () => {
    const set = await large();
    const listener = vi.fn<(freedBytes: number) => void>();
    const end = set.onFreed(listener);
    set.onFreed(listener);
    const [first, second] = [set.pin(), set.pin()];
    await set.apply([put(flag('k1000', 2))]);
    const { pinnedBytes } = set;
    first.release();
    expect(listener).not.toHaveBeenCalled();
    second.release();
    expect(listener.mock.calls).toEqual([[pinnedBytes], [pinnedBytes]]);
    end();
    end();
    const third = set.pin();
    await set.apply([put(flag('k1000', 3))]);
    third.release();
    expect(listener).toHaveBeenCalledTimes(3);
    set.pin().release();
    expect(listener).toHaveBeenCalledTimes(3);
    // what others still hold is not freed
    const [older, younger] = [set.pin(), await set.apply([put(flag('k1000', 4))]).then(() => set.pin())];
    await set.apply([put(flag('k1399', 5, 'x'.repeat(1000)))]);
    const held = set.pinnedBytes;
    const freed = older.release();
    expect(freed).toBeGreaterThan(0);
    expect(freed + set.pinnedBytes).toBe(held);
    expect(listener).toHaveBeenLastCalledWith(freed);
    expect(set.pinnedBytes).toBeGreaterThan(0);
    younger.release();
    expect(set.pinnedBytes).toBe(0);
  });

  it('are exact through any sequence, and back at zero at the end', async () => {
    const step = fc.oneof(
      fc.record({ act: fc.constant('write' as const), key: fc.nat({ max: 40 }), drop: fc.boolean() }),
      fc.record({ act: fc.constant('pin' as const) }),
      fc.record({ act: fc.constant('release' as const), which: fc.nat() }),
      fc.record({ act: fc.constant('encode' as const), which: fc.nat() }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const set = makeSet();
        await set.replace(Array.from({ length: 20 }, (_, at) => flag(`k${at}`, 1, 'x'.repeat(20_000))));
        const pins = new Set<Pin>();
        let version = 1;
        for (const each of steps) {
          const held = [...pins];
          const chosen = 'which' in each ? held[each.which % held.length] : undefined;
          if (each.act === 'pin') pins.add(set.pin());
          else if (each.act === 'encode' && chosen !== undefined)
            await groupsOf(payloadOf(chosen.snapshot, mapPlan, 'identity'));
          else if (each.act === 'release' && chosen !== undefined) {
            chosen.release();
            pins.delete(chosen);
          } else if (each.act === 'write') {
            const change: Change = each.drop
              ? gone(`k${each.key}`, ++version)
              : put(flag(`k${each.key}`, ++version, 'x'.repeat(20_000)));
            await set.apply([change]);
          }
          expect(set.pinnedBytes).toBe(expectedBytes(set, pins));
        }
        for (const pin of pins) pin.release();
        expect(set.pinnedBytes).toBe(0);
      }),
      { numRuns: 60 },
    );
  });
});
