import { type ErrorCode, HeadgateError } from '../kernel/index.ts';
import { nextInNumber, NUMBER_MAY_END, numberBegins } from './json-number.ts';

/** Bounds of one JSON file; each has its reason in {@link JSON_LIMITS}. */
export interface JsonLimits {
  /** How many containers may be open at once. */
  readonly depthMax: number;
  /** How many bytes one recorded part (a key, an item) may have, whitespace not counted. */
  readonly recordBytesMax: number;
}

/** The bounds when none are given. */
export const JSON_LIMITS: JsonLimits = {
  // A flag nests about 8 deep; parsers that recurse, as those of several SDKs do, fail somewhere above 1,000.
  depthMax: 512,
  // A recorded part becomes one string, which is copied and hashed in one call that cannot be cut into slices:
  // 16 MiB is about 10 ms of it.
  recordBytesMax: 16 * 1024 * 1024,
};

/** Where a scanner says that it is when it fails. */
export interface JsonOrigin {
  /** What the reader of an error knows the file by. */
  readonly file: string;
  readonly code: ErrorCode;
}

/** A place in a file: the first line and the first column are 1; columns count code points. */
export interface JsonPlace {
  readonly line: number;
  readonly column: number;
}

export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
export const OPEN_OBJECT = 0x7b;
export const CLOSE_OBJECT = 0x7d;
export const OPEN_ARRAY = 0x5b;
export const CLOSE_ARRAY = 0x5d;
export const COMMA = 0x2c;
export const COLON = 0x3a;
const MINUS = 0x2d;
const NEWLINE = 0x0a;

// What may come next.
const VALUE = 0;
const FIRST_ELEMENT = 1;
const FIRST_KEY = 2;
const KEY = 3;
const BETWEEN = 4; // between a key and its value: the colon
const AFTER = 5; // after a value: a comma, a closing bracket, or the end
const STRING = 6;
const ESCAPE = 7;
const HEX = 8;
const UTF8 = 9;
const NUMBER = 10;
const WORD = 11;

const EXPECTED: readonly string[] = [
  'a value',
  'a value or "]"',
  'a key in quotes or "}"',
  'a key in quotes',
  '":"',
  '"," or a closing bracket',
  'the rest of a string',
  'one of "\\/bfnrtu after a backslash',
  'four hexadecimal digits after \\u',
  'valid UTF-8',
  'a digit',
  'true, false or null',
];

const WORDS: ReadonlyMap<number, Uint8Array> = new Map(
  ['true', 'false', 'null'].map((word) => [word.charCodeAt(0), Buffer.from(word)]),
);
const ESCAPES: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));

/**
 * A validating JSON scanner (RFC 8259) that is fed a file in pieces and keeps nothing but its state.
 *
 * It accepts exactly what `JSON.parse` accepts, except for text that is not valid UTF-8 and for what its bounds refuse.
 * Subclasses learn where the keys and values of the outer three levels begin and end, and may record parts of the
 * file. A recorded part is the file's own text without the whitespace outside strings.
 *
 * ```
 *  chunk      ...  {  "k"  :  [ 1 ,  2 ]  ...
 *  runs            ├┤ ├──┤ ├┤ ├─┤ ├┤ ├──┤        what lies between whitespace
 *  recorded        {"k":[1,2]                     one run: a slice of the chunk; more: copied into a buffer
 * ```
 */
export class JsonScanner {
  /** How deep keys and values are told of: 0 is the file's own value. */
  static readonly #TOLD_DEPTH_MAX = 3;

  readonly #origin: JsonOrigin;
  readonly #limits: JsonLimits;
  #state: number = VALUE;
  /** One byte per open container: 1 for an object. */
  readonly #objects: Uint8Array;
  #depth = 0;
  #isKey = false;
  #number = 0;
  #word: Uint8Array = new Uint8Array();
  /** Bytes of the word, hexadecimal digits or continuation bytes seen or wanted. */
  #count = 0;
  #utf8Min = 0;
  #utf8Max = 0;

  #chunk: Buffer = Buffer.alloc(0);
  /** Bytes in the chunks before this one. */
  #base = 0;
  #line = 1;
  /** Where this line begins, in bytes from the start of the file. */
  #lineStart = 0;
  /** Bytes of this line that continue a code point. */
  #continuations = 0;

  #recording = false;
  #runStart = 0;
  #buffer: Buffer = Buffer.alloc(0);
  #buffered = 0;
  #ascii = true;
  #escaped = false;

  constructor(origin: JsonOrigin, limits: JsonLimits = JSON_LIMITS) {
    this.#origin = origin;
    this.#limits = limits;
    this.#objects = new Uint8Array(limits.depthMax);
  }

  /** Scans the next piece of the file; the scanner keeps no reference to it. Throws at the first byte that does not belong. */
  push(chunk: Buffer): void {
    this.#chunk = chunk;
    this.#runStart = 0;
    for (let at = 0; at < chunk.length; ) {
      // strings are most of a file
      at = this.#state === STRING ? this.#string(chunk, at) : this.#step(chunk, at);
    }
    this.#flush(chunk.length);
    this.#base += chunk.length;
    this.#chunk = Buffer.alloc(0);
    this.#runStart = 0;
  }

  /** Says that the file has ended. Throws when its value has not. */
  finish(): void {
    if (this.#state === NUMBER && NUMBER_MAY_END[this.#number] === true) this.#endValue(0);
    if (this.#state !== AFTER || this.#depth > 0) this.#unexpected(0);
  }

  /** Where the byte at `at` of the present piece is. */
  protected place(at: number): JsonPlace {
    return { line: this.#line, column: this.#base + at - this.#lineStart - this.#continuations + 1 };
  }

  /** Throws an error that names the file and a place in it. */
  protected fail(place: JsonPlace, cause: string): never {
    const { code, file } = this.#origin;
    throw new HeadgateError(code, `Cannot read ${file}:${place.line}:${place.column}: ${cause}`);
  }

  /** A key begins at `at`; `depth` containers are open. */
  protected keyBegins(_depth: number, _at: number): void {}
  /** The key's last byte is before `at`. */
  protected keyEnds(_depth: number, _at: number): void {}
  /** A value begins at `at` with `first`; `depth` containers are open around it. */
  protected valueBegins(_depth: number, _first: number, _at: number): void {}
  /** The value's last byte is before `at`. */
  protected valueEnds(_depth: number, _at: number): void {}

  /** Begins to record at `at`; what was recorded before is dropped. */
  protected record(at: number): void {
    this.#recording = true;
    this.#runStart = at;
    this.#buffered = 0;
    this.#ascii = true;
    this.#escaped = false;
  }

  /** Ends the recording, `at` being where the scanner is. */
  protected stopRecording(at: number): void {
    this.#bound(this.mark(at), at);
    this.#recording = false;
    // One large item must not cost its size for as long as the file is read.
    if (this.#buffer.length > 1024 * 1024) this.#buffer = Buffer.alloc(0);
  }

  /** How many bytes are recorded before `at`. */
  protected mark(at: number): number {
    return this.#buffered + at - this.#runStart;
  }

  /** Whether any string in the recording has a backslash. */
  protected get escaped(): boolean {
    return this.#escaped;
  }

  /** The recorded text between two marks, `at` being where the scanner is. */
  protected recorded(from: number, to: number, at: number): string {
    const encoding = this.#ascii ? 'latin1' : 'utf8';
    if (this.#buffered === 0) return this.#chunk.toString(encoding, this.#runStart + from, this.#runStart + to);
    this.#flush(at);
    this.#runStart = at;
    return this.#buffer.toString(encoding, from, to);
  }

  #step(chunk: Buffer, at: number): number {
    const byte = chunk[at] as number;
    if (this.#state <= AFTER) {
      if (byte <= 0x20) return this.#space(chunk, at);
      this.#structure(byte, at);
      return at + 1;
    }
    switch (this.#state) {
      case NUMBER:
        return this.#numberGoesOn(chunk, at);
      case WORD:
        return this.#wordGoesOn(chunk, at);
      case ESCAPE:
        return this.#escape(byte, at);
      case HEX:
        return this.#hex(byte, at);
      default:
        return this.#continuation(byte, at);
    }
  }

  #space(chunk: Buffer, from: number): number {
    let at = from;
    for (; at < chunk.length; at += 1) {
      const byte = chunk[at] as number;
      if (byte === NEWLINE) this.#newline(at);
      else if (byte !== 0x20 && byte !== 0x0d && byte !== 0x09) break;
    }
    if (at === from) this.#unexpected(at);
    this.#flush(from);
    this.#runStart = at;
    return at;
  }

  #newline(at: number): void {
    this.#line += 1;
    this.#lineStart = this.#base + at + 1;
    this.#continuations = 0;
  }

  #structure(byte: number, at: number): void {
    switch (this.#state) {
      case BETWEEN:
        if (byte !== COLON) this.#unexpected(at);
        this.#state = VALUE;
        return;
      case AFTER:
        this.#separate(byte, at);
        return;
      case KEY:
      case FIRST_KEY:
        if (byte === QUOTE) this.#beginKey(at);
        else if (byte === CLOSE_OBJECT && this.#state === FIRST_KEY) this.#close(at);
        else this.#unexpected(at);
        return;
      default:
        if (byte === CLOSE_ARRAY && this.#state === FIRST_ELEMENT) this.#close(at);
        else this.#beginValue(byte, at);
    }
  }

  #separate(byte: number, at: number): void {
    if (this.#depth === 0) this.#unexpected(at);
    const isObject = this.#objects[this.#depth - 1] === 1;
    if (byte === COMMA) this.#state = isObject ? KEY : VALUE;
    else if (byte === (isObject ? CLOSE_OBJECT : CLOSE_ARRAY)) this.#close(at);
    else this.#unexpected(at);
  }

  #beginKey(at: number): void {
    this.#isKey = true;
    if (this.#depth <= JsonScanner.#TOLD_DEPTH_MAX) this.keyBegins(this.#depth, at);
    this.#state = STRING;
  }

  #beginValue(byte: number, at: number): void {
    const isNumber = byte === MINUS || (byte >= 0x30 && byte <= 0x39);
    const word = WORDS.get(byte);
    const known = isNumber || word !== undefined || byte === QUOTE || byte === OPEN_OBJECT || byte === OPEN_ARRAY;
    if (!known) this.#unexpected(at);
    if (this.#depth <= JsonScanner.#TOLD_DEPTH_MAX) this.valueBegins(this.#depth, byte, at);
    if (byte === QUOTE) {
      this.#isKey = false;
      this.#state = STRING;
    } else if (isNumber) {
      this.#number = numberBegins(byte);
      this.#state = NUMBER;
    } else if (word !== undefined) {
      this.#word = word;
      this.#count = 1;
      this.#state = WORD;
    } else this.#open(byte, at);
  }

  #open(byte: number, at: number): void {
    if (this.#depth === this.#limits.depthMax) {
      this.fail(this.place(at), `containers may nest ${this.#limits.depthMax} deep, got one more`);
    }
    this.#objects[this.#depth] = byte === OPEN_OBJECT ? 1 : 0;
    this.#depth += 1;
    this.#state = byte === OPEN_OBJECT ? FIRST_KEY : FIRST_ELEMENT;
  }

  #close(at: number): void {
    this.#depth -= 1;
    this.#endValue(at + 1);
  }

  #endValue(at: number): void {
    this.#state = AFTER;
    if (this.#depth <= JsonScanner.#TOLD_DEPTH_MAX) this.valueEnds(this.#depth, at);
  }

  #string(chunk: Buffer, from: number): number {
    for (let at = from; at < chunk.length; at += 1) {
      const byte = chunk[at] as number;
      if (byte === QUOTE) return this.#endString(at + 1);
      if (byte === BACKSLASH) {
        this.#escaped = true;
        this.#state = ESCAPE;
        return at + 1;
      }
      if (byte < 0x20) this.#unexpected(at);
      if (byte >= 0x80) return this.#codePoint(byte, at);
    }
    return chunk.length;
  }

  #endString(at: number): number {
    if (!this.#isKey) this.#endValue(at);
    else {
      this.#state = BETWEEN;
      if (this.#depth <= JsonScanner.#TOLD_DEPTH_MAX) this.keyEnds(this.#depth, at);
    }
    return at;
  }

  #escape(byte: number, at: number): number {
    if (byte === 0x75) {
      this.#count = 0;
      this.#state = HEX;
    } else if (ESCAPES.has(byte)) this.#state = STRING;
    else this.#unexpected(at);
    return at + 1;
  }

  #hex(byte: number, at: number): number {
    const isDigit = (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66);
    if (!isDigit) this.#unexpected(at);
    this.#count += 1;
    if (this.#count === 4) this.#state = STRING;
    return at + 1;
  }

  /** The first byte of a code point above U+007F, and what its second byte may be (RFC 3629 section 4). */
  #codePoint(byte: number, at: number): number {
    this.#ascii = false;
    this.#state = UTF8;
    if (byte < 0xc2 || byte > 0xf4) this.#unexpected(at);
    this.#count = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    this.#utf8Min = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80;
    this.#utf8Max = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
    return at + 1;
  }

  #continuation(byte: number, at: number): number {
    if (byte < this.#utf8Min || byte > this.#utf8Max) this.#unexpected(at);
    this.#utf8Min = 0x80;
    this.#utf8Max = 0xbf;
    this.#continuations += 1;
    this.#count -= 1;
    if (this.#count === 0) this.#state = STRING;
    return at + 1;
  }

  #wordGoesOn(chunk: Buffer, from: number): number {
    let at = from;
    for (; at < chunk.length && this.#count < this.#word.length; at += 1) {
      if (chunk[at] !== this.#word[this.#count]) this.#unexpected(at);
      this.#count += 1;
    }
    if (this.#count === this.#word.length) this.#endValue(at);
    return at;
  }

  #numberGoesOn(chunk: Buffer, from: number): number {
    for (let at = from; at < chunk.length; at += 1) {
      const next = nextInNumber(this.#number, chunk[at] as number);
      if (next === 0) {
        if (NUMBER_MAY_END[this.#number] !== true) this.#unexpected(at);
        this.#endValue(at);
        return at;
      }
      this.#number = next;
    }
    return chunk.length;
  }

  /** Moves the run that ends before `end` into the buffer. */
  #flush(end: number): void {
    if (!this.#recording || end <= this.#runStart) return;
    const size = this.#buffered + end - this.#runStart;
    this.#bound(size, end);
    if (size > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(4096, 2 ** Math.ceil(Math.log2(size))));
      this.#buffer.copy(larger, 0, 0, this.#buffered);
      this.#buffer = larger;
    }
    this.#chunk.copy(this.#buffer, this.#buffered, this.#runStart, end);
    this.#buffered = size;
  }

  #bound(size: number, at: number): void {
    if (size <= this.#limits.recordBytesMax) return;
    this.fail(this.place(at), `one item may have ${this.#limits.recordBytesMax} bytes, got more`);
  }

  #unexpected(at: number): never {
    const byte = this.#chunk[at];
    let expected = this.#depth === 0 && this.#state === AFTER ? 'the end of the file' : EXPECTED[this.#state];
    if (this.#state === STRING && byte !== undefined) expected = 'no raw control character in a string';
    this.fail(this.place(at), `expected ${expected}, got ${this.#got(byte)}`);
  }

  #got(byte: number | undefined): string {
    if (byte === undefined) return 'the end of the file';
    if (byte === 0xef && this.#base === 0 && this.#depth === 0) return 'a byte order mark: save the file without one';
    if (byte > 0x20 && byte < 0x7f) return JSON.stringify(String.fromCharCode(byte));
    return `byte 0x${byte.toString(16).padStart(2, '0')}`;
  }
}
