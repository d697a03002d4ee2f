import { HeadgateError, type Slices } from '../kernel/index.ts';
import type { KeptBatch, KeptKey } from './kept.ts';
import { type Entry, type LoggedBatch, type LogParts, makeEntry, makeMemo } from './log.ts';
import { Pace } from './pace.ts';
import type { Snapshot } from './snapshot.ts';

/** Each key is looked for in the snapshot: half a microsecond. */
const KEYS_PER_LOOK = 64;

/**
 * Makes a log of what was kept of it and of the data set that it led to. Changes nothing.
 *
 * @throws HeadgateError HG_STORE when it has a gap, or did not lead to this data set.
 */
export async function takeLog(kept: readonly KeptBatch[], snapshot: Snapshot, slices: Slices): Promise<LogParts> {
  const [base, ...rest] = kept;
  if (base === undefined) return { base: snapshot, batches: [], next: snapshot.offset, latest: new Map() };
  checkOrder(kept, snapshot);
  const pace = new Pace(slices, KEYS_PER_LOOK);
  const touched = await lastTouches(rest, pace);
  const latest = new Map<string, Map<string, Entry>>();
  const batches: LoggedBatch[] = [];
  for (const { offset, digest, clock, keys } of rest) {
    const changes: Entry[] = [];
    for (const each of keys) {
      const lastAt = touched.get(each.kind)?.get(each.key) ?? offset;
      const entry = lastAt === offset ? present(each, snapshot) : superseded(each, lastAt);
      if (lastAt === offset) mapOf(latest, each.kind).set(each.key, entry);
      changes.push(entry);
      if (pace.due()) await pace.pause();
    }
    const bytes = changes.reduce((sum, entry) => sum + entry.bytes, 0);
    batches.push({ offset, digest, clock, changes, bytes, memo: makeMemo() });
  }
  return { base, batches, next: snapshot.offset, latest };
}

function checkOrder(kept: readonly KeptBatch[], { offset, digest, clock }: Snapshot): void {
  let next = offset - kept.length;
  let risen = 0;
  for (const batch of kept) {
    if (batch.offset !== next) throw refusal(`batch ${next} must come next`, `batch ${batch.offset}`);
    if (!(batch.clock >= risen)) throw refusal(`the clock of batch ${next} must be at least ${risen}`, batch.clock);
    risen = batch.clock;
    next++;
  }
  const newest = kept.at(-1)!;
  if (newest.digest !== digest) throw refusal('its newest batch must lead to the digest of the data', newest.digest);
  if (newest.clock > clock) throw refusal(`its newest batch must not be above the clock ${clock}`, newest.clock);
}

/** By kind and key, the offset of the last batch that touched it. */
async function lastTouches(batches: readonly KeptBatch[], pace: Pace): Promise<Map<string, Map<string, number>>> {
  const touched = new Map<string, Map<string, number>>();
  for (const { offset, keys } of batches) {
    for (const { kind, key } of keys) {
      mapOf(touched, kind).set(key, offset);
      if (pace.due()) await pace.pause();
    }
  }
  return touched;
}

/** The last change of a key: it made it what it is now. */
function present({ kind, key, version, deleted }: KeptKey, snapshot: Snapshot): Entry {
  const item = snapshot.get(kind, key);
  const isRight = deleted ? item === undefined : item?.version === version;
  if (!isRight) {
    const held = item === undefined ? 'no item' : `version ${item.version}`;
    throw refusal(`it says ${deleted ? 'no item' : `version ${version}`} of ${JSON.stringify(key)}`, held);
  }
  return makeEntry({ kind, key, version, item });
}

function superseded({ kind, key, version, deleted }: KeptKey, supersededAt: number): Entry {
  return { kind, key, version, item: undefined, deleted, bytes: Buffer.byteLength(key), supersededAt };
}

function mapOf<T>(maps: Map<string, Map<string, T>>, kind: string): Map<string, T> {
  let map = maps.get(kind);
  if (map === undefined) maps.set(kind, (map = new Map()));
  return map;
}

function refusal(cause: string, got: unknown): HeadgateError {
  return new HeadgateError('HG_STORE', `Cannot go on with a log: ${cause}, got ${String(got)}`);
}
