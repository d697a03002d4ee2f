export {
  type CursorStore,
  DecisionKeeper,
  type KeeperOptions,
  type KeptLedger,
  type KeyStore,
  type Records,
  type Restored,
} from './decisions.ts';
export { FlagKeeper, type FlagKeeperOptions, type KeptRecord } from './flags.ts';
export type { DynamoOptions } from './dynamo-client.ts';
export { type DynamoFlags, type DynamoFlagsOptions, openDynamoFlags } from './dynamo-flags.ts';
export { openDynamoBigSegments } from './dynamo-segments.ts';
export type { FlagKeep, KeptFlags } from './flags-keep.ts';
export { type LmdbOptions, openLmdbStore } from './lmdb.ts';
export { openMemoryStore } from './memory.ts';
export { type FlagStoreStatus, openRedisFlags, type RedisFlags, type RedisFlagsOptions } from './redis-flags.ts';
export { RedisLink } from './redis-link.ts';
export type { DigestOrder, OrderedState } from './redis-order.ts';
export { openRedisStore, type RedisStoreOptions } from './redis.ts';
export type { RedisOptions, RedisTls } from './redis-client.ts';
export { openRedisBigSegments, type RedisBigSegmentsOptions } from './redis-segments.ts';
export type { Entry, Store, Write } from './store.ts';
export type { BigSegmentStore } from './vendor-segments.ts';
