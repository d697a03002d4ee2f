import { HeadgateError } from '../../kernel/index.ts';
import { textOfJson } from './json-text.ts';
import { IDS_PER_SOURCE, type Rows } from './rows.ts';

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
  /** The source's own. */
  readonly id: number;
  readonly untilMs: number;
  readonly toldMs: number;
  readonly added: number;
  readonly touched: number;
  readonly removed: number;
  /** When a later end that is held back is to be told; 0: none is. */
  readonly dueMs: number;
  readonly origin: string;
  readonly scenario: string;
  readonly scope: string;
  readonly type: string;
  readonly uuid: string;
  readonly value: string;
  readonly simulated: boolean;
}

/** The key of a row: two rows of one id were never added by the same commit. */
export function recordKey(source: number, shownId: number, added: number): string {
  return `${source}:${shownId - source * IDS_PER_SOURCE}:${added}`;
}

/** A row as {@link readRecord} reads it. */
export function recordOf(rows: Rows, row: number, dueMs: number): Buffer {
  const source = rows.source[row] as number;
  const { bytes, at, uuidBytes, valueBytes } = rows.textOf(row);
  const json = Buffer.from(bytes.buffer, bytes.byteOffset + at, uuidBytes + valueBytes);
  const texts = [
    rows.origins.textOf(rows.origin[row] as number),
    rows.scenarios.textOf(rows.scenario[row] as number),
    rows.scopes.textOf(rows.scope[row] as number),
    rows.types.textOf(rows.type[row] as number),
    textOfJson(json.toString('utf8', 0, uuidBytes)),
    textOfJson(json.toString('utf8', uuidBytes)),
  ];
  const length = texts.reduce((sum, text) => sum + 2 + Buffer.byteLength(text), TEXTS_AT);
  const record = Buffer.alloc(length);
  record[0] = VERSION;
  record[1] = source;
  record[2] = rows.simulated[row] === 1 ? SIMULATED : 0;
  const numbers = [
    (rows.id[row] as number) - source * IDS_PER_SOURCE,
    rows.untilMs[row] as number,
    rows.toldMs[row] as number,
    rows.added[row] as number,
    rows.touched[row] as number,
    rows.removed[row] as number,
    dueMs,
  ];
  numbers.forEach((number, index) => record.writeDoubleLE(number, NUMBERS_AT + 8 * index));
  let to = TEXTS_AT;
  for (const text of texts) {
    const written = record.write(text, to + 2);
    record.writeUInt16LE(written, to);
    to += 2 + written;
  }
  return record;
}

export function damaged(key: string, cause: string, got: string | number): HeadgateError {
  return new HeadgateError('HG_STORE', `Cannot restore the decision ${JSON.stringify(key)}: ${cause}, got ${got}`);
}

/**
 * @param key - for the error only
 * @throws HeadgateError HG_STORE when the record is damaged, or of a later version
 */
export function readRecord(key: string, value: Uint8Array): RowRecord {
  const record = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (record.length < TEXTS_AT) throw damaged(key, `its record has ${TEXTS_AT} bytes at least`, record.length);
  if (record[0] !== VERSION) throw damaged(key, `its record must be of version ${VERSION}`, record[0] as number);
  const numbers = Array.from({ length: 7 }, (_, index) => record.readDoubleLE(NUMBERS_AT + 8 * index));
  if (!numbers.every(Number.isFinite)) throw damaged(key, 'its numbers must be finite', numbers.join(' '));
  const [id, untilMs, toldMs, added, touched, removed, dueMs] = numbers as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const [origin, scenario, scope, type, uuid, value_] = readTexts(key, record);
  const simulated = ((record[2] as number) & SIMULATED) !== 0;
  const source = record[1] as number;
  return {
    ...{ source, id, untilMs, toldMs, added, touched, removed, dueMs },
    ...{ origin, scenario, scope, type, uuid, value: value_, simulated },
  };
}

function readTexts(key: string, record: Buffer): [string, string, string, string, string, string] {
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
  return texts as [string, string, string, string, string, string];
}
