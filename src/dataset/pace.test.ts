import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from 'vitest';
import { flag, gone, KINDS, makeSet, put } from '../../test/support/dataset-kit.ts';
import { Slices } from '../kernel/index.ts';
import { compareParts, draftPart, type Edit, emptyPart } from './draft.ts';
import { takeChanges, takeItems } from './intake.ts';
import type { Change } from './item.ts';
import { ChangeLog } from './log.ts';
import { Pace } from './pace.ts';
import { resolve } from './resolve.ts';
import { sortByKey } from './sort.ts';
import { Tombstones } from './tombstones.ts';

const COUNT = 1000;
/** In key order, so that sorting looks once and sorts nothing. */
const items = Array.from({ length: COUNT }, (_, at) => flag(`k${1000 + at}`, 1));
const changes = items.map(put);
const edits = items.map((item): Edit => ({ key: item.key, before: undefined, after: item }));

let pauses: MockInstance<Slices['pause']>;
beforeEach(() => {
  pauses = vi.spyOn(Slices.prototype, 'pause');
});
afterEach(() => {
  pauses.mockRestore();
});

/** How often a job pauses when every look at the clock says that it is time. */
async function pausesOf(job: (slices: Slices) => Promise<unknown>): Promise<number> {
  pauses.mockClear();
  await job(new Slices(0));
  return pauses.mock.calls.length;
}

describe('Pace', () => {
  it('looks at the clock once in so many steps, and is due when the slice is used up', async () => {
    const slices = new Slices(0);
    const looks = vi.spyOn(slices, 'due');
    const pace = new Pace(slices, 3);
    expect(Array.from({ length: 7 }, () => pace.due())).toEqual([false, false, true, false, false, true, false]);
    expect(looks).toHaveBeenCalledTimes(2);
    looks.mockReturnValue(false);
    expect(Array.from({ length: 3 }, () => pace.due())).toEqual([false, false, false]);
    await pace.pause();
    expect(pauses).toHaveBeenCalledTimes(1);
  });
});

/** Each fails when the pause in its loop is removed, or comes at every step. */
describe('pauses', () => {
  it('come in intake, for each 64 items and each 256 looked at in sorting', async () => {
    const sorting = Math.floor((COUNT - 1) / 256);
    expect(await pausesOf((slices) => takeChanges(KINDS, changes, slices))).toBe(Math.floor(COUNT / 64) + sorting);
    expect(await pausesOf((slices) => takeItems(KINDS, items, slices))).toBe(Math.floor(COUNT / 64) + sorting);
    const afar = async function* (): AsyncGenerator<(typeof items)[number]> {
      yield* items;
    };
    expect(await pausesOf((slices) => takeItems(KINDS, afar(), slices))).toBe(Math.floor(COUNT / 64) + sorting);
  });

  it('come in merging, for each 256 steps, and after each run that was sorted', async () => {
    // two runs that alternate, the first pair out of order
    const mixed = Array.from({ length: 2048 }, (_, at) => ({
      key: String(at < 1024 ? 10_001 + 2 * at : 10_000 + 2 * (at - 1024)),
    }));
    expect(await pausesOf((slices) => sortByKey(mixed, slices))).toBe(
      Math.floor(1023 / 256) + 2 + Math.floor(2047 / 256),
    );
  });

  it('come in resolving, for each 64 keys', async () => {
    const held = { snapshot: makeSet().snapshot(), tombstones: new Tombstones(10) };
    for (const whole of [true, false]) {
      const job = (slices: Slices): Promise<unknown> =>
        resolve(new Map([['flags', changes]]), held, { versions: 'source', whole }, slices);
      expect(await pausesOf(job)).toBe(Math.floor(COUNT / 64));
    }
  });

  it('come in drafting, for each 16 edits merged or hashed, and in comparing, for each 64 keys', async () => {
    const part = emptyPart('flags');
    expect(await pausesOf((slices) => draftPart(part, edits, { pinnedBytes: 0 }, slices))).toBe((2 * COUNT) / 16);
    const drafted = await draftPart(part, edits, { pinnedBytes: 0 }, new Slices());
    const found = vi.fn<(edit: Edit) => void>();
    expect(await pausesOf((slices) => compareParts(part, drafted.part, found, slices))).toBe(Math.floor(COUNT / 64));
  });

  it('come in the log, for each 128 entries', async () => {
    const log = new ChangeLog({ maxBatches: 1, maxBytes: 1e9 }, { digest: 'base', clock: 0 });
    const append = async (batch: readonly Change[], digest: string): Promise<void> => {
      const prepared = await log.prepare(batch, new Slices());
      await log.enter(prepared, new Slices());
      log.append(prepared, { digest, clock: 1 });
    };
    expect(await pausesOf((slices) => log.prepare(changes, slices))).toBe(Math.floor(COUNT / 128));
    const prepared = await log.prepare(changes, new Slices());
    expect(await pausesOf((slices) => log.enter(prepared, slices))).toBe(Math.floor(COUNT / 128));
    await append(changes, 'a');
    await append([gone('k', 1)], 'b');
    const evicted = log.evict();
    expect(await pausesOf((slices) => log.forget(evicted, slices))).toBe(Math.floor(COUNT / 128));
    expect(log.keys).toBe(1);
  });
});
