import type { Slices } from '../kernel/index.ts';
import type { Change } from './item.ts';
import { Pace } from './pace.ts';

/** Map operations take a tenth of a microsecond. */
const KEYS_PER_LOOK = 128;

/** A deletion that is remembered. */
export interface Tombstone {
  readonly kind: string;
  readonly key: string;
  readonly version: number;
}

/** The versions at which keys were deleted. The oldest are forgotten first. */
export class Tombstones {
  readonly #max: number;
  readonly #byKind = new Map<string, Map<string, Tombstone>>();
  /** Insertion order is age. */
  readonly #byAge = new Set<Tombstone>();

  /** @param max - how many deletions are remembered */
  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#byAge.size;
  }

  versionOf(kind: string, key: string): number | undefined {
    return this.#byKind.get(kind)?.get(key)?.version;
  }

  bury(kind: string, key: string, version: number): void {
    this.raise(kind, key);
    const grave = { kind, key, version };
    let graves = this.#byKind.get(kind);
    if (graves === undefined) this.#byKind.set(kind, (graves = new Map()));
    graves.set(key, grave);
    this.#byAge.add(grave);
    if (this.#byAge.size <= this.#max) return;
    const [oldest] = this.#byAge;
    this.raise(oldest!.kind, oldest!.key);
  }

  /** Buries what changes delete, and raises what they bring, in slices. */
  async take(changes: readonly Change[], slices: Slices): Promise<void> {
    const pace = new Pace(slices, KEYS_PER_LOOK);
    for (const { kind, key, version, item } of changes) {
      if (item === undefined) this.bury(kind, key, version);
      else this.raise(kind, key);
      if (pace.due()) await pace.pause();
    }
  }

  /** The key lives again, or is forgotten. */
  raise(kind: string, key: string): void {
    const grave = this.#byKind.get(kind)?.get(key);
    if (grave === undefined) return;
    this.#byKind.get(kind)!.delete(key);
    this.#byAge.delete(grave);
  }

  [Symbol.iterator](): IterableIterator<Tombstone> {
    return this.#byAge.values();
  }
}
