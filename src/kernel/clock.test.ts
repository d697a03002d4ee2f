import { describe, expect, it, vi } from 'vitest';
import { systemClock } from './clock.ts';

/** Runs `body` on timers that only the test moves. */
async function withFakeTimers(body: () => void | Promise<void>): Promise<void> {
  vi.useFakeTimers();
  try {
    await body();
  } finally {
    vi.useRealTimers();
  }
}

describe('systemClock', () => {
  it('never goes back and has fractions of a millisecond', () => {
    const readings = Array.from({ length: 1000 }, () => systemClock.now());
    expect(readings).toEqual(readings.toSorted((a, b) => a - b));
    expect(readings.every((reading) => Number.isFinite(reading))).toBe(true);
    expect(readings.some((reading) => !Number.isInteger(reading))).toBe(true);
  });

  it('fires once, not before its delay', () =>
    withFakeTimers(() => {
      const run = vi.fn<() => void>();
      systemClock.after(50, run);
      vi.advanceTimersByTime(49);
      expect(run).not.toHaveBeenCalled();
      vi.advanceTimersByTime(1000);
      expect(run).toHaveBeenCalledTimes(1);
    }));

  it('does not fire once called off, and can be called off twice', () =>
    withFakeTimers(() => {
      const run = vi.fn<() => void>();
      const timer = systemClock.after(50, run);
      timer.cancel();
      timer.cancel();
      vi.advanceTimersByTime(1000);
      expect(run).not.toHaveBeenCalled();
    }));

  // Fails when the Math.min in `after` is removed: Node fires a timer of more than 2^31-1 ms after 1 ms.
  it('takes a delay longer than a timer of Node can have', () =>
    withFakeTimers(() => {
      const run = vi.fn<() => void>();
      const asked = vi.spyOn(globalThis, 'setTimeout');
      systemClock.after(Number.MAX_SAFE_INTEGER, run).cancel();
      expect(asked.mock.calls[0]?.[1]).toBe(2 ** 31 - 1);
      systemClock.after(10, run).cancel();
      expect(asked.mock.calls[1]?.[1]).toBe(10);
    }));

  // Fails when `unref` is removed.
  it('keeps no process alive', () => {
    const before = process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
    const timer = systemClock.after(60_000, () => {});
    expect(process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout')).toHaveLength(before);
    timer.cancel();
  });
});
