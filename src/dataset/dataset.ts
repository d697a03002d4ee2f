import { HeadgateError, Slices } from '../kernel/index.ts';
import { compareParts, draftPart, type Edit, emptyPart } from './draft.ts';
import { type Incoming, takeChanges, takeItems } from './intake.ts';
import type { Change, Item } from './item.ts';
import type { KeptData, PendingWrite } from './kept.ts';
import type { Encoding, Leaf } from './leaf.ts';
import { type Batch, type CatchUp, ChangeLog, changeBytes, makeMemo, type Prepared } from './log.ts';
import { checkedOptions, type DataSetOptions } from './options.ts';
import { pendingWrite } from './pending.ts';
import { type Pin, Pins } from './pins.ts';
import type { Position } from './position.ts';
import { type Resolved, resolve, type Versions } from './resolve.ts';
import { takeKept } from './restore.ts';
import { type Part, Snapshot } from './snapshot.ts';
import { type Tombstone, Tombstones } from './tombstones.ts';
import { Usage } from './usage.ts';

/** Long enough that a fleet which comes back every few minutes finds its pages. */
const IDLE_MS = 10 * 60 * 1000;

/** What became of a write. */
export interface Outcome {
  /**
   * 'loaded': the data set became ready. 'unchanged': it held this already. 'changed': one batch, which clients get.
   * 'reset': taken over, but a version did not rise, so clients need a full copy.
   */
  readonly result: 'loaded' | 'unchanged' | 'changed' | 'reset';
  /** How many keys changed. */
  readonly changed: number;
  /** The batch, when there is one. */
  readonly batch: Batch | undefined;
}

/** What `since` says of a position. */
export type Since = { readonly kind: 'current' } | CatchUp | { readonly kind: 'full' } | { readonly kind: 'ahead' };

/** What listeners are told: a batch, or that everybody needs a full copy. */
export type DataSetEvent = { readonly type: 'batch'; readonly batch: Batch } | { readonly type: 'reset' };

/** The log as readers see it. */
export interface LogView {
  /** Offsets in [first, next) can be read: those of this process, as far as the log reaches back. */
  readonly first: number;
  readonly next: number;
  at(offset: number): Batch | undefined;
}

/**
 * Keyed items with versions, their last changes, and whole copies of them in any shape.
 *
 * One writer, many readers: writes are done one after the other, in the order of the calls, each in slices that leave
 * the event loop free; readers see the state before or the state after, never one between.
 *
 * @example
 * const dataSet = new DataSet({ name: 'production', kinds: ['flags', 'segments'] });
 * await dataSet.replace([{ kind: 'flags', key: 'a', version: 1, text: '{"key":"a","version":1}' }]);
 * const { digest, clock } = dataSet.snapshot();
 * await dataSet.apply([{ kind: 'flags', key: 'a', version: 2, item: undefined }]);
 * const since = dataSet.since({ digest, clock, view: 'fdv2' });
 * console.log(since.kind); // changes
 * if (since.kind === 'changes') console.log(since.keys.map(({ key, version }) => `${key} ${version}`)); // [ 'a 2' ]
 */
export class DataSet {
  readonly name: string;
  readonly kinds: readonly string[];
  /** The log, for those who follow it by offset. */
  readonly log: LogView;
  readonly #log: ChangeLog;
  readonly #tombstonesMax: number;
  readonly #beforeCommit: (write: PendingWrite) => Promise<void>;
  #tombstones: Tombstones;
  readonly #pins = new Pins();
  readonly #usage = new Usage();
  readonly #listeners = new Set<{ readonly run: (event: DataSetEvent) => void }>();
  #snapshot: Snapshot;
  #clock = 0n;
  readonly #firstClock: bigint;
  #ready = false;
  /** The last write asked for: the next one begins when it is done. */
  #turn: Promise<unknown> = Promise.resolve();

  /** @throws HeadgateError HG_OPTION for an option that cannot be used. */
  constructor(options: DataSetOptions) {
    const checked = checkedOptions(options);
    const { name, kinds, logMaxBatches, logMaxBytes, tombstonesMax, firstOffset, firstClock, tombstones } = checked;
    this.name = name;
    this.#beforeCommit = checked.beforeCommit;
    this.#tombstonesMax = tombstonesMax;
    this.kinds = kinds;
    const parts = new Map(kinds.map((kind) => [kind, emptyPart(kind)]));
    this.#tombstones = new Tombstones(tombstonesMax);
    this.#firstClock = BigInt(firstClock);
    for (const { kind, key, version } of tombstones) {
      this.#tombstones.bury(kind, key, version);
      this.#clock += BigInt(version);
    }
    const offset = firstOffset - 1;
    this.#snapshot = new Snapshot({ parts, offset, clock: safe(this.#clock), usage: this.#usage });
    this.#log = new ChangeLog({ maxBatches: logMaxBatches, maxBytes: logMaxBytes }, this.#snapshot, offset);
    this.log = this.#log;
  }

  /** Whether the first data have arrived. Before, there is nothing to deliver. */
  get ready(): boolean {
    return this.#ready;
  }

  /** Everything as it is now. */
  snapshot(): Snapshot {
    return this.#snapshot;
  }

  /**
   * Takes changes over, as one batch. Those that change nothing are left out; of several of one key the last counts.
   * Rejects, and changes nothing, when one of them cannot be used or no data have arrived yet (HG_SOURCE).
   *
   * @param versions - whose versions count; with 'source' one that does not rise breaks the log (`reset`)
   */
  apply(changes: readonly Change[], versions: Versions = 'source'): Promise<Outcome> {
    const taken = changes.slice();
    return this.#inTurn(async (slices) => {
      if (!this.#ready)
        throw new HeadgateError(
          'HG_SOURCE',
          `Cannot apply changes to ${this.name}: it must be loaded first, got changes`,
        );
      return this.#write(await takeChanges(this.kinds, taken, slices), { versions, whole: false }, slices);
    });
  }

  /**
   * Takes a whole data set over: any order, of a key that comes twice the last counts. It is compared with what is
   * held by key, version and text, and the difference becomes one batch; what did not come is deleted. The first one
   * makes the data set ready. Rejects, and changes nothing, when the iterable throws or an item cannot be used.
   *
   * Writes that are asked for later wait for it, so an iterable that waits for a source must give up by itself.
   */
  replace(items: Iterable<Item> | AsyncIterable<Item>, versions: Versions = 'source'): Promise<Outcome> {
    return this.#inTurn(async (slices) => {
      return this.#write(await takeItems(this.kinds, items, slices), { versions, whole: true }, slices);
    });
  }

  /**
   * Goes on from an earlier life: positions and offsets that were given out then are known again, as far as the log that
   * was kept reaches back. Before any data; it makes the data set ready, and listeners hear `reset`.
   *
   * Rejects with HG_STORE, and takes nothing, when the items do not add up to the digest or the log does not lead to it.
   *
   * @example
   * const kept: PendingWrite[] = [];
   * const options = { name: 'production', kinds: ['flags'] };
   * const before = new DataSet({ ...options, beforeCommit: async (write) => void kept.push(write) });
   * await before.replace([{ kind: 'flags', key: 'a', version: 1, text: '{"key":"a","version":1}' }]);
   * const [write] = kept;
   * const after = new DataSet(options);
   * await after.restore({ ...write!, items: write!.items(), tombstones: [], log: write!.log() });
   * console.log(after.snapshot().digest === before.snapshot().digest); // true
   */
  restore(kept: KeptData): Promise<void> {
    return this.#inTurn(async (slices) => {
      if (this.#ready) throw new HeadgateError('HG_STORE', `Cannot restore ${this.name}: it must be new, got data`);
      const { snapshot, tombstones, log } = await takeKept(
        kept,
        {
          name: this.name,
          kinds: this.kinds,
          meter: this.#pins.meter,
          usage: this.#usage,
          tombstonesMax: this.#tombstonesMax,
        },
        slices,
      );
      this.#tombstones = tombstones;
      this.#clock = BigInt(kept.clock);
      this.#snapshot = snapshot;
      this.#log.resume(log);
      const evicted = this.#log.evict();
      this.#ready = true;
      this.#tell({ type: 'reset' });
      await this.#log.forget(evicted, slices);
    });
  }

  /**
   * What a client that comes back with a position needs. A position of another view is not known here: compare its
   * view first.
   *
   * @param o - `frozen`: the client may hold more than its position says, as it names one of long ago. Its digest alone
   *   proves nothing then: it is 'current' only when the log shows the very state at which the position was given out,
   *   and nothing touched since.
   */
  since(position: Position | undefined, o: { readonly frozen?: boolean } = {}): Since {
    if (position === undefined || !this.#ready) return { kind: 'full' };
    const { digest, clock } = this.#snapshot;
    if (o.frozen !== true && position.digest === digest) return { kind: 'current' };
    const state =
      o.frozen === true
        ? this.#log.stateAt(position.digest, position.clock, clock)
        : this.#log.stateOf(position.digest);
    if (state === this.#log.next) return { kind: 'current' };
    if (state !== undefined) return this.#log.since(state);
    return { kind: position.clock > clock && position.digest !== digest ? 'ahead' : 'full' };
  }

  /** The version that a key has, or was deleted at as far as that is remembered. */
  versionOf(kind: string, key: string): number | undefined {
    return this.#snapshot.get(kind, key)?.version ?? this.#tombstones.versionOf(kind, key);
  }

  /** The deletions that are remembered, oldest first: what a store keeps beside the items. */
  tombstones(): Iterable<Tombstone> {
    return this.#tombstones;
  }

  /**
   * What a client that was sent everything before `offset` needs; nothing to send when that is the newest. Undefined when
   * the log does not reach back that far, or was broken since.
   *
   * @example
   * const dataSet = new DataSet({ name: 'decisions', kinds: ['decisions'] });
   * await dataSet.replace([]);
   * const cursor = dataSet.snapshot().offset;
   * const ban = { kind: 'decisions', key: '1', version: 1, text: '{"id":1,"value":"192.0.2.7"}' };
   * await dataSet.apply([{ ...ban, item: ban }]);
   * console.log(dataSet.sinceOffset(cursor)?.keys.length); // 1
   * console.log(dataSet.sinceOffset(cursor - 1)); // undefined
   */
  sinceOffset(offset: number): CatchUp | undefined {
    return offset >= this.#log.reach && offset <= this.#log.next ? this.#log.since(offset) : undefined;
  }

  /** Holds the snapshot of now until it is released: for a delivery, from when it was admitted to its last byte. */
  pin(): Pin {
    return this.#pins.pin(this.#snapshot);
  }

  /** Bytes of leaves, texts and encodings, that only pins keep alive. */
  get pinnedBytes(): number {
    return this.#pins.meter.pinnedBytes;
  }

  /** Tells `listener` how many bytes a release gave back, when it gave any. The answer ends it. */
  onFreed(listener: (freedBytes: number) => void): () => void {
    return this.#pins.onFreed(listener);
  }

  /**
   * What turns an earlier snapshot into the one of now, deletions included: for a client whose copy took longer than
   * the log reaches back. Undefined when a version would not rise on the way: the client needs a full copy.
   */
  async difference(from: Snapshot): Promise<CatchUp | undefined> {
    const now = this.#snapshot;
    const slices = new Slices();
    const keys: Change[] = [];
    let bytes = 0;
    let rises = true;
    for (const [kind, part] of now.parts) {
      const found = ({ key, before, after }: Edit): void => {
        if (before !== undefined && after !== undefined && after.version <= before.version) rises = false;
        const version = after?.version ?? Math.max(before!.version + 1, this.#tombstones.versionOf(kind, key) ?? 0);
        const change = { kind, key, version, item: after };
        keys.push(change);
        bytes += changeBytes(change);
      };
      await compareParts(from.parts.get(kind) ?? emptyPart(kind), part, found, slices);
    }
    if (!rises) return undefined;
    const { digest, clock, offset } = now;
    return { kind: 'changes', from: from.offset, to: offset, keys, digest, clock, bytes, memo: makeMemo() };
  }

  /**
   * Tells `listener` of every batch, and of every reset, at the moment at which readers see it. Each call is a
   * subscription of its own, ended by its answer. Listeners must not throw: the write stands and the others are told,
   * and what was thrown is thrown again outside.
   */
  subscribe(listener: (event: DataSetEvent) => void): () => void {
    const subscription = { run: listener };
    this.#listeners.add(subscription);
    return () => void this.#listeners.delete(subscription);
  }

  /**
   * Lets go of encodings that nobody asked for since `idleMs`, on a clock of the caller's. Call it now and then.
   *
   * @example
   * const dataSet = new DataSet({ name: 'production', kinds: ['flags'] });
   * dataSet.trim(performance.now());
   */
  trim(nowMs: number, idleMs: number = IDLE_MS): void {
    for (const encoding of ['identity', 'gzip'] satisfies Encoding[]) {
      for (const shape of this.#usage.idle(encoding, nowMs, idleMs)) this.#snapshot.forget(shape, encoding);
    }
  }

  #inTurn<T>(write: (slices: Slices) => Promise<T>): Promise<T> {
    const run = this.#turn.then(() => write(new Slices()));
    this.#turn = run.catch(() => {});
    return run;
  }

  async #write(incoming: Incoming, how: { versions: Versions; whole: boolean }, slices: Slices): Promise<Outcome> {
    const before = this.#snapshot;
    const resolved = await resolve(incoming, { snapshot: before, tombstones: this.#tombstones }, how, slices);
    const parts = new Map<string, Part>();
    const retired: Leaf[] = [];
    for (const [kind, part] of before.parts) {
      const drafted = await draftPart(part, resolved.edits.get(kind) ?? [], this.#pins.meter, slices);
      parts.set(kind, drafted.part);
      retired.push(...drafted.retired);
    }
    const { changes, graves, rise } = resolved;
    let clock = this.#clock + rise;
    if (!this.#ready && clock < this.#firstClock) clock = this.#firstClock;
    const result = this.#resultOf(resolved);
    if (result !== 'unchanged') {
      const offset = result === 'clock' ? this.#log.next : this.#log.next + 1;
      const snapshot = new Snapshot({ parts, offset, clock: safe(clock), usage: this.#usage });
      const prepared = result === 'changed' ? await this.#log.prepare(changes, slices) : undefined;
      const pending = pendingWrite(
        { result, isWhole: how.whole, before, snapshot, resolved, prepared },
        this.#log,
        this.#tombstones,
      );
      await this.#beforeCommit(pending);
      return this.#commit({ result, snapshot, retired, clock, resolved, prepared }, slices);
    }
    await this.#tombstones.take(graves, slices);
    return { result, changed: 0, batch: undefined };
  }

  /** 'clock': only versions of what is not there, but positions given out from now on say the new clock. */
  #resultOf({ changes, rise, broken }: Resolved): PendingWrite['result'] | 'unchanged' {
    if (!this.#ready) return 'loaded';
    if (broken) return 'reset';
    if (changes.length > 0) return 'changed';
    return rise > 0n ? 'clock' : 'unchanged';
  }

  /** Nothing in here can fail, and nothing of it is seen before the one assignment of the snapshot. */
  async #commit({ result, snapshot, retired, clock, resolved, prepared }: Draft, slices: Slices): Promise<Outcome> {
    const changed = resolved.changes.length;
    await this.#tombstones.take(resolved.changes, slices);
    await this.#tombstones.take(resolved.graves, slices);
    if (prepared !== undefined) await this.#log.enter(prepared, slices);
    this.#clock = clock;
    this.#snapshot = snapshot;
    for (const leaf of retired) leaf.retire();
    if (prepared !== undefined) {
      const batch = this.#log.append(prepared, snapshot);
      const evicted = this.#log.evict();
      this.#tell({ type: 'batch', batch });
      await this.#log.forget(evicted, slices);
      return { result: 'changed', changed, batch };
    }
    if (result === 'clock') return { result: 'unchanged', changed: 0, batch: undefined };
    // whether there were no data before or a version did not rise: every position from before is unknown from here on
    this.#log.break(snapshot);
    this.#ready = true;
    this.#tell({ type: 'reset' });
    return { result: result === 'loaded' ? 'loaded' : 'reset', changed, batch: undefined };
  }

  #tell(event: DataSetEvent): void {
    for (const listener of Array.from(this.#listeners)) {
      // one that an earlier listener ended hears nothing more
      if (!this.#listeners.has(listener)) continue;
      try {
        listener.run(event);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}

/** What is ready to become the snapshot. */
interface Draft {
  readonly result: PendingWrite['result'];
  readonly snapshot: Snapshot;
  readonly retired: readonly Leaf[];
  readonly clock: bigint;
  readonly resolved: Resolved;
  /** The batch, for 'changed'. */
  readonly prepared: Prepared | undefined;
}

/** Above the safe integers a clock says no more than "very old or very new", which is all that a hint must say. */
function safe(clock: bigint): number {
  return clock > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(clock);
}
