import { HeadgateError } from '../../src/kernel/index.ts';
import { type Entry, openMemoryStore, type Store, type Write } from '../../src/stores/index.ts';

/** A store that fails, waits, and counts, as the test says. */
export class PersistStore implements Store {
  readonly kind = 'memory';
  readonly inner: Store;
  /** How many writes were asked for. */
  attempts = 0;
  /** Told after each write that was done. */
  onWritten: () => Promise<void> = () => Promise.resolve();
  failure: string | undefined;
  #held: Promise<void> = Promise.resolve();

  /** @param inner - what another process left, or nothing yet */
  constructor(inner: Store = openMemoryStore()) {
    this.inner = inner;
  }

  /** Answers nothing until it is let go. */
  hold(): () => void {
    let release: () => void = () => {};
    this.#held = new Promise((resolve) => (release = resolve));
    return release;
  }

  async *entries(table: string): AsyncGenerator<readonly Entry[]> {
    await this.#held;
    this.#check();
    yield* this.inner.entries(table);
  }

  async get(table: string, key: string): Promise<Uint8Array | undefined> {
    await this.#held;
    this.#check();
    return this.inner.get(table, key);
  }

  async write(writes: Iterable<Write>): Promise<void> {
    this.attempts++;
    await this.#held;
    this.#check();
    await this.inner.write(writes);
    await this.onWritten();
  }

  close(): Promise<void> {
    return this.inner.close();
  }

  #check(): void {
    if (this.failure !== undefined) throw new HeadgateError('HG_STORE', this.failure);
  }
}
