import fc from 'fast-check';
import { expect, it } from 'vitest';
import { retryAfter } from './retry-after.ts';

const LOW = (): number => 0;
const HIGH = (): number => 0.999_999;

it.each([
  // callers, per second: from, to
  [0, 100, 1, 2],
  [100, 100, 1, 2],
  [101, 100, 2, 4],
  [300, 100, 3, 6],
  [400, 100, 4, 8],
  [500, 100, 5, 10],
  [1_000_000, 1, 5, 10],
])('with %i callers at %i a second, says between %i and %i', (queued, perSecond, from, to) => {
  expect(retryAfter(queued, perSecond / 1000, LOW)).toBe(from);
  expect(retryAfter(queued, perSecond / 1000, HIGH)).toBe(to);
});

it('says two to four when it knows no rate', () => {
  expect([retryAfter(500, undefined, LOW), retryAfter(500, undefined, HIGH)]).toEqual([2, 4]);
});

it('is always a whole number from 1 to 10', () => {
  const random = fc.double({ min: 0, max: 1, noNaN: true });
  const perMs = fc.option(fc.double({ min: 0, minExcluded: true, noNaN: true }), { nil: undefined });
  fc.assert(
    fc.property(fc.nat(), perMs, random, (queued, rate, at) => {
      const seconds = retryAfter(queued, rate, () => at);
      expect(Number.isInteger(seconds) && seconds >= 1 && seconds <= 10).toBe(true);
    }),
  );
});

it('spreads those that are refused together evenly', () => {
  const counts = new Map<number, number>();
  for (let caller = 0; caller < 600; caller++) {
    const seconds = retryAfter(1e6, 0.001, () => (caller + 0.5) / 600);
    counts.set(seconds, (counts.get(seconds) ?? 0) + 1);
  }
  expect([...counts]).toEqual([5, 6, 7, 8, 9, 10].map((seconds) => [seconds, 100]));
});
