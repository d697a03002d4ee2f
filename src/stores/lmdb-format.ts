import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Entry, Write } from './store.ts';

// How entries look in the file, and on their way between the thread of the store and the one that uses it.
//
//   key in the file    table │ 0 │ key in UTF-8                                      a key of up to 1,900 bytes
//                      table │ 0 │ its first 1,900 bytes │ 0xFF │ SHA-256 of all     a longer one, or one with lone surrogates
//   value in the file  CRC-32 of what follows and of the key in the file │ 0 │ value
//                      CRC-32 …                                          │ 1 │ length │ the whole key in UTF-16 │ value
//   record in a pack   length of the key (2) │ length of the value (4; NOTHING: delete) │ key in the file │ value in the file
//
// 0xFF is no byte of UTF-8. So keys are in the order of their bytes; of two long ones that begin alike the whole keys decide,
// which the reader sorts by.

/** LMDB takes keys of 1,978 bytes: 32 of the table, one between, these, one between and 32 of the hash. */
const KEY_BYTES_MAX = 1900;
const HASH_MARK = 0xff;
const HASH_BYTES = 32;

const CRC_BYTES = 4;
const PLAIN = 0;
const WITH_KEY = 1;

/** Instead of the length of a value in a pack: the key is deleted. */
const NOTHING = 0xffffffff;
const HEAD_BYTES = 6;
/** Large enough that handing one over costs little per entry, small enough to be a slice of the event loop. */
const PACK_BYTES = 256 * 1024;

const LONE_SURROGATE = /\p{Surrogate}/u;
const NONE = Buffer.alloc(0);

/** The bytes that all keys of a table begin with, and no other key does. */
export function prefixOf(table: string): Buffer {
  return Buffer.from(`${table}\0`);
}

interface StoredKey {
  readonly bytes: Buffer;
  /** The whole key in UTF-16 where the bytes do not hold it. */
  readonly whole: Buffer;
}

function storedKey(table: string, key: string): StoredKey {
  const bytes = Buffer.from(`${table}\0${key}`);
  const prefixBytes = table.length + 1;
  const isAscii = bytes.length === prefixBytes + key.length;
  if (bytes.length - prefixBytes <= KEY_BYTES_MAX && (isAscii || !LONE_SURROGATE.test(key)))
    return { bytes, whole: NONE };
  const whole = Buffer.from(key, 'utf16le');
  const hash = createHash('sha256').update(whole).digest();
  const head = bytes.subarray(0, prefixBytes + KEY_BYTES_MAX);
  return { bytes: Buffer.concat([head, Buffer.of(HASH_MARK), hash]), whole };
}

/** The key in the file. */
export function keyInFile(table: string, key: string): Buffer {
  return storedKey(table, key).bytes;
}

/** The value in the file, under the key in the file. */
export function valueInFile(key: Buffer, value: Uint8Array): Buffer {
  const framed = Buffer.concat([Buffer.alloc(CRC_BYTES), Buffer.of(PLAIN), value]);
  seal(key, framed);
  return framed;
}

/** Writes the checksum at the front of a value. */
export function seal(key: Buffer, framed: Buffer): void {
  framed.writeUInt32LE(crc32(framed.subarray(CRC_BYTES), crc32(key)), 0);
}

/** Whether a value is the one that was written under this key. */
export function isSound(key: Buffer, framed: Buffer): boolean {
  if (framed.length <= CRC_BYTES) return false;
  return framed.readUInt32LE(0) === crc32(framed.subarray(CRC_BYTES), crc32(key));
}

/** The value without what stands before it. */
export function valueOf(framed: Buffer): Buffer {
  if (framed[CRC_BYTES] === PLAIN) return framed.subarray(CRC_BYTES + 1);
  return framed.subarray(CRC_BYTES + 5 + framed.readUInt32LE(CRC_BYTES + 1));
}

function wholeKeyOf(framed: Buffer): string {
  const from = CRC_BYTES + 5;
  return framed.toString('utf16le', from, from + framed.readUInt32LE(CRC_BYTES + 1));
}

/** Puts records together into packs that can be handed to another thread. */
export class Packer {
  #pack: Buffer = NONE;
  #used = 0;

  /** Whether there is enough for a pack to be handed over. */
  get full(): boolean {
    return this.#used >= PACK_BYTES;
  }

  /** Bytes of what was added. */
  get size(): number {
    return this.#used;
  }

  /** Adds a change. */
  addWrite({ table, key, value }: Write): void {
    const { bytes, whole } = storedKey(table, key);
    if (value === undefined) {
      this.#head(bytes, NOTHING, 0);
      return;
    }
    const isPlain = whole.length === 0;
    const length = CRC_BYTES + (isPlain ? 1 : 5 + whole.length) + value.length;
    const at = this.#head(bytes, length, length);
    const pack = this.#pack;
    pack.writeUInt32LE(0, at);
    pack[at + CRC_BYTES] = isPlain ? PLAIN : WITH_KEY;
    if (!isPlain) {
      pack.writeUInt32LE(whole.length, at + CRC_BYTES + 1);
      pack.set(whole, at + CRC_BYTES + 5);
    }
    pack.set(value, at + length - value.length);
  }

  /** Adds an entry as it stands in the file. */
  addEntry(key: Buffer, framed: Buffer): void {
    const at = this.#head(key, framed.length, framed.length);
    this.#pack.set(framed, at);
  }

  /** Takes what was added, in memory that nothing else uses. */
  take(): Uint8Array<ArrayBuffer> {
    if (this.#used === 0) return new Uint8Array();
    const bytes = new Uint8Array(this.#pack.buffer as ArrayBuffer, this.#pack.byteOffset, this.#used);
    this.#pack = NONE;
    this.#used = 0;
    return bytes;
  }

  /** Writes the front of a record; answers where its value goes. */
  #head(key: Buffer, lengthSaid: number, length: number): number {
    const begin = this.#used;
    const end = begin + HEAD_BYTES + key.length + length;
    this.#reserve(end);
    this.#pack.writeUInt16LE(key.length, begin);
    this.#pack.writeUInt32LE(lengthSaid, begin + 2);
    this.#pack.set(key, begin + HEAD_BYTES);
    this.#used = end;
    return end - length;
  }

  #reserve(bytes: number): void {
    if (bytes <= this.#pack.length) return;
    // its own memory and not a part of Node's pool: it goes to another thread as a whole
    const larger = Buffer.allocUnsafeSlow(Math.max(PACK_BYTES + 8 * 1024, bytes, 2 * this.#pack.length));
    this.#pack.copy(larger, 0, 0, this.#used);
    this.#pack = larger;
  }
}

/** Goes through the records of a pack: the value is undefined where the key is deleted. */
export function eachRecord(pack: Uint8Array, visit: (key: Buffer, framed: Buffer | undefined) => void): void {
  const bytes = Buffer.from(pack.buffer, pack.byteOffset, pack.byteLength);
  for (let at = 0; at < bytes.length; ) {
    const keyEnd = at + HEAD_BYTES + bytes.readUInt16LE(at);
    const length = bytes.readUInt32LE(at + 2);
    const end = length === NOTHING ? keyEnd : keyEnd + length;
    visit(bytes.subarray(at + HEAD_BYTES, keyEnd), length === NOTHING ? undefined : bytes.subarray(keyEnd, end));
    at = end;
  }
}

/** Turns the packs of a table, in their order, into its entries. Their values are parts of the packs. */
export class Unpacker {
  readonly #prefixBytes: number;
  /** Long keys that begin alike: the file has them in the order of their hashes. */
  #alike: { whole: Buffer; entry: Entry }[] = [];
  #head: Buffer = NONE;

  constructor(table: string) {
    this.#prefixBytes = prefixOf(table).length;
  }

  /** The entries of one more pack, as far as their order is known. */
  take(pack: Uint8Array): readonly Entry[] {
    const entries: Entry[] = [];
    eachRecord(pack, (key, framed) => {
      if (framed === undefined) return;
      const value = valueOf(framed);
      if (framed[CRC_BYTES] === PLAIN) {
        this.#release(entries);
        entries.push([key.toString('utf8', this.#prefixBytes), value]);
        return;
      }
      const head = key.subarray(0, -HASH_BYTES);
      // no more is held back than begins alike
      if (!head.equals(this.#head)) this.#release(entries);
      this.#head = Buffer.from(head);
      const whole = wholeKeyOf(framed);
      this.#alike.push({ whole: Buffer.from(whole), entry: [whole, value] });
    });
    return entries;
  }

  /** The entries that were held back; there are no more packs. */
  finish(): readonly Entry[] {
    const entries: Entry[] = [];
    this.#release(entries);
    return entries;
  }

  #release(entries: Entry[]): void {
    if (this.#alike.length === 0) return;
    for (const { entry } of this.#alike.toSorted((a, b) => Buffer.compare(a.whole, b.whole))) entries.push(entry);
    this.#alike = [];
  }
}
