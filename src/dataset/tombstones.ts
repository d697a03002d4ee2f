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
