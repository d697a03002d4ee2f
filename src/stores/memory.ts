import { HeadgateError, Slices } from '../kernel/index.ts';
import { checkKey, checkTable, checkWrite, type Entry, type Store, type Write } from './store.ts';

/** How many entries are handed out at once: few enough for one slice of the event loop. */
const GROUP_ENTRIES = 1000;

/**
 * A store that ends with the process: for tests, and for those who want nothing kept.
 *
 * @example
 * const store = openMemoryStore();
 * await store.write([{ table: 'greetings', key: 'en', value: Buffer.from('hello') }]);
 * console.log(new TextDecoder().decode(await store.get('greetings', 'en'))); // hello
 * await store.close();
 */
export function openMemoryStore(): Store {
  return new MemoryStore();
}

class MemoryStore implements Store {
  readonly kind = 'memory';
  readonly #tables = new Map<string, Map<string, Uint8Array>>();
  /** The last of the writes; each begins when the one before has ended. */
  #turn: Promise<void> = Promise.resolve();
  #closed = false;

  async *entries(table: string): AsyncGenerator<readonly Entry[]> {
    checkTable(table);
    this.#checkOpen();
    const keys = [...(this.#tables.get(table)?.keys() ?? [])].toSorted(byUtf8);
    for (let at = 0; at < keys.length; at += GROUP_ENTRIES) {
      this.#checkOpen();
      const group: Entry[] = [];
      for (const key of keys.slice(at, at + GROUP_ENTRIES)) {
        const value = this.#tables.get(table)?.get(key);
        if (value !== undefined) group.push([key, new Uint8Array(value)]);
      }
      if (group.length > 0) yield group;
    }
  }

  async get(table: string, key: string): Promise<Uint8Array | undefined> {
    checkTable(table);
    checkKey(key);
    await this.#turn;
    this.#checkOpen();
    const value = this.#tables.get(table)?.get(key);
    return value === undefined ? undefined : new Uint8Array(value);
  }

  write(writes: Iterable<Write>): Promise<void> {
    const done = this.#turn.then(() => this.#write(writes));
    this.#turn = done.catch(() => {});
    return done;
  }

  async close(): Promise<void> {
    await this.#turn;
    this.#closed = true;
    this.#tables.clear();
  }

  async #write(writes: Iterable<Write>): Promise<void> {
    this.#checkOpen();
    const slices = new Slices();
    const copies: Write[] = [];
    for (const write of writes) {
      checkWrite(write);
      copies.push({ ...write, value: write.value === undefined ? undefined : new Uint8Array(write.value) });
      if (slices.due()) await slices.pause();
    }
    // nothing that can fail or wait from here on: readers see all of it or nothing
    for (const { table, key, value } of copies) this.#put(table, key, value);
  }

  #put(table: string, key: string, value: Uint8Array | undefined): void {
    const entries = this.#tables.get(table) ?? new Map<string, Uint8Array>();
    this.#tables.set(table, entries);
    if (value === undefined) entries.delete(key);
    else entries.set(key, value);
  }

  #checkOpen(): void {
    if (this.#closed) throw new HeadgateError('HG_STORE', 'Cannot use the store: it is closed');
  }
}

/** UTF-16 puts U+E000 to U+FFFF after the surrogates of what comes later; UTF-8 is in the order of code points. */
function byUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at++) {
    const difference = rankOf(a.charCodeAt(at)) - rankOf(b.charCodeAt(at));
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

function rankOf(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}
