import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Lease } from './decision-lease.ts';

const H = 3_600_000;

describe('a lease', () => {
  it('begins twice in a duration, at the same moments for everybody', () => {
    const lease = new Lease(4 * H);
    expect([0, 1, 2 * H - 1].map((nowMs) => lease.untilMs(nowMs))).toEqual([4 * H, 4 * H, 4 * H]);
    expect(lease.untilMs(2 * H)).toBe(6 * H);
    expect(new Lease(4 * H).untilMs(3 * H)).toBe(6 * H);
    expect([lease.restMs(2 * H), lease.restMs(3 * H), lease.restMs(4 * H - 1)]).toEqual([2 * H, H, 1]);
  });

  it('lasts for half of the duration at least and for all of it at most, and never goes back while time goes on', () => {
    const step = fc.integer({ min: 0, max: 10 * H });
    fc.assert(
      fc.property(fc.integer({ min: 1000, max: 100 * H }), fc.array(step, { maxLength: 20 }), (durationMs, steps) => {
        const lease = new Lease(durationMs);
        let nowMs = 1_700_000_000_000;
        let last = 0;
        for (const passed of steps) {
          nowMs += passed;
          const untilMs = lease.untilMs(nowMs);
          expect(untilMs - nowMs).toBeGreaterThanOrEqual(durationMs / 2 - 0.001);
          expect(untilMs - nowMs).toBeLessThanOrEqual(durationMs + 0.001);
          expect(untilMs).toBeGreaterThanOrEqual(last);
          expect(lease.restMs(nowMs)).toBeGreaterThan(0);
          last = untilMs;
        }
      }),
    );
  });

  // Fails when #untilMs is not kept (the first), or is kept whatever the clock says (the second).
  it('does not end earlier when the clock is set back a little, and is not kept for years when it had been years ahead', () => {
    const lease = new Lease(4 * H);
    expect(lease.untilMs(100 * H)).toBe(104 * H);
    expect(lease.untilMs(100 * H - 1)).toBe(104 * H);
    expect(lease.untilMs(99 * H)).toBe(104 * H);
    expect(lease.untilMs(10 * H)).toBe(14 * H);
  });
});
