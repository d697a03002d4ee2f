import { DigestSum, type Item, type KeptKey, type Tombstone } from '../dataset/index.ts';
import { HeadgateError, Slices } from '../kernel/index.ts';
import type { FlagKeys } from './redis-batches.ts';
import type { RedisClient } from './redis-client.ts';
import type { OrderBook, OrderEntry } from './redis-order.ts';
import { LOOK, SURVEY } from './redis-scripts.ts';
import { readVendorItem } from './vendor-items.ts';

/** Entries of the order, or rows of a hash, that are asked for at once. */
const ENTRIES_PER_LOOK = 500;
const ROWS_PER_SCAN = 200;
/** Values that are asked for at once: a group is read in one step of Redis and arrives as one answer. */
const GROUP_BYTES_MAX = 1024 * 1024;

/** One item or deletion in Redis, without its text. */
export interface Row {
  readonly key: string;
  readonly bytes: number;
  /** -1: it cannot be read. */
  readonly version: number;
  readonly deleted: boolean;
}

/** All that is in the vendor's hashes. */
export interface VendorData {
  readonly items: readonly Item[];
  readonly tombstones: readonly Tombstone[];
  /** Of the items. */
  readonly digest: string;
  /** Sum of all versions. */
  readonly clock: number;
}

/** Brings the book up to the order in Redis. Says whether it is another order than before. */
export async function catchUp(client: RedisClient, keys: FlagKeys, book: OrderBook): Promise<boolean> {
  let isNew = false;
  for (;;) {
    const answer = await client.call('EVAL', LOOK, 2, keys.order, keys.epoch, book.newest, ENTRIES_PER_LOOK);
    const [epochBytes, idBytes, digest, rows] = answer as [Buffer, Buffer, Buffer, [Buffer, Buffer[]][]];
    const epoch = epochBytes.toString();
    const newest = placeOf(idBytes);
    const entries = rows.map(entryOf);
    const last = newest === book.newest ? digest.toString() : beforeOf(entries, book);
    const isOther = epoch !== book.epoch || newest < book.newest;
    // read anew once: what was appended to a fork of the order before it was noticed need not fit
    if (isOther || (!isNew && last !== book.newestDigest)) {
      isNew = true;
      book.begin(epoch);
      continue;
    }
    book.take(entries);
    if (book.newest >= newest) return isNew;
  }
}

/** What Redis holds of a kind, in pieces; a row that changes meanwhile may come twice. */
export async function* survey(client: RedisClient, hash: string): AsyncGenerator<readonly Row[]> {
  let cursor = '0';
  do {
    const answer = await client.call('EVAL', SURVEY, 1, hash, cursor, ROWS_PER_SCAN);
    const [next, ...fields] = answer as [Buffer, ...(Buffer | number)[]];
    const rows: Row[] = [];
    for (let at = 0; at < fields.length; at += 4) {
      const [key, bytes, version, deleted] = fields.slice(at, at + 4);
      rows.push({ key: String(key), bytes: Number(bytes), version: Number(version), deleted: deleted === 1 });
    }
    yield rows;
    cursor = next.toString();
  } while (cursor !== '0');
}

/** Reads everything, in groups. Not of one moment: whoever needs that compares the digest with the order. */
export async function readAll(client: RedisClient, keys: FlagKeys, kinds: readonly string[]): Promise<VendorData> {
  const items: Item[] = [];
  const tombstones: Tombstone[] = [];
  const sum = new DigestSum();
  const slices = new Slices();
  let clock = 0;
  for (const kind of kinds) {
    for (const [key, json] of await readHash(client, keys.hash(kind))) {
      const found = readVendorItem(json);
      if (found === undefined) continue;
      const { version, text } = found;
      clock += version;
      if (found.deleted) tombstones.push({ kind, key, version });
      else {
        const item = { kind, key, version, text };
        items.push(item);
        sum.add(item);
      }
      if (slices.due()) await slices.pause();
    }
  }
  return { items, tombstones, digest: sum.toString(), clock };
}

async function readHash(client: RedisClient, hash: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  let group: string[] = [];
  let bytes = 0;
  const fetch = async (): Promise<void> => {
    if (group.length === 0) return;
    const texts = (await client.call('HMGET', hash, ...group)) as (Buffer | null)[];
    for (const [at, text] of texts.entries()) if (text !== null) found.set(group[at]!, text.toString());
    group = [];
    bytes = 0;
  };
  for await (const rows of survey(client, hash)) {
    for (const row of rows) {
      if (bytes + row.bytes > GROUP_BYTES_MAX) await fetch();
      group.push(row.key);
      bytes += row.bytes;
    }
  }
  await fetch();
  return found;
}

/** The digest that stands in Redis at the newest place that the book has, as far as what follows it says so. */
function beforeOf([first]: readonly OrderEntry[], book: OrderBook): string {
  return first?.place === book.newest + 1 && book.newest > 0 ? first.before : book.newestDigest;
}

function placeOf(id: Buffer): number {
  return Number.parseInt(id.toString(), 10);
}

function entryOf([id, fields]: [Buffer, Buffer[]]): OrderEntry {
  const field = (name: string): string => {
    const at = fields.findIndex((each, index) => index % 2 === 0 && each.toString() === name);
    return at === -1 ? '' : fields[at + 1]!.toString();
  };
  return {
    place: placeOf(id),
    digest: field('digest'),
    clock: Number(field('clock')),
    before: field('before'),
    isReset: field('reset') !== '0',
    keys: keysOf(field('keys')),
  };
}

/** What stands in `keys` of an entry: `[kind, key, version, deleted]` of each. */
export function textOfKeys(keys: readonly KeptKey[]): string {
  return JSON.stringify(keys.map(({ kind, key, version, deleted }) => [kind, key, version, Number(deleted)]));
}

function keysOf(text: string): KeptKey[] {
  try {
    const rows = JSON.parse(text) as [string, string, number, number][];
    return rows.map(([kind, key, version, deleted]) => ({ kind, key, version, deleted: deleted === 1 }));
  } catch (thrown) {
    throw new HeadgateError('HG_STORE', 'Cannot read the order of digests: its keys must be JSON, got another text', {
      cause: thrown,
    });
  }
}
