import { afterEach, describe, expect, it } from 'vitest';
import { FakeChannel, Turns } from '../../test/support/delivery-fakes.ts';
import { Fact, FakeClock } from '../kernel/index.ts';
import type { Block } from './channel.ts';
import { ChangeTimes, type Taken } from './change-times.ts';
import { LiveGroup, type LiveLog } from './live.ts';
import { blockOf } from './sse.ts';

/** A log of blocks of ten bytes, unless said otherwise. */
class Log implements LiveLog {
  first = 0;
  next = 0;
  readonly #blocks = new Map<number, Block>();

  append(text = 'ten bytes.'): void {
    this.#blocks.set(this.next++, blockOf(text));
  }

  block(offset: number): Block | undefined {
    return offset < this.first ? undefined : this.#blocks.get(offset);
  }
}

let stop: (() => void) | undefined;
afterEach(() => stop?.());

function setUp(heartbeatMs = 0) {
  const clock = new FakeClock();
  const turns = new Turns();
  const log = new Log();
  const taken = new Fact<Taken>('headgate:test.taken');
  const group = new LiveGroup<string>({ log, clock, nextTurn: turns.nextTurn, heartbeatMs, taken });
  const told: Taken[] = [];
  const listen = (): void => void (stop = taken.listen((fact) => told.push(fact)));
  listen();
  const join = (open = true, cursor = log.next): FakeChannel => {
    const channel = new FakeChannel();
    channel.open = open;
    group.add(channel, cursor, '');
    return channel;
  };
  /** A change, and so long before the loop comes to the clients. */
  const change = (ms: number, text?: string): void => {
    log.append(text);
    group.publish();
    clock.advance(ms);
    turns.settle();
  };
  return { clock, turns, log, group, taken, told, listen, join, change };
}

describe('how long a change takes to be taken', () => {
  // Rule 11: an addition for each client, and one fact for all. Fails when #advance tells for itself.
  it('is told once for all clients of a slice', () => {
    const { join, change, told } = setUp();
    for (let number = 0; number < 900; number++) join();
    change(7);
    expect(told).toEqual([{ ms: 7, clients: 900, bytes: 9000 }]);
  });

  // Fails when #sentChange counts a client whose socket holds bytes.
  it('of a client whose socket holds it back counts when it is gone', () => {
    const { join, change, told, clock, turns } = setUp();
    const slow = join(false);
    join();
    change(2);
    expect(told).toEqual([{ ms: 2, clients: 1, bytes: 10 }]);
    clock.advance(3000);
    slow.take();
    turns.settle();
    expect(told.slice(1)).toEqual([{ ms: 3002, clients: 1, bytes: 10 }]);
  });

  it('of many that catch up in one turn is told once', () => {
    const { join, change, told, clock, turns } = setUp();
    const slow = Array.from({ length: 50 }, () => join(false));
    change(1);
    clock.advance(99);
    for (const channel of slow) channel.take();
    turns.settle();
    expect(told).toEqual([{ ms: 100, clients: 50, bytes: 500 }]);
  });

  it('counts each change that a client missed from when it was', () => {
    const { join, change, told, clock, turns } = setUp();
    const slow = join(false);
    change(0);
    change(100);
    change(1000);
    slow.open = true;
    slow.take();
    clock.advance(5);
    turns.settle();
    expect(told).toEqual([
      { ms: 1105, clients: 1, bytes: 10 },
      { ms: 1105, clients: 1, bytes: 10 },
      { ms: 1005, clients: 1, bytes: 10 },
    ]);
  });

  // Fails when #caughtUp does not ask whether it was a change that was held back.
  it('is none of a heartbeat, held back or not', () => {
    const { join, change, told, clock, turns } = setUp(1000);
    const channel = join();
    change(4);
    channel.open = false;
    clock.advance(1000);
    turns.settle();
    clock.advance(500);
    channel.take();
    turns.settle();
    expect(told).toEqual([{ ms: 4, clients: 1, bytes: 10 }]);
  });

  // Fails when #sentChange counts empty blocks.
  it('is none where the view shows nothing of the change', () => {
    const { join, change, told } = setUp();
    join();
    change(4, '');
    expect(told).toEqual([]);
  });

  it('counts from a moment that the caller knows better', () => {
    const { join, log, group, told, clock, turns } = setUp();
    join();
    clock.advance(500);
    log.append();
    group.publish(100);
    turns.settle();
    expect(told).toEqual([{ ms: 400, clients: 1, bytes: 10 }]);
  });

  // Fails when changed() keeps times while nobody listens: the first change would be told as 60 s late.
  it('is not kept while nobody listens', () => {
    const { join, change, told, clock, listen } = setUp();
    stop?.();
    const slow = join(false);
    change(0);
    clock.advance(60_000);
    listen();
    change(3);
    slow.open = true;
    slow.take();
    expect(told).toEqual([]);
    change(0);
    expect(told).toEqual([
      { ms: 3, clients: 1, bytes: 10 },
      { ms: 0, clients: 1, bytes: 10 },
    ]);
  });
});

describe('the times of changes', () => {
  // Fails when changed() does not splice: the change at 10 would still be known.
  it('reach back as far as the log, about', () => {
    const { taken, told } = setUp();
    const times = new ChangeTimes(taken);
    for (let next = 1; next <= 500; next++) times.changed({ first: Math.max(0, next - 100), next }, next);
    times.took(10, 1);
    expect(times.isDue).toBe(false);
    times.took(400, 1);
    times.tell(1000);
    expect(told).toEqual([{ ms: 599, clients: 1, bytes: 1 }]);
  });

  it('are none for offsets that nobody was told of', () => {
    const { taken, told } = setUp();
    const times = new ChangeTimes(taken);
    times.took(0, 1);
    times.changed({ first: 0, next: 5 }, 10);
    times.took(3, 1);
    times.took(5, 1);
    times.tell(20);
    expect(told).toEqual([]);
  });
});
