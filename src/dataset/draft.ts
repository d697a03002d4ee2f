import type { Slices } from '../kernel/index.ts';
import { DigestSum } from './digest.ts';
import { compareKeys, type Item } from './item.ts';
import type { Leaf, Meter } from './leaf.ts';
import { Pace } from './pace.ts';
import { Packer } from './packer.ts';
import { leafIndex, type Part } from './snapshot.ts';

/** What becomes of one key: another item, or none. */
export interface Edit {
  readonly key: string;
  readonly before: Item | undefined;
  readonly after: Item | undefined;
}

/** A part, and the leaves of the part before it that it no longer holds. */
export interface Drafted {
  readonly part: Part;
  readonly retired: readonly Leaf[];
}

/** Hashing takes about a microsecond, looking at the clock a twentieth of one. */
const EDITS_PER_LOOK = 16;
/** Comparing two items is cheaper. */
const KEYS_PER_LOOK = 64;

export function emptyPart(kind: string): Part {
  const sum = new DigestSum();
  return { kind, leaves: [], count: 0, textBytes: 0, sum, digest: sum.toString() };
}

/**
 * The part that `edits` make of another. Built beside it, in slices: readers go on with the part as it was.
 *
 * @param edits - in key order, one per key, each of them a real change of the part
 */
export async function draftPart(part: Part, edits: readonly Edit[], meter: Meter, slices: Slices): Promise<Drafted> {
  if (edits.length === 0) return { part, retired: [] };
  const packer = new Packer(meter);
  const pace = new Pace(slices, EDITS_PER_LOOK);
  let from = 0;
  let at = 0;
  while (at < edits.length) {
    const index = Math.max(leafIndex(part.leaves, edits[at]!.key, from), from);
    for (; from < index; from++) packer.keep(part.leaves[from]!);
    const until = part.leaves[from + 1]?.firstKey;
    at = await mergeLeaf(part.leaves[from]?.items ?? [], { edits, at, until }, packer, pace);
    from++;
  }
  for (; from < part.leaves.length; from++) packer.keep(part.leaves[from]!);
  const leaves = packer.finish();
  return { part: await summed(part, leaves, edits, pace), retired: missingFrom(leaves, part.leaves) };
}

/** Merges one leaf's items with the edits below `until`, the next leaf's first key. Says where the next edit stands. */
async function mergeLeaf(
  items: readonly Item[],
  run: { readonly edits: readonly Edit[]; readonly at: number; readonly until: string | undefined },
  packer: Packer,
  pace: Pace,
): Promise<number> {
  let at = run.at;
  let index = 0;
  for (; at < run.edits.length; at++) {
    const { key, after } = run.edits[at]!;
    if (run.until !== undefined && key >= run.until) break;
    while (index < items.length && items[index]!.key < key) packer.push(items[index++]!);
    if (items[index]?.key === key) index++;
    if (after !== undefined) packer.push(after);
    if (pace.due()) await pace.pause();
  }
  while (index < items.length) packer.push(items[index++]!);
  return at;
}

async function summed(part: Part, leaves: Leaf[], edits: readonly Edit[], pace: Pace): Promise<Part> {
  const sum = part.sum.clone();
  let count = part.count;
  for (const { before, after } of edits) {
    if (before !== undefined) sum.subtract(before);
    if (after !== undefined) sum.add(after);
    count += Number(after !== undefined) - Number(before !== undefined);
    if (pace.due()) await pace.pause();
  }
  let textBytes = 0;
  for (const leaf of leaves) textBytes += leaf.textBytes;
  return { kind: part.kind, leaves, count, textBytes, sum, digest: sum.toString() };
}

/** The leaves of `before` that are not among `now`. Both are in key order, and a leaf that stayed is the same object. */
function missingFrom(now: readonly Leaf[], before: readonly Leaf[]): Leaf[] {
  const kept = new Set(now);
  return before.filter((leaf) => !kept.has(leaf));
}

/**
 * Tells `found` of every key in which two parts differ, in order. Walks only the leaves that they do not share.
 */
export async function compareParts(
  before: Part,
  now: Part,
  found: (edit: Edit) => void,
  slices: Slices,
): Promise<void> {
  const pace = new Pace(slices, KEYS_PER_LOOK);
  const olds = itemsOf(missingFrom(now.leaves, before.leaves));
  const news = itemsOf(missingFrom(before.leaves, now.leaves));
  let a = olds.next().value;
  let b = news.next().value;
  while (a !== undefined || b !== undefined) {
    const order = a === undefined ? 1 : b === undefined ? -1 : compareKeys(a.key, b.key);
    const older = order <= 0 ? a : undefined;
    const newer = order >= 0 ? b : undefined;
    const same = older !== undefined && newer !== undefined && sameItem(older, newer);
    if (!same) found({ key: (older ?? newer)!.key, before: older, after: newer });
    if (order <= 0) a = olds.next().value;
    if (order >= 0) b = news.next().value;
    if (pace.due()) await pace.pause();
  }
}

/** The items of leaves, one after the other. */
export function* itemsOf(leaves: readonly Leaf[]): Generator<Item, undefined> {
  for (const leaf of leaves) yield* leaf.items;
  return undefined;
}

export function sameItem(a: Item, b: Item): boolean {
  return a === b || (a.version === b.version && a.text === b.text);
}
