import { assert } from '../../kernel/index.ts';
import { crc32Combine } from '../crc32.ts';
import { gzipHeader, gzipTrailer } from '../gzip.ts';
import type { Edition } from './edition.ts';
import { type Held, HeldBlock } from './held.ts';
import { Page } from './page.ts';
import type { Copy, CopyPayload } from './types.ts';

/** About one write of a delivery. */
const GROUP_BYTES = 64 * 1024;
/** What may go along with a group that is large enough. */
const GROUP_BYTES_MORE = 4 * 1024;
/** How many pages are compressed ahead of the one that is waited for: the thread pool has four threads. */
const READ_AHEAD_PAGES = 3;
/** A page that took longer to compress than it may be old is compressed again, but not for ever. */
const TRIES_MAX = 3;

/** What copies need to know of their views. */
export interface CopyRules {
  /** Unix time in milliseconds. */
  readonly wallNow: () => number;
  /** How old a compressed page may be, in milliseconds. */
  readonly gzipGranularityMs: number;
}

/** A copy of an edition: independent of the ledger, and of the editions that come after it. */
export class PagedCopy implements Copy {
  readonly #edition: Edition;
  readonly #rules: CopyRules;
  #released = false;

  constructor(edition: Edition, rules: CopyRules) {
    this.#edition = edition;
    this.#rules = rules;
    edition.retain();
  }

  get offset(): number {
    return this.#edition.offset;
  }

  get added(): number {
    return this.#edition.added;
  }

  get deleted(): number {
    return this.#edition.deleted;
  }

  get bytes(): number {
    return this.#edition.bytes;
  }

  payload(encoding: 'identity' | 'gzip'): CopyPayload {
    assert(!this.#released, 'a copy that was released is not read');
    return encoding === 'identity'
      ? new PlainPayload(this.#edition, this.#rules)
      : new GzipPayload(this.#edition, this.#rules);
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#edition.release();
  }
}

/** A walk through an edition. It keeps the edition, and holds what it gave last until it is asked for more. */
abstract class Payload implements CopyPayload {
  abstract readonly bytes: number | undefined;
  protected readonly edition: Edition;
  protected readonly rules: CopyRules;
  protected at = 0;
  protected over = false;
  #held: Held[] = [];

  constructor(edition: Edition, rules: CopyRules) {
    this.edition = edition;
    this.rules = rules;
    edition.retain();
  }

  abstract next(bytesWanted?: number): ReturnType<CopyPayload['next']>;

  release(): void {
    this.letGo();
    if (this.over) return;
    this.over = true;
    this.edition.release();
  }

  protected holds(held: Held): void {
    this.#held.push(held);
  }

  protected letGo(): void {
    for (const held of this.#held) held.letGo();
    this.#held.length = 0;
  }
}

class PlainPayload extends Payload {
  get bytes(): number {
    return this.edition.bytes;
  }

  next(bytesWanted: number = GROUP_BYTES): readonly Uint8Array[] | undefined {
    this.letGo();
    if (this.over) return undefined;
    const nowMs = this.rules.wallNow();
    const group: Uint8Array[] = [];
    let bytes = 0;
    for (let step = this.edition.steps[this.at]; step !== undefined; step = this.edition.steps[this.at]) {
      const length = step instanceof Page ? step.length : step.bytes.length;
      if (bytes > 0 && bytes + length > bytesWanted + GROUP_BYTES_MORE) break;
      group.push(step instanceof Page ? this.#take(step, nowMs) : step.bytes);
      bytes += length;
      this.at++;
      if (bytes >= bytesWanted) break;
    }
    if (group.length > 0) return group;
    this.release();
    return undefined;
  }

  #take(page: Page, nowMs: number): Uint8Array {
    const held = page.take(nowMs);
    this.holds(held);
    return held.bytes;
  }
}

/**
 * The same as one gzip member, joined from blocks that each page has of its own. What was sent is summed up as it goes out:
 * the durations in it, and so its CRC-32, are not known before.
 */
class GzipPayload extends Payload {
  readonly bytes = undefined;
  #crc = 0;
  #length = 0;
  #framed: 'no' | 'begun' | 'ended' = 'no';
  /** The block of the page that comes next, once it was waited for. */
  #made: HeldBlock | undefined;

  next(bytesWanted: number = GROUP_BYTES): ReturnType<CopyPayload['next']> {
    this.letGo();
    if (this.over) return undefined;
    const group: Uint8Array[] = [];
    const waiting = this.#fill(group, bytesWanted);
    if (group.length > 0) return group;
    if (waiting !== undefined) return this.#wait(waiting, bytesWanted);
    this.release();
    return undefined;
  }

  /** Fills a group; answers what to wait for when a page is still being compressed. */
  #fill(group: Uint8Array[], bytesWanted: number): Promise<HeldBlock> | undefined {
    const nowMs = this.rules.wallNow();
    let bytes = 0;
    if (this.#framed === 'no') {
      this.#framed = 'begun';
      group.push(gzipHeader());
    }
    for (let step = this.edition.steps[this.at]; step !== undefined; step = this.edition.steps[this.at]) {
      if (bytes >= bytesWanted) return undefined;
      const block = step instanceof Page ? this.#blockOf(step, nowMs) : step.block;
      if (block instanceof Promise) return block;
      const piece = block instanceof HeldBlock ? block.bytes : block.block;
      if (bytes > 0 && bytes + piece.length > bytesWanted + GROUP_BYTES_MORE) return undefined;
      this.#made = undefined;
      if (block instanceof HeldBlock) {
        block.hold();
        this.holds(block);
      }
      this.#crc = crc32Combine(this.#crc, block.crc, block.length);
      this.#length += block.length;
      group.push(piece);
      bytes += piece.length;
      this.at++;
    }
    if (this.#framed === 'begun') {
      this.#framed = 'ended';
      group.push(gzipTrailer(this.#crc, this.#length));
    }
    return undefined;
  }

  #blockOf(page: Page, nowMs: number): HeldBlock | Promise<HeldBlock> {
    if (this.#made !== undefined) return this.#made;
    const block = page.block(nowMs);
    if (block instanceof Promise) this.#readAhead(nowMs);
    return block;
  }

  #readAhead(nowMs: number): void {
    let pages = 0;
    for (let at = this.at + 1; at < this.edition.steps.length && pages < READ_AHEAD_PAGES; at++) {
      const step = this.edition.steps[at];
      if (!(step instanceof Page)) continue;
      void step.block(nowMs);
      pages++;
    }
  }

  async #wait(first: Promise<HeldBlock>, bytesWanted: number): Promise<readonly Uint8Array[] | undefined> {
    const page = this.edition.steps[this.at] as Page;
    let block = await first;
    for (
      let tries = 1;
      tries < TRIES_MAX && !block.isFresh(this.rules.wallNow(), this.rules.gzipGranularityMs);
      tries++
    ) {
      block = await page.block(this.rules.wallNow());
    }
    if (this.over) return undefined;
    this.#made = block;
    return this.next(bytesWanted);
  }
}
