import { createHash } from 'node:crypto';
import { canonicalScope, type Filter, filterKey, parseAddress } from '../../dataset/decisions/index.ts';
import { ENFORCED_SCOPES } from './words.ts';

/** What a stream was asked for. */
export interface StreamQuery {
  /** Whether everything is wanted, and not what is new. */
  readonly startup: boolean;
  /** Whether only the longest decision of a value is wanted. */
  readonly dedup: boolean;
  readonly filter: Filter;
  /** What a cursor's meaning hangs on: equal for queries that see the same decisions. */
  readonly meaning: string;
  readonly need: Need;
}

/** What must be held before a query may be answered. */
export interface Need {
  /** Scopes that are not held from the start. */
  readonly scopes: readonly string[];
  /** Simulated decisions as well, or every scope. */
  readonly wide: boolean;
}

/** What a look-up was asked for. */
export interface LiveQuery {
  readonly filter: Filter;
  readonly limit: number | undefined;
  readonly offset: number | undefined;
  readonly idGt: number | undefined;
  /**
   * Whether an address or a value bounds it, and no part of it is asked for: then it is found without a walk. What is inside
   * a network is not: that may be everything.
   */
  readonly bound: boolean;
  readonly need: Need;
}

/** A query that cannot be answered: the message is the local API's own. */
export class BadQuery {
  readonly message: string;

  constructor(message: string) {
    this.message = message;
  }
}

/** Queries seen again and again are read once; a bouncer sends two of them. */
const KNOWN_MAX = 1024;
const KNOWN_LENGTH_MAX = 512;

/** Longer ones are told apart by a digest: they are part of a key in the store. */
const MEANING_LENGTH_MAX = 100;

/** Reads the queries of streams. */
export class StreamQueries {
  readonly #known = new Map<string, StreamQuery | BadQuery>();

  /** @param search - as sent, without the question mark. */
  read(search: string): StreamQuery | BadQuery {
    const known = this.#known.get(search);
    if (known !== undefined) return known;
    const read = readStream(search);
    if (search.length > KNOWN_LENGTH_MAX) return read;
    if (this.#known.size >= KNOWN_MAX) this.#known.clear();
    this.#known.set(search, read);
    return read;
  }
}

/** Reads the query of a stream. Its `limit` means nothing, and a part of a stream (`offset`, `id_gt`) cannot be asked for. */
export function readStream(search: string): StreamQuery | BadQuery {
  const values = firstValues(search);
  const dedup = values.get('dedup') !== 'false';
  const filter = filterOf(values, ENFORCED_SCOPES);
  if (filter instanceof BadQuery) return filter;
  for (const name of ['offset', 'id_gt']) {
    const number = numberOf(values, name);
    if (number instanceof BadQuery) return number;
  }
  return {
    startup: values.get('startup') === 'true',
    dedup,
    filter,
    meaning: meaningOf(filter, dedup),
    need: needOf(filter),
  };
}

/** Reads the query of a look-up. */
export function readLive(search: string): LiveQuery | BadQuery {
  const values = firstValues(search);
  const filter = filterOf(values, undefined);
  if (filter instanceof BadQuery) return filter;
  const limit = numberOf(values, 'limit');
  if (limit instanceof BadQuery) return limit;
  const offset = numberOf(values, 'offset');
  if (offset instanceof BadQuery) return offset;
  const idGt = numberOf(values, 'id_gt');
  if (idGt instanceof BadQuery) return idGt;
  const whole = limit === undefined && offset === undefined && idGt === undefined;
  return {
    filter,
    // SQLite takes a negative limit for none, and a negative offset for the start
    limit: limit === undefined || limit < 0 ? undefined : limit,
    offset: offset === undefined || offset < 0 ? undefined : offset,
    idGt,
    bound: whole && (filter.value !== undefined || (filter.addresses !== undefined && filter.contains)),
    need: needOf(filter),
  };
}

function needOf({ scopes, addresses, simulated }: Filter): Need {
  return {
    // no decision has an empty scope, which is what a comma too many asks for
    scopes: scopes === undefined ? [] : scopes.filter((scope) => scope !== '' && !ENFORCED_SCOPES.includes(scope)),
    wide: simulated || (scopes === undefined && addresses === undefined),
  };
}

function meaningOf(filter: Filter, dedup: boolean): string {
  const key = `${dedup ? '' : 'all '}${filterKey(filter)}`;
  return key.length <= MEANING_LENGTH_MAX ? key : `sha256 ${createHash('sha256').update(key).digest('hex')}`;
}

/** @param scopes - what stands where the query names none. */
function filterOf(values: ReadonlyMap<string, string>, scopes: readonly string[] | undefined): Filter | BadQuery {
  const contains = booleanOf(values, 'contains');
  if (contains instanceof BadQuery) return contains;
  const addresses = addressesOf(values);
  if (addresses instanceof BadQuery) return addresses;
  const simulated = values.get('simulated');
  return {
    scopes: scopesOf(values) ?? scopes,
    origins: values.get('origins')?.split(','),
    scenariosContaining: wordsOf(values.get('scenarios_containing')),
    scenariosNotContaining: wordsOf(values.get('scenarios_not_containing')),
    type: values.get('type'),
    value: values.get('value'),
    addresses,
    // without an address it decides nothing, and equal filters should have equal keys
    contains: addresses === undefined || (contains ?? true),
    simulated: simulated !== undefined && simulated !== 'false',
  };
}

/** `scope` is another name of `scopes`; with both, both count. */
function scopesOf(values: ReadonlyMap<string, string>): readonly string[] | undefined {
  const scopes = values.get('scopes')?.split(',').map(canonicalScope);
  const scope = values.get('scope')?.split(',').map(canonicalScope);
  return scopes === undefined || scope === undefined ? (scopes ?? scope) : scopes.filter((one) => scope.includes(one));
}

function wordsOf(list: string | undefined): readonly string[] {
  return list === undefined ? [] : list.toLowerCase().split(',');
}

function addressesOf(values: ReadonlyMap<string, string>): Filter['addresses'] | BadQuery {
  let addresses: Filter['addresses'];
  for (const name of ['ip', 'range']) {
    const text = values.get(name);
    if (text === undefined) continue;
    addresses = parseAddress(text);
    if (addresses === undefined) return new BadQuery(addressProblem(text));
  }
  return addresses;
}

function addressProblem(text: string): string {
  const cause = text.includes('/')
    ? `invalid ip range '${text}': invalid CIDR address: ${text}`
    : `invalid ip address '${text}'`;
  return `unable to convert '${text}' to int: ${cause}: invalid ip address / range`;
}

/** What Go's strconv.ParseBool takes. */
const TRUE = new Set(['1', 't', 'T', 'TRUE', 'true', 'True']);
const FALSE = new Set(['0', 'f', 'F', 'FALSE', 'false', 'False']);

function booleanOf(values: ReadonlyMap<string, string>, name: string): boolean | undefined | BadQuery {
  const text = values.get(name);
  if (text === undefined) return undefined;
  if (TRUE.has(text)) return true;
  if (FALSE.has(text)) return false;
  return invalid(name, `strconv.ParseBool: parsing ${quoted(text)}: invalid syntax`);
}

/** What Go's strconv.Atoi takes; beyond what a number holds exactly nothing has an id. */
function numberOf(values: ReadonlyMap<string, string>, name: string): number | undefined | BadQuery {
  const text = values.get(name);
  if (text === undefined) return undefined;
  if (!/^[+-]?\d+$/.test(text)) return invalid(name, `strconv.Atoi: parsing ${quoted(text)}: invalid syntax`);
  const value = BigInt(text.replace('+', ''));
  if (value !== BigInt.asIntN(64, value)) {
    return invalid(name, `strconv.Atoi: parsing ${quoted(text)}: value out of range`);
  }
  return Number(value);
}

function invalid(name: string, cause: string): BadQuery {
  return new BadQuery(`invalid ${name} value: ${cause}: invalid filter`);
}

const GO_ESCAPES: Readonly<Record<string, string>> = {
  '\x07': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
};

/** As Go's strconv.Quote writes it. */
function quoted(text: string): string {
  const inside = text.replace(/["\\]/g, '\\$&').replace(/\p{Cc}/gu, (control) => {
    return GO_ESCAPES[control] ?? `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`;
  });
  return `"${inside}"`;
}

/**
 * The first value of each parameter, as Go's url.ParseQuery reads them: a pair that cannot be decoded, or has a
 * semicolon in it, is no pair.
 */
export function firstValues(search: string): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  for (const pair of search.split('&')) {
    if (pair === '' || pair.includes(';')) continue;
    const equals = pair.indexOf('=');
    const name = decoded(equals < 0 ? pair : pair.slice(0, equals));
    const value = equals < 0 ? '' : decoded(pair.slice(equals + 1));
    if (name !== undefined && value !== undefined && !values.has(name)) values.set(name, value);
  }
  return values;
}

function decoded(text: string): string | undefined {
  if (!/[%+]/.test(text)) return text;
  if (/%(?![0-9a-fA-F]{2})/.test(text)) return undefined;
  // bytes that are no UTF-8 match nothing, and must not be an error either
  return new URLSearchParams(`v=${text}`).get('v') ?? undefined;
}
