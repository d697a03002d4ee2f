import { describe, expect, it } from 'vitest';
import { Schedule } from './lapi-schedule.ts';

const INTERVAL_MS = 10_000;
const RESYNC_MS = 3_600_000;
const few = { rows: 3, unknown: 0 };
const bulk = { rows: 1000, unknown: 0 };
const broken = { refused: false, retryAfterMs: 0 };

function begin(random: () => number = () => 0.5): Schedule {
  const schedule = new Schedule({ intervalMs: INTERVAL_MS, resyncMs: RESYNC_MS, random });
  expect(schedule.next(0)).toEqual({ kind: 'full', atMs: 0, why: 'start' });
  schedule.fullBegins();
  schedule.fullDone(0);
  return schedule;
}

describe('the schedule of pulls', () => {
  it('asks for everything at first, then for changes, and for everything every so often', () => {
    const schedule = begin();
    let nowMs = 0;
    for (; schedule.next(nowMs).kind === 'delta'; nowMs += INTERVAL_MS) {
      expect(schedule.next(nowMs).atMs).toBe(nowMs + INTERVAL_MS);
      schedule.deltaDone(nowMs + INTERVAL_MS, few);
    }
    expect(nowMs).toBe(RESYNC_MS - INTERVAL_MS);
    expect(schedule.next(nowMs)).toEqual({ kind: 'full', atMs: RESYNC_MS, why: 'as planned' });
  });

  it.each([
    [0, 0.9],
    [1, 1.1],
  ])('plans the next resync with a jitter (%s)', (random, factor) => {
    const schedule = begin(() => random);
    for (let nowMs = 0; nowMs <= 0.9 * RESYNC_MS - 1; nowMs += INTERVAL_MS) schedule.deltaDone(nowMs, few);
    schedule.deltaDone(factor * RESYNC_MS - 1, few);
    expect(schedule.next(factor * RESYNC_MS - 1).atMs).toBeCloseTo(factor * RESYNC_MS, 3);
  });

  // fails when failed() does not ask for a full answer
  it('asks for everything after a failure, since what a lost answer held is not told twice', () => {
    const schedule = begin();
    const waitMs = schedule.failed(10_000, broken);
    expect(schedule.next(10_000)).toEqual({ kind: 'full', atMs: 10_000 + waitMs, why: 'an answer was lost' });
  });

  it('waits longer after each failure, up to a minute, and begins anew after a good answer', () => {
    const waits = (random: number): number[] => {
      const schedule = begin(() => random);
      return Array.from({ length: 9 }, () => schedule.failed(0, broken));
    };
    expect(waits(0)).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000, 30_000]);
    expect(waits(1)).toEqual([2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000]);
    const schedule = begin(() => 1);
    schedule.failed(0, broken);
    schedule.failed(0, broken);
    schedule.fullDone(0);
    expect(schedule.failed(0, broken)).toBe(2000);
  });

  it('keeps waiting when something is demanded meanwhile', () => {
    const schedule = begin();
    const waitMs = schedule.failed(0, broken);
    schedule.demand(1, 'somebody asked');
    expect(schedule.next(1).atMs).toBe(waitMs);
  });

  it('comes back once soon after its key was refused, then slowly', () => {
    const schedule = begin(() => 1);
    expect(schedule.failed(0, { refused: true, retryAfterMs: 0 })).toBe(5000);
    expect(schedule.failed(5000, { refused: true, retryAfterMs: 0 })).toBe(60_000);
  });

  it('waits as long as it is told to, up to a minute', () => {
    expect(begin().failed(0, { refused: false, retryAfterMs: 20_000 })).toBe(20_000);
    expect(begin().failed(0, { refused: false, retryAfterMs: 1e9 })).toBe(60_000);
  });

  it('asks for everything when a bulk import has calmed down, and once more a while later', () => {
    const schedule = begin();
    schedule.deltaDone(10_000, bulk);
    expect(schedule.next(10_000).kind).toBe('delta');
    schedule.deltaDone(20_000, bulk);
    expect(schedule.next(20_000).kind).toBe('delta');
    schedule.deltaDone(30_000, few);
    expect(schedule.next(30_000)).toEqual({ kind: 'full', atMs: 30_000, why: 'a bulk import' });
    schedule.fullBegins();
    schedule.fullDone(31_000);
    for (const nowMs of [31_000, 41_000, 51_000, 61_000]) {
      expect(schedule.next(nowMs).kind).toBe('delta');
      schedule.deltaDone(nowMs + INTERVAL_MS, few);
    }
    expect(schedule.next(71_000)).toEqual({ kind: 'full', atMs: 76_000, why: 'once more after a bulk import' });
    schedule.fullBegins();
    schedule.fullDone(76_000);
    schedule.deltaDone(86_000, few);
    expect(schedule.next(86_000).kind).toBe('delta');
  });

  it('asks for everything at once when the changes do not fit, and twice more when it is calm', () => {
    const schedule = begin();
    schedule.deltaTooLong(10_000);
    expect(schedule.next(10_000)).toEqual({ kind: 'full', atMs: 10_000, why: 'a bulk import' });
    schedule.fullBegins();
    schedule.fullDone(11_000);
    schedule.deltaDone(21_000, few);
    expect(schedule.next(21_000).kind).toBe('full');
  });

  it('asks for everything when something was deleted that it was never told of, a minute after the last time at the earliest', () => {
    const schedule = begin();
    schedule.deltaDone(10_000, { rows: 0, unknown: 1 });
    expect(schedule.next(50_000).kind).toBe('delta');
    expect(schedule.next(60_000)).toMatchObject({ kind: 'full', why: 'a deletion of what was never told' });
    schedule.fullBegins();
    schedule.fullDone(60_000);
    schedule.deltaDone(200_000, { rows: 0, unknown: 1 });
    expect(schedule.next(200_000)).toMatchObject({ kind: 'full', atMs: 200_000 });
  });

  it('asks for everything after a gap', () => {
    const schedule = begin();
    expect(schedule.next(300_000).kind).toBe('delta');
    expect(schedule.next(300_001)).toMatchObject({ kind: 'full', why: 'a gap' });
  });

  it('asks again soon after an answer that was not believed, later and later, and for changes in between', () => {
    const schedule = begin(() => 0);
    expect(schedule.doubted(0)).toBe(5000);
    expect(schedule.next(0)).toEqual({ kind: 'full', atMs: 5000, why: 'to confirm a short answer' });
    expect([schedule.doubted(5000), schedule.doubted(5000), schedule.doubted(5000)]).toEqual([10_000, 20_000, 40_000]);
    expect(schedule.next(5000).kind).toBe('delta');
    expect(schedule.doubted(5000)).toBe(60_000);
    schedule.fullDone(5000);
    expect(schedule.doubted(5000)).toBe(5000);
  });

  // fails when #wantFull does not look at #confirmAtMs: a client that asks for a scope would confirm a failure with itself
  it('confirms an answer that was not believed no sooner for what is wanted meanwhile', () => {
    const schedule = begin(() => 0);
    expect(schedule.doubted(100_000)).toBe(5000);
    schedule.demand(100_001, 'a scope that was asked for');
    schedule.deltaTooLong(100_002);
    expect(schedule.next(100_003)).toEqual({ kind: 'full', atMs: 105_000, why: 'to confirm a short answer' });
    schedule.fullBegins();
    schedule.fullDone(105_000);
    schedule.demand(105_001, 'another');
    expect(schedule.next(105_001)).toEqual({ kind: 'full', atMs: 105_001, why: 'another' });
  });

  // fails when fullDone() drops what was demanded since fullBegins()
  it('does not take an answer that was under way for one that was demanded meanwhile', () => {
    const schedule = begin();
    schedule.demand(10, 'one');
    expect(schedule.next(10)).toEqual({ kind: 'full', atMs: 10, why: 'one' });
    schedule.fullBegins();
    schedule.demand(20, 'two');
    schedule.fullDone(30);
    expect(schedule.next(30)).toMatchObject({ kind: 'full', why: 'two' });
    schedule.fullBegins();
    schedule.fullDone(40);
    expect(schedule.next(40).kind).toBe('delta');
  });
});
