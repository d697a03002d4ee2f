import { describe, expect, it } from 'vitest';
import type { Item } from './index.ts';
import { Leaf } from './leaf.ts';
import { leafWeight, Packer } from './packer.ts';

const meter = { pinnedBytes: 0 };
const KIB = 1024;

/** An item that weighs so much in a leaf: 32 bytes of it are what a shape writes around a text. */
function item(key: number, weight: number): Item {
  return { kind: 'flags', key: String(key).padStart(4, '0'), version: 1, text: 'x'.repeat(weight - 32) };
}

function leaf(key: number, ...weights: number[]): Leaf {
  return new Leaf(
    weights.map((weight, at) => item(key + at, weight)),
    meter,
  );
}

/** The weights of the leaves that items of these weights come to. */
function packed(...weights: number[]): number[] {
  const packer = new Packer(meter);
  for (const [at, weight] of weights.entries()) packer.push(item(at, weight));
  return packer.finish().map(leafWeight);
}

function kept(...leaves: Leaf[]): Leaf[] {
  const packer = new Packer(meter);
  for (const each of leaves) packer.keep(each);
  return packer.finish();
}

describe('Packer', () => {
  it('makes nothing of nothing', () => {
    expect(packed()).toEqual([]);
  });

  it('weighs each item with what stands around it', () => {
    expect(leafWeight(leaf(0, 100, 200))).toBe(300);
    expect(leaf(0, 100, 200).textBytes).toBe(300 - 2 * 32);
    // tiny items: 3,072 of them, and no more, fit into a leaf that is not split
    expect(packed(...Array<number>(3072).fill(32))).toEqual([96 * KIB]);
    expect(packed(...Array<number>(3073).fill(32))).toEqual([64 * KIB, 32 * KIB + 32]);
  });

  it('splits above 96 KiB only, at 64 KiB', () => {
    expect(packed(32 * KIB, 32 * KIB, 32 * KIB)).toEqual([96 * KIB]);
    expect(packed(32 * KIB, 32 * KIB, 32 * KIB + 1)).toEqual([64 * KIB, 32 * KIB + 1]);
    expect(packed(32 * KIB, 32 * KIB + 1, 32 * KIB)).toEqual([32 * KIB, 64 * KIB + 1]);
  });

  it('gives what weighs too much a leaf of its own', () => {
    expect(packed(200 * KIB)).toEqual([200 * KIB]);
    expect(packed(200 * KIB, 20 * KIB, 200 * KIB)).toEqual([200 * KIB, 20 * KIB, 200 * KIB]);
    expect(packed(20 * KIB, 200 * KIB, 20 * KIB)).toEqual([20 * KIB, 200 * KIB, 20 * KIB]);
  });

  it('keeps leaves that are large enough as they are', () => {
    const leaves = [leaf(0, 16 * KIB), leaf(1, 16 * KIB), leaf(2, 64 * KIB)];
    // fails when leaves are joined although neither is small
    expect(kept(...leaves)).toEqual(leaves);
    expect(kept(...leaves).every((each, at) => each === leaves[at])).toBe(true);
  });

  it('joins a leaf below 16 KiB with a neighbour, on either side, when both fit into 96 KiB', () => {
    const small = 16 * KIB - 1;
    expect(kept(leaf(0, small), leaf(1, 40 * KIB)).map(leafWeight)).toEqual([56 * KIB - 1]);
    expect(kept(leaf(0, 40 * KIB), leaf(1, small)).map(leafWeight)).toEqual([56 * KIB - 1]);
    expect(kept(leaf(0, 40 * KIB), leaf(1, small))[0]!.items.map(({ key }) => key)).toEqual(['0000', '0001']);
    expect(kept(leaf(0, small), leaf(1, 80 * KIB + 1)).map(leafWeight)).toEqual([96 * KIB]);
    expect(kept(leaf(0, small), leaf(1, 80 * KIB + 2)).map(leafWeight)).toEqual([small, 80 * KIB + 2]);
  });

  it('goes on joining until nothing small is left that fits', () => {
    expect(kept(leaf(0, 60 * KIB), leaf(1, 90 * KIB), leaf(2, 3 * KIB), leaf(3, 2 * KIB)).map(leafWeight)).toEqual([
      60 * KIB,
      95 * KIB,
    ]);
    expect(packed(60 * KIB, 90 * KIB, 3 * KIB, 2 * KIB)).toEqual([60 * KIB, 95 * KIB]);
  });

  it('puts new items between the leaves that stay', () => {
    const [first, last] = [leaf(0, 40 * KIB), leaf(9, 40 * KIB)];
    const packer = new Packer(meter);
    packer.keep(first);
    packer.push(item(5, 20 * KIB));
    packer.push(item(6, 20 * KIB));
    packer.keep(last);
    const leaves = packer.finish();
    expect(leaves.map(({ items }) => items.map(({ key }) => key))).toEqual([['0000'], ['0005', '0006'], ['0009']]);
    expect([leaves[0], leaves[2]]).toEqual([first, last]);
    expect(leaves[1]!.textBytes).toBe(40 * KIB - 64);
  });
});
