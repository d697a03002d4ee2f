import { accessSync, constants, existsSync, mkdirSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { HeadgateError, messageOf } from '../kernel/index.ts';
import { damageOf } from './lmdb-check.ts';
import { eachRecord, isSound, keyInFile, Packer, seal, valueInFile, valueOf } from './lmdb-format.ts';
import { ABORT, type LmdbDatabase, openLmdb } from './lmdb-package.ts';

/** Raised when the tables or their keys are laid out in another way, so that an older program does not misread them. */
const STORE_FORMAT = 1;

// Table names have a letter first, so a table without a name is the store's own.
const FORMAT_KEY = keyInFile('', 'format');
const OWNER_KEY = keyInFile('', 'owner');

/** What this thread has open, and what it can be asked for: all of it at once, one call after the other. */
export type FileRequest =
  | { readonly act: 'open'; readonly path: string; readonly owner: string }
  | { readonly act: 'get'; readonly key: Uint8Array }
  | { readonly act: 'page'; readonly from: Uint8Array; readonly isAfter: boolean; readonly to: Uint8Array }
  | { readonly act: 'begin' }
  | { readonly act: 'put'; readonly pack: Uint8Array }
  | { readonly act: 'commit' }
  | { readonly act: 'abort' }
  | { readonly act: 'close' };

/**
 * What was read of the file stays in the process's resident set, and what a transaction allocated with LMDB, until the
 * file is closed. So it is opened anew, which takes a millisecond, after this much.
 */
const TOUCHED_BYTES_MAX = 16 * 1024 * 1024;

interface Transaction {
  /** Settles when the transaction has ended. */
  readonly done: Promise<unknown>;
  readonly end: (how: typeof ABORT | undefined) => void;
}

/**
 * One file of LMDB, used from one thread that may wait for the disk.
 *
 * A transaction is one of the file and not of the caller: nothing may be read between `begin` and `commit`.
 */
export class LmdbFile {
  #path = '';
  #owner = '';
  #db: LmdbDatabase | undefined;
  #transaction: Transaction | undefined;
  /** Whether the file must be looked at before LMDB opens it: what this process closed itself is as it was. */
  #isSuspect = true;
  /** How many bytes were read or written since the file was opened. */
  #touchedBytes = 0;

  /** Does what is asked; answers a pack for `get` and `page`. Throws HG_STORE. */
  async handle(request: FileRequest): Promise<Uint8Array<ArrayBuffer> | undefined> {
    switch (request.act) {
      case 'open':
        this.#path = request.path;
        this.#owner = request.owner;
        return this.#reading('open', () => this.#open('first'));
      case 'get':
        return this.#reading('read', () => this.#get(Buffer.from(request.key)));
      case 'page':
        await this.#letGo();
        return this.#reading('read', () => this.#page(request));
      case 'begin':
        return this.#writing(() => this.#begin());
      case 'put':
        return this.#writing(() => this.#put(request.pack));
      case 'commit':
        return this.#writing(() => this.#commit());
      case 'abort':
        return this.#abort();
      case 'close':
        return this.#close();
    }
  }

  #reading<T>(act: string, run: () => T): T {
    try {
      return run();
    } catch (thrown) {
      throw this.#error(act, thrown, ADVICE_DAMAGED);
    }
  }

  async #writing(run: () => void | Promise<void>): Promise<undefined> {
    try {
      await run();
      return undefined;
    } catch (thrown) {
      const error = this.#error('write to', thrown, `${this.#space()}${ADVICE_FULL}`);
      await this.#abort();
      // after some failures LMDB refuses everything until it is opened anew
      await this.#close();
      this.#isSuspect = true;
      throw error;
    }
  }

  #opened(): LmdbDatabase {
    if (this.#db === undefined) this.#open('again');
    return this.#db as LmdbDatabase;
  }

  async #letGo(): Promise<void> {
    if (this.#touchedBytes > TOUCHED_BYTES_MAX) await this.#close();
  }

  #open(time: 'first' | 'again'): undefined {
    const data = join(this.#path, 'data.mdb');
    try {
      mkdirSync(this.#path, { recursive: true });
      accessSync(this.#path, constants.R_OK | constants.W_OK | constants.X_OK);
      for (const name of ['data.mdb', 'lock.mdb']) {
        const file = join(this.#path, name);
        if (existsSync(file)) accessSync(file, constants.R_OK | constants.W_OK);
      }
    } catch (thrown) {
      throw this.#error('open', thrown, ADVICE_PATH);
    }
    const damage = this.#isSuspect ? damageOf(data) : undefined;
    if (damage !== undefined) throw this.#error('open', `${data} is damaged: ${damage}`, ADVICE_DAMAGED);
    const db = openLmdb<Buffer, Buffer>({
      path: this.#path,
      noSubdir: false,
      keyEncoding: 'binary',
      encoding: 'binary',
      // the plain way of LMDB: a transaction is on the disk when its commit returns
      overlappingSync: false,
    });
    this.#db = db;
    this.#touchedBytes = 0;
    try {
      this.#checkFormat(db);
      if (time === 'first')
        db.transactionSync(() => db.putSync(OWNER_KEY, valueInFile(OWNER_KEY, Buffer.from(this.#owner))));
    } catch (thrown) {
      this.#db = undefined;
      void db.close();
      throw thrown;
    }
    this.#isSuspect = false;
    return undefined;
  }

  #checkFormat(db: LmdbDatabase): void {
    const found = this.#read(db, FORMAT_KEY);
    if (found === undefined) {
      const isEmpty = [...db.getKeys({ limit: 1, start: Buffer.of(0) })].length === 0;
      if (!isEmpty) throw this.#error('open', 'it holds data of another program', ADVICE_OTHER);
      db.transactionSync(() => db.putSync(FORMAT_KEY, valueInFile(FORMAT_KEY, Buffer.from(`${STORE_FORMAT}`))));
      return;
    }
    const format = Number(found.toString());
    if (format === STORE_FORMAT) return;
    const cause = `it has format ${found.toString()}, and this version of Headgate knows format ${STORE_FORMAT}`;
    throw this.#error('open', cause, ADVICE_NEWER);
  }

  #read(db: LmdbDatabase, key: Buffer): Buffer | undefined {
    const framed = db.getBinary(key);
    if (framed === undefined) return undefined;
    this.#checkSound(key, framed);
    return valueOf(framed);
  }

  #checkSound(key: Buffer, framed: Buffer): void {
    if (isSound(key, framed)) return;
    const shown = JSON.stringify(key.toString('latin1').replace('\0', '/').slice(0, 80));
    throw new Error(`the value of ${shown} is damaged`);
  }

  #get(key: Buffer): Uint8Array<ArrayBuffer> | undefined {
    const framed = this.#opened().getBinary(key);
    if (framed === undefined) return undefined;
    this.#checkSound(key, framed);
    const packer = new Packer();
    packer.addEntry(key, framed);
    return packer.take();
  }

  #page({ from, isAfter, to }: { from: Uint8Array; isAfter: boolean; to: Uint8Array }): Uint8Array<ArrayBuffer> {
    const packer = new Packer();
    const range = { start: Buffer.from(from), end: Buffer.from(to), exclusiveStart: isAfter };
    for (const { key, value } of this.#opened().getRange(range)) {
      this.#checkSound(key, value);
      packer.addEntry(key, value);
      if (packer.full) break;
    }
    this.#touchedBytes += packer.size;
    return packer.take();
  }

  #begin(): void {
    const db = this.#opened();
    let end: (how: typeof ABORT | undefined) => void = () => {};
    const held = new Promise<typeof ABORT | undefined>((resolve) => {
      end = resolve;
    });
    const done = db.transactionSync(() => held) as unknown as Promise<unknown>;
    done.catch(() => {});
    this.#transaction = { done, end };
    const owner = this.#read(db, OWNER_KEY)?.toString();
    if (owner === undefined) throw this.#error('write to', 'its files were taken away', ADVICE_GONE);
    if (owner !== this.#owner) throw this.#error('write to', 'another process has opened it since', ADVICE_SHARED);
  }

  #put(pack: Uint8Array): void {
    const db = this.#opened();
    if (this.#transaction === undefined) throw new Error('there is no transaction');
    this.#touchedBytes += pack.length;
    eachRecord(pack, (key, framed) => {
      if (framed === undefined) {
        db.removeSync(key);
        return;
      }
      seal(key, framed);
      db.putSync(key, framed);
    });
  }

  async #commit(): Promise<void> {
    const transaction = this.#transaction;
    if (transaction === undefined) throw new Error('there is no transaction');
    this.#transaction = undefined;
    transaction.end(undefined);
    await transaction.done;
    await this.#letGo();
  }

  async #abort(): Promise<undefined> {
    const transaction = this.#transaction;
    this.#transaction = undefined;
    transaction?.end(ABORT);
    await transaction?.done.catch(() => {});
    return undefined;
  }

  async #close(): Promise<undefined> {
    const db = this.#db;
    this.#db = undefined;
    await db?.close();
    return undefined;
  }

  #space(): string {
    try {
      const { bavail, bsize } = statfsSync(this.#path);
      return `The disk has ${Math.floor((bavail * bsize) / 1_048_576)} MiB free. `;
    } catch {
      return '';
    }
  }

  #error(act: string, thrown: unknown, advice: string): HeadgateError {
    if (thrown instanceof HeadgateError) return thrown;
    const message = `Cannot ${act} the store at ${this.#path}: ${messageOf(thrown)}. ${advice}`;
    return new HeadgateError('HG_STORE', message, { cause: thrown });
  }
}

const ADVICE_PATH =
  'Set `store.path` to a folder that this process may write to, or `store: none` to keep nothing across restarts';
const ADVICE_DAMAGED =
  'Move the folder away to begin with an empty store, or set `store.path` to another one; nothing in it was changed';
const ADVICE_OTHER = 'Set `store.path` to a folder of its own';
const ADVICE_NEWER = 'Use the version that wrote it, or set `store.path` to another folder; nothing in it was changed';
const ADVICE_FULL = 'Headgate serves on and tries again; until then a restart finds what was written before';
const ADVICE_GONE = 'Start Headgate again: what was in them cannot be completed';
const ADVICE_SHARED = 'Give each process a `store.path` of its own; this one no longer writes';
