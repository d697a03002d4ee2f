import { type Clock, systemClock } from '../../kernel/index.ts';
import { isBound, isNarrow, restOf, visitGroups } from './candidates.ts';
import { type CopyRules, PagedCopy } from './copy.ts';
import { findDelta, makeEdition, smallAnswer } from './delta.ts';
import { Edition } from './edition.ts';
import { filterKey, matcherOf } from './filter.ts';
import { Finder } from './find.ts';
import { advance, makeFull, type Making } from './full.ts';
import type { Ledger } from './ledger.ts';
import { makeList, type Part } from './list.ts';
import { Memo } from './memo.ts';
import { PAGE_BYTES } from './page-builder.ts';
import type { PageRules } from './page.ts';
import { type Made, Shelf } from './shelf.ts';
import { SmallAnswer, SmallCopy } from './small.ts';
import { GroupReader, inOrder, type Matches, rowsOf } from './survivors.ts';
import type { Copy, Filter } from './types.ts';
import { doInSlices, doNow, told, type Work } from './work.ts';

/** How views are kept. */
export interface ViewsOptions {
  /** Unix time in milliseconds. */
  readonly wallNow: () => number;
  /** How long a compressed page is given out, in milliseconds. Default 5,000. */
  readonly granularityMs?: number;
  /** The same of a page that is not compressed. Default 1,000. */
  readonly identityGranularityMs?: number;
  /** Of zlib. Default 6. */
  readonly gzipLevel?: number;
  /** How many items a page holds at most. Default: as many as fit in 60 KiB. */
  readonly pageItemsMax?: number;
  /** After how long without a request pages are dropped. Default 30 s. */
  readonly idleMs?: number;
  /** How many kinds of answers have pages at the same time. Default 16. */
  readonly viewsMax?: number;
  /**
   * How many bytes of pages are kept for whoever asks next; one answer is, whatever its size. Default 256 MiB: some ten
   * answers of 100,000 decisions, compressed and not.
   */
  readonly shelfBytesMax?: number;
  /** A delta, list or bound answer below this is made for the moment, without pages. Default 256 KiB. */
  readonly smallBytesMax?: number;
  /** How many log entries are looked at within a call; more are looked at in slices. Default 2,048, about a millisecond. */
  readonly entriesAtOnceMax?: number;
  readonly clock?: Clock;
}

/** What is asked for, beside the filter. */
export interface FullOptions {
  readonly dedup: boolean;
}

/** A delta: `from` is the cursor. */
export interface DeltaOptions extends FullOptions {
  readonly from: number;
}

const ENTRIES_AT_ONCE_MAX = 2048;
const SMALL_BYTES_MAX = 256 * 1024;
/** So many to say that a delta is empty: a few microseconds. */
const ENTRIES_IN_PASSING = 64;
/** So many tombstones of an edition are looked at within a call. */
const GONE_AT_ONCE = 50_000;
/** A view of which more than an eighth changed is made anew. */
const CHANGED_SHARE = 8;
const CHANGED_MIN = 512;
const SHELF_BYTES_MAX = 256 * 1024 * 1024;
/** Set back further than this, the wall clock makes durations longer than pages have room for. */
const SET_BACK_MS_MAX = 600_000;

/**
 * What bouncers get of a ledger: whole copies, deltas, lists and look-ups, each for any filter.
 *
 * ```
 *  full, large delta, list ─► shelf: editions, made once, of shared pages ─► copy ─► payload ─► delivery
 *  small delta             ─► memo: one text, for a second
 *  find                    ─► index, row by row
 * ```
 *
 * @example
 * const ledger = new Ledger();
 * const views = new Views(ledger, { wallNow: () => 0 });
 * const copy = await views.full(ENFORCED, { dedup: true });
 * const payload = copy.payload('identity');
 * for (let group = await payload.next(); group !== undefined; group = await payload.next()) {
 *   console.log(Buffer.concat(group).toString()); // {"new": [], "deleted": []}
 * }
 * payload.release();
 * copy.release();
 */
export class Views {
  readonly #ledger: Ledger;
  readonly #finder: Finder;
  readonly #shelf: Shelf;
  readonly #memo = new Memo();
  readonly #filterKeys = new WeakMap<Filter, string>();
  readonly #matchers = new WeakMap<Filter, Matches>();
  readonly #meter = { pinnedBytes: 0, shelvedBytes: 0, builtBytes: 0 };
  readonly #pageRules: PageRules;
  readonly #copyRules: CopyRules;
  readonly #pages: { readonly fullBytes: number; readonly fullItems: number };
  readonly #smallBytesMax: number;
  readonly #entriesAtOnceMax: number;

  constructor(ledger: Ledger, o: ViewsOptions) {
    this.#ledger = ledger;
    this.#finder = new Finder(ledger);
    const gzipGranularityMs = o.granularityMs ?? 5000;
    this.#copyRules = { wallNow: o.wallNow, gzipGranularityMs };
    this.#pageRules = {
      meter: this.#meter,
      granularityMs: o.identityGranularityMs ?? 1000,
      gzipGranularityMs,
      gzipLevel: o.gzipLevel ?? 6,
    };
    this.#pages = { fullBytes: PAGE_BYTES, fullItems: o.pageItemsMax ?? Number.POSITIVE_INFINITY };
    this.#smallBytesMax = o.smallBytesMax ?? SMALL_BYTES_MAX;
    this.#entriesAtOnceMax = o.entriesAtOnceMax ?? ENTRIES_AT_ONCE_MAX;
    const clock = o.clock ?? systemClock;
    this.#shelf = new Shelf({
      clock,
      idleMs: o.idleMs ?? 30_000,
      placesMax: o.viewsMax ?? 16,
      bytesMax: o.shelfBytesMax ?? SHELF_BYTES_MAX,
      bytes: () => this.#meter.shelvedBytes,
    });
  }

  /** Bytes of pages that nobody is given any more, and that only copies and deliveries keep alive. */
  get pinnedBytes(): number {
    return this.#meter.pinnedBytes;
  }

  /** Bytes of pages that are kept for whoever asks next. */
  get shelvedBytes(): number {
    return this.#meter.shelvedBytes;
  }

  /** Kinds of answers that have pages now. */
  get size(): number {
    return this.#shelf.size;
  }

  /**
   * All that a filter lets through: `{"new": [...], "deleted": [...]}`. Requests for the same meanwhile share the work, and a
   * later one only pays for what changed.
   */
  async full(filter: Filter, o: FullOptions): Promise<Copy> {
    const key = this.#key(`full ${o.dedup}`, filter);
    const ready = this.#ready(key) ?? this.#advanced(key, filter, o);
    return ready ?? this.#shelf.fly(key, () => this.#make(key, () => this.#fullWork(key, filter, o)));
  }

  /**
   * What a filter lets through that was touched after the cursor. At once when the log is short from there; a cursor that the
   * ledger cannot answer, from before its reach or from another ledger, gets all.
   */
  delta(filter: Filter, o: DeltaOptions): Copy | Promise<Copy> {
    const { offset, reach } = this.#ledger;
    if (o.from === offset) return this.#emptyDelta();
    if (o.from < reach || o.from > offset) return this.full(filter, o);
    const key = this.#key(`delta ${o.dedup} ${o.from}`, filter);
    const ready = this.#ready(key);
    if (ready !== undefined) return ready;
    if (this.#isShort(filter, o.from))
      return this.#copyOf(this.#keep(key, doNow(told(this.#deltaWork(filter, o), this.#meter))));
    return this.#shelf.fly(key, () => this.#make(key, () => this.#deltaWork(filter, o)));
  }

  /** Whether a delta from there is sure to be empty. Not knowing, which takes a look at a longer log, it says no. */
  isEmpty(filter: Filter, from: number): boolean {
    const { offset, reach, log } = this.#ledger;
    if (from === offset) return true;
    if (from < reach || from > offset || this.#ledger.entriesSince(from) > ENTRIES_IN_PASSING) return false;
    const matches = this.#matcherOf(filter);
    let seen = false;
    log.eachSince(from, (row) => {
      seen ||= matches(row);
    });
    return !seen;
  }

  /** The decisions for one value, or for one address or network, that hold now: a JSON array, or `null`. */
  find(filter: Filter): string {
    return this.#finder.find(filter, this.#copyRules.wallNow());
  }

  /** All decisions that a filter lets through and that hold now, or a part of them: `[...]`, or `null`. */
  async list(filter: Filter, part: Part = {}): Promise<Copy> {
    const key = this.#key(`list ${part.limit} ${part.offset} ${part.idGt}`, filter);
    return this.#ready(key) ?? this.#shelf.fly(key, () => this.#make(key, () => this.#listWork(filter, part)));
  }

  /** Clients repeat themselves: whoever keeps the object of a filter does not have its key made again. */
  #key(kind: string, filter: Filter): string {
    let key = this.#filterKeys.get(filter);
    if (key === undefined) {
      key = filterKey(filter);
      this.#filterKeys.set(filter, key);
    }
    return `${kind} ${key}`;
  }

  #matcherOf(filter: Filter): Matches {
    let matches = this.#matchers.get(filter);
    if (matches === undefined) {
      matches = matcherOf(filter, this.#ledger.rows);
      this.#matchers.set(filter, matches);
    }
    return matches;
  }

  /** A copy of what is there, if it is of now. */
  #ready(key: string): Copy | undefined {
    const small = this.#memo.get(key, this.#ledger.offset);
    if (small !== undefined) return this.#copyOf(small);
    const edition = this.#shelf.get(key);
    return edition?.offset === this.#ledger.offset && this.#hasRoom(edition) ? this.#copyOf(edition) : undefined;
  }

  /** The same brought up to date within the call, when little has changed. */
  #advanced(key: string, filter: Filter, o: FullOptions): Copy | undefined {
    const before = this.#shelf.get(key);
    if (before === undefined || !this.#isNear(before)) return undefined;
    if (this.#ledger.entriesSince(before.offset) > this.#entriesAtOnceMax || before.deleted > GONE_AT_ONCE)
      return undefined;
    const making = this.#making(filter, o.dedup);
    return this.#copyOf(
      this.#keep(key, doNow(told(advance(before, making, this.#touchedSince(before.offset)), this.#meter))),
    );
  }

  #fullWork(key: string, filter: Filter, o: FullOptions): Work<Edition | SmallAnswer> {
    const before = this.#shelf.get(key);
    const making = this.#making(filter, o.dedup);
    if (isBound(filter)) return this.#boundWork(filter, o);
    if (before === undefined || !this.#isNear(before)) return makeFull(making);
    return advance(before, making, this.#touchedSince(before.offset));
  }

  /** A full answer is a delta from the beginning. */
  #boundWork(filter: Filter, { dedup }: FullOptions): Work<Edition | SmallAnswer> {
    return this.#deltaFrom(filter, this.#making(restOf(filter), dedup), 0, this.#groupsOf(filter));
  }

  #deltaWork(filter: Filter, { dedup, from }: DeltaOptions): Work<Edition | SmallAnswer> {
    if (!isNarrow(filter))
      return this.#deltaFrom(filter, this.#making(filter, dedup, from), from, this.#touchedSince(from));
    return this.#deltaFrom(filter, this.#making(restOf(filter), dedup, from), from, this.#groupsOf(filter));
  }

  *#deltaFrom(filter: Filter, making: Making, from: number, groups: Iterable<number>): Work<Edition | SmallAnswer> {
    const found = yield* findDelta(making, from, groups);
    if (found.bytes < this.#smallBytesMax) return yield* smallAnswer(making, found);
    return yield* makeEdition(making, found, this.#donor(filter, making));
  }

  /** The largest answer to the same question, from wherever, that is of now. */
  #donor(filter: Filter, { dedup, groups }: Making): Edition | undefined {
    const isSame = (key: string): boolean =>
      (key.startsWith(`full ${dedup} `) || key.startsWith(`delta ${dedup} `)) && key.endsWith(this.#key('', filter));
    return this.#shelf.largest((key, { offset }) => offset === groups.offset && isSame(key));
  }

  *#listWork(filter: Filter, part: Part): Work<Edition | SmallAnswer> {
    const { rows } = this.#ledger;
    const smallBytesMax = this.#smallBytesMax;
    if (!isBound(filter)) return yield* makeList(this.#making(filter, false), rows.order(), { ...part, smallBytesMax });
    const order = yield* inOrder(rows, rowsOf(rows, this.#groupsOf(filter)));
    return yield* makeList(this.#making(restOf(filter), false), order, { ...part, smallBytesMax });
  }

  /** Does long work while the ledger stands still, and keeps the answer. */
  #make(key: string, work: () => Work<Edition | SmallAnswer>): Promise<Made> {
    return this.#ledger.exclusive(async () => {
      const answer = this.#keep(key, await doInSlices(told(work(), this.#meter)));
      const copy = this.#copyOf(answer);
      return { copy: () => this.#copyOf(answer), release: () => copy.release() };
    });
  }

  #keep(key: string, answer: Edition | SmallAnswer): Edition | SmallAnswer {
    if (!(answer instanceof Edition)) {
      this.#memo.put(key, answer);
      return answer;
    }
    // only full copies are brought up to date; what else is of another offset is never asked for again
    this.#shelf.drop((other, { offset }) => !other.startsWith('full') && offset !== answer.offset);
    this.#shelf.put(key, answer);
    return answer;
  }

  #copyOf(answer: Edition | SmallAnswer): Copy {
    return answer instanceof Edition
      ? new PagedCopy(answer, this.#copyRules)
      : new SmallCopy(answer, this.#copyRules.wallNow);
  }

  #emptyDelta(): Copy {
    const { offset } = this.#ledger;
    const known = this.#memo.get('', offset);
    const empty = known ?? new SmallAnswer({ offset, fresh: undefined, gone: undefined, list: false });
    if (known === undefined) this.#memo.put('', empty);
    return this.#copyOf(empty);
  }

  #isShort(filter: Filter, from: number): boolean {
    return isNarrow(filter) || this.#ledger.entriesSince(from) <= this.#entriesAtOnceMax;
  }

  /** Whether an edition can be brought up to date, and it is worth it. */
  #isNear(edition: Edition): boolean {
    const { offset, reach } = this.#ledger;
    if (!this.#hasRoom(edition) || edition.offset < reach || edition.offset > offset) return false;
    const count = edition.added + edition.deleted;
    return this.#ledger.entriesSince(edition.offset) <= Math.max(CHANGED_MIN, count / CHANGED_SHARE);
  }

  #hasRoom(edition: Edition): boolean {
    return this.#copyRules.wallNow() >= edition.builtAtMs - SET_BACK_MS_MAX;
  }

  #making(filter: Filter, dedup: boolean, from = 0): Making {
    const { rows, offset } = this.#ledger;
    const groups = new GroupReader(rows, this.#matcherOf(filter), { offset, from });
    return { groups, dedup, nowMs: this.#copyRules.wallNow(), pages: this.#pages, rules: this.#pageRules };
  }

  #touchedSince(offset: number): Iterable<number> {
    const { rows, log } = this.#ledger;
    const { group, groupHead } = rows;
    if (this.#ledger.entriesSince(offset) <= this.#entriesAtOnceMax) {
      const groups = new Set<number>();
      log.eachSince(offset, (row) => groups.add(group[row]!));
      return groups;
    }
    // all of it is one step: a set of 500,000 would take a tenth of a second
    const isFound = new Uint8Array(groupHead.length);
    const found: number[] = [];
    log.eachSince(offset, (row) => {
      if (isFound[group[row]!] === 0) found.push(group[row]!);
      isFound[group[row]!] = 1;
    });
    return found;
  }

  #groupsOf(filter: Filter): readonly number[] {
    const groups: number[] = [];
    visitGroups(this.#ledger, filter, (group) => groups.push(group));
    return groups;
  }
}
