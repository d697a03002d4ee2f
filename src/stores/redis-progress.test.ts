import { expect, it } from 'vitest';
import type { PendingWrite } from '../dataset/index.ts';
import { OrderBook, type OrderEntry } from './redis-order.ts';
import { Progress } from './redis-progress.ts';

/** The longest that a replica is told apart write by write. */
const STEPS = 9900;
/** Some twenty times what it takes, and a third of what it took when it was quadratic. */
const MS_MAX = 800;

function entry(place: number, digest: string): OrderEntry {
  const keys = [{ kind: 'flags', key: `k${place % 2000}`, version: place, deleted: false }];
  return { place, digest, clock: place, before: '', isReset: place === 1, keys: place === 1 ? [] : keys };
}

function noted(digests: readonly string[]): Progress {
  const progress = new Progress();
  progress.begin({ digest: 'd1', clock: 1 }, 1);
  for (const [at, digest] of digests.entries()) {
    const item = { kind: 'flags', key: `k${(at + 2) % 2000}`, version: at + 2, text: '' };
    const changes = [{ ...item, item }];
    const write: Partial<PendingWrite> = { result: 'changed', digest, clock: at + 2, changes, graves: [] };
    progress.note(write as PendingWrite, false);
  }
  return progress;
}

it.each(['d', 'other'])('thousands of writes of a time without Redis are found at once: %s', (name) => {
  const book = new OrderBook();
  book.begin('epoch');
  book.take(Array.from({ length: STEPS }, (_, at) => entry(at + 1, `d${at + 1}`)));
  const progress = noted(Array.from({ length: STEPS - 1 }, (_, at) => `${name}${at + 2}`));
  const beganMs = performance.now();
  expect(progress.plan(book).kind).toBe('nothing');
  expect(performance.now() - beganMs).toBeLessThan(MS_MAX);
  expect(progress.isPlaced).toBe(name === 'd');
  expect(progress.place).toBe(name === 'd' ? STEPS : 1);
});

it('the next place with a digest is the first one after a place', () => {
  const book = new OrderBook();
  book.begin('epoch');
  book.take(['a', 'b', 'a', 'c', 'a'].map((digest, at) => entry(at + 7, digest)));
  expect([6, 7, 9, 11].map((place) => book.next('a', place)?.place)).toEqual([7, 9, 11, undefined]);
  expect(book.next('b', 8)).toBeUndefined();
  expect(book.next('x', 7)).toBeUndefined();
  // what came between is not known
  expect(book.next('a', 5)).toBeUndefined();
});
