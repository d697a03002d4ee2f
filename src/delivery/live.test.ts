import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FakeChannel, Turns } from '../../test/support/delivery-fakes.ts';
import { FakeClock } from '../kernel/index.ts';
import type { Block } from './channel.ts';
import { LiveGroup, type LiveGroupOptions, type LiveLog } from './live.ts';
import { blockOf } from './sse.ts';

/** A log of one-letter blocks: a, b, c, … */
class Log implements LiveLog {
  first = 0;
  next = 0;
  readonly asked = new Map<number, number>();
  readonly #blocks = new Map<number, Block>();

  append(text = String.fromCodePoint(97 + (this.next % 26))): void {
    this.#blocks.set(this.next++, blockOf(text));
  }

  block(offset: number): Block | undefined {
    this.asked.set(offset, (this.asked.get(offset) ?? 0) + 1);
    return offset < this.first ? undefined : this.#blocks.get(offset);
  }
}

function setUp(options: Partial<LiveGroupOptions<string>> = {}) {
  const clock = new FakeClock();
  const turns = new Turns();
  const log = new Log();
  const lost: string[] = [];
  const onLost = (name: string): void => void lost.push(name);
  const group = new LiveGroup<string>({ log, clock, nextTurn: turns.nextTurn, heartbeatMs: 0, onLost, ...options });
  const join = (name: string, open = true, cursor = log.next): FakeChannel => {
    const channel = new FakeChannel();
    channel.open = open;
    group.add(channel, cursor, name);
    return channel;
  };
  const publish = (count = 1): void => {
    for (let i = 0; i < count; i++) log.append();
    group.publish();
    turns.settle();
  };
  const pass = (ms: number): void => {
    for (let left = ms; left > 0; left -= 50) {
      clock.advance(Math.min(50, left));
      turns.settle();
    }
  };
  return { clock, turns, log, lost, group, join, publish, pass };
}

describe('a live client', () => {
  it('gets every block from its cursor on, once, in order', () => {
    const { join, publish } = setUp();
    const a = join('a');
    publish(2);
    const b = join('b');
    publish();
    expect([a.text, b.text]).toEqual(['abc', 'c']);
  });

  // Rule 4. Fails when add() does not advance the client.
  it('gets what it missed as soon as it joins', () => {
    const { join, publish } = setUp();
    publish(3);
    expect(join('a', true, 1).text).toBe('bc');
  });

  it('gets nothing for a block that is empty for its view', () => {
    const { group, turns, log, join } = setUp();
    const { text, written } = join('a');
    log.append('');
    group.publish();
    turns.settle();
    expect([text, written]).toEqual(['', 0]);
    expect(group.stats().sent).toBe(0);
  });

  // Rule 11. Fails when #advance does not stop at a client whose socket holds bytes.
  it('whose socket holds bytes is passed over, and goes on from its own cursor when they are gone', () => {
    const { join, publish, group } = setUp();
    const slow = join('slow', false);
    const fast = join('fast');
    publish();
    publish(2);
    expect([slow.text, fast.text]).toEqual(['a', 'abc']);
    expect(group.stats()).toMatchObject({ behind: 1, sent: 4 });
    slow.take();
    expect(slow.text).toBe('ab');
    slow.open = true;
    slow.take();
    expect(slow.text).toBe('abc');
    expect(group.stats()).toMatchObject({ behind: 0, clients: 2, sent: 6 });
  });

  // Fails when survey() leaves out what is held back, or those that are being closed.
  it('is looked at once: by what it has yet to be sent, and what its socket holds back', () => {
    const { join, publish, group } = setUp();
    join('current');
    const slow = join('slow', false);
    const leaving = join('leaving', false);
    publish(3);
    group.close(leaving);
    const seen: [string, number][] = [];
    group.survey((name, missed) => seen.push([name, missed]));
    expect(seen).toEqual([
      ['current', 0],
      ['slow', 3],
      ['leaving', 3],
    ]);
    slow.open = true;
    slow.take();
    seen.length = 0;
    group.survey((name, missed) => seen.push([name, missed]));
    expect(seen[1]).toEqual(['slow', 0]);
  });

  it('that fell off the log while its socket is stuck is reset, and counted', () => {
    const { join, publish, group, log, lost } = setUp();
    const slow = join('slow', false);
    publish(3);
    log.first = 2;
    publish();
    expect(lost).toEqual(['slow']);
    expect(slow).toMatchObject({ kills: 1, ends: 0 });
    expect(group.stats()).toMatchObject({ clients: 0, behind: 0, lost: 1 });
  });

  it('that fell off the log, but is reading, is ended cleanly', () => {
    const { join, log, lost, group } = setUp();
    log.append();
    log.append();
    log.first = 2;
    const late = join('late', true, 1);
    expect(lost).toEqual(['late']);
    expect(late).toMatchObject({ kills: 0, ends: 1, text: '' });
    expect(group.size).toBe(0);
  });

  it('that leaves is forgotten, in the middle of a pass too', () => {
    const { join, log, group, turns } = setUp();
    const channels = Array.from({ length: 5 }, (_, i) => join(`${i}`));
    channels[2]?.close();
    log.append();
    group.publish();
    channels[0]?.close();
    turns.settle();
    expect(channels.map(({ text }) => text)).toEqual(['', 'a', '', 'a', 'a']);
    expect(group.size).toBe(3);
  });

  it('that is dead already never joins', () => {
    const { group, clock } = setUp({ heartbeatMs: 1000 });
    const channel = new FakeChannel();
    channel.close();
    group.add(channel, 0, 'dead');
    expect([group.size, clock.armed]).toEqual([0, 0]);
  });

  it('can be taken out and stays open; the same channel may come back', () => {
    const { join, group, publish } = setUp();
    const channel = join('a');
    group.remove(channel);
    group.remove(channel);
    publish();
    expect([channel.text, channel.dead, group.size, channel.listeners]).toEqual(['', false, 0, 0]);
    group.add(channel, 1, 'again');
    publish();
    expect(channel.text).toBe('b');
    expect(group.takeAll()).toEqual(['again']);
    expect([group.size, channel.dead]).toEqual([0, false]);
  });

  it('that was taken out while its socket held bytes hears no more of the group', () => {
    const { join, group, publish } = setUp();
    const channel = join('a', false);
    publish(2);
    group.remove(channel);
    expect(group.stats().behind).toBe(0);
    channel.open = true;
    channel.take();
    expect(channel.text).toBe('a');
    expect(group.stats().behind).toBe(0);
  });
});

describe('a pass', () => {
  it('serves ten thousand clients in slices of at most a thousand, all of them, each once', () => {
    const { group, log, join, turns } = setUp();
    const channels = Array.from({ length: 10_000 }, (_, i) => join(`${i}`));
    log.append();
    group.publish();
    const slices: number[] = [];
    for (let before = 0; turns.queued > 0; before = group.stats().sent) {
      turns.turn();
      slices.push(group.stats().sent - before);
    }
    expect(Math.max(...slices)).toBeLessThanOrEqual(1000);
    expect(channels.every(({ text }) => text === 'a')).toBe(true);
  });

  it('gives way when its time is up', () => {
    const { group, log, turns, clock } = setUp({ onSent: () => clock.advance(1) });
    for (let i = 0; i < 100; i++) {
      const channel = new FakeChannel();
      channel.open = true;
      group.add(channel, 0, `${i}`);
    }
    log.append();
    group.publish();
    turns.turn();
    expect(group.stats().sent).toBe(32);
    turns.settle();
    expect(group.stats().sent).toBe(100);
  });

  // Fails when publish() does nothing while a pass is under way.
  it('is made again for what was published while it was under way', () => {
    const { group, log, join, turns } = setUp();
    const channels = Array.from({ length: 2500 }, (_, i) => join(`${i}`));
    log.append();
    group.publish();
    turns.turn();
    log.append();
    group.publish();
    group.publish();
    turns.settle();
    expect(channels.every(({ text }) => text === 'ab')).toBe(true);
  });

  it('does not let one client that misses much hold up the rest', () => {
    const { group, log, join, turns } = setUp();
    for (let i = 0; i < 200; i++) log.append('x');
    const far = join('far', true, 0);
    expect(far.text).toHaveLength(64);
    const near = join('near');
    log.append('y');
    group.publish();
    turns.turn();
    expect(near.text).toBe('y');
    turns.settle();
    expect(far.text).toHaveLength(201);
  });

  it('makes each block once, or as often as the log is asked, and tells of each that is sent', () => {
    const sent: string[] = [];
    const { join, publish } = setUp({
      onSent: (client, block) =>
        void sent.push(`${client.value}:${Buffer.from(block.bytes).toString()}:${client.cursor}`),
    });
    join('p');
    join('q');
    publish(2);
    expect(sent).toEqual(['p:a:1', 'p:b:2', 'q:a:1', 'q:b:2']);
  });
});

describe('heartbeats', () => {
  it('come from one timer, to whoever is not behind, and stop with the last client', () => {
    const { clock, join, publish, pass, group } = setUp({ heartbeatMs: 1000 });
    expect(clock.armed).toBe(0);
    const idle = join('idle');
    const stuck = join('stuck', false);
    expect(clock.armed).toBe(1);
    publish();
    pass(2000);
    expect([idle.text, stuck.text]).toEqual(['a:\n:\n', 'a']);
    expect(group.stats().heartbeats).toBe(2);
    idle.close();
    stuck.close();
    expect(clock.armed).toBe(0);
  });

  it('reach a client that waits for its first data, in a group with an empty log', () => {
    const { join, pass } = setUp({ heartbeatMs: 1000, log: { first: 0, next: 0, block: () => undefined } });
    const waiting = join('waiting', true, 0);
    pass(1000);
    expect(waiting.text).toBe(':\n');
  });

  it('may be something else, or none', () => {
    const other = setUp({ heartbeatMs: 1000, heartbeat: blockOf('event: ping\n\n') });
    const channel = other.join('a');
    other.pass(1000);
    expect(channel.text).toBe('event: ping\n\n');
    const none = setUp({ heartbeatMs: 0 });
    none.join('a');
    expect(none.clock.armed).toBe(0);
  });

  it('that are not taken at once make the client fall behind', () => {
    const { join, pass, publish, group } = setUp({ heartbeatMs: 1000 });
    const stuck = join('stuck', false);
    pass(1000);
    publish();
    expect(stuck.text).toBe(':\n');
    expect(group.stats().behind).toBe(1);
    stuck.take();
    expect(stuck.text).toBe(':\na');
  });
});

describe('a stream that is too old', () => {
  it('is ended once it has what it misses', () => {
    const { join, pass, publish, group } = setUp({ clientMsMax: 5000 });
    const first = join('first');
    pass(3000);
    const second = join('second');
    publish();
    pass(2900);
    expect(first).toMatchObject({ ends: 1, kills: 0, text: 'a' });
    expect(second.ends).toBe(0);
    expect(group.stats()).toMatchObject({ clients: 1, aged: 1 });
    pass(3000);
    expect(second.ends).toBe(1);
    expect(group.size).toBe(0);
  });

  it('is one of at most five hundred in a second', () => {
    const { join, pass, group } = setUp({ clientMsMax: 600_000 });
    for (let i = 0; i < 1200; i++) join(`${i}`);
    pass(600_500);
    expect(group.size).toBe(700);
    pass(2000);
    expect(group.size).toBe(0);
  });

  it('goes earlier, by chance, when ages are spread', () => {
    const { join, pass, group } = setUp({ clientMsMax: 10_000, clientMsJitter: 0.5, random: sequence([0, 1, 0.5]) });
    const [late, early, middle] = [join('late'), join('early'), join('middle')];
    pass(5000);
    expect([late.ends, early.ends, middle.ends]).toEqual([0, 1, 0]);
    pass(3000);
    expect([late.ends, early.ends, middle.ends]).toEqual([0, 1, 1]);
    pass(2000);
    expect(group.size).toBe(0);
  });
});

function sequence(values: readonly number[]): () => number {
  let index = 0;
  return () => values[index++ % values.length] ?? 0;
}

describe('closing all', () => {
  it('is spread over the time, and each gets what it misses, the last block, and a clean end', async () => {
    const { join, log, group, pass } = setUp();
    const channels = Array.from({ length: 100 }, (_, i) => join(`${i}`));
    log.append();
    let done = false;
    const closed = group.closeAll({ overMs: 1000, last: blockOf('!') }).then(() => (done = true));
    const openAt: number[] = [];
    for (let i = 0; i < 4; i++) {
      openAt.push(group.size);
      pass(250);
    }
    expect(openAt).toEqual([95, 70, 45, 20]);
    await closed;
    expect(done).toBe(true);
    expect(channels.every(({ text, ends, kills }) => text === 'a!' && ends === 1 && kills === 0)).toBe(true);
  });

  it('at once takes no longer than the loop allows, and yields on the way', async () => {
    const { join, group, turns } = setUp();
    for (let i = 0; i < 3; i++) join(`${i}`);
    await group.closeAll({ overMs: 0 });
    turns.settle();
    expect(group.size).toBe(0);
  });

  it('gives way when its time is up', async () => {
    const { clock, group, turns } = setUp({ closing: () => (clock.advance(1), new Uint8Array(0)) });
    for (let i = 0; i < 12; i++) group.add(Object.assign(new FakeChannel(), { open: true }), 0, `${i}`);
    const closed = group.closeAll({ overMs: 0 });
    expect(group.size).toBe(7);
    turns.settle();
    await closed;
    expect(group.size).toBe(0);
  });

  it('of nobody is done at once', async () => {
    expect(await setUp().group.closeAll({ overMs: 1000 })).toBeUndefined();
  });

  it('waits for a client that is behind, which still gets everything in order', async () => {
    const { join, publish, group, log } = setUp();
    const slow = join('slow', false);
    publish(2);
    const closed = group.closeAll({ overMs: 0, last: blockOf('!') });
    expect([slow.text, slow.ends]).toEqual(['a', 0]);
    slow.take();
    expect(slow.text).toBe('ab');
    slow.take();
    expect([slow.text, slow.ends]).toEqual(['ab!', 1]);
    log.append();
    slow.take();
    expect([slow.text, slow.ends]).toEqual(['ab!', 1]);
    slow.close(true);
    await closed;
    expect(group.stats()).toMatchObject({ clients: 0, behind: 0 });
  });

  it('resets who does not take the last bytes in time', async () => {
    const { join, publish, group, pass, clock } = setUp({ leaveMsMax: 3000 });
    const stuck = join('stuck', false);
    publish();
    const closed = group.closeAll({ overMs: 0 });
    pass(1000);
    const later = join('later', false);
    expect([stuck.kills, later.ends]).toEqual([0, 1]);
    pass(2000);
    expect(stuck.kills).toBe(1);
    await closed;
    expect([group.size, clock.armed]).toEqual([0, 0]);
  });

  it('ends who comes later at once, with what it misses', async () => {
    const { join, publish, group } = setUp();
    await group.closeAll({ overMs: 0, last: blockOf('!') });
    publish(1);
    const late = join('late', true, 0);
    expect(late).toMatchObject({ text: 'a!', ends: 1 });
  });

  it('sends what the closing of each stream takes, last of all', async () => {
    const { join, publish, group } = setUp({ closing: ({ value, cursor }) => Buffer.from(`<${value}${cursor}>`) });
    const a = join('a');
    publish();
    await group.closeAll({ overMs: 0, last: blockOf('!') });
    expect(a.text).toBe('a!<a1>');
  });
});

describe('any readers', () => {
  const what = fc.constantFrom('join', 'publish', 'take', 'toggle', 'leave', 'trim', 'turn', 'beat');
  const steps = fc.array(fc.tuple(what, fc.nat({ max: 99 })), { maxLength: 80, size: 'max' });

  it('get an unbroken piece of the log, from their cursor on, or are closed', () => {
    fc.assert(
      fc.property(steps, (plan) => {
        const { join, log, group, turns, clock } = setUp({ heartbeatMs: 500, heartbeat: blockOf('-') });
        const clients: { channel: FakeChannel; cursor: number }[] = [];
        for (const [step, which] of plan) {
          const client = clients[which % Math.max(1, clients.length)];
          if (step === 'join') clients.push({ cursor: log.next, channel: join(`${which}`, which % 2 === 0) });
          else if (step === 'publish') {
            log.append();
            group.publish();
          } else if (step === 'take') client?.channel.take();
          else if (step === 'toggle' && client !== undefined) client.channel.open = !client.channel.open;
          else if (step === 'leave') client?.channel.close();
          else if (step === 'trim') log.first = Math.min(log.next, log.first + (which % 3));
          else if (step === 'beat') clock.advance(which * 10);
          else turns.turn();
        }
        turns.settle();
        for (const { channel } of clients) {
          channel.open = true;
          channel.take();
        }
        turns.settle();
        for (const { channel, cursor } of clients) {
          const got = channel.text.replaceAll('-', '');
          const all = Array.from({ length: log.next - cursor }, (_, i) =>
            String.fromCodePoint(97 + ((cursor + i) % 26)),
          ).join('');
          expect(all.startsWith(got)).toBe(true);
          const follows = !channel.dead && channel.ends === 0;
          expect(follows ? got : all).toBe(all);
        }
        expect(group.stats().behind).toBe(0);
        for (const { channel } of clients) channel.close();
        expect([group.size, clock.armed]).toEqual([0, 0]);
      }),
      { numRuns: 500 },
    );
  });
});

describe('options', () => {
  it.each([
    ['heartbeatMs', -1],
    ['clientMsMax', Number.NaN],
    ['clientMsJitter', 1.5],
    ['leaveMsMax', -1],
    ['sliceMsMax', -5],
  ])('refuse a %s of %d', (name, value) => {
    expect(() => new LiveGroup({ log: new Log(), [name]: value })).toThrow(
      new RegExp(`^Cannot make a live group: ${name} must be between 0 and .*, got ${value}$`),
    );
  });

  it('have working defaults', () => {
    const group = new LiveGroup<undefined>({ log: new Log() });
    const channel = new FakeChannel();
    group.add(channel, 0, undefined);
    channel.close();
    expect(group.size).toBe(0);
  });
});
