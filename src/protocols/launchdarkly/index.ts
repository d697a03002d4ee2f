export { credentialOf, type EnvironmentInfo, hideKey, type SdkKey } from './credentials.ts';
export type { FrontOptions } from './deps.ts';
export { Environment } from './environment.ts';
export { caughtUp, type ClientFact, delivered, failed, lost, refused } from './facts.ts';
export { FlagsFront, type Route } from './front.ts';
export type { CatchUpMode } from './quirks.ts';
