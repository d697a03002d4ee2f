import { describe, expect, it } from 'vitest';
import { decision, ledgerWith } from '../../../test/support/views-kit.ts';
import type { Rows } from './rows.ts';
import { allInOrder, GroupReader, inOrder, rowsOf } from './survivors.ts';
import { doInSlices, doNow } from './work.ts';

const HOUR_MS = 3_600_000;

describe('GroupReader', () => {
  it('finds who survives, and who would have: the longest, of equals the lowest id, of those that the filter lets through', async () => {
    const at = { value: '192.0.2.1' };
    const { ledger } = await ledgerWith([
      decision(1, { ...at, untilMs: HOUR_MS }),
      decision(2, { ...at, untilMs: 3 * HOUR_MS, origin: 'CAPI' }),
      decision(4, { ...at, untilMs: 2 * HOUR_MS }),
      decision(3, { ...at, untilMs: 2 * HOUR_MS }),
      decision(5, { ...at, untilMs: 9 * HOUR_MS }),
      decision(6, { ...at, untilMs: 8 * HOUR_MS }),
    ]);
    await ledger.patch(0, { added: [], removedIds: [5] }, { nowMs: 0, toleranceMs: 0 });
    await ledger.patch(0, { added: [], removedIds: [6] }, { nowMs: 0, toleranceMs: 0 });
    const { rows } = ledger;
    const readAt = (from: number, origin?: string): (number | undefined)[] => {
      const matches = (row: number): boolean => origin !== rows.origins.textOf(rows.origin[row] as number);
      const groups = new GroupReader(rows, matches, { offset: ledger.offset, from });
      groups.read(rows.group[0] as number);
      return [groups.survivor, groups.longestGone, groups.longestGoneSince].map((row) => rows.id[row]);
    };
    expect(readAt(0)).toEqual([2, 5, 5]);
    expect(readAt(0, 'CAPI')).toEqual([3, 5, 5]);
    expect(readAt(2)).toEqual([2, 5, 6]);
    expect(readAt(3)).toEqual([2, 5, undefined]);
    expect(readAt(0, 'cscli')).toEqual([2, undefined, undefined]);
  });
});

describe('order', () => {
  /** As a ledger's rows: by id, in whatever order rows of one id are. */
  const rows = {
    size: 6000,
    id: Float64Array.from({ length: 6000 }, (_, row) => Math.floor(row / 3)),
    order: () => Uint32Array.from({ length: 6000 }, (_, at) => 3 * Math.floor(at / 3) + (2 - (at % 3))),
  } as unknown as Rows;

  // Fails when isBehind always says no.
  it('is by id, and rows of one id by number', async () => {
    const all = Array.from({ length: 6000 }, (_, row) => row);
    expect([...doNow(allInOrder(rows))]).toEqual(all);
    expect([...(await doInSlices(allInOrder(rows)))]).toEqual(all);
  });

  it('is the same for few and for many that were found in any order', () => {
    for (const count of [10, 5000]) {
      const found = Array.from({ length: count }, (_, at) => (at * 7) % 6000);
      expect(Array.from(doNow(inOrder(rows, found)))).toEqual(found.toSorted((a, b) => a - b));
    }
  });

  it('of groups has all their rows', async () => {
    const { ledger } = await ledgerWith([
      decision(1, { value: '192.0.2.1' }),
      decision(2, { value: '192.0.2.2' }),
      decision(3, { value: '192.0.2.1' }),
    ]);
    const groups = new Set([ledger.rows.group[0] as number]);
    expect(rowsOf(ledger.rows, groups).toSorted((a, b) => a - b)).toEqual([0, 2]);
  });
});
