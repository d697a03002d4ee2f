import { expect, it } from 'vitest';
import { Backoff } from './backoff.ts';

const waits = (backoff: Backoff, count: number): number[] => Array.from({ length: count }, () => backoff.failed());

it('a wait doubles to its bound, and chance takes up to half of it away', () => {
  expect(waits(new Backoff({ random: () => 0 }), 7)).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  const most = waits(new Backoff({ random: () => 1 - Number.EPSILON }), 7);
  expect(most[0]).toBeCloseTo(500);
  expect(most[6]).toBeCloseTo(15_000);
});

it('waits begin anew after long health alone', () => {
  const backoff = new Backoff({ random: () => 0, firstMs: 10, maxMs: 100, healthyMs: 60 });
  waits(backoff, 3);
  backoff.healthyFor(59);
  expect(backoff.failed()).toBe(80);
  backoff.healthyFor(60);
  expect(waits(backoff, 2)).toEqual([10, 20]);
  backoff.reset();
  expect(backoff.failed()).toBe(10);
});
