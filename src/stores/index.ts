export { type LmdbOptions, openLmdbStore } from './lmdb.ts';
export { openMemoryStore } from './memory.ts';
export type { Entry, Store, Write } from './store.ts';
