import { hash } from 'node:crypto';
import type { Item } from './item.ts';

/** 256 bits as eight 32-bit words, the least significant first. */
const WORDS = 8;
const WORD = 2 ** 32;

/**
 * A word is a double, exact up to 2^53, so 2^21 sums of 32-bit values fit before a carry must be taken. Half of
 * that leaves room for the subtractions.
 */
const SUMS_BETWEEN_CARRIES = 2 ** 20;

/**
 * A sum of SHA-256 values modulo 2^256: the digest of a set.
 *
 * A sum does not depend on the order of arrival, and what was added can be taken out again, so one change costs two
 * hashes whatever the size of the set. Addition and never XOR: under XOR a set that holds a thing twice equals the set
 * that does not hold it, and 256 chosen items suffice to reach any digest by plain linear algebra.
 *
 * Carries are put off: on 220,000 items eight doubles took 270 ms, hashing included, one BigInt 350 ms.
 *
 * @example
 * const item = { kind: 'flags', key: 'a', version: 1, text: '{}' };
 * const sum = new DigestSum();
 * sum.add(item);
 * sum.subtract(item);
 * console.log(sum.toString() === new DigestSum().toString()); // true
 */
export class DigestSum {
  readonly #words: Float64Array;
  #sums = 0;

  constructor(words: Float64Array = new Float64Array(WORDS)) {
    this.#words = words;
  }

  add(item: Item): void {
    this.#sum(item, 1);
  }

  subtract(item: Item): void {
    this.#sum(item, -1);
  }

  /** Adds another sum, as if each of its items had been added. */
  addSum(other: DigestSum): void {
    this.#carry();
    other.#carry();
    for (let word = 0; word < WORDS; word++) this.#words[word]! += other.#words[word]!;
    this.#carry();
  }

  clone(): DigestSum {
    this.#carry();
    return new DigestSum(this.#words.slice());
  }

  /** 43 characters of base64url. */
  toString(): string {
    this.#carry();
    const bytes = Buffer.alloc(WORDS * 4);
    for (let word = 0; word < WORDS; word++) bytes.writeUInt32BE(this.#words[WORDS - 1 - word]!, word * 4);
    return bytes.toString('base64url');
  }

  #sum(item: Item, sign: 1 | -1): void {
    // 'binary' is one character a byte, and a third cheaper than a Buffer of its own for each item
    const value = hash('sha256', framed(item), 'binary');
    for (let word = 0, at = 28; word < WORDS; word++, at -= 4) {
      const low = (value.charCodeAt(at + 1) << 16) | (value.charCodeAt(at + 2) << 8) | value.charCodeAt(at + 3);
      this.#words[word]! += sign * (value.charCodeAt(at) * 0x1000000 + low);
    }
    this.#sums++;
    if (this.#sums >= SUMS_BETWEEN_CARRIES) this.#carry();
  }

  /** Brings each word back to 0 .. 2^32-1. What leaves the last word is a multiple of 2^256, hence nothing. */
  #carry(): void {
    let carry = 0;
    for (let word = 0; word < WORDS; word++) {
      const value = this.#words[word]! + carry;
      carry = Math.floor(value / WORD);
      this.#words[word] = value - carry * WORD;
    }
    this.#sums = 0;
  }
}

/**
 * What of an item is hashed. The lengths in front make it unambiguous: whoever reads it knows where the kind and the
 * key end, so no two items have the same framing, whatever characters their names hold.
 */
function framed(item: Item): string {
  return `${item.kind.length}:${item.key.length}:${item.version}:${item.kind}${item.key}${item.text}`;
}
