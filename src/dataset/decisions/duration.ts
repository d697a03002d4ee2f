const MS_PER_SECOND = 1000;

/**
 * A span as Go's `Duration.String` writes whole seconds, rounded up: a ban may end late, never early.
 *
 * @param ms - milliseconds, a finite number
 *
 * @example
 * console.log(formatDuration(4 * 3_600_000)); // 4h0m0s
 * console.log(formatDuration(29_001)); // 30s
 * console.log(formatDuration(-3999)); // -3s
 */
export function formatDuration(ms: number): string {
  const seconds = Math.ceil(ms / MS_PER_SECOND);
  const all = Math.abs(seconds);
  const sign = seconds < 0 ? '-' : '';
  if (all < 60) return `${sign}${all}s`;
  const minutes = Math.floor(all / 60);
  if (minutes < 60) return `${sign}${minutes}m${all % 60}s`;
  return `${sign}${Math.floor(minutes / 60)}h${minutes % 60}m${all % 60}s`;
}

const MS_BY_UNIT: Readonly<Record<string, number>> = {
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ns: 1e-6,
};
/** Go counts nanoseconds in 64 bits, and takes nothing longer. */
const MS_MAX = 2 ** 63 / 1e6;
const DURATION = /^(?:\d+\.?\d*|\.\d+)(?:h|m|s|ms|us|µs|μs|ns)(?:(?:\d+\.?\d*|\.\d+)(?:h|m|s|ms|us|µs|μs|ns))*$/;
const PART = /(\d+\.?\d*|\.\d+)([a-zµμ]+)/g;
/** Longer than any duration that means something: it bounds the work on what a stranger sends. */
const TEXT_MAX = 200;

/**
 * What Go's `ParseDuration` makes of a text, in milliseconds, with fractions; undefined where Go reports an error.
 *
 * @example
 * console.log(parseDuration('1h30m')); // 5400000
 * console.log(parseDuration('-1.5s')); // -1500
 * console.log(parseDuration('10')); // undefined
 */
export function parseDuration(text: string): number | undefined {
  if (text.length > TEXT_MAX) return undefined;
  const signed = text.startsWith('-') || text.startsWith('+');
  const spans = signed ? text.slice(1) : text;
  if (spans === '0') return 0;
  if (!DURATION.test(spans)) return undefined;
  let ms = 0;
  for (const [, count = '', unit = ''] of spans.matchAll(PART)) ms += Number(count) * (MS_BY_UNIT[unit] ?? Number.NaN);
  if (!(ms < MS_MAX)) return undefined;
  return text.startsWith('-') && ms !== 0 ? -ms : ms;
}
