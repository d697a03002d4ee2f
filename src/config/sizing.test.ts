import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveLimits } from './limits.ts';
import { type DataSize, describeData, explainFit, fitOf, memoryNeeded } from './sizing.ts';
import type { Machine } from './types.ts';

const MIB = 2 ** 20;

function machine(memoryLimitBytes: number, lowWater = true): Machine {
  return { memoryLimitBytes, lowWater };
}

function data(bytes: number): DataSize {
  return { environments: 1, decisions: 0, bytes, largestBytes: bytes };
}

describe('limits and data together', () => {
  it('are the sum of what each member says', () => {
    const at = machine(512 * MIB);
    const fit = fitOf(resolveLimits('auto', at), at, data(11 * MIB));
    const sum = 512 / 4 + 256 / 4 + 2048 / 32 + 64 + 3 * 11 + 120;
    expect([fit.fits, fit.totalBytes]).toEqual([true, sum * MIB]);
    expect(fit.text).toContain('= 473MiB of 512MiB at the most');
  });

  // fails when a share grows, when slots keep theirs in little memory, and when what is advised would not do
  it.each([true, false])(
    'fit under auto with what is advised, and with 64 MiB less would not; mark: %s',
    (lowWater) => {
      fc.assert(
        fc.property(fc.integer({ min: 0, max: 2000 * MIB }), (bytes) => {
          const needed = memoryNeeded(resolveLimits('auto', machine(MIB, lowWater)), data(bytes));
          const fits = (at: Machine): boolean => fitOf(resolveLimits('auto', at), at, data(bytes)).fits;
          expect([fits(machine(needed, lowWater)), fits(machine(needed - 64 * MIB, lowWater))]).toEqual([true, false]);
        }),
      );
    },
  );

  // a default that warns about itself would be a fault: fails when slots have their whole share there
  it.each([
    [192, 1.3],
    [256, 10],
    [384, 16],
    [512, 24],
    [1024, 88],
  ])('fit in %d MiB with %d MiB of data', (memory, bytes) => {
    const at = machine(memory * MIB);
    expect(fitOf(resolveLimits('auto', at), at, data(bytes * MIB)).fits).toBe(true);
  });

  it('say what to do when they do not fit', () => {
    const at = machine(64 * MIB);
    const line = explainFit(resolveLimits('auto', at), at, data(MIB));
    expect(line).toMatch(/= 183MiB of 64MiB at the most, which does not fit: limits\.slots, .* with 192MiB of memory/);
    const plain = machine(64 * MIB, false);
    expect(fitOf(resolveLimits('auto', plain), plain, data(MIB)).advice).toContain('low-water mark');
  });

  it('have no sum when nothing is limited, but as many slow readers as fill the memory', () => {
    for (const mode of ['off', 'vendor'] as const) {
      const at = machine(512 * MIB);
      const fit = fitOf(resolveLimits(mode, at), at, data(MIB));
      expect([fit.fits, fit.totalBytes]).toEqual([true, undefined]);
      expect(fit.text).toContain('nothing is limited');
      expect(fit.text).toContain(`${(512 - 123) * 4} of them fill it`);
    }
    const small = machine(64 * MIB);
    expect(fitOf(resolveLimits('off', small), small, data(MIB))).toMatchObject({
      fits: false,
      advice: 'give it at least 192MiB of memory',
    });
  });

  it("say that the vendor's names leave pinned pages without a bound", () => {
    const at = machine(512 * MIB);
    const { text } = fitOf(resolveLimits({ mode: 'vendor', slots: 20, queue: 100 }, at), at, data(MIB));
    expect(text).toBe(
      '20 slots × 256KiB + 100 waiting × 32KiB + 3 × data + 120MiB process = 131.13MiB of 512MiB at the most, and pinned pages without a bound',
    );
  });
});

describe('the size of data in words', () => {
  it.each([
    [data(MIB), '1MiB in 1 environment'],
    [
      { environments: 2, decisions: 3, bytes: 2 * MIB, largestBytes: MIB },
      '2MiB in 2 environments and 3 decisions, the largest full copy 1MiB',
    ],
    [{ environments: 0, decisions: 1, bytes: 200, largestBytes: 200 }, '200B in 1 decision'],
  ])('%j', (size, text) => {
    expect(describeData(size)).toBe(text);
  });
});
