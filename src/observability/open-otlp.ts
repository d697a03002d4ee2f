import type { Otlp, OtlpOptions } from './otlp-options.ts';

/**
 * Begins to send to an OpenTelemetry collector. The SDK is loaded here and not before: it takes 7 MiB and 100 ms, and most
 * have no collector.
 *
 * @example
 * ```ts no-run
 * const otlp = await openOtlp({ version: '1.0.0', traces: true, intervalMs: 60_000, warn: console.warn });
 * await otlp.close();
 * ```
 */
export async function openOtlp(options: OtlpOptions): Promise<Otlp> {
  const { startOtlp } = await import('./otlp.ts');
  return startOtlp(options);
}
