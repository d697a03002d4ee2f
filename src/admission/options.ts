import { type Clock, HeadgateError, systemClock } from '../kernel/index.ts';
import type { AcquireRequest, LimiterOptions } from './types.ts';

/** The options of a limiter with every default filled in. */
export type Limits = Required<LimiterOptions>;

/** Checks the options of a limiter. Throws HG_OPTION. */
export function limitsOf(options: LimiterOptions): Limits {
  const limits: Limits = {
    name: options.name,
    maxConcurrent: options.maxConcurrent,
    maxQueued: options.maxQueued,
    waitMsMax: options.waitMsMax,
    maxParked: options.maxParked ?? 0,
    maxPinnedBytes: options.maxPinnedBytes ?? Infinity,
    pinnedBytes: options.pinnedBytes ?? ((): number => 0),
    fairness: options.fairness ?? 'tenant',
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
    earlyShed: options.earlyShed ?? true,
  };
  check(limits, 'name', (value) => typeof value === 'string' && value !== '', 'a name');
  check(limits, 'maxConcurrent', (value) => isCount(value) && value >= 1, 'a positive integer');
  check(limits, 'maxQueued', isCount, 'an integer of at least 0');
  check(limits, 'waitMsMax', isAmount, 'a number of at least 0');
  check(limits, 'maxParked', isCount, 'an integer of at least 0');
  check(limits, 'maxPinnedBytes', isAmount, 'a number of at least 0');
  check(limits, 'pinnedBytes', isFunction, 'a function');
  check(limits, 'fairness', (value) => value === 'tenant' || value === 'off', "'tenant' or 'off'");
  check(limits, 'clock', isClock, 'a clock');
  check(limits, 'random', isFunction, 'a function');
  check(limits, 'earlyShed', (value) => typeof value === 'boolean', 'true or false');
  return limits;
}

/** Checks what a caller asks for. Throws HG_OPTION. */
export function checkRequest({ pinBytes, waitMsMax }: AcquireRequest): void {
  if (pinBytes !== undefined) checkPinBytes(pinBytes);
  if (waitMsMax !== undefined && !isAmount(waitMsMax))
    refuse('acquire', 'waitMsMax', 'a number of at least 0', waitMsMax);
}

/** Checks what a slot declares: one NaN or Infinity would spoil the sum for good. Throws HG_OPTION. */
export function checkPinBytes(bytes: number): void {
  if (!isCount(bytes)) refuse('pin', 'bytes', 'an integer of at least 0', bytes);
}

function check(limits: Limits, option: keyof Limits, test: (value: unknown) => boolean, expected: string): void {
  if (!test(limits[option])) refuse('make a limiter', option, expected, limits[option]);
}

function refuse(act: string, what: string, expected: string, got: unknown): never {
  const shown = typeof got === 'object' && got !== null ? 'an object' : String(got as number | string | null);
  throw new HeadgateError('HG_OPTION', `Cannot ${act}: ${what} must be ${expected}, got ${shown}`);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isAmount(value: unknown): boolean {
  return typeof value === 'number' && value >= 0;
}

function isFunction(value: unknown): boolean {
  return typeof value === 'function';
}

function isClock(value: unknown): boolean {
  const clock = value as Partial<Clock>; // never null: the default stands in
  return typeof clock.now === 'function' && typeof clock.after === 'function';
}
