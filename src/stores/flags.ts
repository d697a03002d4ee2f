import type { Clock, HeadgateError } from '../kernel/index.ts';
import type { FlagKeep } from './flags-keep.ts';
import { readState, type Slot, STATES, stateWrite, tablesOf } from './flags-records.ts';
import { type KeepHost, StoreKeep } from './flags-store-keep.ts';
import { GroupWriter } from './flags-writer.ts';
import type { Store, Write } from './store.ts';

/** Settings of {@link FlagKeeper}. */
export interface FlagKeeperOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** Unix time in milliseconds; default the machine's. */
  readonly wallNow?: () => number;
  /**
   * The store failed, or has not answered for 2 seconds, for the first time since it last worked; what is served does not
   * depend on it, and it is tried again. Also: what was kept of a data set cannot be read.
   */
  onFailure(error: HeadgateError): void;
  /** The store works again, and holds everything. */
  onRecovery?(): void;
}

/** A small record beside the data. */
export interface KeptRecord {
  /** What was saved last; undefined when nothing was. Rejects with HG_STORE. */
  load(): Promise<Uint8Array | undefined>;
  /** Resolves when it survives the process. Rejects with HG_STORE; what was there before stays then. */
  save(bytes: Uint8Array): Promise<void>;
}

const RECORDS = 'flag-records';
/** A deletion weighs its key. */
const DELETE_BYTES = 100;

/**
 * Keeps data sets of flags in a store: each write whole, before anybody is told of it.
 *
 * ```
 *  a write ── difference ─► the changed items, the batch, the state ─► one write for all that wait ─► clients are told
 *          └─ whole ──────► everything, in groups, beside what counts until one record says otherwise
 * ```
 *
 * So whatever moment a process dies at, the store holds one state that each data set was in, and the log that leads to it.
 * A store that fails or is slow holds nobody up for longer than 2 seconds: what is missing waits for it.
 *
 * @example
 * import { DataSet } from 'headgate/dataset';
 *
 * const keeper = new FlagKeeper({ store: openMemoryStore(), clock: systemClock, onFailure: (error) => console.log(error) });
 * const flags = { name: 'production', kinds: ['flags'] };
 * const first = keeper.keep('production');
 * const data = new DataSet({ ...flags, beforeCommit: (write) => first.prepare(write) });
 * await data.replace([{ kind: 'flags', key: 'a', version: 1, text: '{"key":"a","version":1}' }]);
 * first.committed(undefined);
 * await first.close();
 *
 * const kept = await keeper.keep('production').restore();
 * const again = new DataSet(flags);
 * if (kept !== undefined) await again.restore(kept);
 * console.log(again.snapshot().count); // 1
 */
export class FlagKeeper {
  readonly #options: FlagKeeperOptions;
  readonly #writer: GroupWriter;
  readonly #keeps = new Map<string, StoreKeep>();
  /** What must be over before the records of a data set are touched again. */
  readonly #ends = new Map<string, Promise<unknown>>();
  #failing = false;

  constructor(options: FlagKeeperOptions) {
    this.#options = options;
    this.#writer = new GroupWriter(options.store, options.clock, (error) => this.#fail(error));
  }

  /** Whether something could not be written, and is still missing. */
  get failing(): boolean {
    return this.#failing;
  }

  /** What keeps the data set of this name. One that was closed before is over, and another one goes on from it. */
  keep(id: string): FlagKeep {
    const open = this.#keeps.get(id);
    if (open?.closed === false) return open;
    if (open !== undefined) void this.#end(id, open.close());
    const { store, clock, wallNow = Date.now } = this.#options;
    const host: KeepHost = {
      store,
      clock,
      writer: this.#writer,
      wallNow,
      onUnreadable: (error) => this.#options.onFailure(error),
      onFailure: (error) => this.#fail(error),
      onIdle: () => this.#recover(),
      free: this.#ends.get(id) ?? Promise.resolve(),
    };
    const keep = new StoreKeep(id, host);
    this.#keeps.set(id, keep);
    return keep;
  }

  /** Forgets a data set. A store that fails is told of, and the data set is among the `ids` still or goes with the next. */
  async remove(id: string): Promise<void> {
    const keep = this.#keeps.get(id);
    this.#keeps.delete(id);
    const removed = (async (): Promise<void> => {
      await this.#ends.get(id);
      await keep?.close();
      await this.#remove(id);
    })();
    await this.#end(id, removed);
  }

  /** The data sets that are kept; what is left of removed ones goes now. Rejects with HG_STORE. */
  async ids(): Promise<string[]> {
    const ids: string[] = [];
    for await (const group of this.#options.store.entries(STATES)) {
      for (const [id, bytes] of group) {
        if (!isRemoved(id, bytes)) ids.push(id);
        // the process ended, or the store failed, before everything of it was cleared away
        else if (!this.#keeps.has(id) && !this.#ends.has(id)) void this.remove(id);
      }
    }
    return ids;
  }

  /** A record of a front, of a name of its own. */
  record(name: string): KeptRecord {
    const { store } = this.#options;
    return {
      load: () => store.get(RECORDS, name),
      save: async (bytes) => {
        await this.#writer.write([{ table: RECORDS, key: name, value: bytes }], { bytes: bytes.length });
        this.#recover();
      },
    };
  }

  #end(id: string, end: Promise<unknown>): Promise<void> {
    const before = this.#ends.get(id);
    const ended = Promise.all([before, end]).then(
      () => {},
      (error: HeadgateError) => this.#fail(error),
    );
    this.#ends.set(id, ended);
    void ended.then(() => {
      if (this.#ends.get(id) === ended) this.#ends.delete(id);
    });
    return ended;
  }

  /** First it counts no more, in one write; then it is cleared away. */
  async #remove(id: string): Promise<void> {
    const { store } = this.#options;
    if ((await store.get(STATES, id)) === undefined) return;
    const nothing = { slot: 0, offset: 0, digest: '', clock: 0, savedMs: 0, removed: true } as const;
    await this.#writer.write([stateWrite(id, nothing)], { bytes: DELETE_BYTES });
    for (const slot of [0, 1] satisfies Slot[]) {
      for (const table of Object.values(tablesOf(id, slot)) as string[]) {
        for await (const group of store.entries(table)) {
          const deletes = group.map(([key]): Write => ({ table, key, value: undefined }));
          await this.#writer.write(deletes, { bytes: DELETE_BYTES * deletes.length });
        }
      }
    }
    await this.#writer.write([{ table: STATES, key: id, value: undefined }], { bytes: DELETE_BYTES });
  }

  #fail(error: HeadgateError): void {
    if (this.#failing) return;
    this.#failing = true;
    this.#options.onFailure(error);
  }

  #recover(): void {
    if (!this.#failing || [...this.#keeps.values()].some(({ idle }) => !idle)) return;
    this.#failing = false;
    this.#options.onRecovery?.();
  }
}

/** What cannot be read is there. */
function isRemoved(id: string, bytes: Uint8Array): boolean {
  try {
    return readState(id, bytes).removed === true;
  } catch {
    return false;
  }
}
