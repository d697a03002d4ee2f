import { setTimeout as delay } from 'node:timers/promises';

const row = (id) => ({ id, name: `Item ${id}`, cents: 7 * id, tags: ['all', 'of', 'it'] });

/** Stands for your database: 8 MB of rows, filtered by who asks, so that there is nothing to cache. */
export async function readRows(signal) {
  await delay(100, undefined, { signal });
  return Array.from({ length: 115_000 }, (_, id) => row(id));
}
