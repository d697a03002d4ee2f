import type { Parsed } from './values.ts';

/** An address of Redis, apart from who asks. */
export interface RedisAddress {
  /** Scheme, host, port and the number of a database, if there is one. */
  readonly url: string;
  readonly username: string | undefined;
  readonly password: string | undefined;
}

const EXPECTED = 'an address such as redis://127.0.0.1:6379, or rediss:// over TLS';

/** The user or the password of an address, as it is meant; undefined when there is none. */
export function decoded(text: string): string | undefined {
  if (text === '') return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a password with a percent sign that stands for itself
  }
}

/**
 * Reads the address of a Redis. Messages must not repeat one, since it may hold a password.
 *
 * @example
 * console.log(parseRedisUrl('redis://me:s3cret@redis:6379/1'));
 * // { ok: true, value: { url: 'redis://redis:6379/1', username: 'me', password: 's3cret' } }
 */
export function parseRedisUrl(text: string): Parsed<RedisAddress> {
  if (!/^rediss?:\/\/./i.test(text) || !URL.canParse(text)) return { ok: false, expected: EXPECTED };
  const { protocol, host, username, password, pathname, search } = new URL(text);
  if (host === '' || !/^(\/\d*)?$/.test(pathname)) return { ok: false, expected: EXPECTED };
  const database = pathname === '/' ? '' : pathname;
  return {
    ok: true,
    value: {
      url: `${protocol}//${host}${database}${search}`,
      username: decoded(username),
      password: decoded(password),
    },
  };
}

/** The same address over TLS. */
export function overTls(url: string): string {
  return url.replace(/^redis:/i, 'rediss:');
}
