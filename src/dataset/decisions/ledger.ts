import { assert, Slices } from '../../kernel/index.ts';
import { Pace } from '../pace.ts';
import { FullCopy, type FullRead, type FullReadOptions } from './full-read.ts';
import { Intake } from './intake.ts';
import type { Log } from './log.ts';
import { Merge } from './merge.ts';
import { checkedOptions, type LedgerOptions } from './options.ts';
import { GROUPS_AT_ONCE, makeParts, type Parts, reserveGroups, reserveRows } from './parts.ts';
import { beyond, forget, isUntidy, tidy } from './purge.ts';
import { recordKey, recordOf } from './records.ts';
import type { Commit, CommitReport, DecisionDelta, LedgerState } from './reports.ts';
import { type Entries, restoreRows } from './restore.ts';
import type { Rows } from './rows.ts';
import { Transition } from './transition.ts';
import type { AddressRange } from './types.ts';

/** Steps take from 10 ns to a microsecond, and twenty times as long in a program that has just begun. */
const STEPS_PER_LOOK = 32;

/**
 * All decisions of all sources, and what changed since any cursor.
 *
 * ```
 *  begin ─► add … ─► commit ─┐
 *  patch ────────────────────┼─► one at a time ─► transition ─► offset + 1 ─► subscribers
 *  tick (every second) ──────┘   (and exclusive readers)
 * ```
 *
 * Readers see the state before a commit or the one after it, never one between, though it is made in slices of a few
 * milliseconds.
 *
 * @example
 * const ledger = new Ledger();
 * const full = ledger.begin(0, { toleranceMs: 2000 });
 * full.add({
 *   id: 7, uuid: undefined, origin: 'cscli', scenario: 'manual ban', scope: 'Ip', type: 'ban',
 *   value: '192.0.2.1', untilMs: 4 * 3_600_000, simulated: false,
 * });
 * const { offset, added } = await full.commit(0);
 * console.log(offset, added, ledger.count); // 1 1 1
 * console.log(ledger.rows.textLive(0)); // ,"id":7,"origin":"cscli","scenario":"manual ban","scope":"Ip","type":"ban","value":"192.0.2.1"}
 */
export class Ledger {
  readonly rows: Rows;
  /** What changed, by offset. */
  readonly log: Pick<Log, 'eachSince'>;
  readonly #parts: Parts;
  readonly #tombstonesMax: number;
  readonly #sources: number;
  readonly #told = new Set<number>();
  readonly #reads = new Map<number, FullCopy>();
  readonly #listeners = new Set<{ readonly run: (commit: Commit) => void }>();
  #offset = 0;
  #reach = 0;
  /** The last job asked for: the next one begins when it is done. */
  #turn: Promise<unknown> = Promise.resolve();
  #tick: { nowMs: number; readonly done: Promise<void> } | undefined;

  /** @throws HeadgateError HG_OPTION for an option that cannot be used. */
  constructor(options: LedgerOptions = {}) {
    const { sources, tombstonesMax, ...rules } = checkedOptions(options);
    this.#sources = sources;
    this.#tombstonesMax = tombstonesMax;
    this.#parts = makeParts(rules);
    this.rows = this.#parts.rows;
    this.log = this.#parts.log;
  }

  /** Of the last commit; 0: there was none. */
  get offset(): number {
    return this.#offset;
  }

  /** A cursor from here on can be answered with a delta; one below needs a full answer. */
  get reach(): number {
    return this.#reach;
  }

  /** Whether each source has told everything once, in this life or in the one that was restored. */
  get ready(): boolean {
    for (let source = 0; source < this.#sources; source++) if (!this.#told.has(source)) return false;
    return true;
  }

  /** Live rows. */
  get count(): number {
    return this.#parts.tally.count;
  }

  /** Removed rows that are remembered. */
  get tombstones(): number {
    return this.#parts.tally.tombstones;
  }

  /** Bytes of all that is held. */
  get bytes(): number {
    const { rows, groups, index, agenda, log, order, marks } = this.#parts;
    const lists = groups.bytes + index.bytes + agenda.bytes + log.bytes + order.bytes;
    return rows.bytes + lists + marks.rows.length + marks.groups.length;
  }

  /** Live rows by origin and type. */
  counts(): readonly { readonly origin: string; readonly type: string; readonly count: number }[] {
    return this.#parts.tally.pairs(this.rows);
  }

  /** Live rows of one source. */
  sourceCount(source: number): number {
    return this.#parts.tally.ofSource(source).all;
  }

  /**
   * A full copy of a source begins to arrive. An earlier one of the same source that is not committed is abandoned:
   * whoever began it has gone astray, and the later one knows more.
   *
   * @param source - a whole number from 0 to 255
   */
  begin(source: number, options: FullReadOptions): FullRead {
    assert(Number.isInteger(source) && source >= 0 && source <= 255, 'a source is a number from 0 to 255', source);
    this.#reads.get(source)?.abandon();
    const read = new FullCopy(
      this.#parts,
      { ...options, source },
      {
        held: () => {
          const { all, simulated } = this.#parts.tally.ofSource(source);
          return options.simulatedToo === true ? all : all - simulated;
        },
        commit: (intake, nowMs) => this.exclusive(() => this.#takeFull(intake, { ...options, source, nowMs })),
        over: () => this.#reads.delete(source),
      },
    );
    this.#reads.set(source, read);
    return read;
  }

  /**
   * Takes over what a source says has changed: what is gone, then what came.
   *
   * @throws HeadgateError HG_SOURCE (the promise is rejected) when a decision cannot be held; nothing of it is taken then
   */
  async patch(
    source: number,
    { added, removedIds }: DecisionDelta,
    { nowMs, toleranceMs }: { readonly nowMs: number; readonly toleranceMs: number },
  ): Promise<CommitReport> {
    const intake = new Intake();
    const pace = makePace();
    for (const decision of added) {
      intake.take(decision);
      if (pace.due()) await pace.pause();
    }
    return this.exclusive(() => this.#takeDelta(intake, removedIds, { source, nowMs, toleranceMs }));
  }

  /**
   * What time brings: rows end, later ends that were held back are told, removed rows are forgotten. To be called every
   * second; while one waits for its turn, further ones join it.
   */
  tick(nowMs: number): Promise<void> {
    if (this.#tick !== undefined) {
      this.#tick.nowMs = Math.max(this.#tick.nowMs, nowMs);
      return this.#tick.done;
    }
    if (!this.#isDue(nowMs)) return Promise.resolve();
    const done = this.exclusive(() => {
      const latestMs = this.#tick?.nowMs ?? nowMs;
      this.#tick = undefined;
      return this.#advance(latestMs);
    });
    this.#tick = { nowMs, done };
    return done;
  }

  /** How many log entries a delta from there looks at. */
  entriesSince(offset: number): number {
    return this.#parts.log.entriesSince(offset);
  }

  /**
   * Visits the groups at an address: of the networks that hold all of `range`, the widest first; or (`contains` false)
   * of those inside it, which is a walk over all. A group may have no live row. Look-ups must not be nested.
   */
  lookup(range: AddressRange, contains: boolean, visit: (group: number) => void): void {
    this.#parts.groups.lookup(range, contains, visit);
  }

  /** Visits the groups of exactly this value, whatever their scope and type. */
  lookupValue(value: string, visit: (group: number) => void): void {
    this.#parts.groups.lookupValue(value, visit);
  }

  /**
   * Long readers and commits take turns: while `work` runs, nothing is committed or forgotten. It must not wait for a
   * commit, nor for another turn.
   */
  exclusive<T>(work: () => Promise<T>): Promise<T> {
    const run = this.#turn.then(work);
    // what fails is its caller's to know
    this.#turn = run.then(
      () => undefined,
      () => undefined,
    );
    return run;
  }

  /** Each subscription is told once per commit, after readers can see it. */
  subscribe(listener: (commit: Commit) => void): () => void {
    const subscription = { run: listener };
    this.#listeners.add(subscription);
    return () => {
      this.#listeners.delete(subscription);
    };
  }

  /**
   * Brings back what subscribers were given to store, before anything else.
   *
   * @throws HeadgateError HG_STORE (the promise is rejected) when a record is damaged; the ledger is of no use then
   */
  restore(entries: Entries, state: LedgerState): Promise<void> {
    return this.exclusive(async () => {
      assert(this.#offset === 0 && this.rows.size === 0, 'a ledger is restored before anything else', this.#offset);
      const { offset, sources } = await restoreRows(this.#parts, entries, makePace());
      this.#offset = Math.max(state.offset, offset);
      this.#reach = state.reach;
      for (const source of sources) if (state.untold?.includes(source) !== true) this.#told.add(source);
    });
  }

  #isDue(nowMs: number): boolean {
    return this.#parts.agenda.nextMs <= nowMs || this.tombstones > this.#tombstonesMax || isUntidy(this.#parts);
  }

  async #takeFull(intake: Intake, o: FullReadOptions & From): Promise<CommitReport> {
    const { transition, pace } = this.#begin(o.nowMs);
    const merge = new Merge(this.#parts, transition, { ...o, intake });
    await this.#take(merge, intake, { transition, pace });
    await merge.removeMissing(o.simulatedToo ?? false, pace);
    return this.#commit({ transition, pace }, { merge, loaded: o.source });
  }

  async #takeDelta(
    intake: Intake,
    removedIds: readonly number[],
    o: From & { readonly toleranceMs: number },
  ): Promise<CommitReport> {
    const { transition, pace } = this.#begin(o.nowMs);
    const merge = new Merge(this.#parts, transition, { ...o, intake });
    for (const id of removedIds) {
      merge.leave(id);
      if (pace.due()) await pace.pause();
    }
    await this.#take(merge, intake, { transition, pace });
    return this.#commit({ transition, pace }, { merge, loaded: undefined });
  }

  #begin(nowMs: number): Job {
    const pace = makePace();
    return { transition: new Transition(this.#parts, { offset: this.#offset + 1, nowMs, pace }), pace };
  }

  async #take(merge: Merge, intake: Intake, { transition, pace }: Job): Promise<void> {
    let rowsLeft = 0;
    for (let at = 0; at < intake.size; at++) {
      if (merge.find(intake.id[at] as number) < 0) rowsLeft++;
      if (pace.due()) await pace.pause();
    }
    await reserveRows(this.#parts, rowsLeft, pace);
    let groupsLeft = 0;
    for (let at = 0; at < intake.size; at++) {
      // a decision whose content changed takes a row that was not counted
      if (rowsLeft === 0) {
        rowsLeft = GROUPS_AT_ONCE;
        await reserveRows(this.#parts, rowsLeft, pace);
      }
      if (groupsLeft === 0) {
        groupsLeft = Math.min(GROUPS_AT_ONCE, intake.size - at);
        await reserveGroups(this.#parts, groupsLeft, pace);
      }
      const before = transition.addedCount;
      merge.take(at);
      rowsLeft -= transition.addedCount - before;
      groupsLeft -= transition.addedCount - before;
      if (pace.due()) await pace.pause();
    }
  }

  async #commit(job: Job, { merge, loaded }: { merge: Merge; loaded: number | undefined }): Promise<CommitReport> {
    await this.#settle(job, { forgotten: [], loaded });
    const { addedCount: added, removedCount: removed } = job.transition;
    return { offset: this.#offset, added, removed, ...merge.merged };
  }

  /**
   * The end of every job: what it changed becomes visible, in one step, and is told.
   *
   * @param o - `loaded`: the source that has told everything with it
   */
  async #settle(
    { transition }: Job,
    o: { readonly forgotten: readonly string[]; readonly loaded: number | undefined },
  ): Promise<void> {
    await transition.settle();
    const wasReady = this.ready;
    transition.apply();
    if (o.loaded !== undefined) this.#told.add(o.loaded);
    const { empty, addedCount: added, removedCount: removed, publishedCount: published } = transition;
    if (!empty) this.#offset = transition.offset;
    if (!empty || this.ready !== wasReady || o.forgotten.length > 0) {
      const changed = empty ? new Int32Array(0) : transition.changedRows();
      const records = (): Iterable<readonly [string, Uint8Array | undefined]> => this.#records(changed, o.forgotten);
      this.#tell({ offset: this.#offset, reach: this.#reach, added, removed, published, records });
    }
    await transition.finish();
  }

  *#records(changed: Int32Array, forgotten: readonly string[]): Generator<readonly [string, Uint8Array | undefined]> {
    const { rows, agenda } = this.#parts;
    for (const key of forgotten) yield [key, undefined];
    for (const row of changed) {
      const added = rows.added[row] as number;
      // forgotten since
      if (added === 0) continue;
      const held = rows.removed[row] === 0 && (rows.toldMs[row] as number) < (rows.untilMs[row] as number);
      const key = recordKey(rows.source[row] as number, rows.id[row] as number, added);
      yield [key, recordOf(rows, row, held ? agenda.momentOf(row) : 0)];
    }
  }

  async #advance(nowMs: number): Promise<void> {
    const { rows, agenda } = this.#parts;
    const { transition, pace } = this.#begin(nowMs);
    const over: number[] = [];
    while (agenda.nextMs <= nowMs) {
      const row = agenda.pop();
      if (rows.removed[row] !== 0) over.push(row);
      else if ((rows.untilMs[row] as number) <= nowMs) transition.remove(row);
      else transition.publish(row);
      if (pace.due()) await pace.pause();
    }
    const forgotten: string[] = [];
    for (const rowsOver of [over, beyond(this.#parts, this.#tombstonesMax)]) {
      for (const row of rowsOver) {
        forgotten.push(this.#forget(row));
        if (pace.due()) await pace.pause();
      }
    }
    await this.#settle({ transition, pace }, { forgotten, loaded: undefined });
    await tidy(this.#parts, this.#reach, pace);
  }

  /** Forgets a removed row, and answers under which key a store has it. */
  #forget(row: number): string {
    const { rows } = this.#parts;
    const key = recordKey(rows.source[row] as number, rows.id[row] as number, rows.added[row] as number);
    // first of all: from here on no cursor is answered that would have needed it
    this.#reach = Math.max(this.#reach, rows.touched[row] as number);
    forget(this.#parts, row);
    return key;
  }

  #tell(commit: Commit): void {
    for (const listener of Array.from(this.#listeners)) {
      // one that an earlier listener ended hears nothing more
      if (!this.#listeners.has(listener)) continue;
      try {
        listener.run(commit);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}

/** One turn at the ledger. */
interface Job {
  readonly transition: Transition;
  readonly pace: Pace;
}

/** Whose decisions they are, and when. */
interface From {
  readonly source: number;
  readonly nowMs: number;
}

function makePace(): Pace {
  return new Pace(new Slices(), STEPS_PER_LOOK);
}
