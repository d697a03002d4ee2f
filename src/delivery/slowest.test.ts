import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FakeChannel, FakeSlot, pages, Turns } from '../../test/support/delivery-fakes.ts';
import { FakeClock } from '../kernel/index.ts';
import { Deliveries } from './deliveries.ts';
import { type DeliverOptions, Delivery, type DeliveryAbout, type Source } from './delivery.ts';
import { slowestOf } from './slowest.ts';

const PAGE = 65_536;

function about(name: string): () => DeliveryAbout {
  return () => ({ front: 'flags', name, route: '/all', address: '192.0.2.7' });
}

function setUp() {
  const clock = new FakeClock();
  const turns = new Turns();
  const engine = new Deliveries({ clock, nextTurn: turns.nextTurn });
  const begin = (name: string, given: Partial<DeliverOptions> = {}): FakeChannel => {
    const channel = new FakeChannel();
    void engine.deliver({ channel, source: pages(4), about: about(name), ...given });
    turns.settle();
    return channel;
  };
  return { clock, turns, engine, begin };
}

describe('the slowest deliveries', () => {
  it('are named, the slowest first, with how far they are', () => {
    const { clock, turns, engine, begin } = setUp();
    const [fast, slow] = [begin('fast'), begin('slow'), begin('stalled')];
    for (const channel of [fast, fast, slow]) {
      channel?.take();
      turns.settle();
    }
    clock.advance(2000);
    expect(engine.slowest(20)).toEqual([
      { ...about('stalled')(), bytes: 0, totalBytes: 4 * PAGE, ageMs: 2000, bytesPerSecond: 0, parked: false },
      { ...about('slow')(), bytes: PAGE, totalBytes: 4 * PAGE, ageMs: 2000, bytesPerSecond: PAGE / 2, parked: false },
      { ...about('fast')(), bytes: 2 * PAGE, totalBytes: 4 * PAGE, ageMs: 2000, bytesPerSecond: PAGE, parked: false },
    ]);
    expect(engine.slowest(1)).toMatchObject([{ name: 'stalled' }]);
    expect(engine.slowest(0)).toEqual([]);
  });

  // Fails when the look at the age in `slowestOf` is removed: a herd that comes in would hide who is stalled.
  it('are none that have only begun', () => {
    const { clock, turns, engine, begin } = setUp();
    begin('old').take();
    turns.settle();
    clock.advance(999);
    expect(engine.slowest(20)).toEqual([]);
    clock.advance(1);
    begin('new');
    expect(engine.slowest(20).map(({ name }) => name)).toEqual(['old']);
  });

  it('are shown as parked while they have no place, and are gone when they end', () => {
    const { clock, turns, engine, begin } = setUp();
    const channel = begin('parked', { slot: new FakeSlot(), parking: () => true });
    for (let waited = 0; waited < 1000; waited += 50) {
      clock.advance(50);
      turns.settle();
    }
    expect(engine.slowest(20)).toMatchObject([{ name: 'parked', parked: true }]);
    channel.close();
    expect(engine.slowest(20)).toEqual([]);
  });

  it('ask whom they are for only when somebody looks, and leave out those of which nobody says', () => {
    const { clock, engine, begin } = setUp();
    let asked = 0;
    const told = about('asked');
    begin('asked', { about: () => (asked++, told()) });
    void engine.deliver({ channel: new FakeChannel(), source: pages(4) });
    clock.advance(1000);
    expect(asked).toBe(0);
    expect(engine.slowest(20)).toHaveLength(1);
    expect(asked).toBe(1);
  });

  it('are the first of all of them in order, for any rates and ages', () => {
    const delivery = fc.record({ bytes: fc.nat(1 << 20), ageMs: fc.integer({ min: 0, max: 10_000 }) });
    fc.assert(
      fc.property(fc.array(delivery, { maxLength: 60 }), fc.integer({ min: 1, max: 20 }), (given, count) => {
        const nowMs = 20_000;
        const all = given.map(({ bytes, ageMs }, index) => {
          const options = { channel: new FakeChannel(), source: pages(1), about: about(String(index)) };
          const made = new Delivery(options, undefined, { nowMs: nowMs - ageMs, writeBytes: PAGE });
          made.bytes = bytes;
          return made;
        });
        const rates = all
          .map(({ bytes, startedAtMs }) => ({ bytes, ageMs: nowMs - startedAtMs }))
          .filter(({ ageMs }) => ageMs >= 1000)
          .map(({ bytes, ageMs }) => (1000 * bytes) / ageMs)
          .toSorted((one, other) => one - other);
        const slowest = slowestOf(all, count, nowMs);
        expect(slowest.map(({ bytesPerSecond }) => bytesPerSecond)).toEqual(rates.slice(0, count));
        expect(new Set(slowest.map(({ name }) => name)).size).toBe(slowest.length);
      }),
    );
  });
});

describe('what copies of their own would take', () => {
  it('is the sizes of those in progress together, however they end', () => {
    const { turns, engine, begin } = setUp();
    const channel = begin('one');
    begin('two', { source: pages(2) }).close();
    expect(engine.copiedBytes()).toBe(4 * PAGE);
    for (let page = 0; page < 4; page++) {
      channel.take();
      turns.settle();
    }
    expect([engine.active, engine.copiedBytes()]).toEqual([0, 0]);
  });

  it('is what was taken, as long as the size is not known', () => {
    const { turns, engine, begin } = setUp();
    const source: { bytes: number | undefined; next: Source['next'] } = { ...pages(2), bytes: undefined };
    const channel = begin('unknown', { source });
    expect(engine.copiedBytes()).toBe(0);
    channel.take();
    turns.settle();
    expect(engine.copiedBytes()).toBe(PAGE);
    source.bytes = 2 * PAGE;
    expect(engine.copiedBytes()).toBe(2 * PAGE);
  });
});
