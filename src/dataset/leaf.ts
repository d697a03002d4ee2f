import { assert } from '../kernel/index.ts';
import { pagesEncoded } from './encoded.ts';
import { deflateBlock, type GzipBlock } from './gzip.ts';
import { type Item, textBytes } from './item.ts';
import type { Shape } from './shape.ts';

/** How a payload is encoded on the wire. */
export type Encoding = 'identity' | 'gzip';

/** One write should be small enough to end soon: TLS copies it, and its callback is the only sign of progress. */
export const PART_BYTES_MAX: number = 64 * 1024;

/** A leaf's entries in one shape, encoded. */
export interface Page {
  /** How many items of the leaf the shape shows. With none the page is empty and takes no separator. */
  readonly entries: number;
  /** The bytes, in parts of 64 KiB at most. Shared by every delivery, so never written to. */
  readonly parts: readonly Uint8Array[];
  readonly bytes: number;
  /** What a trailer must say of it when it is compressed; zeros when it is not. */
  readonly crc: number;
  readonly length: number;
}

/** A page, compressed. */
export type PageBlock = Page;

/** What is known of a leaf in one shape. */
interface View {
  measured: { readonly entries: number; readonly bytes: number } | undefined;
  page: Page | undefined;
  block: PageBlock | Promise<PageBlock> | undefined;
}

/** Where leaves count the bytes that only pins keep alive. */
export interface Meter {
  pinnedBytes: number;
}

/**
 * An immutable run of items of one kind, in key order, with what was encoded of it.
 *
 * ```
 *  snapshot 7:  [ leaf A ][ leaf B ][ leaf C ]
 *                   |          x        |          one change in B
 *  snapshot 8:  [ leaf A ][ leaf B'][ leaf C ]     A and C, and all that was encoded of them, are shared
 * ```
 *
 * Encodings hang on the leaf, so every delivery of every snapshot that holds it sends the same Buffers, and they go
 * when the last snapshot that holds it goes. They are made when first asked for: a view that nobody uses costs nothing.
 */
export class Leaf {
  readonly items: readonly Item[];
  /** UTF-8 bytes of the items' texts. */
  readonly textBytes: number;
  readonly #meter: Meter;
  readonly #views = new Map<Shape, View>();
  #encodedBytes = 0;
  #retired = false;
  #pins = 0;

  constructor(items: readonly Item[], meter: Meter, bytes: number = sumOfBytes(items)) {
    assert(items.length > 0, 'a leaf is never empty');
    this.items = items;
    this.textBytes = bytes;
    this.#meter = meter;
  }

  get firstKey(): string {
    return this.items[0]!.key;
  }

  /** Bytes of the texts and of all encodings known. */
  get heldBytes(): number {
    return this.textBytes + this.#encodedBytes;
  }

  /** How many entries the shape shows and how many bytes they take, without keeping them. */
  measure(shape: Shape): { readonly entries: number; readonly bytes: number } {
    const view = this.#viewOf(shape);
    if (view.measured === undefined) {
      const { text, entries } = this.#join(shape);
      view.measured = { entries, bytes: Buffer.byteLength(text) };
    }
    return view.measured;
  }

  /** The same, when it is known without work. */
  measured(shape: Shape): { readonly entries: number; readonly bytes: number } | undefined {
    return this.#views.get(shape)?.measured;
  }

  /** The page of a shape, encoded at the first call. */
  page(shape: Shape): Page {
    const view = this.#viewOf(shape);
    if (view.page === undefined) {
      view.page = this.#encode(shape);
      view.measured = view.page;
      this.#hold(view.page.bytes);
    }
    return view.page;
  }

  /**
   * The compressed page of a shape: itself when there is one, else a promise that all who ask share. A failure is
   * theirs alone: it is not kept, and who asks next tries again.
   */
  block(shape: Shape): PageBlock | Promise<PageBlock> {
    const view = this.#viewOf(shape);
    if (view.block === undefined) {
      // a view read only compressed does not need the plain page kept beside it
      const page = view.page ?? this.#encode(shape);
      view.measured = page;
      view.block = page.entries === 0 ? { ...page, crc: 0, length: 0 } : this.#compress(view, page);
    }
    return view.block;
  }

  /** The compressed page when it is there already. */
  blockReady(shape: Shape): PageBlock | undefined {
    const block = this.#views.get(shape)?.block;
    return block instanceof Promise ? undefined : block;
  }

  /** Lets go of what was encoded of a shape. It is encoded again when somebody asks. */
  forget(shape: Shape, encoding: Encoding): void {
    const view = this.#views.get(shape);
    if (view === undefined) return;
    if (encoding === 'identity' && view.page !== undefined) {
      this.#hold(-view.page.bytes);
      view.page = undefined;
    }
    if (encoding === 'gzip' && view.block !== undefined) {
      if (!(view.block instanceof Promise)) this.#hold(-view.block.bytes);
      view.block = undefined;
    }
    if (view.page === undefined && view.block === undefined) this.#views.delete(shape);
  }

  /** A pinned snapshot holds this leaf from now on. */
  pin(): void {
    this.#pins++;
    if (this.#retired && this.#pins === 1) this.#meter.pinnedBytes += this.heldBytes;
  }

  /** One pinned snapshot less. */
  unpin(): void {
    assert(this.#pins > 0, 'a leaf is unpinned as often as it was pinned', this.#pins);
    this.#pins--;
    if (this.#retired && this.#pins === 0) this.#meter.pinnedBytes -= this.heldBytes;
  }

  /** The newest snapshot no longer holds this leaf; no later one ever will. */
  retire(): void {
    assert(!this.#retired, 'a leaf retires once');
    this.#retired = true;
    if (this.#pins > 0) this.#meter.pinnedBytes += this.heldBytes;
  }

  #viewOf(shape: Shape): View {
    let view = this.#views.get(shape);
    if (view === undefined) {
      view = { measured: undefined, page: undefined, block: undefined };
      this.#views.set(shape, view);
    }
    return view;
  }

  #join(shape: Shape): { text: string; entries: number } {
    const texts: string[] = [];
    for (const item of this.items) {
      const text = shape.entry(item);
      if (text !== undefined) texts.push(text);
    }
    return { text: texts.join(shape.separator), entries: texts.length };
  }

  #encode(shape: Shape): Page {
    if (!pagesEncoded.isHeard) return this.#make(shape);
    const beganMs = performance.now();
    const page = this.#make(shape);
    const ms = performance.now() - beganMs;
    pagesEncoded.publish(() => ({ data: 'items', encoding: 'identity', bytes: page.bytes, ms }));
    return page;
  }

  #make(shape: Shape): Page {
    const { text, entries } = this.#join(shape);
    const bytes = Buffer.from(text);
    return { entries, parts: partsOf(bytes), bytes: bytes.length, crc: 0, length: 0 };
  }

  #compress(view: View, page: Page): Promise<PageBlock> {
    const beganMs = pagesEncoded.isHeard ? performance.now() : 0;
    const flight: Promise<PageBlock> = deflateBlock(wholeOf(page)).then(
      (made) => {
        const block = pageBlock(page.entries, made);
        if (beganMs > 0) {
          const ms = performance.now() - beganMs;
          pagesEncoded.publish(() => ({ data: 'items', encoding: 'gzip', bytes: block.bytes, ms }));
        }
        // forgotten meanwhile: those who wait get it, but nobody keeps it
        if (view.block !== flight) return block;
        view.block = block;
        this.#hold(block.bytes);
        return block;
      },
      (error: unknown) => {
        if (view.block === flight) view.block = undefined;
        throw error;
      },
    );
    // read ahead, nobody may be waiting: a failure is for whoever asks, and no unhandled rejection
    flight.catch(() => {});
    return flight;
  }

  #hold(bytes: number): void {
    this.#encodedBytes += bytes;
    if (this.#retired && this.#pins > 0) this.#meter.pinnedBytes += bytes;
  }
}

function pageBlock(entries: number, { block, crc, length }: GzipBlock): PageBlock {
  return { entries, parts: partsOf(block), bytes: block.length, crc, length };
}

/** Cuts into equal parts of 64 KiB at most: views of the same memory, no copies. */
export function partsOf(bytes: Uint8Array): readonly Uint8Array[] {
  if (bytes.length === 0) return [];
  const count = Math.ceil(bytes.length / PART_BYTES_MAX);
  if (count === 1) return [bytes];
  const partBytes = Math.ceil(bytes.length / count);
  return Array.from({ length: count }, (_, at) => bytes.subarray(at * partBytes, (at + 1) * partBytes));
}

/** The parts of a page are neighbours in one piece of memory, so the whole is a view as well. */
function wholeOf(page: Page): Uint8Array {
  const first = page.parts[0];
  if (first === undefined || page.parts.length === 1) return first ?? new Uint8Array(0);
  return new Uint8Array(first.buffer, first.byteOffset, page.bytes);
}

function sumOfBytes(items: readonly Item[]): number {
  let bytes = 0;
  for (const item of items) bytes += textBytes(item);
  return bytes;
}
