import { describe, expect, it } from 'vitest';
import { type DataSize, resolveLimits } from '../config/index.ts';
import { FakeClock } from '../kernel/index.ts';
import { Sizing, sumOf } from './sizing.ts';

const MIB = 2 ** 20;
const machine = { memoryLimitBytes: 512 * MIB, lowWater: true };

function flags(bytes: number): DataSize {
  return { environments: 1, decisions: 0, bytes, largestBytes: bytes };
}

function rig(): { clock: FakeClock; lines: string[]; sizing: Sizing; holds: (size: DataSize | undefined) => void } {
  const clock = new FakeClock();
  const lines: string[] = [];
  let size: DataSize | undefined;
  const sizing = new Sizing({
    config: { limits: resolveLimits('auto', machine), machine },
    clock,
    log: {
      info: (_fields, text) => void lines.push(`info ${text}`),
      warn: (_fields, text) => void lines.push(`warn ${text}`),
    },
    size: () => size,
  });
  return { clock, lines, sizing, holds: (now) => void (size = now) };
}

describe('the size of the data', () => {
  it('is told once, when there are data', () => {
    const { clock, lines, sizing, holds } = rig();
    sizing.start();
    expect(lines).toEqual([]);
    holds(flags(11 * MIB));
    clock.advance(180_000);
    expect(lines).toEqual([
      expect.stringMatching(/^info data: 11MiB in 1 environment; 512 slots × .*473MiB of 512MiB/),
    ]);
  });

  // fails when the minute's look is removed, and when a state that was told is told again
  it('is warned about when data have outgrown the memory, and told when they fit again', () => {
    const { clock, lines, sizing, holds } = rig();
    holds(flags(11 * MIB));
    sizing.start();
    holds(flags(64 * MIB));
    clock.advance(180_000);
    holds(flags(10 * MIB));
    clock.advance(60_000);
    expect(lines.map((line) => line.slice(0, 16))).toEqual([
      'info data: 11MiB',
      'warn data: 64MiB',
      'info data: 10MiB',
    ]);
    expect(lines[1]).toContain('which does not fit: limits.slots, limits.parked');
  });

  it('is looked at no more after a stop', () => {
    const { clock, lines, sizing, holds } = rig();
    sizing.start();
    sizing.stop();
    holds(flags(MIB));
    clock.advance(600_000);
    expect(lines).toEqual([]);
  });

  it('is the sum of what each front holds', () => {
    expect(sumOf([undefined, undefined])).toBeUndefined();
    expect(sumOf([flags(3), undefined, { environments: 0, decisions: 7, bytes: 1400, largestBytes: 1400 }])).toEqual({
      environments: 1,
      decisions: 7,
      bytes: 1403,
      largestBytes: 1400,
    });
  });
});
