import type { Config } from '../config/index.ts';
import { openLmdbStore, openRedisStore, type Store } from '../stores/index.ts';
import { redisOptions } from './flags-keep.ts';
import type { Shared } from './service.ts';

/** Opens what the configuration says; undefined: nothing is kept. Rejects when it cannot be opened (HG_STORE). */
export async function openStore(shared: Omit<Shared, 'store'>): Promise<Store | undefined> {
  const { store, redis }: Config = shared.config;
  if (store.type === 'lmdb') return openLmdbStore({ path: store.path });
  if (store.type === 'redis' && redis !== undefined) return openRedisStore(redisOptions(shared, redis, 'store'));
  return undefined;
}
