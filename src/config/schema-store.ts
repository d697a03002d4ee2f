import { z } from 'zod';
import type { DecisionsDraft } from './decisions-draft.ts';
import { REDIS_PREFIX } from './defaults.ts';
import { overTls, parseRedisUrl } from './redis-url.ts';
import { boolean, duration, hidden, secret, section, strict, text, word } from './scalars.ts';
import { put, type SchemaIssue } from './schema-parts.ts';
import type { Config, Mutable, RedisConfig } from './types.ts';
import { type Parsed, parseBaseUrl } from './values.ts';

const MINUTE_MS = 60_000;
const STORE_PATH = './headgate-data';

/** The `store` section in its longer form. */
export interface StoreSettings {
  readonly type?: 'lmdb' | 'redis' | 'dynamodb' | 'none' | undefined;
  readonly path?: string | undefined;
  readonly url?: string | undefined;
  readonly tableName?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly prefix?: string | undefined;
  readonly tls?:
    | {
        readonly ca?: string | undefined;
        readonly cert?: string | undefined;
        readonly key?: string | undefined;
        readonly verify?: boolean | undefined;
      }
    | undefined;
  readonly connectTimeout?: number | undefined;
  readonly readTimeout?: number | undefined;
}

const pem = text('the path of a PEM file').optional();
const timeout = duration({ min: 10, max: 10 * MINUTE_MS }).optional();

/** The `store` section: a path, `none`, or a mapping. */
export const storeSchema: z.ZodType<StoreSettings> = z.preprocess(
  (value) => {
    if (typeof value !== 'string') return value ?? {};
    return value === 'none' ? { type: 'none' } : { path: value };
  },
  strict({
    type: word('lmdb', 'redis', 'dynamodb', 'none').optional(),
    path: text('the path of a folder').optional(),
    // which kind of address it must be depends on the type
    url: hidden('the address of a database').optional(),
    tableName: text('the name of a table').optional(),
    username: text('a user of Redis').optional(),
    password: secret('the password of a user of Redis').optional(),
    prefix: text('what stands before keys').optional(),
    tls: section({
      ca: pem,
      cert: pem,
      key: pem,
      verify: boolean().optional(),
    }).optional(),
    connectTimeout: timeout,
    readTimeout: timeout,
  }),
);

/** Which settings mean something beside each type. */
const OF_TYPE: Readonly<Record<NonNullable<StoreSettings['type']>, readonly (keyof StoreSettings)[]>> = {
  lmdb: ['path'],
  redis: ['path', 'url', 'username', 'password', 'prefix', 'tls', 'connectTimeout', 'readTimeout'],
  dynamodb: ['path', 'url', 'tableName', 'prefix'],
  none: [],
};

/** A store that says where it is, and says so in a way that means something. */
export function* storeConflicts(settings: StoreSettings): Generator<SchemaIssue> {
  const { type = 'lmdb', tls, url } = settings;
  for (const [key, value] of Object.entries(settings)) {
    if (value === undefined || key === 'type' || OF_TYPE[type].includes(key as keyof StoreSettings)) continue;
    const message =
      settings.type === undefined
        ? `has no effect unless store.type is ${typesOf(key as keyof StoreSettings).join(' or ')}`
        : `has no effect while store.type is ${type}: remove one of them`;
    yield { path: ['store', key], message };
  }
  const parsed = url === undefined ? undefined : parsedUrl(type, url);
  if (parsed?.ok === false) {
    yield { path: ['store', 'url'], message: `expected ${parsed.expected}, got a value that is not shown here` };
  }
  if ((tls?.cert === undefined) !== (tls?.key === undefined)) {
    const missing = tls?.cert === undefined ? 'cert' : 'key';
    yield { path: ['store', 'tls'], message: `expected ${missing} beside the other of the two, got none` };
  }
}

function typesOf(key: keyof StoreSettings): string[] {
  return ['redis', 'dynamodb'].filter((type) => OF_TYPE[type as keyof typeof OF_TYPE].includes(key));
}

function parsedUrl(type: keyof typeof OF_TYPE, url: string): Parsed<unknown> | undefined {
  if (type === 'redis') return parseRedisUrl(url);
  return type === 'dynamodb' ? parseBaseUrl(url) : undefined;
}

function redisOf(settings: StoreSettings): Mutable<RedisConfig> {
  const { tls } = settings;
  const parsed = parseRedisUrl(settings.url ?? 'redis://localhost:6379');
  const address = parsed.ok ? parsed.value : { url: '', username: undefined, password: undefined };
  const encrypted = tls !== undefined || address.url.startsWith('rediss:');
  const redis: Mutable<RedisConfig> = {
    url: encrypted ? overTls(address.url) : address.url,
    prefix: settings.prefix ?? REDIS_PREFIX,
  };
  put(redis, 'username', settings.username ?? address.username);
  put(redis, 'password', settings.password ?? address.password);
  put(redis, 'connectTimeoutMs', settings.connectTimeout);
  put(redis, 'readTimeoutMs', settings.readTimeout);
  if (!encrypted) return redis;
  redis.tls = { verify: tls?.verify ?? true };
  put(redis.tls, 'caPath', tls?.ca);
  put(redis.tls, 'certPath', tls?.cert);
  put(redis.tls, 'keyPath', tls?.key);
  return redis;
}

/** Lays the `store` section over `config`. */
export function applyStore(
  settings: StoreSettings,
  config: Mutable<Config>,
  open: DecisionsDraft,
  where: string,
): void {
  const { type, path } = settings;
  if (type === undefined && path === undefined) return;
  open.storeAt = where;
  if (type === 'none') {
    config.store = { type: 'none', path: '' };
    return;
  }
  if (type === 'redis') {
    config.redis = redisOf(settings);
    open.places.set('redis', where);
  } else if (type === 'dynamodb') {
    const { tableName, url, prefix } = settings;
    const parsed = parseBaseUrl(url ?? '');
    config.dynamoDb = { tableName, url: parsed.ok ? parsed.value : undefined, prefix };
    open.places.set('dynamoDb', where);
  }
  const shared = type === 'lmdb' ? undefined : type;
  // a folder beside a database is for what replicas must not share
  config.store =
    shared === undefined || path !== undefined
      ? { type: 'lmdb', path: path ?? STORE_PATH }
      : { type: shared, path: '' };
}

/** The store of someone who did not choose one. */
export function defaultStore(): Mutable<Config['store']> {
  return { type: 'lmdb', path: STORE_PATH };
}
