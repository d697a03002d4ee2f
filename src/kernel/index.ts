export { assert } from './assert.ts';
export { type Clock, systemClock, type Timer } from './clock.ts';
export { ERROR_CODES, type ErrorCode, HeadgateError, messageOf } from './errors.ts';
export { Fact } from './facts.ts';
export { FakeClock } from './fake-clock.ts';
export { Lags } from './lags.ts';
export { Slices } from './slices.ts';
