import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Occurrences } from './occurrences.ts';

const kindAndKey = fc.tuple(
  fc.constantFrom('flags', 'segments'),
  fc.constantFrom('a', 'b', '__proto__', 'constructor', ''),
);

describe('occurrences', () => {
  it('the last of each is the one that an object would keep, in every reading', () => {
    fc.assert(
      fc.property(fc.array(kindAndKey), (all) => {
        const occurrences = new Occurrences();
        const last = new Map<string, number>();
        for (const [index, [kind, key]] of all.entries()) {
          expect(occurrences.note(kind, key)).toBeUndefined();
          last.set(`${kind}/${key}`, index);
        }
        occurrences.seal();
        const expected = all.map(([kind, key], index) => last.get(`${kind}/${key}`) === index);
        for (const isLast of [occurrences.lastOnes(), occurrences.lastOnes()]) {
          expect(all.map(([kind, key]) => isLast(kind, key))).toEqual(expected);
        }
      }),
    );
  });

  it('a key in two places is found, one in two kinds is not', () => {
    const occurrences = new Occurrences();
    expect(occurrences.note('flags', 'a', 3)).toBeUndefined();
    expect(occurrences.note('segments', 'a', 4)).toBeUndefined();
    expect(occurrences.note('flags', 'a', 3)).toBeUndefined();
    expect(occurrences.note('flags', 'a', 4)).toBe(3);
  });
});
