import type { PackedFlags } from './types.ts';

/** A result that is kept. */
export interface CachedResult {
  readonly packed: PackedFlags;
  /** Keys of contexts whose memberships of big segments had a say, and what was known of them. */
  readonly consulted: readonly string[];
  readonly revision: string;
}

interface Kept {
  readonly environmentId: string;
  readonly digest: string;
  readonly result: CachedResult;
  readonly bytes: number;
}

/** Where a result belongs. */
interface Placed {
  readonly environmentId: string;
  readonly digest: string;
  /** Whether the environment's data have this digest now. */
  readonly isPresent: boolean;
}

/** What an entry weighs besides its key and its result. */
const ENTRY_BYTES = 256;

/** Results, bounded in bytes. Those of states that are over go first, then those that were asked for longest ago. */
export class ResultCache {
  readonly #bytesMax: number;
  /** By key, longest unused first. */
  readonly #present = new Map<string, Kept>();
  readonly #past = new Map<string, Kept>();
  readonly #keysOf = new Map<string, Set<string>>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get size(): number {
    return this.#present.size + this.#past.size;
  }

  /** @param key - names everything that decides the result, but what is known of big segments. */
  get(key: string): CachedResult | undefined {
    const kept = this.#present.get(key);
    if (kept === undefined) return this.#past.get(key)?.result;
    this.#present.delete(key);
    this.#present.set(key, kept);
    return kept.result;
  }

  /** Keeps a result; one that is larger than all may be is not kept. */
  put(key: string, { isPresent, ...of }: Placed, result: CachedResult): void {
    this.#drop(key);
    // keys are held as UTF-16 at worst
    const bytes = ENTRY_BYTES + key.length * 2 + result.packed.bytes;
    if (bytes > this.#bytesMax) return;
    (isPresent ? this.#present : this.#past).set(key, { ...of, result, bytes });
    this.#bytes += bytes;
    let keys = this.#keysOf.get(of.environmentId);
    if (keys === undefined) this.#keysOf.set(of.environmentId, (keys = new Set()));
    keys.add(key);
    while (this.#bytes > this.#bytesMax) this.#evict();
  }

  /** An environment's data have this digest from now on. */
  advance(environmentId: string, digest: string): void {
    for (const key of this.#keysOf.get(environmentId) ?? []) {
      const kept = (this.#present.get(key) ?? this.#past.get(key))!;
      const [from, to] = kept.digest === digest ? [this.#past, this.#present] : [this.#present, this.#past];
      if (from.delete(key)) to.set(key, kept);
    }
  }

  /** Forgets an environment. */
  remove(environmentId: string): void {
    for (const key of this.#keysOf.get(environmentId) ?? []) this.#drop(key);
  }

  #evict(): void {
    const oldest = this.#past.keys().next();
    const next = oldest.done === true ? this.#present.keys().next() : oldest;
    if (next.done !== true) this.#drop(next.value);
  }

  #drop(key: string): void {
    const kept = this.#present.get(key) ?? this.#past.get(key);
    if (kept === undefined) return;
    this.#present.delete(key);
    this.#past.delete(key);
    this.#bytes -= kept.bytes;
    const keys = this.#keysOf.get(kept.environmentId);
    keys?.delete(key);
    if (keys?.size === 0) this.#keysOf.delete(kept.environmentId);
  }
}
