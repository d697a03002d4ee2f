import { describe, expect, it } from 'vitest';
import { ban, HOUR_MS, liveRows, load, NOW_MS, patch, rowOf } from '../../../test/support/ledger-kit.ts';
import { Ledger } from './ledger.ts';
import { readRecord } from './records.ts';

/** A ledger, and a store that has all that it told. */
async function stored(): Promise<{ ledger: Ledger; store: Map<string, Uint8Array> }> {
  const ledger = new Ledger({ random: () => 0.5 });
  const store = new Map<string, Uint8Array>();
  ledger.subscribe((commit) => {
    for (const [key, value] of commit.records()) {
      if (value === undefined) store.delete(key);
      else store.set(key, value);
    }
  });
  await load(
    ledger,
    [ban(1, '192.0.2.1', { uuid: 'u<1>', origin: 'é"', scenario: '' }), ban(2, 'AQ', { scope: 'Country' })],
    { source: 3 },
  );
  await patch(
    ledger,
    [ban(1, '192.0.2.1', { uuid: 'u<1>', origin: 'é"', scenario: '', untilMs: NOW_MS + 9 * HOUR_MS })],
    { source: 3 },
  );
  await patch(ledger, [], { removedIds: [2], source: 3 });
  return { ledger, store };
}

async function restored(store: Iterable<readonly [string, Uint8Array]>, offset = 3): Promise<Ledger> {
  const ledger = new Ledger();
  await ledger.restore(store, { offset, reach: 1, nowMs: NOW_MS });
  return ledger;
}

describe('a record', () => {
  it('says all of a row', async () => {
    const { store } = await stored();
    expect([...store.keys()].toSorted()).toEqual(['3:1:1', '3:2:1']);
    expect(readRecord('3:1:1', store.get('3:1:1') as Uint8Array)).toEqual({
      source: 3,
      decision: ban(1, '192.0.2.1', { uuid: 'u<1>', origin: 'é"', scenario: '', untilMs: NOW_MS + 9 * HOUR_MS }),
      toldMs: NOW_MS + 4 * HOUR_MS,
      added: 1,
      touched: 1,
      removed: 0,
      dueMs: NOW_MS + 0.5 * (4 * HOUR_MS - 0.4 * HOUR_MS),
    });
    const gone = readRecord('3:2:1', store.get('3:2:1') as Uint8Array);
    expect(gone).toMatchObject({ added: 1, touched: 3, removed: 3, dueMs: 0, decision: { uuid: undefined } });
  });

  it.each([
    [
      'shorter than its numbers',
      (record: Buffer) => record.subarray(0, 59),
      'its record has 60 bytes at least, got 59',
    ],
    ['empty', (record: Buffer) => record.subarray(0, 0), 'its record has 60 bytes at least, got 0'],
    ['cut', (record: Buffer) => record.subarray(0, -1), 'its record ends within a text'],
    ['cut before a text', (record: Buffer) => record.subarray(0, 60), 'its record ends within a text, got 60'],
    ['longer', (record: Buffer) => Buffer.concat([record, Buffer.of(0)]), 'its record ends at'],
    [
      'of another version',
      (record: Buffer) => Buffer.concat([Buffer.of(2), record.subarray(1)]),
      'of version 1, got 2',
    ],
    [
      'not of numbers',
      (record: Buffer) => Buffer.concat([record.subarray(0, 4), Buffer.alloc(8, 0xff), record.subarray(12)]),
      'its numbers must be finite, got NaN',
    ],
    [
      'of a decision that cannot be',
      (record: Buffer) =>
        Buffer.concat([record.subarray(0, 4), Buffer.from(Float64Array.of(0.5).buffer), record.subarray(12)]),
      'its id must be a whole number',
    ],
  ])('that is %s is refused', async (_, damage, cause) => {
    const { store } = await stored();
    const record = damage(Buffer.from(store.get('3:1:1') as Uint8Array));
    await expect(restored([['3:1:1', record]])).rejects.toMatchObject({ code: 'HG_STORE' });
    expect(() => readRecord('3:1:1', record)).toThrow(cause);
    expect(() => readRecord('3:1:1', record)).toThrow('Cannot restore the decision "3:1:1": ');
  });
});

describe('restore', () => {
  it('goes on where the stored one was', async () => {
    const { ledger, store } = await stored();
    // from the middle of a larger buffer, as stores give them
    const entries = [...store].map(
      ([key, value]) => [key, Buffer.concat([Buffer.alloc(3), value]).subarray(3)] as const,
    );
    const again = await restored(entries);
    expect([again.offset, again.reach, again.count, again.tombstones, again.sourceCount(3)]).toEqual([3, 1, 1, 1, 1]);
    const row = rowOf(again, 1 + 3 * 2 ** 40);
    expect(again.rows.text(row)).toBe(ledger.rows.text(rowOf(ledger, 1 + 3 * 2 ** 40)));
    // the later end is told when it would have been
    await again.tick(NOW_MS + 1.8 * HOUR_MS - 1);
    expect(again.offset).toBe(3);
    await again.tick(NOW_MS + 1.8 * HOUR_MS);
    expect([again.offset, again.rows.toldMs[row]]).toEqual([4, NOW_MS + 9 * HOUR_MS]);
    await again.tick(NOW_MS + 5 * HOUR_MS);
    expect([again.tombstones, again.reach]).toEqual([0, 3]);
  });

  it('is ready for the sources that have rows', async () => {
    const { store } = await stored();
    const ledger = new Ledger({ sources: 1 });
    await ledger.restore(store, { offset: 3, reach: 0, nowMs: NOW_MS });
    expect(ledger.ready).toBe(false);
    const moved = [...store].map(([key, value]) => {
      const record = Uint8Array.from(value);
      record[1] = 0;
      return [key, record] as const;
    });
    const other = new Ledger({ sources: 1 });
    await other.restore(moved, { offset: 3, reach: 0, nowMs: NOW_MS });
    expect(other.ready).toBe(true);
  });

  it('never goes below what the records say', async () => {
    const { store } = await stored();
    expect((await restored(store, 1)).offset).toBe(3);
    expect((await restored(store, 7)).offset).toBe(7);
    expect((await restored([], 7)).offset).toBe(7);
  });

  it('takes records as they come from a store that is asked for them', async () => {
    const { store } = await stored();
    async function* entries(): AsyncGenerator<readonly [string, Uint8Array]> {
      yield* store;
    }
    const ledger = new Ledger();
    await ledger.restore(entries(), { offset: 3, reach: 0, nowMs: NOW_MS });
    expect(liveRows(ledger)).toHaveLength(1);
  });

  it('is for a ledger that has nothing, and for records of which no two are live under one id', async () => {
    const { ledger, store } = await stored();
    await expect(ledger.restore(store, { offset: 3, reach: 0, nowMs: NOW_MS })).rejects.toThrow('before anything else');
    const live = store.get('3:1:1') as Uint8Array;
    await expect(
      restored([
        ['3:1:1', live],
        ['3:1:2', live],
      ]),
    ).rejects.toThrow('an id may be live once, got 1');
  });
});
