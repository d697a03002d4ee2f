import type { Entry, Write } from './store.ts';

/** Records of one table, in memory, and which of them are not written yet. */
export class WriteBehind {
  readonly #table: string;
  readonly #records: Map<string, Uint8Array>;
  readonly #changed: () => void;
  /** Keys whose record in the store is another one. */
  #unwritten = new Set<string>();

  /**
   * @param records - what the store holds
   * @param changed - called when something waits to be written
   */
  constructor(table: string, records: Map<string, Uint8Array>, changed: () => void) {
    this.#table = table;
    this.#records = records;
    this.#changed = changed;
  }

  get waits(): boolean {
    return this.#unwritten.size > 0;
  }

  entries(): Iterable<Entry> {
    return this.#records.entries();
  }

  set(key: string, value: Uint8Array): void {
    this.#records.set(key, value);
    this.#unwritten.add(key);
    this.#changed();
  }

  delete(key: string): void {
    if (!this.#records.delete(key)) return;
    this.#unwritten.add(key);
    this.#changed();
  }

  /** What waits, as of now; it does not wait any more. */
  take(): readonly Write[] {
    const writes = Array.from(this.#unwritten, (key) => ({ table: this.#table, key, value: this.#records.get(key) }));
    this.#unwritten = new Set();
    return writes;
  }

  /** What was taken could not be written: it waits again. */
  putBack(writes: readonly Write[]): void {
    for (const { key } of writes) this.#unwritten.add(key);
  }
}
