import { assert, type Slices } from '../kernel/index.ts';
import { DigestSum } from './digest.ts';
import { compareKeys, type Item } from './item.ts';
import type { Leaf, Meter } from './leaf.ts';
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
const EDITS_BETWEEN_LOOKS = 16;

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
  let from = 0;
  let at = 0;
  while (at < edits.length) {
    const index = Math.max(leafIndex(part.leaves, edits[at]!.key, from), from);
    for (; from < index; from++) packer.keep(part.leaves[from]!);
    const until = part.leaves[from + 1]?.firstKey;
    at = await mergeLeaf(part.leaves[from]?.items ?? [], { edits, at, until }, packer, slices);
    from++;
  }
  for (; from < part.leaves.length; from++) packer.keep(part.leaves[from]!);
  const leaves = packer.finish();
  return { part: await summed(part, leaves, edits, slices), retired: missingFrom(leaves, part.leaves) };
}

/** Merges one leaf's items with the edits below `until`, the next leaf's first key. Says where the next edit stands. */
async function mergeLeaf(
  items: readonly Item[],
  run: { readonly edits: readonly Edit[]; readonly at: number; readonly until: string | undefined },
  packer: Packer,
  slices: Slices,
): Promise<number> {
  let at = run.at;
  let index = 0;
  for (; at < run.edits.length; at++) {
    const { key, after } = run.edits[at]!;
    if (run.until !== undefined && key >= run.until) break;
    while (index < items.length && items[index]!.key < key) packer.push(items[index++]!);
    if (items[index]?.key === key) index++;
    if (after !== undefined) packer.push(after);
    if (at % EDITS_BETWEEN_LOOKS === 0 && slices.due()) await slices.pause();
  }
  while (index < items.length) packer.push(items[index++]!);
  return at;
}

async function summed(part: Part, leaves: Leaf[], edits: readonly Edit[], slices: Slices): Promise<Part> {
  const sum = part.sum.clone();
  let count = part.count;
  for (const [at, { before, after }] of edits.entries()) {
    if (before !== undefined) sum.subtract(before);
    if (after !== undefined) sum.add(after);
    count += Number(after !== undefined) - Number(before !== undefined);
    if (at % EDITS_BETWEEN_LOOKS === 0 && slices.due()) await slices.pause();
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

/** What turns one part into another, found by walking only the leaves that differ. */
export async function* editsBetween(before: Part, now: Part, slices: Slices): AsyncGenerator<Edit> {
  const old = missingFrom(now.leaves, before.leaves).flatMap((leaf) => leaf.items);
  const fresh = missingFrom(before.leaves, now.leaves).flatMap((leaf) => leaf.items);
  let i = 0;
  let j = 0;
  while (i < old.length || j < fresh.length) {
    const order = i === old.length ? 1 : j === fresh.length ? -1 : compareKeys(old[i]!.key, fresh[j]!.key);
    const a = order <= 0 ? old[i++] : undefined;
    const b = order >= 0 ? fresh[j++] : undefined;
    assert(a !== undefined || b !== undefined, 'a walk over two lists takes from one of them');
    if (a === undefined || b === undefined || !sameItem(a, b)) yield { key: (a ?? b)!.key, before: a, after: b };
    if ((i + j) % EDITS_BETWEEN_LOOKS === 0 && slices.due()) await slices.pause();
  }
}

export function sameItem(a: Item, b: Item): boolean {
  return a === b || (a.version === b.version && a.text === b.text);
}
