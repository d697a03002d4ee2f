export type { Config } from './config/index.ts';
export { defaultConfig, loadConfig } from './config/index.ts';
export { HeadgateError } from './kernel/index.ts';
export { Relay, type RelayOptions, VERSION } from './relay.ts';
