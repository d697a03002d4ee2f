import { Slices } from '../kernel/index.ts';
import { DigestSum } from './digest.ts';
import type { Item } from './item.ts';
import type { Encoding, Leaf } from './leaf.ts';
import type { Plan, Shape } from './shape.ts';
import type { Usage } from './usage.ts';

/** All items of one kind at one moment. */
export interface Part {
  readonly kind: string;
  /** In key order; every key of a leaf is below every key of the next. */
  readonly leaves: readonly Leaf[];
  readonly count: number;
  /** UTF-8 bytes of all texts. */
  readonly textBytes: number;
  readonly sum: DigestSum;
  readonly digest: string;
}

/** What makes up a snapshot. */
export interface SnapshotParts {
  readonly parts: ReadonlyMap<string, Part>;
  readonly offset: number;
  readonly clock: number;
  readonly usage: Usage;
}

interface Measured {
  readonly entries: number;
  readonly bytes: number;
}

/**
 * A whole data set at one moment. It never changes; a newer one shares with it every leaf in which nothing changed.
 *
 * @example
 * const dataSet = new DataSet({ name: 'production', kinds: ['flags'] });
 * await dataSet.replace([{ kind: 'flags', key: 'dark-mode', version: 7, text: '{"on":true}' }]);
 * const snapshot = dataSet.snapshot();
 * console.log(snapshot.get('flags', 'dark-mode')?.version); // 7
 * console.log(snapshot.count); // 1
 */
export class Snapshot {
  /** The first offset of the change log that is not in here yet: where whoever got this copy goes on. */
  readonly offset: number;
  /** Digest of all live items. Data sets with the same items have the same one. */
  readonly digest: string;
  /** Sum of all versions seen, tombstones included, at most `Number.MAX_SAFE_INTEGER`. */
  readonly clock: number;
  /** How many items there are. */
  readonly count: number;
  /** UTF-8 bytes of all texts. */
  readonly textBytes: number;
  /** For this room only: the parts by kind. */
  readonly parts: ReadonlyMap<string, Part>;
  /** For this room only: where it is noted which shapes are asked for. */
  readonly usage: Usage;
  readonly #measured = new Map<Shape, Map<string, Measured>>();

  /** Made by a data set only. */
  constructor({ parts, offset, clock, usage }: SnapshotParts) {
    this.parts = parts;
    this.offset = offset;
    this.clock = clock;
    this.usage = usage;
    const total = new DigestSum();
    let count = 0;
    let textBytes = 0;
    for (const part of parts.values()) {
      total.addSum(part.sum);
      count += part.count;
      textBytes += part.textBytes;
    }
    this.digest = total.toString();
    this.count = count;
    this.textBytes = textBytes;
  }

  /** The kinds, in the order in which the data set was given them. */
  get kinds(): readonly string[] {
    return [...this.parts.keys()];
  }

  /** Digest of one kind's items; that of an unknown kind is the digest of nothing. */
  digestOf(kind: string): string {
    return this.parts.get(kind)?.digest ?? new DigestSum().toString();
  }

  /** How many items of a kind there are. */
  countOf(kind: string): number {
    return this.parts.get(kind)?.count ?? 0;
  }

  /** One item, by two binary searches. */
  get(kind: string, key: string): Item | undefined {
    const leaf = leafFor(this.leavesOf(kind), key);
    return leaf === undefined ? undefined : itemIn(leaf.items, key);
  }

  /** All items of a kind, in key order. */
  *items(kind: string): IterableIterator<Item> {
    for (const leaf of this.leavesOf(kind)) yield* leaf.items;
  }

  /**
   * Bytes of a plan's identity encoding, exactly. Nothing encoded is kept. The first time for a shape it forms every
   * entry, which for 100 MB takes long enough to matter: `measure` does the same in slices, and makes this free.
   */
  byteLength(plan: Plan): number {
    this.mark(plan, 'identity');
    return this.#lengthOf(plan, (leaf, shape) => leaf.measure(shape))!;
  }

  /** The same when it is known without work, else undefined. */
  knownByteLength(plan: Plan): number | undefined {
    return this.#lengthOf(plan, (leaf, shape) => leaf.measured(shape));
  }

  /**
   * The same as `byteLength`, in slices that leave the event loop free.
   *
   * @example
   * const snapshot = new DataSet({ name: 'production', kinds: ['flags'] }).snapshot();
   * const shape: Shape = { name: 'list', entry: (item) => item.text, separator: ',' };
   * const bytes = await snapshot.measure(planOf('[', { kind: 'flags', shape }, ']'));
   * console.log({ 'content-length': String(bytes) }); // { 'content-length': '2' }
   */
  async measure(plan: Plan, slices: Slices = new Slices()): Promise<number> {
    const known = this.knownByteLength(plan);
    if (known !== undefined) return known;
    for (const piece of plan.pieces) {
      if (typeof piece === 'string') continue;
      for (const leaf of this.leavesOf(piece.kind)) {
        leaf.measure(piece.shape);
        if (slices.due()) await slices.pause();
      }
    }
    return this.byteLength(plan);
  }

  /** For this room only. */
  leavesOf(kind: string): readonly Leaf[] {
    return this.parts.get(kind)?.leaves ?? [];
  }

  /** For this room only: notes that a plan's shapes are wanted. */
  mark(plan: Plan, encoding: Encoding): void {
    for (const piece of plan.pieces) if (typeof piece !== 'string') this.usage.mark(piece.shape, encoding);
  }

  /** For this room only: lets go of what was encoded of a shape. */
  forget(shape: Shape, encoding: Encoding): void {
    for (const { leaves } of this.parts.values()) for (const leaf of leaves) leaf.forget(shape, encoding);
  }

  #lengthOf(plan: Plan, measure: (leaf: Leaf, shape: Shape) => Measured | undefined): number | undefined {
    let bytes = 0;
    for (const piece of plan.pieces) {
      if (typeof piece === 'string') {
        bytes += Buffer.byteLength(piece);
        continue;
      }
      const known = this.#kindLength(piece.kind, piece.shape, measure);
      if (known === undefined) return undefined;
      bytes += known.bytes;
    }
    return bytes;
  }

  /** Bytes of a kind in a shape, separators included: summed once per snapshot, then remembered. */
  #kindLength(
    kind: string,
    shape: Shape,
    measure: (leaf: Leaf, shape: Shape) => Measured | undefined,
  ): Measured | undefined {
    const known = this.#measured.get(shape)?.get(kind);
    if (known !== undefined) return known;
    let entries = 0;
    let bytes = 0;
    let shown = 0;
    for (const leaf of this.leavesOf(kind)) {
      const measured = measure(leaf, shape);
      if (measured === undefined) return undefined;
      entries += measured.entries;
      bytes += measured.bytes;
      if (measured.entries > 0) shown++;
    }
    // within a leaf the separators are counted already
    const total = { entries, bytes: bytes + Math.max(0, shown - 1) * Buffer.byteLength(shape.separator) };
    let kinds = this.#measured.get(shape);
    if (kinds === undefined) this.#measured.set(shape, (kinds = new Map()));
    kinds.set(kind, total);
    return total;
  }
}

/** The leaf in which a key stands if it is there at all: the last one that does not begin after it. */
function leafFor(leaves: readonly Leaf[], key: string): Leaf | undefined {
  return leaves[leafIndex(leaves, key)];
}

/** Its index, -1 when every leaf begins after the key. */
export function leafIndex(leaves: readonly Leaf[], key: string, from = 0): number {
  let low = from;
  let high = leaves.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (leaves[middle]!.firstKey <= key) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function itemIn(items: readonly Item[], key: string): Item | undefined {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (items[middle]!.key < key) low = middle + 1;
    else high = middle;
  }
  const item = items[low];
  return item?.key === key ? item : undefined;
}
