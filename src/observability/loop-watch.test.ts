import { describe, expect, it, vi } from 'vitest';
import { FakeClock, systemClock, type Timer } from '../kernel/index.ts';
import { LoopWatch } from './loop-watch.ts';
import { ProcessMetrics } from './metrics-process.ts';

/** Longer than anything else is on a machine that is busy, as a rule. */
const BLOCK_MS = 200;
const SEEN_MS_MIN = 170;

function block(): void {
  const untilMs = performance.now() + BLOCK_MS;
  while (performance.now() < untilMs);
}

describe('how late the loop is', () => {
  // Fails when `#lookFirst` is not called by `reset`: Node's own histogram has nothing of it.
  it('is seen of what begins right after a reset', async () => {
    const watch = new LoopWatch(systemClock);
    await vi.waitFor(() => expect(watch.percentileMs(50)).toBeGreaterThan(0), { timeout: 5000 });
    watch.reset();
    block();
    await vi.waitFor(() => expect(watch.maxMs).toBeGreaterThan(SEEN_MS_MIN));
    watch.close();
  });

  it('is seen of what begins later, and forgotten by a reset', async () => {
    const watch = new LoopWatch(new FakeClock());
    // the first look of the histogram
    await vi.waitFor(() => expect(watch.percentileMs(50)).toBeGreaterThan(0), { timeout: 5000 });
    block();
    await vi.waitFor(() => expect(watch.maxMs).toBeGreaterThan(SEEN_MS_MIN));
    watch.reset();
    expect([watch.maxMs, watch.percentileMs(99)]).toEqual([0, 0]);
    watch.close();
  });

  it('is the longest that anybody saw', () => {
    const clock = new FakeClock();
    const watch = new LoopWatch(clock);
    for (const lateMs of [3000, 7000, 5000]) watch.saw(lateMs);
    expect(watch.maxMs).toBe(7000);
    watch.reset();
    expect(watch.maxMs).toBeLessThan(7000);
    watch.close();
    expect(clock.armed).toBe(0);
  });
});

describe('the longest of a process', () => {
  function setUp() {
    const fake = new FakeClock();
    const late = { firstMs: 0, endMs: 0 };
    const after = (ms: number, run: () => void): Timer => fake.after(ms + (ms < 1000 ? late.firstMs : late.endMs), run);
    const metrics = new ProcessMetrics({ now: () => fake.now(), after }, '1.0.0');
    return { fake, late, metrics, maxMs: () => Math.round(metrics.loopDelay().maxMs) };
  }

  // Fails when only the last window is looked at: who reads each 15 s would miss a third of them.
  it('is that of the window under way as well', () => {
    const { fake, late, metrics, maxMs } = setUp();
    late.firstMs = 4000;
    fake.advance(10_000 + 4019);
    expect(maxMs()).toBeLessThan(1000);
    fake.advance(1);
    expect(maxMs()).toBe(4000);
    late.firstMs = 0;
    fake.advance(10_000);
    expect(maxMs()).toBe(4000);
    fake.advance(10_000);
    expect(maxMs()).toBeLessThan(1000);
    metrics.close();
    expect(fake.armed).toBe(0);
  });

  // Fails when a window does not look at how late its own end is.
  it('is that of the end of a window as well', () => {
    const { fake, late, metrics, maxMs } = setUp();
    late.endMs = 4000;
    fake.advance(10_000);
    late.endMs = 0;
    fake.advance(14_000);
    expect(maxMs()).toBe(4000);
    metrics.close();
  });
});
