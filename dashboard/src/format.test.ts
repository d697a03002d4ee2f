import { describe, expect, it } from 'vitest';
import {
  bytes,
  bytesPerSecond,
  clockTime,
  count,
  counted,
  dayTime,
  duration,
  milliseconds,
  percent,
  rate,
  share,
  shortPosition,
  wholeSeconds,
} from './format.ts';

const KIB = 1024;
const MIB = KIB * KIB;

describe('numbers for people', () => {
  it('are counted with commas, and one is one', () => {
    expect([0, 999, 1234, 1_234_567].map(count)).toEqual(['0', '999', '1,234', '1,234,567']);
    expect(counted(1, 'delivery', 'deliveries')).toBe('1 delivery');
    expect(counted(2000, 'stream')).toBe('2,000 streams');
  });

  it('are bytes in units of 1024, whole below the first', () => {
    expect([0, 1, 1023].map(bytes)).toEqual(['0 B', '1 B', '1,023 B']);
    expect([KIB, 1.5 * MIB, 12.34 * MIB, 3 * KIB * MIB].map(bytes)).toEqual([
      '1.0 KiB',
      '1.5 MiB',
      '12.3 MiB',
      '3.0 GiB',
    ]);
    expect(bytes(null)).toBe('–');
    expect(bytes(-2 * KIB)).toBe('-2.0 KiB');
  });

  // Fails when the unit is chosen before rounding.
  it('never say 1,024 of a unit', () => {
    expect(bytes(MIB - 1)).toBe('1.0 MiB');
    expect(bytes(KIB * MIB - 1)).toBe('1.0 GiB');
    expect(bytes(1023.94 * KIB)).toBe('1,023.9 KiB');
  });

  it('are rates', () => {
    expect([0, 0.25, 12, 99.94, 1234].map(rate)).toEqual(['0', '0.3', '12.0', '99.9', '1,234']);
    expect(bytesPerSecond(1.5 * MIB)).toBe('1.5 MiB/s');
    expect(bytesPerSecond(0.4)).toBe('0 B/s');
  });

  it('are shares: something is never nothing', () => {
    expect([0, 0.001, 0.004, 0.37, 1].map(percent)).toEqual(['0 %', '< 1 %', '< 1 %', '37 %', '100 %']);
    expect([share(1, 4), share(9, 4), share(-1, 4), share(1, 0), share(1, null)]).toEqual([0.25, 1, 0, 0, 0]);
  });
});

describe('times for people', () => {
  it('are said in the two units that matter', () => {
    const said = [0, 400, 9949, 9950, 12_400, 59_499, 59_500, 60_000, 200_000, 3_599_999].map(duration);
    expect(said).toEqual([
      '0.0 s',
      '0.4 s',
      '9.9 s',
      '10 s',
      '12 s',
      '59 s',
      '1 min 0 s',
      '1 min 0 s',
      '3 min 20 s',
      '59 min 59 s',
    ]);
    expect([3_600_000, 18_720_000, 86_400_000, 273_600_000].map(duration)).toEqual([
      '1 h 0 min',
      '5 h 12 min',
      '1 d 0 h',
      '3 d 4 h',
    ]);
    expect([duration(null), duration(-5)]).toEqual(['–', '0.0 s']);
  });

  it('are whole seconds where they rise by themselves', () => {
    expect([-20, 0, 1499, 61_000].map(wholeSeconds)).toEqual(['0 s', '0 s', '1 s', '1 min 1 s']);
  });

  it('are milliseconds where little is much', () => {
    expect([0.04, 9.94, 340, 2400].map(milliseconds)).toEqual(['0.0 ms', '9.9 ms', '340 ms', '2.4 s']);
  });

  it('are of the place where the page is looked at', () => {
    const at = new Date(2026, 10, 3, 9, 5, 7).getTime();
    expect(clockTime(at)).toBe('09:05:07');
    expect(dayTime(at)).toBe('3 Nov 09:05');
  });
});

describe('a position', () => {
  it('is shortened, unless that saves nothing', () => {
    expect(shortPosition('k3Jx9f2mQpL0aZ.17231.server')).toBe('k3Jx9f2mQpL0…');
    expect(shortPosition('abcdefghijklm')).toBe('abcdefghijklm');
  });
});
