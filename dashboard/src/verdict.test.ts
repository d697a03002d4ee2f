import { describe, expect, it } from 'vitest';
import { environment, QUIET, source } from '../../test/support/dashboard-state.ts';
import type { State } from './contract.ts';
import { summaryOf, verdictOf } from './verdict.ts';

const decisionsOf = (...sources: Parameters<typeof source>[]): State['decisions'] => ({
  held: 0,
  tombstones: 0,
  bytes: 0,
  offset: 0,
  bouncers: 3,
  behind: { current: 3, few: 0, many: 0 },
  sources: sources.map((each) => source(...each)),
});

describe('the verdict', () => {
  it('is good when all is well', () => {
    const state = { ...QUIET, environments: [environment('Shop')], decisions: decisionsOf(['lapi', true]) };
    expect(verdictOf(state)).toEqual({ word: 'Ready and healthy', tone: 'good', reasons: [] });
  });

  it('says what is not well', () => {
    const environments = [
      environment('Shop', { ready: false, connection: 'INITIALIZING' }),
      environment('Test', { connection: 'INTERRUPTED' }),
      environment('Good'),
    ];
    const state = { ...QUIET, ready: false, healthy: false, environments, decisions: decisionsOf(['lapi', false]) };
    expect(verdictOf(state)).toEqual({
      word: 'Not ready',
      tone: 'bad',
      reasons: [
        'Shop has no data yet',
        'the source of Test is INTERRUPTED',
        'the source lapi fails: the last good decisions are served',
      ],
    });
    expect(verdictOf({ ...state, ready: true })).toMatchObject({ word: 'Ready, not healthy', tone: 'warn' });
    expect(verdictOf({ ...QUIET, healthy: false })).toEqual({
      word: 'Ready, not healthy',
      tone: 'warn',
      reasons: ['/status says of which part'],
    });
  });

  // Fails when the store of an environment is looked at in its row alone: a green word would stand above an amber row.
  it('is not good while a store is not', () => {
    const environments = [
      environment('Shop', { dataStore: 'INTERRUPTED' }),
      environment('No store', { dataStore: '' }),
    ];
    expect(verdictOf({ ...QUIET, environments })).toMatchObject({
      word: 'Ready, not healthy',
      reasons: ['the store of Shop is INTERRUPTED'],
    });
  });

  it('tells a source that fails from one that has yet to answer', () => {
    const { sources, ...rest } = decisionsOf(['lapi', false])!;
    const state = { ...QUIET, decisions: { ...rest, sources: sources.map((each) => ({ ...each, ageMs: null })) } };
    expect(verdictOf(state).reasons).toEqual(['the source lapi has no data yet']);
  });

  it('keeps the end of a sentence about a name that is too long for one', () => {
    const { reasons } = verdictOf({ ...QUIET, environments: [environment('n'.repeat(300), { ready: false })] });
    expect(reasons).toEqual([`${'n'.repeat(60)}… has no data yet`]);
  });

  it('puts a stop before everything else', () => {
    expect(verdictOf({ ...QUIET, ready: false, stopping: true })).toEqual({
      word: 'Stopping',
      tone: 'warn',
      reasons: ['nobody new is admitted'],
    });
  });

  // Fails when reasons have no bound: two hundred environments may be ill at once.
  it('names a few, and how many more there are', () => {
    const environments = Array.from({ length: 200 }, (_, at) => environment(`env-${at}`, { ready: false }));
    const { reasons } = verdictOf({ ...QUIET, ready: false, environments });
    expect(reasons).toHaveLength(5);
    expect(reasons.at(-1)).toBe('and 196 more');
  });
});

describe('the sentence', () => {
  it('says that it is quiet, and who is there', () => {
    // of many environments not all are told
    const some = { ...QUIET, environments: [environment('Shop', { streams: 12 })], streams: 1200 };
    expect(summaryOf(some, 0)).toBe('Quiet: no delivery under way, nobody waits. 1,200 open streams.');
    expect(summaryOf({ ...QUIET, decisions: decisionsOf() }, 0)).toBe(
      'Quiet: no delivery under way, nobody waits. 3 bouncers.',
    );
  });

  it('says that a herd is here when somebody waits, and that some were refused', () => {
    const budget = { ...QUIET.budget, held: 32, waiting: 727 };
    const state = { ...QUIET, budget, deliveries: { ...QUIET.deliveries, active: 273 } };
    expect(summaryOf(state, 1043)).toBe(
      'A herd is here: 273 deliveries under way, 727 wait for a slot, 1,043 refused in the last minute.',
    );
    expect(summaryOf({ ...state, budget: QUIET.budget }, 0)).toBe(
      '273 deliveries under way, nobody waits. 0 open streams.',
    );
  });
});
