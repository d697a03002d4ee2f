export type {
  Behind,
  DecisionFigures,
  EnvironmentFigures,
  Figures,
  FlagFigures,
  SourceFigures,
  StreamCount,
} from './figures.ts';
export { type Log, type LogOptions, openLog } from './log.ts';
export { type Metrics, type MetricsOptions, openMetrics } from './metrics.ts';
export { openOtlp } from './open-otlp.ts';
export type { Otlp, OtlpOptions } from './otlp-options.ts';
export { PROMETHEUS_TYPE } from './prometheus.ts';
