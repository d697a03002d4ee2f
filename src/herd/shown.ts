const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'] as const;

/**
 * A size as people read it, in powers of ten.
 *
 * @example
 * console.log(shownBytes(1_234_567)); // 1.23 MB
 */
export function shownBytes(bytes: number): string {
  let value = bytes;
  let at = 0;
  // what rounds to a thousand is one of the next unit
  while (value >= 999.5 && at < UNITS.length - 1) {
    value /= 1000;
    at++;
  }
  return `${at === 0 ? Math.round(value) : threeDigits(value)} ${UNITS[at]}`;
}

function threeDigits(value: number): string {
  return value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

/**
 * A time as people read it.
 *
 * @example
 * console.log(shownSeconds(0.0421), shownSeconds(3.14159), shownSeconds(125)); // 42 ms 3.14 s 125 s
 */
export function shownSeconds(seconds: number): string {
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  return `${threeDigits(seconds)} s`;
}

/**
 * A whole number with its thousands apart.
 *
 * @example
 * console.log(shownCount(12345)); // 12,345
 */
export function shownCount(count: number): string {
  return Math.round(count)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `a 1, b 2`: counts by name; `none` when there are none. */
export function shownCounts(counts: Readonly<Record<string, number>>): string {
  const parts = Object.entries(counts).map(([name, count]) => `${printable(name)} × ${shownCount(count)}`);
  return parts.length === 0 ? 'none' : parts.join(', ');
}

/** Names come from servers, and a terminal obeys what it is sent. */
function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
}
