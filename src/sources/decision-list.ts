import { gotAt, Lines } from './decision-lines.ts';
import { columnAt, type Field, type FileRow, type Place, type RowParser, rowError } from './decision-row.ts';

/** An address or nothing, then a comment or nothing. */
const LINE = /^[ \t]*([^\s#;]*)[ \t]*(?:[#;].*)?$/;
const AFTER_VALUE = /^[ \t]*[^\s#;]*[ \t]*/;

/**
 * A plain list: one address or network a line; `#` and `;` begin a comment, also behind an address, and blank lines are
 * passed over.
 */
export class ListParser implements RowParser {
  readonly #file: string;
  readonly #tell: (row: FileRow) => void;
  readonly #lines: Lines;

  constructor(file: string, tell: (row: FileRow) => void) {
    this.#file = file;
    this.#tell = tell;
    this.#lines = new Lines(file, (text, line) => this.#take(text, line));
  }

  push(piece: Buffer): void {
    this.#lines.push(piece);
  }

  finish(): void {
    this.#lines.finish();
  }

  #take(text: string, line: number): void {
    const value = LINE.exec(text)?.[1];
    if (value === undefined) {
      const index = AFTER_VALUE.exec(text)?.[0].length ?? 0;
      const place = { line, column: columnAt(text, index) };
      throw rowError(this.#file, place, `expected a comment or the end of the line, got ${gotAt(text, index)}`);
    }
    if (value !== '') this.#tell(new ListRow(value, { line, column: columnAt(text, text.indexOf(value)) }));
  }
}

class ListRow implements FileRow {
  readonly place: Place;
  readonly #value: string;

  constructor(value: string, place: Place) {
    this.#value = value;
    this.place = place;
  }

  text(field: Field): string | undefined {
    return field === 'value' ? this.#value : undefined;
  }

  placeOf(): Place {
    return this.place;
  }
}
