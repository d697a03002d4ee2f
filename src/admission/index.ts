export { Limiter } from './limiter.ts';
export { SingleFlight } from './single-flight.ts';
export type { AcquireRequest, Answer, LimiterOptions, LimiterStats, RefusalReason, Slot } from './types.ts';
