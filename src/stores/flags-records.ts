import { createHash } from 'node:crypto';
import type { Change, Item, KeptBatch, KeptKey, Tombstone } from '../dataset/index.ts';
import { HeadgateError, messageOf } from '../kernel/index.ts';
import type { Write } from './store.ts';

/** Raised when records are laid out in another way. */
const FORMAT = 1;
/** One record a data set: what it is at, and in which of its two places. */
export const STATES = 'flag-states';
/** A batch of more keys is several records: one of them takes a fraction of a millisecond to form. */
const KEYS_PER_RECORD = 500;

/** Where one data set lies. It has two places, so that one can be written while the other is what counts. */
export interface Tables {
  readonly items: string;
  readonly graves: string;
  readonly log: string;
}

export type Slot = 0 | 1;

/** What a data set is at, and what its upstream said of it. */
export interface FlagState {
  readonly slot: Slot;
  readonly offset: number;
  readonly digest: string;
  readonly clock: number;
  readonly savedMs: number;
  readonly state?: string;
  /** It is being removed: there may be records left, and none of them counts. */
  readonly removed?: true;
}

/** A name of a table is short and plain, and the name of an environment need not be. */
export function tablesOf(id: string, slot: Slot): Tables {
  const name = createHash('sha256').update(id).digest('hex').slice(0, 24);
  return { items: `fi-${name}-${slot}`, graves: `fg-${name}-${slot}`, log: `fl-${name}-${slot}` };
}

export function stateWrite(id: string, state: FlagState): Write {
  return { table: STATES, key: id, value: Buffer.from(JSON.stringify({ format: FORMAT, ...state })) };
}

/** @throws HeadgateError HG_STORE when it is none, or of another format. */
export function readState(id: string, bytes: Uint8Array): FlagState {
  const state = parsed(id, bytes) as FlagState & { readonly format?: unknown };
  const { format, slot, offset, digest, clock, savedMs } = state;
  if (format !== FORMAT) {
    throw unreadable(id, `this version of Headgate reads format ${FORMAT}`, JSON.stringify(format) ?? 'none');
  }
  const isState = (slot === 0 || slot === 1) && typeof digest === 'string';
  if (!isState || ![offset, clock, savedMs].every((number) => Number.isSafeInteger(number))) {
    throw unreadable(id, 'its state must have a slot, a digest and three integers', Buffer.from(bytes).toString());
  }
  return state;
}

/** What a change does to the records of items and graves. `age` is above that of every grave before. */
export function* changeWrites(tables: Tables, change: Change, age: number): Generator<Write> {
  const { kind, key, item } = change;
  if (item === undefined) {
    yield { table: tables.items, key: nameOf(kind, key), value: undefined };
    yield graveWrite(tables, change, age);
  } else {
    yield { table: tables.graves, key: nameOf(kind, key), value: undefined };
    yield itemWrite(tables, item);
  }
}

export function itemWrite({ items }: Tables, { kind, key, version, text }: Item): Write {
  return { table: items, key: nameOf(kind, key), value: Buffer.from(`${version} ${text}`) };
}

export function graveWrite({ graves }: Tables, { kind, key, version }: Tombstone, age: number): Write {
  return { table: graves, key: nameOf(kind, key), value: Buffer.from(`${age} ${version}`) };
}

/** @throws HeadgateError HG_STORE when it is none. */
export function readItem(id: string, name: string, value: Uint8Array): Item {
  const [version, text] = split(id, Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString());
  const [kind, key] = split(id, name);
  return { kind, key, version: Number(version), text };
}

/** @throws HeadgateError HG_STORE when it is none. */
export function readGrave(id: string, name: string, value: Uint8Array): Tombstone & { readonly age: number } {
  const [age, version] = split(id, Buffer.from(value).toString());
  const [kind, key] = split(id, name);
  return { kind, key, version: Number(version), age: Number(age) };
}

/** How many records a batch is. */
export function recordsOf({ keys }: KeptBatch): number {
  return Math.max(1, Math.ceil(keys.length / KEYS_PER_RECORD));
}

export function* batchWrites({ log }: Tables, batch: KeptBatch): Generator<Write> {
  const { offset, digest, clock, keys } = batch;
  for (let record = 0; record < recordsOf(batch); record++) {
    const some = keys.slice(record * KEYS_PER_RECORD, (record + 1) * KEYS_PER_RECORD);
    const told = some.map(({ kind, key, version, deleted }) => [kind, key, version, deleted ? 1 : 0]);
    yield { table: log, key: batchKey(offset, record), value: Buffer.from(JSON.stringify([digest, clock, told])) };
  }
}

/** The key of one record of a batch; in the order of its numbers. */
export function batchKey(offset: number, record: number): string {
  return `${String(offset).padStart(16, '0')} ${String(record).padStart(8, '0')}`;
}

/**
 * A record of a batch. What it says is for `DataSet.restore` to judge.
 *
 * @throws HeadgateError HG_STORE when it is none.
 */
export function readBatch(id: string, name: string, value: Uint8Array): KeptBatch {
  const [offset] = split(id, name);
  const record = parsed(id, value);
  const [digest, clock, told] = Array.isArray(record) ? (record as unknown[]) : [];
  if (typeof digest !== 'string' || typeof clock !== 'number' || !Array.isArray(told)) {
    throw unreadable(id, 'a batch must have a digest, a clock and keys', Buffer.from(value).toString());
  }
  const keys = (told as unknown[]).map((each): KeptKey => {
    const [kind, key, version, deleted] = Array.isArray(each) ? (each as unknown[]) : [];
    if (typeof kind !== 'string' || typeof key !== 'string' || typeof version !== 'number') {
      throw unreadable(id, 'a key of a batch must have a kind, a name and a version', JSON.stringify(each));
    }
    return { kind, key, version, deleted: deleted === 1 };
  });
  return { offset: Number(offset), digest, clock, keys };
}

/** Kinds have no spaces. */
function nameOf(kind: string, key: string): string {
  return `${kind} ${key}`;
}

function split(id: string, text: string): [string, string] {
  const at = text.indexOf(' ');
  if (at < 0) throw unreadable(id, 'a record must have two parts', JSON.stringify(text.slice(0, 80)));
  return [text.slice(0, at), text.slice(at + 1)];
}

function parsed(id: string, bytes: Uint8Array): unknown {
  const text = Buffer.from(bytes).toString();
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value;
  } catch (error) {
    throw unreadable(id, messageOf(error), JSON.stringify(text.slice(0, 80)));
  }
  throw unreadable(id, 'a record must be an object', JSON.stringify(text.slice(0, 80)));
}

function unreadable(id: string, cause: string, got: string): HeadgateError {
  return new HeadgateError(
    'HG_STORE',
    `Cannot restore ${id}: ${cause}, got ${got.slice(0, 200)}. It is fetched anew, and replaced in the store then`,
  );
}
