/** How values are distributed: percentiles by the nearest rank, so each is a value that occurred. */
export interface Spread {
  readonly count: number;
  readonly min: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

/** The smallest value that at least `share` of all are no greater than. The values are sorted, and there is one at least. */
function rankedAt(sorted: readonly number[], share: number): number {
  const rank = Math.max(1, Math.ceil(share * sorted.length));
  return sorted[Math.min(rank, sorted.length) - 1] ?? Number.NaN;
}

/** How `values` are distributed; null when there are none. */
export function spreadOf(values: readonly number[]): Spread | null {
  if (values.length === 0) return null;
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => rankedAt(sorted, share);
  return { count: sorted.length, min: at(0), p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1) };
}

/** The value at each whole percentile from 0 to 100, for a curve; nothing when there are no values. */
export function curveOf(values: readonly number[]): readonly number[] {
  if (values.length === 0) return [];
  const sorted = values.toSorted((a, b) => a - b);
  return Array.from({ length: 101 }, (_, percent) => rankedAt(sorted, percent / 100));
}
