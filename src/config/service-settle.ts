import type { DecisionsDraft } from './decisions-draft.ts';
import { servesFlags } from './decisions-settle.ts';
import { ID_PLACEHOLDER, REDIS_PREFIX } from './defaults.ts';
import type { Problems } from './problems.ts';
import { hasUpstream, type ServicePlaces } from './service-draft.ts';
import { defaultStore } from './schema-store.ts';
import type { Config, Mutable, Variables } from './types.ts';
import { withoutUser } from './values.ts';

type Draft = Mutable<Config>;

/** The database that has data of environments, by the name that people know it by. */
function databaseOf({ redis, dynamoDb }: Draft): 'Redis' | 'DynamoDB' | undefined {
  if (redis !== undefined) return 'Redis';
  return dynamoDb === undefined ? undefined : 'DynamoDB';
}

/** Where flags are kept when nobody said: in the database, or with our own names in a folder. */
function settleStore(config: Draft, open: DecisionsDraft, problems: Problems): void {
  const { decisions, places } = { ...config, places: open.places };
  const database = databaseOf(config);
  if (database === undefined) {
    // files are read again after a restart; what the service said can be had from nowhere else while it is down
    const keeps = open.storeAt === undefined && !decisions.enabled && config.origin !== 'vendor';
    if (keeps && hasUpstream(config)) config.store = defaultStore();
    return;
  }
  if (config.redis !== undefined && config.dynamoDb !== undefined) {
    problems.error(
      places.get('dynamoDb') ?? 'dynamoDb',
      'only one database can be used, got Redis and DynamoDB: remove all but one',
    );
  }
  if (decisions.enabled) checkDecisions(config, open, problems);
  // HEADGATE_STORE=none means the folder; and the file may have chosen one database, and a variable the other
  else if (open.storeAt === undefined || config.store.type !== 'lmdb') {
    config.store = { type: database === 'Redis' ? 'redis' : 'dynamodb', path: '' };
  } else if (config.autoConfig?.cache === undefined) {
    problems.warn(
      open.storeAt,
      `nothing is kept in ${config.store.path}: flags are in ${database}, and there is nothing else to keep`,
    );
  }
}

/** Decisions beside a database, which has flags and nothing else: cursors of one replica mean nothing to another. */
function checkDecisions(config: Draft, open: DecisionsDraft, problems: Problems): void {
  const database = databaseOf(config) ?? '';
  const flags = servesFlags(config);
  const { type } = config.store;
  if (type === 'redis' || type === 'dynamodb') {
    problems.error(
      open.storeAt ?? 'store',
      `decisions are not kept in ${database}, where replicas would write over each other: ${flags ? `name a folder for them with store.path; flags stay in ${database}` : 'use store.type lmdb, a folder of its own for each replica'}`,
    );
  } else if (!flags) {
    const where = open.places.get(database === 'Redis' ? 'redis' : 'dynamoDb') ?? database;
    problems.warn(
      where,
      `nothing is kept in ${database}: there are no flags, and decisions have a folder of their own`,
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

/** What has a place of its own in a database. */
interface Placed {
  readonly name: string;
  readonly prefix?: string | undefined;
  readonly tableName?: string | undefined;
  readonly filterKeys?: readonly string[];
}

/** Where an environment is kept, and where what clients with a filter get: nothing else may be kept there. */
function placesOf({ prefix, tableName, filterKeys = [] }: Placed, { redis, dynamoDb }: Draft): string[] {
  const whole = prefix ?? redis?.prefix ?? dynamoDb?.prefix ?? '';
  const table = redis === undefined ? (tableName ?? dynamoDb?.tableName) : '';
  const filtered = filterKeys.map((key) => (whole === '' ? key : `${whole}.${key}`));
  return [whole, ...filtered].map((each) => `${table} ${each}`);
}

/** Environments that share a database must not write over each other. */
function checkDatabaseNames(config: Draft, places: ServicePlaces, problems: Problems): void {
  const database = databaseOf(config);
  if (database === undefined || (config.redis !== undefined && config.dynamoDb !== undefined)) return;
  const dynamo = database === 'DynamoDB';
  const what = dynamo ? 'prefix or tableName' : 'prefix';
  const taken = new Map<string, string>();
  const all: readonly Placed[] = [
    ...config.environments,
    ...config.flags.sources.filter((source) => source.type === 'file'),
  ];
  for (const environment of all) {
    const { name, prefix, tableName } = environment;
    const where = places.get(`environment ${name}`) ?? config.file ?? name;
    const own = placesOf(environment, config);
    const owner = own.map((place) => taken.get(place)).find((found) => found !== undefined);
    for (const place of own) taken.set(place, name);
    if (dynamo && (tableName ?? config.dynamoDb?.tableName) === undefined) {
      problems.error(
        where,
        `environment "${name}" needs a tableName, since DynamoDB has none for all (${nameOf(config, 'DYNAMODB_TABLE', 'store.tableName')})`,
      );
    } else if (prefix === undefined && (!dynamo || tableName === undefined)) {
      const shared = config.redis?.prefix ?? config.dynamoDb?.prefix;
      const isChosen = shared !== undefined && shared !== REDIS_PREFIX;
      if (all.length > 1) problems.error(where, `environment "${name}" needs a ${what} of its own in ${database}`);
      else if (!isChosen)
        problems.warn(
          where,
          `environment "${name}" has no ${what} of its own in ${database}${shared === undefined ? '' : `, and is kept under "${shared}"`}: with a second environment that would be an error`,
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

/** What a setting is called where it would be set: in our own file, or under the vendor's names. */
function nameOf({ origin }: Draft, vendor: string, own: string): string {
  return origin === 'yaml' ? own : vendor;
}

function checkArchives(config: Draft, places: ServicePlaces, problems: Problems): void {
  const { flags, dynamoDb } = config;
  for (const source of flags.sources) {
    if (source.type === 'file') continue;
    const where = places.get('archive') ?? source.path;
    if (dynamoDb !== undefined && (source.tableName ?? dynamoDb.tableName) === undefined) {
      const name = nameOf(config, 'DYNAMODB_TABLE', 'store.tableName');
      problems.error(where, `the archive needs a table of DynamoDB: set tableName (${name})`);
    }
    const names = dynamoDb === undefined ? [source.prefix] : [source.prefix, source.tableName];
    if (names.some((each) => each?.includes(ID_PLACEHOLDER) === true)) continue;
    problems.warn(
      where,
      `several environments of one archive would write over each other in the database: give it a prefix${nameOf(config, ' (envDatastorePrefix)', '')} that contains ${ID_PLACEHOLDER}`,
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
    const prefix = `prefix${nameOf(config, ' (envDatastorePrefix)', '')}`;
    const table = `tableName${nameOf(config, ' (envDatastoreTableName)', '')}`;
    problems.error(
      where,
      `automatic configuration with ${database} needs a ${prefix}${dynamoDb === undefined ? '' : ` or a ${table}`} that contains ${ID_PLACEHOLDER}, so that environments keep apart`,
    );
  }
  if (dynamoDb !== undefined && (autoConfig.tableName ?? dynamoDb.tableName) === undefined) {
    const name = nameOf(config, 'DYNAMODB_TABLE', 'store.tableName');
    problems.error(where, `automatic configuration with DynamoDB needs a table: set tableName (${name})`);
  }
}

function checkCache(config: Draft, places: ServicePlaces, problems: Problems): void {
  const { autoConfig, store, dynamoDb } = config;
  if (autoConfig?.cache === undefined || store.type === 'redis' || store.type === 'lmdb') return;
  const where = places.get('cache') ?? places.get('autoConfig') ?? 'autoConfig';
  const key = nameOf(config, 'cacheKey', 'cacheEncryptionKey');
  const folder = nameOf(config, 'HEADGATE_STORE', 'store.path');
  problems.error(
    where,
    dynamoDb === undefined
      ? `${key} needs something to keep the list of environments in: ${nameOf(config, 'Redis, or a folder (HEADGATE_STORE)', 'a store')}; set one up, or remove ${key}`
      : `the list of environments is not kept in DynamoDB: set ${folder} to the path of a folder, or remove ${key}`,
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
  if (config.dynamoDb !== undefined && servesFlags(config)) {
    problems.info(
      places.get('dynamoDb') ?? place,
      'replicas share no order of changes in DynamoDB: a client that comes from another replica may be sent a full copy, or older data for a while (headgate_steps_back_total counts that). With Redis they share it',
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
