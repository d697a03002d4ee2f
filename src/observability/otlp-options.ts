import type { Collected } from './instruments.ts';

/** What goes to a collector, and where it is. */
export interface OtlpOptions {
  readonly version: string;
  /** Absent: no metrics are sent. */
  readonly collect?: () => Iterable<Collected>;
  readonly traces: boolean;
  /** Where each goes; absent: where OpenTelemetry's environment variables say. */
  readonly metricsUrl?: string;
  readonly tracesUrl?: string;
  /** Between two times that metrics are sent, in milliseconds. */
  readonly intervalMs: number;
  /** Told when something could not be sent. */
  readonly warn: (message: string) => void;
}

/** Sending to a collector, under way. */
export interface Otlp {
  /** Sends what is left, as far as the collector takes it. */
  close(): Promise<void>;
}
