/** The versions at which keys were deleted. The oldest are forgotten first. */
export class Tombstones {
  readonly #max: number;
  /** kind NUL key: no kind holds a NUL, so no two pairs meet. Insertion order is age. */
  readonly #versions = new Map<string, number>();

  /** @param max - how many deletions are remembered */
  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#versions.size;
  }

  versionOf(kind: string, key: string): number | undefined {
    return this.#versions.get(nameOf(kind, key));
  }

  bury(kind: string, key: string, version: number): void {
    const name = nameOf(kind, key);
    this.#versions.delete(name);
    this.#versions.set(name, version);
    if (this.#versions.size <= this.#max) return;
    for (const oldest of this.#versions.keys()) {
      this.#versions.delete(oldest);
      break;
    }
  }

  /** The key lives again. */
  raise(kind: string, key: string): void {
    this.#versions.delete(nameOf(kind, key));
  }

  *[Symbol.iterator](): IterableIterator<{ readonly kind: string; readonly key: string; readonly version: number }> {
    for (const [name, version] of this.#versions) {
      const end = name.indexOf('\0');
      yield { kind: name.slice(0, end), key: name.slice(end + 1), version };
    }
  }
}

function nameOf(kind: string, key: string): string {
  return `${kind}\0${key}`;
}
