import type { Commit, Ledger } from '../dataset/decisions/index.ts';
import { type Clock, HeadgateError, messageOf, type Timer } from '../kernel/index.ts';
import type { Entry, Store, Write } from './store.ts';
import { WriteBehind } from './write-behind.ts';

/** What is kept of a ledger, and how it is read. */
export type KeptLedger = Pick<Ledger, 'offset' | 'reach' | 'ready' | 'exclusive' | 'subscribe' | 'restore'>;

/** Settings of {@link DecisionKeeper.open}. */
export interface KeeperOptions {
  readonly clock: Clock;
  /** Unix time in milliseconds. */
  readonly wallNow: () => number;
  /** The names of the ledger's sources, by their number: rows are kept by number, and a configuration may be reordered. */
  readonly sources?: readonly string[];
  /** Writing failed, for the first time since it last worked. It is tried again; nothing that is served depends on it. */
  onFailure(error: HeadgateError): void;
  /** Writing works again, and everything that was not written has been. */
  onRecovery?(): void;
}

/** What was found in the store. */
export interface Restored {
  readonly rows: number;
  readonly offset: number;
  /** When it was last known to be up to date, Unix time in milliseconds. */
  readonly savedAtMs: number;
  /** Numbers under which rows were found that another source had told, or one that is no more. */
  readonly strangers: readonly number[];
}

/** Small records of a front, kept in memory and written behind. */
export interface Records {
  /** All of them. */
  entries(): Iterable<Entry>;
  /** The value must not be changed afterwards. */
  set(key: string, value: Uint8Array): void;
  delete(key: string): void;
}

/** Where each client has got to: never written ahead of the rows that it speaks of. */
export type CursorStore = Records;
/** Keys of clients that were found to be good. */
export type KeyStore = Records;

/** Raised when records are laid out in another way. */
const FORMAT = 1;
const ROWS = 'decision-rows';
const CURSORS = 'decision-cursors';
const KEYS = 'decision-keys';
const META = 'decision-meta';
const STATE = 'state';

/** A cursor is asked for again only after a restart, and one that is behind only sends more than it must. */
const BEHIND_MS_MAX = 200;
/** How far `savedAtMs` may be behind while nothing changes. */
const HEARTBEAT_MS = 60_000;
/** A disk that is full stays so for a while. */
const RETRY_MS_MIN = 1000;
const RETRY_MS_MAX = 30_000;
/**
 * How many commits may wait for a store that fails: a day of one each second, some hundred bytes each. Beyond it the store
 * is left at what it holds, which is whole but old, until the next start.
 */
const COMMITS_MAX = 86_400;

interface State {
  readonly format: number;
  readonly offset: number;
  readonly reach: number;
  readonly savedAtMs: number;
  /** By number. Absent: whoever wrote it had no names. */
  readonly sources?: readonly string[];
}

/**
 * Keeps a ledger of decisions, and what a front must remember of its clients, in a store.
 *
 * ```
 *  ledger ── commit ──► waits ─┐
 *  front ─── set ─────► waits ─┴─► one write at a time: the changed rows, the offset and reach that they are at,
 *                                  and the cursors and keys of that moment, all of it or nothing
 * ```
 *
 * So whatever moment a process dies at, the store holds a state that the ledger was in, and no cursor beyond it.
 *
 * @example
 * ```ts no-run
 * async function keep(ledger: Parameters<typeof DecisionKeeper.open>[1]): Promise<void> {
 *   const store = await openLmdbStore({ path: '/var/lib/headgate' });
 *   const keeper = await DecisionKeeper.open(store, ledger, {
 *     clock: systemClock,
 *     wallNow: () => Date.now(),
 *     onFailure: (error) => console.log(error.message),
 *   });
 *   console.log('rows that were kept', keeper.restored?.rows ?? 0);
 *   await keeper.close();
 *   await store.close();
 * }
 * ```
 */
export class DecisionKeeper {
  readonly cursors: CursorStore;
  readonly keys: KeyStore;
  /** Undefined when the store held nothing. */
  readonly restored: Restored | undefined;
  readonly #store: Store;
  readonly #ledger: KeptLedger;
  readonly #options: KeeperOptions;
  readonly #cursors: WriteBehind;
  readonly #keys: WriteBehind;
  readonly #unsubscribe: () => void;
  /** The names of the sources in the last run. */
  readonly #sourcesThen: readonly string[] | undefined;
  /** Commits that are not written yet, oldest first. */
  #commits: Commit[] = [];
  #storedOffset: number;
  #waiting: { readonly offset: number; readonly resolve: (stored: boolean) => void }[] = [];
  #timer: Timer | undefined;
  #timerAtMs = Number.POSITIVE_INFINITY;
  /** The write in progress. */
  #writing: Promise<void> | undefined;
  #failure: string | undefined;
  #retryMs = RETRY_MS_MIN;
  #gaveUp = false;
  #closed = false;

  /**
   * Restores the ledger, which must be new, and keeps it from here on. The store stays its opener's to close, after
   * {@link close}.
   *
   * @throws HeadgateError HG_STORE (the promise is rejected) when the store cannot be read, or holds what a newer version wrote
   */
  static async open(store: Store, ledger: KeptLedger, options: KeeperOptions): Promise<DecisionKeeper> {
    const state = readState(await store.get(META, STATE));
    let rows = 0;
    const strangers = strangersOf(state?.sources ?? [], options.sources ?? []);
    if (state !== undefined) {
      const entries = eachOf(store.entries(ROWS), () => {
        rows++;
      });
      const { offset, reach } = state;
      await ledger.restore(entries, { offset, reach, nowMs: options.wallNow(), untold: strangers });
    }
    const found = {
      restored: state === undefined ? undefined : { rows, offset: state.offset, savedAtMs: state.savedAtMs, strangers },
      sources: state?.sources,
      cursors: await readAll(store, CURSORS),
      keys: await readAll(store, KEYS),
    };
    return new DecisionKeeper({ store, ledger, options }, found);
  }

  private constructor(
    { store, ledger, options }: { store: Store; ledger: KeptLedger; options: KeeperOptions },
    found: {
      restored: Restored | undefined;
      sources: readonly string[] | undefined;
      cursors: Map<string, Uint8Array>;
      keys: Map<string, Uint8Array>;
    },
  ) {
    this.#store = store;
    this.#ledger = ledger;
    this.#options = options;
    this.restored = found.restored;
    this.#sourcesThen = found.sources;
    this.#storedOffset = ledger.offset;
    const changed = (): void => {
      if (this.#failure === undefined) this.#wakeAfter(BEHIND_MS_MAX);
    };
    this.#cursors = new WriteBehind(CURSORS, found.cursors, changed);
    this.#keys = new WriteBehind(KEYS, found.keys, changed);
    this.cursors = this.#cursors;
    this.keys = this.#keys;
    this.#unsubscribe = ledger.subscribe((commit) => this.#take(commit));
    this.#wakeAfter(HEARTBEAT_MS);
  }

  /** The offset up to which the store has everything. */
  get storedOffset(): number {
    return this.#storedOffset;
  }

  /** Whether the last write failed; once it was given up, until the next start. */
  get failing(): boolean {
    return this.#failure !== undefined || this.#gaveUp;
  }

  /**
   * Whether everything up to an offset is in the store, now or soon: what a client is told before that may be unknown after
   * a crash, and then nobody tells it when that ends. False when the store fails: who serves goes on all the same.
   */
  stored(offset: number): true | Promise<boolean> {
    if (offset <= this.#storedOffset) return true;
    if (this.#failure !== undefined || this.#gaveUp || this.#closed) return Promise.resolve(false);
    return new Promise((resolve) => {
      this.#waiting.push({ offset, resolve });
    });
  }

  /** Writes everything that waits; resolves when that is done or has failed. */
  async flush(): Promise<void> {
    // what is being written may have begun before what waits came
    while (this.#writing !== undefined) await this.#writing;
    if (this.#isDue()) await this.#write();
  }

  /** Writes everything that waits, and keeps nothing more. The ledger may go on. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    await this.flush();
    this.#closed = true;
    this.#unsubscribe();
    this.#timer?.cancel();
    this.#answer(false);
  }

  #take(commit: Commit): void {
    this.#commits.push(commit);
    if (this.#commits.length > COMMITS_MAX) this.#giveUp();
    else if (this.#failure === undefined) this.#wakeAfter(0);
  }

  #isDue(): boolean {
    return !this.#gaveUp && (this.#commits.length > 0 || this.#cursors.waits || this.#keys.waits);
  }

  /** Looks for something to write in a while, at the latest. */
  #wakeAfter(delayMs: number): void {
    const atMs = this.#options.clock.now() + delayMs;
    if (this.#closed || this.#gaveUp || atMs >= this.#timerAtMs) return;
    this.#timer?.cancel();
    this.#timerAtMs = atMs;
    this.#timer = this.#options.clock.after(delayMs, () => {
      this.#timerAtMs = Number.POSITIVE_INFINITY;
      void this.#write();
    });
  }

  #write(): Promise<void> {
    this.#writing ??= this.#attempt().finally(() => {
      this.#writing = undefined;
      if (this.#failure !== undefined) this.#wakeAfter(this.#retryMs);
      else if (this.#commits.length > 0) this.#wakeAfter(0);
      else if (this.#isDue()) this.#wakeAfter(BEHIND_MS_MAX);
      else this.#wakeAfter(HEARTBEAT_MS);
    });
    return this.#writing;
  }

  async #attempt(): Promise<void> {
    if (this.#gaveUp) return;
    // With no commit to write, the cursors of this moment speak of nothing but what is written.
    if (this.#commits.length === 0) {
      const taken = this.#takeAll();
      return this.#settle(taken, this.#store.write(this.#writesOf(taken)));
    }
    // Nothing is committed while the rows are read, so they, the offset and the cursors are of one moment. What the store
    // does with them may take longer.
    const [taken, written] = await this.#ledger.exclusive(async () => {
      const all = this.#takeAll();
      const { ended, writes } = read(this.#writesOf(all));
      const outcome = this.#store.write(writes);
      await Promise.race([ended, outcome.catch(() => {})]);
      return [all, { outcome }] as const;
    });
    return this.#settle(taken, written.outcome);
  }

  async #settle(taken: Taken, written: Promise<void>): Promise<void> {
    try {
      await written;
      this.#done(taken.offset);
    } catch (thrown) {
      this.#putBack(taken);
      this.#fail(thrown);
    }
  }

  #takeAll(): Taken {
    const commits = this.#commits;
    this.#commits = [];
    const { offset, reach } = this.#ledger;
    return { commits, offset, reach, cursors: this.#cursors.take(), keys: this.#keys.take() };
  }

  *#writesOf({ commits, offset, reach, cursors, keys }: Taken): Generator<Write> {
    for (const commit of commits) {
      for (const [key, value] of commit.records()) yield { table: ROWS, key: ordered(key), value };
    }
    yield* cursors;
    yield* keys;
    const savedAtMs = this.#options.wallNow();
    const sources = this.#namesOfRows();
    const state: State = { format: FORMAT, offset, reach, savedAtMs, ...(sources === undefined ? {} : { sources }) };
    yield { table: META, key: STATE, value: Buffer.from(JSON.stringify(state)) };
  }

  /** Until every source has told its own, rows under a stranger's number are still what they were. */
  #namesOfRows(): readonly string[] | undefined {
    return this.#ledger.ready ? this.#options.sources : (this.#sourcesThen ?? this.#options.sources);
  }

  #putBack({ commits, cursors, keys }: Taken): void {
    this.#commits = [...commits, ...this.#commits];
    this.#cursors.putBack(cursors);
    this.#keys.putBack(keys);
  }

  #done(offset: number): void {
    this.#storedOffset = offset;
    const failed = this.#failure !== undefined;
    this.#failure = undefined;
    this.#answer(true);
    if (failed) this.#options.onRecovery?.();
  }

  #fail(thrown: unknown): void {
    const error =
      thrown instanceof HeadgateError
        ? thrown
        : new HeadgateError('HG_STORE', `Cannot keep decisions: ${messageOf(thrown)}`, { cause: thrown });
    const known = this.#failure !== undefined;
    this.#retryMs = known ? Math.min(this.#retryMs * 2, RETRY_MS_MAX) : RETRY_MS_MIN;
    this.#failure = error.message;
    this.#answer(false);
    if (!known) this.#options.onFailure(error);
  }

  #giveUp(): void {
    this.#gaveUp = true;
    this.#unsubscribe();
    this.#commits = [];
    this.#timer?.cancel();
    this.#answer(false);
    const cause = `the store has failed for ${COMMITS_MAX} commits`;
    const message = `Cannot keep decisions: ${cause}; it is left as it is until the next start`;
    this.#options.onFailure(new HeadgateError('HG_STORE', message));
  }

  /** Tells those who wait for what is stored now; when it failed, everybody. */
  #answer(stored: boolean): void {
    const waiting = this.#waiting;
    this.#waiting = stored ? waiting.filter(({ offset }) => offset > this.#storedOffset) : [];
    for (const { offset, resolve } of waiting) {
      if (offset <= this.#storedOffset) resolve(true);
      else if (!stored) resolve(false);
    }
  }
}

/**
 * A key whose numbers are in the order of their values: each has its length before it. Rows come with rising ids, and a
 * tree that is filled from one end takes two thirds of the space, in the file and in memory while it is written. The
 * ledger reads a key for the message of an error only.
 *
 *     0:9:1 ─► 10:19:11        0:10:1 ─► 10:210:11
 */
function ordered(key: string): string {
  return key.replaceAll(/\d+/g, (digits) => `${digits.length.toString(36)}${digits}`);
}

/** What one write takes over. */
interface Taken {
  readonly commits: Commit[];
  readonly offset: number;
  readonly reach: number;
  readonly cursors: readonly Write[];
  readonly keys: readonly Write[];
}

/** The writes, and when the last of them was read. */
function read(source: Iterable<Write>): { ended: Promise<void>; writes: Iterable<Write> } {
  let tell: () => void = () => {};
  const ended = new Promise<void>((resolve) => {
    tell = resolve;
  });
  function* writes(): Generator<Write> {
    try {
      yield* source;
    } finally {
      tell();
    }
  }
  return { ended, writes: writes() };
}

async function* eachOf(groups: AsyncIterable<readonly Entry[]>, count: () => void): AsyncGenerator<Entry> {
  for await (const group of groups) {
    for (const entry of group) {
      count();
      yield entry;
    }
  }
}

async function readAll(store: Store, table: string): Promise<Map<string, Uint8Array>> {
  const all = new Map<string, Uint8Array>();
  // copies: a value of a group may keep the memory of its whole group
  for await (const group of store.entries(table)) for (const [key, value] of group) all.set(key, new Uint8Array(value));
  return all;
}

/** Numbers that stood for another name then than they do now. */
function strangersOf(then: readonly string[], now: readonly string[]): number[] {
  return then.flatMap((name, number) => (name === now[number] ? [] : [number]));
}

function readState(bytes: Uint8Array | undefined): State | undefined {
  if (bytes === undefined) return undefined;
  const state = JSON.parse(Buffer.from(bytes).toString()) as State;
  if (state.format === FORMAT) return state;
  throw new HeadgateError(
    'HG_STORE',
    `Cannot restore decisions: this version of Headgate reads format ${FORMAT}, got ${state.format}. Use the version that wrote them, or set \`store.path\` to another folder`,
  );
}
