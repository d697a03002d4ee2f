import type { Item, KeptBatch, KeptKey, PendingWrite, Tombstone } from '../dataset/index.ts';
import { type Clock, HeadgateError, messageOf, type Timer } from '../kernel/index.ts';
import type { FlagKeep, KeptFlags } from './flags-keep.ts';
import { type FlagKeys, flagKeys } from './redis-batches.ts';
import type { RedisOptions } from './redis-client.ts';
import { RedisLink } from './redis-link.ts';
import { News } from './redis-news.ts';
import { type DigestOrder, OrderBook } from './redis-order.ts';
import { Progress } from './redis-progress.ts';
import { catchUp, readAll, type VendorData } from './redis-read.ts';
import { SAY } from './redis-scripts.ts';
import { RedisWriter } from './redis-writer.ts';

/** Settings of {@link openRedisFlags}. */
export interface RedisFlagsOptions extends RedisOptions {
  /** What the keys of this environment begin with, `launchdarkly` with the vendor. */
  readonly prefix: string;
  /** Connections that environments share; without it there are some of its own. */
  readonly link?: RedisLink;
}

/** How a store of flags does. */
export interface FlagStoreStatus {
  readonly state: 'VALID' | 'INTERRUPTED';
  /** Unix time in milliseconds. */
  readonly sinceMs: number;
  readonly database: 'redis' | 'dynamodb';
  /** Without user and password. */
  readonly dbServer?: string;
  readonly dbPrefix?: string;
  readonly dbTable?: string;
}

/** Flags in a Redis that several replicas, and SDKs in daemon mode, share. */
export interface RedisFlags extends FlagKeep {
  readonly order: DigestOrder;
  readonly status: FlagStoreStatus;
}

interface Said {
  readonly state: string | undefined;
  readonly savedMs: number;
}

const KINDS = ['flags', 'segments'];
/** How long a write may hold up those that wait for it. */
const PREPARE_MS_MAX = 2000;
/** How often to try again; at once when the connection is back. */
const RETRY_MS = 5000;
/** How often to look for news that were not heard, and whether the order is still there. */
const LOOK_MS = 10_000;
const READS_MAX = 3;
/** How long a source that tells a state which replicas have left is taken to lag; then it was rolled back. */
const LAG_MS_MAX = 30_000;

/**
 * Keeps the flags of one environment in Redis, in the layout of the vendor's relay and SDKs: they read what is written
 * here, and the other way round. Beside it, replicas share the order of the states that the data had.
 *
 * Redis is never taken back: an item is not replaced by a lower version, whoever writes, and a replica that is behind the
 * others writes nothing. The exception is a source that lowers versions itself: what it says is taken over by the replica
 * at the newest place. A prefix that held another environment must be emptied first: where its versions are higher, its
 * data pass for the newer ones.
 *
 * @example
 * const flags = openRedisFlags({ url: 'redis://127.0.0.1:1', prefix: 'production', clock: systemClock, connectTimeoutMs: 50 });
 * console.log(await flags.restore()); // undefined
 * console.log(flags.status.state); // INTERRUPTED
 * await flags.close();
 */
export function openRedisFlags(options: RedisFlagsOptions): RedisFlags {
  return new Flags(options);
}

class Flags implements RedisFlags {
  readonly #options: RedisFlagsOptions;
  readonly #clock: Clock;
  readonly #link: RedisLink;
  readonly #keys: FlagKeys;
  readonly #book = new OrderBook();
  readonly #progress = new Progress();
  readonly #writer: RedisWriter;
  readonly #stops: (() => void)[];
  readonly order: DigestOrder;
  #items: (() => Iterable<Item>) | undefined;
  #tombstones: () => Iterable<Tombstone> = () => [];
  #turn: Promise<unknown> = Promise.resolve();
  readonly #news = new News();
  /** The order as the listeners were told of it last. */
  #told = { newest: 0, epoch: '' };
  /** Each write waits until Redis has it, or something newer. */
  readonly #waiting = new Set<() => void>();
  /** The present run, if any, does what is asked for meanwhile too. */
  #run: Promise<void> | undefined;
  #isAsked = false;
  #retry: Timer | undefined;
  #nextLook: Timer | undefined;
  /** A look that has not begun: it sees whatever was written until now. */
  #looking: Promise<void> | undefined;
  readonly #looks = new Set<object>();
  #laggingSinceMs: number | undefined;
  #failure: HeadgateError | undefined;
  #sinceMs = Date.now();
  #said: Said | undefined;
  #saying: Promise<void> | undefined;
  #isClosed = false;

  constructor(options: RedisFlagsOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#link = options.link ?? new RedisLink(options);
    this.#keys = flagKeys(options.prefix);
    this.#writer = new RedisWriter(this.#link.client, this.#keys, this.#book, this.#progress);
    this.#stops = [
      this.#link.watch(this.#keys.order, (news) => {
        this.#news.hear(news);
        this.#kick();
      }),
      this.#link.client.onChange((isReady) => {
        this.#news.miss();
        if (isReady) this.#kick();
      }),
    ];
    const looks = this.#looks;
    const book = this.#book;
    this.order = {
      isNewer: (position, than) => this.#book.isNewer(position, than),
      look: () => this.#look(),
      get isLooking() {
        return looks.size > 0;
      },
      get isLagging() {
        return book.isLagging;
      },
      onAdvance: (listener) => this.#book.onAdvance(listener),
    };
    this.#lookLater();
  }

  get status(): FlagStoreStatus {
    return {
      state: this.#failure === undefined ? 'VALID' : 'INTERRUPTED',
      sinceMs: this.#sinceMs,
      database: 'redis',
      dbServer: this.#link.client.address,
      dbPrefix: this.#options.prefix,
    };
  }

  async restore(): Promise<KeptFlags | undefined> {
    try {
      return await this.#alone(() => this.#restore());
    } catch (thrown) {
      this.#fail(thrown);
      return undefined;
    }
  }

  async prepare(write: PendingWrite): Promise<void> {
    const isRolledBack = await this.#isRolledBack(write);
    const isLowered = !isRolledBack && write.result === 'reset' && this.#isLowered(write);
    this.#items = () => write.items();
    this.#tombstones = () => write.tombstones();
    this.#progress.note(write, isLowered);
    if (this.#isClosed) return;
    this.#kick();
    // nobody waits for a store that is known to fail
    if (this.#failure !== undefined) return;
    await new Promise<void>((resolve) => {
      const late = (): void => {
        this.#fail(refusal(this.#link, `it must take a write in ${PREPARE_MS_MAX} ms`, 'no answer yet'));
        resolve();
      };
      const timer = this.#clock.after(PREPARE_MS_MAX, late);
      this.#waiting.add(() => {
        timer.cancel();
        resolve();
      });
    });
  }

  /**
   * Refuses what a source tells that is behind the replicas: whoever follows this one would be taken back. That it was rolled
   * back, and does not lag, shows as it says so again and again.
   */
  async #isRolledBack({ isWhole, digest, result }: PendingWrite): Promise<boolean> {
    if (!isWhole || result === 'loaded') return false;
    await this.#look();
    if (!this.#book.isPast(digest)) {
      this.#laggingSinceMs = undefined;
      return false;
    }
    this.#laggingSinceMs ??= this.#clock.now();
    if (this.#clock.now() - this.#laggingSinceMs >= LAG_MS_MAX) return true;
    throw new HeadgateError(
      'HG_SOURCE',
      `Cannot take over flags under ${this.#options.prefix}: their source must not lag behind other replicas, got a state that they have left`,
    );
  }

  #isLowered({ changes }: PendingWrite): boolean {
    const versions = new Map<string, number>();
    for (const { kind, key, item } of changes) if (item !== undefined) versions.set(`${kind}\0${key}`, item.version);
    for (const { kind, key, version } of this.#items?.() ?? []) {
      if (version > (versions.get(`${kind}\0${key}`) ?? version)) return true;
    }
    return false;
  }

  committed(state: string | undefined): void {
    this.#said = { state, savedMs: Date.now() };
    // else the run that tries again does it
    if (this.#failure === undefined) this.#sayAside();
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const stop of this.#stops) stop();
    this.#retry?.cancel();
    this.#nextLook?.cancel();
    if (this.#failure === undefined && (this.#run ?? this.#saying) !== undefined) {
      const done = Promise.allSettled([this.#run, this.#saying]);
      await Promise.race([done, new Promise<void>((resolve) => void this.#clock.after(PREPARE_MS_MAX, resolve))]);
    }
    if (this.#options.link === undefined) this.#link.close();
  }

  async #restore(): Promise<KeptFlags | undefined> {
    const { client } = this.#link;
    if ((await client.call('EXISTS', this.#keys.inited)) !== 1) {
      this.#succeed();
      return undefined;
    }
    let data: VendorData;
    for (let reads = 1; ; reads++) {
      await catchUp(client, this.#keys, this.#book);
      const { newest } = this.#book;
      data = await readAll(client, this.#keys, KINDS);
      await catchUp(client, this.#keys, this.#book);
      if (this.#book.latest(data.digest) !== undefined) break;
      // nobody of ours wrote meanwhile, so it is others who write here
      if (this.#book.newest === newest || reads === READS_MAX) break;
    }
    const said = (await client.call('HMGET', this.#keys.state, 'digest', 'state', 'savedMs')) as (Buffer | null)[];
    this.#succeed();
    return this.#kept(
      data,
      said.map((text) => text?.toString() ?? ''),
    );
  }

  #kept(data: VendorData, [saidOf, state = '', savedMs]: readonly string[]): KeptFlags {
    const { items, tombstones, digest } = data;
    const log = keptLog(this.#book, data);
    const entry = this.#book.latest(digest);
    const clock = log.at(-1)?.clock ?? entry?.clock ?? data.clock;
    this.#progress.begin({ digest, clock }, entry?.place);
    this.#items = () => items;
    this.#tombstones = () => tombstones;
    this.#place();
    const isSaid = saidOf === digest;
    return {
      items,
      tombstones,
      digest,
      clock,
      log,
      offset: (log.at(-1)?.offset ?? 0) + 1,
      savedMs: isSaid ? Number(savedMs) : 0,
      ...(isSaid && state !== '' ? { state } : {}),
    };
  }

  /** Has what there is to do done, by the run that is under way or a new one. */
  #kick(): void {
    this.#isAsked = true;
    this.#run ??= this.#work();
  }

  async #work(): Promise<void> {
    this.#retry?.cancel();
    try {
      while (this.#isAsked) {
        this.#isAsked = false;
        await this.#alone(() => this.#round());
      }
      // in one go with the look above: what is asked for later begins a run of its own
      this.#run = undefined;
      this.#succeed();
    } catch (thrown) {
      this.#run = undefined;
      this.#tryAgain(thrown);
    }
  }

  #tryAgain(thrown: unknown): void {
    this.#news.miss();
    this.#fail(thrown);
    this.#letGo(Array.from(this.#waiting));
    this.#retry?.cancel();
    if (!this.#isClosed) this.#retry = this.#clock.after(RETRY_MS, () => this.#kick());
  }

  #letGo(waiting: readonly (() => void)[]): void {
    for (const go of waiting) {
      this.#waiting.delete(go);
      go();
    }
  }

  /** The book is read and written by one at a time. */
  #alone<T>(run: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(run);
    this.#turn = done.catch(() => {});
    return done;
  }

  async #round(): Promise<void> {
    const waiting = Array.from(this.#waiting);
    if (this.#news.isAny(this.#book)) await this.#catchUp();
    if (this.#items !== undefined) await this.#writer.write(this.#items, this.#tombstones);
    this.#place();
    const { newest, epoch } = this.#book;
    const isTold = this.#told.newest === newest && this.#told.epoch === epoch;
    this.#told = { newest, epoch };
    if (!isTold) this.#book.tell();
    this.#letGo(waiting);
    // whoever recovers has said all of it
    if (this.#failure === undefined) this.#sayAside();
    else await this.#say();
  }

  async #catchUp(): Promise<void> {
    this.#news.look();
    try {
      if (await catchUp(this.#link.client, this.#keys, this.#book)) this.#progress.lose();
    } catch (thrown) {
      this.#news.miss();
      throw thrown;
    }
  }

  /** Nobody waits for it: neither the book nor the data depend on it. */
  #sayAside(): void {
    if (this.#saying !== undefined || this.#sayable === undefined) return;
    this.#saying = this.#say().catch((thrown: unknown) => {
      this.#saying = undefined;
      this.#tryAgain(thrown);
    });
  }

  /** What the upstream said holds for the data that it said it of. */
  get #sayable(): { readonly digest: string; readonly said: Said } | undefined {
    const { digest, isPlaced } = this.#progress;
    const said = this.#said;
    return said === undefined || digest === undefined || !isPlaced ? undefined : { digest, said };
  }

  async #say(): Promise<void> {
    const { order, state } = this.#keys;
    for (let next = this.#sayable; next !== undefined; next = this.#sayable) {
      const { digest, said } = next;
      await this.#link.client.call('EVAL', SAY, 2, order, state, digest, said.state ?? '', said.savedMs);
      if (this.#said === said) this.#said = undefined;
    }
    // in one go with the look above: what is said later is said anew
    this.#saying = undefined;
  }

  #place(): void {
    const { digest, place, isPlaced } = this.#progress;
    this.#book.own = digest !== undefined && place !== undefined ? { digest, place, isPlaced } : undefined;
  }

  #look(): Promise<void> {
    // nobody waits for a store that is known to fail
    if (this.#failure !== undefined || this.#isClosed) return Promise.resolve();
    if (this.#looking !== undefined) return this.#looking;
    const look = {};
    this.#looks.add(look);
    this.#looking = this.#alone(async () => {
      this.#looking = undefined;
      await this.#catchUp();
    })
      .catch(() => {})
      .finally(() => this.#looks.delete(look));
    return this.#looking;
  }

  #lookLater(): void {
    this.#nextLook = this.#clock.after(LOOK_MS, () => {
      if (this.#isClosed) return;
      this.#news.miss();
      this.#kick();
      this.#lookLater();
    });
  }

  #fail(thrown: unknown): void {
    const error = thrown instanceof HeadgateError ? thrown : refusal(this.#link, 'it must work', messageOf(thrown));
    if (this.#failure !== undefined || this.#isClosed) return;
    this.#failure = error;
    this.#sinceMs = Date.now();
    this.#options.onFailure?.(error);
  }

  #succeed(): void {
    if (this.#failure === undefined || this.#isClosed) return;
    this.#failure = undefined;
    this.#sinceMs = Date.now();
    this.#options.onRecovery?.();
  }
}

/** The order up to the data as the log of a data set; empty when the data are none of the order's, or do not fit. */
function keptLog(book: OrderBook, { items, digest }: VendorData): KeptBatch[] {
  const last = book.latest(digest);
  if (last === undefined) return [];
  let clock = 0;
  const log = book.upTo(last.place).map((entry) => {
    // each replica has a clock of its own, and a log has one that never falls
    clock = Math.max(clock, entry.clock);
    return { offset: entry.place, digest: entry.digest, clock, keys: entry.keys };
  });
  const versions = new Map<string, number>();
  for (const { kind, key, version } of items) versions.set(`${kind}\0${key}`, version);
  const touched = new Map<string, KeptKey>();
  for (const { keys } of log.slice(1)) for (const key of keys) touched.set(`${key.kind}\0${key.key}`, key);
  for (const [id, { version, deleted }] of touched) {
    if (versions.get(id) !== (deleted ? undefined : version)) return [];
  }
  return log;
}

function refusal(link: RedisLink, cause: string, got: string): HeadgateError {
  return new HeadgateError('HG_STORE', `Cannot keep flags in Redis at ${link.client.address}: ${cause}, got ${got}`);
}
