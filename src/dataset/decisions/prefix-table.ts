import type { Pace } from '../pace.ts';
import { maskOf } from './addresses.ts';

const SLOTS_MIN = 256;
const PREFIXES = 129;

interface Slots {
  readonly keys: Uint32Array;
  readonly prefixes: Uint8Array;
  /** The number that is kept, plus one; 0: the slot is empty. */
  readonly entries: Int32Array;
}

function makeSlots(length: number, words: number): Slots {
  return {
    keys: new Uint32Array(length * words),
    prefixes: new Uint8Array(length),
    entries: new Int32Array(length),
  };
}

/**
 * Numbers by network: open addressing with linear probing over (words, prefix). Looking for the networks around an
 * address asks once for each prefix length that is in use, however many networks there are.
 */
export class PrefixTable {
  readonly #words: number;
  readonly #counts = new Int32Array(PREFIXES);
  readonly #masked: Uint32Array;
  #slots: Slots;
  #lengths: number[] = [];
  #size = 0;

  /** @param words - 32-bit words of a key: 1 for IPv4, 4 for IPv6 */
  constructor(words: number) {
    this.#words = words;
    this.#slots = makeSlots(SLOTS_MIN, words);
    this.#masked = new Uint32Array(words);
  }

  get bytes(): number {
    return this.#slots.entries.length * (4 * this.#words + 5);
  }

  /** What is kept for this network; -1: nothing. */
  get(key: Uint32Array, prefix: number): number {
    return (this.#slots.entries[this.#find(key, prefix)] as number) - 1;
  }

  /** Keeps a number for this network, in place of what was there. There must be room. */
  set(key: Uint32Array, prefix: number, number: number): void {
    const slot = this.#find(key, prefix);
    const { entries, keys, prefixes } = this.#slots;
    if (entries[slot] === 0) {
      for (let word = 0; word < this.#words; word++) keys[slot * this.#words + word] = key[word] as number;
      prefixes[slot] = prefix;
      this.#size++;
      this.#count(prefix, 1);
    }
    entries[slot] = number + 1;
  }

  /** Keeps nothing for this network any more. It must be there. */
  delete(key: Uint32Array, prefix: number): void {
    const { entries } = this.#slots;
    const last = entries.length - 1;
    let hole = this.#find(key, prefix);
    for (let slot = (hole + 1) & last; entries[slot] !== 0; slot = (slot + 1) & last) {
      const home = this.#homeOf(slot);
      // it stands where a search that begins at its home finds it without crossing the hole
      if (((slot - home) & last) < ((slot - hole) & last)) continue;
      this.#move(slot, hole);
      hole = slot;
    }
    entries[hole] = 0;
    this.#size--;
    this.#count(prefix, -1);
  }

  /** Makes room for more networks; whoever looks meanwhile sees what was there. */
  async reserve(more: number, pace: Pace): Promise<void> {
    let length = this.#slots.entries.length;
    while ((this.#size + more) * 10 > length * 7) length *= 2;
    if (length === this.#slots.entries.length) return;
    const grown = makeSlots(length, this.#words);
    const old = this.#slots;
    for (let slot = 0; slot < old.entries.length; slot++) {
      if (old.entries[slot] !== 0) this.#transfer(old, slot, grown);
      if (pace.due()) await pace.pause();
    }
    this.#slots = grown;
  }

  /** Visits what is kept for this network and every wider one around it, the widest first. */
  around(key: Uint32Array, prefix: number, visit: (number: number) => void): void {
    const masked = this.#masked;
    for (const length of this.#lengths) {
      if (length > prefix) return;
      for (let word = 0; word < this.#words; word++) {
        masked[word] = (key[word] as number) & maskOf(length - 32 * word);
      }
      const number = this.get(masked, length);
      if (number >= 0) visit(number);
    }
  }

  /** Visits what is kept for this network and every narrower one in it: a walk over all. */
  inside(key: Uint32Array, prefix: number, visit: (number: number) => void): void {
    const { entries, keys, prefixes } = this.#slots;
    for (let slot = 0; slot < entries.length; slot++) {
      if (entries[slot] === 0 || (prefixes[slot] as number) < prefix) continue;
      let same = true;
      for (let word = 0; word < this.#words && same; word++) {
        const bits = (keys[slot * this.#words + word] as number) & maskOf(prefix - 32 * word);
        same = bits >>> 0 === key[word];
      }
      if (same) visit((entries[slot] as number) - 1);
    }
  }

  #find(key: Uint32Array, prefix: number): number {
    const { entries, prefixes } = this.#slots;
    const last = entries.length - 1;
    let slot = this.#hash(key, 0, prefix) & last;
    while (entries[slot] !== 0 && !(prefixes[slot] === prefix && this.#isKey(slot, key))) slot = (slot + 1) & last;
    return slot;
  }

  #isKey(slot: number, key: Uint32Array): boolean {
    const { keys } = this.#slots;
    for (let word = 0; word < this.#words; word++) if (keys[slot * this.#words + word] !== key[word]) return false;
    return true;
  }

  #hash(keys: Uint32Array, at: number, prefix: number): number {
    let hash = prefix;
    for (let word = 0; word < this.#words; word++) {
      hash = Math.imul(hash ^ (keys[at + word] as number), 0x9e37_79b1);
      hash ^= hash >>> 15;
    }
    hash = Math.imul(hash, 0x85eb_ca6b);
    return (hash ^ (hash >>> 13)) >>> 0;
  }

  #homeOf(slot: number): number {
    const { keys, prefixes, entries } = this.#slots;
    return this.#hash(keys, slot * this.#words, prefixes[slot] as number) & (entries.length - 1);
  }

  #move(from: number, to: number): void {
    const { keys, prefixes, entries } = this.#slots;
    keys.copyWithin(to * this.#words, from * this.#words, (from + 1) * this.#words);
    prefixes[to] = prefixes[from] as number;
    entries[to] = entries[from] as number;
  }

  #transfer(old: Slots, slot: number, into: Slots): void {
    const at = slot * this.#words;
    const prefix = old.prefixes[slot] as number;
    const last = into.entries.length - 1;
    let to = this.#hash(old.keys, at, prefix) & last;
    while (into.entries[to] !== 0) to = (to + 1) & last;
    for (let word = 0; word < this.#words; word++) {
      into.keys[to * this.#words + word] = old.keys[at + word] as number;
    }
    into.prefixes[to] = prefix;
    into.entries[to] = old.entries[slot] as number;
  }

  #count(prefix: number, change: number): void {
    const count = (this.#counts[prefix] as number) + change;
    this.#counts[prefix] = count;
    if (count === 0) this.#lengths = this.#lengths.filter((length) => length !== prefix);
    else if (count === 1 && change === 1) this.#lengths = [...this.#lengths, prefix].toSorted((a, b) => a - b);
  }
}
