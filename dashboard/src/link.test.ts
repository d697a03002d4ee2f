import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { retryMs } from './link.ts';

describe('the wait before the next attempt', () => {
  it('doubles with each that failed, up to a bound', () => {
    expect([0, 1, 2, 3, 4, 5, 6, 1000].map((failures) => retryMs(failures, 1))).toEqual([
      500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000,
    ]);
  });

  it('is spread, so that pages do not come back all at once, and never short', () => {
    fc.assert(
      fc.property(fc.nat({ max: 100 }), fc.double({ min: 0, max: 1, noNaN: true }), (failures, random) => {
        const ms = retryMs(failures, random);
        expect(ms).toBeGreaterThanOrEqual(retryMs(failures, 1) / 2);
        expect(ms).toBeLessThanOrEqual(15_000);
      }),
    );
  });
});
