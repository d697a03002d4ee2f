const LF = 10;
const CR = 13;
const LETTER_D = 100;
const LETTER_E = 101;
const LETTER_I = 105;
const LETTER_R = 114;
/** Of a line that begins in one piece and ends in another, so much is kept: names, positions and intents are shorter. */
const LINE_KEPT_MAX = 4096;
const NOTHING = Buffer.alloc(0);

/** An event of a stream. */
export interface ScannedEvent {
  readonly name: string;
  /** Its data, at most the first 4 KiB, if `reads` was true for its name; else empty. */
  readonly data: string;
}

/** What a scanner is told and tells. */
export interface ScannerOptions {
  /** Whether the data of events with this name are wanted. The name must stand before the data, as all servers write it. */
  readonly reads: (name: string) => boolean;
  readonly onEvent: (event: ScannedEvent) => void;
}

/**
 * Finds the events in a stream, whatever pieces it comes in, and holds none of their bodies: of a line that carries a whole
 * data set only its end is looked for. Lines end in LF or CRLF.
 */
export class EventScanner {
  readonly #options: ScannerOptions;
  /** The beginning of a line that has not ended. */
  #begun: Buffer = NOTHING;
  #isInLine = false;
  #name = '';
  #data = '';
  #hasData = false;
  #id: string | undefined;
  #lastEventId: string | undefined;
  #retryMs: number | undefined;
  #goal: string | undefined;

  constructor(options: ScannerOptions) {
    this.#options = options;
  }

  /** The position of the last event that came whole and had one. */
  get lastEventId(): string | undefined {
    return this.#lastEventId;
  }

  /** How long the server said to wait before coming back. */
  get retryMs(): number | undefined {
    return this.#retryMs;
  }

  /** Until an event with this name comes, nothing else is looked at: thousands of items need not be taken apart. */
  skipTo(name: string | undefined): void {
    this.#goal = name;
  }

  feed(piece: Buffer): void {
    let from = 0;
    while (from < piece.length) {
      if (this.#goal !== undefined && !this.#isInLine) from = this.#skipLines(piece, from);
      const end = piece.indexOf(LF, from);
      if (end === -1) {
        this.#keep(piece.subarray(from));
        return;
      }
      this.#endLine(piece, from, end);
      from = end + 1;
    }
  }

  /** Where the first line begins that may be wanted: the one with the goal in it, or the one that this piece does not end. */
  #skipLines(piece: Buffer, from: number): number {
    const at = piece.indexOf(this.#goal ?? '', from, 'latin1');
    if (at !== -1) this.#goal = undefined;
    const before = piece.lastIndexOf(LF, at === -1 ? piece.length - 1 : at);
    if (before < from) return from;
    // what was skipped ended in a whole event, or the rest of one follows
    this.#reset();
    return before + 1;
  }

  #keep(rest: Buffer): void {
    if (rest.length === 0) return;
    this.#isInLine = true;
    const room = LINE_KEPT_MAX - this.#begun.length;
    // copied: the piece is the caller's, and will be overwritten
    if (room > 0) this.#begun = Buffer.concat([this.#begun, rest.subarray(0, room)]);
  }

  #endLine(piece: Buffer, from: number, end: number): void {
    let line = piece.subarray(from, Math.min(end, from + LINE_KEPT_MAX));
    if (this.#isInLine) {
      this.#keep(line);
      line = this.#begun;
      this.#begun = NOTHING;
      this.#isInLine = false;
    }
    if (line.at(-1) === CR) line = line.subarray(0, -1);
    if (line.length === 0) this.#endEvent();
    else this.#takeField(line);
  }

  #takeField(line: Buffer): void {
    // told apart by their first letter: there are thousands of lines
    const first = line[0];
    if (first === LETTER_D && isField(line, 'data')) {
      this.#hasData = true;
      if (this.#options.reads(this.#name)) this.#data = (this.#data + valueIn(line, 'data')).slice(0, LINE_KEPT_MAX);
    } else if (first === LETTER_E && isField(line, 'event')) this.#takeName(valueIn(line, 'event'));
    else if (first === LETTER_I && isField(line, 'id')) this.#id = valueIn(line, 'id');
    else if (first === LETTER_R && isField(line, 'retry')) this.#takeRetry(valueIn(line, 'retry'));
  }

  #takeName(name: string): void {
    this.#name = name;
    // it came in two pieces, and was not found in either
    if (name === this.#goal) this.#goal = undefined;
  }

  #takeRetry(text: string): void {
    if (/^\d{1,9}$/.test(text)) this.#retryMs = Number(text);
  }

  #endEvent(): void {
    const { reads, onEvent } = this.#options;
    const name = this.#name === '' ? 'message' : this.#name;
    const data = reads(name) ? this.#data : '';
    const hasData = this.#hasData;
    if (this.#id !== undefined) this.#lastEventId = this.#id;
    this.#reset();
    if (hasData) onEvent({ name, data });
  }

  #reset(): void {
    this.#name = '';
    this.#data = '';
    this.#hasData = false;
    this.#id = undefined;
  }
}

function isField(line: Buffer, field: string): boolean {
  const begin = line.toString('latin1', 0, field.length + 1);
  return begin === `${field}:` || begin === field;
}

function valueIn(line: Buffer, field: string): string {
  const value = line.toString('utf8', field.length + 1);
  return value.startsWith(' ') ? value.slice(1) : value;
}
