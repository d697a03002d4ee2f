import { INTERVAL_MS_MIN, newEnvironment, REDIS_PREFIX } from './defaults.ts';
import type { Problems } from './problems.ts';
import { decoded, overTls, parseRedisUrl } from './redis-url.ts';
import { put } from './schema-parts.ts';
import type { ServicePlaces } from './service-draft.ts';
import { flagOf, listOf, numberOf, type SettingGroup, textOf, type VendorSettings } from './settings.ts';
import type { Config, EnvironmentConfig, LogLevel, Mutable, RedisConfig, RedisTlsConfig } from './types.ts';
import { formatDuration } from './values.ts';
import { clamped } from './vendor-bounds.ts';

/** What the vendor took as its base address before; a default in disguise. */
const OLD_BASE_URI = 'https://app.launchdarkly.com';

/** An environment, laid over what our own file says of one of this name. */
function environmentOf(
  name: string,
  group: SettingGroup,
  settings: VendorSettings,
  base: Mutable<EnvironmentConfig>,
): Mutable<EnvironmentConfig> {
  const texts = (key: string): string[] | undefined => (group.has(key) ? [...listOf(group.get(key))] : undefined);
  const projectKey = textOf(group.get('projKey')) ?? base.projectKey;
  const filters = projectKey === undefined ? undefined : settings.filters.get(projectKey);
  return {
    name,
    sdkKey: textOf(group.get('sdkKey')) ?? base.sdkKey,
    mobileKey: textOf(group.get('mobileKey')) ?? base.mobileKey,
    envId: textOf(group.get('envId')) ?? base.envId,
    projectKey,
    filterKeys: filters === undefined ? base.filterKeys : [...listOf(filters.get('keys'))],
    prefix: textOf(group.get('prefix')) ?? base.prefix,
    tableName: textOf(group.get('tableName')) ?? base.tableName,
    allowedOrigins: texts('allowedOrigin') ?? base.allowedOrigins,
    allowedHeaders: texts('allowedHeader') ?? base.allowedHeaders,
    secureMode: flagOf(group.get('secureMode')) ?? base.secureMode,
    // the reader lets no other word through
    logLevel: (textOf(group.get('logLevel')) as LogLevel | undefined) ?? base.logLevel,
    ttlMs: numberOf(group.get('ttl')) ?? base.ttlMs,
  };
}

function applyEnvironments(settings: VendorSettings, draft: Mutable<Config>, places: ServicePlaces): void {
  for (const [name, group] of settings.environments) {
    const index = draft.environments.findIndex((each) => each.name === name);
    const environment = environmentOf(name, group, settings, draft.environments[index] ?? newEnvironment(name));
    if (index === -1) draft.environments.push(environment);
    else draft.environments[index] = environment;
    places.set(`environment ${name}`, settings.namedAt.get(group) ?? name);
  }
}

function applyUpstream(settings: VendorSettings, { upstream }: Mutable<Config>, places: ServicePlaces): void {
  const baseUri = settings.text('Main', 'baseUri');
  const custom = baseUri !== undefined && baseUri !== upstream.baseUri && baseUri !== OLD_BASE_URI;
  // A private instance of the service answers browsers at the same address.
  upstream.clientSideBaseUri =
    settings.text('Main', 'clientSideBaseUri') ?? (custom ? baseUri : upstream.clientSideBaseUri);
  upstream.baseUri = custom ? baseUri : upstream.baseUri;
  upstream.streamUri = settings.text('Main', 'streamUri') ?? upstream.streamUri;
  for (const key of ['baseUri', 'clientSideBaseUri', 'streamUri']) {
    if (settings.text('Main', key) !== undefined) places.set(key, settings.where('Main', key));
  }
}

function applyEvents(
  settings: VendorSettings,
  { events }: Mutable<Config>,
  places: ServicePlaces,
  problems: Problems,
): void {
  const interval = { min: INTERVAL_MS_MIN, write: formatDuration };
  put(events, 'send', settings.flag('Events', 'sendEvents'));
  put(events, 'uri', settings.text('Events', 'eventsUri'));
  put(events, 'flushIntervalMs', clamped(settings, problems, ['Events', 'flushInterval'], interval));
  put(events, 'capacity', settings.number('Events', 'capacity'));
  put(events, 'inlineUsers', settings.flag('Events', 'inlineUsers'));
  put(events, 'inboundPayloadBytesMax', settings.number('Events', 'maxInboundPayloadSize'));
  if (settings.flag('Events', 'sendEvents') !== undefined) places.set('events', settings.where('Events', 'sendEvents'));
  if (settings.text('Events', 'eventsUri') !== undefined)
    places.set('eventsUri', settings.where('Events', 'eventsUri'));
}

function applyAutoConfig(
  settings: VendorSettings,
  draft: Mutable<Config>,
  places: ServicePlaces,
  problems: Problems,
): void {
  const base = draft.autoConfig;
  const key = settings.text('AutoConfig', 'key') ?? base?.key;
  const cache = cacheOf(settings, problems) ?? base?.cache;
  if (key === undefined) {
    const [lost] = ['cacheKey', 'cacheEncryptionKey'].filter((each) => settings.text('AutoConfig', each) !== undefined);
    if (lost !== undefined)
      problems.warn(
        settings.where('AutoConfig', lost),
        `${lost} has no effect without key of [AutoConfig] (AUTO_CONFIG_KEY)`,
      );
    return;
  }
  const texts = (name: string, before: string[] = []): string[] =>
    settings.get('AutoConfig', name) === undefined ? before : [...settings.list('AutoConfig', name)];
  for (const [place, name] of [
    ['autoConfig', 'key'],
    ['cache', 'cacheKey'],
  ] as const) {
    if (settings.text('AutoConfig', name) !== undefined) places.set(place, settings.where('AutoConfig', name));
  }
  draft.autoConfig = {
    key,
    prefix: settings.text('AutoConfig', 'envDatastorePrefix') ?? base?.prefix,
    tableName: settings.text('AutoConfig', 'envDatastoreTableName') ?? base?.tableName,
    allowedOrigins: texts('envAllowedOrigin', base?.allowedOrigins),
    allowedHeaders: texts('envAllowedHeader', base?.allowedHeaders),
    cache,
  };
}

/** Where the list of environments is kept, when all that it takes is given. */
function cacheOf(
  settings: VendorSettings,
  problems: Problems,
): { readonly name: string; readonly encryptionKey: string } | undefined {
  const name = settings.text('AutoConfig', 'cacheKey');
  const encryptionKey = settings.text('AutoConfig', 'cacheEncryptionKey');
  if (name !== undefined && encryptionKey === undefined) {
    problems.error(
      settings.where('AutoConfig', 'cacheKey'),
      'cacheKey needs cacheEncryptionKey (AUTO_CONFIG_CACHE_ENCRYPTION_KEY) as well, since what is kept has keys in it: set it, or remove cacheKey',
    );
  } else if (name === undefined && encryptionKey !== undefined) {
    problems.warn(
      settings.where('AutoConfig', 'cacheEncryptionKey'),
      'cacheEncryptionKey has no effect without cacheKey (AUTO_CONFIG_CACHE_KEY), the name under which the list is kept',
    );
  }
  return name === undefined || encryptionKey === undefined ? undefined : { name, encryptionKey };
}

/** Whether anything says that Redis is used, and where that stands. */
export function redisAt(settings: VendorSettings): string | undefined {
  if (settings.flag('Redis', 'USE_REDIS') === false) return undefined;
  const key = ['USE_REDIS', 'url', 'host', 'port'].find((each) => {
    const value = settings.get('Redis', each)?.value;
    return value !== undefined && value !== '';
  });
  return key === undefined ? undefined : settings.where('Redis', key);
}

function redisTls(settings: VendorSettings): Mutable<RedisTlsConfig> {
  const [caPath, certPath, keyPath] = ['caFile', 'clientCertificateFile', 'clientKeyFile'].map((key) =>
    settings.text('Redis', key),
  );
  return {
    ...(caPath === undefined ? {} : { caPath }),
    ...(certPath === undefined ? {} : { certPath }),
    ...(keyPath === undefined ? {} : { keyPath }),
    verify: true,
  };
}

function applyRedis(settings: VendorSettings, draft: Mutable<Config>, places: ServicePlaces, problems: Problems): void {
  const at = redisAt(settings);
  if (at === undefined) return;
  places.set('redis', at);
  const host = settings.text('Redis', 'host') ?? 'localhost';
  const port = (settings.text('Redis', 'port') ?? '6379').replace(/^tcp:\/\/[^:/]*:/, '');
  const bracketed = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
  const parsed = parseRedisUrl(settings.text('Redis', 'url') ?? `redis://${bracketed}:${port}`);
  if (!parsed.ok) {
    // a port that is none has been told already
    if (!problems.failed) problems.error(at, `expected ${parsed.expected}, got a value that is not shown here`);
    return;
  }
  const encrypted = settings.flag('Redis', 'tls') === true || parsed.value.url.startsWith('rediss:');
  const tls = redisTls(settings);
  if (!encrypted && Object.keys(tls).length > 1) {
    problems.warn(at, 'the certificate files of Redis have no effect without tls (REDIS_TLS)');
  }
  const redis: Mutable<RedisConfig> = {
    url: encrypted ? overTls(parsed.value.url) : parsed.value.url,
    prefix: REDIS_PREFIX,
  };
  put(redis, 'username', settings.text('Redis', 'username') ?? parsed.value.username);
  put(redis, 'password', settings.text('Redis', 'password') ?? parsed.value.password);
  put(redis, 'tls', encrypted ? tls : undefined);
  put(redis, 'connectTimeoutMs', aboveZero(settings.number('Redis', 'connectTimeout')));
  put(redis, 'readTimeoutMs', aboveZero(settings.number('Redis', 'readTimeout')));
  draft.redis = redis;
  draft.dynamoDb = undefined;
}

function aboveZero(value: number | undefined): number | undefined {
  return value === 0 ? undefined : value;
}

function applyDynamoDb(settings: VendorSettings, draft: Mutable<Config>, places: ServicePlaces): void {
  if (settings.flag('DynamoDB', 'enabled') !== true) return;
  places.set('dynamoDb', settings.where('DynamoDB', 'enabled'));
  // the prefix is our file's, which a variable does not take back
  const { prefix } = draft.dynamoDb ?? {};
  draft.dynamoDb = {
    tableName: settings.text('DynamoDB', 'tableName') ?? draft.dynamoDb?.tableName,
    url: settings.text('DynamoDB', 'url') ?? draft.dynamoDb?.url,
    prefix,
  };
  draft.redis = undefined;
}

function applyProxy(
  settings: VendorSettings,
  { outbound }: Mutable<Config>,
  places: ServicePlaces,
  problems: Problems,
): void {
  const caPaths = settings.list('Proxy', 'caCertFiles').filter((path) => path !== '');
  if (caPaths.length > 0) outbound.caPaths = [...caPaths];
  const url = settings.text('Proxy', 'url');
  const [user, password] = [settings.text('Proxy', 'user'), settings.text('Proxy', 'password')];
  if (url === undefined) {
    const [key] = ['user', 'password'].filter((each) => settings.text('Proxy', each) !== undefined);
    if (key !== undefined && outbound.proxy === undefined)
      problems.warn(settings.where('Proxy', key), `${key} of the proxy has no effect without its url (PROXY_URL)`);
    return;
  }
  places.set('proxy', settings.where('Proxy', 'url'));
  const parsed = new URL(url);
  const proxyUser = user ?? decoded(parsed.username);
  const proxyPassword = password ?? decoded(parsed.password);
  parsed.username = '';
  parsed.password = '';
  outbound.proxy = {
    url: parsed.href.replace(/\/$/, ''),
    ...(proxyUser === undefined ? {} : { user: proxyUser }),
    ...(proxyPassword === undefined ? {} : { password: proxyPassword }),
  };
}

/** Lays the vendor's settings of the service and of databases over `draft`, and notes where each stands. */
export function applyService(
  settings: VendorSettings,
  draft: Mutable<Config>,
  places: ServicePlaces,
  problems: Problems,
): void {
  applyUpstream(settings, draft, places);
  applyEvents(settings, draft, places, problems);
  applyAutoConfig(settings, draft, places, problems);
  applyEnvironments(settings, draft, places);
  applyRedis(settings, draft, places, problems);
  applyDynamoDb(settings, draft, places);
  applyProxy(settings, draft, places, problems);
  const { flags } = draft;
  put(flags.bigSegments, 'staleAsDegraded', settings.flag('Main', 'bigSegmentsStaleAsDegraded'));
  put(flags.bigSegments, 'staleThresholdMs', settings.number('Main', 'bigSegmentsStaleThreshold'));
  put(flags, 'pingJitterMs', settings.number('Main', 'pingStreamJitterTime'));
}
