import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FakeClock } from '../kernel/index.ts';
import { Deadlines, type Timed } from './deadlines.ts';

interface Item extends Timed {
  readonly id: number;
}

function item(id: number, dueMs: number): Item {
  return { id, dueMs, heapIndex: -1 };
}

function make(): { clock: FakeClock; deadlines: Deadlines<Item>; due: Array<[id: number, atMs: number]> } {
  const clock = new FakeClock();
  const due: Array<[number, number]> = [];
  const deadlines: Deadlines<Item> = new Deadlines(clock, () => {
    for (let next = deadlines.takeDue(); next !== undefined; next = deadlines.takeDue())
      due.push([next.id, clock.now()]);
  });
  return { clock, deadlines, due };
}

const ascending = (a: number, b: number): number => a - b;

describe('one timer', () => {
  it('fires for each deadline at its moment, in order', () => {
    const { clock, deadlines, due } = make();
    for (const [id, dueMs] of [30, 10, 20, 10].entries()) deadlines.add(item(id, dueMs));
    expect([clock.armed, deadlines.size]).toEqual([1, 4]);
    clock.advance(100);
    expect(due.map(([, atMs]) => atMs)).toEqual([10, 10, 20, 30]);
    expect(due.map(([id]) => id).toSorted(ascending)).toEqual([0, 1, 2, 3]);
    expect([clock.armed, deadlines.size]).toEqual([0, 0]);
  });

  it('is armed again for an earlier deadline, and left alone for a later one', () => {
    // fails when #arm does not compare with what is armed: a timer is then made for each that joins
    const clock = new FakeClock();
    const delays: number[] = [];
    const after = clock.after.bind(clock);
    clock.after = (delayMs, run) => {
      delays.push(delayMs);
      return after(delayMs, run);
    };
    const deadlines = new Deadlines<Item>(clock, () => undefined);
    for (const [id, dueMs] of [50, 60, 50, 40, 70].entries()) deadlines.add(item(id, dueMs));
    expect(delays).toEqual([50, 40]);
    expect(clock.armed).toBe(1);
  });

  it('is made once for all that fall due together, and not for each that is taken out', () => {
    // fails when #fire lets #arm make a timer while items are being taken out
    const clock = new FakeClock();
    const delays: number[] = [];
    const after = clock.after.bind(clock);
    clock.after = (delayMs, run) => {
      delays.push(delayMs);
      return after(delayMs, run);
    };
    const deadlines: Deadlines<Item> = new Deadlines(clock, () => {
      while (deadlines.takeDue() !== undefined);
    });
    for (const [id, dueMs] of [10, 10, 10, 30].entries()) deadlines.add(item(id, dueMs));
    clock.advance(10);
    expect(delays).toEqual([10, 20]);
  });

  it('that fires for one that left says nothing, and is armed for the next', () => {
    // fails when #fire does not look whether anything is due, or #arm is not called after it
    const clock = new FakeClock();
    let calls = 0;
    const deadlines: Deadlines<Item> = new Deadlines(clock, () => {
      calls++;
      deadlines.takeDue();
    });
    const first = item(1, 10);
    deadlines.add(first);
    deadlines.add(item(2, 20));
    deadlines.remove(first);
    clock.advance(19);
    expect([calls, clock.armed]).toEqual([0, 1]);
    clock.advance(1);
    expect([calls, clock.armed]).toEqual([1, 0]);
  });

  it('is called off when nothing is left', () => {
    const { clock, deadlines } = make();
    const only = item(1, 10);
    deadlines.add(only);
    deadlines.remove(only);
    expect(clock.armed).toBe(0);
    deadlines.add(item(2, 10));
    expect(clock.armed).toBe(1);
  });

  it('comes back at once when not everything due was taken', () => {
    const clock = new FakeClock();
    const taken: number[] = [];
    const deadlines: Deadlines<Item> = new Deadlines(clock, () => taken.push(deadlines.takeDue()?.id ?? -1));
    for (const id of [1, 2, 3]) deadlines.add(item(id, 5));
    clock.advance(4);
    expect(taken).toEqual([]);
    clock.advance(1);
    expect(taken.toSorted(ascending)).toEqual([1, 2, 3]);
  });
});

it('does nothing for an item that is not in', () => {
  const { clock, deadlines } = make();
  const stranger = item(1, 5);
  deadlines.add(item(2, 5));
  deadlines.remove(stranger);
  expect([deadlines.size, clock.armed]).toEqual([1, 1]);
});

it('moves the one that fills a gap up, when it is due before its new parent', () => {
  // fails when remove only sifts down: what is due at 3 is then found after 4
  const { clock, deadlines, due } = make();
  const items = [7, 6, 5, 4, 3, 2, 1].map((dueMs) => item(dueMs, dueMs));
  for (const each of items) deadlines.add(each);
  for (const each of items.slice(0, 1)) deadlines.remove(each);
  clock.advance(7);
  expect(due).toEqual([1, 2, 3, 4, 5, 6].map((dueMs) => [dueMs, dueMs]));
});

it('agrees with a sorted array, whoever leaves early', () => {
  // fails when remove does not sift the one that fills the gap down
  const steps = fc.array(fc.record({ dueMs: fc.nat(50), leaves: fc.option(fc.nat(), { nil: undefined }) }), {
    maxLength: 120,
  });
  fc.assert(
    fc.property(steps, (all) => {
      const { clock, deadlines, due } = make();
      let expected: Item[] = [];
      for (const [id, { dueMs, leaves }] of all.entries()) {
        const added = item(id, dueMs);
        deadlines.add(added);
        expected.push(added);
        const gone = leaves === undefined ? undefined : expected[leaves % expected.length];
        if (gone === undefined) continue;
        deadlines.remove(gone);
        expect(gone.heapIndex).toBe(-1);
        expected = expected.filter((other) => other !== gone);
      }
      clock.advance(100);
      expect(due.map(([, atMs]) => atMs)).toEqual(expected.map(({ dueMs }) => dueMs).toSorted(ascending));
      expect(due.map(([id]) => id).toSorted(ascending)).toEqual(expected.map(({ id }) => id).toSorted(ascending));
    }),
  );
});
