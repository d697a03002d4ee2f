import { randomUUID } from 'node:crypto';
import type { Change, Item, Tombstone } from '../dataset/index.ts';
import { HeadgateError, Slices } from '../kernel/index.ts';
import { append, clear, type FlagKeys, gate, puts, shut, sweeps } from './redis-batches.ts';
import type { Command, RedisClient } from './redis-client.ts';
import { ORDER_LENGTH_MAX, type OrderBook, type OrderEntry } from './redis-order.ts';
import type { Plan, Progress } from './redis-progress.ts';
import { catchUp, type Row, survey, textOfKeys } from './redis-read.ts';

const KINDS = ['flags', 'segments'];
/** Somebody else was first each time. */
const TRIES_MAX = 20;
/** Up to here commands go out at once; beyond, one by one on a connection of their own, so that memory is bounded. */
const AT_ONCE_BYTES_MAX = 4 * 1024 * 1024;
/** An entry that touches more leads over nothing: a full copy serves a returning client better. */
const KEYS_PER_ENTRY_MAX = 20_000;

type Plans = Exclude<Plan, { readonly kind: 'nothing' | 'survey' }>;
/** What a transaction writes between its gate and its end. */
interface Work {
  readonly kind: 'advance' | 'bury' | 'replace' | 'fill';
  readonly commands: Iterable<Command>;
  readonly changes: readonly Change[];
}

/** A new place in the order. */
interface Place {
  readonly epoch: string;
  readonly entry: OrderEntry;
}

/** Takes Redis to where the data set is, if it is not there or further already. */
export class RedisWriter {
  readonly #client: RedisClient;
  readonly #keys: FlagKeys;
  readonly #book: OrderBook;
  readonly #progress: Progress;

  constructor(client: RedisClient, keys: FlagKeys, book: OrderBook, progress: Progress) {
    this.#client = client;
    this.#keys = keys;
    this.#book = book;
    this.#progress = progress;
  }

  /**
   * Resolves when Redis holds what was noted until now, or something newer. The book must be up to date.
   *
   * @param items - everything as it is now
   */
  async write(items: () => Iterable<Item>, tombstones: () => Iterable<Tombstone>): Promise<void> {
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const { at, digest, clock } = this.#progress;
      const plan = this.#progress.plan(this.#book);
      if (plan.kind === 'nothing' || digest === undefined) return;
      const work =
        plan.kind === 'survey' ? await this.#surveyed(items(), tombstones(), plan.changes) : this.#work(plan, items);
      if (work === undefined) return;
      const place = work.kind === 'bury' ? undefined : this.#placeOf(work, { digest, clock });
      if (await this.#transact(work, place)) {
        this.#progress.settle(at, place?.entry.place);
        if (place !== undefined) this.#enter(place);
        return;
      }
      if (await catchUp(this.#client, this.#keys, this.#book)) this.#progress.lose();
    }
    throw new HeadgateError(
      'HG_STORE',
      `Cannot write flags to Redis at ${this.#client.address}: nobody else may write each time, got ${TRIES_MAX} tries`,
    );
  }

  #work({ kind, changes }: Plans, items: () => Iterable<Item>): Work {
    const keys = this.#keys;
    if (kind !== 'replace')
      return { kind, changes, commands: puts(keys, kind === 'bury' ? 'higher' : 'newer', changes) };
    const deleted = changes.filter((change) => change.item === undefined);
    function* commands(): Generator<Command> {
      for (const each of KINDS) yield clear(keys, each);
      yield* puts(keys, 'all', items());
      yield* puts(keys, 'all', deleted);
    }
    return { kind, changes, commands: commands() };
  }

  /**
   * Compares the versions of everything. When nothing in Redis is above ours, ours are the newer data and fill it; else
   * nothing is written. An item that is only there was deleted while we were away, or made later than
   * what we hold: it goes only if something of ours is newer for certain. What Redis does not have at all is no sign of
   * that: it may have been deleted by a writer that left no grave.
   */
  async #surveyed(
    items: Iterable<Item>,
    tombstones: Iterable<Tombstone>,
    changes: readonly Change[],
  ): Promise<Work | undefined> {
    const keys = this.#keys;
    const slices = new Slices();
    const ours = new Map<string, Change>();
    const take = (change: Change): void => void ours.set(`${change.kind}\0${change.key}`, change);
    for (const { kind, key, version } of tombstones) take({ kind, key, version, item: undefined });
    for (const item of items) {
      take({ kind: item.kind, key: item.key, version: item.version, item });
      if (slices.due()) await slices.pause();
    }
    const seen = new Seen();
    const { graves } = seen;
    for (const kind of KINDS) {
      for await (const rows of survey(this.#client, keys.hash(kind))) {
        for (const row of rows) seen.take(kind, row, ours.get(`${kind}\0${row.key}`));
        if (slices.due()) await slices.pause();
      }
    }
    for (const change of changes) if (change.item === undefined) graves.push(change);
    const live = Array.from(ours.values()).filter(({ item }) => item !== undefined);
    if (seen.isAbove || (seen.strangers.size > 0 && !seen.isBelow)) return undefined;
    function* commands(): Generator<Command> {
      for (const [kind, rows] of seen.strangers) yield* sweeps(keys, kind, rows);
      yield* puts(keys, 'newer', live);
      yield* puts(keys, 'newer', graves);
    }
    return { kind: 'fill', changes, commands: commands() };
  }

  /** What comes next in the order. */
  #placeOf({ kind, changes }: Work, { digest, clock }: { digest: string; clock: number }): Place {
    const { epoch, newest, newestDigest } = this.#book;
    const isReset = kind !== 'advance' || changes.length > KEYS_PER_ENTRY_MAX;
    const touched = changes.map(({ kind: of, key, version, item }) => {
      return { kind: of, key, version, deleted: item === undefined };
    });
    const keys = isReset ? [] : touched;
    return {
      epoch: epoch === '' ? randomUUID() : epoch,
      entry: { place: newest + 1, digest, clock, before: newestDigest, isReset, keys },
    };
  }

  /** Nothing came between the gate and the end: what was appended need not be read back. */
  #enter({ epoch, entry }: Place): void {
    if (epoch !== this.#book.epoch) this.#book.begin(epoch);
    this.#book.take([entry]);
  }

  /** Carries the work out in one step. False when the order is not the one that the book knows. */
  async #transact(work: Work, place: Place | undefined): Promise<boolean> {
    const end =
      place === undefined
        ? shut(this.#keys)
        : append(this.#keys, {
            ...place.entry,
            epoch: place.epoch,
            keys: textOfKeys(place.entry.keys),
            lengthMax: ORDER_LENGTH_MAX,
            isWhole: work.kind !== 'advance',
          });
    const commands = this.#framed(work, end);
    const first: Command[] = [];
    let bytes = 0;
    let next = commands.next();
    for (; next.done !== true && bytes <= AT_ONCE_BYTES_MAX; next = commands.next()) {
      first.push(next.value);
      bytes += next.value.reduce<number>((sum, arg) => sum + (typeof arg === 'number' ? 8 : arg.length), 0);
    }
    const answers =
      next.done === true
        ? await this.#client.transaction(first)
        : await this.#client.duplicate().transaction(chained([...first, next.value], commands));
    return answers[0] === 1;
  }

  *#framed(work: Work, end: Command): Generator<Command, undefined> {
    const { epoch, newest, newestDigest } = this.#book;
    yield gate(this.#keys, { epoch, place: newest, digest: newestDigest });
    yield* work.commands;
    yield end;
    return undefined;
  }
}

/** What a survey has found. */
class Seen {
  /** Something in Redis is above ours. */
  isAbove = false;
  /** Something in Redis is below ours. */
  isBelow = false;
  /** Items that we know nothing of. */
  readonly strangers = new Map<string, Row[]>();
  /** Deletions of ours whose items are still there. */
  readonly graves: Change[] = [];

  take(kind: string, row: Row, mine: Change | undefined): void {
    if (mine === undefined) {
      if (row.deleted) return;
      const rows = this.strangers.get(kind) ?? [];
      rows.push(row);
      this.strangers.set(kind, rows);
      return;
    }
    const isGone = mine.item === undefined;
    // deleted is deleted: one that saw it by an item's absence does not know at which version
    if (isGone && row.deleted) return;
    if (row.version > mine.version) this.isAbove = true;
    else if (isGone) this.graves.push(mine);
    // what cannot be read says nothing
    if (row.version >= 0) this.isBelow ||= isGone || row.version < mine.version;
  }
}

function* chained(first: readonly Command[], rest: Iterable<Command>): Generator<Command> {
  yield* first;
  yield* rest;
}
