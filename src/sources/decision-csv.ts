import { gotAt, Lines } from './decision-lines.ts';
import {
  columnAt,
  FIELDS,
  type Field,
  type FileRow,
  type Place,
  type RowParser,
  rowError,
  shown,
} from './decision-row.ts';

/** More than any header that means something: it bounds what one record costs. */
const COLUMNS_MAX = 256;
/** A quoted field may go on over many lines. */
const RECORD_CHARACTERS_MAX = 256 * 1024;

/**
 * CSV (RFC 4180) as `cscli decisions import` reads it: a header line names the columns, of which `value` is one; columns
 * that mean nothing here are passed over, and so are blank lines.
 *
 *     text      24h,"a ""quoted""␊reason",1.2.3.4
 *     fields    24h │ a "quoted"␊reason │ 1.2.3.4         each with the place at which it begins
 */
export class CsvParser implements RowParser {
  readonly #file: string;
  readonly #tell: (row: FileRow) => void;
  readonly #lines: Lines;
  #columns: ReadonlyMap<Field, number> | undefined;
  #columnCount = 0;
  #fields: string[] = [];
  #places: Place[] = [];
  /** What there is of a quoted field that goes on in the next line. */
  #quoted: string | undefined;
  #characters = 0;

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
    if (this.#quoted !== undefined) {
      throw rowError(
        this.#file,
        this.#places.at(-1) as Place,
        'expected a quote that ends the field, got the end of the file',
      );
    }
    if (this.#columns === undefined) {
      throw rowError(this.#file, { line: 1, column: 1 }, `expected ${HEADER}, got the end of the file`);
    }
  }

  #take(text: string, line: number): void {
    const isNew = this.#quoted === undefined;
    if (isNew && text.trim() === '') return;
    this.#characters = (isNew ? 0 : this.#characters) + text.length;
    if (this.#characters > RECORD_CHARACTERS_MAX) {
      const place = this.#places[0] ?? { line, column: 1 };
      throw rowError(this.#file, place, `expected a row of up to ${RECORD_CHARACTERS_MAX} characters, got more`);
    }
    for (let at = 0; at >= 0; ) {
      at = this.#quoted === undefined ? this.#field(text, at, line) : this.#quotedField(text, at, line);
    }
    if (this.#quoted === undefined) this.#record();
  }

  /** Reads one field; answers where the next one begins, -1 at the end of the line. */
  #field(text: string, at: number, line: number): number {
    this.#places.push({ line, column: columnAt(text, at) });
    if (this.#places.length > COLUMNS_MAX) this.#fail(text, at, line, `up to ${COLUMNS_MAX} columns`);
    if (text[at] === '"') {
      this.#quoted = '';
      return this.#quotedField(text, at + 1, line);
    }
    const comma = text.indexOf(',', at);
    const end = comma < 0 ? text.length : comma;
    const field = text.slice(at, end);
    const quote = field.indexOf('"');
    if (quote >= 0) this.#fail(text, at + quote, line, 'a field without quotes, or one within them');
    this.#fields.push(field);
    return comma < 0 ? -1 : comma + 1;
  }

  #quotedField(text: string, from: number, line: number): number {
    for (let at = from; ; ) {
      const quote = text.indexOf('"', at);
      if (quote < 0) {
        this.#quoted = `${this.#quoted}${text.slice(at)}\n`;
        return -1;
      }
      this.#quoted = `${this.#quoted}${text.slice(at, quote)}`;
      if (text[quote + 1] !== '"') return this.#endQuoted(text, quote + 1, line);
      this.#quoted += '"';
      at = quote + 2;
    }
  }

  #endQuoted(text: string, at: number, line: number): number {
    if (at < text.length && text[at] !== ',') this.#fail(text, at, line, 'a comma or the end of the line');
    this.#fields.push(this.#quoted as string);
    this.#quoted = undefined;
    return at < text.length ? at + 1 : -1;
  }

  #fail(text: string, index: number, line: number, expected: string): never {
    const place = { line, column: columnAt(text, index) };
    throw rowError(this.#file, place, `expected ${expected}, got ${gotAt(text, index)}`);
  }

  #record(): void {
    const [fields, places] = [this.#fields, this.#places];
    this.#fields = [];
    this.#places = [];
    const place = places[0] as Place;
    if (this.#columns === undefined) {
      this.#columns = this.#header(fields, places);
      this.#columnCount = fields.length;
      return;
    }
    if (fields.length !== this.#columnCount) {
      throw rowError(this.#file, place, `expected ${this.#columnCount} fields as in the header, got ${fields.length}`);
    }
    this.#tell(new CsvRow(this.#columns, fields, places));
  }

  #header(fields: readonly string[], places: readonly Place[]): ReadonlyMap<Field, number> {
    const columns = new Map<Field, number>();
    for (const [index, text] of fields.entries()) {
      const field = FIELDS.find((name) => name === text.trim().toLowerCase());
      if (field === undefined) continue;
      if (columns.has(field)) {
        throw rowError(this.#file, places[index] as Place, `expected each column once, got ${shown(field)} again`);
      }
      columns.set(field, index);
    }
    if (columns.has('value')) return columns;
    throw rowError(this.#file, places[0] as Place, `expected ${HEADER}, got ${shown(fields.join(','))}`);
  }
}

const HEADER = 'a header line with a column "value"';

class CsvRow implements FileRow {
  readonly #columns: ReadonlyMap<Field, number>;
  readonly #fields: readonly string[];
  readonly #places: readonly Place[];

  constructor(columns: ReadonlyMap<Field, number>, fields: readonly string[], places: readonly Place[]) {
    this.#columns = columns;
    this.#fields = fields;
    this.#places = places;
  }

  get place(): Place {
    return this.placeOf('value');
  }

  text(field: Field): string | undefined {
    const column = this.#columns.get(field);
    return column === undefined ? undefined : this.#fields[column];
  }

  placeOf(field: Field): Place {
    return (this.#places[this.#columns.get(field) ?? 0] ?? this.#places[0]) as Place;
  }
}
