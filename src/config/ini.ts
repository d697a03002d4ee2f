import type { Problems } from './problems.ts';

/** One `[Section "name"]` line, or one setting below it. */
export interface IniEntry {
  readonly section: string;
  /** The name in quotes; undefined when there is none. */
  readonly name: string | undefined;
  /** Undefined for the section's own line. */
  readonly key: string | undefined;
  /** Undefined for a setting without `=`. */
  readonly value: string | undefined;
  readonly line: number;
}

/** What is wrong with a line; the reader goes on with the next one. */
class LineError extends Error {
  readonly line: number;

  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

const LETTER = /\p{L}/u;
const NAME_PART = /[\p{L}\p{Nd}-]/u;
const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\', '"': '"', n: '\n', t: '\t' };

/**
 * Reads the dialect of git's configuration files, character by character: quotes may begin in the middle of a value,
 * a backslash before the end of a line joins the next one, and `;` or `#` outside quotes begin a comment.
 */
class IniReader {
  readonly #text: string;
  #at = 0;
  #line = 1;
  #section: { readonly section: string; readonly name: string | undefined } | undefined;

  constructor(text: string) {
    this.#text = text.startsWith('\uFEFF') ? text.slice(1) : text;
  }

  *read(report: (error: LineError) => void): Generator<IniEntry> {
    while (this.#at < this.#text.length) {
      try {
        const entry = this.#statement();
        if (entry !== undefined) yield entry;
      } catch (error) {
        if (!(error instanceof LineError)) throw error;
        report(error);
        this.#skipLine();
      }
    }
  }

  #statement(): IniEntry | undefined {
    this.#skipSpace();
    const next = this.#peek();
    if (next === '' || next === '\n' || next === ';' || next === '#') {
      this.#skipLine();
      return undefined;
    }
    if (next === '[') return this.#header();
    if (!LETTER.test(next)) this.#fail(`expected a [Section] or a setting, got ${JSON.stringify(next)}`);
    return this.#setting();
  }

  #header(): IniEntry {
    const line = this.#line;
    // Settings below a header that cannot be read belong nowhere.
    this.#section = undefined;
    this.#take();
    this.#skipSpace();
    const section = this.#word('the name of a section');
    this.#skipSpace();
    const name = this.#peek() === '"' ? this.#quotedName() : undefined;
    this.#skipSpace();
    if (this.#peek() !== ']') this.#fail(`expected "]" after [${section}, got ${this.#shown()}`);
    this.#take();
    this.#expectEnd(`after [${section}]`);
    this.#section = { section, name };
    return { section, name, key: undefined, value: undefined, line };
  }

  #setting(): IniEntry {
    const line = this.#line;
    const key = this.#word('the name of a setting');
    this.#skipSpace();
    if (this.#peek() !== '=' && !this.#ended()) this.#fail(`expected "=" after ${key}, got ${this.#shown()}`);
    let value: string | undefined;
    if (this.#peek() === '=') {
      this.#take();
      this.#skipSpace();
      value = this.#value();
    }
    this.#expectEnd(`after the value of ${key}`);
    const section = this.#section;
    if (section === undefined) throw new LineError(line, `expected a [Section] above ${key}`);
    return { ...section, key, value, line };
  }

  #word(what: string): string {
    const begin = this.#at;
    if (LETTER.test(this.#peek())) while (NAME_PART.test(this.#peek())) this.#take();
    if (this.#at === begin) this.#fail(`expected ${what}, got ${this.#shown()}`);
    return this.#text.slice(begin, this.#at);
  }

  #quotedName(): string {
    let name = '';
    this.#take();
    while (this.#peek() !== '"') {
      if (this.#peek() === '' || this.#peek() === '\n') this.#fail('expected a closing quote on the same line');
      let character = this.#take();
      if (character === '\\') {
        character = this.#peek();
        if (character !== '\\' && character !== '"')
          this.#fail(`expected \\\\ or \\" in a name, got \\${this.#shown()}`);
        this.#take();
      }
      name += character;
    }
    this.#take();
    if (name === '') this.#fail('expected a name between the quotes, got nothing');
    return name;
  }

  #value(): string {
    let value = '';
    let kept = 0;
    let quoted = false;
    while (quoted || !this.#ended()) {
      const character = this.#take();
      if (character === '' || (quoted && character === '\n')) {
        // The end of the line is not ours to skip: the error belongs to the line on which the quote was opened.
        if (character === '\n') this.#untake();
        this.#fail('expected a closing quote on the same line');
      }
      if (character === '\\') value += this.#escaped(quoted);
      else if (character === '"') quoted = !quoted;
      else if (character !== '\r') value += character;
      if (quoted || (character !== ' ' && character !== '\t' && character !== '\r')) kept = value.length;
    }
    return value.slice(0, kept);
  }

  #escaped(quoted: boolean): string {
    if (this.#peek() === '\r' && this.#text[this.#at + 1] === '\n') this.#take();
    const next = this.#peek();
    if (!quoted && next === '\n') {
      this.#take();
      return '';
    }
    const meaning = ESCAPES[next];
    if (meaning === undefined || (!quoted && next !== '"')) {
      this.#fail(`expected a backslash to stand in quotes and to be doubled ("C:\\\\certs"), got \\${this.#shown()}`);
    }
    this.#take();
    return meaning;
  }

  #expectEnd(where: string): void {
    this.#skipSpace();
    if (!this.#ended()) this.#fail(`expected the end of the line ${where}, got ${this.#shown()}`);
    this.#skipLine();
  }

  #ended(): boolean {
    const next = this.#peek();
    return next === '' || next === '\n' || next === ';' || next === '#';
  }

  #skipSpace(): void {
    while (this.#peek() === ' ' || this.#peek() === '\t' || this.#peek() === '\r') this.#take();
  }

  #skipLine(): void {
    while (this.#at < this.#text.length && this.#take() !== '\n');
  }

  #peek(): string {
    const point = this.#text.codePointAt(this.#at);
    return point === undefined ? '' : String.fromCodePoint(point);
  }

  #take(): string {
    const character = this.#peek();
    this.#at += character.length;
    if (character === '\n') this.#line++;
    return character;
  }

  #untake(): void {
    this.#at--;
    this.#line--;
  }

  #shown(): string {
    const next = this.#peek();
    if (next === '') return 'the end of the file';
    return next === '\n' ? 'the end of the line' : JSON.stringify(next);
  }

  #fail(message: string): never {
    throw new LineError(this.#line, message);
  }
}

/**
 * Reads the vendor's file into entries, in order. Lines that cannot be read are reported, each with its number, and left out.
 *
 * @example
 * const problems = new Problems();
 * const [, port] = readIni('[Main]\nport = 8030 ; the default', 'relay.conf', problems);
 * console.log(port?.section, port?.key, port?.value, port?.line); // Main port 8030 2
 */
export function readIni(text: string, file: string, problems: Problems): readonly IniEntry[] {
  const reader = new IniReader(text);
  return [...reader.read((error) => problems.error(`${file}:${error.line}`, error.message))];
}
