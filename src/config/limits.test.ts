import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { explainLimits, resolveLimits } from './limits.ts';
import type { Machine } from './types.ts';

const MIB = 2 ** 20;
const GIB = 2 ** 30;

function machine(memoryLimitBytes: number, lowWater = true): Machine {
  return { memoryLimitBytes, lowWater };
}

describe('auto', () => {
  // The bounds fail when clamp() is taken out; the divisors when a share changes.
  it.each([
    [32 * MIB, true, 32, 1024, 16],
    [192 * MIB, true, 32, 1024, 16],
    [256 * MIB, true, 106, 1024, 53],
    [480 * MIB, true, 480, 1920, 240],
    [512 * MIB, true, 512, 2048, 256],
    [2 * GIB, true, 635, 8192, 317],
    [64 * GIB, true, 635, 65_536, 317],
    [512 * MIB, false, 32, 2048, 16],
    [2 * GIB, false, 128, 8192, 64],
    [256 * GIB, false, 635, 65_536, 317],
  ])('computes %d bytes, low-water mark %s', (...[memory, lowWater, slots, queue, parked]) => {
    expect(resolveLimits('auto', machine(memory, lowWater))).toMatchObject({
      mode: 'auto',
      enabled: true,
      slots,
      queue,
      parked,
    });
  });

  it('waits 10 s for streams, 1 s for polls and 2 s for decisions, fair, with parking, early shedding and a cap that scales', () => {
    expect(resolveLimits('auto', machine(512 * MIB))).toEqual({
      mode: 'auto',
      enabled: true,
      slots: 512,
      queue: 2048,
      waitStreamMsMax: 10_000,
      waitPollMsMax: 1000,
      waitDecisionsMsMax: 2000,
      parking: true,
      parked: 256,
      pinnedBytesMax: 64 * MIB,
      sendTimeoutMs: undefined,
      linkBytesPerSecond: 125_000_000,
      floorBytesPerSecond: 65_536,
      slackMs: 10_000,
      fairness: 'tenant',
      earlyShed: true,
      turnBytesMax: MIB,
      lowWaterMarkBytes: 65_536,
    });
  });

  it('allows 30 s of silence and 4 MiB a delivery without the low-water mark', () => {
    for (const without of [
      resolveLimits('auto', machine(GIB, false)),
      resolveLimits({ mode: 'auto', lowWaterMarkBytes: 'off' }, machine(GIB)),
    ]) {
      expect(without).toMatchObject({ slackMs: 30_000, slots: 64, lowWaterMarkBytes: undefined });
    }
  });

  it('counts a larger low-water mark', () => {
    expect(resolveLimits({ mode: 'auto', lowWaterMarkBytes: 256 * 1024 }, machine(GIB)).slots).toBe(256);
  });

  it('lets each value be replaced', () => {
    const spec = {
      mode: 'auto',
      slots: 3,
      queue: 4,
      waitStreamMs: 5,
      waitPollMs: 6,
      waitDecisionsMs: 14,
      parked: 7,
      pinnedBytes: 8,
      sendTimeoutMs: 9,
      linkBytesPerSecond: 99,
      floorBytesPerSecond: 10,
      slackMs: 11,
      fairness: 'off',
      earlyShed: false,
      turnBytes: 12,
      lowWaterMarkBytes: 13,
    } as const;
    expect(resolveLimits(spec, machine(GIB))).toEqual({
      mode: 'auto',
      enabled: true,
      slots: 3,
      queue: 4,
      waitStreamMsMax: 5,
      waitPollMsMax: 6,
      waitDecisionsMsMax: 14,
      parking: true,
      parked: 7,
      pinnedBytesMax: 8,
      sendTimeoutMs: 9,
      linkBytesPerSecond: 99,
      floorBytesPerSecond: 10,
      slackMs: 11,
      fairness: 'off',
      earlyShed: false,
      turnBytesMax: 12,
      lowWaterMarkBytes: 13,
    });
  });

  it('parks nobody when parking is off or nobody may be parked', () => {
    expect(resolveLimits({ mode: 'auto', parking: false, parked: 9 }, machine(GIB))).toMatchObject({
      parking: false,
      parked: 0,
    });
    expect(resolveLimits({ mode: 'auto', parked: 0 }, machine(GIB))).toMatchObject({ parking: false, parked: 0 });
  });

  // fails when the link's bound is taken out of `allowed`, and when parked readers are left out of it
  it('lets no more read at once than a full link gives twice the floor, and asks nothing of it without a floor', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 125_000, max: 10 ** 10 }),
        fc.integer({ min: 1024, max: 2 ** 20 }),
        (linkBytesPerSecond, floorBytesPerSecond) => {
          const spec = { mode: 'auto', linkBytesPerSecond, floorBytesPerSecond } as const;
          const { slots, parked } = resolveLimits(spec, machine(16 * GIB));
          const least = slots === 1 || parked === 1; // one of each there must be
          expect(least || linkBytesPerSecond / (slots + parked) >= 2 * floorBytesPerSecond).toBe(true);
        },
      ),
    );
    const without = resolveLimits({ mode: 'auto', linkBytesPerSecond: Infinity }, machine(64 * GIB));
    expect([without.slots, without.parked]).toEqual([4096, 4096]);
    expect(resolveLimits({ mode: 'auto', floorBytesPerSecond: 0 }, machine(64 * GIB)).slots).toBe(4096);
    const ten = resolveLimits({ mode: 'auto', linkBytesPerSecond: 1_250_000_000 }, machine(2 * GIB));
    expect([ten.slots, ten.parked]).toEqual([2048, 1024]);
  });

  it('never gives deliveries more than five eighths of the memory, above the least numbers', () => {
    fc.assert(
      fc.property(fc.integer({ min: 512 * MIB, max: 64 * GIB }), (memory) => {
        const limits = resolveLimits('auto', machine(memory));
        const bytes = (limits.slots + limits.parked) * 256 * 1024 + limits.queue * 32 * 1024 + limits.pinnedBytesMax;
        expect(bytes).toBeLessThanOrEqual((memory * 5) / 8);
      }),
    );
  });
});

describe("under the vendor's names", () => {
  it.each([
    { mode: 'vendor' },
    { mode: 'vendor', slots: 0 },
    { mode: 'vendor', queue: 7, sendTimeoutMs: 9000 },
  ] as const)('limits nothing for %j', (spec) => {
    expect(resolveLimits(spec, machine(GIB))).toMatchObject({
      enabled: false,
      slots: Number.POSITIVE_INFINITY,
      queue: 0,
      parking: false,
      sendTimeoutMs: undefined,
      floorBytesPerSecond: 0,
      pinnedBytesMax: Number.POSITIVE_INFINITY,
      earlyShed: false,
      fairness: 'off',
    });
  });

  it('has one first-come pool without a queue, a floor of 64 KiB/s and a fixed cap of two minutes', () => {
    expect(resolveLimits({ mode: 'vendor', slots: 12 }, machine(GIB))).toEqual({
      mode: 'vendor',
      enabled: true,
      slots: 12,
      queue: 0,
      waitStreamMsMax: Number.POSITIVE_INFINITY,
      waitPollMsMax: Number.POSITIVE_INFINITY,
      waitDecisionsMsMax: 10_000,
      parking: false,
      parked: 0,
      pinnedBytesMax: Number.POSITIVE_INFINITY,
      sendTimeoutMs: 120_000,
      linkBytesPerSecond: Number.POSITIVE_INFINITY,
      floorBytesPerSecond: 65_536,
      slackMs: 5000,
      fairness: 'off',
      earlyShed: false,
      turnBytesMax: MIB,
      lowWaterMarkBytes: 65_536,
    });
  });
});

describe('off', () => {
  it('keeps the ration of the turn and the low-water mark, and nothing else', () => {
    expect(resolveLimits({ mode: 'off', slots: 5, queue: 5, turnBytes: 2 * MIB }, machine(GIB))).toMatchObject({
      enabled: false,
      slots: Number.POSITIVE_INFINITY,
      floorBytesPerSecond: 0,
      turnBytesMax: 2 * MIB,
      lowWaterMarkBytes: 65_536,
    });
  });
});

describe('the explanation', () => {
  it('shows the arithmetic in one line', () => {
    const small = machine(512 * MIB);
    const line = explainLimits(resolveLimits('auto', small), small);
    expect(line).toContain('auto: 512 slots (512MiB / 4 / 256KiB per delivery, within 32 to 4096)');
    expect(line).toContain('2048 waiting (512MiB / 8 / 32KiB per waiting connection, within 1024 to 65536)');
    expect(line).not.toContain('\n');
  });

  it('shows the arithmetic of a larger low-water mark', () => {
    const limits = resolveLimits({ mode: 'auto', lowWaterMarkBytes: 256 * 1024 }, machine(GIB));
    expect(explainLimits(limits, machine(GIB))).toContain('auto: 256 slots (1GiB / 4 / 1MiB per delivery');
  });

  it('says what was configured', () => {
    expect(
      explainLimits(resolveLimits({ mode: 'auto', slots: 3, parking: false }, machine(GIB)), machine(GIB)),
    ).toMatch(/auto: 3 slots \(as configured\).*no parking/);
  });

  it('says that nothing is limited', () => {
    expect(explainLimits(resolveLimits('off', machine(GIB)), machine(GIB))).toBe(
      'off: no limit, no refusal, no delivery deadline',
    );
    expect(explainLimits(resolveLimits('vendor', machine(GIB)), machine(GIB))).toMatch(/^none set: no limit/);
  });

  it("says what the vendor's names mean", () => {
    expect(explainLimits(resolveLimits({ mode: 'vendor', slots: 9, queue: 4 }, machine(GIB)), machine(GIB))).toBe(
      'vendor: 9 slots, 4 may wait as long as they like, 10s for decisions, floor 64KiB/s with 5s slack, cap 2m, no parking, first come first served',
    );
  });
});
