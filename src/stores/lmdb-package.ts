import { createRequire } from 'node:module';
// The types that the package has for modules are not valid in one (TS1203); those for CommonJS are the same, and are.
import type * as Lmdb from 'lmdb' with { 'resolution-mode': 'require' };

/** An open file of LMDB. */
export type LmdbDatabase = Lmdb.RootDatabase<Buffer, Buffer>;

const lmdb = createRequire(import.meta.url)('lmdb') as typeof Lmdb;

/** Opens a file of LMDB. */
export const openLmdb: typeof Lmdb.open = lmdb.open;
/** What a transaction answers to be undone. */
export const ABORT: typeof Lmdb.ABORT = lmdb.ABORT;
