import { crc32 } from 'node:zlib';
import type { EvaluatedFlag } from '../evaluation/types.ts';

/** A version and a checksum: two numbers of 32 bits. */
const FIELDS = 2;

/** For all streams of an environment and an audience: which place a flag has in their fingerprints. */
export class FingerprintIndex {
  readonly #places = new Map<string, number>();
  /** Bytes that streams of this index may still take. */
  #bytesLeft: number;

  constructor(bytesMax: number) {
    this.#bytesLeft = bytesMax;
  }

  get size(): number {
    return this.#places.size;
  }

  placeOf(key: string): number | undefined {
    return this.#places.get(key);
  }

  place(key: string): number {
    let place = this.#places.get(key);
    if (place === undefined) this.#places.set(key, (place = this.#places.size));
    return place;
  }

  /** Whether a stream may take as many bytes; it must give them back. */
  take(bytes: number): boolean {
    if (bytes > this.#bytesLeft) return false;
    this.#bytesLeft -= bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#bytesLeft += bytes;
  }
}

/**
 * What one stream was sent, in eight bytes a flag: so that an edit of a segment that two thousand flags use is sent to those
 * whose values it changed, and not to everybody. Values themselves would take a hundred times as much.
 *
 * Without room in its index it knows nothing, and everything counts as changed.
 */
export class Fingerprints {
  readonly #index: FingerprintIndex;
  #prints: Uint32Array = new Uint32Array(0);
  /** Whether it holds all that the stream was sent: then a flag that it does not have is one that the stream does not have. */
  #complete = false;

  constructor(index: FingerprintIndex) {
    this.#index = index;
  }

  /** Notes a full copy. */
  replace(flags: readonly EvaluatedFlag[]): void {
    this.release();
    for (const { key } of flags) this.#index.place(key);
    this.#complete = this.#grow();
    for (const flag of flags) this.#note(flag);
  }

  /** Whether the stream lacks this value. Notes it. */
  isNews(flag: EvaluatedFlag): boolean {
    const at = this.#index.place(flag.key) * FIELDS;
    if (at >= this.#prints.length && this.#complete) this.#complete = this.#grow();
    if (at >= this.#prints.length) return true;
    const [version, sum] = [this.#prints[at], this.#prints[at + 1]];
    this.#note(flag);
    return version !== this.#prints[at] || sum !== this.#prints[at + 1];
  }

  /** Whether the stream has this flag; undefined where that is not known. Forgets it. */
  had(key: string): boolean | undefined {
    const place = this.#index.placeOf(key);
    const at = place === undefined ? undefined : place * FIELDS;
    const was = at !== undefined && at < this.#prints.length && this.#prints[at] !== 0;
    if (at !== undefined && was) this.#prints[at] = 0;
    return this.#complete || was ? was : undefined;
  }

  /** Gives its memory back. */
  release(): void {
    this.#index.giveBack(this.#prints.byteLength);
    this.#prints = new Uint32Array(0);
    this.#complete = false;
  }

  /** Makes room for all flags of the index. Whether there was any. */
  #grow(): boolean {
    const length = this.#index.size * FIELDS;
    if (length <= this.#prints.length) return true;
    if (!this.#index.take(length * Uint32Array.BYTES_PER_ELEMENT - this.#prints.byteLength)) return false;
    const prints = new Uint32Array(length);
    prints.set(this.#prints);
    this.#prints = prints;
    return true;
  }

  /** 0 as a version is "not sent": versions count from 1 here. */
  #note({ key, version, fields, extra }: EvaluatedFlag): void {
    const at = this.#index.place(key) * FIELDS;
    if (at >= this.#prints.length) return;
    this.#prints[at] = (version % VERSION_MAX) + 1;
    this.#prints[at + 1] = crc32(extra, crc32(fields));
  }
}

const VERSION_MAX = 2 ** 32 - 1;
