import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatDuration, parseDuration } from './duration.ts';

/** What Go 1.25 prints for time.Duration(ms) * time.Millisecond, rounded up to seconds. */
const FORMATTED: readonly (readonly [number, string])[] = [
  [0, '0s'],
  [1, '1s'],
  [999, '1s'],
  [1000, '1s'],
  [29_001, '30s'],
  [59_999, '1m0s'],
  [60_000, '1m0s'],
  [3_540_000, '59m0s'],
  [3_599_001, '1h0m0s'],
  [14_400_000, '4h0m0s'],
  [604_798_000, '167h59m58s'],
  [36_000_000_000, '10000h0m0s'],
  // toward later: what ended less than a second ago ends now
  [-999, '0s'],
  [-1000, '-1s'],
  [-3999, '-3s'],
  [-63_865_000, '-17h44m25s'],
];

describe('formatDuration', () => {
  it.each(FORMATTED)('writes %d ms as %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  it('never says less than there is, nor a second more', () => {
    fc.assert(
      fc.property(fc.integer({ min: -1e12, max: 1e12 }), (ms) => {
        const told = parseDuration(formatDuration(ms)) as number;
        expect(told >= ms && told < ms + 1000, `${ms} is told as ${told}`).toBe(true);
      }),
    );
  });
});

/** As Go 1.25's time.ParseDuration has it. */
const PARSED: readonly (readonly [string, number | undefined])[] = [
  ['0', 0],
  ['+0', 0],
  ['-0', 0],
  ['0s', 0],
  ['5s', 5000],
  ['1478s', 1_478_000],
  ['4h0m0s', 14_400_000],
  ['0004h00m00s', 14_400_000],
  ['-17h44m25s', -63_865_000],
  ['+5s', 5000],
  ['5.6s', 5600],
  ['5.s', 5000],
  ['.5s', 500],
  ['-.5s', -500],
  ['1.0s', 1000],
  ['3h59m49.48s', 14_389_480],
  ['10ns', 1e-5],
  ['11us', 0.011],
  ['12µs', 0.012],
  ['12μs', 0.012],
  ['13ms', 13],
  ['1m1h', 3_660_000],
  ['39h9m14.425s', 140_954_425],
  ['2562047h47m16s', 9_223_372_036_000],
  ['', undefined],
  ['3', undefined],
  ['-', undefined],
  ['s', undefined],
  ['.', undefined],
  ['-.', undefined],
  ['.s', undefined],
  ['+.s', undefined],
  ['1d', undefined],
  ['1h 2m', undefined],
  [' 1h', undefined],
  ['1h5', undefined],
  ['1e3s', undefined],
  ['--1s', undefined],
  ['00', undefined],
  ['1.2.3s', undefined],
  ['9223372036854775808ns', undefined],
  ['2562048h', undefined],
];

describe('parseDuration', () => {
  it.each(PARSED)('reads %j as %s', (text, ms) => {
    const read = parseDuration(text);
    expect(read && Number(read.toPrecision(14))).toBe(ms);
  });

  it('does not look at a text that is longer than any that means something', () => {
    expect(parseDuration(`${'0'.repeat(198)}1s`)).toBe(1000);
    expect(parseDuration(`${'0'.repeat(199)}1s`)).toBeUndefined();
  });
});
