import { describe, expect, it } from 'vitest';
import { FakeClock } from '../../kernel/index.ts';
import { spread } from './spread.ts';

function ends(count: number): { clock: FakeClock; done: number[] } {
  const clock = new FakeClock();
  const done: number[] = [];
  spread(
    clock,
    Array.from({ length: count }, (_, at) => at),
    (one) => done.push(one),
  );
  return { clock, done };
}

describe('streams that end together', () => {
  it('end at once when they are few', () => {
    expect(ends(20).done).toHaveLength(20);
    expect(ends(0).done).toEqual([]);
  });

  it('end evenly over a time that grows with their number, each once', () => {
    // fails when they are all acted upon in the first step
    const { clock, done } = ends(5020);
    expect(done.length).toBeLessThan(100);
    clock.advance(5000);
    expect(done.length).toBeGreaterThan(2400);
    expect(done.length).toBeLessThan(2600);
    clock.advance(5000);
    expect(done).toEqual(Array.from({ length: 5020 }, (_, at) => at));
    expect(clock.armed).toBe(0);
  });

  it('end within half a minute, however many they are', () => {
    const { clock, done } = ends(100_000);
    clock.advance(30_000);
    expect(done).toHaveLength(100_000);
  });
});
