import { describe, expect, it } from 'vitest';
import { HeadgateError, systemClock } from '../kernel/index.ts';
import { Limiter, type LimiterOptions } from './index.ts';
import { limitsOf } from './options.ts';

const GOOD: LimiterOptions = { name: 'copies', maxConcurrent: 1, maxQueued: 0, waitMsMax: 0 };

describe('the options of a limiter', () => {
  it.each<[keyof LimiterOptions, unknown, string]>([
    ['name', '', 'a name, got '],
    ['name', 7, 'a name, got 7'],
    ['maxConcurrent', 0, 'a positive integer, got 0'],
    ['maxConcurrent', -1, 'a positive integer, got -1'],
    ['maxConcurrent', 1.5, 'a positive integer, got 1.5'],
    ['maxConcurrent', Infinity, 'a positive integer, got Infinity'],
    ['maxConcurrent', '4', 'a positive integer, got 4'],
    ['maxConcurrent', undefined, 'a positive integer, got undefined'],
    ['maxConcurrent', { of: 4 }, 'a positive integer, got an object'],
    ['maxQueued', -1, 'an integer of at least 0, got -1'],
    ['maxQueued', Infinity, 'an integer of at least 0, got Infinity'],
    ['waitMsMax', -1, 'a number of at least 0, got -1'],
    ['waitMsMax', Number.NaN, 'a number of at least 0, got NaN'],
    ['waitMsMax', '10s', 'a number of at least 0, got 10s'],
    ['waitMsMax', null, 'a number of at least 0, got null'],
    ['maxParked', -1, 'an integer of at least 0, got -1'],
    ['maxParked', 0.5, 'an integer of at least 0, got 0.5'],
    ['maxPinnedBytes', -1, 'a number of at least 0, got -1'],
    ['pinnedBytes', 5, 'a function, got 5'],
    ['fairness', 'on', "'tenant' or 'off', got on"],
    ['clock', 5, 'a clock, got 5'],
    ['clock', { now: () => 0 }, 'a clock, got an object'],
    ['clock', { after: () => 0 }, 'a clock, got an object'],
    ['random', 0.5, 'a function, got 0.5'],
    ['earlyShed', 1, 'true or false, got 1'],
  ])('refuse %s: %s', (option, value, expected) => {
    const make = (): Limiter => new Limiter({ ...GOOD, [option]: value });
    expect(make).toThrow(new HeadgateError('HG_OPTION', `Cannot make a limiter: ${option} must be ${expected}`));
  });

  it.each<Partial<LimiterOptions>>([
    { waitMsMax: Infinity },
    { maxPinnedBytes: 0 },
    { maxQueued: 1_000_000 },
    { fairness: 'off' },
    { fairness: 'tenant' },
    { earlyShed: false },
  ])('take %o', (options) => {
    expect(limitsOf({ ...GOOD, ...options })).toMatchObject(options);
  });

  it('have defaults', () => {
    const { pinnedBytes, ...limits } = limitsOf(GOOD);
    expect(pinnedBytes()).toBe(0);
    expect(limits).toEqual({
      ...GOOD,
      maxParked: 0,
      maxPinnedBytes: Infinity,
      fairness: 'tenant',
      clock: systemClock,
      random: Math.random,
      earlyShed: true,
    });
  });
});
