import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Timer } from './clock.ts';
import { FakeClock } from './fake-clock.ts';

describe('FakeClock', () => {
  it('stands still until told to move', () => {
    const clock = new FakeClock(5);
    expect(clock.now()).toBe(5);
    clock.advance(2.5);
    expect(clock.now()).toBe(7.5);
  });

  it('fires a timer when its moment comes, once', () => {
    const clock = new FakeClock();
    const fired: number[] = [];
    clock.after(50, () => fired.push(clock.now()));
    clock.advance(49);
    expect(fired).toEqual([]);
    clock.advance(1);
    clock.advance(1000);
    expect(fired).toEqual([50]);
    expect(clock.armed).toBe(0);
  });

  it('fires each timer at its own moment, and equal moments in the order in which they were armed', () => {
    const clock = new FakeClock(100);
    const fired: string[] = [];
    const note = (name: string) => () => fired.push(`${name}@${clock.now()}`);
    clock.after(30, note('late'));
    clock.after(10, note('first'));
    clock.after(10, note('second'));
    clock.advance(50);
    expect(fired).toEqual(['first@110', 'second@110', 'late@130']);
    expect(clock.now()).toBe(150);
  });

  it('fires within the same step what a firing timer arms', () => {
    const clock = new FakeClock();
    const fired: number[] = [];
    const again = (): void => {
      fired.push(clock.now());
      clock.after(10, again);
    };
    clock.after(10, again);
    clock.advance(35);
    expect(fired).toEqual([10, 20, 30]);
  });

  it('never fires what was called off, even by a timer of the same moment', () => {
    const clock = new FakeClock();
    const fired: string[] = [];
    const timers: Timer[] = [];
    clock.after(10, () => timers[0]?.cancel());
    timers.push(clock.after(10, () => fired.push('second')));
    expect(clock.armed).toBe(2);
    clock.advance(10);
    expect(fired).toEqual([]);
    expect(clock.armed).toBe(0);
  });

  it('treats a delay below zero as none', () => {
    const clock = new FakeClock(10);
    const fired: number[] = [];
    clock.after(-5, () => fired.push(clock.now()));
    clock.advance(0);
    expect(fired).toEqual([10]);
  });

  it('fires in order of time, then of arming, whatever is armed', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20), { maxLength: 30 }), fc.array(fc.nat(7), { maxLength: 10 }), (delays, steps) => {
        const clock = new FakeClock();
        const fired: { delay: number; order: number; atMs: number }[] = [];
        delays.forEach((delay, order) => clock.after(delay, () => fired.push({ delay, order, atMs: clock.now() })));
        for (const step of steps) clock.advance(step);
        const due = delays
          .map((delay, order) => ({ delay, order, atMs: delay }))
          .filter(({ delay }) => delay <= clock.now());
        // with no step taken even a delay of 0 has not fired
        const expected = steps.length === 0 ? [] : due.toSorted((a, b) => a.delay - b.delay || a.order - b.order);
        expect(fired).toEqual(expected);
      }),
    );
  });
});
