import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CachedResult, ResultCache } from './cache.ts';
import { Packer } from './packed.ts';

function resultOf(length: number): CachedResult {
  const packer = new Packer();
  packer.add('k', 1, ['x'.repeat(length), '', '']);
  return { packed: packer.pack(), consulted: [], revision: '' };
}

const KILOBYTE = resultOf(1024);
const now = { environmentId: 'a', digest: 'now', isPresent: true };

/** Room for as many results of a kilobyte. */
function cacheOf(count: number): ResultCache {
  const one = new ResultCache(1e6);
  one.put('k1', now, KILOBYTE);
  return new ResultCache(one.bytes * count);
}

const held = (cache: ResultCache, ...keys: readonly string[]): string[] =>
  keys.filter((key) => cache.get(key) !== undefined);

describe('the cache of results', () => {
  it('lets go first of what was asked for longest ago', () => {
    const cache = cacheOf(2);
    cache.put('k1', now, KILOBYTE);
    cache.put('k2', now, KILOBYTE);
    expect(cache.get('k1')).toBe(KILOBYTE);
    cache.put('k3', now, KILOBYTE);
    expect(held(cache, 'k1', 'k2', 'k3')).toEqual(['k1', 'k3']);
  });

  it('lets go before that of states that are over, however late they come', () => {
    const cache = cacheOf(3);
    cache.put('b1', { environmentId: 'b', digest: 'now', isPresent: true }, KILOBYTE);
    cache.put('k1', now, KILOBYTE);
    cache.advance('a', 'next');
    cache.put('k2', { environmentId: 'a', digest: 'next', isPresent: true }, KILOBYTE);
    cache.put('k3', { environmentId: 'a', digest: 'next', isPresent: true }, KILOBYTE);
    expect(held(cache, 'k1', 'k2', 'k3', 'b1')).toEqual(['k2', 'k3', 'b1']);
    // computed before the data moved on, and done after
    cache.put('k4', { environmentId: 'a', digest: 'now', isPresent: false }, KILOBYTE);
    cache.put('k5', { environmentId: 'a', digest: 'next', isPresent: true }, KILOBYTE);
    expect(held(cache, 'k2', 'k3', 'k4', 'k5', 'b1')).toEqual(['k3', 'k5', 'b1']);
  });

  it('counts a state that comes back as present again', () => {
    const cache = cacheOf(2);
    cache.put('k1', now, KILOBYTE);
    cache.advance('a', 'next');
    cache.put('k2', { environmentId: 'a', digest: 'next', isPresent: true }, KILOBYTE);
    cache.advance('a', 'now');
    cache.put('k3', now, KILOBYTE);
    expect(held(cache, 'k1', 'k2', 'k3')).toEqual(['k1', 'k3']);
  });

  it('keeps nothing that is larger than it may be, and nothing of what is gone', () => {
    const cache = cacheOf(2);
    cache.put('large', now, resultOf(1e6));
    expect(cache.get('large')).toBeUndefined();
    cache.put('k1', now, KILOBYTE);
    cache.put('b1', { ...now, environmentId: 'b' }, KILOBYTE);
    cache.remove('a');
    expect(held(cache, 'k1', 'b1')).toEqual(['b1']);
    cache.remove('b');
    expect([cache.bytes, cache.size]).toEqual([0, 0]);
  });

  // A look at each of the 20,000 would take a second or more; a client that anybody may be makes as many as it likes.
  it('does not look at every result when the data change', () => {
    const cache = new ResultCache(1e9);
    for (let at = 0; at < 20_000; at++) cache.put(`k${at}`, { ...now, digest: 'd0' }, KILOBYTE);
    const before = process.cpuUsage();
    for (let change = 1; change <= 500; change++) cache.advance('a', `d${change}`);
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1000).toBeLessThan(300);
    expect(held(cache, 'k0', 'k19999')).toEqual(['k0', 'k19999']);
  });

  it('never holds more than it may, and counts what it holds', () => {
    const environmentId = fc.constantFrom('a', 'b');
    const digest = fc.constantFrom('d1', 'd2');
    const step = fc.oneof(
      fc.record({
        key: fc.constantFrom('1', '2', '3', '4', '5'),
        environmentId,
        digest,
        isPresent: fc.boolean(),
        length: fc.nat(3000),
      }),
      fc.record({ environmentId, digest }),
      fc.record({ environmentId }),
    );
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const cache = new ResultCache(5000);
        for (const taken of steps) {
          if ('key' in taken) cache.put(taken.environmentId + taken.key, taken, resultOf(taken.length));
          else if ('digest' in taken) cache.advance(taken.environmentId, taken.digest);
          else cache.remove(taken.environmentId);
          expect(cache.bytes).toBeLessThanOrEqual(5000);
        }
        for (const gone of ['a', 'b']) cache.remove(gone);
        expect([cache.bytes, cache.size]).toEqual([0, 0]);
      }),
    );
  });
});
