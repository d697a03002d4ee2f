/** What identifies an environment to its clients. */
export interface EnvironmentInfo {
  /** The environment's client-side ID, or its name where none is given. */
  readonly id: string;
  /** How the environment is listed in `/status`. */
  readonly name: string;
  readonly sdkKeys: readonly SdkKey[];
  readonly mobileKey?: string;
  readonly envId?: string;
  readonly envKey?: string;
  readonly envName?: string;
  readonly projKey?: string;
  readonly projName?: string;
  /** How long a poll may be reused, in milliseconds; 0 is not at all. */
  readonly ttlMs: number;
  /** Whether browsers must prove that they may ask about a context; default false. */
  readonly secureMode?: boolean;
  /** Origins that browsers may ask from; absent or empty: any. */
  readonly allowedOrigins?: readonly string[];
  /** Headers that browsers may send besides the protocol's own. */
  readonly allowedHeaders?: readonly string[];
  /** The payload filter whose data this is, and the environment that it is of; absent: all of the data. */
  readonly filterKey?: string;
  readonly parentId?: string;
}

/** A server-side key; one with an expiry is refused from then on. */
interface SdkKey {
  readonly value: string;
  /** Unix time in milliseconds. */
  readonly expiresMs?: number;
}

const OLD_SCHEME = 'api_key ';

/**
 * The credential of an `Authorization` header: an `api_key ` prefix is dropped, as older SDKs send it; a value with
 * a space in it, or none, is no credential.
 */
export function credentialOf(authorization: string | undefined): string | undefined {
  const value = authorization?.startsWith(OLD_SCHEME) === true ? authorization.slice(OLD_SCHEME.length) : authorization;
  return value === undefined || value === '' || value.includes(' ') ? undefined : value;
}

/**
 * A key as `/status` shows it: letters and digits hidden up to the last five, as the vendor's relay does.
 *
 * @example
 * console.log(hideKey('sdk-aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee')); // sdk-********-****-****-****-*******eeeee
 */
export function hideKey(key: string): string {
  const prefix = /^[a-z]+-/.exec(key)?.[0] ?? '';
  const rest = key.slice(prefix.length);
  const shown = rest.length > 5 ? rest.slice(-5) : '';
  return prefix + rest.slice(0, rest.length - shown.length).replace(/[A-Za-z0-9]/g, '*') + shown;
}
