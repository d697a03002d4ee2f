import { isUtf8 } from 'node:buffer';
import { Slices } from '../kernel/index.ts';

/** How many containers may be open at once: events nest about 10 deep, and parsers that recurse fail above 1,000. */
const DEPTH_MAX = 512;

/** A longer number is not one that a double could hold. */
const NUMBER_BYTES_MAX = 512;

/** How much is looked at before the clock is. */
const STRIDE_BYTES = 32_768;

const SCALAR = /^(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)$/;

// What may come next.
const BEGIN = 0;
const VALUE = 1;
const FIRST_ELEMENT = 2;
const KEY = 3;
const FIRST_KEY = 4;
const BETWEEN = 5; // between a key and its value: the colon
const AFTER = 6; // after a value: a comma or a closing bracket
const DONE = 7;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const COMMA = 0x2c;
const COLON = 0x3a;
const ESCAPE_HEX = 0x75;
const ESCAPES: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));

/** The elements of a JSON array. */
export interface ArrayElements {
  readonly count: number;
  /** Where each of the first `partsMax` begins and ends, one after the other. */
  readonly ends: readonly number[];
}

/**
 * Finds the elements of a JSON array (RFC 8259) without making values of them, in slices: a body of many megabytes never
 * holds the event loop. It accepts what `JSON.parse` accepts, within its bounds, so that whatever is joined from several
 * bodies is JSON again; one caller's nonsense must not cost the others their batch.
 *
 * @returns undefined when it is no JSON array.
 */
export async function elementsOf(bytes: Uint8Array, partsMax: number): Promise<ArrayElements | undefined> {
  if (!isUtf8(bytes)) return undefined;
  const scan = new ArrayScan(bytes, partsMax);
  const slices = new Slices();
  for (let until = STRIDE_BYTES; ; until += STRIDE_BYTES) {
    if (!scan.run(Math.min(until, bytes.length))) return undefined;
    if (until >= bytes.length) break;
    if (slices.due()) await slices.pause();
  }
  return scan.complete ? { count: scan.count, ends: scan.ends } : undefined;
}

class ArrayScan {
  count = 0;
  readonly ends: number[] = [];
  readonly #bytes: Uint8Array;
  readonly #endsMax: number;
  /** One byte per open container: 1 for an object. */
  readonly #objects = new Uint8Array(DEPTH_MAX);
  #at = 0;
  #depth = 0;
  #expected: number = BEGIN;
  #inString = false;
  #isKey = false;

  constructor(bytes: Uint8Array, partsMax: number) {
    this.#bytes = bytes;
    this.#endsMax = 2 * partsMax;
  }

  get complete(): boolean {
    return this.#expected === DONE;
  }

  /** Looks at everything before `until`. False: it does not belong. */
  run(until: number): boolean {
    while (this.#at < until) {
      if (this.#inString) {
        if (!this.#string(until)) return false;
        continue;
      }
      const byte = this.#bytes[this.#at] as number;
      if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) this.#at++;
      else if (!this.#token(byte)) return false;
    }
    return true;
  }

  #token(byte: number): boolean {
    switch (byte) {
      case QUOTE:
        this.#isKey = this.#expected === KEY || this.#expected === FIRST_KEY;
        if (!this.#isKey && !this.#beginValue()) return false;
        this.#inString = true;
        this.#at++;
        return true;
      case OPEN_OBJECT:
      case OPEN_ARRAY:
        return this.#open(byte === OPEN_OBJECT);
      case CLOSE_OBJECT:
        return this.#close(1, FIRST_KEY);
      case CLOSE_ARRAY:
        return this.#close(0, FIRST_ELEMENT);
      case COMMA:
        if (this.#expected !== AFTER) return false;
        this.#expected = this.#objects[this.#depth - 1] === 1 ? KEY : VALUE;
        this.#at++;
        return true;
      case COLON:
        if (this.#expected !== BETWEEN) return false;
        this.#expected = VALUE;
        this.#at++;
        return true;
      default:
        return this.#scalar();
    }
  }

  #open(isObject: boolean): boolean {
    if (this.#expected === BEGIN) {
      if (isObject) return false;
    } else if (!this.#beginValue()) return false;
    if (this.#depth === DEPTH_MAX) return false;
    this.#objects[this.#depth++] = isObject ? 1 : 0;
    this.#expected = isObject ? FIRST_KEY : FIRST_ELEMENT;
    this.#at++;
    return true;
  }

  #close(kind: number, first: number): boolean {
    if (this.#depth === 0 || this.#objects[this.#depth - 1] !== kind) return false;
    if (this.#expected !== AFTER && this.#expected !== first) return false;
    this.#depth--;
    this.#at++;
    this.#endValue();
    return true;
  }

  #beginValue(): boolean {
    if (this.#expected !== VALUE && this.#expected !== FIRST_ELEMENT) return false;
    if (this.#depth === 1) {
      this.count++;
      if (this.ends.length < this.#endsMax) this.ends.push(this.#at);
    }
    return true;
  }

  #endValue(): void {
    this.#expected = this.#depth === 0 ? DONE : AFTER;
    // an end is missing only where its beginning was kept
    if (this.#depth === 1 && this.ends.length % 2 === 1) this.ends.push(this.#at);
  }

  /** True, false, null and numbers. */
  #scalar(): boolean {
    if (!this.#beginValue()) return false;
    const begin = this.#at;
    const until = Math.min(this.#bytes.length, begin + NUMBER_BYTES_MAX);
    let at = begin;
    while (at < until && isOfScalar(this.#bytes[at] as number)) at++;
    if (!SCALAR.test(Buffer.from(this.#bytes.subarray(begin, at)).toString('latin1'))) return false;
    this.#at = at;
    this.#endValue();
    return true;
  }

  /** The rest of a string, as far as `until`; an escape is looked at whole. */
  #string(until: number): boolean {
    const bytes = this.#bytes;
    let at = this.#at;
    while (at < until) {
      const byte = bytes[at] as number;
      if (byte === QUOTE) {
        this.#at = at + 1;
        this.#inString = false;
        if (this.#isKey) this.#expected = BETWEEN;
        else this.#endValue();
        return true;
      }
      if (byte < 0x20) return false;
      if (byte !== BACKSLASH) {
        at++;
        continue;
      }
      const length = this.#escape(at + 1);
      if (length === 0) return false;
      at += 1 + length;
    }
    this.#at = at;
    return true;
  }

  /** How long the escape after a backslash is; 0: it is none. */
  #escape(at: number): number {
    const byte = this.#bytes[at] ?? 0;
    if (ESCAPES.has(byte)) return 1;
    if (byte !== ESCAPE_HEX) return 0;
    for (let digit = at + 1; digit <= at + 4; digit++) if (!isHex(this.#bytes[digit] ?? 0)) return 0;
    return 5;
  }
}

function isHex(byte: number): boolean {
  const lower = byte | 0x20;
  return (byte >= 0x30 && byte <= 0x39) || (lower >= 0x61 && lower <= 0x66);
}

/** Letters, digits, and what numbers have besides. */
function isOfScalar(byte: number): boolean {
  const lower = byte | 0x20;
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (lower >= 0x61 && lower <= 0x7a) ||
    byte === 0x2b ||
    byte === 0x2d ||
    byte === 0x2e
  );
}
