import type { PendingWrite } from '../dataset/index.ts';
import { type Clock, HeadgateError, messageOf, type Timer } from '../kernel/index.ts';
import {
  agesOf,
  deletionsOf,
  type Difference,
  differenceOf,
  differenceWrites,
  groupsOf,
  type Job,
  logAfter,
  type LogRecord,
  type Mark,
  markOf,
  type Place,
  type Whole,
  wholeOf,
  wholeWrites,
} from './flags-jobs.ts';
import type { FlagKeep, KeptFlags } from './flags-keep.ts';
import { counts, KeptReader } from './flags-kept.ts';
import {
  type FlagState,
  readState,
  recordsOf,
  type Slot,
  STATES,
  stateWrite,
  type Tables,
  tablesOf,
} from './flags-records.ts';
import { type GroupWriter, STORE_MS_MAX } from './flags-writer.ts';
import type { Store, Write } from './store.ts';

/** What a keep needs of its keeper. */
export interface KeepHost {
  readonly store: Store;
  readonly clock: Clock;
  readonly writer: GroupWriter;
  readonly wallNow: () => number;
  /** What was kept cannot be read, and counts as nothing. */
  readonly onUnreadable: (error: HeadgateError) => void;
  /** Something was not written. It is tried again. */
  readonly onFailure: (error: HeadgateError) => void;
  /** Everything is written. */
  readonly onIdle: () => void;
  /** Settles when nothing else touches this data set's records. */
  readonly free: Promise<unknown>;
}

/** What may wait for a store that is slow or fails. Beyond it the newest data are written whole instead. */
const JOBS_MAX = 1000;
const JOBS_BYTES_MAX = 16 * 1024 * 1024;
/** A data set forgets its oldest deletions and says nothing of it: what it still knows is written whole after so many. */
const DELETIONS_MAX = 200_000;
/** One write of many when everything is written: a transaction is in memory until it is done. */
const GROUP_BYTES = 4 * 1024 * 1024;
/** A deletion weighs its key. */
const DELETE_BYTES = 100;
/** A selector that is behind costs a few changes that are known already. */
const SELECTOR_MS_MAX = 1000;
/** How far `savedMs` may be behind while nothing changes. */
const HEARTBEAT_MS = 60_000;
/** A disk that is full stays so for a while. */
const RETRY_MS_MIN = 1000;
const RETRY_MS_MAX = 30_000;
/** What is not written when this process ends is fetched again by the next. */
const CLOSE_MS_MAX = 10_000;

/** Keeps one data set of flags in a store. */
export class StoreKeep implements FlagKeep {
  readonly #id: string;
  readonly #host: KeepHost;
  readonly #reader: KeptReader;
  /** What the store holds of it; undefined when that is not known, or cannot be gone on from. */
  #stored: FlagState | undefined;
  #log: readonly LogRecord[] = [];
  #nextAge = 0;
  /** Graves that were found, and written since, or since everything was written. */
  #deletions = 0;
  /** What the store will hold when all jobs are done. */
  #tail: Place | undefined;
  #logFirst = 0;
  #mark: Mark | undefined;
  #marked: Mark | undefined;
  #markTimer: Timer | undefined;
  #markAtMs = Number.POSITIVE_INFINITY;
  #jobs: Job[] = [];
  #jobsBytes = 0;
  #running: Promise<void> | undefined;
  /** A write was not waited for: until everything is written, none is. */
  #behind = false;
  #failed = false;
  #wake: (() => void) | undefined;
  #closed: Promise<void> | undefined;
  /** Nobody waits for it any more, and another keep may be at work. */
  #abandoned = false;

  constructor(id: string, host: KeepHost) {
    this.#id = id;
    this.#host = host;
    this.#reader = new KeptReader(host.store, host.clock, id);
  }

  /** Whether the store holds everything. */
  get idle(): boolean {
    return this.#running === undefined;
  }

  get closed(): boolean {
    return this.#closed !== undefined;
  }

  async restore(): Promise<KeptFlags | undefined> {
    try {
      await this.#reader.until(this.#host.free);
      const bytes = await this.#reader.get(STATES, this.#id);
      const state = bytes && readState(this.#id, bytes);
      if (!counts(state)) return undefined;
      const tables = tablesOf(this.#id, state.slot);
      const { tombstones, log, records, nextAge } = await this.#reader.find(tables);
      const { offset, digest, clock, savedMs, state: selector } = state;
      this.#stored = state;
      this.#log = records;
      this.#nextAge = nextAge;
      this.#deletions = tombstones.length;
      this.#tail = { offset, digest, clock };
      this.#logFirst = (records[0]?.offset ?? offset - 1) + 1;
      this.#mark = { savedMs, state: selector };
      this.#marked = this.#mark;
      const found = { items: this.#reader.items(tables), tombstones, log, offset, digest, clock, savedMs };
      return selector === undefined ? found : { ...found, state: selector };
    } catch (thrown) {
      this.#host.onUnreadable(asStoreError(this.#id, thrown));
      return undefined;
    }
  }

  prepare(write: PendingWrite): Promise<void> {
    if (this.#closed !== undefined) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = this.#host.clock.after(STORE_MS_MAX, () => {
        this.#behind = true;
        resolve();
      });
      this.#ask(write, () => {
        timer.cancel();
        resolve();
      });
      if (!this.#behind) return;
      timer.cancel();
      resolve();
    });
  }

  committed(state: string | undefined): void {
    if (this.#closed !== undefined) return;
    this.#mark = { savedMs: this.#host.wallNow(), state };
    if (this.#tail !== undefined) this.#markWithin(state === this.#marked?.state ? HEARTBEAT_MS : SELECTOR_MS_MAX);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#markTimer?.cancel();
    if (this.#mark !== this.#marked) this.#askMark();
    this.#wake?.();
    if (this.#running === undefined) return;
    let timer: Timer | undefined;
    const late = new Promise<void>((resolve) => {
      timer = this.#host.clock.after(CLOSE_MS_MAX, () => {
        this.#abandoned = true;
        resolve();
      });
    });
    await Promise.race([this.#running, late]);
    timer?.cancel();
  }

  #ask(write: PendingWrite, done: () => void): void {
    const mark = (this.#mark ??= { savedMs: this.#host.wallNow(), state: undefined });
    const difference = this.#follows(write) ? differenceOf(write, mark, done) : undefined;
    this.#tail = { offset: write.offset, digest: write.digest, clock: write.clock };
    this.#logFirst = write.logFirst;
    if (difference !== undefined && this.#hasRoom(difference)) {
      this.#deletions += deletionsOf(difference);
      this.#push(difference);
    } else {
      // whoever waited for one of these is told when there is more than that
      const dones = this.#jobs.map((job) => job.done);
      this.#jobs = [];
      this.#jobsBytes = 0;
      this.#deletions = 0;
      this.#push(wholeOf(write, mark, () => [...dones, done].forEach((each) => each())));
    }
  }

  /** Whether a write is a difference to what the store will hold. */
  #follows({ result, before }: PendingWrite): boolean {
    if (result === 'loaded' || result === 'reset') return false;
    const { offset, digest, clock } = this.#tail ?? {};
    return offset === before.offset && digest === before.digest && clock === before.clock;
  }

  #hasRoom({ bytes }: Difference): boolean {
    if (this.#deletions > DELETIONS_MAX) return false;
    return this.#jobs.length < JOBS_MAX && this.#jobsBytes + bytes <= JOBS_BYTES_MAX;
  }

  #push(job: Job): void {
    this.#jobs.push(job);
    this.#jobsBytes += job.bytes;
    this.#marked = job.mark;
    this.#running ??= this.#run();
  }

  #markWithin(delayMs: number): void {
    const atMs = this.#host.clock.now() + delayMs;
    if (atMs >= this.#markAtMs) return;
    this.#markTimer?.cancel();
    this.#markAtMs = atMs;
    this.#markTimer = this.#host.clock.after(delayMs, () => {
      this.#markAtMs = Number.POSITIVE_INFINITY;
      // one that failed is written with what waits, or by the next
      if (this.#mark !== this.#marked && !this.#failed) this.#askMark();
    });
  }

  #askMark(): void {
    if (this.#tail !== undefined) this.#push(markOf(this.#tail, this.#logFirst, this.#mark!, () => {}));
  }

  async #run(): Promise<void> {
    await this.#host.free;
    let retryMs = RETRY_MS_MIN;
    while (this.#jobs.length > 0) {
      const jobs = this.#take();
      try {
        await this.#write(jobs);
        retryMs = RETRY_MS_MIN;
      } catch (thrown) {
        this.#fail(jobs, thrown);
        // once more is enough at the end
        if (this.#closed !== undefined) break;
        await this.#pause(retryMs);
        retryMs = Math.min(retryMs * 2, RETRY_MS_MAX);
      }
    }
    // not after an await: what is asked for from here on begins anew
    this.#running = undefined;
    if (this.#jobs.length > 0) return;
    this.#behind = false;
    this.#host.onIdle();
  }

  async #write(jobs: readonly Job[]): Promise<void> {
    const [first] = jobs;
    if (first?.kind === 'whole') await this.#writeWhole(first);
    else await this.#writeDifferences(jobs as readonly Difference[]);
    this.#failed = false;
    for (const { done } of jobs) done();
  }

  #fail(jobs: readonly Job[], thrown: unknown): void {
    this.#failed = true;
    this.#behind = true;
    for (const { done } of jobs) done();
    this.#putBack(jobs);
    this.#host.onFailure(asStoreError(this.#id, thrown));
  }

  /** Everything, or as many differences as there are. */
  #take(): readonly Job[] {
    const isWhole = this.#jobs[0]!.kind === 'whole';
    const jobs = this.#jobs.splice(0, isWhole ? 1 : this.#jobs.length);
    for (const { bytes } of jobs) this.#jobsBytes -= bytes;
    return jobs;
  }

  #putBack(jobs: readonly Job[]): void {
    // what is written whole has them in it
    if (this.#jobs[0]?.kind === 'whole') return;
    this.#jobs = [...jobs, ...this.#jobs];
    for (const { bytes } of jobs) this.#jobsBytes += bytes;
  }

  async #writeDifferences(jobs: readonly Difference[]): Promise<void> {
    const { slot } = this.#stored!;
    const tables = tablesOf(this.#id, slot);
    const state = stateOf(jobs.at(-1)!, slot);
    const changes = differenceWrites(tables, jobs, this.#log, this.#nextAge);
    const bytes = jobs.reduce((sum, job) => sum + job.bytes, 0);
    await this.#send(thenState(changes, stateWrite(this.#id, state)), bytes);
    this.#stored = state;
    this.#log = logAfter(this.#log, jobs);
    this.#nextAge += agesOf(jobs);
  }

  /** Into the place that does not count; one record then says that it does. */
  async #writeWhole(job: Whole): Promise<void> {
    const slot: Slot = (await this.#slotThatCounts()) === 0 ? 1 : 0;
    const tables = tablesOf(this.#id, slot);
    await this.#clear(tables);
    const ages = { next: 0 };
    for (const group of groupsOf(wholeWrites(tables, job, ages), GROUP_BYTES)) {
      await this.#send(group, GROUP_BYTES);
    }
    const state = stateOf(job, slot);
    await this.#send([stateWrite(this.#id, state)], 0);
    this.#stored = state;
    this.#log = job.log.map((batch) => ({ offset: batch.offset, records: recordsOf(batch) }));
    this.#nextAge = ages.next;
    const old = tablesOf(this.#id, slot === 0 ? 1 : 0);
    // what is left of it is cleared before it is written to
    await this.#clear(old).catch(() => {});
  }

  async #slotThatCounts(): Promise<Slot | undefined> {
    if (this.#stored !== undefined) return this.#stored.slot;
    const bytes = await this.#host.writer.watch(this.#host.store.get(STATES, this.#id));
    try {
      return bytes && readState(this.#id, bytes).slot;
    } catch {
      // what nobody can read counts for nobody
      return undefined;
    }
  }

  async #clear(tables: Tables): Promise<void> {
    for (const table of Object.values(tables) as string[]) {
      for await (const group of this.#reader.groups(table)) {
        const deletes = group.map(([key]): Write => ({ table, key, value: undefined }));
        await this.#send(deletes, DELETE_BYTES * deletes.length);
      }
    }
  }

  #send(writes: Iterable<Write>, bytes: number): Promise<void> {
    if (this.#abandoned) throw new HeadgateError('HG_STORE', `Cannot keep ${this.#id}: it was closed`);
    return this.#host.writer.write(writes, { bytes, alone: this.#failed });
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#host.clock.after(ms, () => this.#wake?.());
      this.#wake = () => {
        timer.cancel();
        this.#wake = undefined;
        resolve();
      };
    });
  }
}

function stateOf({ offset, digest, clock, mark }: Job, slot: Slot): FlagState {
  const { savedMs, state } = mark;
  const kept = { slot, offset, digest, clock, savedMs };
  return state === undefined ? kept : { ...kept, state };
}

function* thenState(writes: Iterable<Write>, state: Write): Generator<Write> {
  yield* writes;
  yield state;
}

function asStoreError(id: string, thrown: unknown): HeadgateError {
  if (thrown instanceof HeadgateError) return thrown;
  return new HeadgateError('HG_STORE', `Cannot keep ${id}: ${messageOf(thrown)}`, { cause: thrown });
}
