import type { Problems } from './problems.ts';
import { numberOf, type VendorSettings } from './settings.ts';

/** Brings a number into bounds, with a warning, as the vendor does; undefined stays undefined. */
export function clamped(
  settings: VendorSettings,
  problems: Problems,
  setting: readonly [section: string, key: string],
  bounds: { readonly min?: number; readonly max?: number; readonly write?: (value: number) => string },
): number | undefined {
  const found = settings.get(...setting);
  const value = numberOf(found);
  if (found === undefined || value === undefined) return undefined;
  const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY, write = String } = bounds;
  const used = Math.min(max, Math.max(min, value));
  if (used !== value) {
    const bound = value < min ? 'at least' : 'at most';
    problems.warn(
      found.where,
      `${found.called}: expected ${bound} ${write(used)}, got ${write(value)}; ${write(used)} is used`,
    );
  }
  return used;
}
