import { FIELDS, type Field, type FileRow, type Place, type RowParser } from './decision-row.ts';
import { type JsonPlace, JsonScanner } from './json-scanner.ts';
import { Lines } from './decision-lines.ts';

/** Recorded are names and texts only; the ledger takes items of 32 KiB. */
const LIMITS = { depthMax: 64, recordBytesMax: 64 * 1024 };
const QUOTE = 0x22;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;
const NULL = 0x6e;

/** JSON as `cscli decisions import` reads it: a list of objects. Members that mean nothing here are checked and passed over. */
export class JsonParser extends JsonScanner implements RowParser {
  readonly #tell: (row: FileRow) => void;
  /** How many containers are open around a decision: the list, or none. */
  readonly #depth: number;
  readonly #lineBefore: number;
  #row: JsonRow | undefined;
  #field: Field | undefined;

  /** @param alone - the text is one decision and not a list, and comes after so many lines of a file */
  constructor(file: string, tell: (row: FileRow) => void, alone?: { readonly linesBefore: number }) {
    super({ file, code: 'HG_SOURCE' }, LIMITS);
    this.#tell = tell;
    this.#depth = alone === undefined ? 1 : 0;
    this.#lineBefore = alone?.linesBefore ?? 0;
  }

  protected override place(at: number): JsonPlace {
    const { line, column } = super.place(at);
    return { line: line + this.#lineBefore, column };
  }

  protected override keyBegins(depth: number, at: number): void {
    if (depth === this.#depth + 1) this.record(at);
  }

  protected override keyEnds(depth: number, at: number): void {
    if (depth !== this.#depth + 1) return;
    // Go takes names in any case
    const name = this.#recorded(at).toLowerCase();
    this.#field = FIELDS.find((field) => field === name);
  }

  protected override valueBegins(depth: number, first: number, at: number): void {
    if (depth < this.#depth && first !== OPEN_ARRAY) this.fail(this.place(at), 'expected a list of decisions');
    if (depth === this.#depth) {
      if (first !== OPEN_OBJECT) this.fail(this.place(at), 'expected a decision, which is an object');
      this.#row = new JsonRow(this.place(at));
    }
    if (depth === this.#depth + 1 && this.#field !== undefined && first !== NULL) {
      if (first !== QUOTE) this.fail(this.place(at), `expected a text as "${this.#field}"`);
      this.#row?.begin(this.#field, this.place(at));
      this.record(at);
    }
  }

  protected override valueEnds(depth: number, at: number): void {
    if (depth === this.#depth + 1) {
      if (this.#field !== undefined && this.#row?.isBegun(this.#field) === true) this.#row.end(this.#recorded(at));
      this.#field = undefined;
    } else if (depth === this.#depth && this.#row !== undefined) {
      const row = this.#row;
      this.#row = undefined;
      this.#tell(row);
    }
  }

  #recorded(at: number): string {
    const text = this.recorded(0, this.mark(at), at);
    const plain = this.escaped ? (JSON.parse(text) as string) : text.slice(1, -1);
    this.stopRecording(at);
    return plain;
  }
}

/** One decision a line, each an object. Blank lines are passed over. */
export class JsonLinesParser implements RowParser {
  readonly #lines: Lines;

  constructor(file: string, tell: (row: FileRow) => void) {
    this.#lines = new Lines(file, (text, line) => {
      if (text.trim() === '') return;
      const parser = new JsonParser(file, tell, { linesBefore: line - 1 });
      parser.push(Buffer.from(text));
      parser.finish();
    });
  }

  push(piece: Buffer): void {
    this.#lines.push(piece);
  }

  finish(): void {
    this.#lines.finish();
  }
}

class JsonRow implements FileRow {
  readonly place: Place;
  readonly #texts = new Map<Field, string>();
  readonly #places = new Map<Field, Place>();
  #begun: Field | undefined;

  constructor(place: Place) {
    this.place = place;
  }

  begin(field: Field, place: Place): void {
    this.#begun = field;
    this.#places.set(field, place);
  }

  isBegun(field: Field): boolean {
    return this.#begun === field;
  }

  end(text: string): void {
    if (this.#begun !== undefined) this.#texts.set(this.#begun, text);
    this.#begun = undefined;
  }

  text(field: Field): string | undefined {
    return this.#texts.get(field);
  }

  placeOf(field: Field): Place {
    return this.#places.get(field) ?? this.place;
  }
}
