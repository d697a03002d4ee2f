import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  formatBytes,
  formatDuration,
  maskKey,
  parseBoolean,
  parseBytes,
  parseDuration,
  parseInteger,
  parseList,
  parseUrl,
  parseVendorBytes,
  parseWord,
} from './values.ts';

describe('durations', () => {
  it.each([
    ['3m', 180_000],
    ['500ms', 500],
    ['1h30m', 5_400_000],
    ['1m30s', 90_000],
    ['1.5s', 1500],
    ['.5s', 500],
    ['1.s', 1000],
    ['-3s', -3000],
    ['+3s', 3000],
    ['0', 0],
    ['-0', 0],
    ['1us', 0.001],
    ['1µs', 0.001],
    ['1μs', 0.001],
    ['1ns', 0.000001],
    ['1h1h', 7_200_000],
  ])('reads %s', (text, ms) => {
    expect(parseDuration(text)).toEqual({ ok: true, value: ms });
  });

  it.each([
    '',
    '3',
    '3 m',
    'm',
    '3d',
    '1h 30m',
    '1,5s',
    '--3s',
    '3M',
    '.s',
    '1e3s',
    '3m ',
    '9999999h',
    '1'.repeat(200),
  ])('refuses %j and says what was expected', (text) => {
    expect(parseDuration(text)).toEqual({ ok: false, expected: expect.stringContaining('500ms') });
  });

  it('writes what it reads, and reads what it writes', () => {
    fc.assert(
      fc.property(fc.integer({ min: -9_000_000_000, max: 9_000_000_000 }), (ms) => {
        expect(parseDuration(formatDuration(ms))).toEqual({ ok: true, value: ms || 0 });
      }),
    );
  });

  it.each([
    [0, '0s'],
    [1, '1ms'],
    [1500, '1.5s'],
    [60_000, '1m'],
    [3_600_000, '1h'],
    [5_400_000, '1h30m'],
    [Number.POSITIVE_INFINITY, 'no limit'],
  ])('writes %d ms as %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });
});

describe('sizes', () => {
  it.each([
    ['65536', 65_536],
    ['64KiB', 65_536],
    ['64 KiB', 65_536],
    ['1MiB', 1_048_576],
    ['1.5MiB', 1_572_864],
    ['10MB', 10_000_000],
    ['10kB', 10_000],
    ['0', 0],
  ])('reads %s', (text, bytes) => {
    expect(parseBytes(text)).toEqual({ ok: true, value: bytes });
  });

  it.each(['', '-1', '1XB', 'KiB', '1 K iB', '9999999TiB', '1e3'])('refuses %j', (text) => {
    expect(parseBytes(text).ok).toBe(false);
  });

  it.each([
    ['5MiB', 5 * 2 ** 20],
    ['5MB', 5 * 2 ** 20],
    ['100KiB', 102_400],
    ['12B', 12],
    ['0B', 0],
  ])('reads %s as the vendor does', (text, bytes) => {
    expect(parseVendorBytes(text)).toEqual({ ok: true, value: bytes });
  });

  it.each(['5', '5 MiB', '-5MiB', '9EiB', ''])('refuses %j as the vendor does', (text) => {
    expect(parseVendorBytes(text).ok).toBe(false);
  });

  it('reads every whole number of KiB that it writes', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1023 }), (kib) => {
        expect(parseBytes(formatBytes(kib * 1024))).toEqual({ ok: true, value: kib * 1024 });
      }),
    );
  });
});

describe('other values', () => {
  it.each(['1', 'true', 'TRUE', 'yes'])('takes %s as true everywhere', (text) => {
    expect(parseBoolean(text, 'env')).toEqual({ ok: true, value: true });
    expect(parseBoolean(text, 'ini')).toEqual({ ok: true, value: true });
  });

  it('knows on and off in files only, as the vendor does', () => {
    expect(parseBoolean('on', 'ini')).toEqual({ ok: true, value: true });
    expect(parseBoolean('off', 'ini')).toEqual({ ok: true, value: false });
    expect(parseBoolean('on', 'env').ok).toBe(false);
    expect(parseBoolean('off', 'env').ok).toBe(false);
    expect(parseBoolean('maybe', 'ini').ok).toBe(false);
  });

  it('reads whole numbers with a sign and nothing else', () => {
    expect(parseInteger('-7')).toEqual({ ok: true, value: -7 });
    for (const text of ['', '1.5', '0x10', '1e3', ' 1', '99999999999999999999'])
      expect(parseInteger(text).ok).toBe(false);
  });

  it('wants absolute URLs', () => {
    expect(parseUrl('https://example.com/x')).toEqual({ ok: true, value: 'https://example.com/x' });
    expect(parseUrl('redis://:secret@host:6379')).toMatchObject({ ok: true });
    for (const text of ['example.com', '/x', 'https:', 'https://', 'a b']) expect(parseUrl(text).ok).toBe(false);
  });

  it('splits lists at commas and keeps empty items, so that a check can name them', () => {
    expect(parseList('a, b ,c')).toEqual(['a', 'b', 'c']);
    expect(parseList('a,,b')).toEqual(['a', '', 'b']);
    expect(parseList('  ')).toEqual([]);
  });

  it('finds words in any case', () => {
    expect(parseWord('INFO', ['info', 'warn'])).toEqual({ ok: true, value: 'info' });
    expect(parseWord('loud', ['info', 'warn'])).toEqual({ ok: false, expected: 'one of info, warn' });
  });

  it('never shows more of a key than its last four characters, and nothing of a short one', () => {
    expect(maskKey('sdk-11111111-2222-3333-4444-555555556789')).toBe('...6789');
    fc.assert(
      fc.property(fc.string(), (key) => {
        const masked = maskKey(key);
        expect(masked.length).toBeLessThanOrEqual(7);
        expect(masked).toBe(key.length < 8 ? '...' : `...${key.slice(-4)}`);
      }),
    );
  });
});
