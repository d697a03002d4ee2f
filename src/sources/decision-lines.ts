import { isUtf8 } from 'node:buffer';
import { columnAt, type Place, rowError, shown } from './decision-row.ts';

/** An address has 49 characters at most; the rest of a line is a comment. In CSV a quoted field may have several lines. */
const LINE_BYTES_MAX = 64 * 1024;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const BYTE_ORDER_MARK = '\ufeff';

/** Cuts a file that comes in pieces into its lines. Throws HG_SOURCE where a line is too long or not in UTF-8. */
export class Lines {
  readonly #file: string;
  readonly #visit: (text: string, line: number) => void;
  #begun: Buffer = Buffer.alloc(0);
  #line = 1;

  /** @param visit - called with each line, without its end, and its number */
  constructor(file: string, visit: (text: string, line: number) => void) {
    this.#file = file;
    this.#visit = visit;
  }

  push(piece: Buffer): void {
    let from = 0;
    for (let end = piece.indexOf(LINE_FEED); end >= 0; end = piece.indexOf(LINE_FEED, from)) {
      const rest = piece.subarray(from, end);
      this.#tell(this.#begun.length === 0 ? rest : Buffer.concat([this.#begun, rest]));
      this.#begun = this.#begun.subarray(0, 0);
      this.#line++;
      from = end + 1;
    }
    if (from < piece.length) this.#begun = Buffer.concat([this.#begun, piece.subarray(from)]);
    this.#bound(this.#begun);
  }

  /** The last line need not have an end. */
  finish(): void {
    if (this.#begun.length > 0) this.#tell(this.#begun);
    this.#begun = Buffer.alloc(0);
  }

  #tell(bytes: Buffer): void {
    this.#bound(bytes);
    const length = bytes.at(-1) === CARRIAGE_RETURN ? bytes.length - 1 : bytes.length;
    let text = bytes.toString('utf8', 0, length);
    if (text.includes('\ufffd') && !isUtf8(bytes)) {
      throw rowError(this.#file, this.#at(text, text.indexOf('\ufffd')), 'expected valid UTF-8, got something else');
    }
    if (this.#line === 1 && text.startsWith(BYTE_ORDER_MARK)) text = text.slice(1);
    this.#visit(text, this.#line);
  }

  #bound(bytes: Buffer): void {
    if (bytes.length <= LINE_BYTES_MAX) return;
    throw rowError(this.#file, this.#at('', 0), `expected a line of up to ${LINE_BYTES_MAX} bytes, got more`);
  }

  #at(text: string, index: number): Place {
    return { line: this.#line, column: columnAt(text, index) };
  }
}

/** What stands at an index of a line, for an error. */
export function gotAt(text: string, index: number): string {
  return index >= text.length ? 'the end of the line' : shown(text.slice(index));
}
