import { isIP } from 'node:net';

/** A value that was read, or what was expected instead of it. */
export type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly expected: string };

const DURATION_UNITS_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3, // U+00B5
  μs: 1e-3, // U+03BC
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};
const DURATION_EXPECTED = 'a duration such as 500ms, 10s, 3m or 1h30m';
/** Go's own bound: a duration is a 64-bit count of nanoseconds. */
const DURATION_MS_MAX = 9_223_372_036_854;
/** Longest text looked at; anything longer is no duration and no size. */
const TEXT_LENGTH_MAX = 100;

function good<T>(value: T): Parsed<T> {
  return { ok: true, value };
}

function bad(expected: string): { readonly ok: false; readonly expected: string } {
  return { ok: false, expected };
}

/**
 * Reads a duration as Go writes it, in milliseconds: `3m`, `500ms`, `1h30m`, `1.5s`, `-3s`, `0`.
 *
 * @example
 * console.log(parseDuration('1h30m')); // { ok: true, value: 5400000 }
 * console.log(parseDuration('90')); // { ok: false, expected: 'a duration such as 500ms, 10s, 3m or 1h30m' }
 */
export function parseDuration(text: string): Parsed<number> {
  if (text.length > TEXT_LENGTH_MAX) return bad(DURATION_EXPECTED);
  const sign = text.startsWith('-') ? -1 : 1;
  const rest = text.replace(/^[+-]/, '');
  if (rest === '0') return good(0);
  const part = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/y;
  let totalMs = 0;
  do {
    const match = part.exec(rest);
    const unitMs = match === null ? undefined : DURATION_UNITS_MS[match[2] ?? ''];
    if (match === null || unitMs === undefined) return bad(DURATION_EXPECTED);
    totalMs += Number(match[1]) * unitMs;
  } while (part.lastIndex < rest.length);
  if (totalMs > DURATION_MS_MAX) return bad(DURATION_EXPECTED);
  return good(sign * totalMs || 0);
}

/**
 * Writes milliseconds as {@link parseDuration} reads them, in the fewest parts.
 *
 * @example
 * console.log(formatDuration(5_400_000)); // 1h30m
 */
export function formatDuration(ms: number): string {
  if (ms === Number.POSITIVE_INFINITY) return 'no limit';
  if (ms < 0) return `-${formatDuration(-ms)}`;
  if (ms < 1000) return ms === 0 ? '0s' : `${Number(ms.toFixed(6))}ms`;
  const hours = Math.floor(ms / 3_600_000);
  const minutes = Math.floor((ms % 3_600_000) / 60_000);
  const seconds = Number(((ms % 60_000) / 1000).toFixed(9));
  return `${hours > 0 ? `${hours}h` : ''}${minutes > 0 ? `${minutes}m` : ''}${seconds > 0 ? `${seconds}s` : ''}`;
}

const BYTE_UNITS: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  kB: 1e3,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};
const BYTES_EXPECTED = 'a size in bytes such as 65536, 64KiB, 1MiB or 10MB';

/**
 * Reads a size in bytes: `65536`, `64KiB`, `1.5MiB`, `10MB`.
 *
 * @example
 * console.log(parseBytes('64KiB')); // { ok: true, value: 65536 }
 */
export function parseBytes(text: string): Parsed<number> {
  const match = text.length > TEXT_LENGTH_MAX ? null : /^(\d+(?:\.\d+)?) ?([A-Za-z]*)$/.exec(text);
  const unit = match === null ? undefined : BYTE_UNITS[match[2] ?? ''];
  if (match === null || unit === undefined) return bad(BYTES_EXPECTED);
  const bytes = Math.round(Number(match[1]) * unit);
  return Number.isSafeInteger(bytes) ? good(bytes) : bad(BYTES_EXPECTED);
}

/**
 * Reads a size the way the vendor does: a whole number and a binary unit, `5MiB`. `KB` and `MB` are binary there too.
 *
 * @example
 * console.log(parseVendorBytes('100MiB')); // { ok: true, value: 104857600 }
 */
export function parseVendorBytes(text: string): Parsed<number> {
  const expected = 'a number and a unit such as 100KiB or 5MiB';
  const match = text.length > TEXT_LENGTH_MAX ? null : /^(\d+(?:\.\d+)?)(B|[KMGTPE]i?B)$/.exec(text);
  if (match === null) return bad(expected);
  const power = 'BKMGTPE'.indexOf(match[2]?.[0] ?? 'B');
  const bytes = Math.round(Number(match[1]) * 1024 ** power);
  return Number.isSafeInteger(bytes) ? good(bytes) : bad(expected);
}

/**
 * Writes a size as {@link parseBytes} reads it, in the largest binary unit that is exact or reads well.
 *
 * @example
 * console.log(formatBytes(65536)); // 64KiB
 */
export function formatBytes(bytes: number): string {
  if (bytes === Number.POSITIVE_INFINITY) return 'no limit';
  for (const unit of ['TiB', 'GiB', 'MiB', 'KiB']) {
    const size = BYTE_UNITS[unit] ?? 1;
    if (bytes >= size) return `${Number((bytes / size).toFixed(2))}${unit}`;
  }
  return `${bytes}B`;
}

const BITS: Readonly<Record<string, number>> = { '': 1, k: 1e3, M: 1e6, G: 1e9 };
const LINK_EXPECTED = 'the speed of a link such as 100Mbit/s, 1Gbit/s or 50MB/s';

/**
 * Reads the speed of a link, in bytes per second.
 *
 * @example
 * console.log(parseLink('1Gbit/s')); // { ok: true, value: 125000000 }
 */
export function parseLink(text: string): Parsed<number> {
  const [, number, prefix = '', unit] = /^(\d{1,6}(?:\.\d{1,3})?) ?([kMG]?)(bit|B)\/s$/.exec(text) ?? [];
  const value = Math.round((Number(number) * (BITS[prefix] ?? 1)) / (unit === 'bit' ? 8 : 1));
  return value > 0 ? good(value) : bad(LINK_EXPECTED);
}

/**
 * Writes a speed as people write that of a link.
 *
 * @example
 * console.log(formatLink(125_000_000)); // 1Gbit/s
 */
export function formatLink(bytesPerSecond: number): string {
  if (bytesPerSecond === Number.POSITIVE_INFINITY) return 'no limit';
  const bits = bytesPerSecond * 8;
  const [prefix, size] = (Object.entries(BITS)
    .toReversed()
    .find(([, each]) => bits >= each) ?? ['', 1]) as [string, number];
  return `${Number((bits / size).toFixed(2))}${prefix}bit/s`;
}

/** Reads a whole number, sign allowed. */
export function parseInteger(text: string): Parsed<number> {
  const value = /^[+-]?\d{1,18}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(value) ? good(value || 0) : bad('a whole number');
}

const TRUE_WORDS = new Set(['1', 'true', 'yes']);
const FALSE_WORDS = new Set(['0', 'false', 'no']);

/** Reads a yes or no; the vendor's file also knows `on` and `off`, its environment variables do not. */
export function parseBoolean(text: string, dialect: 'ini' | 'env'): Parsed<boolean> {
  const word = text.toLowerCase();
  if (TRUE_WORDS.has(word) || (dialect === 'ini' && word === 'on')) return good(true);
  if (FALSE_WORDS.has(word) || (dialect === 'ini' && word === 'off')) return good(false);
  return bad('true or false');
}

/** Reads an absolute URL and gives it back as written. */
export function parseUrl(text: string): Parsed<string> {
  return URL.canParse(text) && /^[a-z][a-z0-9+.-]*:\/\/./i.test(text)
    ? good(text)
    : bad('an absolute URL such as https://example.com');
}

const BASE_URL_EXPECTED = 'a base address such as http://127.0.0.1:8080, without a user, a query or /v1';

/**
 * Reads the base address of an HTTP service, and gives it back without a slash at the end.
 *
 * @example
 * console.log(parseBaseUrl('https://lapi.example.com/')); // { ok: true, value: 'https://lapi.example.com' }
 */
export function parseBaseUrl(text: string): Parsed<string> {
  if (!/^https?:\/\/[^/]/i.test(text) || !URL.canParse(text)) return bad(BASE_URL_EXPECTED);
  const { username, password, search, hash, origin, pathname } = new URL(text);
  const path = pathname.replace(/\/+$/, '');
  const extra = username !== '' || password !== '' || search !== '' || hash !== '' || path.endsWith('/v1');
  return extra ? bad(BASE_URL_EXPECTED) : good(origin + path);
}

/** Reads an address to listen on as Go writes it: `127.0.0.1:8080`, `[::1]:8080`, `:8080`. */
export function parseListenAddress(text: string): Parsed<{ readonly host: string | undefined; readonly port: number }> {
  const [, inBrackets, plain, digits] = /^(?:\[([^\]\s]+)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535) return bad('an address and a port such as 127.0.0.1:8080');
  const host = inBrackets ?? plain;
  return good({ host: host === '' ? undefined : host, port });
}

/** Reads an IP address or a network of them: `192.0.2.1`, `10.0.0.0/8`, `2001:db8::/32`. */
export function parseNetwork(text: string): Parsed<string> {
  const [address = '', prefix] = text.split('/', 2);
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
  const length = prefix === undefined ? 0 : /^\d{1,3}$/.test(prefix) ? Number(prefix) : 129;
  const fits = length <= bits && text.split('/').length <= 2 && !address.includes('%');
  return fits ? good(text) : bad('an IP address or a network such as 10.0.0.0/8');
}

/** Reads one of `words`, ignoring case. */
export function parseWord<const Word extends string>(text: string, words: readonly Word[]): Parsed<Word> {
  const found = words.find((word) => word.toLowerCase() === text.toLowerCase());
  return found === undefined ? bad(`one of ${words.join(', ')}`) : good(found);
}

/** Splits at commas, without the space around the items. Empty text is an empty list. */
export function parseList(text: string): readonly string[] {
  return text.trim() === '' ? [] : text.split(',').map((item) => item.trim());
}

/**
 * An address as it may be shown: without user and password.
 *
 * @example
 * console.log(withoutUser('https://me:s3cret@example.com/a')); // https://example.com/a
 */
export function withoutUser(uri: string): string {
  return uri.replace(/\/\/[^/]*@/, '//');
}

/**
 * A key with all but its last four characters hidden, so that it can be told apart but not used.
 * A key that is too short to spare four characters is hidden whole.
 *
 * @example
 * console.log(maskKey('sdk-11111111-2222-3333-4444-555555556789')); // ...6789
 */
export function maskKey(key: string): string {
  return key.length < 8 ? '...' : `...${key.slice(-4)}`;
}
