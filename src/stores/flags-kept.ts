import type { Item, KeptBatch, Tombstone } from '../dataset/index.ts';
import { type Clock, HeadgateError, Slices } from '../kernel/index.ts';
import type { LogRecord } from './flags-jobs.ts';
import { type FlagState, readBatch, readGrave, readItem, type Tables } from './flags-records.ts';
import type { Entry, Store } from './store.ts';

/** How long a start waits for a store that does not answer. Beyond it the data are fetched anew. */
const READ_MS_MAX = 10_000;

/** A data set as it lies in the store. */
export interface Found {
  readonly tombstones: readonly Tombstone[];
  readonly log: readonly KeptBatch[];
  readonly records: readonly LogRecord[];
  /** Above that of every grave. */
  readonly nextAge: number;
}

/** Reads what belongs to one data set. Every method rejects with HG_STORE when it cannot be read. */
export class KeptReader {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #id: string;

  constructor(store: Store, clock: Clock, id: string) {
    this.#store = store;
    this.#clock = clock;
    this.#id = id;
  }

  get(table: string, key: string): Promise<Uint8Array | undefined> {
    return this.#bounded(this.#store.get(table, key));
  }

  /** Waits for what is still being written, as long as for an answer. */
  async until(free: Promise<unknown>): Promise<void> {
    await this.#bounded(free);
  }

  /** Everything but the items. */
  async find(tables: Tables): Promise<Found> {
    const graves: (Tombstone & { readonly age: number })[] = [];
    for await (const [name, value] of this.entries(tables.graves)) graves.push(readGrave(this.#id, name, value));
    graves.sort((a, b) => a.age - b.age);
    const log: KeptBatch[] = [];
    const records: LogRecord[] = [];
    for await (const [name, value] of this.entries(tables.log)) {
      const batch = readBatch(this.#id, name, value);
      const last = log.at(-1);
      if (last?.offset === batch.offset) {
        log[log.length - 1] = { ...last, keys: [...last.keys, ...batch.keys] };
        records[log.length - 1] = { offset: batch.offset, records: records[log.length - 1]!.records + 1 };
      } else {
        log.push(batch);
        records.push({ offset: batch.offset, records: 1 });
      }
    }
    return { tombstones: graves, log, records, nextAge: (graves.at(-1)?.age ?? -1) + 1 };
  }

  async *items(tables: Tables): AsyncGenerator<Item> {
    for await (const [name, value] of this.entries(tables.items)) yield readItem(this.#id, name, value);
  }

  async *entries(table: string): AsyncGenerator<Entry> {
    const slices = new Slices();
    for await (const group of this.groups(table)) {
      for (const entry of group) {
        yield entry;
        if (slices.due()) await slices.pause();
      }
    }
  }

  async *groups(table: string): AsyncGenerator<readonly Entry[]> {
    const groups = this.#store.entries(table)[Symbol.asyncIterator]();
    for (;;) {
      const { done, value } = await this.#bounded(groups.next());
      if (done === true) return;
      yield value;
    }
  }

  async #bounded<T>(call: Promise<T>): Promise<T> {
    let fail: (error: HeadgateError) => void = () => {};
    const late = new Promise<never>((_, reject) => {
      fail = reject;
    });
    const cause = `the store has not answered for ${READ_MS_MAX} ms`;
    const timer = this.#clock.after(READ_MS_MAX, () => {
      fail(new HeadgateError('HG_STORE', `Cannot restore ${this.#id}: ${cause}`));
    });
    try {
      return await Promise.race([call, late]);
    } finally {
      timer.cancel();
    }
  }
}

/** Whether there is something that counts. */
export function counts(state: FlagState | undefined): state is FlagState {
  return state !== undefined && state.removed !== true;
}
