import { HeadgateError } from '../../kernel/index.ts';
import { problemOf } from './intake.ts';
import { IDS_PER_SOURCE, type Rows } from './rows.ts';
import type { Decision } from './types.ts';

/**
 * A row as a store keeps it, little-endian:
 *
 *     0       1        2       3        4 …                                    60 …
 *     version source   flags   (zero)   7 doubles: id, until, told, added,     6 texts, each 16 bits of length
 *                                       touched, removed, due                  and its UTF-8 bytes
 *
 * `due` is 0 unless a later end is held back. The texts are origin, scenario, scope, type, uuid and value.
 */
const VERSION = 1;
const SIMULATED = 1;
const NUMBERS_AT = 4;
const TEXTS_AT: number = NUMBERS_AT + 7 * 8;
const TEXT_BYTES_MAX = 65_535;

/** What a record says. */
export interface RowRecord {
  readonly source: number;
  readonly decision: Decision;
  readonly toldMs: number;
  readonly added: number;
  readonly touched: number;
  readonly removed: number;
  /** When a later end that is held back is to be told; 0: none is. */
  readonly dueMs: number;
}

/** The key of a row: two rows of one id were never added by the same commit. */
export function recordKey(source: number, shownId: number, added: number): string {
  return `${source}:${shownId - source * IDS_PER_SOURCE}:${added}`;
}

/** Room for the longest record: texts of an item that has 32 KiB at most, which have no more bytes than they have in it. */
const scratch = Buffer.alloc(64 * 1024);

function putText(text: string, at: number): number {
  const bytes = scratch.write(text, at + 2);
  scratch.writeUInt16LE(bytes, at);
  return at + 2 + bytes;
}

/** A row as {@link readRecord} reads it. */
export function recordOf(rows: Rows, row: number, dueMs: number): Uint8Array {
  const source = rows.source[row] as number;
  scratch[0] = VERSION;
  scratch[1] = source;
  scratch[2] = rows.simulated[row] === 1 ? SIMULATED : 0;
  scratch[3] = 0;
  const id = (rows.id[row] as number) - source * IDS_PER_SOURCE;
  const { untilMs, toldMs, added, touched, removed } = rows;
  let to = scratch.writeDoubleLE(id, NUMBERS_AT);
  for (const column of [untilMs, toldMs, added, touched, removed])
    to = scratch.writeDoubleLE(column[row] as number, to);
  to = scratch.writeDoubleLE(dueMs, to);
  to = putText(rows.origins.textOf(rows.origin[row] as number), to);
  to = putText(rows.scenarios.textOf(rows.scenario[row] as number), to);
  to = putText(rows.scopes.textOf(rows.scope[row] as number), to);
  to = putText(rows.types.textOf(rows.type[row] as number), to);
  to = putText(rows.uuidOf(row), to);
  to = putText(rows.valueOf(row), to);
  return Uint8Array.prototype.slice.call(scratch, 0, to);
}

export function damaged(key: string, cause: string, got: string | number): HeadgateError {
  return new HeadgateError('HG_STORE', `Cannot restore the decision ${JSON.stringify(key)}: ${cause}, got ${got}`);
}

/**
 * @param key - for the error only
 * @throws HeadgateError HG_STORE when the record is damaged, or of a later version
 */
export function readRecord(key: string, bytes: Uint8Array): RowRecord {
  const record = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (record.length < TEXTS_AT) throw damaged(key, `its record has ${TEXTS_AT} bytes at least`, record.length);
  if (record[0] !== VERSION) throw damaged(key, `its record must be of version ${VERSION}`, record[0] as number);
  const numbers = Array.from({ length: 7 }, (_, index) => record.readDoubleLE(NUMBERS_AT + 8 * index));
  if (!numbers.every(Number.isFinite)) throw damaged(key, 'its numbers must be finite', numbers.join(' '));
  const [id, untilMs, toldMs, added, touched, removed, dueMs] = numbers as Seven<number>;
  const [origin, scenario, scope, type, uuid, value] = readTexts(key, record);
  const simulated = ((record[2] as number) & SIMULATED) !== 0;
  const source = record[1] as number;
  const decision = {
    id,
    uuid: uuid === '' ? undefined : uuid,
    origin,
    scenario,
    scope,
    type,
    value,
    untilMs,
    simulated,
  };
  const problem = problemOf(decision);
  if (problem !== undefined) throw damaged(key, problem.message, id);
  return { source, decision, toldMs, added, touched, removed, dueMs };
}

type Six<T> = [T, T, T, T, T, T];
type Seven<T> = [...Six<T>, T];

function readTexts(key: string, record: Buffer): Six<string> {
  const texts: string[] = [];
  let at = TEXTS_AT;
  for (let index = 0; index < 6; index++) {
    const length = at + 2 <= record.length ? record.readUInt16LE(at) : TEXT_BYTES_MAX + 1;
    const end = at + 2 + length;
    if (end > record.length) throw damaged(key, `its record ends within a text`, record.length);
    texts.push(record.toString('utf8', at + 2, end));
    at = end;
  }
  if (at !== record.length) throw damaged(key, `its record ends at ${at}`, record.length);
  return texts as Six<string>;
}
