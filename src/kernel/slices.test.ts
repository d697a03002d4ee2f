import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Slices } from './slices.ts';

describe('Slices', () => {
  let nowMs = 0;
  beforeEach(() => {
    nowMs = 1000;
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  });
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it('is due when the slice has used up its time, not before', () => {
    const slices = new Slices(5);
    nowMs += 4.9;
    expect(slices.due()).toBe(false);
    nowMs += 0.1;
    expect(slices.due()).toBe(true);
  });

  it('lasts 4 ms unless told otherwise', () => {
    const slices = new Slices();
    nowMs += 3.9;
    expect(slices.due()).toBe(false);
    nowMs += 0.1;
    expect(slices.due()).toBe(true);
  });

  // Fails when `pause` sets the beginning of the slice before it waits instead of after.
  it('begins the next slice when the loop comes back, so that others are not charged to it', async () => {
    const slices = new Slices(5);
    nowMs += 5;
    const paused = slices.pause();
    nowMs += 100;
    await paused;
    expect(slices.due()).toBe(false);
    nowMs += 5;
    expect(slices.due()).toBe(true);
  });

  // Fails when `pause` awaits a microtask instead of a turn of the loop.
  it('lets what waits on the event loop run first', async () => {
    const order: string[] = [];
    setImmediate(() => order.push('others'));
    await new Slices().pause();
    order.push('the job');
    expect(order).toEqual(['others', 'the job']);
  });
});
