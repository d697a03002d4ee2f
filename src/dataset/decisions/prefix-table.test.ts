import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Slices } from '../../kernel/index.ts';
import { Pace } from '../pace.ts';
import { maskOf } from './addresses.ts';
import { PrefixTable } from './prefix-table.ts';

/** Words that differ in few bits, at either end, so that networks hold each other. */
const word = fc.constantFrom(0, 1, 2, 3, 0x8000_0000, 0xc000_0000, 0xc000_0001, 0xffff_ffff);
interface Network {
  readonly key: Uint32Array;
  readonly prefix: number;
}
function network(words: number): fc.Arbitrary<Network> {
  const prefixes = words === 1 ? [0, 1, 2, 31, 32] : [0, 1, 33, 64, 96, 127, 128];
  return fc
    .record({ key: fc.array(word, { minLength: words, maxLength: words }), prefix: fc.constantFrom(...prefixes) })
    .map(({ key, prefix }) => ({ key: Uint32Array.from(key, (bits, at) => bits & maskOf(prefix - 32 * at)), prefix }));
}

const nameOf = ({ key, prefix }: Network): string => `${[...key].join(':')}/${prefix}`;

function holds(outer: Network, inner: Network): boolean {
  if (outer.prefix > inner.prefix) return false;
  return outer.key.every((bits, at) => bits === ((inner.key[at] as number) & maskOf(outer.prefix - 32 * at)) >>> 0);
}

describe.each([1, 4])('networks of %d words', (words) => {
  it('are found, around and inside, as a plain list finds them', async () => {
    const step = fc.record({ network: network(words), add: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), network(words), async (steps, probe) => {
        const table = new PrefixTable(words);
        const plain = new Map<string, { network: Network; number: number }>();
        for (const [number, { network: at, add }] of steps.entries()) {
          if (add) {
            await table.reserve(1, new Pace(new Slices(), 1));
            table.set(at.key, at.prefix, number);
            plain.set(nameOf(at), { network: at, number });
          } else if (plain.delete(nameOf(at))) {
            table.delete(at.key, at.prefix);
          }
          expect(table.get(at.key, at.prefix)).toBe(plain.get(nameOf(at))?.number ?? -1);
        }
        const all = [...plain.values()];
        for (const { network: at, number } of all) expect(table.get(at.key, at.prefix)).toBe(number);
        const around: number[] = [];
        table.around(probe.key, probe.prefix, (number) => around.push(number));
        const holding = all.filter((one) => holds(one.network, probe));
        expect(around).toEqual(
          holding.toSorted((a, b) => a.network.prefix - b.network.prefix).map(({ number }) => number),
        );
        const inside: number[] = [];
        table.inside(probe.key, probe.prefix, (number) => inside.push(number));
        const held = all.filter((one) => holds(probe, one.network));
        expect(new Set(inside)).toEqual(new Set(held.map(({ number }) => number)));
        expect(inside).toHaveLength(held.length);
      }),
      { numRuns: 500 },
    );
  });
});

describe('a full table', () => {
  it('keeps its networks where they are pushed past each other, whichever goes', async () => {
    // slots are short of networks by a third, so that many are not where their search begins
    const key = (number: number): Uint32Array => Uint32Array.of(Math.imul(number, 0x9e37_79b1));
    const table = new PrefixTable(1);
    await table.reserve(2860, new Pace(new Slices(), 64));
    for (let number = 0; number < 2860; number++) table.set(key(number), 32, number);
    // fails when `delete` leaves a hole, or moves what must stay
    for (let number = 0; number < 2860; number += 3) table.delete(key(number), 32);
    const found = Array.from({ length: 2860 }, (_, number) => table.get(key(number), 32));
    expect(found).toEqual(Array.from({ length: 2860 }, (_, number) => (number % 3 === 0 ? -1 : number)));
  });
});
