import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { curveOf, spreadOf } from './spread.ts';

const values = fc.array(fc.integer({ min: 0, max: 1000 }), { minLength: 1, maxLength: 300 });

/** The definition, counted: the smallest value that at least `percent` of all are no greater than. */
function plainly(all: readonly number[], percent: number): number {
  const enough = all.filter((value) => all.filter((other) => other <= value).length * 100 >= percent * all.length);
  return Math.min(...enough);
}

describe('spreadOf', () => {
  it('says what the definition of a percentile says', () => {
    fc.assert(
      fc.property(values, (all) => {
        const spread = spreadOf(all);
        expect(spread).toEqual({
          count: all.length,
          min: Math.min(...all),
          p50: plainly(all, 50),
          p90: plainly(all, 90),
          p99: plainly(all, 99),
          max: Math.max(...all),
        });
      }),
    );
  });

  it('has nothing to say about nothing', () => {
    expect([spreadOf([]), curveOf([])]).toEqual([null, []]);
  });
});

describe('curveOf', () => {
  it('has a value for each percentile, and never falls', () => {
    fc.assert(
      fc.property(values, (all) => {
        const curve = curveOf(all);
        expect(curve).toHaveLength(101);
        expect([curve[0], curve[50], curve[100]]).toEqual([Math.min(...all), plainly(all, 50), Math.max(...all)]);
        expect(curve).toEqual(curve.toSorted((a, b) => a - b));
      }),
    );
  });
});
