import { HeadgateError } from '../kernel/index.ts';

/** An event of a stream, told while its data are still coming. */
export interface StreamEvent {
  /** Its type; `message` when it has none. */
  readonly name: string;
  /** What to send as `Last-Event-ID` once this event was taken; known once `data` has ended. Undefined: no event had one yet. */
  readonly id: string | undefined;
  /** The bytes of its data in pieces, lines joined by a line feed. Must be read before the next event is asked for; what is left unread is skipped. */
  readonly data: AsyncIterable<Uint8Array>;
}

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const SPACE = 0x20;
const BOM: readonly number[] = [0xef, 0xbb, 0xbf];
const NEWLINE: Uint8Array = Uint8Array.of(LF);
const NOTHING: Uint8Array = new Uint8Array();

/** The name of an event, an id: a line other than data is short. */
const LINE_BYTES_MAX = 64 * 1024;
/** Data that came before the name of their event must wait for it. Nobody sends them so but for small ones. */
const WAITING_BYTES_MAX = 1024 * 1024;

const END = 'end';
const OVER = 'over';
type Token = Uint8Array | typeof END | typeof OVER;

/**
 * Reads `text/event-stream` (WHATWG HTML, section 9.2.6): CR, LF and CRLF, a byte order mark, comments, fields nobody knows.
 *
 * The data of an event come in pieces as they arrive, so an event of any size costs no more than a piece. Comments count as
 * nothing but bytes. `retry` is not told. An event that the end of the stream cuts short throws when its data
 * are being read, and is nothing when none of it was told.
 *
 * @throws HeadgateError HG_UPSTREAM for an event that ends within its data; HG_SOURCE for a line that is too long, or an event
 * that says what it is after more data than can wait.
 *
 * @example
 * async function* body() {
 *   yield Buffer.from('event: put\nda');
 *   yield Buffer.from('ta: {}\nid: 7\n\n: a comment\n');
 * }
 * for await (const event of readEvents(body())) {
 *   for await (const piece of event.data) console.log(event.name, Buffer.from(piece).toString()); // put {}
 *   console.log(event.id); // 7
 * }
 */
export async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<StreamEvent, void, undefined> {
  const tokens = new Tokens(body);
  try {
    for (let first = await tokens.next(); first !== OVER; first = await tokens.next()) {
      if (first === END) continue;
      const event = await eventOf(tokens, first);
      if (event === undefined) return;
      yield event;
      await event.skip();
    }
  } finally {
    await tokens.leave();
  }
}

/** The event whose data begin with `first`; undefined when the stream ended before its name was certain. */
async function eventOf(tokens: Tokens, first: Uint8Array): Promise<OpenEvent | undefined> {
  const name = tokens.name;
  if (name !== '') return new OpenEvent(tokens, name, [first], false);
  // the name may come after the data
  const pieces: Uint8Array[] = [first];
  let bytes = first.byteLength;
  for (let token = await tokens.next(); token !== END; token = await tokens.next()) {
    if (token === OVER) return undefined;
    bytes += token.byteLength;
    if (bytes > WAITING_BYTES_MAX) {
      throw new HeadgateError(
        'HG_SOURCE',
        `Cannot read an event stream: the name of an event must come within ${WAITING_BYTES_MAX} bytes, got more data before it`,
      );
    }
    pieces.push(token);
  }
  return new OpenEvent(tokens, tokens.named === '' ? 'message' : tokens.named, pieces, true);
}

class OpenEvent implements StreamEvent {
  readonly name: string;
  readonly data: AsyncIterable<Uint8Array>;
  readonly #tokens: Tokens;
  #ended: boolean;

  /** @param ended - whether `pieces` are all of its data. */
  constructor(tokens: Tokens, name: string, pieces: readonly Uint8Array[], ended: boolean) {
    this.#tokens = tokens;
    this.name = name;
    this.#ended = ended;
    this.data = this.#read(pieces);
  }

  get id(): string | undefined {
    return this.#tokens.id;
  }

  async *#read(pieces: readonly Uint8Array[]): AsyncGenerator<Uint8Array, void, undefined> {
    for (const piece of pieces) if (piece.byteLength > 0) yield piece;
    for (let piece = await this.#more(); piece !== undefined; piece = await this.#more()) yield piece;
  }

  /** Reads on to the end of the event. */
  async skip(): Promise<void> {
    while ((await this.#more()) !== undefined);
  }

  async #more(): Promise<Uint8Array | undefined> {
    if (this.#ended) return undefined;
    let token = await this.#tokens.next();
    while (typeof token !== 'string' && token.byteLength === 0) token = await this.#tokens.next();
    if (token === OVER) {
      this.#ended = true;
      throw new HeadgateError(
        'HG_UPSTREAM',
        `Cannot read an event stream: it ended within an event named ${this.name}`,
      );
    }
    if (token !== END) return token;
    this.#ended = true;
    return undefined;
  }
}

/** Where a line is. */
const NAME = 0; // before its colon
const VALUE = 1; // after the colon of a field that is kept
const DATA_START = 2; // after the colon of data: one space may follow
const DATA = 3;
const IGNORED = 4;

/** Takes a stream apart into pieces of data and ends of events; keeps the name and the id. */
class Tokens {
  /** The name of the event that is being read; '' when it has none yet. */
  name = '';
  /** The name of the event that ended last. */
  named = '';
  /** The id that an event had last, once that event has ended. */
  id: string | undefined;
  readonly #source: AsyncIterator<Uint8Array>;
  #chunk: Buffer = Buffer.alloc(0);
  #at = 0;
  /** Where the next CR of the chunk is, looked for once and not at each line; the chunk's length when there is none. */
  #nextCr = 0;
  #state: number = NAME;
  /** Of a line that is no data: its bytes up to here. */
  #line: number[] = [];
  #colonAt = -1;
  #skipLf = false;
  #bom = 0;
  #hasData = false;
  #pendingId: string | undefined;
  #over = false;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#source = body[Symbol.asyncIterator]();
  }

  async next(): Promise<Token> {
    for (;;) {
      while (this.#at < this.#chunk.length) {
        const token = this.#step();
        if (token !== undefined) return token;
      }
      if (this.#over) return OVER;
      const { done, value } = await this.#source.next();
      if (done === true) this.#over = true;
      else this.#take(Buffer.from(value.buffer, value.byteOffset, value.byteLength));
    }
  }

  /** Lets the body go. */
  async leave(): Promise<void> {
    if (!this.#over) await this.#source.return?.();
    this.#over = true;
  }

  #take(chunk: Buffer): void {
    this.#chunk = chunk;
    this.#at = 0;
    this.#nextCr = -1;
  }

  #step(): Token | undefined {
    const byte = this.#chunk[this.#at] as number;
    if (this.#bom < BOM.length && this.#isBom(byte)) return undefined;
    if (this.#skipLf) {
      this.#skipLf = false;
      if (byte === LF) {
        this.#at += 1;
        return undefined;
      }
    }
    if (byte === LF || byte === CR) return this.#endLine(byte);
    switch (this.#state) {
      case NAME:
        return this.#nameGoesOn(byte);
      case VALUE:
        this.#keep(byte);
        return undefined;
      case DATA_START:
        this.#state = DATA;
        if (byte === SPACE) this.#at += 1;
        return undefined;
      default:
        return this.#rest();
    }
  }

  /** Whether this byte belongs to a byte order mark at the very beginning. */
  #isBom(byte: number): boolean {
    if (byte === BOM[this.#bom]) {
      this.#bom += 1;
      this.#at += 1;
      return true;
    }
    // what looked like one is the beginning of a field nobody knows
    if (this.#bom > 0) this.#state = IGNORED;
    this.#bom = BOM.length;
    return false;
  }

  #nameGoesOn(byte: number): Token | undefined {
    if (byte !== COLON) {
      this.#keep(byte);
      return undefined;
    }
    const name = Buffer.from(this.#line).toString('latin1');
    if (name === 'data') {
      this.#at += 1;
      this.#state = DATA_START;
      this.#line = [];
      return this.#beginData();
    }
    if (name === 'event' || name === 'id') {
      this.#colonAt = this.#line.length;
      this.#state = VALUE;
      this.#keep(byte);
    } else {
      this.#at += 1;
      this.#state = IGNORED;
    }
    return undefined;
  }

  #keep(byte: number): void {
    if (this.#line.length === LINE_BYTES_MAX) {
      throw new HeadgateError(
        'HG_SOURCE',
        `Cannot read an event stream: a line other than data may have ${LINE_BYTES_MAX} bytes, got more`,
      );
    }
    this.#line.push(byte);
    this.#at += 1;
  }

  #beginData(): Token {
    const separator = this.#hasData ? NEWLINE : NOTHING;
    this.#hasData = true;
    return separator;
  }

  /** What is left of a line of data, or of one that is ignored, in this chunk. */
  #rest(): Token | undefined {
    const from = this.#at;
    this.#at = this.#lineEnd(from);
    return this.#state === DATA ? this.#chunk.subarray(from, this.#at) : undefined;
  }

  #lineEnd(from: number): number {
    if (this.#nextCr < from) {
      const cr = this.#chunk.indexOf(CR, from);
      this.#nextCr = cr < 0 ? this.#chunk.length : cr;
    }
    const lf = this.#chunk.indexOf(LF, from);
    return lf < 0 || lf > this.#nextCr ? this.#nextCr : lf;
  }

  #endLine(byte: number): Token | undefined {
    this.#at += 1;
    this.#skipLf = byte === CR;
    const state = this.#state;
    const line = this.#line;
    this.#state = NAME;
    if (state === VALUE) this.#field(line);
    if (line.length > 0) this.#line = [];
    if (state !== NAME || line.length > 0) return state === NAME ? this.#bareField(line) : undefined;
    return this.#endEvent();
  }

  #field(line: readonly number[]): void {
    const from = this.#colonAt + (line[this.#colonAt + 1] === SPACE ? 2 : 1);
    const value = Buffer.from(line.slice(from)).toString('utf8');
    if (line[0] === 0x65) this.#setName(value);
    else if (!value.includes('\0')) this.#pendingId = value;
  }

  /** A line without a colon is a field with an empty value. */
  #bareField(line: readonly number[]): Token | undefined {
    const name = Buffer.from(line).toString('latin1');
    if (name === 'data') return this.#beginData();
    if (name === 'event') this.#setName('');
    if (name === 'id') this.#pendingId = '';
    return undefined;
  }

  #setName(name: string): void {
    // Its data may have been told under the first name.
    if (this.#hasData && this.name !== '' && this.name !== name) {
      throw new HeadgateError(
        'HG_SOURCE',
        `Cannot read an event stream: an event must have one name, got ${JSON.stringify(this.name)} and ${JSON.stringify(name)}`,
      );
    }
    this.name = name;
  }

  #endEvent(): Token | undefined {
    const hadData = this.#hasData;
    this.named = this.name;
    this.name = '';
    this.#hasData = false;
    this.id = this.#pendingId;
    return hadData ? END : undefined;
  }
}
