import { describe, expect, it } from 'vitest';
import { ShrinkGuard } from './lapi-guard.ts';

const none = (): number => 0;

describe('the guard against a sudden shrink', () => {
  it.each([
    ['as many', 1000, 1000],
    ['half of them', 1000, 500],
    ['few of few', 99, 1],
    ['more than before', 1000, 30_000],
    ['nothing when nothing was held', 0, 0],
  ])('believes %s', (_, held, got) => {
    const guard = new ShrinkGuard();
    expect(guard.believes({ held, got, explained: none })).toBe(true);
    expect(guard.doubts).toBe(false);
  });

  it.each([
    ['less than half', 1000, 499],
    ['less than half of a hundred', 100, 49],
    ['nothing', 100_000, 0],
    ['nothing when one was held', 1, 0],
  ])('doubts %s', (_, held, got) => {
    const guard = new ShrinkGuard();
    expect(guard.believes({ held, got, explained: none })).toBe(false);
    expect(guard.doubts).toBe(true);
  });

  it('believes what is explained, and asks for an explanation only then', () => {
    const guard = new ShrinkGuard();
    expect(guard.believes({ held: 1000, got: 100, explained: () => 850 })).toBe(true);
    expect(guard.believes({ held: 1000, got: 0, explained: () => 1000 })).toBe(true);
    expect(guard.believes({ held: 1000, got: 100, explained: () => 700 })).toBe(false);
    const untouched = new ShrinkGuard();
    const explained = (): number => expect.fail('it was asked');
    expect(untouched.believes({ held: 1000, got: 900, explained })).toBe(true);
  });

  it('believes the second answer of about the same size', () => {
    const guard = new ShrinkGuard();
    expect(guard.believes({ held: 10_000, got: 1000, explained: none })).toBe(false);
    expect(guard.believes({ held: 10_000, got: 1100, explained: none })).toBe(true);
    expect(guard.doubts).toBe(false);
    // it was believed once, not for ever
    expect(guard.believes({ held: 10_000, got: 1100, explained: none })).toBe(false);
  });

  // fails when `aboutTheSame` always holds
  it('goes on doubting while answers differ', () => {
    const guard = new ShrinkGuard();
    expect(guard.believes({ held: 10_000, got: 1000, explained: none })).toBe(false);
    expect(guard.believes({ held: 10_000, got: 2000, explained: none })).toBe(false);
    expect(guard.believes({ held: 10_000, got: 0, explained: none })).toBe(false);
    expect(guard.believes({ held: 10_000, got: 5, explained: none })).toBe(true);
  });

  it('forgets its doubt when all are back', () => {
    const guard = new ShrinkGuard();
    expect(guard.believes({ held: 10_000, got: 0, explained: none })).toBe(false);
    expect(guard.believes({ held: 10_000, got: 9990, explained: none })).toBe(true);
    expect(guard.believes({ held: 10_000, got: 0, explained: none })).toBe(false);
  });
});
