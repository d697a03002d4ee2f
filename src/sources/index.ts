export { type ArchiveOptions, openArchive } from './archive.ts';
export {
  type AutoConfig,
  type AutoConfigCacheOptions,
  type AutoConfigEnvironment,
  type AutoConfigListener,
  type AutoConfigOptions,
  type AutoConfigOrigin,
  autoConfigTold,
  openAutoConfig,
} from './autoconfig.ts';
export {
  type DecisionDefaults,
  type DecisionFiles,
  type DecisionFilesListener,
  type DecisionFilesOptions,
  type DecisionFilesReport,
  type DecisionFilesStatus,
  openDecisionFiles,
} from './decision-files.ts';
export { type LapiOptions, type LapiSource, type LapiStatus, openLapi } from './lapi.ts';
export type { LapiTls } from './lapi-client.ts';
export type { ForwardReply, ForwardRequest } from './lapi-forward.ts';
export type { KeyVerdict } from './lapi-keys.ts';
export type { LapiListener, LapiReport, LapiState } from './lapi-loop.ts';
export { type FilesOptions, openFiles } from './sdk-file.ts';
export type { SourceEnvironment, Source, SourceListener } from './source.ts';
export type { ArchiveLimits } from './tar.ts';
export { openUpstream } from './upstream.ts';
export type {
  Upstream,
  UpstreamError,
  UpstreamListener,
  UpstreamOptions,
  UpstreamProtocol,
  UpstreamStatus,
} from './upstream-types.ts';
export { Watch, type WatchOptions } from './watch.ts';
