import { JSON_LIMITS, type JsonLimits, type JsonOrigin, type JsonPlace, JsonScanner } from './json-scanner.ts';

/** What the members of one top-level object of a file are. */
export interface Section {
  /** The kind that items of this section get. */
  readonly kind: string;
  /** Turns a bare value into the text of an item. Without it the value is the item, and must be an object. */
  readonly wrap?: (key: string, value: string) => string;
}

/** An item as it stands in a file. */
export interface ScannedItem {
  readonly kind: string;
  readonly key: string;
  readonly version: number;
  /** Empty when the scanner was told not to keep texts, and for a deleted item. */
  readonly text: string;
  readonly deleted: boolean;
  /** The name of the section it stands in. */
  readonly section: string;
  readonly place: JsonPlace;
}

/** Settings of an {@link ItemScanner}. */
export interface ItemScannerOptions {
  readonly origin: JsonOrigin;
  /** By top-level name; a null prototype or a Map keeps `__proto__` an ordinary name. Other names are checked and skipped. */
  readonly sections: ReadonlyMap<string, Section>;
  /** Whether items get their text; false when a file is only checked. */
  readonly texts?: boolean;
  readonly limits?: JsonLimits;
}

/**
 * An item without a version gets this one: it is what the vendor's Node SDK gives to flags it builds from file data, and a
 * store that compares versions drops an update without any.
 */
const VERSION_WHEN_ABSENT = 1;
/** A key is part of a path, of an event and of a log line; the vendor's own bound is 256 characters. */
const KEY_BYTES_MAX = 64 * 1024;

const OPEN_OBJECT = 0x7b;
const QUOTE = 0x22;
/** The lengths of `"key"`, `"version"` and `"deleted"`: most names of members need not be decoded. */
const NAME_BYTES: ReadonlySet<number> = new Set([5, 9]);

/**
 * Finds the items of a file of the form `{section: {key: item}}`, each as soon as its last byte has come.
 *
 * The key in the map is the item's key. An item that lacks the members `key` or `version` gets them at its front, since
 * SDKs read them from the item; an item whose own `key` differs keeps it. Where a name comes twice in one item the
 * last counts, as in `JSON.parse`.
 *
 * @example
 * const scanner = new ItemScanner({ origin: { file: 'flags.json', code: 'HG_SOURCE' }, sections: new Map([['flags', { kind: 'flags' }]]) });
 * scanner.push(Buffer.from('{"flags": {"a": {"version": 3'));
 * scanner.push(Buffer.from(', "on": true}}}'));
 * console.log(scanner.take()[0]?.text); // {"key":"a","version":3,"on":true}
 * scanner.finish();
 */
export class ItemScanner extends JsonScanner {
  readonly #sections: ReadonlyMap<string, Section>;
  readonly #seen = new Set<string>();
  readonly #texts: boolean;
  #items: ScannedItem[] = [];

  #sectionName = '';
  #section: Section | undefined;
  #key = '';
  /** Whether the scanner is inside a value of a section. */
  #inItem = false;
  #place: JsonPlace = { line: 1, column: 1 };
  #nameMark = 0;
  #member = '';
  #memberMark = 0;
  #memberPlace: JsonPlace = { line: 1, column: 1 };
  #hasKey = false;
  #version: number | undefined;
  #deleted = false;

  constructor(options: ItemScannerOptions) {
    super(options.origin, options.limits ?? JSON_LIMITS);
    this.#sections = options.sections;
    this.#texts = options.texts ?? true;
  }

  /** The items that were completed since the last call. */
  take(): readonly ScannedItem[] {
    const items = this.#items;
    if (items.length > 0) this.#items = [];
    return items;
  }

  protected override keyBegins(depth: number, at: number): void {
    if (depth <= 2) this.record(at);
    else if (this.#inItem) this.#nameMark = this.mark(at);
  }

  protected override keyEnds(depth: number, at: number): void {
    if (depth === 1) this.#enterSection(this.#takeKey(at), at);
    else if (depth === 2) this.#key = this.#takeKey(at);
    else if (this.#inItem) this.#member = this.#nameOfMember(at);
  }

  protected override valueBegins(depth: number, first: number, at: number): void {
    if (depth === 0 && first !== OPEN_OBJECT) this.fail(this.place(at), 'the file must hold an object');
    if (this.#section === undefined || depth === 0) return;
    if (depth === 1) this.#checkSection(first, at);
    else if (depth === 2) this.#beginItem(first, at);
    else if (this.#member !== '') this.#beginMember(first, at);
  }

  protected override valueEnds(depth: number, at: number): void {
    if (depth === 1) this.#section = undefined;
    else if (this.#inItem && depth === 2) this.#endItem(at);
    else if (this.#member !== '') this.#endMember(at);
  }

  #takeKey(at: number): string {
    const bytes = this.mark(at);
    if (bytes > KEY_BYTES_MAX) this.fail(this.place(at), `a key may have ${KEY_BYTES_MAX} bytes, got ${bytes}`);
    const text = this.recorded(0, bytes, at);
    const key = this.escaped ? (JSON.parse(text) as string) : text.slice(1, -1);
    this.stopRecording(at);
    return key;
  }

  #enterSection(name: string, at: number): void {
    this.#sectionName = name;
    this.#section = this.#sections.get(name);
    if (this.#section === undefined) return;
    // Taking the last one, as for a key, would throw away a whole section without a word.
    if (this.#seen.has(name)) this.fail(this.place(at), `"${name}" must stand once, got it again`);
    this.#seen.add(name);
  }

  #checkSection(first: number, at: number): void {
    // null: the SDKs take it for "none"
    if (first === OPEN_OBJECT || first === 0x6e) return;
    this.fail(this.place(at), `"${this.#sectionName}" must be an object`);
  }

  #beginItem(first: number, at: number): void {
    const place = this.place(at);
    if (first !== OPEN_OBJECT && this.#section?.wrap === undefined) {
      this.fail(place, `${this.#named()} must be an object`);
    }
    this.#place = place;
    this.#inItem = true;
    this.#member = '';
    this.#hasKey = false;
    this.#version = undefined;
    this.#deleted = false;
    this.record(at);
  }

  /** Which of the members that matter this name is; '' for any other. */
  #nameOfMember(at: number): string {
    if (this.#section?.wrap !== undefined) return '';
    const to = this.mark(at);
    if (!this.escaped && !NAME_BYTES.has(to - this.#nameMark)) return '';
    const text = this.recorded(this.#nameMark, to, at);
    const name = text.includes('\\') ? (JSON.parse(text) as string) : text.slice(1, -1);
    return name === 'key' || name === 'version' || name === 'deleted' ? name : '';
  }

  #beginMember(first: number, at: number): void {
    this.#memberPlace = this.place(at);
    this.#memberMark = this.mark(at);
    if (this.#member === 'key' && first !== QUOTE) this.#failMember('a string');
  }

  #endMember(at: number): void {
    if (this.#member === 'key') this.#hasKey = true;
    else this.#readMember(this.recorded(this.#memberMark, this.mark(at), at));
    this.#member = '';
  }

  #readMember(text: string): void {
    if (this.#member === 'deleted') {
      if (text !== 'true' && text !== 'false' && text !== 'null') this.#failMember('true or false', text);
      this.#deleted = text === 'true';
      return;
    }
    const version = /^[-\d]/.test(text) ? Number(text) : Number.NaN;
    if (!Number.isSafeInteger(version) || version < 0) this.#failMember('a whole number from 0 to 2^53-1', text);
    this.#version = version + 0; // -0 is 0
  }

  #failMember(wanted: string, got?: string): never {
    const shown = got === undefined ? '' : `, got ${got.length > 40 ? `${got.slice(0, 40)}...` : got}`;
    this.fail(this.#memberPlace, `"${this.#member}" of ${this.#named()} must be ${wanted}${shown}`);
  }

  #endItem(at: number): void {
    this.#inItem = false;
    const section = this.#section;
    const text = this.#texts && !this.#deleted ? this.recorded(0, this.mark(at), at) : '';
    this.stopRecording(at);
    if (section === undefined) return;
    this.#items.push({
      kind: section.kind,
      key: this.#key,
      version: this.#version ?? VERSION_WHEN_ABSENT,
      text: text === '' ? '' : this.#complete(section, text),
      deleted: this.#deleted,
      section: this.#sectionName,
      place: this.#place,
    });
  }

  #complete(section: Section, text: string): string {
    if (section.wrap !== undefined) return section.wrap(this.#key, text);
    const missing: string[] = [];
    if (!this.#hasKey) missing.push(`"key":${JSON.stringify(this.#key)}`);
    if (this.#version === undefined) missing.push(`"version":${VERSION_WHEN_ABSENT}`);
    if (missing.length === 0) return text;
    return `{${missing.join(',')}${text === '{}' ? '' : ','}${text.slice(1)}`;
  }

  #named(): string {
    const key = this.#key.length > 80 ? `${this.#key.slice(0, 80)}...` : this.#key;
    return `${this.#sectionName}[${JSON.stringify(key)}]`;
  }
}
