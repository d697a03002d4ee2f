import { afterEach, expect, it } from 'vitest';
import { flag, mapShape } from '../../test/support/dataset-kit.ts';
import { bodyOf, decision, ledgerWith } from '../../test/support/views-kit.ts';
import { FakeClock } from '../kernel/index.ts';
import { Views } from './decisions/index.ts';
import { ENFORCED } from './decisions/filter.ts';
import { DataSet, type PagesEncoded, pagesEncoded, payloadOf, planOf } from './index.ts';

const told: PagesEncoded[] = [];
let stop: (() => void) | undefined;
afterEach(() => {
  stop?.();
  stop = undefined;
  told.length = 0;
});

function listen(): void {
  stop = pagesEncoded.listen((fact) => told.push(fact));
}

function bytesOf(data: string, encoding: string): number {
  const found = told.filter((fact) => fact.data === data && fact.encoding === encoding);
  return found.reduce((sum, { bytes }) => sum + bytes, 0);
}

async function dataOf(count: number): Promise<DataSet> {
  const data = new DataSet({ name: 'test', kinds: ['flags'] });
  await data.replace(Array.from({ length: count }, (_, at) => flag(`flag-${String(at).padStart(6, '0')}`, 1)));
  return data;
}

async function read(data: DataSet, encoding: 'identity' | 'gzip'): Promise<number> {
  const payload = payloadOf(data.snapshot(), planOf({ kind: 'flags', shape: mapShape }), encoding);
  let bytes = 0;
  for (let group = await payload.next(); group !== undefined; group = await payload.next()) {
    for (const piece of group) bytes += piece.length;
  }
  return bytes;
}

// Fails when Leaf.#encode tells of nothing, or page() and block() encode for each who asks.
it('pages of items are told of once, however many are sent them, and again when they change', async () => {
  listen();
  const data = await dataOf(5000);
  const bytes = await read(data, 'identity');
  const pages = told.length;
  expect(pages).toBeGreaterThan(1);
  // what is not in it stands between the pages
  expect(bytes - bytesOf('items', 'identity')).toBe(pages - 1);
  await read(data, 'identity');
  expect(told).toHaveLength(pages);
  const item = flag('flag-000007', 2);
  await data.apply([{ ...item, item }]);
  await read(data, 'identity');
  expect(told).toHaveLength(pages + 1);
  expect(told.every(({ ms }) => ms > 0 && ms < 5000)).toBe(true);
});

// Fails when Leaf.#compress tells of nothing.
it('compressed pages are told of as well, beside the joining of their texts', async () => {
  listen();
  const data = await dataOf(5000);
  const bytes = await read(data, 'gzip');
  const compressed = bytesOf('items', 'gzip');
  expect(compressed).toBeGreaterThan(1000);
  expect(compressed).toBeLessThan(bytes);
  expect(bytesOf('items', 'identity')).toBeGreaterThan(5 * compressed);
});

it('nothing is told of what nobody listened to', async () => {
  const data = await dataOf(100);
  await read(data, 'gzip');
  await read(data, 'identity');
  listen();
  await read(data, 'gzip');
  expect(told).toEqual([]);
});

// Fails when told() or Page.#renew tells of nothing.
it('pages of decisions are told of when they are built, and when their durations are written anew', async () => {
  listen();
  const many = Array.from({ length: 3000 }, (_, at) => decision(at + 1));
  const { ledger, wall } = await ledgerWith(many);
  const views = new Views(ledger, { wallNow: wall.now, clock: new FakeClock() });
  const readFull = async (encoding: 'identity' | 'gzip'): Promise<number> => {
    const copy = await views.full(ENFORCED, { dedup: true });
    const { length } = await bodyOf(copy, encoding);
    copy.release();
    return length;
  };
  await readFull('identity');
  const [built, ...stamped] = told.map(({ bytes }) => bytes);
  expect(stamped.length).toBeGreaterThan(1);
  expect(stamped.reduce((sum, bytes) => sum + bytes, 0)).toBe(built);
  await readFull('identity');
  expect(told).toHaveLength(1 + stamped.length);
  wall.ms += 2000;
  await readFull('identity');
  expect(told).toHaveLength(1 + 2 * stamped.length);
  await readFull('gzip');
  expect(told.filter(({ encoding }) => encoding === 'gzip')).toHaveLength(stamped.length);
  expect(told.every(({ data }) => data === 'decisions')).toBe(true);
});
