import { describe, expect, it } from 'vitest';
import { type Lasting, type Shrink, ShrinkGuard } from './lapi-guard.ts';

/** All of what was held should be there, each of another value. */
function all(held: number, got: number): Shrink {
  return { held, got, lasting: () => ({ rows: held, values: held }) };
}

describe('the guard against a sudden shrink', () => {
  it.each([
    ['as many', 1000, 1000],
    ['nine tenths', 1000, 900],
    ['few of few', 99, 1],
    ['more than before', 1000, 30_000],
    ['nothing when nothing was held', 0, 0],
  ])('believes %s', (_, held, got) => {
    const guard = new ShrinkGuard();
    expect(guard.believes(all(held, got))).toBe(true);
    expect(guard.doubts).toBe(false);
  });

  it.each([
    ['less than nine tenths', 1000, 899],
    ['the first page of fifteen thousand', 15_000, 10_000],
    ['the first page of fifty thousand', 50_000, 30_000],
    ['less than nine tenths of a hundred', 100, 89],
    ['nothing', 100_000, 0],
    ['nothing when one was held', 1, 0],
  ])('doubts %s', (_, held, got) => {
    const guard = new ShrinkGuard();
    expect(guard.believes(all(held, got))).toBe(false);
    expect(guard.doubts).toBe(true);
  });

  it('believes what is explained, and asks for an explanation only then', () => {
    const guard = new ShrinkGuard();
    const believes = (got: number, rows: number): boolean =>
      guard.believes({ held: 1000, got, lasting: () => ({ rows, values: rows }) });
    expect(believes(100, 110)).toBe(true);
    expect(believes(0, 0)).toBe(true);
    expect(believes(100, 300)).toBe(false);
    const untouched = new ShrinkGuard();
    const lasting = (): never => expect.fail('it was asked');
    expect(untouched.believes({ held: 1000, got: 900, lasting })).toBe(true);
  });

  // fails when rows are held to the same share as values: a block list is told anew every two hours, under other ids
  it('believes that a list was imported anew, which is held twice until then', () => {
    const lasting = (): Lasting => ({ rows: 30_100, values: 15_100 });
    expect(new ShrinkGuard().believes({ held: 30_100, got: 15_100, lasting })).toBe(true);
    expect(new ShrinkGuard().believes({ held: 30_100, got: 10_000, lasting })).toBe(false);
  });

  // fails when only values count
  it('doubts less than half, of however few values they are', () => {
    const lasting = (): Lasting => ({ rows: 1000, values: 10 });
    expect(new ShrinkGuard().believes({ held: 1000, got: 499, lasting })).toBe(false);
    expect(new ShrinkGuard().believes({ held: 1000, got: 500, lasting })).toBe(true);
  });

  it('believes the second answer of about the same size', () => {
    const guard = new ShrinkGuard();
    expect(guard.believes(all(10_000, 1000))).toBe(false);
    expect(guard.believes(all(10_000, 1100))).toBe(true);
    expect(guard.doubts).toBe(false);
    // it was believed once, not for ever
    expect(guard.believes(all(10_000, 1100))).toBe(false);
  });

  // fails when `aboutTheSame` always holds
  it('goes on doubting while answers differ', () => {
    const guard = new ShrinkGuard();
    expect(guard.believes(all(10_000, 1000))).toBe(false);
    expect(guard.believes(all(10_000, 2000))).toBe(false);
    expect(guard.believes(all(10_000, 0))).toBe(false);
    expect(guard.believes(all(10_000, 5))).toBe(true);
  });

  it('forgets its doubt when all are back', () => {
    const guard = new ShrinkGuard();
    expect(guard.believes(all(10_000, 0))).toBe(false);
    expect(guard.believes(all(10_000, 9990))).toBe(true);
    expect(guard.believes(all(10_000, 0))).toBe(false);
  });
});
