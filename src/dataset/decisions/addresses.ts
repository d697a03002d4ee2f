import type { AddressRange } from './types.ts';

/** Added to the prefix in what {@link readAddress} answers for IPv6. */
export const IPV6 = 256;

const DOT = 0x2e;
const SLASH = 0x2f;
const ZERO = 0x30;
const COLON = 0x3a;
/** The longest there is: an IPv4-mapped address in full, with a prefix of three digits. */
const TEXT_MAX = 49;
const ALL = 0xffff_ffff;

/** The first `bits` of a 32-bit word; none below 0, all from 32 on. */
export function maskOf(bits: number): number {
  if (bits <= 0) return 0;
  return bits >= 32 ? ALL : (ALL << (32 - bits)) >>> 0;
}

/** A decimal number of one to three digits without leading zeros (Go's netip takes no others), -1 otherwise. */
function decimal(bytes: Uint8Array, from: number, to: number): number {
  const digits = to - from;
  if (digits < 1 || digits > 3 || (digits > 1 && bytes[from] === ZERO)) return -1;
  let number = 0;
  for (let at = from; at < to; at++) {
    const digit = (bytes[at] as number) - ZERO;
    if (digit < 0 || digit > 9) return -1;
    number = number * 10 + digit;
  }
  return number;
}

/** Four octets as one word, -1 when it is something else. */
function quad(bytes: Uint8Array, from: number, to: number): number {
  let word = 0;
  let octets = 0;
  let begin = from;
  for (let at = from; at <= to; at++) {
    if (at < to && bytes[at] !== DOT) continue;
    const octet = decimal(bytes, begin, at);
    if (octet < 0 || octet > 255) return -1;
    word = word * 256 + octet;
    octets++;
    begin = at + 1;
    if (octets > 4) return -1;
  }
  return octets === 4 ? word : -1;
}

function hexDigit(byte: number): number {
  if (byte >= ZERO && byte <= 0x39) return byte - ZERO;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

/** One to four hexadecimal digits, -1 when it is something else. */
function hextet(bytes: Uint8Array, from: number, to: number): number {
  if (to - from < 1 || to - from > 4) return -1;
  let number = 0;
  for (let at = from; at < to; at++) {
    const digit = hexDigit(bytes[at] as number);
    if (digit < 0) return -1;
    number = number * 16 + digit;
  }
  return number;
}

/** Where the field that begins at `from` ends: at a colon, or at the end. */
function fieldEnd(bytes: Uint8Array, from: number, to: number): number {
  let at = from;
  while (at < to && bytes[at] !== COLON) at++;
  return at;
}

const halves = new Uint16Array(8);

/** The fields before and after `::` (at `gap`; -1: there is none yet) in {@link halves}; how many, or -1. */
function readFields(bytes: Uint8Array, from: number, to: number, room: number): number {
  let count = 0;
  let at = from;
  while (at < to) {
    const end = fieldEnd(bytes, at, to);
    const last = end === to;
    const field = hextet(bytes, at, end);
    if (field >= 0) {
      if (count >= room) return -1;
      halves[8 - room + count++] = field;
    } else {
      // only the last field may be an IPv4 address, which takes the place of two
      const word = last ? quad(bytes, at, end) : -1;
      if (word < 0 || count + 2 > room) return -1;
      halves[8 - room + count++] = word >>> 16;
      halves[8 - room + count++] = word & 0xffff;
    }
    if (last) return count;
    at = end + 1;
    if (at === to) return -1;
  }
  return count;
}

function gapOf(bytes: Uint8Array, from: number, to: number): number {
  for (let at = from; at + 1 < to; at++) if (bytes[at] === COLON && bytes[at + 1] === COLON) return at;
  return -1;
}

/** The eight fields of an IPv6 address in {@link halves}; false when it is none. */
function readHalves(bytes: Uint8Array, from: number, to: number): boolean {
  halves.fill(0);
  const gap = gapOf(bytes, from, to);
  if (gap < 0) return readFields(bytes, from, to, 8) === 8;
  for (let at = from; at < gap; at++) if (bytes[at] === DOT) return false;
  const before = readFields(bytes, from, gap, 8);
  // what :: stands for is at least one field
  if (before < 0 || before > 7) return false;
  const after = readFields(bytes, gap + 2, to, 8 - before);
  if (after < 0 || before + after > 7) return false;
  halves.copyWithin(8 - after, before, before + after);
  halves.fill(0, before, 8 - after);
  return true;
}

function readIpv6(bytes: Uint8Array, from: number, to: number, words: Uint32Array): boolean {
  if (!readHalves(bytes, from, to)) return false;
  for (let word = 0; word < 4; word++) {
    words[word] = (halves[2 * word] as number) * 0x1_0000 + (halves[2 * word + 1] as number);
  }
  return true;
}

/**
 * Reads an address or a network without making an object: its words go into `words`, host bits cleared. IPv4 inside
 * IPv6 (`::ffff:a.b.c.d`) is IPv4.
 *
 * @returns the prefix, for IPv6 plus {@link IPV6}; -1 when it is no address
 */
export function readAddress(bytes: Uint8Array, from: number, to: number, words: Uint32Array): number {
  if (to - from > TEXT_MAX) return -1;
  let end = from;
  let colons = false;
  while (end < to && bytes[end] !== SLASH) {
    if (bytes[end] === COLON) colons = true;
    end++;
  }
  const width = colons ? 128 : 32;
  const prefix = end === to ? width : decimal(bytes, end + 1, to);
  if (prefix < 0 || prefix > width) return -1;
  if (!colons) {
    const word = quad(bytes, from, end);
    if (word < 0) return -1;
    words[0] = (word & maskOf(prefix)) >>> 0;
    return prefix;
  }
  if (!readIpv6(bytes, from, end, words)) return -1;
  if (prefix >= 96 && words[0] === 0 && words[1] === 0 && words[2] === 0xffff) {
    words[0] = ((words[3] as number) & maskOf(prefix - 96)) >>> 0;
    return prefix - 96;
  }
  for (let word = 0; word < 4; word++) {
    words[word] = ((words[word] as number) & maskOf(prefix - 32 * word)) >>> 0;
  }
  return IPV6 + prefix;
}

const scratch = new Uint8Array(TEXT_MAX);
const scratchWords = new Uint32Array(4);

/**
 * An address or a network: IPv4, IPv6, or IPv4 inside IPv6 (which is IPv4), with or without a prefix; host bits are
 * cleared. Undefined when it is none: leading zeros and zones are not taken, as in Go's netip.
 *
 * @example
 * console.log(parseAddress('10.1.2.3/8')); // { family: 4, words: [ 167772160 ], prefix: 8 }
 * console.log(parseAddress('::ffff:10.0.0.0')?.prefix); // 32
 * console.log(parseAddress('example.org')); // undefined
 */
export function parseAddress(text: string): AddressRange | undefined {
  if (text.length > TEXT_MAX) return undefined;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code > 0x7f) return undefined;
    scratch[at] = code;
  }
  const read = readAddress(scratch, 0, text.length, scratchWords);
  if (read < 0) return undefined;
  if (read < IPV6) return { family: 4, words: [scratchWords[0] as number], prefix: read };
  return { family: 6, words: [...scratchWords], prefix: read - IPV6 };
}

/** Whether `outer` holds all of `inner`. */
export function containsRange(outer: AddressRange, inner: AddressRange): boolean {
  if (outer.family !== inner.family || outer.prefix > inner.prefix) return false;
  return outer.words.every((word, at) => {
    const mask = maskOf(outer.prefix - 32 * at);
    return word === ((inner.words[at] as number) & mask) >>> 0;
  });
}
