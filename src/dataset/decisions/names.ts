import { Arena } from './arena.ts';
import { jsonText } from './json-text.ts';

const BLOCK_BITS = 16;

/**
 * Texts that many rows share, by number. A number is given to another text only when no row uses it any more;
 * `recycled` then rises, so that whoever keeps numbers knows.
 *
 * @example
 * const origins = new Names('origin', 65_536);
 * const number = origins.take('cscli');
 * console.log(origins.textOf(number), origins.numberOf('CAPI')); // cscli undefined
 */
export class Names {
  readonly #member: string;
  readonly #countMax: number;
  readonly #numbers = new Map<string, number>();
  readonly #texts: string[] = [];
  readonly #uses: number[] = [];
  readonly #places: number[] = [];
  readonly #lengths: number[] = [];
  readonly #spare: number[] = [];
  readonly #pieces = new Arena(BLOCK_BITS);
  #recycled = 0;
  #chars = 0;
  #last = '';
  #lastNumber = -1;

  /** @param member - the key under which an item tells it: `,"member":"text"` is its piece of the item */
  constructor(member: string, countMax: number) {
    this.#member = member;
    this.#countMax = countMax;
  }

  /** Numbers are below it. */
  get size(): number {
    return this.#texts.length;
  }

  /** How many more texts it can take. */
  get room(): number {
    return this.#countMax - this.#numbers.size;
  }

  /** How often a number went to another text. */
  get recycled(): number {
    return this.#recycled;
  }

  /** Bytes, about: a string and its place in a Map take some 90 beside its characters. */
  get bytes(): number {
    return this.#pieces.bytes + this.#chars + this.#texts.length * 90;
  }

  textOf(number: number): string {
    return this.#texts[number] as string;
  }

  numberOf(text: string): number | undefined {
    return this.#numbers.get(text);
  }

  /** The number of a text, used once more. There must be {@link room}. */
  take(text: string): number {
    const number = text === this.#last && this.#lastNumber >= 0 ? this.#lastNumber : this.#numbers.get(text);
    if (number === undefined) return this.#add(text);
    this.#last = text;
    this.#lastNumber = number;
    this.use(number);
    return number;
  }

  use(number: number): void {
    this.#uses[number] = (this.#uses[number] as number) + 1;
  }

  /** Takes back one use. */
  drop(number: number): void {
    const uses = (this.#uses[number] as number) - 1;
    this.#uses[number] = uses;
    if (uses > 0) return;
    const text = this.textOf(number);
    this.#numbers.delete(text);
    this.#pieces.free(this.#places[number] as number, this.#lengths[number] as number);
    this.#chars -= text.length;
    this.#texts[number] = '';
    this.#spare.push(number);
    this.#lastNumber = -1;
  }

  pieceBytes(number: number): number {
    return this.#lengths[number] as number;
  }

  /** Writes `,"member":"text"`, and answers where it ends. */
  copyPiece(number: number, into: Uint8Array, at: number): number {
    const place = this.#places[number] as number;
    const from = this.#pieces.block(place);
    const begin = this.#pieces.offset(place);
    const length = this.#lengths[number] as number;
    for (let byte = 0; byte < length; byte++) into[at + byte] = from[begin + byte] as number;
    return at + length;
  }

  #add(came: string): number {
    // a copy: what came may be a part of an answer of many megabytes, which it would keep alive
    const text = Buffer.from(came).toString();
    const piece = Buffer.from(`,"${this.#member}":"${jsonText(text)}"`);
    const spare = this.#spare.pop();
    if (spare !== undefined) this.#recycled++;
    const number = spare ?? this.#texts.length;
    this.#numbers.set(text, number);
    this.#texts[number] = text;
    this.#uses[number] = 1;
    this.#places[number] = this.#pieces.put(piece, 0, piece.length);
    this.#lengths[number] = piece.length;
    this.#chars += text.length;
    return number;
  }
}
