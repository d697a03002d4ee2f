import { assert } from '../../kernel/index.ts';
import { type GzipBlock, storedBlock } from '../gzip.ts';
import { Page } from './page.ts';

/** Text between pages, in both encodings. */
class Fixed {
  readonly bytes: Uint8Array;
  readonly block: GzipBlock;

  constructor(text: string) {
    this.bytes = Buffer.from(text);
    this.block = storedBlock(this.bytes);
  }
}

/** What an answer is written from, in order. */
type Step = Page | Fixed;

const COMMA = new Fixed(',');
const NEW = new Fixed('{"new": [');
const DELETED = new Fixed('], "deleted": [');
const END = new Fixed(']}');
const LIST = new Fixed('[');
const LIST_END = new Fixed(']');
/** A live answer without a decision: lua's bouncer knows no other. */
const NOTHING = new Fixed('null');

/** What an edition is made of. */
export interface EditionParts {
  readonly offset: number;
  /** The pages of `new`, or of a list. */
  readonly fresh: readonly Page[];
  /** The pages of `deleted`; undefined: the answer is a list. */
  readonly gone: readonly Page[] | undefined;
  /** When the widths of its durations were chosen, Unix time in milliseconds. */
  readonly builtAtMs: number;
}

/**
 * An answer at one offset: pages in order, and what stands between them.
 *
 * ```
 *  edition 7:  {"new": [ page A , page B , page C ], "deleted": [ page D ]}
 *                          |        x        |                      |
 *  edition 8:  {"new": [ page A , page B', page C ], "deleted": [ page D ]}     what did not change is shared
 * ```
 *
 * The shelf has the newest, for whoever comes; an older one lives for as long as copies of it do.
 */
export class Edition {
  readonly offset: number;
  readonly fresh: readonly Page[];
  readonly gone: readonly Page[];
  readonly builtAtMs: number;
  readonly steps: readonly Step[];
  /** Items in `new`, or in the list, and in `deleted`. */
  readonly added: number;
  readonly deleted: number;
  /** Without compression. */
  readonly bytes: number;
  #shelved = false;
  #copies = 0;

  constructor({ offset, fresh, gone, builtAtMs }: EditionParts) {
    this.offset = offset;
    this.fresh = fresh;
    this.gone = gone ?? [];
    this.builtAtMs = builtAtMs;
    this.steps = gone === undefined ? listSteps(fresh) : documentSteps(fresh, gone);
    this.added = countOf(this.fresh);
    this.deleted = countOf(this.gone);
    this.bytes = this.steps.reduce((sum, step) => sum + (step instanceof Page ? step.length : step.bytes.length), 0);
  }

  /** It is the one that is given out from now on. */
  shelve(): void {
    assert(!this.#shelved && this.#copies === 0, 'an edition is shelved once, when it is new');
    this.#shelved = true;
    for (const page of this.#pages()) page.join(true);
  }

  /** It no longer is. Shelve what takes its place before, or the pages they share seem to go for a moment. */
  unshelve(): void {
    assert(this.#shelved, 'an edition leaves the shelf once');
    this.#shelved = false;
    for (const page of this.#pages()) {
      if (this.#copies > 0) page.unshelve();
      else page.leave(true);
    }
  }

  retain(): void {
    assert(this.#shelved || this.#copies > 0, 'an edition that nobody has cannot be copied');
    this.#copies++;
  }

  release(): void {
    assert(this.#copies > 0, 'a copy is released once', this.#copies);
    this.#copies--;
    if (this.#copies > 0 || this.#shelved) return;
    for (const page of this.#pages()) page.leave(false);
  }

  *#pages(): Iterable<Page> {
    yield* this.fresh;
    yield* this.gone;
  }
}

function documentSteps(fresh: readonly Page[], gone: readonly Page[]): Step[] {
  return [NEW, ...joined(fresh), DELETED, ...joined(gone), END];
}

function listSteps(pages: readonly Page[]): Step[] {
  return pages.length === 0 ? [NOTHING] : [LIST, ...joined(pages), LIST_END];
}

function joined(pages: readonly Page[]): Step[] {
  return pages.flatMap((page, at) => (at === 0 ? [page] : [COMMA, page]));
}

function countOf(pages: readonly Page[]): number {
  return pages.reduce((sum, page) => sum + page.count, 0);
}
