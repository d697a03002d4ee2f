import type { Pace } from '../pace.ts';
import { jsonText } from './json-text.ts';
import type { Names } from './names.ts';
import { sortRows } from './order.ts';
import { GROUPS_AT_ONCE, type Parts, reserveGroups, reserveRows } from './parts.ts';
import { damaged, type RowRecord, readRecord } from './records.ts';
import { IDS_PER_SOURCE } from './rows.ts';

/** Records by key. */
export type Entries = Iterable<readonly [string, Uint8Array]> | AsyncIterable<readonly [string, Uint8Array]>;

/** What was found in the records. */
export interface Restored {
  /** The newest commit that any of them tells of. */
  readonly offset: number;
  readonly sources: ReadonlySet<number>;
}

/**
 * Fills an empty ledger with what its records tell.
 *
 * @throws HeadgateError HG_STORE when one is damaged
 */
export async function restoreRows(parts: Parts, entries: Entries, pace: Pace): Promise<Restored> {
  const sources = new Set<number>();
  let offset = 0;
  let room = 0;
  for await (const [key, value] of entries) {
    if (room === 0) {
      room = GROUPS_AT_ONCE;
      await reserveRows(parts, room, pace);
      await reserveGroups(parts, room, pace);
    }
    room--;
    const record = readRecord(key, value);
    restoreRow(parts, key, record);
    sources.add(record.source);
    offset = Math.max(offset, record.added, record.touched, record.removed);
    if (pace.due()) await pace.pause();
  }
  await fillLog(parts, pace);
  await parts.order.add(
    Uint32Array.from({ length: parts.rows.size }, (_, row) => row),
    pace,
  );
  return { offset, sources };
}

function take(key: string, names: Names, text: string): number {
  if (names.room === 0 && names.numberOf(text) === undefined) throw damaged(key, 'there are too many names', text);
  return names.take(text);
}

function restoreRow({ rows, groups, index, agenda, tally, rules }: Parts, key: string, record: RowRecord): void {
  const { source, decision } = record;
  const { id, untilMs } = decision;
  const uuid = jsonText(decision.uuid ?? '');
  const bytes = Buffer.from(uuid + jsonText(decision.value));
  const uuidBytes = Buffer.byteLength(uuid);
  const head = {
    source,
    id,
    untilMs,
    origin: take(key, rows.origins, decision.origin),
    scenario: take(key, rows.scenarios, decision.scenario),
    scope: take(key, rows.scopes, decision.scope),
    type: take(key, rows.types, decision.type),
    simulated: decision.simulated ? 1 : 0,
  };
  const row = rows.make(head, { bytes, at: 0, uuidBytes, valueBytes: bytes.length - uuidBytes });
  rows.added[row] = record.added;
  rows.touched[row] = record.touched;
  rows.toldMs[row] = record.toldMs;
  rows.removed[row] = record.removed;
  // no page is older than this life: whether a change was told or held back makes no difference any more
  rows.changed[row] = record.touched;
  groups.link(row);
  tally.countRow(rows, row, 1);
  if (record.removed !== 0) {
    tally.countRow(rows, row, -1);
    agenda.set(row, Math.max(untilMs, record.toldMs) + rules.keepExpiredMs);
    return;
  }
  if (index.find(id + source * IDS_PER_SOURCE) >= 0) throw damaged(key, 'an id may be live once', id);
  index.add(row);
  agenda.set(row, record.toldMs < untilMs ? record.dueMs : untilMs);
}

function everyRow({ rows }: Parts): Uint32Array {
  const all = new Uint32Array(rows.size);
  for (let row = 0; row < all.length; row++) all[row] = row;
  return all;
}

async function fillLog(parts: Parts, pace: Pace): Promise<void> {
  const { rows, log } = parts;
  const sorted = await sortRows(everyRow(parts), rows.changed, pace);
  await log.reserve(sorted.length, pace);
  for (const row of sorted) {
    log.stage(rows.changed[row] as number, row);
    if (pace.due()) await pace.pause();
  }
  log.commit();
}
