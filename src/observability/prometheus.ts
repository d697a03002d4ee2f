import { type Collected, type Definition, HistogramSeries } from './instruments.ts';

/** The type of what {@link prometheusText} makes. */
export const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

const UNIT_SUFFIX = { s: '_seconds', By: '_bytes', '': '' } as const;

/**
 * The name in Prometheus: dots become underscores, then the unit, then `_total` for counters, as the OpenTelemetry
 * specification has it. A name without dots stays as it is.
 */
export function prometheusName({ name, type, unit = '' }: Definition): string {
  if (!name.includes('.')) return name;
  return name.replaceAll('.', '_') + UNIT_SUFFIX[unit] + (type === 'counter' ? '_total' : '');
}

/** Metrics in Prometheus' text format, version 0.0.4. */
export function prometheusText(metrics: Iterable<Collected>): string {
  const lines: string[] = [];
  for (const { definition, points } of metrics) {
    const name = prometheusName(definition);
    lines.push(`# HELP ${name} ${escapeHelp(definition.help)}`, `# TYPE ${name} ${definition.type}`);
    const names = (definition.labels ?? []).map((label) => label.replaceAll('.', '_'));
    for (const { values, value } of points) {
      const labels = values.map((each, at) => `${names[at] ?? 'label'}="${escapeValue(each)}"`).join(',');
      if (value instanceof HistogramSeries) pushHistogram(lines, name, labels, value);
      else lines.push(labels === '' ? `${name} ${numberText(value)}` : `${name}{${labels}} ${numberText(value)}`);
    }
  }
  lines.push('');
  return lines.join('\n');
}

function pushHistogram(lines: string[], name: string, labels: string, series: HistogramSeries): void {
  const { bounds, counts, sum, count } = series;
  const before = labels === '' ? '' : `${labels},`;
  let below = 0;
  for (const [at, bound] of bounds.entries()) {
    below += counts[at] ?? 0;
    lines.push(`${name}_bucket{${before}le="${bound}"} ${below}`);
  }
  const all = labels === '' ? '' : `{${labels}}`;
  lines.push(`${name}_bucket{${before}le="+Inf"} ${count}`, `${name}_sum${all} ${sum}`, `${name}_count${all} ${count}`);
}

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  return value === Number.NEGATIVE_INFINITY ? '-Inf' : String(value);
}

function escapeValue(text: string): string {
  return /[\\"\n]/.test(text) ? text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n') : text;
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}
