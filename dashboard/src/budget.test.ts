import { describe, expect, it } from 'vitest';
import { QUIET } from '../../test/support/dashboard-state.ts';
import { budgetNote, causesOf, type Figure, figuresOf, meterText, recentTitle, refusedLately } from './budget.ts';
import type { State } from './contract.ts';
import { History, type Recent } from './history.ts';

const figure = (state: State, id: string, refusedInMinute = 0): Figure => {
  const found = figuresOf(state, undefined, refusedInMinute).find((each) => each.id === id);
  if (found === undefined) throw new Error(`Cannot test a figure: expected one called ${id}, got none`);
  return found;
};
const withBudget = (budget: Partial<State['budget']>): State => ({ ...QUIET, budget: { ...QUIET.budget, ...budget } });

describe('the gauge', () => {
  it('compares what is taken with what there is', () => {
    expect(figure(withBudget({ held: 8 }), 'held')).toMatchObject({
      value: '8',
      note: 'of 32',
      share: 0.25,
      tone: 'calm',
    });
    expect(figure(withBudget({ held: 32 }), 'held')).toMatchObject({ share: 1, tone: 'warn' });
    expect(meterText(figure(withBudget({ held: 8 }), 'held'))).toBe('8 of 32, 25 %');
  });

  it('looks ill when the queue or the memory is nearly full, or somebody was refused', () => {
    expect(figure(withBudget({ waiting: 12 }), 'waiting')).toMatchObject({
      value: '12',
      note: 'of 4,096',
      tone: 'warn',
    });
    expect(figure(withBudget({ waiting: 4000, waitingOpen: 3 }), 'waiting')).toMatchObject({
      note: 'of 4,096 + 3 streams',
      tone: 'bad',
    });
    expect(figure(withBudget({ pinnedBytes: 60 * 1024 * 1024 }), 'pinned').tone).toBe('bad');
    expect(figure(QUIET, 'refused-minute', 3)).toMatchObject({ value: '3', tone: 'bad' });
  });

  it('counts the refusals of a minute by the timeline, until the page itself has seen a minute', () => {
    const recent = (overMs: number, full: number): Recent => ({
      overMs,
      ended: QUIET.deliveries.ended,
      refused: { ...QUIET.budget.refused, full, aborted: 1000 },
      admittedPerSecond: 0,
      bytesPerSecond: 0,
    });
    expect(refusedLately(undefined, 7)).toBe(7);
    expect(refusedLately(recent(5000, 3), 7)).toBe(7);
    expect(refusedLately(recent(5000, 9), 7)).toBe(9);
    expect(refusedLately(recent(60_000, 3), 7)).toBe(3);
  });

  // Fails when those who left by themselves are counted as refused.
  it('does not count those as refused who left by themselves', () => {
    const refused = { full: 1, timeout: 2, early: 4, aborted: 8, closed: 16 };
    expect(figure(withBudget({ refused }), 'refused-minute').note).toBe('23 since the start');
  });

  it('has no bound to show where there is no limit', () => {
    const off = withBudget({ enabled: false, slotsMax: null, queueMax: null, pinnedBytesMax: null, held: 900 });
    for (const id of ['held', 'waiting', 'pinned']) expect(figure(off, id).share).toBeUndefined();
    expect(meterText(figure(off, 'held'))).toBe('900 no limit');
    expect(budgetNote(off)).toBe('No limit is set: nobody waits, and nobody is refused.');
  });

  it('says in words how it stands', () => {
    expect(budgetNote(QUIET)).toBe('Every slot is free.');
    expect(budgetNote(withBudget({ held: 3 }))).toBe('Some slots are free.');
    expect(budgetNote(withBudget({ held: 32, waiting: 9, longestWaitMs: 4200 }))).toBe(
      'No slot is free. The longest wait for one so far: 4.2 s.',
    );
  });
});

describe('the causes', () => {
  const after: State = {
    ...withBudget({ refused: { ...QUIET.budget.refused, timeout: 7 } }),
    atMs: QUIET.atMs + 20_000,
    deliveries: { ...QUIET.deliveries, ended: { ...QUIET.deliveries.ended, stalled: 3, completed: 1000 } },
  };

  it('are every reason and outcome of the metrics, each once', () => {
    const ids = causesOf(QUIET, undefined).map(({ id }) => id);
    const names = [...Object.keys(QUIET.budget.refused), ...Object.keys(QUIET.deliveries.ended)];
    expect(ids.toSorted()).toEqual(names.toSorted());
  });

  it('stand in groups, each named once', () => {
    const groups = causesOf(QUIET, undefined).filter(({ isFirst }) => isFirst);
    expect(groups.map(({ group }) => group)).toEqual(['Refused', 'Left', 'Cut', 'Sent']);
  });

  it('are counted in all and lately, and what is new stands out', () => {
    const history = new History();
    history.take(QUIET);
    history.take(after);
    const rows = new Map(causesOf(after, history.recent()).map((row) => [row.id, row]));
    expect(rows.get('timeout')).toMatchObject({ recent: '7', total: '7', tone: 'bad' });
    expect(rows.get('completed')).toMatchObject({ recent: '1,000', total: '1,000', tone: 'good' });
    expect(rows.get('full')).toMatchObject({ recent: '0', total: '0', tone: 'calm' });
    expect(recentTitle(history.recent())).toBe('last 20 s');
  });

  it('say nothing of late before there is anything to compare with', () => {
    expect(causesOf(after, undefined).find(({ id }) => id === 'stalled')).toMatchObject({
      recent: '–',
      total: '3',
      tone: 'calm',
    });
  });
});
