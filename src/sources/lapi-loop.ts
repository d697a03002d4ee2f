import type { CommitReport, Decision, Ledger } from '../dataset/decisions/index.ts';
import { type Clock, type HeadgateError, messageOf, type Timer } from '../kernel/index.ts';
import { LapiError } from './lapi-error.ts';
import { type Lasting, ShrinkGuard } from './lapi-guard.ts';
import { HeldRows } from './lapi-held.ts';
import type { Delta, Full, Puller, Wide } from './lapi-pull.ts';
import { Schedule } from './lapi-schedule.ts';
import { scopeQuery, Scopes, USUAL } from './lapi-scopes.ts';
import { Waiters } from './lapi-waiters.ts';

/** What a full answer changed. */
export interface LapiReport {
  /** Why everything was asked for. */
  readonly why: string;
  /** How many decisions of this source are held now. */
  readonly decisions: number;
  readonly added: number;
  readonly removed: number;
  readonly refreshed: number;
  /** Decisions that came and cannot be held, as those without a value. */
  readonly unusable: number;
  /** Length of the answer, in bytes without compression. */
  readonly bytes: number;
  /** How long it took, in milliseconds. */
  readonly ms: number;
  /** Whether simulated decisions, and those of every scope, are held as well. */
  readonly wide: boolean;
}

/** What a source tells of itself: once for each change of its state. */
export interface LapiListener {
  /** The first full copy is held. */
  loaded(report: LapiReport): void;
  /** A later one was compared with what was held. */
  resynced(report: LapiReport): void;
  /** The local API cannot be pulled from; what was held stays. Told again only when the cause becomes another. */
  failed(error: HeadgateError, next: { readonly retryMs: number }): void;
  /** It can be pulled from again. */
  recovered(outage: { readonly downMs: number }): void;
  /** A full answer has so few decisions that it is asked for again before it is believed; what was held stays. */
  doubtful(shrink: { readonly held: number; readonly got: number; readonly retryMs: number }): void;
}

/** Settings of a {@link Loop}. */
export interface LoopOptions {
  readonly puller: Puller;
  readonly name: string;
  readonly source: number;
  readonly ledger: Ledger;
  readonly scopes: readonly string[];
  readonly intervalMs: number;
  readonly resyncMs: number;
  readonly clock: Clock;
  readonly wallNow: () => number;
  readonly random: () => number;
  readonly listener: LapiListener;
}

/** How it is with a source. */
export type LapiState = 'starting' | 'current' | 'stale' | 'doubtful';

/** For so long after somebody asked, simulated decisions are pulled at each resync. */
const WIDE_MS = 3_600_000;
/** An answer that does not come is no failure yet; but what is held grows old. */
const STALE_MS_MIN = 60_000;
const STALE_INTERVALS = 3;

/** Keeps the decisions of one local API in the ledger, one request after another. */
export class Loop {
  readonly #options: LoopOptions;
  readonly #schedule: Schedule;
  readonly #scopes: Scopes;
  readonly #held: HeldRows;
  readonly #guard = new ShrinkGuard();
  readonly #waiters = new Waiters();
  /** The scopes of which everything is held; none before the first full copy. */
  #covered: ReadonlySet<string>;
  #wideHeld = false;
  #wideAskedAtMs: number | undefined;
  #loaded = false;
  #onLoaded: () => void = () => {};
  /** Resolves when the first full copy is held. */
  readonly loaded: Promise<void>;
  #goodAtMs: number | undefined;
  #failure: LapiError | undefined;
  #failedAtMs = 0;
  #running: Promise<void> | undefined;
  #stopped = false;
  #wake: () => void = () => {};

  constructor(options: LoopOptions) {
    this.#options = options;
    this.#schedule = new Schedule(options);
    this.#scopes = new Scopes(options.scopes);
    this.#held = new HeldRows(options.ledger, options.source);
    this.#covered = this.#restored();
    this.loaded = new Promise((resolve) => {
      this.#onLoaded = resolve;
    });
  }

  get scopes(): readonly string[] {
    return this.#scopes.list;
  }

  get lastError(): string | undefined {
    return this.#failure?.message;
  }

  /** How long ago the last good answer came, in milliseconds. */
  get ageMs(): number | undefined {
    return this.#goodAtMs === undefined ? undefined : this.#options.clock.now() - this.#goodAtMs;
  }

  get state(): LapiState {
    const { ageMs } = this;
    const isOld = (ageMs ?? 0) > Math.max(STALE_MS_MIN, STALE_INTERVALS * this.#options.intervalMs);
    if (this.#covered.size > 0 && (this.#failure !== undefined || isOld)) return 'stale';
    if (this.#guard.doubts) return 'doubtful';
    return this.#loaded ? 'current' : 'starting';
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** What is under way must be ended by the caller; resolves when nothing is. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#wake();
    this.#waiters.settle(false, () => true);
    await this.#running;
  }

  hold(scopes: readonly string[], signal?: AbortSignal): true | Promise<boolean> {
    if (scopes.every((scope) => this.#covered.has(scope))) return true;
    if (this.#stopped || !this.#scopes.add(scopes)) return Promise.resolve(false);
    this.resync('a scope that was asked for');
    return this.#waiters.add({ scopes, wide: false }, signal);
  }

  holdWide(): true | Promise<boolean> {
    this.#wideAskedAtMs = this.#options.clock.now();
    if (this.#wideHeld) return true;
    if (this.#stopped || this.#failure !== undefined) return Promise.resolve(false);
    this.resync('simulated decisions that were asked for');
    return this.#waiters.add({ scopes: [], wide: true });
  }

  resync(why: string): void {
    this.#schedule.demand(this.#options.clock.now(), why);
    this.#wake();
  }

  /** What a store brought back is as good as pulled, for the scopes that were held then. */
  #restored(): ReadonlySet<string> {
    const { ledger, source } = this.#options;
    if (ledger.sourceCount(source) === 0) return new Set();
    const held = [...this.#held.scopes()];
    for (const scope of held) this.#scopes.add([scope]);
    // a scope that was added to the configuration since is not held until it was pulled: an empty answer would be no truth
    return new Set([...USUAL, ...held]);
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const nowMs = this.#options.clock.now();
      const { kind, atMs, why } = this.#schedule.next(nowMs);
      if (atMs > nowMs) await this.#sleep(atMs - nowMs);
      else await this.#attempt(kind === 'full' ? () => this.#full(why) : () => this.#delta());
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer: Timer = this.#options.clock.after(ms, resolve);
      this.#wake = () => {
        timer.cancel();
        resolve();
      };
    });
  }

  async #attempt(pull: () => Promise<void>): Promise<void> {
    try {
      await pull();
    } catch (thrown) {
      if (!this.#stopped) this.#fail(thrown);
    }
  }

  async #delta(): Promise<void> {
    const { puller, clock } = this.#options;
    const delta = await puller.delta(scopeQuery(this.#covered));
    if (delta === undefined) return this.#schedule.deltaTooLong(clock.now());
    const unknown = await this.#patch(delta);
    this.#schedule.deltaDone(clock.now(), { rows: delta.added.length, unknown });
    this.#good();
  }

  /** Answers how many deletions were of what is not known here. */
  async #patch({ added, removedIds, toleranceMs }: Delta): Promise<number> {
    if (added.length + removedIds.length === 0) return 0;
    const { ledger, source, wallNow } = this.#options;
    const nowMs = wallNow();
    const staying = withoutRemoved(added, removedIds);
    const { ignored } = await ledger.patch(source, { added: staying, removedIds }, { nowMs, toleranceMs });
    const over = staying.reduce((count, { untilMs }) => count + (untilMs <= nowMs ? 1 : 0), 0);
    return Math.max(0, ignored - over);
  }

  async #full(why: string): Promise<void> {
    const { puller, wallNow, clock } = this.#options;
    this.#schedule.fullBegins();
    const wide = await this.#wide();
    const scopes = this.#scopes.list;
    const full = await puller.full(scopeQuery(scopes), wide);
    if (!this.#believes(full, wide !== undefined)) return full.read.abandon();
    const report = await full.read.commit(wallNow());
    puller.took(full);
    this.#covered = new Set(scopes);
    this.#wideHeld = wide !== undefined;
    this.#schedule.fullDone(clock.now());
    this.#good();
    this.#tell(why, full, report);
    this.#grant();
  }

  /** Undefined: nobody asked for it, or it cannot be had. */
  async #wide(): Promise<Wide | undefined> {
    // without enforced decisions to tell them from, all would have to be kept aside
    if (!this.#loaded) return undefined;
    const askedAtMs = this.#wideAskedAtMs;
    const isWanted = askedAtMs !== undefined && this.#options.clock.now() - askedAtMs <= WIDE_MS;
    const rows = isWanted ? await this.#pullWide() : undefined;
    if (rows === undefined) this.#waiters.settle(false, ({ wide }) => wide);
    return rows;
  }

  async #pullWide(): Promise<Wide | undefined> {
    try {
      const rows = await this.#options.puller.wide();
      // only what the full answer has in the same scopes tells simulated decisions from enforced ones
      return this.#scopes.add(Array.from(rows.values(), ({ scope }) => scope)) ? rows : undefined;
    } catch (thrown) {
      if (this.#stopped) throw thrown;
      return undefined;
    }
  }

  #believes(full: Full, simulatedToo: boolean): boolean {
    const { clock, wallNow, listener } = this.#options;
    const { held } = full.read.summary();
    const { got } = full;
    const already = this.#guard.doubts;
    const over = full.removedIds;
    const lasting = (): Lasting => this.#held.lasting({ over, nowMs: wallNow(), simulatedToo });
    if (this.#guard.believes({ held, got, lasting })) return true;
    const retryMs = this.#schedule.doubted(clock.now());
    this.#good();
    if (!already) listener.doubtful({ held, got, retryMs });
    return false;
  }

  #grant(): void {
    this.#waiters.settle(true, ({ scopes, wide }) => {
      return scopes.every((scope) => this.#covered.has(scope)) && (!wide || this.#wideHeld);
    });
    // those who came while the answer was under way
    if (this.#waiters.size > 0) this.resync('what was asked for meanwhile');
  }

  #tell(why: string, full: Full, report: CommitReport): void {
    const { ledger, source, listener } = this.#options;
    const { added, removed, refreshed } = report;
    const { bytes, ms, unusable } = full;
    const decisions = ledger.sourceCount(source);
    const wide = this.#wideHeld;
    const told: LapiReport = { why, decisions, added, removed, refreshed, unusable, bytes, ms, wide };
    if (this.#loaded) return listener.resynced(told);
    this.#loaded = true;
    this.#onLoaded();
    listener.loaded(told);
  }

  #good(): void {
    const { clock, listener } = this.#options;
    this.#goodAtMs = clock.now();
    if (this.#failure === undefined) return;
    this.#failure = undefined;
    listener.recovered({ downMs: this.#goodAtMs - this.#failedAtMs });
  }

  #fail(thrown: unknown): void {
    const { clock, listener, name } = this.#options;
    const error = thrown instanceof LapiError ? thrown : unexpected(name, thrown);
    const { failure, retryAfterMs } = error;
    const retryMs = this.#schedule.failed(clock.now(), { refused: failure === 'refused', retryAfterMs });
    const before = this.#failure;
    this.#failure = error;
    if (before === undefined) this.#failedAtMs = clock.now();
    // they have no other bound: the next attempt may be a minute away
    this.#waiters.settle(false, ({ wide }) => wide);
    if (before?.failure !== failure) listener.failed(error, { retryMs });
  }
}

/** What ended while the answer was written can be in both of its arrays. */
function withoutRemoved(added: readonly Decision[], removedIds: readonly number[]): readonly Decision[] {
  if (added.length === 0 || removedIds.length === 0) return added;
  const removed = new Set(removedIds);
  return added.filter(({ id }) => !removed.has(id));
}

function unexpected(name: string, thrown: unknown): LapiError {
  const cause = messageOf(thrown);
  return new LapiError('answer', `Cannot take over the decisions of the local API ${name}: ${cause}`, {
    cause: thrown,
  });
}
