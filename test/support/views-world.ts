import assert from 'node:assert/strict';
import { constants, gunzipSync, inflateRawSync } from 'node:zlib';
import { parseDuration } from '../../src/dataset/decisions/duration.ts';
import { ENFORCED } from '../../src/dataset/decisions/filter.ts';
import { Ledger } from '../../src/dataset/decisions/ledger.ts';
import { SmallCopy } from '../../src/dataset/decisions/small.ts';
import type { Copy, CopyPayload, Decision, Filter } from '../../src/dataset/decisions/types.ts';
import { Views, type ViewsOptions } from '../../src/dataset/decisions/views.ts';
import {
  bodyOf,
  documentOf,
  endOf,
  type Expected,
  expectedDelta,
  expectedFull,
  type Shown,
  unpadded,
  Wall,
} from './views-kit.ts';

const PLAIN_GRANULARITY_MS = 1000;
const GZIP_GRANULARITY_MS = 5000;
/** Nothing is held back, and no tombstone is forgotten: then what is in the rows is what an answer must say. */
const PLAIN = { refreshMarginMs: 1e15, keepExpiredMs: 1e15 };

export const FILTERS: readonly Filter[] = [
  ENFORCED,
  { ...ENFORCED, scopes: undefined, simulated: true },
  { ...ENFORCED, origins: ['CAPI'] },
  { ...ENFORCED, scenariosContaining: ['ssh'] },
  { ...ENFORCED, value: '192.0.2.1' },
  { ...ENFORCED, scopes: undefined, type: 'captcha', scenariosNotContaining: ['ssh'] },
];

type Kind = 'full' | 'delta';
/** One of the decisions that came before, with another end. */
export interface Again {
  readonly which: number;
  readonly untilMs: number;
}

/** Decisions that came, so that they can come again. */
export class History {
  readonly #came: Decision[] = [];

  /** What comes now. Ends are told from now on. */
  next(added: readonly Decision[], again: readonly Again[], nowMs: number): Decision[] {
    const known = this.#came.length;
    const renewed = known === 0 ? [] : again.map(({ which, untilMs }) => ({ ...this.#came[which % known], untilMs }));
    this.#came.push(...added);
    return [...added, ...(renewed as Decision[])].map((each) => ({ ...each, untilMs: nowMs + each.untilMs }));
  }
}

export type Command =
  | {
      readonly act: 'commit';
      readonly added: readonly Decision[];
      readonly again: readonly Again[];
      readonly removedIds: readonly number[];
    }
  | { readonly act: 'time'; readonly byMs: number; readonly tick: boolean }
  | {
      readonly act: 'open';
      readonly what: number;
      readonly kind: Kind;
      readonly dedup: boolean;
      readonly gzip: boolean;
    }
  | { readonly act: 'step'; readonly which: number; readonly bytes: number }
  | { readonly act: 'leave'; readonly which: number };

interface Item {
  readonly untilMs: number;
  readonly text: string;
}

/** A reader on its way, and what it must get. */
class Reader {
  readonly copy: Copy;
  readonly payload: CopyPayload;
  readonly #gzip: boolean;
  readonly #fresh: readonly Item[];
  readonly #gone: readonly Item[];
  readonly #wire: Buffer[] = [];
  readonly #durations: { readonly leftMs: number; readonly atMs: number }[] = [];
  readonly #small: boolean;
  readonly #openedAtMs: number;
  #given: readonly Uint8Array[] = [];
  #asGiven: readonly Buffer[] = [];
  over = false;

  constructor(ledger: Ledger, copy: Copy, o: { gzip: boolean; expected: Expected; openedAtMs: number }) {
    const item = (row: number): Item => ({ untilMs: ledger.rows.untilMs[row] as number, text: ledger.rows.text(row) });
    this.copy = copy;
    this.#gzip = o.gzip;
    this.#fresh = o.expected.fresh.map(item);
    this.#gone = o.expected.gone.map(item);
    this.payload = copy.payload(o.gzip ? 'gzip' : 'identity');
    this.#small = copy instanceof SmallCopy;
    this.#openedAtMs = o.openedAtMs;
    assert.equal(copy.offset, ledger.offset);
    assert.deepEqual([copy.added, copy.deleted], [this.#fresh.length, this.#gone.length]);
  }

  /** What was given must be as it was, until more is asked for. */
  check(): void {
    this.#given.forEach((piece, at) => assert.ok(this.#asGiven[at]?.equals(piece), 'what was given out has changed'));
  }

  async step(wall: Wall, bytes: number): Promise<void> {
    this.check();
    const group = await this.payload.next(bytes);
    this.#given = group ?? [];
    this.#asGiven = this.#given.map((piece) => Buffer.from(piece));
    this.#wire.push(...this.#asGiven);
    // a small answer is made when its payload is: its length is settled then
    for (const piece of this.#asGiven) this.#note(piece, this.#small ? this.#openedAtMs : wall.ms);
    if (group === undefined) this.#end();
  }

  /** Each piece holds whole items, so each duration was given out at this moment. */
  #note(piece: Buffer, atMs: number): void {
    for (const [, duration = ''] of this.#textOf(piece).matchAll(/"duration":"([^"]*)"/g)) {
      this.#durations.push({ leftMs: parseDuration(duration) ?? Number.NaN, atMs });
    }
  }

  #textOf(piece: Buffer): string {
    if (!this.#gzip || piece.length === 10) return this.#gzip ? '' : piece.toString();
    if (piece[0] === 0x1f && piece[1] === 0x8b) return gunzipSync(piece).toString();
    return inflateRawSync(piece, { finishFlush: constants.Z_SYNC_FLUSH }).toString();
  }

  #end(): void {
    this.over = true;
    const wire = Buffer.concat(this.#wire);
    const body = (this.#gzip ? gunzipSync(wire) : wire).toString();
    if (!this.#gzip) assert.equal(this.payload.bytes, wire.length);
    if (!this.#small) assert.equal(Buffer.byteLength(body), this.copy.bytes);
    const bare = unpadded(body).replaceAll(/\{"duration":"[^"]*"/g, '{"duration":""');
    const items = (list: readonly Item[]): string => list.map(({ text }) => `{"duration":""${text}`).join(',');
    assert.equal(bare, `{"new": [${items(this.#fresh)}], "deleted": [${items(this.#gone)}]}`);
    documentOf(body);
    this.#checkDurations();
    this.leave();
  }

  /** Never early, and late by no more than the granularity and the rounding. */
  #checkDurations(): void {
    const lateMsMax = (this.#gzip ? GZIP_GRANULARITY_MS : PLAIN_GRANULARITY_MS) + 1000;
    assert.equal(this.#durations.length, this.#fresh.length + this.#gone.length);
    this.#durations.forEach(({ leftMs, atMs }, at) => {
      const over = at >= this.#fresh.length;
      const { untilMs } = (over ? this.#gone[at - this.#fresh.length] : this.#fresh[at]) as Item;
      const exactMs = over ? Math.min(0, untilMs - atMs) : Math.max(1000, untilMs - atMs);
      assert.ok(leftMs >= exactMs, `early: ${leftMs} of ${exactMs}`);
      assert.ok(leftMs < exactMs + lateMsMax, `late: ${leftMs} of ${exactMs}`);
    });
  }

  leave(): void {
    this.over = true;
    this.payload.release();
    this.copy.release();
  }
}

/** Everything that a test needs to follow commands. */
export class World {
  readonly wall: Wall = new Wall();
  readonly ledger: Ledger;
  readonly views: Views;
  readonly readers: Reader[] = [];
  readonly #offsets: number[] = [0];
  readonly #history = new History();

  constructor(o: Partial<ViewsOptions>) {
    this.wall.ms = 10_000;
    this.ledger = new Ledger(PLAIN);
    this.views = new Views(this.ledger, { wallNow: this.wall.now, ...o });
  }

  async run(each: Command): Promise<void> {
    for (const reader of this.readers) reader.check();
    if (each.act === 'commit') await this.#commit(each);
    else if (each.act === 'time') await this.#time(each.byMs, each.tick);
    else if (each.act === 'open') await this.#open(each);
    else if (this.readers.length > 0) {
      const reader = this.readers[each.which % this.readers.length] as Reader;
      if (each.act === 'step') await reader.step(this.wall, each.bytes);
      else reader.leave();
      if (reader.over) this.readers.splice(this.readers.indexOf(reader), 1);
    }
    assert.ok(this.views.pinnedBytes >= 0);
  }

  async end(): Promise<void> {
    for (const reader of this.readers) while (!reader.over) await reader.step(this.wall, 65_536);
  }

  async #commit({ added, again, removedIds }: Extract<Command, { act: 'commit' }>): Promise<void> {
    const nowMs = this.wall.ms;
    const came = this.#history.next(added, again, nowMs);
    await this.ledger.patch(0, { added: came, removedIds }, { nowMs, toleranceMs: 0 });
    this.#offsets.push(this.ledger.offset);
  }

  async #time(byMs: number, tick: boolean): Promise<void> {
    this.wall.ms = Math.max(0, this.wall.ms + byMs);
    if (tick) await this.ledger.tick(this.wall.ms);
    this.#offsets.push(this.ledger.offset);
  }

  async #open({ what, kind, dedup, gzip }: Extract<Command, { act: 'open' }>): Promise<void> {
    const filter = FILTERS[what] as Filter;
    const { ledger, views } = this;
    const froms = this.#offsets.filter((offset) => offset >= ledger.reach);
    const from = kind === 'full' ? undefined : froms[Math.floor(froms.length / 2)];
    const copy = await (from === undefined ? views.full(filter, { dedup }) : views.delta(filter, { dedup, from }));
    const expected =
      from === undefined ? expectedFull(ledger, filter, dedup) : expectedDelta(ledger, filter, { dedup, from });
    const empty = from !== undefined && views.isEmpty(filter, from);
    if (empty) assert.deepEqual(expected, { fresh: [], gone: [] });
    this.readers.push(new Reader(ledger, copy, { gzip, expected, openedAtMs: this.wall.ms }));
  }
}

/** A bouncer that keeps what it was told by scope, type and value until it ends, and does deletions first. */
export class Bouncer {
  readonly filter: Filter;
  readonly dedup: boolean;
  readonly ends: Map<string, number> = new Map();
  cursor: number | undefined;

  constructor(filter: Filter, dedup: boolean) {
    this.filter = filter;
    this.dedup = dedup;
  }

  async poll(ledger: Ledger, views: Views, wall: Wall): Promise<void> {
    const { filter, dedup, cursor } = this;
    const isFull = cursor === undefined || cursor < ledger.reach;
    const copy = await (isFull ? views.full(filter, { dedup }) : views.delta(filter, { dedup, from: cursor }));
    const document = documentOf(await bodyOf(copy));
    copy.release();
    const key = (item: Shown): string => `${item.scope} ${item.type} ${item.value}`;
    const told = new Set(document.new.map(key));
    for (const item of document.deleted) {
      assert.ok(!told.has(key(item)), `in both arrays: ${key(item)}`);
      this.ends.delete(key(item));
    }
    for (const item of document.new) {
      const end = endOf(item, wall.ms);
      // without dedup a group is told by several rows: the longest counts
      const known = dedup ? 0 : (this.ends.get(key(item)) ?? 0);
      this.ends.set(key(item), Math.max(known, end));
    }
    for (const [group, end] of this.ends) if (end <= wall.ms) this.ends.delete(group);
    this.cursor = copy.offset;
  }
}
