export { defaultConfig, ID_PLACEHOLDER } from './defaults.ts';
export { describeConfig } from './describe.ts';
export { explainSizing, type Known } from './explain.ts';
export type { Herd } from './explain-herd.ts';
export { type KeyFile, parseKeyFile } from './keys.ts';
export { explainLimits, resolveLimits } from './limits.ts';
export { type MachineMemory, type MachineReads, machineMemory } from './machine.ts';
export { DECISION_COPY_BYTES, type DataSize, explainFit, type Fit, fitOf } from './sizing.ts';
export type {
  AdminConfig,
  ArchiveSource,
  AutoConfigConfig,
  BigSegmentsConfig,
  BouncerKeyConfig,
  ClientVerification,
  Config,
  DecisionFileConfig,
  DecisionsConfig,
  DecisionSource,
  DynamoDbConfig,
  EnvironmentConfig,
  EvaluationConfig,
  EventsConfig,
  ExitConfig,
  FileSource,
  FlagSource,
  FlagsConfig,
  LapiSourceConfig,
  LimitsConfig,
  LimitsSpec,
  LogConfig,
  LogLevel,
  Machine,
  Origin,
  OtlpConfig,
  OutboundConfig,
  Problem,
  ProxyConfig,
  RedisConfig,
  RedisTlsConfig,
  ServerConfig,
  Severity,
  StoreConfig,
  TlsConfig,
  TlsVersion,
  UpstreamConfig,
  UpstreamTlsConfig,
} from './types.ts';
export { formatBytes, formatDuration, maskKey, parseBytes, parseDuration, parseLink } from './values.ts';
export { type Loaded, type LoadOptions, loadConfig } from './load.ts';
