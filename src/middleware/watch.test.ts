import { describe, expect, it } from 'vitest';
import type { Clock } from '../kernel/index.ts';
import type { Meter } from './meter.ts';
import { Watch } from './watch.ts';

const FLOOR = 1000;

/** A response whose counts are set by hand. */
class FakeMeter implements Meter {
  givenBytes = 0;
  takenBytes = 0;
  taken(): number {
    return this.takenBytes;
  }
  given(): number {
    return this.givenBytes;
  }
  waits(): boolean {
    return this.givenBytes > this.takenBytes;
  }
}

/** Time and turns by hand: timers fire when `sweep` says so, however late that is. */
class Bench implements Clock {
  ms = 0;
  timers: (() => void)[] = [];
  turns: (() => void)[] = [];
  readonly cuts: string[] = [];
  readonly meter = new FakeMeter();
  readonly watch = new Watch({
    clock: this,
    sweepMs: 250,
    handlerMsMax: 60_000,
    nextTurn: (run) => void this.turns.push(run),
  });
  readonly watched = this.watch.add(
    this.meter,
    { floorBytesPerSecond: FLOOR, slackMs: 2000, creditMs: 1000 },
    (reason) => void this.cuts.push(`${reason} at ${this.ms}`),
  );

  now(): number {
    return this.ms;
  }

  after(_delayMs: number, run: () => void): { cancel(): void } {
    this.timers.push(run);
    return { cancel: () => (this.timers = this.timers.filter((other) => other !== run)) };
  }

  /** The loop turns `afterMs` later, timers first. */
  sweep(afterMs = 250, beforeJudgement: () => void = () => undefined): void {
    this.ms += afterMs;
    for (const run of this.timers.splice(0)) run();
    beforeJudgement();
    while (this.turns.length > 0) for (const run of this.turns.splice(0)) run();
  }

  sweepUntil(ms: number, each: () => void = () => undefined): void {
    while (this.ms < ms && this.cuts.length === 0) {
      each();
      this.sweep();
    }
  }
}

describe('a reader', () => {
  // Fails when a look does not credit what was taken since the look before.
  it('that takes the floor rate is never cut, however large the response', () => {
    const bench = new Bench();
    bench.meter.givenBytes = 1_000_000;
    bench.sweepUntil(100_000, () => (bench.meter.takenBytes += FLOOR / 4));
    expect(bench.cuts).toEqual([]);
  });

  it('that takes half of it is cut when it has fallen behind by the slack', () => {
    const bench = new Bench();
    bench.meter.givenBytes = 1_000_000;
    bench.sweepUntil(100_000, () => (bench.meter.takenBytes += FLOOR / 8));
    expect(bench.cuts).toEqual(['stalled at 4750']);
  });

  it('that stops is cut within slack and credit, whatever it took before', () => {
    const bench = new Bench();
    bench.meter.givenBytes = 100_000_000;
    bench.sweepUntil(1000, () => (bench.meter.takenBytes += 1_000_000));
    bench.sweepUntil(100_000);
    expect(bench.cuts).toEqual(['stalled at 4250']);
  });

  // Rule 9. Fails when a look charges the time before it although nothing waited.
  it('is charged nothing while nothing waits for it', () => {
    const bench = new Bench();
    bench.sweepUntil(50_000);
    bench.meter.givenBytes = 100;
    bench.sweepUntil(52_000);
    expect(bench.cuts).toEqual([]);
  });

  // Rule 9. Fails when the watch takes the clock instead of fair time.
  it('is not charged for a loop that was blocked', () => {
    const bench = new Bench();
    bench.meter.givenBytes = 1_000_000;
    bench.sweep();
    bench.sweep(30_000);
    expect(bench.cuts).toEqual([]);
  });

  // Rule 9. Fails when #sweep cuts at once: timers run before the loop polls its sockets.
  it('that seems to have stopped is looked at again after a poll', () => {
    const bench = new Bench();
    bench.meter.givenBytes = 1_000_000;
    for (let look = 0; look < 9; look++) bench.sweep();
    bench.sweep(250, () => (bench.meter.takenBytes += 100_000));
    expect(bench.cuts).toEqual([]);
  });

  it('that needs more than the most time is cut as capped', () => {
    const bench = new Bench();
    bench.watch.remove(bench.watched);
    const deadline = { floorBytesPerSecond: FLOOR, slackMs: 2000, creditMs: 1000, capMs: 10_000 };
    bench.watch.add(bench.meter, deadline, (reason) => void bench.cuts.push(`${reason} at ${bench.ms}`));
    bench.meter.givenBytes = 1_000_000;
    bench.sweepUntil(200_000, () => (bench.meter.takenBytes += FLOOR / 4));
    expect(bench.cuts).toEqual(['capped at 10500']);
  });
});

describe('a handler', () => {
  it('that writes nothing while nothing waits for its client is overdue', () => {
    const bench = new Bench();
    bench.sweepUntil(100_000);
    expect(bench.cuts).toEqual(['overdue at 60250']);
  });

  // Rule 9. Fails when silence is measured by the clock instead of fair time.
  it('is not overdue because the loop was blocked, or the process stopped', () => {
    const bench = new Bench();
    bench.sweep();
    bench.sweep(120_000);
    expect(bench.cuts).toEqual([]);
  });

  // Fails when what was written does not count.
  it('that writes now and then is not', () => {
    const bench = new Bench();
    for (let second = 0; second < 300; second += 50) {
      bench.meter.givenBytes += 10;
      bench.meter.takenBytes += 10;
      bench.sweepUntil((second + 50) * 1000);
    }
    expect(bench.cuts).toEqual([]);
  });

  // Fails when the time of a reader that the engine guards, or waits for, is taken for the handler's.
  it('that handed a source over is watched only while the source is waited for', () => {
    const bench = new Bench();
    let reading = false;
    bench.watched.delivering = () => reading;
    bench.meter.givenBytes = 1000;
    bench.sweepUntil(200_000);
    expect(bench.cuts).toEqual([]);
    reading = true;
    bench.sweepUntil(400_000);
    expect(bench.cuts).toEqual(['overdue at 260250']);
  });
});

it('nothing is armed while nothing is watched', () => {
  const bench = new Bench();
  expect(bench.timers.length).toBe(1);
  bench.watch.remove(bench.watched);
  expect(bench.timers.length).toBe(0);
});

// Fails when #judge does not ask whether it is still watched.
it('what ended between a look and its judgement is not cut', () => {
  const bench = new Bench();
  bench.meter.givenBytes = 1000;
  for (let look = 0; look < 9; look++) bench.sweep();
  bench.sweep(250, () => bench.watch.remove(bench.watched));
  expect(bench.cuts).toEqual([]);
});
