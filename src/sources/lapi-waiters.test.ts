import { describe, expect, it } from 'vitest';
import { Waiters } from './lapi-waiters.ts';

const scope = { scopes: ['username'], wide: false };

describe('those who wait', () => {
  it('are told when what they wait for is there', async () => {
    const waiters = new Waiters();
    const [one, other] = [waiters.add(scope), waiters.add({ scopes: [], wide: true })];
    waiters.settle(true, ({ wide }) => wide);
    expect(await other).toBe(true);
    expect(waiters.size).toBe(1);
    waiters.settle(false, () => true);
    expect(await one).toBe(false);
  });

  it('leave when their signal aborts, also when it did before', async () => {
    const waiters = new Waiters();
    const abort = new AbortController();
    const waiting = waiters.add(scope, abort.signal);
    abort.abort();
    expect(await waiting).toBe(false);
    expect(await waiters.add(scope, abort.signal)).toBe(false);
    expect(waiters.size).toBe(0);
  });

  it('are bounded', async () => {
    const waiters = new Waiters();
    for (let one = 0; one < 16_384; one += 1) void waiters.add(scope);
    expect(await waiters.add(scope)).toBe(false);
    expect(waiters.size).toBe(16_384);
  });
});
