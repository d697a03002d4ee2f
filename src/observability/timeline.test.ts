import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { Limiter, type LimiterStats } from '../admission/index.ts';
import { Deliveries } from '../delivery/index.ts';
import { type Clock, FakeClock } from '../kernel/index.ts';
import { type Bucket, type Sample, TimelineRing } from './timeline.ts';
import { type TimelineParts, TimelineRecorder } from './timeline-recorder.ts';

const GAUGES = ['held', 'waiting', 'parked', 'streams', 'loopMaxMs', 'rssBytes'] as const;
const COUNTERS = ['admitted', 'completed', 'cut', 'gone', 'refused', 'bytes'] as const;

function sampleOf(given: Partial<Sample> = {}): Sample {
  const zeros = Object.fromEntries([...GAUGES, ...COUNTERS].map((member) => [member, 0])) as Sample;
  return { ...zeros, ...given };
}

/** A timeline as anybody would write it down: every sample is kept. */
class Model {
  readonly #everyMs: number;
  readonly #buckets: Bucket[] = [];
  #open: Sample[] = [];
  #before: Sample;
  #nextMs: number;

  constructor(first: Sample, everyMs: number) {
    this.#everyMs = everyMs;
    this.#before = first;
    this.#nextMs = everyMs;
  }

  add(sample: Sample, nowMs: number): void {
    this.#open.push(sample);
    if (nowMs < this.#nextMs) return;
    const gauges = GAUGES.map((gauge) => [gauge, Math.max(...this.#open.map((one) => one[gauge]))]);
    const counters = COUNTERS.map((counter) => [counter, sample[counter] - this.#before[counter]]);
    this.#buckets.push({ atMs: 1_000_000 + nowMs, ...Object.fromEntries([...gauges, ...counters]) } as Bucket);
    this.#open = [];
    this.#before = sample;
    while (this.#nextMs <= nowMs) this.#nextMs += this.#everyMs;
  }

  last(count: number): readonly Bucket[] {
    return this.#buckets.slice(-count);
  }
}

describe('a timeline', () => {
  it('is what a list of all samples would give, for any samples at any times', () => {
    const step = fc.record({
      // now and then the process stands still for several buckets
      waitMs: fc.oneof(fc.integer({ min: 1, max: 900 }), fc.integer({ min: 1, max: 9000 })),
      gauges: fc.array(fc.nat(1000), { minLength: GAUGES.length, maxLength: GAUGES.length }),
      more: fc.array(fc.nat(50), { minLength: COUNTERS.length, maxLength: COUNTERS.length }),
    });
    const size = fc.record({
      everyMs: fc.integer({ min: 500, max: 3000 }),
      bucketsMax: fc.integer({ min: 1, max: 9 }),
    });
    fc.assert(
      fc.property(size, fc.array(step, { maxLength: 60 }), ({ everyMs, bucketsMax }, steps) => {
        let sample = sampleOf({ admitted: 7, bytes: 9 });
        const ring = new TimelineRing(sample, 0, { everyMs, bucketsMax });
        const model = new Model(sample, everyMs);
        let nowMs = 0;
        for (const { waitMs, gauges, more } of steps) {
          nowMs += waitMs;
          const counted = COUNTERS.map((counter, at) => [counter, sample[counter] + (more[at] ?? 0)]);
          sample = sampleOf(Object.fromEntries([...GAUGES.map((gauge, at) => [gauge, gauges[at]]), ...counted]));
          ring.add(sample, nowMs, 1_000_000 + nowMs);
          model.add(sample, nowMs);
        }
        const buckets = model.last(bucketsMax);
        const { everyMs: told, ...columns } = ring.timeline();
        expect(told).toBe(everyMs);
        const members = Object.keys(columns) as (keyof Bucket)[];
        expect(members.toSorted()).toEqual(['atMs', ...GAUGES, ...COUNTERS].toSorted());
        const listed = members.map((member) => [member, buckets.map((bucket) => bucket[member])]);
        expect(columns).toEqual(Object.fromEntries(listed));
        expect(ring.last()).toEqual(buckets.at(-1));
      }),
    );
  });

  it('keeps an hour of 2 s each when nothing else is said', () => {
    const ring = new TimelineRing(sampleOf(), 0);
    for (let second = 1; second <= 2 * 1900; second++) ring.add(sampleOf({ held: second }), second * 1000, second);
    const { everyMs, atMs, held } = ring.timeline();
    expect([everyMs, atMs.length]).toEqual([2000, 1800]);
    expect([held[0], held.at(-1)]).toEqual([202, 3800]);
  });
});

describe('the recorder', () => {
  it('looks four times in a bucket, and keeps the largest', () => {
    const clock = new FakeClock();
    const limiter = new Limiter({ name: 'copies', maxConcurrent: 8, maxQueued: 0, waitMsMax: 1000, clock });
    const deliveries = new Deliveries({ clock });
    const parts = { clock, wallNow: () => 5000 + clock.now(), deliveries: () => deliveries.stats(), streams: () => 3 };
    let looks = 0;
    const admission = (): LimiterStats => (looks++, limiter.stats());
    const recorder = new TimelineRecorder({ ...parts, admission, rssBytes: () => 1024 });
    const told: Bucket[] = [];
    recorder.onBucket((bucket) => told.push(bucket));
    clock.advance(900);
    const answer = limiter.tryAcquire();
    clock.advance(200);
    if (answer.admitted) answer.slot.release();
    clock.advance(2899);
    expect(looks).toBe(1 + 7);
    clock.advance(1);
    expect(told).toMatchObject([
      { atMs: 7000, held: 1, admitted: 1, streams: 3, rssBytes: 1024, refused: 0 },
      { atMs: 9000, held: 0, admitted: 0, streams: 3 },
    ]);
    expect(recorder.timeline()).toMatchObject({ atMs: [7000, 9000], held: [1, 0], admitted: [1, 0] });
    recorder.close();
    clock.advance(10_000);
    expect(told).toHaveLength(2);
    expect(clock.armed).toBe(0);
  });

  it('sees how late the event loop was', async () => {
    const clock = new FakeClock();
    const recorder = new TimelineRecorder(partsOf(clock));
    let attempts = 0;
    // the delay is measured by a timer of its own, which must have come once before we block, and once after
    const lookNow = (): void => {
      const untilMs = performance.now() + 150;
      if (++attempts % 2 === 1) while (performance.now() < untilMs);
      else clock.advance(2000);
      expect(Math.max(...recorder.timeline().loopMaxMs)).toBeGreaterThan(100);
    };
    await vi.waitFor(lookNow, { timeout: 4000, interval: 50 });
    recorder.close();
  });

  // Fails when the look does not tell how late it is.
  it('sees that it came late itself', () => {
    const fake = new FakeClock();
    const lateMs = (ms: number): number => (ms < 500 ? 0 : 300);
    const late = { now: () => fake.now(), after: (ms: number, run: () => void) => fake.after(ms + lateMs(ms), run) };
    const recorder = new TimelineRecorder(partsOf(late));
    fake.advance(3000);
    expect(recorder.timeline().loopMaxMs[0]).toBeGreaterThanOrEqual(300);
    recorder.close();
  });
});

/** Where nothing happens. */
function partsOf(clock: Clock): TimelineParts {
  const limiter = Limiter.disabled('copies');
  const deliveries = new Deliveries({ clock });
  return {
    clock,
    wallNow: Date.now,
    admission: () => limiter.stats(),
    deliveries: () => deliveries.stats(),
    streams: () => 0,
  };
}
