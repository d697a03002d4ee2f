export { defaultConfig } from './defaults.ts';
export { describeConfig } from './describe.ts';
export { explainLimits, resolveLimits } from './limits.ts';
export { type MachineMemory, type MachineReads, machineMemory } from './machine.ts';
export type {
  ArchiveSource,
  Config,
  EnvironmentConfig,
  EventsConfig,
  ExitConfig,
  FileSource,
  FlagSource,
  FlagsConfig,
  LimitsConfig,
  LimitsSpec,
  LogConfig,
  LogLevel,
  Machine,
  Origin,
  Problem,
  ServerConfig,
  Severity,
  TlsConfig,
  TlsVersion,
  UpstreamConfig,
} from './types.ts';
export { formatBytes, formatDuration, maskKey, parseBytes, parseDuration } from './values.ts';
export { type Loaded, type LoadOptions, loadConfig } from './load.ts';
