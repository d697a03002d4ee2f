import { crc32Combine } from './crc32.ts';
import { blockOf, type GzipBlock, gzipHeader, gzipTrailer, storedBlock, storedBytes } from './gzip.ts';
import { type Encoding, type Leaf, partsOf } from './leaf.ts';
import type { Shape } from './shape.ts';

/** Bytes ready for the wire, and what an ending needs to know of them. */
export interface Encoded {
  /** How many entries they show; a page that shows none takes no separator. A text counts as one. */
  readonly entries: number;
  readonly parts: readonly Uint8Array[];
  readonly crc: number;
  readonly length: number;
}

/** What the trailer of a gzip member must say of bytes: their CRC-32, and how many there are. */
export interface Checksum {
  readonly crc: number;
  readonly length: number;
}

/** How texts and pages become the bytes of one encoding. One per payload: it remembers what passed. */
export interface Encoder {
  readonly head: readonly Uint8Array[];
  text(text: string): Encoded | Promise<Encoded>;
  page(leaf: Leaf, shape: Shape): Encoded | Promise<Encoded>;
  /** A text of a few bytes, at once. */
  separator(text: string): Encoded;
  /** Told of everything that is sent, in order. */
  sent(encoded: Encoded): void;
  tail(): readonly Uint8Array[];
  /** Of everything that was sent, before compression; zeros where nothing is compressed. */
  readonly checksum: Checksum;
  /** Bytes of what stands around the pages, known without work, else undefined. */
  frameBytes(texts: readonly string[]): number | undefined;
  /** Bytes of a page, known without work, else undefined, and whether it shows anything. */
  pageKnown(leaf: Leaf, shape: Shape): { readonly entries: number; readonly bytes: number } | undefined;
  separatorBytes(text: string): number;
}

/** @param framed - whether a compressed payload is a whole gzip member, or blocks within one of the caller's */
export function encoderFor(encoding: Encoding, framed: boolean): Encoder {
  return encoding === 'identity' ? identity : new GzipEncoder(framed);
}

/** Nothing to remember, so one serves all. */
const identity: Encoder = {
  head: [],
  text: plain,
  page: (leaf, shape) => leaf.page(shape),
  separator: plainSeparator,
  sent: () => {},
  tail: () => [],
  checksum: { crc: 0, length: 0 },
  frameBytes: (texts) => texts.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0),
  pageKnown: (leaf, shape) => leaf.measured(shape),
  separatorBytes: (text) => Buffer.byteLength(text),
};

/** Separators are constants of shapes, hence few, and stand between any two pages: each is made once. */
const plainSeparators = new Map<string, Encoded>();

function plainSeparator(text: string): Encoded {
  let encoded = plainSeparators.get(text);
  if (encoded === undefined) plainSeparators.set(text, (encoded = plain(text)));
  return encoded;
}

function plain(text: string): Encoded {
  return { entries: 1, parts: partsOf(Buffer.from(text)), crc: 0, length: 0 };
}

const NOTHING: Encoded = { entries: 0, parts: [], crc: 0, length: 0 };

class GzipEncoder implements Encoder {
  readonly head: readonly Uint8Array[];
  readonly #framed: boolean;
  #crc = 0;
  #length = 0;
  /** Texts that were compressed for their length must be sent as they were measured. */
  readonly #texts = new Map<string, Encoded>();

  constructor(framed: boolean) {
    this.#framed = framed;
    this.head = framed ? [gzipHeader()] : [];
  }

  get checksum(): Checksum {
    return { crc: this.#crc, length: this.#length };
  }

  text(text: string): Encoded | Promise<Encoded> {
    if (text === '') return NOTHING;
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    const block = blockOf(Buffer.from(text));
    return block instanceof Promise ? block.then((made) => this.#keep(text, made)) : encodedOf(block);
  }

  page(leaf: Leaf, shape: Shape): Encoded | Promise<Encoded> {
    return leaf.block(shape);
  }

  separator(text: string): Encoded {
    return text === '' ? NOTHING : encodedOf(storedBlock(Buffer.from(text)));
  }

  sent({ crc, length }: Encoded): void {
    this.#crc = crc32Combine(this.#crc, crc, length);
    this.#length += length;
  }

  tail(): readonly Uint8Array[] {
    return this.#framed ? [gzipTrailer(this.#crc, this.#length)] : [];
  }

  frameBytes(texts: readonly string[]): number | undefined {
    let bytes = this.#framed ? gzipHeader().length + gzipTrailer(0, 0).length : 0;
    for (const text of texts) {
      const known = text === '' ? 0 : (storedBytes(Buffer.byteLength(text)) ?? this.#bytesOf(text));
      if (known === undefined) return undefined;
      bytes += known;
    }
    return bytes;
  }

  pageKnown(leaf: Leaf, shape: Shape): { readonly entries: number; readonly bytes: number } | undefined {
    return leaf.blockReady(shape);
  }

  separatorBytes(text: string): number {
    return this.separator(text).parts[0]?.length ?? 0;
  }

  #keep(text: string, block: GzipBlock): Encoded {
    const encoded = encodedOf(block);
    this.#texts.set(text, encoded);
    return encoded;
  }

  #bytesOf(text: string): number | undefined {
    return this.#texts.get(text)?.parts.reduce((bytes, part) => bytes + part.length, 0);
  }
}

function encodedOf({ block, crc, length }: GzipBlock): Encoded {
  return { entries: 1, parts: partsOf(block), crc, length };
}
