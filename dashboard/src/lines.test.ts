import { describe, expect, it } from 'vitest';
import { emptyBucket, timelineOf } from '../../test/support/dashboard-state.ts';
import type { Bucket } from './contract.ts';
import { type Chart, CHARTS, Hour } from './lines.ts';

const chartOf = (id: string): Chart => {
  const chart = CHARTS.find((each) => each.id === id);
  if (chart === undefined) throw new Error(`Cannot test a chart: expected one called ${id}, got none`);
  return chart;
};
const START_MS = 1_000_000;
const bucket = (step: number, numbers: Partial<Bucket> = {}): Bucket => ({
  ...emptyBucket(START_MS + step * 2000),
  ...numbers,
});

describe('the last hour', () => {
  it('has nothing to show before it was told', () => {
    const hour = new Hour();
    expect(hour.columns(chartOf('slots'), 60_000)).toEqual([[], [], [], []]);
    expect(hour.sum('refused', 60_000)).toBe(0);
    expect(Hour.read(hour.columns(chartOf('slots'), 60_000), 0, undefined)).toBeUndefined();
  });

  it('shows gauges as they were, and counters per second', () => {
    const hour = new Hour();
    hour.reset(timelineOf([bucket(0, { held: 5, completed: 10 }), bucket(1, { held: 7, waiting: 3, completed: 4 })]));
    hour.add(bucket(2, { held: 2, parked: 1, completed: 1 }));
    expect(hour.columns(chartOf('slots'), 3_600_000)).toEqual([
      [1000, 1002, 1004],
      [5, 7, 2],
      [0, 3, 0],
      [0, 0, 1],
    ]);
    expect(hour.columns(chartOf('ends'), 3_600_000)[1]).toEqual([5, 2, 0.5]);
  });

  // Fails when the length of a step is taken for granted.
  it('divides by the time that a bucket covers: one in which the process stood still is longer', () => {
    const hour = new Hour();
    hour.reset(timelineOf([bucket(0), bucket(1, { completed: 4 }), bucket(6, { completed: 30 })]));
    expect(hour.columns(chartOf('ends'), 3_600_000)[1]).toEqual([0, 2, 3]);
  });

  it('shows as much as was asked for, and sums as much', () => {
    const hour = new Hour();
    hour.reset(timelineOf(Array.from({ length: 100 }, (_, step) => bucket(step, { refused: 1, held: step }))));
    expect(hour.columns(chartOf('slots'), 10_000)[1]).toEqual([94, 95, 96, 97, 98, 99]);
    expect(hour.sum('refused', 60_000)).toBe(30);
  });

  // Fails when old buckets are kept.
  it('is an hour, however long the page is open', () => {
    const hour = new Hour();
    for (let step = 0; step < 4000; step++) hour.add(bucket(step));
    expect(hour.length).toBe(1800);
    hour.reset(timelineOf(Array.from({ length: 5000 }, (_, step) => bucket(step))));
    expect(hour.length).toBe(1800);
  });

  // Fails when a bucket is appended whatever its time is.
  it('never goes back in time', () => {
    const hour = new Hour();
    hour.reset(timelineOf([bucket(0), bucket(1), bucket(2, { held: 1 })]));
    hour.add(bucket(2, { held: 2 }));
    expect(hour.columns(chartOf('slots'), 3_600_000)[1]).toEqual([0, 0, 2]);
    hour.add(bucket(0.5, { held: 9 }));
    expect(hour.columns(chartOf('slots'), 3_600_000).slice(0, 2)).toEqual([
      [1000, 1001],
      [0, 9],
    ]);
  });

  it('is read where the cursor stands, or at its end', () => {
    const hour = new Hour();
    hour.reset(timelineOf([bucket(0, { held: 5 }), bucket(1, { held: 7 })]));
    const columns = hour.columns(chartOf('slots'), 60_000);
    expect([Hour.read(columns, 0, 0), Hour.read(columns, 0, undefined), Hour.read(columns, 0, 9)]).toEqual([
      5,
      7,
      undefined,
    ]);
  });
});

describe('the charts', () => {
  it('have each line once, told apart by more than colour within one', () => {
    const keys = CHARTS.flatMap(({ lines }) => lines.map(({ key }) => key));
    expect(new Set(keys).size).toBe(keys.length);
    for (const { lines } of CHARTS) expect(new Set(lines.map(({ colour }) => colour)).size).toBe(lines.length);
  });
});
