import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatDuration } from './duration.ts';
import { secondsLeft, secondsSince, slotBytes, writeDuration, writeSlot } from './slot.ts';

const FILLED = 0x23;

function durationOf(seconds: number): string {
  const bytes = Buffer.alloc(32);
  return bytes.toString('latin1', 0, writeDuration(bytes, 0, seconds));
}

/** What a slot of a width reads, and whether the bytes around it are as they were. */
function slotOf(width: number, seconds: number): string {
  const bytes = Buffer.alloc(width + 3, FILLED);
  writeSlot(bytes, 1, width, seconds);
  expect([bytes[0], bytes.at(-1)]).toEqual([FILLED, FILLED]);
  return bytes.toString('latin1', 1, width + 2);
}

const anySeconds = fc.oneof(
  fc.integer({ min: -400_000, max: 400_000 }),
  fc.integer({ min: -9_223_372_036, max: 9_223_372_036 }),
  fc.constantFrom(0, 59, 60, 3599, 3600, 35_999, 36_000, 359_999, 360_000),
);

describe('writeDuration', () => {
  it.each([
    [14_400, '4h0m0s'],
    [3540, '59m0s'],
    [68, '1m8s'],
    [30, '30s'],
    [0, '0s'],
    [-3, '-3s'],
    [604_798, '167h59m58s'],
    [-62_665, '-17h24m25s'],
  ])('writes %i seconds as Go does', (seconds, text) => {
    expect(durationOf(seconds)).toBe(text);
  });

  it('writes what formatDuration says', () => {
    fc.assert(
      fc.property(anySeconds, (seconds) => {
        expect(durationOf(seconds)).toBe(formatDuration(seconds * 1000));
      }),
    );
  });
});

describe('writeSlot', () => {
  it('pads behind the closing quote, to the same width whatever the duration', () => {
    expect(slotOf(8, 14_400)).toBe('4h0m0s"  ');
    expect(slotOf(8, 17_999)).toBe('4h59m59s"');
    expect(slotOf(8, 1)).toBe('1s"      ');
    expect(slotOf(10, -3)).toBe('-3s"       ');
  });

  // Fails when slotBytes does not add the hour.
  it('has room for an hour more, when that takes a digit more', () => {
    expect(slotOf(slotBytes(35_999), 39_598)).toBe('10h59m58s"');
    expect(slotOf(slotBytes(35_999), 1)).toBe('1s"       ');
  });

  // Fails when slotBytes keeps a byte less, and when the Math.max for what is below zero is removed.
  it('has room for a duration, for all that come after it, and for a clock set back by an hour less a second', () => {
    fc.assert(
      fc.property(anySeconds, fc.integer({ min: -3599, max: 400_000 }), (seconds, laterS) => {
        const past = seconds <= 0;
        const later = past ? Math.min(0, seconds - Math.min(laterS, 3599)) : Math.max(1, seconds - laterS);
        const text = slotOf(slotBytes(seconds), later);
        expect(text.trimEnd()).toBe(`${formatDuration(later * 1000)}"`);
        expect(text).toHaveLength(slotBytes(seconds) + 1);
      }),
    );
  });

  // Fails when writeSlot writes `seconds` instead of what fits: it runs over the text behind it.
  it('writes the longest duration that fits where one does not', () => {
    expect(slotOf(8, 36_000_000)).toBe('9h59m59s"');
    expect(slotOf(10, -36_000_000)).toBe('-99h59m59s"');
  });
});

describe('secondsLeft', () => {
  const moment = fc.integer({ min: 0, max: 2 ** 42 });

  it('never ends before the decision, and less than a second after it', () => {
    fc.assert(
      fc.property(moment, fc.double({ min: 0.001, max: 1e9, noNaN: true }), (nowMs, leftMs) => {
        const endMs = nowMs + secondsLeft(nowMs + leftMs, nowMs) * 1000;
        expect(endMs).toBeGreaterThanOrEqual(nowMs + leftMs);
        expect(endMs).toBeLessThan(nowMs + leftMs + 1000.01);
      }),
    );
  });

  // Fails when the Math.max is removed: ipset takes a timeout of 0 for none.
  it('is at least a second, since bouncers take zero for ever', () => {
    expect(secondsLeft(1000, 1000)).toBe(1);
    expect(secondsLeft(1000, 9_999_999)).toBe(1);
  });

  // Fails when the Math.min is removed: "2562048h0m0s" is an error to Go's ParseDuration.
  it('is at most what Go can read', () => {
    expect(durationOf(secondsLeft(Number.MAX_SAFE_INTEGER, 0))).toBe('2562047h47m16s');
  });
});

describe('secondsSince', () => {
  it('is never above zero, and never minus zero', () => {
    expect(secondsSince(60_000, 0)).toBe(0);
    expect(Object.is(secondsSince(0, 500), 0)).toBe(true);
    expect(secondsSince(0, 17_500)).toBe(-17);
    expect(durationOf(secondsSince(-Number.MAX_SAFE_INTEGER, 0))).toBe('-2562047h47m16s');
  });
});
