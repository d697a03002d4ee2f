import { canonicalScope, type Decision, parseDuration } from '../dataset/decisions/index.ts';
import { JSON_LIMITS, type JsonLimits, type JsonPlace, JsonScanner } from './json-scanner.ts';
import { LapiError } from './lapi-error.ts';

/** How an answer is laid out: `{"new": [...], "deleted": [...]}`, or the live form `[...]` or `null`. */
export type BodyForm = 'stream' | 'list';

/** What the bytes so far have brought. */
export interface Scanned {
  readonly added: readonly Decision[];
  readonly removedIds: readonly number[];
}

const LIMITS: JsonLimits = {
  ...JSON_LIMITS,
  // An item is flat; a member that is not known may nest a little.
  depthMax: 32,
  // About 200 bytes each; those that are far larger cannot be held, but one of them must not keep the others away.
  recordBytesMax: 1024 * 1024,
};
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;
const NULL = 0x6e;
/** Ids of several sources stand side by side in one number: this many bits are one source's. */
const ID_MAX = 2 ** 40 - 1;
/** A duration in whole seconds is a rounded one: the end may be this much later. */
const ROUNDING_MS = 500;
const WHOLE_SECONDS = /^-?(?:\d+h)?(?:\d+m)?\d+s$/;

/**
 * Finds the decisions in the body of an answer, each as soon as its last byte has come, in either shape that local APIs
 * have: `{"new": [..], "deleted": [..]}` and `{"deleted":null,"new":null}`. Members that are not known are skipped.
 *
 * Anything else is a {@link LapiError} with the place in bytes, and so is a body that ends before its value does or lacks
 * one of the two arrays.
 *
 * ```
 *  depth   0  1        2                          1
 *          {  "new": [ {"duration":"4h0m0s",..},..] , "deleted": [..] }
 *                      └ recorded, then parsed ┘
 * ```
 */
export class DecisionScanner extends JsonScanner {
  readonly #from: string;
  readonly #form: BodyForm;
  readonly #itemDepth: number;
  readonly #seen = new Set<string>();
  /** The member that is being read: `new`, `deleted`, or '' for one that is skipped. */
  #section = '';
  #receivedMs = 0;
  /** Bytes in the pieces before this one. */
  #base = 0;
  /** Where the last place that was asked for is, in bytes from the start. */
  #placeBytes = 0;
  #itemBytes = 0;
  #added: Decision[] = [];
  #removedIds: number[] = [];

  /** @param from - what the reader of an error knows the upstream by. */
  constructor(from: string, form: BodyForm) {
    super({ file: from, code: 'HG_SOURCE' }, LIMITS);
    this.#from = from;
    this.#form = form;
    this.#itemDepth = form === 'stream' ? 2 : 1;
    if (form === 'list') this.#section = 'new';
  }

  /** Bytes read so far. */
  get bytes(): number {
    return this.#base;
  }

  /**
   * Reads the next piece, which was received at `receivedMs` (Unix time), and gives what it completed.
   *
   * A decision ends at the latest its duration after it was received: the duration was counted from a moment between
   * our question and that.
   */
  feed(chunk: Buffer, receivedMs: number): Scanned {
    this.#receivedMs = receivedMs;
    this.push(chunk);
    this.#base += chunk.length;
    const scanned = { added: this.#added, removedIds: this.#removedIds };
    if (this.#added.length > 0) this.#added = [];
    if (this.#removedIds.length > 0) this.#removedIds = [];
    return scanned;
  }

  /** Says that the answer has ended. Throws when its value has not. */
  override finish(): void {
    super.finish();
    if (this.#form === 'list') return;
    for (const name of ['new', 'deleted']) {
      if (!this.#seen.has(name)) this.fail(this.place(0), `expected a member "${name}", got the end of the answer`);
    }
  }

  protected override place(at: number): JsonPlace {
    this.#placeBytes = this.#base + at;
    return super.place(at);
  }

  /** Bodies have no lines that anybody could look up: the place is told in bytes. */
  protected override fail(_place: JsonPlace, cause: string): never {
    const told = cause.replaceAll('the end of the file', 'the end of the answer');
    throw new LapiError('answer', `Cannot read the decisions of ${this.#from}: ${told} at byte ${this.#placeBytes}`);
  }

  protected override keyBegins(depth: number, at: number): void {
    if (depth === 1 && this.#form === 'stream') this.record(at);
  }

  protected override keyEnds(depth: number, at: number): void {
    if (depth !== 1 || this.#form !== 'stream') return;
    const name = JSON.parse(this.recorded(0, this.mark(at), at)) as string;
    this.stopRecording(at);
    this.#section = name === 'new' || name === 'deleted' ? name : '';
    if (this.#section === '') return;
    // taking the last one would throw a whole array away without a word
    if (this.#seen.has(name)) this.fail(this.place(at), `expected the member "${name}" once, got it again`);
    this.#seen.add(name);
  }

  protected override valueBegins(depth: number, first: number, at: number): void {
    if (this.#section === '' && depth > 0) return;
    if (depth === this.#itemDepth) this.#beginItem(first, at);
    else if (depth === this.#itemDepth - 1) this.#checkArray(first, at);
    else if (depth === 0 && first !== OPEN_OBJECT) {
      this.fail(this.place(at), `expected {"new": [..], "deleted": [..]}, got ${shown(first)}`);
    }
  }

  protected override valueEnds(depth: number, at: number): void {
    if (depth !== this.#itemDepth || this.#section === '') return;
    const text = this.recorded(0, this.mark(at), at);
    this.stopRecording(at);
    const item = JSON.parse(text) as Readonly<Record<string, unknown>>;
    if (this.#section === 'new') this.#added.push(this.#decision(item));
    else this.#removedIds.push(this.#id(item));
  }

  #checkArray(first: number, at: number): void {
    if (first === OPEN_ARRAY || first === NULL) return;
    const what = this.#form === 'stream' ? `an array or null as "${this.#section}"` : 'an array or null';
    this.fail(this.place(at), `expected ${what}, got ${shown(first)}`);
  }

  #beginItem(first: number, at: number): void {
    this.#itemBytes = this.#base + at;
    if (first !== OPEN_OBJECT) this.fail(this.place(at), `expected a decision, got ${shown(first)}`);
    this.record(at);
  }

  #decision(item: Readonly<Record<string, unknown>>): Decision {
    const duration = this.#text(item, 'duration');
    const durationMs = parseDuration(duration);
    if (durationMs === undefined) this.#failItem('duration', 'a duration such as 3h59m58s', duration);
    const { uuid } = item;
    return {
      id: this.#id(item),
      uuid: typeof uuid === 'string' && uuid !== '' ? uuid : undefined,
      origin: this.#text(item, 'origin'),
      scenario: this.#text(item, 'scenario'),
      scope: canonicalScope(this.#text(item, 'scope')),
      type: this.#text(item, 'type'),
      value: this.#text(item, 'value'),
      untilMs: this.#receivedMs + durationMs + (WHOLE_SECONDS.test(duration) ? ROUNDING_MS : 0),
      simulated: false,
    };
  }

  #id(item: Readonly<Record<string, unknown>>): number {
    const { id } = item;
    const fits = typeof id === 'number' && Number.isInteger(id) && id >= 0 && id <= ID_MAX;
    return fits ? id : this.#failItem('id', 'a whole number from 0 to 2^40 - 1', id);
  }

  #text(item: Readonly<Record<string, unknown>>, name: string): string {
    const text = item[name];
    return typeof text === 'string' ? text : this.#failItem(name, 'a text', text);
  }

  #failItem(name: string, wanted: string, got: unknown): never {
    this.#placeBytes = this.#itemBytes;
    const text = JSON.stringify(got) ?? 'none';
    const cause = `"${name}" of a decision must be ${wanted}, got ${text.length > 40 ? `${text.slice(0, 40)}...` : text}`;
    return this.fail({ line: 1, column: 1 }, cause);
  }
}

function shown(byte: number): string {
  return JSON.stringify(String.fromCharCode(byte));
}
