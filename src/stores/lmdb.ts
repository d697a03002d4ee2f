import { randomUUID } from 'node:crypto';
import { HeadgateError, Slices } from '../kernel/index.ts';
import { keyInFile, eachRecord, Packer, prefixOf, Unpacker, valueOf } from './lmdb-format.ts';
import { beginThread, type FileThread } from './lmdb-thread.ts';
import { checkKey, checkTable, checkWrite, type Entry, type Store, type Write } from './store.ts';

/** Settings of {@link openLmdbStore}. */
export interface LmdbOptions {
  /** A folder of its own; it is made when it is not there. */
  readonly path: string;
}

/** How many packs of a write may be on their way to the thread: it is never idle, and memory stays bounded. */
const PACKS_AHEAD_MAX = 4;

/**
 * Opens a store in a folder on this machine: an embedded database (LMDB), on a thread of its own.
 *
 * A write is whole after a crash of the process or of the machine. One process uses a folder: when another one opens it,
 * the first can no longer write.
 *
 * Rejects with HG_STORE, which says what to do, when the folder cannot be used, holds something else, is damaged, or was
 * written by a newer version. Nothing in it is deleted or changed then.
 *
 * @example
 * import { mkdtempSync } from 'node:fs';
 * import { tmpdir } from 'node:os';
 *
 * const path = mkdtempSync(`${tmpdir()}/headgate-example-`);
 * const store = await openLmdbStore({ path });
 * await store.write([{ table: 'greetings', key: 'en', value: Buffer.from('hello') }]);
 * await store.close();
 * const again = await openLmdbStore({ path });
 * console.log(new TextDecoder().decode(await again.get('greetings', 'en'))); // hello
 * await again.close();
 */
export async function openLmdbStore(options: LmdbOptions): Promise<Store> {
  if (typeof options.path !== 'string' || options.path === '') {
    throw new HeadgateError(
      'HG_OPTION',
      `Cannot open a store: the path of its folder must be a text, got ${JSON.stringify(options.path)}`,
    );
  }
  const store = new LmdbStore(options.path);
  await store.open();
  return store;
}

class LmdbStore implements Store {
  readonly kind = 'lmdb';
  readonly #path: string;
  readonly #owner: string = randomUUID();
  readonly #thread: FileThread = beginThread();
  /** The last of the calls; each begins when the one before has ended, so nothing is read in the middle of a write. */
  #turn: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  async open(): Promise<void> {
    try {
      await this.#thread.call({ act: 'open', path: this.#path, owner: this.#owner });
    } catch (thrown) {
      await this.#thread.end();
      throw thrown;
    }
  }

  async *entries(table: string): AsyncGenerator<readonly Entry[]> {
    checkTable(table);
    const unpacker = new Unpacker(table);
    const to = prefixOf(table);
    to[to.length - 1] = 1;
    const page = (from: Uint8Array, isAfter: boolean): Promise<Uint8Array | undefined> => {
      const pack = this.#inTurn(() => this.#thread.call({ act: 'page', from, isAfter, to }));
      // seen when its turn comes, unless the reader has stopped
      pack.catch(() => {});
      return pack;
    };
    let next = page(prefixOf(table), false);
    for (let pack = await next; pack !== undefined && pack.length > 0; pack = await next) {
      // read while this one is used
      next = page(lastKeyOf(pack), true);
      const entries = unpacker.take(pack);
      if (entries.length > 0) yield entries;
    }
    const rest = unpacker.finish();
    if (rest.length > 0) yield rest;
  }

  async get(table: string, key: string): Promise<Uint8Array | undefined> {
    checkTable(table);
    checkKey(key);
    const pack = await this.#inTurn(() => this.#thread.call({ act: 'get', key: keyInFile(table, key) }));
    let value: Uint8Array | undefined;
    if (pack !== undefined) {
      eachRecord(pack, (_key, framed) => {
        if (framed !== undefined) value = valueOf(framed);
      });
    }
    return value;
  }

  write(writes: Iterable<Write>): Promise<void> {
    return this.#inTurn(() => this.#write(writes));
  }

  close(): Promise<void> {
    this.#closing ??= this.#turn.then(async () => {
      await this.#thread.call({ act: 'close' }).catch(() => {});
      await this.#thread.end();
    });
    return this.#closing;
  }

  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) {
      return Promise.reject(new HeadgateError('HG_STORE', 'Cannot use the store: it is closed'));
    }
    const done = this.#turn.then(run);
    this.#turn = done.catch(() => {});
    return done;
  }

  async #write(writes: Iterable<Write>): Promise<void> {
    const sending = new Sending(this.#thread);
    try {
      await sending.begin();
      const slices = new Slices();
      const packer = new Packer();
      for (const write of writes) {
        checkWrite(write);
        packer.addWrite(write);
        if (packer.full) await sending.send(packer.take());
        if (slices.due()) await slices.pause();
      }
      await sending.send(packer.take());
      await sending.commit();
    } catch (thrown) {
      await sending.abort();
      throw thrown;
    }
  }
}

function lastKeyOf(pack: Uint8Array): Uint8Array {
  let last: Uint8Array = pack;
  eachRecord(pack, (key) => {
    last = key;
  });
  return Uint8Array.from(last);
}

/** The packs of one write, a few of them ahead of the thread. */
class Sending {
  readonly #thread: FileThread;
  readonly #ahead: Promise<unknown>[] = [];

  constructor(thread: FileThread) {
    this.#thread = thread;
  }

  async begin(): Promise<void> {
    await this.#thread.call({ act: 'begin' });
  }

  async send(pack: Uint8Array): Promise<void> {
    if (pack.length === 0) return;
    const answer = this.#thread.call({ act: 'put', pack });
    // seen when its turn comes, at the latest by commit()
    answer.catch(() => {});
    this.#ahead.push(answer);
    if (this.#ahead.length > PACKS_AHEAD_MAX) await this.#ahead.shift();
  }

  async commit(): Promise<void> {
    for (const answer of this.#ahead) await answer;
    await this.#thread.call({ act: 'commit' });
  }

  async abort(): Promise<void> {
    await this.#thread.call({ act: 'abort' }).catch(() => {});
  }
}
