import { type Clock, HeadgateError, messageOf } from '../kernel/index.ts';
import type { Store, Write } from './store.ts';

/** How long a call to a store may take before it counts as one that fails. */
export const STORE_MS_MAX = 2000;
/** Enough for some thousand changes, and little enough to be on a disk within a second. */
const GROUP_BYTES_MAX = 8 * 1024 * 1024;

interface Asked {
  readonly writes: Iterable<Write>;
  readonly bytes: number;
  readonly alone: boolean;
  readonly resolve: () => void;
  readonly reject: (error: HeadgateError) => void;
}

/**
 * Writes to a store for many: what is asked for while a write is on its way is written together, so that the disk is
 * waited for once and not once each.
 */
export class GroupWriter {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #onFailure: (error: HeadgateError) => void;
  #asked: Asked[] = [];
  #busy = false;

  /** @param onFailure - told of each call that fails, and of each that takes too long, while that goes on */
  constructor(store: Store, clock: Clock, onFailure: (error: HeadgateError) => void) {
    this.#store = store;
    this.#clock = clock;
    this.#onFailure = onFailure;
  }

  /**
   * All of the writes or none. They are read once, later.
   *
   * @param o - `bytes`: about how many they are; `alone`: with no others, which would fail with them
   */
  write(writes: Iterable<Write>, o: { readonly bytes: number; readonly alone?: boolean }): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#asked.push({ writes, bytes: o.bytes, alone: o.alone === true, resolve, reject });
      if (!this.#busy) void this.#run();
    });
  }

  /** Waits for a call to the store, and tells when that takes too long. */
  async watch<T>(call: Promise<T>): Promise<T> {
    const timer = this.#clock.after(STORE_MS_MAX, () => this.#onFailure(tooSlow()));
    try {
      return await call;
    } catch (thrown) {
      const error = storeError(thrown);
      this.#onFailure(error);
      throw error;
    } finally {
      timer.cancel();
    }
  }

  async #run(): Promise<void> {
    this.#busy = true;
    while (this.#asked.length > 0) {
      const group = this.#take();
      try {
        await this.watch(this.#store.write(together(group)));
        for (const { resolve } of group) resolve();
      } catch (error) {
        for (const { reject } of group) reject(error as HeadgateError);
      }
    }
    this.#busy = false;
  }

  #take(): readonly Asked[] {
    let count = 1;
    let bytes = this.#asked[0]!.bytes;
    while (count < this.#asked.length && !this.#asked[0]!.alone) {
      const next = this.#asked[count]!;
      bytes += next.bytes;
      if (next.alone || bytes > GROUP_BYTES_MAX) break;
      count++;
    }
    return this.#asked.splice(0, count);
  }
}

function* together(group: readonly Asked[]): Generator<Write> {
  for (const { writes } of group) yield* writes;
}

function tooSlow(): HeadgateError {
  return new HeadgateError('HG_STORE', `Cannot keep flags: the store has not answered for ${STORE_MS_MAX} ms`);
}

function storeError(thrown: unknown): HeadgateError {
  if (thrown instanceof HeadgateError) return thrown;
  return new HeadgateError('HG_STORE', `Cannot keep flags: ${messageOf(thrown)}`, { cause: thrown });
}
