import type { DecisionsDraft } from './decisions-draft.ts';
import { ID_PLACEHOLDER } from './defaults.ts';
import type { Problems } from './problems.ts';
import { hasUpstream, type ServicePlaces } from './service-draft.ts';
import { defaultStore } from './schema-store.ts';
import type { Config, EnvironmentConfig, Mutable, Variables } from './types.ts';
import { withoutUser } from './values.ts';

type Draft = Mutable<Config>;

/** The database that has data of environments, by the name that people know it by. */
function databaseOf({ redis, dynamoDb }: Draft): 'Redis' | 'DynamoDB' | undefined {
  if (redis !== undefined) return 'Redis';
  return dynamoDb === undefined ? undefined : 'DynamoDB';
}

/** Where flags are kept when nobody said: in Redis, or with our own names in a folder. */
function settleStore(config: Draft, open: DecisionsDraft, problems: Problems): void {
  const { redis, decisions, places } = { ...config, places: open.places };
  if (config.store.type === 'redis' && redis === undefined) {
    // the file chose Redis, and a variable another database
    config.store = decisions.enabled ? defaultStore() : { type: 'none', path: '' };
  }
  // files are read again after a restart; what the service said can be had from nowhere else while it is down
  if (open.storeAt === undefined && !decisions.enabled) {
    if (redis !== undefined) config.store = { type: 'redis', path: '' };
    else if (config.origin !== 'vendor' && hasUpstream(config)) config.store = defaultStore();
  }
  if (open.storeAt !== undefined && config.store.type === 'lmdb' && redis !== undefined && !decisions.enabled) {
    problems.warn(open.storeAt, 'nothing is kept in the store: flags are in Redis, and there are no decisions');
  }
  if (redis !== undefined && config.dynamoDb !== undefined) {
    problems.error(
      places.get('dynamoDb') ?? 'dynamoDb',
      'only one database can be used, got Redis and DynamoDB: remove all but one',
    );
  }
}

function checkModes(config: Draft, places: ServicePlaces, problems: Problems): void {
  if (config.autoConfig === undefined) return;
  const archive = config.flags.sources.some(({ type }) => type === 'archive');
  if (archive) {
    problems.error(
      places.get('archive') ?? places.get('autoConfig') ?? 'autoConfig',
      'an archive and an automatic configuration key cannot be used together: remove one of them',
    );
  }
  for (const { name } of config.environments) {
    problems.error(
      places.get(`environment ${name}`) ?? name,
      `environment "${name}" cannot be used with automatic configuration: remove one of the two`,
    );
  }
}

/** Keys and IDs decide whose data a client is given, so that none may stand for two environments. */
function checkKeys({ environments, flags }: Draft, places: ServicePlaces, problems: Problems): void {
  const owners = new Map<string, string>();
  const files = flags.sources.filter((source) => source.type === 'file');
  const entries = [...files, ...environments];
  for (const each of entries) {
    const { name } = each;
    for (const [what, key] of [
      ['sdkKey', each.sdkKey],
      ['mobileKey', each.mobileKey],
      ['envId', each.envId],
    ] as const) {
      if (key === undefined || key === '') continue;
      const owner = owners.get(`${what} ${key}`);
      owners.set(`${what} ${key}`, name);
      const where = places.get(`environment ${name}`);
      // those of two files have been told where they stand
      if (owner !== undefined && where !== undefined) {
        problems.error(where, `environment "${name}" has the ${what} of "${owner}": give it its own`);
      }
    }
  }
}

/** Where an environment is kept: nothing else may be kept there. */
function placeOf(environment: EnvironmentConfig, config: Draft): string {
  const prefix = environment.prefix ?? config.redis?.prefix ?? '';
  return config.redis === undefined ? `${environment.tableName ?? config.dynamoDb?.tableName} ${prefix}` : prefix;
}

/** Environments that share a database must not write over each other. */
function checkDatabaseNames(config: Draft, places: ServicePlaces, problems: Problems): void {
  const database = databaseOf(config);
  if (database === undefined) return;
  const dynamo = database === 'DynamoDB';
  const what = dynamo ? 'prefix or tableName' : 'prefix';
  const taken = new Map<string, string>();
  for (const environment of config.environments) {
    const { name, prefix, tableName } = environment;
    const where = places.get(`environment ${name}`) ?? name;
    const owner = taken.get(placeOf(environment, config));
    taken.set(placeOf(environment, config), name);
    if (dynamo && (tableName ?? config.dynamoDb?.tableName) === undefined) {
      problems.error(
        where,
        `environment "${name}" needs a tableName, since DynamoDB has none for all (DYNAMODB_TABLE)`,
      );
    } else if (prefix === undefined && (!dynamo || tableName === undefined)) {
      if (config.environments.length > 1)
        problems.error(where, `environment "${name}" needs a ${what} of its own in ${database}`);
      else
        problems.warn(
          where,
          `environment "${name}" has no ${what} for ${database}; with a second environment that would be an error`,
        );
    } else if (owner !== undefined) {
      problems.error(
        where,
        `environment "${name}" would write over "${owner}" in ${database}: give it its own ${what}`,
      );
    }
  }
  checkPatterns(config, places, problems);
  checkArchives(config, places, problems);
}

function checkArchives({ flags, dynamoDb }: Draft, places: ServicePlaces, problems: Problems): void {
  for (const source of flags.sources) {
    if (source.type === 'file') continue;
    const names = dynamoDb === undefined ? [source.prefix] : [source.prefix, source.tableName];
    if (names.some((each) => each?.includes(ID_PLACEHOLDER) === true)) continue;
    problems.warn(
      places.get('archive') ?? source.path,
      `several environments of one archive would write over each other in the database: give it a prefix (envDatastorePrefix) that contains ${ID_PLACEHOLDER}`,
    );
  }
}

function checkPatterns(config: Draft, places: ServicePlaces, problems: Problems): void {
  const { autoConfig, dynamoDb } = config;
  if (autoConfig === undefined) return;
  const database = databaseOf(config) ?? '';
  const names = dynamoDb === undefined ? [autoConfig.prefix] : [autoConfig.prefix, autoConfig.tableName];
  const where = places.get('autoConfig') ?? 'autoConfig';
  if (!names.some((each) => each?.includes(ID_PLACEHOLDER) === true)) {
    problems.error(
      where,
      `automatic configuration with ${database} needs a prefix (envDatastorePrefix)${dynamoDb === undefined ? '' : ' or a tableName (envDatastoreTableName)'} that contains ${ID_PLACEHOLDER}, so that environments keep apart`,
    );
  }
  if (dynamoDb !== undefined && (autoConfig.tableName ?? dynamoDb.tableName) === undefined) {
    problems.error(where, 'automatic configuration with DynamoDB needs a table: set tableName (DYNAMODB_TABLE)');
  }
}

function checkCache({ autoConfig, redis, store, dynamoDb }: Draft, places: ServicePlaces, problems: Problems): void {
  if (autoConfig?.cache === undefined || redis !== undefined || store.type === 'lmdb') return;
  const where = places.get('cache') ?? places.get('autoConfig') ?? 'autoConfig';
  problems.error(
    where,
    dynamoDb === undefined
      ? 'cacheKey needs something to keep the list of environments in: Redis, or a folder (HEADGATE_STORE, or store in our own file); set one up, or remove cacheKey'
      : 'the list of environments is not kept in DynamoDB: set HEADGATE_STORE to the path of a folder, or remove cacheKey',
  );
}

const SCHEMES = /^https?:\/\//i;

function checkUris(config: Draft, places: ServicePlaces, problems: Problems): void {
  const { upstream, events, outbound } = config;
  const uris: readonly (readonly [string, string | undefined])[] = [
    ['streamUri', upstream.streamUri],
    ['baseUri', upstream.baseUri],
    ['clientSideBaseUri', upstream.clientSideBaseUri],
    ['eventsUri', events.uri],
    ['proxy', outbound.proxy?.url],
  ];
  for (const [name, uri] of uris) {
    if (uri === undefined || SCHEMES.test(uri)) continue;
    const called = name === 'proxy' ? 'url of the proxy' : name;
    problems.error(places.get(name) ?? name, `${called}: expected http:// or https://, got ${uri.split(':', 1)[0]}://`);
  }
}

/** Fills in what depends on the file and the environment together, and reports what does not go together. */
export function settleService(config: Draft, open: DecisionsDraft, problems: Problems): void {
  const { places } = open;
  settleStore(config, open, problems);
  checkModes(config, places, problems);
  checkKeys(config, places, problems);
  checkDatabaseNames(config, places, problems);
  checkCache(config, places, problems);
  checkUris(config, places, problems);
}

function isServices(uri: string): boolean {
  return /(^|\.)launchdarkly\.(com|us|eu)$/i.test(hostOf(uri));
}

function hostOf(uri: string): string {
  return URL.canParse(uri) ? new URL(uri).hostname : '';
}

/** What to know about the service, once there is nothing wrong. */
export function adviseService(config: Draft, places: ServicePlaces, variables: Variables, problems: Problems): void {
  const { upstream, events, outbound, file } = config;
  const place = file ?? 'environment';
  if (config.dynamoDb !== undefined) {
    problems.warn(
      places.get('dynamoDb') ?? place,
      'flags are not written to DynamoDB, where only big segments are looked up: for SDKs that read flags from the database use Redis, and for restarts HEADGATE_STORE, the path of a folder',
    );
  }
  if (!hasUpstream(config)) {
    if (events.send)
      problems.info(
        places.get('events') ?? place,
        `events are sent to ${withoutUser(events.uri)} under the keys of files: it has to know them`,
      );
    return;
  }
  if (!isServices(upstream.streamUri) && isServices(upstream.baseUri)) {
    problems.warn(
      places.get('streamUri') ?? place,
      `flags come from ${withoutUser(upstream.streamUri)}, and what is polled from ${withoutUser(upstream.baseUri)}: set baseUri as well`,
    );
  }
  if (events.send && isServices(events.uri) && !isServices(upstream.streamUri)) {
    problems.warn(
      places.get('events') ?? place,
      `flags come from ${withoutUser(upstream.streamUri)}, and events go to ${withoutUser(events.uri)}: set eventsUri, unless that is meant`,
    );
  }
  const proxy = ['HTTPS_PROXY', 'https_proxy'].find((name) => (variables[name] ?? '') !== '');
  if (proxy !== undefined && outbound.proxy === undefined) {
    problems.info(
      proxy,
      `${proxy} is not looked at: to go to the service through a proxy, set url of [Proxy] (PROXY_URL)`,
    );
  }
}
