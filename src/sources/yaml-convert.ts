import { isMap, isScalar, LineCounter, parseDocument, visit, type YAMLMap } from 'yaml';

/** A conversion that worked, or why it did not and where. */
export type YamlResult =
  | { readonly ok: true; readonly json: Uint8Array<ArrayBuffer> }
  | { readonly ok: false; readonly cause: string; readonly line: number; readonly column: number };

interface Place {
  readonly line: number;
  readonly column: number;
}

/** Aliases multiply what they name: the JSON may be this large, as a JSON file may. */
const JSON_LENGTH_MAX = 200 * 1024 * 1024;

/**
 * Converts YAML text (1.2, with merge keys) to JSON text.
 *
 * The keys of the outer two levels stand at the same line and column as in the YAML, so that whoever finds fault with an
 * item of the JSON names its line in the YAML.
 *
 * @example
 * const result = convertYaml(Buffer.from('flagValues:\n  a: [1, 2]\n'));
 * console.log(result.ok && Buffer.from(result.json).toString().replace(/\s+/g, '')); // {"flagValues":{"a":[1,2]}}
 */
export function convertYaml(bytes: Uint8Array, jsonLengthMax: number = JSON_LENGTH_MAX): YamlResult {
  const lineCounter = new LineCounter();
  const failure = (cause: string, offset: number): YamlResult => {
    const { line, column } = placeOf(lineCounter, offset);
    return { ok: false, cause, line, column };
  };
  const text = decode(bytes);
  if (text === undefined) return failure('expected valid UTF-8', 0);
  // The package's own check for keys that stand twice compares each key with all others: 20 s for 35,000 keys.
  const document = parseDocument(text, {
    lineCounter,
    prettyErrors: false,
    uniqueKeys: false,
    merge: true,
    logLevel: 'error',
  });
  const error = document.errors[0];
  if (error !== undefined) return failure(error.message, error.pos[0]);
  const repeated = repeatedKey(document);
  if (repeated !== undefined)
    return failure(`keys must stand once, got ${JSON.stringify(repeated.key)} again`, repeated.offset);
  const emitter = new Emitter(lineCounter, jsonLengthMax);
  try {
    emitter.document(document.toJS(), document.contents);
    return { ok: true, json: new TextEncoder().encode(emitter.text()) };
  } catch (thrown) {
    const cause = thrown instanceof Error ? thrown.message : String(thrown);
    return { ok: false, cause: cause.split('\n')[0] ?? '', ...emitter.place };
  }
}

function placeOf(lineCounter: LineCounter, offset: number): Place {
  const { line, col } = lineCounter.linePos(offset);
  return { line: Math.max(1, line), column: Math.max(1, col) };
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The first key that stands twice in one map, as JSON would write it. */
function repeatedKey(document: ReturnType<typeof parseDocument>): { key: string; offset: number } | undefined {
  let found: { key: string; offset: number } | undefined;
  visit(document, {
    Map(_, map) {
      const keys = new Set<string>();
      for (const { key } of map.items) {
        if (!isScalar(key)) continue;
        const name = String(key.value);
        if (keys.has(name) && name !== '<<') {
          found = { key: name, offset: key.range?.[0] ?? 0 };
          return visit.BREAK;
        }
        keys.add(name);
      }
      return undefined;
    },
  });
  return found;
}

/** Writes JSON with the outer two levels of keys at the places they have in the YAML. */
class Emitter {
  readonly #lineCounter: LineCounter;
  readonly #lengthMax: number;
  readonly #parts: string[] = [];
  #length = 0;
  #line = 1;
  #column = 1;
  /** Where the last key of the outer two levels stands. */
  place: Place = { line: 1, column: 1 };

  constructor(lineCounter: LineCounter, lengthMax: number) {
    this.#lineCounter = lineCounter;
    this.#lengthMax = lengthMax;
  }

  text(): string {
    return this.#parts.join('');
  }

  document(value: unknown, node: unknown): void {
    if (!isMap(node) || !isRecord(value)) return this.#write(jsonOf(value));
    this.#members(value, node, (section, pair) => {
      if (!isMap(pair) || !isRecord(section)) this.#write(jsonOf(section));
      else this.#members(section, pair, (item) => this.#write(jsonOf(item)));
    });
  }

  /** In the order of the YAML: an object has keys that look like numbers first, and places can only go forward. */
  #members(value: Record<string, unknown>, map: YAMLMap, each: (member: unknown, node: unknown) => void): void {
    const pairs = new Map(
      map.items.flatMap(({ key, value: node }) => (isScalar(key) ? [[String(key.value), { key, node }]] : [])),
    );
    const names = new Set([...pairs.keys(), ...Object.keys(value)]);
    let separator = '{';
    for (const name of names) {
      if (!Object.hasOwn(value, name)) continue;
      const pair = pairs.get(name);
      this.#write(separator);
      const offset = pair?.key.range?.[0];
      if (offset !== undefined) this.#moveTo(placeOf(this.#lineCounter, offset));
      this.#write(`${JSON.stringify(name)}:`);
      each(value[name], pair?.node);
      separator = ',';
    }
    this.#write(separator === '{' ? '{}' : '}');
  }

  #moveTo(place: Place): void {
    this.place = place;
    const { line, column } = place;
    if (line > this.#line) {
      this.#write('\n'.repeat(line - this.#line));
      this.#line = line;
      this.#column = 1;
    }
    if (column > this.#column) this.#write(' '.repeat(column - this.#column));
  }

  #write(text: string): void {
    this.#parts.push(text);
    this.#column += text.length;
    this.#length += text.length;
    if (this.#length > this.#lengthMax) {
      throw new Error(`the file may have ${this.#lengthMax} characters as JSON, got more`);
    }
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function jsonOf(value: unknown): string {
  return JSON.stringify(value, onlyFinite) ?? 'null';
}

/** JSON has no word for these, and would say null in silence. */
function onlyFinite(_key: string, value: unknown): unknown {
  if (typeof value !== 'number' || Number.isFinite(value)) return value;
  throw new Error(`numbers must be finite, got ${value}`);
}
