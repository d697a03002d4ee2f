import { type Change, DigestSum, type Item, type PendingWrite, type Tombstone } from '../dataset/index.ts';
import { type Clock, HeadgateError, messageOf, Slices, type Timer } from '../kernel/index.ts';
import { type DynamoOptions, DynamoTable, type Row } from './dynamo-client.ts';
import type { FlagKeep, KeptFlags } from './flags-keep.ts';
import type { FlagStoreStatus } from './redis-flags.ts';
import { namespaceOf, readVendorItem, vendorText } from './vendor-items.ts';

/** Settings of {@link openDynamoFlags}. */
export interface DynamoFlagsOptions extends DynamoOptions {
  readonly clock: Clock;
  /** Told once when the table can no longer be used, and not again before `onRecovery`; and of each item that is too large. */
  readonly onFailure?: (error: HeadgateError) => void;
  readonly onRecovery?: () => void;
}

/** Flags in a table of DynamoDB. */
export interface DynamoFlags extends FlagKeep {
  readonly status: FlagStoreStatus;
}

const KINDS = ['flags', 'segments'];
const INITED = '$inited';
const PREPARE_MS_MAX = 2000;
const RETRY_MS = 5000;
/** DynamoDB's own bound on an item, names of attributes included. */
const ITEM_BYTES_MAX = 400 * 1024;
/** Beside key and text: names of attributes, namespace and version. */
const ITEM_OVERHEAD_BYTES = 200;
const AT_ONCE = 8;

/**
 * Keeps the flags of one environment in DynamoDB, in the layout of the vendor's relay and SDKs. An item is never replaced
 * by a lower version. Replicas share no order here, so what is restored has no log, and a source that lowers versions is
 * not followed until they have risen again. It needs the package `@aws-sdk/client-dynamodb`.
 *
 * @example
 * const flags = openDynamoFlags({ tableName: 'flags', prefix: 'production', clock: systemClock });
 * console.log(flags.status.dbTable); // flags
 * await flags.close();
 */
export function openDynamoFlags(options: DynamoFlagsOptions): DynamoFlags {
  return new Flags(options);
}

class Flags implements DynamoFlags {
  readonly #options: DynamoFlagsOptions;
  readonly #table: DynamoTable;
  /** What is not written yet, by kind and key. */
  readonly #waiting = new Map<string, Change>();
  /** Everything, when all of it must be compared with the table. */
  #whole: (() => Iterable<Item>) | undefined;
  #run: Promise<void> | undefined;
  #isAsked = false;
  #retry: Timer | undefined;
  #failure: HeadgateError | undefined;
  #sinceMs = Date.now();
  #isClosed = false;

  constructor(options: DynamoFlagsOptions) {
    this.#options = options;
    this.#table = new DynamoTable(options);
  }

  get status(): FlagStoreStatus {
    const { prefix, tableName } = this.#options;
    const { address } = this.#table;
    return {
      state: this.#failure === undefined ? 'VALID' : 'INTERRUPTED',
      sinceMs: this.#sinceMs,
      database: 'dynamodb',
      dbTable: tableName,
      ...(address === undefined ? {} : { dbServer: address }),
      ...(prefix === undefined ? {} : { dbPrefix: prefix }),
    };
  }

  async restore(): Promise<KeptFlags | undefined> {
    try {
      const inited = this.#table.named(INITED);
      const isWhole = (await this.#table.get(inited, inited)) !== undefined;
      const kept = isWhole ? await this.#read() : undefined;
      this.#succeed();
      return kept;
    } catch (thrown) {
      this.#fail(thrown);
      return undefined;
    }
  }

  async prepare(write: PendingWrite): Promise<void> {
    if (this.#isClosed) return;
    for (const list of [write.graves, write.changes]) {
      for (const change of list) this.#waiting.set(`${change.kind}\0${change.key}`, change);
    }
    if (write.result === 'loaded' || this.#whole !== undefined) this.#whole = () => write.items();
    const done = this.#kick();
    if (this.#failure !== undefined) return;
    await new Promise<void>((resolve) => {
      const timer = this.#options.clock.after(PREPARE_MS_MAX, () => {
        this.#fail(new Error(`a write must take ${PREPARE_MS_MAX} ms at most, got no answer yet`));
        resolve();
      });
      void done.then(() => {
        timer.cancel();
        resolve();
      });
    });
  }

  /** The vendor's layout has no place for it. */
  committed(): void {}

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#retry?.cancel();
    if (this.#failure === undefined && this.#run !== undefined) {
      const late = new Promise<void>((resolve) => void this.#options.clock.after(PREPARE_MS_MAX, resolve));
      await Promise.race([this.#run, late]);
    }
    await this.#table.close();
  }

  async #read(): Promise<KeptFlags> {
    const items: Item[] = [];
    const tombstones: Tombstone[] = [];
    const sum = new DigestSum();
    const slices = new Slices();
    let clock = 0;
    for await (const { kind, key, text } of this.#rows()) {
      const found = readVendorItem(text);
      if (found === undefined) continue;
      clock += found.version;
      if (found.deleted) tombstones.push({ kind, key, version: found.version });
      else {
        const item = { kind, key, version: found.version, text: found.text };
        items.push(item);
        sum.add(item);
      }
      if (slices.due()) await slices.pause();
    }
    return { items, tombstones, clock, digest: sum.toString(), offset: 1, log: [], savedMs: 0 };
  }

  async *#rows(): AsyncGenerator<{ kind: string; key: string; text: string }> {
    for (const kind of KINDS) {
      for await (const rows of this.#table.query(this.#table.named(namespaceOf(kind)))) {
        for (const row of rows) yield { kind, key: row['key']?.S ?? '', text: row['item']?.S ?? '' };
      }
    }
  }

  #kick(): Promise<void> {
    this.#isAsked = true;
    this.#run ??= this.#work();
    return this.#run;
  }

  async #work(): Promise<void> {
    this.#retry?.cancel();
    try {
      while (this.#isAsked) {
        this.#isAsked = false;
        await this.#round();
      }
      this.#run = undefined;
      this.#succeed();
    } catch (thrown) {
      this.#run = undefined;
      this.#fail(thrown);
      if (!this.#isClosed) this.#retry = this.#options.clock.after(RETRY_MS, () => void this.#kick());
    }
  }

  async #round(): Promise<void> {
    const whole = this.#whole;
    const changes = new Map(this.#waiting);
    if (whole !== undefined) await this.#compare(whole, changes);
    const list = Array.from(changes);
    for (let at = 0; at < list.length; at += AT_ONCE) {
      await Promise.all(list.slice(at, at + AT_ONCE).map(([, change]) => this.#put(change)));
    }
    // last, as by the vendor: SDKs take what is there for whole from here on
    const inited = this.#table.named(INITED);
    if (whole !== undefined) await this.#table.put({ namespace: { S: inited }, key: { S: inited } });
    for (const [id, change] of list) if (this.#waiting.get(id) === change) this.#waiting.delete(id);
    if (this.#whole === whole) this.#whole = undefined;
  }

  /** Adds to `changes` what the table does not have; what only the table has is deleted, at the version that it has. */
  async #compare(whole: () => Iterable<Item>, changes: Map<string, Change>): Promise<void> {
    const slices = new Slices();
    const items = new Map<string, Change>();
    for (const item of whole()) {
      items.set(`${item.kind}\0${item.key}`, { kind: item.kind, key: item.key, version: item.version, item });
      if (slices.due()) await slices.pause();
    }
    for await (const { kind, key, text } of this.#rows()) {
      const id = `${kind}\0${key}`;
      const found = readVendorItem(text);
      if (items.get(id)?.item?.text === text) items.delete(id);
      else if (!items.has(id) && found?.deleted === false) {
        await this.#table.delete(this.#table.named(namespaceOf(kind)), key, {
          expression: '#version = :version',
          names: { '#version': 'version' },
          values: { ':version': { N: String(found.version) } },
        });
      }
      if (slices.due()) await slices.pause();
    }
    for (const [id, change] of items) if (!changes.has(id)) changes.set(id, change);
  }

  async #put(change: Change): Promise<void> {
    const { kind, key, version } = change;
    const text = vendorText(change);
    const bytes = Buffer.byteLength(text) + Buffer.byteLength(key) + ITEM_OVERHEAD_BYTES;
    if (bytes > ITEM_BYTES_MAX) {
      const message = `Cannot keep ${JSON.stringify(key)} of ${kind} in DynamoDB: an item may have ${ITEM_BYTES_MAX} bytes, got ${bytes}`;
      this.#options.onFailure?.(new HeadgateError('HG_STORE', message));
      return;
    }
    const row: Row = {
      namespace: { S: this.#table.named(namespaceOf(kind)) },
      key: { S: key },
      version: { N: String(version) },
      item: { S: text },
    };
    await this.#table.put(row, {
      expression: 'attribute_not_exists(#namespace) OR #version <= :version',
      names: { '#namespace': 'namespace', '#version': 'version' },
      values: { ':version': { N: String(version) } },
    });
  }

  #fail(thrown: unknown): void {
    if (this.#failure !== undefined || this.#isClosed) return;
    const message = `Cannot keep flags in the table ${this.#options.tableName} of DynamoDB: ${messageOf(thrown)}`;
    this.#failure =
      thrown instanceof HeadgateError ? thrown : new HeadgateError('HG_STORE', message, { cause: thrown });
    this.#sinceMs = Date.now();
    this.#options.onFailure?.(this.#failure);
  }

  #succeed(): void {
    if (this.#failure === undefined || this.#isClosed) return;
    this.#failure = undefined;
    this.#sinceMs = Date.now();
    this.#options.onRecovery?.();
  }
}
