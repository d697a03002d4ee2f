import { afterEach, describe, expect, it } from 'vitest';
import { FakeClock } from '../../kernel/index.ts';
import { Commits } from './commits.ts';
import type { DecisionLedger } from './deps.ts';
import { pickedUp } from './facts.ts';

let stop: (() => void) | undefined;
afterEach(() => stop?.());

function setUp() {
  const clock = new FakeClock();
  const told: number[] = [];
  const listen = (): void => void (stop = pickedUp.listen(({ ms }) => told.push(ms)));
  const listeners = new Set<() => void>();
  const state = { offset: 0, reach: 0, ready: true, entriesSince: () => 0 };
  const ledger: DecisionLedger = Object.assign(state, {
    subscribe: (listener: () => void) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  });
  const commits = new Commits(clock, ledger);
  const commit = (): void => {
    state.offset++;
    for (const listener of listeners) listener();
  };
  const report = (): void => listeners.forEach((listener) => listener());
  return { clock, told, listen, commits, commit, report, listeners };
}

describe('what a bouncer picks up', () => {
  it('is as old as the first commit that it had not got', () => {
    const { clock, told, listen, commits, commit, report } = setUp();
    listen();
    commit();
    clock.advance(1000);
    commit();
    clock.advance(500);
    report();
    commits.received(0);
    commits.received(1);
    expect(told).toEqual([1500, 500]);
  });

  // Fails when received() does not ask whether the offset is known.
  it('is not told where it is not known when that was', () => {
    const { clock, told, listen, commits, commit } = setUp();
    commit();
    listen();
    clock.advance(100);
    commit();
    commits.received(0);
    commits.received(2);
    expect(told).toEqual([]);
    commits.received(1);
    expect(told).toEqual([0]);
  });

  // Fails when #first does not move: the time of a later commit would be told for an earlier one.
  it('is known for the last 4,096 commits', () => {
    const { clock, told, listen, commits, commit } = setUp();
    listen();
    for (let offset = 1; offset <= 5000; offset++) {
      clock.advance(1);
      commit();
    }
    commits.received(5000 - 4096 - 1);
    commits.received(5000 - 4096);
    expect(told).toEqual([4095]);
  });

  // Fails when #committed does not ask who listens, or keeps what was before a gap.
  it('is not kept while nobody listens', () => {
    const { clock, told, listen, commits, commit } = setUp();
    listen();
    commit();
    stop?.();
    commit();
    listen();
    clock.advance(50);
    commit();
    commits.received(0);
    commits.received(1);
    commits.received(2);
    expect(told).toEqual([0]);
  });

  it('is heard of no more once it is closed', () => {
    const { commits, listeners } = setUp();
    expect(listeners.size).toBe(1);
    commits.close();
    expect(listeners.size).toBe(0);
  });
});
