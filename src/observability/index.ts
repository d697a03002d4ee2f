export type {
  Behind,
  DecisionFigures,
  EnvironmentFigures,
  Figures,
  FlagFigures,
  SourceFigures,
  StoreFigures,
  StreamCount,
} from './figures.ts';
export { StateReader, type StateParts } from './live.ts';
export { type Log, type LogOptions, openLog } from './log.ts';
export { type Metrics, type MetricsOptions, openMetrics } from './metrics.ts';
export { openOtlp } from './open-otlp.ts';
export type { Otlp, OtlpOptions } from './otlp-options.ts';
export { PROMETHEUS_TYPE } from './prometheus.ts';
export type { State, StateTrouble } from './state.ts';
export type { Bucket, Timeline } from './timeline.ts';
export { type TimelineParts, TimelineRecorder } from './timeline-recorder.ts';
export type { DeliveryProgress } from '../delivery/index.ts';
export type { TroubleLine } from './trouble.ts';
