import { describe, expect, it } from 'vitest';
import { delivery, environment, QUIET, source } from '../../test/support/dashboard-state.ts';
import type { State } from './contract.ts';
import {
  behindShares,
  behindText,
  decisionFacts,
  deliveriesNote,
  deliveryRows,
  environmentRows,
  environmentsNote,
  loopFacts,
  memoryFacts,
  savingFacts,
  sourceRows,
  troubleRows,
} from './rows.ts';

const MIB = 1024 * 1024;
const valuesOf = (facts: readonly { id: string; value: string }[]): Record<string, string> =>
  Object.fromEntries(facts.map(({ id, value }) => [id, value]));

describe('deliveries in progress', () => {
  const withDeliveries = (slowest: State['deliveries']['slowest'], active = slowest.length): State => ({
    ...QUIET,
    deliveries: { ...QUIET.deliveries, active, parked: 1, started: 40, slowest },
  });

  it('stand in the order in which the server tells them', () => {
    const rows = deliveryRows(
      withDeliveries([delivery({ address: '10.0.0.2', parked: true }), delivery({ address: '10.0.0.1' })]),
    );
    expect(rows.map(({ address, slot }) => [address, slot])).toEqual([
      ['10.0.0.2', 'parked'],
      ['10.0.0.1', 'held'],
    ]);
    // fails when a delivery holds a slot of which the budget knows nothing
    const [free] = deliveryRows({ ...withDeliveries([delivery()]), budget: { ...QUIET.budget, enabled: false } });
    expect(free?.slot).toBe('no limit');
  });

  it('say how far they are, as far as that is known', () => {
    const [known, unknown] = deliveryRows(
      withDeliveries([delivery({ bytes: 3 * MIB, totalBytes: 12 * MIB }), delivery({ bytes: 512, totalBytes: null })]),
    );
    expect(known).toMatchObject({ progress: '3.0 MiB of 12.0 MiB', share: 0.25, rate: '64.0 KiB/s', age: '12 s' });
    expect(unknown).toMatchObject({ progress: '512 B', share: undefined });
  });

  it('say how many there are besides', () => {
    expect(deliveriesNote(withDeliveries([delivery()], 300), 2 * MIB)).toBe(
      'the slowest 1 of 300, 1 parked; 2.0 MiB/s to all of them',
    );
    expect(deliveriesNote(withDeliveries([delivery()]), 0)).toBe('all 1, 1 parked; 0 B/s to all of them');
    expect(deliveriesNote(withDeliveries([]), 0)).toBe('None. 40 deliveries since the start.');
  });
});

describe('environments', () => {
  it('stand with the ill ones first, else by name, whatever the order of the server', () => {
    const environments = [
      environment('b 10'),
      environment('b 9'),
      environment('c', { connection: 'INTERRUPTED' }),
      environment('a'),
      environment('d', { ready: false, connection: 'INITIALIZING' }),
      environment('e', { dataStore: 'INTERRUPTED' }),
    ];
    expect(environmentRows({ ...QUIET, environments }).map(({ name, state, tone }) => [name, state, tone])).toEqual([
      ['d', 'no data, INITIALIZING', 'bad'],
      ['c', 'INTERRUPTED', 'warn'],
      ['e', 'ready, store INTERRUPTED', 'warn'],
      ['a', 'ready', 'good'],
      ['b 9', 'ready', 'good'],
      ['b 10', 'ready', 'good'],
    ]);
  });

  it('say what is held, where it stands, and who follows', () => {
    const [row] = environmentRows({
      ...QUIET,
      environments: [environment('a', { streams: 1000, bytes: 11.5 * MIB, ageMs: 61_000 })],
    });
    expect(row).toMatchObject({ items: '100', size: '11.5 MiB', clients: '1,000', age: '1 min 1 s' });
    expect([row?.position, row?.positionShort]).toEqual(['k3Jx9f2mQpL0aZ.17231.server', 'k3Jx9f2mQpL0…']);
    const [empty] = environmentRows({
      ...QUIET,
      environments: [environment('a', { position: null, bytes: null, ageMs: null })],
    });
    expect([empty?.position, empty?.positionShort, empty?.size, empty?.age]).toEqual(['–', '–', '–', '–']);
  });

  // Fails when the number of rows has no bound.
  it('are at most two hundred, and say of how many', () => {
    const environments = Array.from({ length: 300 }, (_, at) => environment(`env-${at}`));
    const state = { ...QUIET, environments, environmentsTotal: 512 };
    expect(environmentRows(state)).toHaveLength(200);
    expect(environmentsNote(state)).toBe('200 of 512');
    expect(environmentsNote({ ...QUIET, environments: [environment('a')], environmentsTotal: 1 })).toBe(
      '1 environment',
    );
    expect(environmentsNote(QUIET)).toBe('No source of flags is set up.');
  });
});

describe('how far clients are behind', () => {
  it('is said in words and as parts of one', () => {
    expect(behindText({ current: 700, few: 28, many: 3 })).toBe('700 current, 28 by 1–10, 3 by more');
    expect(behindText({ current: 5, few: 0, many: 0 })).toBe('all current');
    expect(behindText({ current: 0, few: 0, many: 0 })).toBe('no clients');
    expect(behindShares({ current: 2, few: 1, many: 1 })).toEqual([0.5, 0.25, 0.25]);
    expect(behindShares({ current: 0, few: 0, many: 0 })).toEqual([0, 0, 0]);
  });
});

describe('decisions', () => {
  const decisions: NonNullable<State['decisions']> = {
    held: 48_213,
    tombstones: 120,
    bytes: 23 * MIB,
    offset: 91_823,
    bouncers: 14,
    behind: { current: 13, few: 1, many: 0 },
    sources: Array.from({ length: 150 }, (_, at) => source(`s-${at}`, at !== 77)),
  };

  it('say what is held, and nothing where there are none', () => {
    expect(valuesOf(decisionFacts({ ...QUIET, decisions }))).toEqual({
      'decisions-held': '48,213',
      'decisions-bytes': '23.0 MiB',
      'decisions-offset': '91,823',
      'decisions-bouncers': '14',
    });
    expect([decisionFacts(QUIET), sourceRows(QUIET)]).toEqual([[], []]);
  });

  // Fails when the number of rows has no bound.
  it('have the source first that fails, and at most a hundred', () => {
    const rows = sourceRows({ ...QUIET, decisions });
    expect(rows[0]).toMatchObject({ name: 's-77', state: 'fails', tone: 'bad' });
    expect(rows).toHaveLength(100);
  });
});

describe('memory, savings and the loop', () => {
  it('say what is used of what there is', () => {
    const [rss] = memoryFacts({ ...QUIET, memory: { ...QUIET.memory, rssBytes: 128 * MIB, limitBytes: 512 * MIB } });
    expect(rss).toMatchObject({ value: '128.0 MiB', note: 'of 512.0 MiB, 25 %', share: 0.25 });
    const [unlimited] = memoryFacts({ ...QUIET, memory: { ...QUIET.memory, limitBytes: null } });
    expect(unlimited).toMatchObject({ note: 'no limit known', share: undefined });
    expect(memoryFacts(QUIET).find(({ id }) => id === 'kernel-held')).toMatchObject({
      value: '–',
      note: 'cannot be asked here',
    });
  });

  it('say what sharing, catch-ups and compression did', () => {
    const sharing = {
      ...QUIET.sharing,
      savedBytes: 800 * MIB,
      compressedAwayBytes: 700 * MIB,
      copiedBytes: 3000 * MIB,
      pinnedBytes: 40 * MIB,
      sentBytes: { identity: 300 * MIB, gzip: 100 * MIB },
    };
    const facts = savingFacts({ ...QUIET, sharing });
    expect(valuesOf(facts)).toEqual({
      'saved-sharing': '2.9 GiB',
      'saved-catch-up': '800.0 MiB',
      'saved-compression': '700.0 MiB',
      sent: '400.0 MiB',
    });
    expect(facts.find(({ id }) => id === 'saved-compression')?.note).toBe('100.0 MiB sent in place of 800.0 MiB');
    expect(facts.at(-1)).toMatchObject({ share: 0.25 });
    // a delivery may pin more than a copy of its own would take: that is no saving, and no negative one
    expect(valuesOf(savingFacts({ ...QUIET, sharing: { ...sharing, copiedBytes: 1 } }))['saved-sharing']).toBe('0 B');
  });

  it('say how late the loop is', () => {
    expect(valuesOf(loopFacts(QUIET))).toEqual({ 'loop-utilization': '2 %', 'loop-delay': '1.2 ms' });
  });
});

describe('trouble', () => {
  it('says when, and how often', () => {
    const day = 86_400_000;
    const rows = troubleRows({
      ...QUIET,
      trouble: [
        { atMs: QUIET.atMs - 1000, level: 'error', text: 'a', count: 1 },
        { atMs: QUIET.atMs - day, level: 'warn', text: 'b', count: 1200 },
      ],
    });
    expect(rows).toMatchObject([
      { level: 'error', tone: 'bad', text: 'a', count: '' },
      { level: 'warning', tone: 'warn', text: 'b', count: '1,200 times' },
    ]);
    expect(rows[0]?.at).toMatch(/^\d\d:\d\d:\d\d$/);
    expect(rows[1]?.at).toMatch(/^\d+ \w+ \d\d:\d\d$/);
  });
});
