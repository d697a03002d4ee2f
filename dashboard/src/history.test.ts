import { describe, expect, it } from 'vitest';
import { QUIET } from '../../test/support/dashboard-state.ts';
import type { State } from './contract.ts';
import { History } from './history.ts';

/** A state so many seconds after the first one. */
function at(seconds: number, { full = 0, stalled = 0, admitted = 0, bytes = 0 } = {}): State {
  return {
    ...QUIET,
    atMs: QUIET.atMs + seconds * 1000,
    budget: { ...QUIET.budget, admitted, refused: { ...QUIET.budget.refused, full } },
    deliveries: { ...QUIET.deliveries, bytes, ended: { ...QUIET.deliveries.ended, stalled } },
  };
}

function historyOf(...states: readonly State[]): History {
  const history = new History();
  for (const state of states) history.take(state);
  return history;
}

describe('the last minute of counters', () => {
  it('is not known before anything was told, and empty at first', () => {
    expect(new History().recent()).toBeUndefined();
    const first = historyOf(at(0, { full: 40 })).recent();
    expect([first?.overMs, first?.refused.full, first?.admittedPerSecond]).toEqual([0, 0, 0]);
  });

  it('says how much of a minute it covers while it is young', () => {
    const recent = historyOf(at(0, { full: 40 }), at(12, { full: 45, stalled: 2 })).recent();
    expect([recent?.overMs, recent?.refused.full, recent?.ended.stalled]).toEqual([12_000, 5, 2]);
  });

  // Fails when samples of before the minute are never dropped.
  it('is a minute, not more, once it is old enough', () => {
    const states = Array.from({ length: 200 }, (_, second) => at(second, { full: second * 3 }));
    const recent = historyOf(...states).recent();
    expect([recent?.overMs, recent?.refused.full]).toEqual([60_000, 180]);
  });

  // Fails when the number of samples has no bound.
  it('stays small however often it is told', () => {
    const states = Array.from({ length: 5000 }, (_, tenth) => at(tenth / 100, { full: tenth }));
    expect(historyOf(...states).recent()?.overMs).toBe(630);
  });

  // Fails when a process that started anew is taken for the one before.
  it('begins anew with the process, and when its clock is set back', () => {
    const restarted: State = { ...at(30, { full: 1 }), startedAtMs: QUIET.startedAtMs + 1 };
    expect(historyOf(at(0, { full: 500 }), restarted).recent()?.refused.full).toBe(0);
    expect(historyOf(at(50, { full: 500 }), at(10, { full: 501 })).recent()?.overMs).toBe(0);
  });

  it('has rates of the last five seconds', () => {
    const states = Array.from({ length: 20 }, (_, second) =>
      at(second, { admitted: second < 10 ? 0 : (second - 9) * 8, bytes: second * 100 }),
    );
    const recent = historyOf(...states).recent();
    expect([recent?.admittedPerSecond, recent?.bytesPerSecond]).toEqual([8, 100]);
  });
});
