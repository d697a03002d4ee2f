import { blockOf, type GzipBlock, gzipHeader, gzipTrailer } from '../gzip.ts';
import type { Page } from './page.ts';
import type { Copy, CopyPayload } from './types.ts';

/** The answer to those who have missed nothing. */
export const EMPTY_DELTA = '{"new": [], "deleted": []}';

/** What stands around the two arrays, or around a list. */
const DOCUMENT = { begin: Buffer.from('{"new": ['), middle: Buffer.from('], "deleted": ['), end: Buffer.from(']}') };
const LIST = { begin: Buffer.from('['), middle: Buffer.from(''), end: Buffer.from(']') };
/** A live answer without a decision: lua's bouncer knows no other. */
const NOTHING = { begin: Buffer.from('null'), middle: Buffer.from(''), end: Buffer.from('') };

/** How long the durations of a small answer are given out, in milliseconds. */
const GRANULARITY_MS = 1000;

/** What was written of a small answer at one moment. */
interface Written {
  readonly atMs: number;
  readonly bytes: Uint8Array;
  /** All of it as a gzip member, once somebody asked. */
  zipped: Uint8Array | Promise<Uint8Array> | undefined;
}

/**
 * A small answer: without white space, written for the moment at which it is asked for, and shared for a second.
 */
export class SmallAnswer {
  readonly offset: number;
  readonly #fresh: Page | undefined;
  readonly #gone: Page | undefined;
  readonly #frame: typeof DOCUMENT;
  #written: Written | undefined;

  /** @param o - `list`: an array of its own, or `null` */
  constructor(o: {
    readonly offset: number;
    readonly fresh: Page | undefined;
    readonly gone: Page | undefined;
    readonly list: boolean;
  }) {
    this.offset = o.offset;
    this.#fresh = o.fresh;
    this.#gone = o.gone;
    const list = o.fresh === undefined ? NOTHING : LIST;
    this.#frame = o.list ? list : DOCUMENT;
  }

  get added(): number {
    return this.#fresh?.count ?? 0;
  }

  get deleted(): number {
    return this.#gone?.count ?? 0;
  }

  /** What it keeps in memory, about. */
  get heldBytes(): number {
    return 2 * this.#bytesMax();
  }

  write(nowMs: number): Written {
    const written = this.#written;
    const ageMs = nowMs - (written?.atMs ?? 0);
    if (written !== undefined && ageMs >= 0 && ageMs < GRANULARITY_MS) return written;
    this.#written = { atMs: nowMs, bytes: this.#bytes(nowMs), zipped: undefined };
    return this.#written;
  }

  #bytesMax(): number {
    const { begin, middle, end } = this.#frame;
    return begin.length + middle.length + end.length + (this.#fresh?.length ?? 0) + (this.#gone?.length ?? 0);
  }

  #bytes(nowMs: number): Uint8Array {
    const { begin, middle, end } = this.#frame;
    const into = new Uint8Array(this.#bytesMax());
    let to = begin.length;
    into.set(begin, 0);
    to = this.#fresh?.writeNatural(into, to, nowMs) ?? to;
    into.set(middle, to);
    to += middle.length;
    to = this.#gone?.writeNatural(into, to, nowMs) ?? to;
    into.set(end, to);
    return into.subarray(0, to + end.length);
  }
}

/** A copy of a small answer. There is nothing to let go of. */
export class SmallCopy implements Copy {
  readonly #answer: SmallAnswer;
  readonly #wallNow: () => number;

  constructor(answer: SmallAnswer, wallNow: () => number) {
    this.#answer = answer;
    this.#wallNow = wallNow;
  }

  get offset(): number {
    return this.#answer.offset;
  }

  get added(): number {
    return this.#answer.added;
  }

  get deleted(): number {
    return this.#answer.deleted;
  }

  /** As of now: without padding it changes with the durations. Of a payload it is settled. */
  get bytes(): number {
    return this.#answer.write(this.#wallNow()).bytes.length;
  }

  payload(encoding: 'identity' | 'gzip'): CopyPayload {
    const written = this.#answer.write(this.#wallNow());
    return encoding === 'identity' ? new WholePayload(written.bytes) : new WholePayload(zippedOf(written));
  }

  release(): void {}
}

/** Everything at once. */
class WholePayload implements CopyPayload {
  #whole: Uint8Array | Promise<Uint8Array> | undefined;
  readonly bytes: number | undefined;

  constructor(whole: Uint8Array | Promise<Uint8Array>) {
    this.#whole = whole;
    this.bytes = whole instanceof Promise ? undefined : whole.length;
  }

  next(): ReturnType<CopyPayload['next']> {
    const whole = this.#whole;
    this.#whole = undefined;
    if (whole === undefined) return undefined;
    return whole instanceof Promise ? whole.then((bytes) => [bytes]) : [whole];
  }

  release(): void {
    this.#whole = undefined;
  }
}

function zippedOf(written: Written): Uint8Array | Promise<Uint8Array> {
  written.zipped ??= zip(written);
  return written.zipped;
}

function zip(written: Written): Uint8Array | Promise<Uint8Array> {
  const block = blockOf(written.bytes);
  if (!(block instanceof Promise)) return memberOf(block);
  const flight = block.then(
    (made) => {
      written.zipped = memberOf(made);
      return written.zipped;
    },
    (error: unknown) => {
      written.zipped = undefined;
      throw error;
    },
  );
  flight.catch(() => {});
  return flight;
}

function memberOf({ block, crc, length }: GzipBlock): Uint8Array {
  return Buffer.concat([gzipHeader(), block, gzipTrailer(crc, length)]);
}
