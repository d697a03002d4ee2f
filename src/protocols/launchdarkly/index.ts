export type { EnvironmentInfo } from './credentials.ts';
export type { FrontOptions } from './deps.ts';
export { Environment } from './environment.ts';
export { caughtUp, delivered, failed, lost, refused, requested, steppedBack, taken, takenCompressed } from './facts.ts';
export { Evaluations } from './evaluation/index.ts';
export { FlagsFront } from './front.ts';
export type { DigestOrder } from './positions.ts';
export type { BigSegmentsState, DataStoreState } from './states.ts';
