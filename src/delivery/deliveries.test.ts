import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import { FakeChannel, FakeSlot, pages, Turns } from '../../test/support/delivery-fakes.ts';
import { FakeClock, systemClock } from '../kernel/index.ts';
import { Deliveries, type DeliveriesOptions, type DeliverOptions, type Report, type Source } from './deliveries.ts';

const PAGE = 65_536;
/** Floor time of one page. */
const PAGE_MS = 1000;

function setUp(options: DeliveriesOptions = {}) {
  const clock = new FakeClock();
  const turns = new Turns();
  const engine = new Deliveries({ clock, nextTurn: turns.nextTurn, slackMs: 10_000, creditMs: 5_000, ...options });
  const begin = (given: Partial<DeliverOptions> = {}) => {
    const channel = new FakeChannel();
    const slot = new FakeSlot();
    const reports: Report[] = [];
    let resolved: Report | undefined;
    const promise = engine.deliver({
      channel,
      slot,
      source: pages(4),
      onEnd: (report) => void reports.push(report),
      ...given,
    });
    void promise.then((report) => (resolved = report));
    return { channel, slot, reports, promise, resolved: () => resolved };
  };
  /** Time passes, and the loop turns with it. */
  const pass = (ms: number): void => {
    for (let left = ms; left > 0; left -= 50) {
      clock.advance(Math.min(50, left));
      turns.settle();
    }
  };
  return { clock, turns, engine, begin, pass };
}

/** What holds after every delivery, however it ended. */
function expectNothingLeft(engine: Deliveries, clock: FakeClock): void {
  expect(engine.active).toBe(0);
  expect(engine.stats().parked).toBe(0);
  expect(clock.armed).toBe(0);
}

describe('a delivery', () => {
  it('sends everything in order, one write at a time', async () => {
    const { begin, turns } = setUp();
    const parts = ['one', 'two', 'three'].map((text) => Buffer.from(text));
    const next = () => {
      const part = parts.shift();
      return part === undefined ? undefined : [part];
    };
    const { channel, promise } = begin({ source: { bytes: 11, next } });
    for (const text of ['one', 'onetwo', 'onetwothree']) {
      turns.settle();
      expect(channel.text).toBe(text);
      channel.take();
    }
    turns.settle();
    expect(await promise).toMatchObject({ outcome: 'completed', bytes: 11 });
  });

  it('is completed when its last byte was taken', async () => {
    const { engine, begin, turns, clock, pass } = setUp();
    const { channel, promise, slot } = begin({ source: pages(2) });
    turns.settle();
    channel.take();
    pass(700);
    channel.take();
    turns.settle();
    expect(await promise).toStrictEqual({ outcome: 'completed', bytes: 2 * PAGE, ms: 700, parkedMs: 0 });
    expect(channel.kills + channel.ends).toBe(0);
    expect(slot.releases).toBe(1);
    expect(channel.listeners).toBe(0);
    expectNothingLeft(engine, clock);
  });

  // Fault 4: the slot freed when the payload is handed to the writer. Fails when #write() releases after the last page.
  it('keeps its slot until the last write was taken, however long that is', () => {
    const { begin, turns, pass } = setUp({ slackMs: 1e9 });
    const { channel, slot, reports } = begin({ source: pages(1), capMs: Number.POSITIVE_INFINITY });
    turns.settle();
    expect(channel.written).toBe(PAGE);
    pass(60_000);
    expect(slot.releases).toBe(0);
    channel.take();
    turns.settle();
    expect(slot.releases).toBe(1);
    expect(reports.map(({ outcome }) => outcome)).toEqual(['completed']);
  });

  it('has its slot released before anybody hears of its end', () => {
    const { begin, turns } = setUp();
    let releasedBefore = 0;
    const { channel, slot } = begin({ source: pages(1), onEnd: () => void (releasedBefore = slot.releases) });
    channel.open = true;
    turns.settle();
    expect(releasedBefore).toBe(1);
  });

  it('of nothing is completed without a write', async () => {
    const { begin, turns } = setUp();
    const { channel, promise } = begin({ source: { bytes: 0, next: () => undefined } });
    turns.settle();
    expect((await promise).outcome).toBe('completed');
    expect(channel.writes).toBe(0);
  });

  it('needs no slot', async () => {
    const { engine, turns } = setUp();
    const channel = new FakeChannel();
    channel.open = true;
    const promise = engine.deliver({ channel, source: pages(3) });
    turns.settle();
    expect((await promise).outcome).toBe('completed');
  });

  it('waits for pieces that are still being made, and charges the reader nothing for it', async () => {
    const { begin, turns, pass } = setUp();
    let give: (pieces: readonly Uint8Array[] | undefined) => void = () => {};
    const next = () => new Promise<readonly Uint8Array[] | undefined>((resolve) => (give = resolve));
    const { channel, promise, slot } = begin({ source: { bytes: undefined, next }, capMs: 1000 });
    turns.settle();
    pass(3_600_000);
    give([Buffer.from('a')]);
    await Promise.resolve();
    turns.settle();
    expect(channel.text).toBe('a');
    channel.take();
    turns.settle();
    give(undefined);
    expect(await promise).toMatchObject({ outcome: 'completed', bytes: 1 });
    expect(slot.releases).toBe(1);
  });

  it('passes over groups that are empty, without keeping the loop from turning', async () => {
    const { begin, turns } = setUp();
    let asked = 0;
    const next = () => (++asked <= 1000 ? [] : undefined);
    const { promise } = begin({ source: { bytes: 0, next } });
    turns.turn();
    expect(asked).toBeLessThanOrEqual(256);
    turns.settle();
    expect((await promise).outcome).toBe('completed');
  });

  it('tells a diagnostics channel how it ended', () => {
    const heard: unknown[] = [];
    const listener = (message: unknown): void => void heard.push(message);
    subscribe('headgate:delivery', listener);
    const { begin, turns } = setUp();
    begin().channel.open = true;
    turns.settle();
    unsubscribe('headgate:delivery', listener);
    expect(heard).toMatchObject([{ outcome: 'completed', bytes: 4 * PAGE }]);
  });

  it('is counted, with its bytes', () => {
    const { engine, begin, turns } = setUp();
    begin().channel.open = true;
    const gone = begin().channel;
    expect(engine.stats()).toMatchObject({ active: 2, started: 2 });
    turns.settle();
    gone.close();
    expect(engine.stats()).toEqual({
      active: 0,
      parked: 0,
      started: 2,
      ended: { completed: 1, client_gone: 1, stalled: 0, capped: 0, error: 0, shutdown: 0 },
      bytes: 4 * PAGE,
      parks: 0,
    });
  });
});

// Rule 5, fault 5: the slot is freed once on every path. Each fails when its guard in Deliveries is removed: the one
// named, or the `phase` check at the top of #finish.
describe('a delivery that fails', () => {
  const failing = (next: Source['next'], bytes?: number): Source => ({ bytes, next });

  it.each<[string, Source]>([
    [
      'throws',
      failing(() => {
        throw new Error('no page');
      }),
    ],
    ['rejects', failing(() => Promise.reject(new Error('no page')))],
  ])('because its source %s is an error, and its channel is reset', async (_, source) => {
    const { engine, begin, turns, clock } = setUp();
    const { channel, slot, promise } = begin({ source });
    turns.settle();
    expect(await promise).toMatchObject({ outcome: 'error', bytes: 0, error: new Error('no page') });
    expect(channel).toMatchObject({ kills: 1, ends: 0 });
    expect(slot.releases).toBe(1);
    expectNothingLeft(engine, clock);
  });

  // Rule 1, fault 10: a partial basis must not stay on an open channel. Fails when #finish does not kill.
  it('halfway resets its channel: what was sent can never be completed', async () => {
    const { begin, turns } = setUp();
    let left = 2;
    const next = () => {
      if (left-- === 0) throw new Error('gave up');
      return [Buffer.alloc(10)];
    };
    const { channel, promise } = begin({ source: { bytes: 30, next } });
    channel.open = true;
    turns.settle();
    expect(await promise).toMatchObject({ outcome: 'error', bytes: 20 });
    expect(channel).toMatchObject({ kills: 1, ends: 0 });
  });

  it.each([
    [1, 3],
    [3, 1],
  ])('because its source announced %i pages and had %i is an error', async (announced, had) => {
    const { begin, turns } = setUp();
    const { channel, promise } = begin({ source: { ...pages(had), bytes: announced * PAGE } });
    channel.open = true;
    turns.settle();
    const { outcome, error } = await promise;
    expect(outcome).toBe('error');
    expect(String(error)).toContain(`announced ${announced * PAGE} bytes, got ${had * PAGE}`);
    expect(channel.kills).toBe(1);
  });

  it('because a write throws is an error', async () => {
    const { begin, turns } = setUp();
    const { channel, slot, promise } = begin();
    channel.failure = new Error('broken pipe');
    turns.settle();
    expect(await promise).toMatchObject({ outcome: 'error', error: channel.failure });
    expect([slot.releases, channel.kills]).toEqual([1, 1]);
  });

  it('because a write came back with an error is a client that went away', async () => {
    const { begin, turns } = setUp();
    const { channel, slot, promise } = begin();
    turns.settle();
    channel.answer(new Error('ECONNRESET'));
    expect(await promise).toMatchObject({ outcome: 'client_gone', bytes: 0, error: new Error('ECONNRESET') });
    expect([slot.releases, channel.kills]).toEqual([1, 1]);
  });

  // Fails when #taken does not ask whether the channel is dead.
  it('because a write came back from a dead channel counts no byte, although there was no error', async () => {
    const { begin, turns } = setUp();
    const { channel, promise } = begin({ source: pages(1) });
    turns.settle();
    channel.kills = 1;
    channel.answer();
    turns.settle();
    expect(await promise).toMatchObject({ outcome: 'client_gone', bytes: 0 });
  });

  // Fails when #step does not ask whether the channel is dead: a socket may be destroyed before its 'close' is heard.
  it('because its channel died without a word ends at its next turn, unwritten', async () => {
    const { begin, turns } = setUp();
    const { channel, promise } = begin();
    channel.kills = 1;
    turns.settle();
    expect(await promise).toMatchObject({ outcome: 'client_gone', bytes: 0 });
    expect(channel.writes).toBe(0);
  });

  // Fails when onClose does not look at isWhole: curl closes at the last byte that Content-Length announced.
  it('when everything announced was taken is complete, though we had no turn to say so', async () => {
    const { begin, turns } = setUp();
    const source = pages(1);
    const { channel, promise } = begin({ source });
    turns.settle();
    channel.answer();
    channel.close();
    turns.settle();
    expect(await promise).toMatchObject({ outcome: 'completed', bytes: source.bytes });
  });

  it.each([
    ['before it began', 0],
    ['before the first write', 1],
    ['while a write waits', 2],
  ])('because its client left %s frees the slot once', async (_, when) => {
    const { engine, begin, turns, clock } = setUp();
    const channel = new FakeChannel();
    if (when === 0) channel.close();
    const { slot, promise, reports } = begin({ channel });
    if (when === 2) turns.settle();
    channel.close();
    channel.answer();
    turns.settle();
    expect((await promise).outcome).toBe('client_gone');
    expect([slot.releases, reports.length]).toEqual([1, 1]);
    expectNothingLeft(engine, clock);
  });

  it('because its client left while pieces were being made ignores them, good or bad', async () => {
    for (const settle of ['resolve', 'reject', 'end'] as const) {
      const { engine, begin, turns, clock } = setUp();
      let end: (how: typeof settle) => void = () => {};
      const next = () =>
        new Promise<readonly Uint8Array[] | undefined>((resolve, reject) => {
          end = (how) =>
            how === 'reject' ? reject(new Error('late')) : resolve(how === 'end' ? undefined : [Buffer.alloc(1)]);
        });
      const { channel, slot, promise, reports } = begin({ source: { bytes: undefined, next } });
      turns.settle();
      channel.close();
      end(settle);
      await promise;
      await new Promise((resolve) => setImmediate(resolve));
      turns.settle();
      expect([slot.releases, reports.length, channel.writes]).toEqual([1, 1, 0]);
      expect(reports[0]?.outcome).toBe('client_gone');
      expectNothingLeft(engine, clock);
    }
  });

  it('releases its slot although its channel cannot be killed', () => {
    const { begin, turns, engine } = setUp();
    const { channel, slot } = begin();
    turns.settle();
    channel.kill = () => {
      throw new Error('no such socket');
    };
    expect(() => channel.answer(new Error('EPIPE'))).toThrow('no such socket');
    expect(slot.releases).toBe(1);
    expect(engine.active).toBe(0);
  });
});

describe('a reader that takes nothing', () => {
  it('is cut as stalled after the floor time of its write and the slack', async () => {
    const { engine, begin, turns, clock, pass } = setUp();
    const { channel, slot, promise, reports } = begin();
    turns.settle();
    pass(PAGE_MS + 10_000);
    expect(reports).toEqual([]);
    pass(500);
    expect(await promise).toMatchObject({ outcome: 'stalled', bytes: 0 });
    expect([channel.kills, slot.releases]).toEqual([1, 1]);
    expectNothingLeft(engine, clock);
  });

  // Fault 8. Fails when the deadline is made anew for each write.
  it('nearly, one page in two seconds, is cut as well', async () => {
    const { begin, turns, pass } = setUp();
    const { channel, reports } = begin({ source: pages(1000) });
    turns.settle();
    for (let i = 0; i < 40 && reports.length === 0; i++) {
      pass(2000);
      channel.take();
      turns.settle();
    }
    expect(reports).toMatchObject([{ outcome: 'stalled' }]);
    expect(reports[0]?.ms).toBeLessThanOrEqual(30_000);
  });

  it('at the floor rate is served to the end', () => {
    const { begin, turns, pass } = setUp();
    const { channel, reports } = begin({ source: pages(600) });
    turns.settle();
    while (reports.length === 0) {
      pass(PAGE_MS);
      channel.take();
      turns.settle();
    }
    expect(reports).toMatchObject([{ outcome: 'completed', ms: 600 * PAGE_MS }]);
  });

  it('is capped when a fixed cap comes first', async () => {
    const { begin, turns, pass } = setUp();
    const { channel, promise } = begin({ capMs: 3000 });
    turns.settle();
    pass(3600);
    expect((await promise).outcome).toBe('capped');
    expect(channel.kills).toBe(1);
  });

  it('is never cut when it is not guarded, and ends when it goes away', async () => {
    const { clock, begin, turns, pass } = setUp();
    const { channel, promise, slot } = begin({ guarded: false });
    turns.settle();
    expect(clock.armed).toBe(0);
    pass(3_600_000);
    expect(slot.releases).toBe(0);
    channel.close();
    expect((await promise).outcome).toBe('client_gone');
  });

  // The callback of a write that was taken may wait behind the sweep. Fails when #sweep judges at once: then all twenty
  // healthy readers of a blocked loop are killed.
  it('as it seems, because the loop was busy, is looked at again after a poll', () => {
    const { clock, engine, turns } = setUp({ slackMs: 200, creditMs: 100 });
    const channels = Array.from({ length: 20 }, () => new FakeChannel());
    for (const channel of channels) void engine.deliver({ channel, source: pages(2) });
    turns.settle();
    clock.advance(1500);
    for (const channel of channels) channel.take();
    turns.settle();
    expect(channels.filter(({ kills }) => kills > 0)).toEqual([]);
    for (const channel of channels) channel.take();
    turns.settle();
    expect(engine.stats().ended).toMatchObject({ completed: 20, stalled: 0 });
  });

  // Rule 9. Fails when FairTime is replaced by the clock.
  it('while the loop was blocked is not charged for that time', () => {
    const blocked = new BlockableClock();
    const turns = new Turns();
    const engine = new Deliveries({
      clock: blocked,
      nextTurn: turns.nextTurn,
      slackMs: 1000,
      creditMs: 1,
      sweepMs: 250,
    });
    const channel = new FakeChannel();
    void engine.deliver({ channel, source: pages(1) });
    turns.settle();
    const sweep = (): void => {
      blocked.advance(250);
      turns.settle();
    };
    blocked.block(60_000);
    // half a second of the block is charged, then a quarter per sweep, until floor time and slack are used up
    for (let i = 0; i < 7; i++) sweep();
    expect(channel.kills).toBe(0);
    sweep();
    expect(channel.kills).toBe(1);
  });
});

/** A clock whose timers fire late: the loop was blocked. */
class BlockableClock extends FakeClock {
  #lateMs = 0;

  override now(): number {
    return super.now() + this.#lateMs;
  }

  block(ms: number): void {
    this.#lateMs += ms;
  }
}

describe('a ration', () => {
  // Fails when #pump does not stop at turnBytesMax.
  it('lets all deliveries together write so many bytes in a turn, in order of arrival', () => {
    const { engine, turns } = setUp({ turnBytesMax: 4 * PAGE });
    const channels = Array.from({ length: 6 }, () => new FakeChannel());
    for (const channel of channels) {
      channel.open = true;
      void engine.deliver({ channel, source: pages(2) });
    }
    turns.turn();
    expect(channels.map(({ writes }) => writes)).toEqual([1, 1, 1, 1, 0, 0]);
    turns.turn();
    expect(channels.map(({ writes }) => writes)).toEqual([2, 2, 1, 1, 1, 1]);
    turns.settle();
    expect(engine.stats().ended.completed).toBe(6);
  });

  it('holds for deliveries that are not guarded, and for a single one', () => {
    const { begin, turns } = setUp({ turnBytesMax: 2 * PAGE });
    const { channel } = begin({ source: pages(100), guarded: false });
    channel.open = true;
    turns.turn();
    expect(channel.writes).toBeLessThanOrEqual(2);
    turns.turn();
    expect(channel.writes).toBeLessThanOrEqual(4);
  });

  it('ends also when encoding takes long', () => {
    const { clock, turns, engine } = setUp({ turnMsMax: 8 });
    const slow = (): Source => ({
      bytes: undefined,
      next: () => {
        clock.advance(5);
        return [Buffer.alloc(1)];
      },
    });
    const channels = Array.from({ length: 4 }, () => new FakeChannel());
    for (const channel of channels) void engine.deliver({ channel, source: slow() });
    turns.turn();
    expect(channels.map(({ writes }) => writes)).toEqual([1, 1, 0, 0]);
  });

  it('splits a large piece and joins small ones', () => {
    const { begin, turns } = setUp();
    const big = Buffer.alloc(10 * PAGE);
    let given = false;
    const next = () => (given ? undefined : ((given = true), [big]));
    const { channel } = begin({ source: { bytes: big.byteLength, next } });
    turns.settle();
    expect(channel.written).toBe(PAGE);
  });
});

describe('parking', () => {
  const waits = { parking: () => true };

  it('gives the place on after 100 ms without progress while others wait, and takes the next one to go on', () => {
    const { engine, begin, turns, pass } = setUp({ parkIdleAfterMs: 100 });
    const { channel, slot, reports } = begin({ ...waits, source: pages(3) });
    turns.settle();
    pass(50);
    expect(slot.state).toBe('held');
    pass(100);
    expect(slot.state).toBe('parked');
    expect(engine.stats()).toMatchObject({ parked: 1, parks: 1 });
    pass(1000);
    channel.take();
    turns.settle();
    expect(slot.asks).toBe(true);
    expect(channel.writes).toBe(1);
    pass(2000);
    slot.hold();
    turns.settle();
    expect(channel.writes).toBe(2);
    expect(engine.stats().parked).toBe(0);
    channel.open = true;
    channel.take();
    turns.settle();
    expect(reports).toMatchObject([{ outcome: 'completed', parkedMs: 3050 }]);
    expect(slot).toMatchObject({ releases: 1, parks: 1 });
  });

  it('is not for a reader that takes, nor while nobody waits', () => {
    const { begin, turns, pass } = setUp({ parkIdleAfterMs: 100 });
    let waiting = false;
    const { channel, slot } = begin({ parking: () => waiting, source: pages(100) });
    turns.settle();
    pass(5000);
    expect(slot.parks).toBe(0);
    waiting = true;
    for (let i = 0; i < 20; i++) {
      channel.take();
      turns.settle();
      pass(50);
    }
    expect(slot.parks).toBe(0);
    pass(100);
    expect(slot.parks).toBe(1);
  });

  // Fails when #mayPark does not look at the ready queue (parked at 25 ms all the same), or #sweepEvery not at who waits.
  it('comes sooner while nobody has anything to send, and not while somebody has', () => {
    const { clock, engine, begin, turns } = setUp();
    const { slot } = begin({ ...waits, source: pages(3) });
    turns.settle();
    const busy = new FakeChannel();
    busy.open = true;
    void engine.deliver({ channel: busy, source: { bytes: undefined, next: () => [Buffer.alloc(65_536)] } });
    const tick = (ms: number): void => {
      for (let left = ms; left > 0; left -= 5) {
        clock.advance(5);
        turns.turn();
      }
    };
    tick(60);
    expect(slot.state).toBe('held');
    busy.close();
    tick(60);
    expect(slot.state).toBe('parked');
    expect(clock.now()).toBeLessThan(125);
  });

  // Fails when #mayPark does not ask whether a write is out.
  it('is not for a delivery that waits for us', () => {
    const { begin, turns, pass } = setUp();
    let asked = 0;
    const next: Source['next'] = () => (asked++ === 0 ? [Buffer.alloc(10)] : new Promise(() => {}));
    const { channel, slot } = begin({ ...waits, source: { bytes: undefined, next } });
    turns.settle();
    channel.take();
    turns.settle();
    pass(5000);
    expect([asked, slot.parks]).toEqual([2, 0]);
  });

  it('looks as soon as it has to, although the slow sweep is under way', () => {
    const { engine, begin, turns, pass } = setUp();
    void engine.deliver({ channel: new FakeChannel(), source: pages(1) });
    turns.settle();
    const { slot } = begin(waits);
    turns.settle();
    pass(150);
    expect(slot.parks).toBe(1);
  });

  // Fails when #taken does not ask whether a write is out.
  it('asks for one place only, although its channel calls back twice', () => {
    const { begin, turns, pass } = setUp();
    const channel = new FakeChannel();
    const write = channel.write.bind(channel);
    channel.write = (pieces, done) =>
      write(pieces, () => {
        done();
        done();
      });
    const { slot } = begin({ ...waits, channel });
    turns.settle();
    pass(200);
    channel.take();
    expect(slot.resumes).toBe(1);
  });

  it('is asked again at the next sweep when the bound on parked was reached', () => {
    const { begin, turns, pass } = setUp();
    const { slot } = begin(waits);
    slot.mayPark = false;
    turns.settle();
    pass(500);
    expect(slot.state).toBe('held');
    slot.mayPark = true;
    pass(100);
    expect(slot.state).toBe('parked');
  });

  // Fails when a parked delivery's deadline stands still.
  it('lets the deadline run: a reader that never comes back is cut, and its slot released', async () => {
    const { engine, begin, turns, clock, pass } = setUp();
    const { slot, promise } = begin(waits);
    turns.settle();
    pass(11_500);
    expect(await promise).toMatchObject({ outcome: 'stalled', bytes: 0 });
    expect(slot.releases).toBe(1);
    expectNothingLeft(engine, clock);
  });

  // Rule 9. Fails when took() is not called before the wait for a place.
  it('charges nothing for the wait for a place', () => {
    const { begin, turns, pass, engine } = setUp();
    const { channel, slot } = begin({ ...waits, capMs: 5000 });
    turns.settle();
    pass(1000);
    channel.take();
    pass(3_600_000);
    expect(engine.active).toBe(1);
    slot.hold();
    turns.settle();
    expect(channel.writes).toBe(2);
  });

  it('needs no place for its end: the last byte completes it', async () => {
    const { begin, turns, pass } = setUp({ parkIdleAfterMs: 100 });
    const { channel, slot, promise } = begin({ ...waits, source: pages(1) });
    turns.settle();
    pass(200);
    channel.take();
    expect(await promise).toMatchObject({ outcome: 'completed', bytes: PAGE, parkedMs: 100 });
    expect(slot).toMatchObject({ releases: 1, asks: false });
  });

  it('ends with its client, parked or on its way back, and a late place does nothing', () => {
    for (const asks of [false, true]) {
      const { engine, begin, turns, clock, pass } = setUp();
      const { channel, slot, reports } = begin({ ...waits, source: pages(3) });
      turns.settle();
      pass(200);
      if (asks) channel.take();
      channel.close();
      slot.state = 'parked';
      slot.hold();
      turns.settle();
      expect(reports).toMatchObject([{ outcome: 'client_gone' }]);
      expect([slot.releases, channel.writes]).toEqual([1, 1]);
      expectNothingLeft(engine, clock);
    }
  });

  it('works without a deadline too, and never without a slot', () => {
    const { engine, begin, turns, pass, clock } = setUp();
    void engine.deliver({ channel: new FakeChannel(), source: pages(1), guarded: false, ...waits });
    turns.settle();
    expect(clock.armed).toBe(0);
    const { slot } = begin({ ...waits, guarded: false });
    turns.settle();
    pass(200);
    expect(slot.parks).toBe(1);
  });
});

describe('the sweep', () => {
  // Rule 8, faults 6 and 7. Fails when #finish does not call the timer off.
  it('is armed only while something is on its way', () => {
    const { clock, begin, turns } = setUp();
    expect(clock.armed).toBe(0);
    const { channel } = begin();
    expect(clock.armed).toBe(1);
    channel.open = true;
    turns.settle();
    expect(clock.armed).toBe(0);
  });

  // Fails when #finish calls the timer off although others are on their way.
  it.each([true, false])('goes on when one of several ends (parkable: %s)', async (isParkable) => {
    const { begin, turns, pass } = setUp();
    const options = isParkable ? { parking: () => false } : {};
    const stalled = begin(options);
    const done = begin(options);
    done.channel.open = true;
    turns.settle();
    expect((await done.promise).outcome).toBe('completed');
    pass(12_000);
    expect((await stalled.promise).outcome).toBe('stalled');
  });

  it('is one for all', () => {
    const { clock, begin } = setUp();
    for (let i = 0; i < 10; i++) begin();
    expect(clock.armed).toBe(1);
  });
});

describe('a shutdown', () => {
  it('ends what is on its way, and what comes later, as shutdown', async () => {
    const { engine, begin, turns, clock } = setUp();
    const early = begin();
    turns.settle();
    engine.shutdown();
    const late = begin();
    turns.settle();
    for (const { promise, channel, slot } of [early, late]) {
      expect((await promise).outcome).toBe('shutdown');
      expect([channel.kills, slot.releases]).toEqual([1, 1]);
    }
    expectNothingLeft(engine, clock);
  });
});

describe('options', () => {
  it.each([
    'turnBytesMax',
    'turnMsMax',
    'writeBytes',
    'sweepMs',
    'floorBytesPerSecond',
    'slackMs',
    'creditMs',
    'parkAfterMs',
  ])('refuse a %s that is not positive', (name) => {
    for (const value of [0, -1, Number.NaN]) {
      expect(() => new Deliveries({ [name]: value })).toThrow(
        `Cannot make deliveries: ${name} must be a positive number, got ${value}`,
      );
    }
  });

  it('that are refused carry a code', () => {
    expect(() => new Deliveries({ slackMs: 0 })).toThrow(expect.objectContaining({ code: 'HG_OPTION' }));
  });

  it('give a credit of half the slack', () => {
    const clock = new FakeClock();
    const turns = new Turns();
    const engine = new Deliveries({ clock, nextTurn: turns.nextTurn, slackMs: 10_000 });
    const channel = new FakeChannel();
    channel.open = true;
    void engine.deliver({ channel, source: pages(200) });
    for (let i = 0; i < 5; i++) turns.turn();
    channel.open = false;
    turns.settle();
    const sweep = (ms: number): void => {
      for (let left = ms; left > 0; left -= 250) {
        clock.advance(250);
        turns.settle();
      }
    };
    sweep(PAGE_MS + 15_000);
    expect(channel.kills).toBe(0);
    sweep(250);
    expect(channel.kills).toBe(1);
  });

  it('have working defaults', async () => {
    const channel = new FakeChannel();
    channel.open = true;
    const began = systemClock.now();
    const { outcome, ms } = await new Deliveries().deliver({ channel, source: pages(40) });
    expect(outcome).toBe('completed');
    expect(ms).toBeLessThanOrEqual(systemClock.now() - began);
  });
});
