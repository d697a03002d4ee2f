import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DigestSum } from './digest.ts';
import type { Item } from './index.ts';

const item: fc.Arbitrary<Item> = fc.record({
  kind: fc.constantFrom('a', 'aa', 'b'),
  key: fc.string({ unit: fc.constantFrom('a', '1', ':', '\0', 'é'), maxLength: 4 }),
  version: fc.nat({ max: 20 }),
  text: fc.string({ unit: fc.constantFrom('a', '1', ':', '{', 'é'), maxLength: 4 }),
});
const same = (a: Item, b: Item): boolean => JSON.stringify(a) === JSON.stringify(b);

function sumOf(items: readonly Item[]): DigestSum {
  const sum = new DigestSum();
  for (const each of items) sum.add(each);
  return sum;
}

/** The same in plain big integers. */
function expected(items: readonly Item[]): string {
  let total = 0n;
  for (const { kind, key, version, text } of items) {
    const hash = createHash('sha256')
      .update(`${kind.length}:${key.length}:${version}:${kind}${key}${text}`)
      .digest('hex');
    total += BigInt(`0x${hash}`);
  }
  return Buffer.from((total % 2n ** 256n).toString(16).padStart(64, '0'), 'hex').toString('base64url');
}

describe('DigestSum', () => {
  it('is the sum of SHA-256 values mod 2^256', () => {
    fc.assert(
      fc.property(fc.array(item), (items) => {
        expect(sumOf(items).toString()).toBe(expected(items));
      }),
    );
  });

  it('does not depend on the order, and forgets what is taken out', () => {
    fc.assert(
      fc.property(fc.array(item), fc.array(item), (items, others) => {
        const sum = sumOf(others);
        for (const each of items) sum.add(each);
        for (const each of others) sum.subtract(each);
        expect(sum.toString()).toBe(sumOf(items.toReversed()).toString());
      }),
    );
  });

  it('differs for different items, however their fields run into each other', () => {
    fc.assert(
      fc.property(item, item, (a, b) => {
        expect(sumOf([a]).toString() === sumOf([b]).toString()).toBe(same(a, b));
      }),
    );
    const runs = [
      { kind: 'a', key: 'ab', version: 1, text: 'c' },
      { kind: 'aa', key: 'b', version: 1, text: 'c' },
      { kind: 'a', key: 'a', version: 1, text: 'bc' },
      { kind: 'a', key: 'abc', version: 1, text: '' },
    ];
    expect(new Set(runs.map((each) => sumOf([each]).toString())).size).toBe(runs.length);
  });

  it('counts a thing twice when it is there twice, which XOR would not', () => {
    const one: Item = { kind: 'a', key: 'k', version: 1, text: '{}' };
    expect(sumOf([one, one]).toString()).not.toBe(sumOf([]).toString());
    expect(sumOf([one, one]).toString()).toBe(expected([one, one]));
  });

  it('adds sums, below zero and above 2^256 too', () => {
    const items = Array.from(
      { length: 50 },
      (_, at): Item => ({ kind: 'a', key: String(at), version: at, text: '{}' }),
    );
    const total = sumOf(items.slice(0, 25));
    total.addSum(sumOf(items.slice(25)));
    expect(total.toString()).toBe(expected(items));
    const debt = new DigestSum();
    for (const each of items) debt.subtract(each);
    debt.addSum(total);
    expect(debt.toString()).toBe('A'.repeat(43));
  });

  it('takes its carries before a word is no longer exact', () => {
    const one: Item = { kind: 'a', key: 'k', version: 1, text: '{}' };
    const sum = new DigestSum(new Float64Array(8).fill(2 ** 52));
    sum.add(one);
    const words = Array.from({ length: 8 }, (_, word) => (2n ** 52n) << BigInt(32 * word)).reduce((a, b) => a + b);
    const own = BigInt(`0x${Buffer.from(expected([one]), 'base64url').toString('hex')}`);
    expect(Buffer.from(sum.toString(), 'base64url').toString('hex')).toBe(
      ((words + own) % 2n ** 256n).toString(16).padStart(64, '0'),
    );
  });

  it('clones without sharing', () => {
    const sum = sumOf([{ kind: 'a', key: 'k', version: 1, text: '{}' }]);
    const before = sum.toString();
    sum.clone().add({ kind: 'a', key: 'l', version: 1, text: '{}' });
    expect(sum.toString()).toBe(before);
  });
});
