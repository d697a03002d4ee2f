const LF = 10;
/** Heads longer than this are no answer of any server that clients speak to. */
const HEAD_BYTES_MAX = 65_536;
/** A chunk's size in hexadecimal, with its extensions. */
const SIZE_LINE_BYTES_MAX = 1024;

/** The head of an answer. Names of headers are in lower case; of repeated ones the first counts. */
export interface Head {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
}

/** Who is told what an answer says. */
export interface ResponseSink {
  onHead(head: Head): void;
  /** A piece of the body; it is overwritten after the call. */
  onBody(piece: Buffer): void;
  /** The answer ended as its framing says. `reusable`: another request may follow on the connection. */
  onEnd(reusable: boolean): void;
  /** What came is no answer of HTTP/1.1. Nothing is told after it. */
  onBroken(what: string): void;
}

type State = 'head' | 'sized' | 'endless' | 'size' | 'chunk' | 'after-chunk' | 'trailers' | 'ended';

/** How the length of a body is known, or why it is not. */
type Framing = { readonly state: State; readonly length: number } | { readonly broken: string };

/**
 * Reads one HTTP/1.1 answer from whatever pieces it comes in (RFC 9112). Bodies are passed on in the pieces they come in, and
 * never held; an answer is whole only when its framing says so.
 */
export class ResponseReader {
  readonly #sink: ResponseSink;
  readonly #hide: (text: string) => string;
  #state: State = 'head';
  /** What has come of a line. */
  #text = '';
  /** The lines of a head that have come whole, and their size. */
  #lines: string[] = [];
  #headBytes = 0;
  #left = 0;
  #reusable = true;

  /** @param hide - takes out of a text what nobody is to see: a server may send back what it was sent. */
  constructor(sink: ResponseSink, hide: (text: string) => string = (text) => text) {
    this.#sink = sink;
    this.#hide = hide;
  }

  /** Reads a piece; what follows the answer's end is not looked at. */
  feed(piece: Buffer): void {
    let from = 0;
    while (from < piece.length && this.#state !== 'ended') {
      if (this.#state === 'head') from = this.#feedHead(piece, from);
      else if (this.#state === 'endless') from = this.#feedBody(piece, from, piece.length - from);
      else if (this.#state === 'sized' || this.#state === 'chunk') from = this.#feedBody(piece, from, this.#left);
      else from = this.#feedLine(piece, from);
    }
  }

  /** The connection was closed by the other side. Answers whether the answer is whole now: an endless one may be. */
  closed(): boolean {
    if (this.#state === 'endless') this.#end(false);
    return this.#state === 'ended';
  }

  #feedHead(piece: Buffer, from: number): number {
    const { next, isWhole } = this.#lineIn(piece, from, HEAD_BYTES_MAX - this.#headBytes);
    if (!isWhole) return next;
    this.#headBytes += this.#text.length;
    const line = this.#text.replace(/\r?\n$/, '');
    this.#text = '';
    if (line === '') this.#takeHead();
    else this.#lines.push(line);
    return next;
  }

  #takeHead(): void {
    const [first = '', ...lines] = this.#lines;
    this.#lines = [];
    const [, minor, digits] = /^HTTP\/1\.([01]) (\d{3})(?: |$)/.exec(first) ?? [];
    if (digits === undefined) {
      this.#break(`expected HTTP/1.1, got ${this.#quoted(first)}`);
      return;
    }
    const status = Number(digits);
    // an interim answer: the real one follows, and all of them together are no longer than one may be
    if (status < 200) return;
    const headers = new Map<string, string>();
    const lengths = new Set<string>();
    for (const line of lines) {
      const colon = line.indexOf(':');
      const name = line.slice(0, Math.max(colon, 0)).toLowerCase();
      const value = line.slice(colon + 1).trim();
      if (name !== '' && !headers.has(name)) headers.set(name, value);
      if (name === 'content-length') lengths.add(value);
    }
    const framing = framingOf(status, headers.get('transfer-encoding'), [...lengths]);
    if ('broken' in framing) {
      this.#break(`expected one length, got ${this.#quoted(framing.broken)}`);
      return;
    }
    const connection = headers.get('connection') ?? '';
    this.#reusable = minor === '1' ? !/\bclose\b/i.test(connection) : /\bkeep-alive\b/i.test(connection);
    this.#state = framing.state;
    this.#left = framing.length;
    this.#sink.onHead({ status, headers });
    if (this.#state === 'sized' && this.#left === 0) this.#end(this.#reusable);
  }

  #feedBody(piece: Buffer, from: number, left: number): number {
    const next = Math.min(piece.length, from + left);
    this.#left = left - (next - from);
    this.#sink.onBody(from === 0 && next === piece.length ? piece : piece.subarray(from, next));
    if (this.#left === 0 && this.#state === 'sized') this.#end(this.#reusable);
    else if (this.#left === 0 && this.#state === 'chunk') this.#state = 'after-chunk';
    return next;
  }

  #feedLine(piece: Buffer, from: number): number {
    const { next, isWhole } = this.#lineIn(piece, from, SIZE_LINE_BYTES_MAX);
    if (!isWhole) return next;
    const line = this.#text.trimEnd();
    this.#text = '';
    if (this.#state === 'after-chunk') {
      if (line === '') this.#state = 'size';
      else this.#break(`expected the end of a chunk, got ${this.#quoted(line)}`);
    } else if (this.#state === 'trailers') {
      if (line === '') this.#end(this.#reusable);
    } else this.#takeSize(line);
    return next;
  }

  #takeSize(line: string): void {
    const digits = /^[0-9a-f]{1,12}(?=$|[;\s])/i.exec(line)?.[0];
    if (digits === undefined) {
      this.#break(`expected the size of a chunk, got ${this.#quoted(line)}`);
      return;
    }
    this.#left = Number.parseInt(digits, 16);
    this.#state = this.#left === 0 ? 'trailers' : 'chunk';
  }

  /** Adds to the text what a piece has of a line, its end included. */
  #lineIn(piece: Buffer, from: number, bytesMax: number): { readonly next: number; readonly isWhole: boolean } {
    const end = piece.indexOf(LF, from);
    const next = end === -1 ? piece.length : end + 1;
    if (this.#text.length + next - from > bytesMax) {
      const most = this.#state === 'head' ? `a head of at most ${HEAD_BYTES_MAX}` : `a line of at most ${bytesMax}`;
      this.#break(`expected ${most} bytes, got more`);
      return { next, isWhole: false };
    }
    this.#text += piece.toString('latin1', from, next);
    return { next, isWhole: end !== -1 };
  }

  /** What came instead, without what nobody is to see. */
  #quoted(text: string): string {
    return JSON.stringify(this.#hide(text).slice(0, 40));
  }

  #end(reusable: boolean): void {
    this.#state = 'ended';
    this.#sink.onEnd(reusable);
  }

  #break(what: string): void {
    this.#state = 'ended';
    this.#sink.onBroken(what);
  }
}

/** RFC 9112, section 6.3. */
function framingOf(status: number, transfer: string | undefined, lengths: readonly string[]): Framing {
  if (status === 204 || status === 304) return { state: 'sized', length: 0 };
  if (/\bchunked$/i.test(transfer ?? '')) return { state: 'size', length: 0 };
  const [length] = lengths;
  if (transfer !== undefined || length === undefined) return { state: 'endless', length: 0 };
  // who reads on to the end of the connection, or by one of two lengths, takes what was cut for whole
  if (lengths.length > 1 || !/^\d{1,15}$/.test(length)) return { broken: lengths.join(', ') };
  return { state: 'sized', length: Number(length) };
}
