import type { CommitReport, Ledger } from '../dataset/decisions/index.ts';
import { type Clock, HeadgateError, messageOf, type Timer } from '../kernel/index.ts';
import { IdCollision } from './decision-ids.ts';
import { Lease } from './decision-lease.ts';
import { hasValidParts, type ReadReport, readDecisions } from './decision-reader.ts';
import { renewLeased } from './decision-renewal.ts';
import { checkIntervalMs, checkPath } from './options.ts';
import { Watch } from './watch.ts';

/** What is said of decisions that do not say it themselves. */
export interface DecisionDefaults {
  /** How long a decision lasts that is no longer listed, at most: while it is listed it is renewed. 1,000 at least. */
  readonly durationMs: number;
  /** The origin of every decision: as with `cscli decisions import`, files have no say in it. */
  readonly origin: string;
  readonly scenario: string;
  readonly type: string;
}

/** What became of a reading. */
export interface DecisionFilesReport {
  /** Whether it is the first one that succeeded. */
  readonly first: boolean;
  /** Decisions of these files that are held now. */
  readonly decisions: number;
  readonly added: number;
  readonly removed: number;
  readonly refreshed: number;
  /** Rows that had ended before they were read: their duration counts from the modification of the file. */
  readonly over: number;
  readonly bytes: number;
  readonly ms: number;
}

/** What the files of decisions tell. */
export interface DecisionFilesListener {
  /** All files were read, and the ledger holds what they list. */
  loaded(report: DecisionFilesReport): void;
  /** A file cannot be read; what was read before stays, and is renewed. Told once for as long as the cause stays the same. */
  failed(error: HeadgateError): void;
}

/** Settings of {@link openDecisionFiles}. */
export interface DecisionFilesOptions {
  readonly name: string;
  /** Its number in the ledger. */
  readonly source: number;
  /** Together they are the source: what is in none of them is gone. */
  readonly paths: readonly string[];
  /** How often the files are looked at, in milliseconds, 100 at least. */
  readonly intervalMs: number;
  readonly defaults: DecisionDefaults;
  readonly ledger: Ledger;
  readonly clock: Clock;
  /** Unix time in milliseconds. */
  readonly wallNow: () => number;
  readonly listener: DecisionFilesListener;
}

/** How it is with the files. */
export interface DecisionFilesStatus {
  readonly name: string;
  readonly paths: readonly string[];
  /** `current`: the ledger holds what the files list; `stale`: they cannot be read any more, or could not yet. */
  readonly state: 'starting' | 'current' | 'stale';
  /** Since when the files may have been changed unnoticed, in milliseconds: 0 while they can be read; undefined: never read. */
  readonly ageMs: number | undefined;
  readonly decisions: number;
  readonly lastError: string | undefined;
}

/** Files of decisions that are followed. */
export interface DecisionFiles {
  /** Reads for the first time, then watches. Answers after the first attempt whether it succeeded; never rejects. */
  start(): Promise<boolean>;
  /** Reads again now, whether or not a file seems changed. */
  reload(): Promise<void>;
  /** Watches no more, and no longer renews. The ledger is not touched once the promise has resolved. */
  stop(): Promise<void>;
  status(): DecisionFilesStatus;
}

/** The wall clock may be set: how long a lease still runs is looked at this often, in milliseconds. */
const RENEWAL_LOOK_MS_MAX = 60_000;
const RENEWAL_LOOK_MS_MIN = 100;
const DURATION_MS_MIN = 1000;
/** Ends are exact; a file on another file system may have a coarser time. */
const TOLERANCE_MS = 1000;
/** Each collision is one in five for 500,000 decisions. */
const READINGS_MAX = 20;

/**
 * A source of decisions that follows files: the JSON and CSV that `cscli decisions import` takes, JSON lines (`.jsonl`,
 * `.ndjson`), and (any other name) plain lists of addresses and networks with comments.
 *
 * A row that has a duration lasts so long from the modification of its file, as if it had been imported then. One that has
 * none lasts as long as it is listed. The files are taken as a whole or not at all.
 *
 * Throws HG_OPTION on settings that cannot be used. Failures to read are told to the listener as HG_SOURCE, with file, line
 * and column.
 *
 * @example
 * ```ts no-run
 * function follow(ledger: DecisionFilesOptions['ledger']): Promise<boolean> {
 *   const files = openDecisionFiles({
 *     name: 'block lists',
 *     source: 0,
 *     paths: ['/etc/headgate/drop.txt', '/etc/headgate/bans.csv'],
 *     intervalMs: 1000,
 *     defaults: { durationMs: 4 * 3_600_000, origin: 'cscli-import', scenario: 'block list', type: 'ban' },
 *     ledger,
 *     clock: systemClock,
 *     wallNow: () => Date.now(),
 *     listener: {
 *       loaded: ({ decisions, added, removed }) => console.log(decisions, added, removed),
 *       failed: (error) => console.log(error.message),
 *     },
 *   });
 *   return files.start();
 * }
 * ```
 */
export function openDecisionFiles(options: DecisionFilesOptions): DecisionFiles {
  return new Files(options);
}

class Files implements DecisionFiles {
  readonly #options: DecisionFilesOptions;
  readonly #paths: readonly string[];
  readonly #watch: Watch;
  readonly #lease: Lease;
  readonly #taken = new Set<number>();
  /** The last of what is done with the ledger: reading and renewing take turns. */
  #turn: Promise<unknown> = Promise.resolve();
  #timer: Timer | undefined;
  #stopped = false;
  /** The end of the lease that the ledger holds, Unix time in milliseconds. */
  #leasedUntilMs = 0;
  #state: DecisionFilesStatus['state'] = 'starting';
  #goodAtMs: number | undefined;
  #lastError: string | undefined;

  constructor(options: DecisionFilesOptions) {
    const { paths, defaults, clock, intervalMs } = options;
    if (paths.length === 0)
      throw new HeadgateError('HG_OPTION', 'Cannot open a source: paths must name a file, got none');
    if (!(defaults.durationMs >= DURATION_MS_MIN && Number.isFinite(defaults.durationMs))) {
      const cause = `defaults.durationMs must be at least ${DURATION_MS_MIN}, got ${defaults.durationMs}`;
      throw new HeadgateError('HG_OPTION', `Cannot open a source: ${cause}`);
    }
    this.#options = options;
    this.#paths = paths.map(checkPath);
    this.#lease = new Lease(defaults.durationMs);
    this.#watch = new Watch({
      paths: this.#paths,
      intervalMs: checkIntervalMs(intervalMs),
      clock,
      settle: this.#paths.some(hasValidParts),
      load: () => this.#inTurn(() => this.#load()),
      loaded: () => {},
      failed: (error) => this.#fail(error),
    });
  }

  async start(): Promise<boolean> {
    await this.#watch.start();
    await this.#renewIfDue();
    this.#renewLater();
    return this.#state === 'current';
  }

  reload(): Promise<void> {
    return this.#watch.reload();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#watch.stop();
    await this.#turn;
  }

  status(): DecisionFilesStatus {
    const { name, ledger, source, clock } = this.#options;
    const isCurrent = this.#state === 'current';
    const ageMs = this.#goodAtMs === undefined ? undefined : isCurrent ? 0 : clock.now() - this.#goodAtMs;
    const decisions = ledger.sourceCount(source);
    return { name, paths: this.#paths, state: this.#state, ageMs, decisions, lastError: this.#lastError };
  }

  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(run);
    this.#turn = done.catch(() => {});
    return done;
  }

  #fail(error: HeadgateError): void {
    // until it was looked at and found unreadable it was as it had been read
    if (this.#state === 'current') this.#goodAtMs = this.#options.clock.now();
    this.#state = 'stale';
    this.#lastError = error.message;
    this.#options.listener.failed(error);
  }

  async #load(): Promise<void> {
    const { clock, wallNow, listener, ledger, source } = this.#options;
    const begunMs = clock.now();
    const first = this.#goodAtMs === undefined;
    const leaseUntilMs = this.#lease.untilMs(wallNow());
    const { bytes, over, added, removed, refreshed } = await this.#read(leaseUntilMs);
    this.#leasedUntilMs = leaseUntilMs;
    this.#goodAtMs = clock.now();
    this.#state = 'current';
    this.#lastError = undefined;
    if (this.#stopped) return;
    const decisions = ledger.sourceCount(source);
    listener.loaded({ first, decisions, added, removed, refreshed, over, bytes, ms: this.#goodAtMs - begunMs });
  }

  async #read(leaseUntilMs: number): Promise<ReadReport & CommitReport> {
    const { ledger, source, defaults, wallNow } = this.#options;
    for (let reading = 1; ; reading++) {
      const full = ledger.begin(source, { toleranceMs: TOLERANCE_MS });
      try {
        const options = { paths: this.#paths, defaults, leaseUntilMs, nowMs: wallNow(), taken: this.#taken };
        const report = await readDecisions(full, options);
        return { ...report, ...(await full.commit(wallNow())) };
      } catch (thrown) {
        full.abandon();
        if (!(thrown instanceof IdCollision) || reading === READINGS_MAX) throw thrown;
      }
    }
  }

  #renewLater(): void {
    if (this.#stopped) return;
    const { clock, wallNow } = this.#options;
    const restMs = this.#lease.restMs(wallNow());
    const delayMs = Math.min(Math.max(restMs, RENEWAL_LOOK_MS_MIN), RENEWAL_LOOK_MS_MAX);
    this.#timer = clock.after(delayMs, () => {
      void this.#renewIfDue().finally(() => this.#renewLater());
    });
  }

  /** Renews what is listed, when the lease that it was given is not the one that runs now. */
  #renewIfDue(): Promise<void> {
    return this.#inTurn(async () => {
      const { ledger, source, wallNow } = this.#options;
      const untilMs = this.#lease.untilMs(wallNow());
      if (untilMs === this.#leasedUntilMs) return;
      try {
        await renewLeased(ledger, source, { untilMs, wallNow });
        this.#leasedUntilMs = untilMs;
      } catch (thrown) {
        // nothing that is held can be refused: tried again at the next look
        const error = new HeadgateError('HG_SOURCE', `Cannot renew decisions: ${messageOf(thrown)}`, { cause: thrown });
        this.#options.listener.failed(error);
      }
    });
  }
}
