import {
  type Attributes,
  diag,
  DiagLogLevel,
  type HrTime,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
  ValueType,
} from '@opentelemetry/api';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type Histogram,
  MeterProvider,
  type MetricData,
  type MetricProducer,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { type Collected, HistogramSeries, type Point } from './instruments.ts';
import type { Otlp, OtlpOptions } from './otlp-options.ts';
import { type SpanRecord, traceDeliveries } from './traces.ts';

const SCOPE = { name: 'headgate' };

/** Sends metrics and traces to a collector, by OpenTelemetry's SDK. Loaded only where one is configured. */
export function startOtlp(options: OtlpOptions): Otlp {
  const { version, warn } = options;
  diag.setLogger(
    { error: warn, warn, info: () => {}, debug: () => {}, verbose: () => {} },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  const own = resourceFromAttributes({ 'service.name': 'headgate', 'service.version': version });
  // what the environment says goes before what we say
  const resource = defaultResource()
    .merge(own)
    .merge(detectResources({ detectors: [envDetector] }));
  const closing: (() => Promise<void>)[] = [];
  if (options.collect !== undefined) {
    const reader = new PeriodicExportingMetricReader({
      exporter: new OTLPMetricExporter(urlOf(options.metricsUrl)),
      exportIntervalMillis: options.intervalMs,
      exportTimeoutMillis: Math.min(options.intervalMs, EXPORT_MS_MAX),
      metricProducers: [producerOf(options.collect)],
    });
    const provider = new MeterProvider({ resource, readers: [reader] });
    closing.push(() => provider.shutdown());
  }
  if (options.traces) {
    const exporter = new OTLPTraceExporter(urlOf(options.tracesUrl));
    const provider = new BasicTracerProvider({ resource, spanProcessors: [new BatchSpanProcessor(exporter)] });
    const tracer = provider.getTracer(SCOPE.name, version);
    const stop = traceDeliveries((span) => tellSpan(tracer, span), Date.now);
    closing.push(() => {
      stop();
      return provider.shutdown();
    });
  }
  return {
    async close() {
      // a collector that is gone must not keep us from ending; what it missed was warned about
      await Promise.allSettled(closing.map((close) => close()));
      diag.disable();
    },
  };
}

const EXPORT_MS_MAX = 10_000;

/** Absent: the exporter reads the environment's variables. */
function urlOf(url: string | undefined): { url?: string } {
  return url === undefined ? {} : { url };
}

/** Our instruments, as the SDK's readers take them. */
function producerOf(collect: () => Iterable<Collected>): MetricProducer {
  const startTime = hrTimeOf(Date.now());
  return {
    collect: () => {
      const endTime = hrTimeOf(Date.now());
      const metrics = Array.from(collect(), (each) => dataOf(each, { startTime, endTime }));
      // the SDK puts its own resource in place of this one
      const resourceMetrics = { resource: resourceFromAttributes({}), scopeMetrics: [{ scope: SCOPE, metrics }] };
      return Promise.resolve({ resourceMetrics, errors: [] });
    },
  };
}

type Times = Pick<DataPoint<unknown>, 'startTime' | 'endTime'>;

function dataOf({ definition, points }: Collected, times: Times): MetricData {
  const { name, help, unit = '', type, labels = [] } = definition;
  const base = {
    descriptor: { name, description: help, unit, valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  };
  const pointOf = <Value>(point: Point, value: Value): DataPoint<Value> => ({
    ...times,
    attributes: attributesOf(labels, point.values),
    value,
  });
  if (type === 'histogram') {
    const dataPoints = points.flatMap((point) =>
      point.value instanceof HistogramSeries ? [pointOf(point, histogramOf(point.value))] : [],
    );
    return { ...base, dataPointType: DataPointType.HISTOGRAM, dataPoints };
  }
  const dataPoints = points.flatMap((point) => (typeof point.value === 'number' ? [pointOf(point, point.value)] : []));
  return type === 'counter'
    ? { ...base, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints }
    : { ...base, dataPointType: DataPointType.GAUGE, dataPoints };
}

function histogramOf({ bounds, counts, sum, count }: HistogramSeries): Histogram {
  return { buckets: { boundaries: [...bounds], counts: [...counts] }, sum, count };
}

function attributesOf(labels: readonly string[], values: readonly string[]): Attributes {
  return Object.fromEntries(labels.map((label, at) => [label, values[at] ?? '']));
}

function tellSpan(tracer: Tracer, record: SpanRecord, parent = ROOT_CONTEXT): void {
  const { name, startMs, endMs, attributes, fault, children } = record;
  const kind = parent === ROOT_CONTEXT ? SpanKind.SERVER : SpanKind.INTERNAL;
  const span = tracer.startSpan(name, { kind, startTime: hrTimeOf(startMs), attributes }, parent);
  for (const child of children) tellSpan(tracer, child, trace.setSpan(parent, span));
  if (fault !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: fault });
  span.end(hrTimeOf(endMs));
}

/** A number would be taken for one of `performance.now()` where it is small. */
function hrTimeOf(unixMs: number): HrTime {
  const seconds = Math.floor(unixMs / 1000);
  return [seconds, Math.round((unixMs - seconds * 1000) * 1e6)];
}
