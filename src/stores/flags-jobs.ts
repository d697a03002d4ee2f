import type { Change, Item, KeptBatch, PendingWrite, Tombstone } from '../dataset/index.ts';
import { batchKey, batchWrites, changeWrites, graveWrite, itemWrite, recordsOf, type Tables } from './flags-records.ts';
import type { Write } from './store.ts';

/** What a data set is at. */
export interface Place {
  readonly offset: number;
  readonly digest: string;
  readonly clock: number;
}

/** When the data were last known to be up to date, Unix time in milliseconds, and the upstream's selector for that. */
export interface Mark {
  readonly savedMs: number;
  readonly state: string | undefined;
}

interface Written extends Place {
  /** As of before the write: a selector that is older than the data asks for what is there already, and loses nothing. */
  readonly mark: Mark;
  /** About how many bytes of texts. */
  readonly bytes: number;
  readonly done: () => void;
}

/** The difference that a write makes. */
export interface Difference extends Written {
  readonly kind: 'difference';
  readonly changes: readonly Change[];
  readonly graves: readonly Change[];
  readonly logFirst: number;
  /** Undefined when it makes no batch. */
  readonly batch: KeptBatch | undefined;
}

/** Everything that is there after a write. */
export interface Whole extends Written {
  readonly kind: 'whole';
  readonly items: Iterable<Item>;
  readonly tombstones: Iterable<Tombstone>;
  readonly log: readonly KeptBatch[];
}

export type Job = Difference | Whole;

/** A batch of the log in the store. */
export interface LogRecord {
  readonly offset: number;
  readonly records: number;
}

export function differenceOf(write: PendingWrite, mark: Mark, done: () => void): Difference {
  const { result, offset, digest, clock, changes, graves, logFirst } = write;
  const keys = changes.map(({ kind, key, version, item }) => ({ kind, key, version, deleted: item === undefined }));
  const batch = result === 'changed' ? { offset: offset - 1, digest, clock, keys } : undefined;
  return {
    kind: 'difference',
    offset,
    digest,
    clock,
    changes,
    graves,
    logFirst,
    batch,
    mark,
    bytes: bytesOf(write),
    done,
  };
}

export function wholeOf(write: PendingWrite, mark: Mark, done: () => void): Whole {
  const { offset, digest, clock } = write;
  const all = { items: write.items(), tombstones: write.tombstones(), log: write.log() };
  return { kind: 'whole', offset, digest, clock, ...all, mark, bytes: 0, done };
}

/** No change, but news of how old it is. */
export function markOf({ offset, digest, clock }: Place, logFirst: number, mark: Mark, done: () => void): Difference {
  const nothing = { changes: [], graves: [], batch: undefined, bytes: 0 };
  return { kind: 'difference', offset, digest, clock, logFirst, ...nothing, mark, done };
}

/** About how much a write weighs: a look at each text would be as expensive as writing it. */
function bytesOf({ changes, graves }: Pick<PendingWrite, 'changes' | 'graves'>): number {
  let bytes = 100 * (changes.length + graves.length);
  for (const { key, item } of changes) bytes += key.length + (item?.text.length ?? 0);
  return bytes;
}

/** What differences change in the tables, one after the other; the log in the store is `held`. */
export function* differenceWrites(
  tables: Tables,
  jobs: readonly Difference[],
  held: readonly LogRecord[],
  firstAge: number,
): Generator<Write> {
  let age = firstAge;
  for (const { changes, graves } of jobs) {
    for (const list of [changes, graves]) for (const change of list) yield* changeWrites(tables, change, age++);
  }
  // the batch below the first says what the data set was then
  const from = jobs.at(-1)!.logFirst - 1;
  for (const { batch } of jobs) if (batch !== undefined && batch.offset >= from) yield* batchWrites(tables, batch);
  for (const { offset, records } of held) {
    if (offset >= from) break;
    for (let record = 0; record < records; record++) {
      yield { table: tables.log, key: batchKey(offset, record), value: undefined };
    }
  }
}

/** How many graves differences may write. */
export function agesOf(jobs: readonly Difference[]): number {
  return jobs.reduce((sum, { changes, graves }) => sum + changes.length + graves.length, 0);
}

/** How many graves a difference writes. */
export function deletionsOf({ changes, graves }: Difference): number {
  return graves.length + changes.filter(({ item }) => item === undefined).length;
}

/** The log in the store after differences. */
export function logAfter(held: readonly LogRecord[], jobs: readonly Difference[]): LogRecord[] {
  const from = jobs.at(-1)!.logFirst - 1;
  const kept = held.filter(({ offset }) => offset >= from);
  for (const { batch } of jobs) {
    if (batch !== undefined && batch.offset >= from) kept.push({ offset: batch.offset, records: recordsOf(batch) });
  }
  return kept;
}

/** Everything, into tables that are empty. `ages` counts the graves. */
export function* wholeWrites(
  tables: Tables,
  { items, tombstones, log }: Whole,
  ages: { next: number },
): Generator<Write> {
  for (const item of items) yield itemWrite(tables, item);
  for (const grave of tombstones) yield graveWrite(tables, grave, ages.next++);
  for (const batch of log) yield* batchWrites(tables, batch);
}

/** Writes in groups of so many bytes. Each must be read to its end before the next is asked for. */
export function* groupsOf(writes: Iterator<Write>, groupBytes: number): Generator<Iterable<Write>> {
  let next = writes.next();
  function* group(): Generator<Write> {
    for (let bytes = 0; next.done !== true && bytes < groupBytes; next = writes.next()) {
      yield next.value;
      bytes += next.value.key.length + (next.value.value?.length ?? 0);
    }
  }
  while (next.done !== true) yield group();
}
