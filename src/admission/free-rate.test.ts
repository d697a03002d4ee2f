import { describe, expect, it } from 'vitest';
import { FreeRate } from './free-rate.ts';

/** Hands over `count` times, every `everyMs`, with somebody waiting all the time; answers the time at the end. */
function handOver(rate: FreeRate, count: number, everyMs: number, fromMs = 0): number {
  rate.begin(fromMs);
  for (let turn = 1; turn <= count; turn++) rate.handedOver(fromMs + turn * everyMs);
  return fromMs + count * everyMs;
}

describe('the rate', () => {
  it('is that of the handovers', () => {
    const rate = new FreeRate(1);
    const nowMs = handOver(rate, 20, 50);
    expect(rate.perMs(nowMs)).toBeCloseTo(1 / 50, 6);
  });

  it('is unknown before twenty of them, or two turns of all slots', () => {
    // fails when perMs does not look at the number of samples
    const few = new FreeRate(1);
    expect(few.perMs(handOver(few, 19, 50))).toBeUndefined();
    few.handedOver(1000);
    expect(few.perMs(1000)).toBeDefined();
    const many = new FreeRate(100);
    expect(many.perMs(handOver(many, 199, 1))).toBeUndefined();
    many.handedOver(200);
    expect(many.perMs(200)).toBeDefined();
  });

  it('leans to the last ones', () => {
    // fails when older handovers weigh as much as new ones: it would be 1 / 55
    const rate = new FreeRate(1);
    const nowMs = handOver(rate, 100, 100);
    const perMs = rate.perMs(handOver(rate, 100, 10, nowMs)) ?? 0;
    expect(1 / perMs).toBeGreaterThan(10);
    expect(1 / perMs).toBeLessThan(11);
  });

  it('remembers about four turns of the slots', () => {
    // fails when the memory does not grow with the slots: waves look like changes of pace
    const rate = new FreeRate(64);
    for (let wave = 0, nowMs = 0; wave < 20; wave++) {
      if (wave === 0) rate.begin(nowMs);
      nowMs += 640;
      for (let slot = 0; slot < 64; slot++) rate.handedOver(nowMs);
      const perMs = rate.perMs(nowMs + 639);
      if (wave < 2) continue;
      expect(1 / (perMs ?? 0)).toBeGreaterThan(8);
      expect(1 / (perMs ?? 0)).toBeLessThan(15);
    }
  });

  it('does not count time in which nobody waits', () => {
    // fails when end does not stop the watch: a quiet hour would slow the estimate
    const rate = new FreeRate(1);
    let nowMs = handOver(rate, 20, 10);
    for (let pause = 0; pause < 20; pause++) {
      nowMs += 4;
      rate.end(nowMs);
      nowMs += 1000;
      rate.begin(nowMs);
      nowMs += 6;
      rate.handedOver(nowMs);
    }
    expect(rate.perMs(nowMs)).toBeCloseTo(1 / 10, 6);
    rate.end(nowMs);
    expect(rate.perMs(nowMs + 5000)).toBeCloseTo(1 / 10, 6);
  });

  it('counts a standstill while somebody waits', () => {
    const rate = new FreeRate(1);
    const nowMs = handOver(rate, 20, 10);
    expect(1 / (rate.perMs(nowMs + 1000) ?? 0)).toBeGreaterThan(80);
  });

  it('is unknown when the last handover is half a minute old, and begins anew', () => {
    // fails when the age is not looked at in perMs, or old samples are kept in handedOver
    const rate = new FreeRate(1);
    const nowMs = handOver(rate, 40, 10);
    rate.end(nowMs);
    expect(rate.perMs(nowMs + 30_000)).toBeDefined();
    expect(rate.perMs(nowMs + 30_001)).toBeUndefined();
    const laterMs = nowMs + 60_000;
    expect(rate.perMs(handOver(rate, 19, 100, laterMs))).toBeUndefined();
    rate.handedOver(laterMs + 2000);
    expect(rate.perMs(laterMs + 2000)).toBeCloseTo(1 / 100, 6);
  });

  it('keeps its evidence over a pause of half a minute', () => {
    const rate = new FreeRate(1);
    const nowMs = handOver(rate, 20, 10);
    rate.end(nowMs);
    rate.begin(nowMs + 29_990);
    rate.handedOver(nowMs + 30_000);
    expect(rate.perMs(nowMs + 30_000)).toBeCloseTo(1 / 10, 6);
  });
});
