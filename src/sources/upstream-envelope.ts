import { HeadgateError } from '../kernel/index.ts';
import { BACKSLASH, CLOSE_ARRAY, CLOSE_OBJECT, COLON, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './json-scanner.ts';

const STAND_IN = Buffer.from('null');

/** What stands around the one large member: names, a path, a version. */
const REST_BYTES_MAX = 64 * 1024;

/**
 * Separates one member of a JSON object, whose value is large, from the rest, which is small. It is fed in pieces, and copies nothing of
 * the member.
 *
 * It only counts brackets: the member's value is checked by whoever reads it, the rest when it is parsed.
 */
export class Envelope {
  readonly #what: string;
  readonly #member: string;
  #rest: number[] = [];
  #depth = 0;
  #inString = false;
  #escaped = false;
  #isKey = false;
  #keyAt = 0;
  #key = '';
  /** The colon of the member was the last byte that counts. */
  #armed = false;
  #inside = false;
  #found = false;
  /** How much of the rest stood before the member's value. */
  #beganAt = 0;

  /** @param what - what messages call the object. */
  constructor(what: string, member: string) {
    this.#what = what;
    this.#member = member;
  }

  /** The part of the member's value that is in this piece; undefined when there is none. The piece is not kept. */
  push(piece: Buffer): Buffer | undefined {
    let from = this.#inside ? 0 : -1;
    let to = piece.length;
    for (let at = 0; at < piece.length; at += 1) {
      if (this.#inside) {
        at = this.#skip(piece, at);
        if (!this.#inside) to = at + 1;
      } else if (this.#outside(piece[at] as number)) from = at;
    }
    return from < 0 ? undefined : piece.subarray(from, to);
  }

  /** What stood before the member's value, once that has begun. Throws HG_SOURCE. */
  before(): Readonly<Record<string, unknown>> {
    return parseObject(this.#what, `${Buffer.from(this.#rest.slice(0, this.#beganAt)).toString('utf8')}}`);
  }

  /** The rest, once everything was fed; the member is in it only if its value is neither object nor array. Throws HG_SOURCE. */
  finish(): Readonly<Record<string, unknown>> {
    if (this.#inside) throw this.failure('the text ends within its value');
    const rest = parseObject(this.#what, Buffer.from(this.#rest).toString('utf8'));
    if (!this.#found) return rest;
    const { [this.#member]: _, ...others } = rest;
    return others;
  }

  /** Whether the member's value has begun. */
  get found(): boolean {
    return this.#found;
  }

  failure(cause: string): HeadgateError {
    return new HeadgateError('HG_SOURCE', `Cannot read ${this.#what}: ${cause}`);
  }

  /** Goes on within the value; answers where it ends, or the last byte. */
  #skip(piece: Buffer, from: number): number {
    for (let at = from; at < piece.length; at += 1) {
      const byte = piece[at] as number;
      if (this.#inString) this.#stringGoesOn(byte);
      else if (byte === QUOTE) this.#inString = true;
      else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) this.#depth += 1;
      else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
        this.#depth -= 1;
        if (this.#depth > 1) continue;
        this.#inside = false;
        return at;
      }
    }
    return piece.length;
  }

  #stringGoesOn(byte: number): void {
    if (this.#escaped) this.#escaped = false;
    else if (byte === BACKSLASH) this.#escaped = true;
    else if (byte === QUOTE) this.#inString = false;
  }

  /** Takes a byte of the rest, or answers that the member's value begins with it. */
  #outside(byte: number): boolean {
    const opens = byte === OPEN_OBJECT || byte === OPEN_ARRAY;
    if (this.#armed && opens) {
      this.#begin();
      return true;
    }
    if (this.#rest.length === REST_BYTES_MAX) {
      throw this.failure(`what stands beside "${this.#member}" may have ${REST_BYTES_MAX} bytes, got more`);
    }
    this.#rest.push(byte);
    if (this.#inString) this.#outerString(byte);
    else if (byte > 0x20) this.#structure(byte, opens);
    return false;
  }

  #outerString(byte: number): void {
    this.#stringGoesOn(byte);
    if (this.#inString || !this.#isKey) return;
    this.#isKey = false;
    this.#key = this.#depth === 1 ? Buffer.from(this.#rest.slice(this.#keyAt)).toString('utf8') : '';
  }

  #structure(byte: number, opens: boolean): void {
    this.#armed = false;
    if (byte === QUOTE) {
      this.#inString = true;
      if (this.#isKey) this.#keyAt = this.#rest.length - 1;
    } else if (opens) {
      this.#depth += 1;
      this.#isKey = this.#depth === 1 && byte === OPEN_OBJECT;
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      this.#depth -= 1;
    } else if (this.#depth === 1) {
      if (byte === COMMA) this.#isKey = true;
      this.#armed = byte === COLON && this.#key === `"${this.#member}"`;
      this.#key = '';
    }
  }

  #begin(): void {
    if (this.#found) throw this.failure(`"${this.#member}" must stand once, got it again`);
    this.#rest.push(...STAND_IN);
    this.#beganAt = this.#rest.length;
    this.#armed = false;
    this.#found = true;
    this.#inside = true;
    this.#depth = 2;
  }
}

/** The object that a text is. Throws HG_SOURCE. */
export function parseObject(what: string, text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>;
  }
  throw new HeadgateError('HG_SOURCE', `Cannot read ${what}: it must be a JSON object, got ${shorten(text)}`);
}

/** A text as it may stand in a message. */
export function shorten(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}...` : text);
}
