import { canonicalScope, parseAddress, parseDuration } from '../dataset/decisions/index.ts';
import { HeadgateError } from '../kernel/index.ts';

/** What a file can say of a decision, under the names that `cscli decisions import` knows; `scenario` is read as `reason`. */
export const FIELDS: readonly ['duration', 'reason', 'scenario', 'scope', 'type', 'value'] = [
  'duration',
  'reason',
  'scenario',
  'scope',
  'type',
  'value',
];
export type Field = (typeof FIELDS)[number];

/** A place in a file: the first line and the first column are 1; columns count code points. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** A decision as it stands in a file. It is of use only until the next one is read. */
export interface FileRow {
  readonly place: Place;
  /** What the file says there; undefined when it says nothing. */
  text(field: Field): string | undefined;
  placeOf(field: Field): Place;
}

/** Reads a file in pieces; each row is told as soon as it is whole. Throws HG_SOURCE with the place of what is wrong. */
export interface RowParser {
  push(piece: Buffer): void;
  /** The file has ended. */
  finish(): void;
}

/** For rows that do not say it themselves. */
export interface RowDefaults {
  readonly scenario: string;
  readonly type: string;
}

/** A row, checked, with what it does not say filled in. */
export interface FileDecision {
  readonly scope: string;
  readonly value: string;
  readonly type: string;
  readonly scenario: string;
  /** How long it lasts; undefined: as long as it is listed. */
  readonly durationMs: number | undefined;
}

const DAY_MS = 24 * 3_600_000;
const SHOWN_CHARACTERS_MAX = 60;
const IP = 'Ip';
const RANGE = 'Range';
const BITS: Readonly<Record<4 | 6, number>> = { 4: 32, 6: 128 };

/** An error that names a place in a file, as `file:line:column`. */
export function rowError(file: string, place: Place, cause: string): HeadgateError {
  return new HeadgateError('HG_SOURCE', `Cannot read ${file}:${place.line}:${place.column}: ${cause}`);
}

/** What was found, in quotes and not too long. */
export function shown(text: string): string {
  return JSON.stringify(text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}...` : text);
}

/** Columns count code points, indexes count halves of those beyond U+FFFF. */
export function columnAt(text: string, index: number): number {
  let column = 1;
  for (let at = 0; at < index; at++) {
    const unit = text.charCodeAt(at);
    if (unit < 0xdc00 || unit > 0xdfff) column++;
  }
  return column;
}

/** Checks a row and fills in what it does not say. Throws HG_SOURCE. */
export function decisionOf(file: string, row: FileRow, defaults: RowDefaults): FileDecision {
  const said = (field: Field): string => row.text(field)?.trim() ?? '';
  const fail = (field: Field, expected: string): never => {
    throw rowError(file, row.placeOf(field), `expected ${expected}, got ${shown(said(field))}`);
  };
  const value = said('value');
  if (value === '') throw rowError(file, row.place, 'expected a decision with a value, got none');
  const scope = said('scope') === '' ? undefined : canonicalScope(said('scope'));
  const where = placed(value, scope) ?? fail('value', scope === undefined ? ADDRESS_OR_SCOPE : ADDRESS);
  const durationText = said('duration');
  const durationMs = durationText === '' ? undefined : (durationOf(durationText) ?? fail('duration', DURATION));
  const scenario = said('reason') || said('scenario') || defaults.scenario;
  return { ...where, type: said('type') || defaults.type, scenario, durationMs };
}

const ADDRESS = 'an IPv4 or IPv6 address or network such as 192.0.2.1 or 2001:db8::/32';
const ADDRESS_OR_SCOPE = `${ADDRESS}, since no scope is given`;
const DURATION = 'a duration such as 4h, 90m or 7d';

/** Scope and value; undefined when the value is no address and should be one. */
function placed(value: string, scope: string | undefined): { scope: string; value: string } | undefined {
  if (scope !== undefined && scope !== IP && scope !== RANGE) return { scope, value };
  const range = parseAddress(value);
  if (range === undefined) return undefined;
  if (scope !== undefined) return { scope, value };
  if (range.prefix < BITS[range.family]) return { scope: RANGE, value };
  // bouncers look an address up as it is written, without the length of its prefix
  return { scope: IP, value: value.split('/', 1)[0] ?? value };
}

/**
 * A duration as the local API reads it: as Go does, with days before all else.
 *
 * @returns milliseconds; undefined when it is none
 */
export function durationOf(text: string): number | undefined {
  const [, sign = '', days = '0', rest = ''] = /^(-?)(?:(\d{1,9})d)?(.*)$/s.exec(text) ?? [];
  if (rest.startsWith('-') || rest.startsWith('+')) return undefined;
  const hasDays = text.length > sign.length + rest.length;
  const restMs = rest === '' && hasDays ? 0 : parseDuration(rest);
  if (restMs === undefined) return undefined;
  return (sign === '-' ? -1 : 1) * (Number(days) * DAY_MS + restMs);
}
