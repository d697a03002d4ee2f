import { describe, expect, it } from 'vitest';
import { type Decision, Ledger } from '../dataset/decisions/index.ts';
import { HeldRows } from './lapi-held.ts';

const HOUR_MS = 3_600_000;

function ban(id: number, value: string, more: Partial<Decision> = {}): Decision {
  const said = { uuid: undefined, origin: 'CAPI', scenario: 'ssh', scope: 'Ip', type: 'ban', simulated: false };
  return { ...said, id, value, untilMs: HOUR_MS, ...more };
}

describe('what should still be there', () => {
  // fails when any of the four conditions is left out
  it('has neither ended nor been deleted, and counts each scope, type and value once beside the rows', async () => {
    const ledger = new Ledger({ sources: 2 });
    const added = [
      ban(1, '192.0.2.1'),
      ban(2, '192.0.2.1'),
      ban(3, '192.0.2.1', { type: 'captcha' }),
      ban(4, '192.0.2.4'),
      ban(5, '192.0.2.5', { untilMs: 1000 }),
      ban(6, '192.0.2.6', { simulated: true }),
    ];
    await ledger.patch(1, { added, removedIds: [] }, { nowMs: 0, toleranceMs: 0 });
    await ledger.patch(0, { added: [ban(9, '192.0.2.9')], removedIds: [] }, { nowMs: 0, toleranceMs: 0 });
    const held = new HeldRows(ledger, 1);
    const lasting = (over: number[], nowMs: number, simulatedToo: boolean): unknown =>
      held.lasting({ over: new Set(over), nowMs, simulatedToo });
    expect(lasting([], 0, false)).toEqual({ rows: 5, values: 4 });
    expect(lasting([4], 0, false)).toEqual({ rows: 4, values: 3 });
    expect(lasting([], 1000, false)).toEqual({ rows: 4, values: 3 });
    expect(lasting([], 0, true)).toEqual({ rows: 6, values: 5 });
  });
});
