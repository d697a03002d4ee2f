import { HeadgateError } from '../kernel/index.ts';

/** A key of a table and its value. */
export type Entry = readonly [key: string, value: Uint8Array];

/** One change of a write: a value to keep under a key of a table, or undefined to delete it. */
export interface Write {
  readonly table: string;
  readonly key: string;
  readonly value: Uint8Array | undefined;
}

/**
 * Tables of keys and bytes that outlive the process: where the last good data, their positions and who may ask are kept.
 *
 * A table is there as soon as something was written to it; its name is lower-case letters, digits and hyphens. Keys are
 * any text up to 64 KiB. Every method rejects with HG_STORE when the store cannot do it, and the store stays usable:
 * the same call may succeed later.
 */
export interface Store {
  readonly kind: 'memory' | 'lmdb' | 'redis';
  /**
   * Everything in a table, in groups, ordered by the bytes of the keys in UTF-8 (the place of a key that is not
   * well-formed Unicode is not defined).
   *
   * Each group is read at a moment of its own: what is written meanwhile may be in it or not, and what is not touched
   * meanwhile is in exactly one group. Values may share memory with others of their group: copy those that are kept.
   */
  entries(table: string): AsyncIterable<readonly Entry[]>;
  /** The value of a key, of its own; undefined when there is none. */
  get(table: string, key: string): Promise<Uint8Array | undefined>;
  /**
   * Does all of the writes or, when it rejects or the process dies, none; a later one of the same key wins.
   *
   * Calls are done one after the other, in their order. The writes are read in slices while earlier calls and this one are
   * done, so what they refer to must stay as it is until the promise settles. When it resolves they survive the death
   * of the process and, where the store is on a disk, of the machine.
   */
  write(writes: Iterable<Write>): Promise<void>;
  /** Finishes what was asked for, then lets go. Idempotent; every other call rejects from here on. */
  close(): Promise<void>;
}

/** Also the name of a part of a key in the store's file, so it is short and has no special characters. */
const TABLE_NAME = /^[a-z][a-z0-9-]{0,31}$/;
/** A key is what a request named at most; Node's own bound on all headers of one is 16 KiB. */
const KEY_CHARACTERS_MAX = 64 * 1024;
/** LMDB's own bound is 4 GiB; values that large would be copied in one piece, on the event loop. */
const VALUE_BYTES_MAX = 64 * 1024 * 1024;

/** Throws HG_OPTION when there can be no table of this name. */
export function checkTable(table: string): void {
  if (!TABLE_NAME.test(table)) {
    throw new HeadgateError(
      'HG_OPTION',
      `Cannot use a table: its name must be up to 32 lower-case letters, digits and hyphens, got ${JSON.stringify(table)}`,
    );
  }
}

/** Throws HG_OPTION when there can be no such key. */
export function checkKey(key: string): void {
  if (key.length > KEY_CHARACTERS_MAX) {
    throw new HeadgateError(
      'HG_OPTION',
      `Cannot use a key of a store: it may have ${KEY_CHARACTERS_MAX} characters, got ${key.length}`,
    );
  }
}

/** Throws HG_OPTION when a write cannot be done by any store. */
export function checkWrite({ table, key, value }: Write): void {
  checkTable(table);
  checkKey(key);
  if (value !== undefined && value.length > VALUE_BYTES_MAX) {
    throw new HeadgateError(
      'HG_OPTION',
      `Cannot write to a store: a value may have ${VALUE_BYTES_MAX} bytes, got ${value.length}`,
    );
  }
}
