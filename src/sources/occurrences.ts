/** Shards keep the rehash of a growing map below a millisecond even with a million keys. */
const SHARDS = 64;

/**
 * Which keys stand where, so that of a key that stands twice in one map only the last counts (as in `JSON.parse`), and one
 * that stands in two places is found out.
 *
 * First every occurrence is noted; then, in a second reading, {@link isLast} answers for each occurrence in the same order.
 */
export class Occurrences {
  readonly #places = new Map<string, Map<string, number>[]>();
  readonly #repeats = new Map<string, Map<string, number>>();

  /** Notes one occurrence at `place`. Answers the other place when the key stands there already, else undefined. */
  note(kind: string, key: string, place = 0): number | undefined {
    const shard = this.#shard(kind, key);
    const earlier = shard.get(key);
    if (earlier === undefined) {
      shard.set(key, place);
      return undefined;
    }
    if (earlier !== place) return earlier;
    let repeats = this.#repeats.get(kind);
    if (repeats === undefined) {
      repeats = new Map();
      this.#repeats.set(kind, repeats);
    }
    repeats.set(key, (repeats.get(key) ?? 0) + 1);
    return undefined;
  }

  /** Forgets where keys stand and keeps only how often those that repeat do. */
  seal(): void {
    this.#places.clear();
  }

  /** A fresh count for one more reading: tells of each occurrence whether it is the last one. */
  lastOnes(): (kind: string, key: string) => boolean {
    if (this.#repeats.size === 0) return () => true;
    const left = new Map([...this.#repeats].map(([kind, repeats]) => [kind, new Map(repeats)]));
    return (kind, key) => {
      const repeats = left.get(kind);
      const after = repeats?.get(key) ?? 0;
      if (after > 0) repeats?.set(key, after - 1);
      return after === 0;
    };
  }

  #shard(kind: string, key: string): Map<string, number> {
    let shards = this.#places.get(kind);
    if (shards === undefined) {
      shards = Array.from({ length: SHARDS }, () => new Map<string, number>());
      this.#places.set(kind, shards);
    }
    let hash = key.length;
    for (let i = Math.max(0, key.length - 8); i < key.length; i += 1) hash = (hash * 31 + key.charCodeAt(i)) | 0;
    return shards[(hash >>> 0) % SHARDS] as Map<string, number>;
  }
}
