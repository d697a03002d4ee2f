import type { DynamoDbConfig, RedisConfig } from '../config/index.ts';
import type { PendingWrite } from '../dataset/index.ts';
import { messageOf } from '../kernel/index.ts';
import type { DataStoreState, DigestOrder, Environment, EnvironmentInfo } from '../protocols/launchdarkly/index.ts';
import {
  type BigSegmentStore,
  type DynamoFlagsOptions,
  type FlagKeep,
  FlagKeeper,
  openDynamoBigSegments,
  openDynamoFlags,
  openRedisBigSegments,
  openRedisFlags,
  RedisLink,
  type RedisOptions,
} from '../stores/index.ts';
import { BigSegments } from './flags-segments.ts';
import type { Shared } from './service.ts';

/** What an environment is kept under in a database. */
export interface KeptUnder {
  readonly prefix: string | undefined;
  readonly tableName: string | undefined;
}

/** What keeps one environment. */
interface Kept {
  readonly keep: FlagKeep;
  readonly order: DigestOrder | undefined;
  readonly status: (() => DataStoreState) | undefined;
  readonly segments: BigSegments | undefined;
  /** What was kept is put back once, before anything newer is taken. */
  restored: Promise<string | undefined> | undefined;
}

/** Small records beside the data: the list of environments. */
export interface KeptRecord {
  load(): Promise<Uint8Array | undefined>;
  save(bytes: Uint8Array): Promise<void>;
}

/**
 * What keeps flags: the vendor's layout in Redis or DynamoDB where one is set, so that SDKs and other replicas read it;
 * else the store of our own; else nothing.
 */
export class FlagKeeping {
  readonly #shared: Shared;
  readonly #keeper: FlagKeeper | undefined;
  /** The connections to Redis, which environments share. */
  readonly #link: RedisLink | undefined;
  readonly #kept = new Map<string, Kept>();

  constructor(shared: Shared) {
    this.#shared = shared;
    const { store, clock, log, config } = shared;
    this.#link = config.redis && new RedisLink(redisOptions(shared, config.redis, 'flags'));
    if (store === undefined) return;
    this.#keeper = new FlagKeeper({
      store,
      clock,
      onFailure: (error) => log.error({ code: error.code }, `${error.message}; flags are served all the same`),
      onRecovery: () => log.info({}, 'store can be written again, and has every flag'),
    });
  }

  /** From here on an environment is kept. Idempotent. */
  open(info: EnvironmentInfo, under: KeptUnder): void {
    if (this.#kept.has(info.id)) return;
    const kept = this.#openRedis(info, under) ?? this.#openDynamo(info, under) ?? this.#openStore(info.id);
    if (kept !== undefined) this.#kept.set(info.id, kept);
  }

  /** For data sets: resolves when a write is kept. */
  prepare(id: string, write: PendingWrite): Promise<void> {
    return this.#kept.get(id)?.keep.prepare(write) ?? Promise.resolve();
  }

  /** The source says that what was last written is all there is, under this selector of its own. */
  committed(id: string, state: string | undefined): void {
    this.#kept.get(id)?.keep.committed(state);
  }

  /**
   * Puts back what was kept of an environment that has no data yet. Answers the source's selector for it; whatever goes
   * wrong is told, and the environment begins with nothing.
   */
  restore(environment: Environment): Promise<string | undefined> {
    const kept = this.#kept.get(environment.info.id);
    if (kept === undefined) return Promise.resolve(undefined);
    environment.order = kept.order;
    kept.restored ??= this.#restore(environment, kept.keep);
    return kept.restored;
  }

  /** Who is in the big segments of an environment; undefined where nothing keeps them. */
  bigSegments(id: string): BigSegmentStore | undefined {
    return this.#kept.get(id)?.segments?.store;
  }

  /** Whether the store of our own could not be written; undefined where there is none, or it keeps nothing of flags. */
  get failing(): boolean | undefined {
    return this.#keeper?.failing;
  }

  /** Writes into an environment how it is with its database, for its status. */
  tell(environment: Environment): void {
    const kept = this.#kept.get(environment.info.id);
    environment.dataStore = kept?.status?.();
    kept?.segments?.tell(environment);
  }

  /** A record of this name in the store of our own; undefined where there is none. */
  record(name: string): KeptRecord | undefined {
    return this.#keeper?.record(name);
  }

  /** Forgets an environment that is no more. What stands in a shared database stays: it may be another's. */
  async remove(id: string): Promise<void> {
    const kept = this.#kept.get(id);
    this.#kept.delete(id);
    // asked for in this turn, so that whoever opens it anew waits for that
    const removed = this.#keeper?.remove(id);
    await Promise.all([kept?.segments?.close(), kept?.keep.close(), removed]);
  }

  /** Keeps what is not kept yet. */
  async close(): Promise<void> {
    await Promise.all(
      [...this.#kept.values()].map(async ({ keep, segments }) => {
        await segments?.close();
        await keep.close();
      }),
    );
    this.#link?.close();
  }

  async #restore(environment: Environment, keep: FlagKeep): Promise<string | undefined> {
    const { log } = this.#shared;
    const { name } = environment.info;
    try {
      const beganMs = performance.now();
      const found = await keep.restore();
      if (found === undefined || environment.data.ready) return undefined;
      await environment.restore(found, found.savedMs);
      const { count, digest } = environment.data.snapshot();
      // who else writes to a database does not say when
      const age =
        found.savedMs === 0 ? {} : { ageSeconds: Math.max(0, Math.round((Date.now() - found.savedMs) / 1000)) };
      log.info(
        { environment: name, items: count, digest, changes: found.log.length, ...age, ms: elapsed(beganMs) },
        'environment restored: its last good data are served until its source has told newer ones',
      );
      return found.state;
    } catch (error) {
      log.error({ environment: name, err: error }, `${messageOf(error)}; it begins without data`);
      return undefined;
    }
  }

  #openStore(id: string): Kept | undefined {
    const keep = this.#keeper?.keep(id);
    return keep && { keep, order: undefined, status: undefined, segments: undefined, restored: undefined };
  }

  #openRedis({ name, filterKey }: EnvironmentInfo, under: KeptUnder): Kept | undefined {
    const { redis } = this.#shared.config;
    if (redis === undefined) return undefined;
    const prefix = prefixOf(under.prefix ?? redis.prefix, filterKey);
    const link = this.#link;
    if (link === undefined) return undefined;
    const options = { ...redisOptions(this.#shared, redis, name), prefix, link };
    const flags = openRedisFlags(options);
    const segments = new BigSegments(this.#shared, openRedisBigSegments(options));
    return { keep: flags, order: flags.order, status: () => flags.status, segments, restored: undefined };
  }

  #openDynamo({ name, filterKey }: EnvironmentInfo, under: KeptUnder): Kept | undefined {
    const { dynamoDb } = this.#shared.config;
    const tableName = under.tableName ?? dynamoDb?.tableName;
    if (dynamoDb === undefined || tableName === undefined) return undefined;
    const prefix = prefixOf(under.prefix ?? dynamoDb.prefix ?? '', filterKey);
    const options = dynamoOptions(this.#shared, dynamoDb, { tableName, prefix, what: name });
    const flags = openDynamoFlags(options);
    const segments = new BigSegments(this.#shared, openDynamoBigSegments(options));
    return { keep: flags, order: undefined, status: () => flags.status, segments, restored: undefined };
  }
}

/** Filtered data are a data set of their own. */
function prefixOf(whole: string, filterKey: string | undefined): string {
  if (filterKey === undefined) return whole;
  return whole === '' ? filterKey : `${whole}.${filterKey}`;
}

function dynamoOptions(
  { clock, log }: Pick<Shared, 'clock' | 'log'>,
  { url }: DynamoDbConfig,
  { tableName, prefix, what }: { readonly tableName: string; readonly prefix: string; readonly what: string },
): DynamoFlagsOptions {
  return {
    tableName,
    ...(prefix === '' ? {} : { prefix }),
    ...(url === undefined ? {} : { url }),
    clock,
    onFailure: (error) => log.error({ what, code: error.code }, `${error.message}; flags are served all the same`),
    onRecovery: () => log.info({ what }, 'DynamoDB can be written again, and has every flag'),
  };
}

/** How to reach the database, and what is said when it is away: `what` is in the lines of the log. */
export function redisOptions(
  { clock, log }: Pick<Shared, 'clock' | 'log'>,
  redis: RedisConfig,
  what: string,
): RedisOptions {
  const { prefix: _prefix, ...connection } = redis;
  return {
    ...connection,
    clock,
    onFailure: (error) => log.error({ what, code: error.code }, `${error.message}; flags are served all the same`),
    onRecovery: () => log.info({ what }, 'Redis can be written again, and has everything'),
  };
}

function elapsed(sinceMs: number): number {
  return Math.round(performance.now() - sinceMs);
}
