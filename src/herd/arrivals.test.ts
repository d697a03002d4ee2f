import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arrivalsOf, mixOf, rolesOf, seededRandom } from './arrivals.ts';
import { ROLES } from './words.ts';

const clients = fc.integer({ min: 1, max: 2000 });

describe('arrivalsOf', () => {
  it('spreads them evenly over the time, the first at once and none at its end', () => {
    fc.assert(
      fc.property(clients, fc.integer({ min: 0, max: 60_000 }), (count, overMs) => {
        const arrivals = arrivalsOf(count, overMs);
        expect(arrivals).toHaveLength(count);
        expect(arrivals[0]).toBe(0);
        const gap = overMs / count;
        for (const [at, ms] of arrivals.entries()) expect(ms).toBeCloseTo(at * gap, 6);
      }),
    );
  });
});

describe('rolesOf', () => {
  const shares = fc.record({
    stalled: fc.double({ min: 0, max: 0.4, noNaN: true }),
    slow: fc.double({ min: 0, max: 0.3, noNaN: true }),
    leaving: fc.double({ min: 0, max: 0.3, noNaN: true }),
  });

  it('gives each role its share, to the client, and everybody one', () => {
    fc.assert(
      fc.property(clients, shares, fc.integer(), (count, wanted, seed) => {
        const roles = rolesOf(count, wanted, seededRandom(seed));
        const having = (role: string): number => roles.filter((each) => each === role).length;
        expect(roles).toHaveLength(count);
        for (const role of ['stalled', 'slow'] as const) {
          expect(having(role)).toBe(Math.round(wanted[role] * count));
        }
        // three shares that are rounded up may be more than all: the last of them gets what is left
        expect(Math.abs(having('leaving') - wanted.leaving * count)).toBeLessThanOrEqual(1.5);
        expect(ROLES.reduce((sum, role) => sum + having(role), 0)).toBe(count);
      }),
    );
  });

  it('is the same for the same seed, another for another, and mixed all over the order of arrival', () => {
    const half = { stalled: 0.5, slow: 0, leaving: 0 };
    const roles = rolesOf(1000, half, seededRandom(7));
    expect(rolesOf(1000, half, seededRandom(7))).toEqual(roles);
    expect(rolesOf(1000, half, seededRandom(8))).not.toEqual(roles);
    const first = roles.slice(0, 500).filter((role) => role === 'stalled').length;
    expect(first).toBeGreaterThan(200);
    expect(first).toBeLessThan(300);
  });
});

describe('mixOf', () => {
  it('is never behind any share by more than one', () => {
    const weights = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 300 }), weights, (count, given) => {
        const total = given.reduce((sum, weight) => sum + weight, 0);
        const mixed = mixOf(
          count,
          given.map((weight, value) => ({ value, weight })),
        );
        const seen = given.map(() => 0);
        for (const [at, value] of mixed.entries()) {
          seen[value]!++;
          for (const [each, weight] of given.entries()) {
            expect(Math.abs(seen[each]! - (weight * (at + 1)) / total)).toBeLessThanOrEqual(given.length);
          }
        }
        for (const [each, weight] of given.entries()) {
          expect(Math.abs(seen[each]! - (weight * count) / total)).toBeLessThan(given.length);
        }
      }),
    );
    expect(
      mixOf(8, [
        { value: 'a', weight: 3 },
        { value: 'b', weight: 1 },
      ]).join(''),
    ).toBe('aabaaaba');
  });
});
