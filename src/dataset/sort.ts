import type { Slices } from '../kernel/index.ts';
import { compareKeys } from './item.ts';
import { Pace } from './pace.ts';

/** Sorted at once: 1,024 keys take well under a millisecond. */
const RUN_ITEMS = 1024;
/** A comparison takes a twentieth of a microsecond. */
const STEPS_PER_LOOK = 256;

/**
 * Sorts by key without blocking the loop; among equal keys the order of arrival stays.
 *
 * `Array.prototype.sort` of 220,000 items blocks for a quarter of a second, so runs are sorted and then merged, in
 * slices. What is in order already, as a saved data set is, is only looked at.
 */
export async function sortByKey<T extends { readonly key: string }>(items: T[], slices: Slices): Promise<T[]> {
  if (await inOrder(items, slices)) return items;
  let runs: T[][] = [];
  for (let at = 0; at < items.length; at += RUN_ITEMS) {
    runs.push(items.slice(at, at + RUN_ITEMS).sort((a, b) => compareKeys(a.key, b.key)));
    if (slices.due()) await slices.pause();
  }
  while (runs.length > 1) {
    const merged: T[][] = [];
    for (let at = 0; at < runs.length; at += 2) {
      const second = runs[at + 1];
      merged.push(second === undefined ? runs[at]! : await merge(runs[at]!, second, slices));
    }
    runs = merged;
  }
  return runs[0] ?? [];
}

async function inOrder(items: readonly { readonly key: string }[], slices: Slices): Promise<boolean> {
  const pace = new Pace(slices, STEPS_PER_LOOK);
  for (let at = 1; at < items.length; at++) {
    if (compareKeys(items[at - 1]!.key, items[at]!.key) > 0) return false;
    if (pace.due()) await pace.pause();
  }
  return true;
}

async function merge<T extends { readonly key: string }>(
  a: readonly T[],
  b: readonly T[],
  slices: Slices,
): Promise<T[]> {
  const pace = new Pace(slices, STEPS_PER_LOOK);
  const out: T[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    // on equal keys the first run's goes first: that is what keeps the order of arrival
    if (compareKeys(a[i]!.key, b[j]!.key) <= 0) out.push(a[i++]!);
    else out.push(b[j++]!);
    if (pace.due()) await pace.pause();
  }
  while (i < a.length) out.push(a[i++]!);
  while (j < b.length) out.push(b[j++]!);
  return out;
}
