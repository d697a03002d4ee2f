import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { compileRooms } from '../../test/support/compiled.ts';
import { type StoreKind, storeContract } from '../../test/support/store-contract.ts';
import { openLmdbStore } from './lmdb.ts';

type Open = typeof openLmdbStore;

// As it is run: compiled, so that the file has a thread of its own.
const compiled = compileRooms(['kernel', 'stores']);
const built = (await import(/* @vite-ignore */ compiled.url('stores/index'))) as { openLmdbStore: Open };
afterAll(() => rmSync(compiled.folder, { recursive: true }));

function kindOf(open: Open): StoreKind {
  return {
    keeps: true,
    place() {
      const folder = mkdtempSync(join(tmpdir(), 'headgate-store-'));
      return {
        open: () => open({ path: join(folder, 'deep', 'store.d') }),
        dispose: () => rmSync(folder, { recursive: true }),
      };
    },
  };
}

storeContract('lmdb, on the thread that uses it', kindOf(openLmdbStore));
storeContract('lmdb, on a thread of its own', kindOf(built.openLmdbStore));
