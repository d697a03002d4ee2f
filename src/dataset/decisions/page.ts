import { pagesEncoded } from '../encoded.ts';
import { deflateBlock } from '../gzip.ts';
import { Held, HeldBlock, type Meter } from './held.ts';
import { secondsLeft, secondsSince, writeDuration, writeSlot } from './slot.ts';

/** What stands before the digits of an item's duration. */
export const ITEM_HEAD: Uint8Array = Buffer.from('{"duration":"');

/** Which of the two arrays a page belongs to: what is over counts on below zero. */
export type Side = 'new' | 'deleted';

/** What pages have in common. */
export interface PageRules {
  readonly meter: Meter;
  /** How old durations may be when a page is given out, in milliseconds. */
  readonly granularityMs: number;
  /** The same of a compressed page. */
  readonly gzipGranularityMs: number;
  /** Of zlib. */
  readonly gzipLevel: number;
}

/** What a page is made of: columns, an entry for each item in order. */
export interface PageParts {
  readonly side: Side;
  /** The items joined by commas. */
  readonly bytes: Uint8Array;
  /** Ids as they are shown. */
  readonly ids: Float64Array;
  /** Where each item came from. A hint: the number may be another decision's by now. */
  readonly rows: Uint32Array;
  readonly untilMs: Float64Array;
  /** Where the digits of its duration begin. */
  readonly slots: Uint32Array;
  /** How many bytes are kept for them. */
  readonly widths: Uint8Array;
}

/**
 * A run of items, encoded. Which items, and how long their text is, never changes; their durations do.
 *
 * ```
 *  {"duration":"57h58m30s","id":1,…},{"duration":"4h0m9s"   ,"id":2,…}
 *               slot 13                            slot 213
 *
 *  now ──► 1 s later, nobody holds the bytes:   digits are written over, in place
 *          1 s later, a delivery holds them:    written into a copy, which takes their place
 * ```
 *
 * Half of a duration sent before a change and half after it would be another duration, so what a delivery holds stays as
 * it is until it asks for more.
 */
export class Page {
  readonly side: Side;
  readonly ids: Float64Array;
  readonly rows: Uint32Array;
  readonly untilMs: Float64Array;
  readonly #slots: Uint32Array;
  readonly #widths: Uint8Array;
  readonly #rules: PageRules;
  #plain: Held;
  #block: HeldBlock | undefined;
  #flight: Promise<HeldBlock> | undefined;
  /** Answers that hold it, and how many of these are still given to whoever comes. */
  #editions = 0;
  #shelved = 0;

  constructor(parts: PageParts, rules: PageRules) {
    this.side = parts.side;
    this.ids = parts.ids;
    this.rows = parts.rows;
    this.untilMs = parts.untilMs;
    this.#slots = parts.slots;
    this.#widths = parts.widths;
    this.#rules = rules;
    this.#plain = new Held(parts.bytes, Number.NEGATIVE_INFINITY, rules.meter);
  }

  /** How many items it has; never none. */
  get count(): number {
    return this.ids.length;
  }

  /** Its length without compression, in bytes. */
  get length(): number {
    return this.#plain.bytes.length;
  }

  /** Its bytes as of now, held for the caller until it calls `letGo`. */
  take(nowMs: number): Held {
    if (!this.#plain.isFresh(nowMs, this.#rules.granularityMs)) this.#renew(nowMs);
    this.#plain.hold();
    return this.#plain;
  }

  /** The same compressed: at once when there is one that still holds, else a promise that all who ask share. Not held. */
  block(nowMs: number): HeldBlock | Promise<HeldBlock> {
    if (this.#block?.isFresh(nowMs, this.#rules.gzipGranularityMs) === true) return this.#block;
    this.#flight ??= this.#compress(nowMs);
    return this.#flight;
  }

  /** Where an item begins and ends, its braces included. */
  itemStart(at: number): number {
    return this.#slots[at]! - ITEM_HEAD.length;
  }

  itemEnd(at: number): number {
    return at + 1 < this.count ? this.itemStart(at + 1) - 1 : this.length;
  }

  /** How many bytes an item keeps for the digits of its duration. */
  width(at: number): number {
    return this.#widths[at]!;
  }

  /** Copies an item, and answers the end. Its digits are of some moment or none yet. */
  copyItem(at: number, into: Uint8Array, to: number): number {
    const start = this.itemStart(at);
    const end = this.itemEnd(at);
    into.set(this.#plain.bytes.subarray(start, end), to);
    return to + end - start;
  }

  /** Writes the items as of now without white space, joined by commas, and answers the end. It needs no more than `length`. */
  writeNatural(into: Uint8Array, to: number, nowMs: number): number {
    const bytes = this.#plain.bytes;
    const secondsOf = this.#secondsOf();
    let end = to;
    for (let at = 0; at < this.count; at++) {
      const slot = this.#slots[at]!;
      // the comma before it goes along
      const start = this.itemStart(at) - (at === 0 ? 0 : 1);
      into.set(bytes.subarray(start, slot), end);
      end = writeDuration(into, end + slot - start, secondsOf(this.untilMs[at]!, nowMs));
      into[end++] = 0x22;
      const rest = slot + this.#widths[at]! + 1;
      into.set(bytes.subarray(rest, this.itemEnd(at)), end);
      end += this.itemEnd(at) - rest;
    }
    return end;
  }

  /** An answer that is given to whoever comes has this page (`shelved`), or only copies of an answer have. */
  join(shelved: boolean): void {
    this.#count(1, shelved ? 1 : 0);
  }

  leave(shelved: boolean): void {
    this.#count(-1, shelved ? -1 : 0);
  }

  /** An answer that has this page was replaced by a newer one, while copies of it are still out. */
  unshelve(): void {
    this.#count(0, -1);
  }

  get #pinned(): boolean {
    return this.#editions > 0 && this.#shelved === 0;
  }

  get #heldBytes(): number {
    return this.#plain.bytes.length + (this.#block?.bytes.length ?? 0);
  }

  #count(editions: number, shelved: number): void {
    const { meter } = this.#rules;
    const [wasPinned, wasShelved] = [this.#pinned, this.#shelved > 0];
    this.#editions += editions;
    this.#shelved += shelved;
    if (wasPinned !== this.#pinned) meter.pinnedBytes += wasPinned ? -this.#heldBytes : this.#heldBytes;
    if (wasShelved !== this.#shelved > 0) meter.shelvedBytes += wasShelved ? -this.#heldBytes : this.#heldBytes;
  }

  #secondsOf(): (untilMs: number, nowMs: number) => number {
    return this.side === 'new' ? secondsLeft : secondsSince;
  }

  #renew(nowMs: number): void {
    if (!pagesEncoded.isHeard) return this.#stamp(nowMs);
    const beganMs = performance.now();
    this.#stamp(nowMs);
    const ms = performance.now() - beganMs;
    pagesEncoded.publish(() => ({ data: 'decisions', encoding: 'identity', bytes: this.length, ms }));
  }

  #stamp(nowMs: number): void {
    let plain = this.#plain;
    if (!plain.free) {
      plain = new Held(new Uint8Array(plain.bytes), nowMs, this.#rules.meter);
      this.#plain.replace();
      this.#plain = plain;
    }
    const bytes = plain.bytes;
    const untilMs = this.untilMs;
    const slots = this.#slots;
    const widths = this.#widths;
    const isNew = this.side === 'new';
    for (let at = 0; at < untilMs.length; at++) {
      const seconds = isNew ? secondsLeft(untilMs[at]!, nowMs) : secondsSince(untilMs[at]!, nowMs);
      writeSlot(bytes, slots[at]!, widths[at]!, seconds);
    }
    plain.stampedAtMs = nowMs;
  }

  #compress(nowMs: number): Promise<HeldBlock> {
    const plain = this.take(nowMs);
    const { meter, gzipLevel } = this.#rules;
    const beganMs = pagesEncoded.isHeard ? performance.now() : 0;
    const flight = deflateBlock(plain.bytes, gzipLevel)
      .then((made) => {
        const block = new HeldBlock(made, plain.stampedAtMs, meter);
        this.#replaceBlock(block);
        if (beganMs > 0) {
          const ms = performance.now() - beganMs;
          pagesEncoded.publish(() => ({ data: 'decisions', encoding: 'gzip', bytes: block.bytes.length, ms }));
        }
        return block;
      })
      .finally(() => {
        plain.letGo();
        this.#flight = undefined;
      });
    // read ahead, nobody may be waiting: a failure is for whoever asks, who then tries again
    flight.catch(() => {});
    return flight;
  }

  #replaceBlock(block: HeldBlock): void {
    const before = this.#heldBytes;
    this.#block?.replace();
    this.#block = block;
    const { meter } = this.#rules;
    if (this.#pinned) meter.pinnedBytes += this.#heldBytes - before;
    if (this.#shelved > 0) meter.shelvedBytes += this.#heldBytes - before;
  }
}
