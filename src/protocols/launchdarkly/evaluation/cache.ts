import type { PackedFlags } from './types.ts';

/** A result that is kept. */
export interface CachedResult {
  readonly packed: PackedFlags;
  /** Keys of contexts whose memberships of big segments had a say, and what was known of them. */
  readonly consulted: readonly string[];
  readonly revision: string;
}

/** The keys of one environment's results of one state. */
interface State {
  readonly environmentId: string;
  readonly digest: string;
  readonly keys: Set<string>;
}

interface Kept {
  readonly state: State;
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

/**
 * Results, bounded in bytes. Those of states that are over go first, then those that were asked for longest ago.
 *
 * A change moves a whole state, whatever it holds: a hundred thousand small results must not be looked at one by one.
 */
export class ResultCache {
  readonly #bytesMax: number;
  /** By key, longest unused first. */
  readonly #kept = new Map<string, Kept>();
  /** By environment and digest. */
  readonly #states = new Map<string, Map<string, State>>();
  /** Those that are over, in the order in which they were found to be. */
  readonly #past = new Set<State>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get size(): number {
    return this.#kept.size;
  }

  /** @param key - names everything that decides the result, but what is known of big segments. */
  get(key: string): CachedResult | undefined {
    const kept = this.#kept.get(key);
    if (kept === undefined) return undefined;
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    return kept.result;
  }

  /** Keeps a result; one that is larger than all may be is not kept. */
  put(key: string, { environmentId, digest, isPresent }: Placed, result: CachedResult): void {
    this.#drop(key);
    // keys are held as UTF-16 at worst
    const bytes = ENTRY_BYTES + key.length * 2 + result.packed.bytes;
    if (bytes > this.#bytesMax) return;
    const state = this.#state(environmentId, digest);
    if (isPresent) this.#past.delete(state);
    else this.#past.add(state);
    state.keys.add(key);
    this.#kept.set(key, { state, result, bytes });
    this.#bytes += bytes;
    while (this.#bytes > this.#bytesMax) this.#evict();
  }

  /** An environment's data have this digest from now on. */
  advance(environmentId: string, digest: string): void {
    for (const state of this.#states.get(environmentId)?.values() ?? []) {
      if (state.digest === digest) this.#past.delete(state);
      else this.#past.add(state);
    }
  }

  /** Forgets an environment. */
  remove(environmentId: string): void {
    for (const { keys } of this.#states.get(environmentId)?.values() ?? []) {
      for (const key of keys) this.#drop(key);
    }
  }

  #state(environmentId: string, digest: string): State {
    let states = this.#states.get(environmentId);
    if (states === undefined) this.#states.set(environmentId, (states = new Map()));
    let state = states.get(digest);
    if (state === undefined) states.set(digest, (state = { environmentId, digest, keys: new Set() }));
    return state;
  }

  #evict(): void {
    const [oldest] = this.#past;
    const [key] = oldest === undefined ? this.#kept.keys() : oldest.keys;
    if (key !== undefined) this.#drop(key);
  }

  #drop(key: string): void {
    const kept = this.#kept.get(key);
    if (kept === undefined) return;
    const { state, bytes } = kept;
    this.#kept.delete(key);
    this.#bytes -= bytes;
    state.keys.delete(key);
    if (state.keys.size > 0) return;
    // a state without results is none: there would be one for every change that ever was
    this.#past.delete(state);
    const states = this.#states.get(state.environmentId);
    states?.delete(state.digest);
    if (states?.size === 0) this.#states.delete(state.environmentId);
  }
}
