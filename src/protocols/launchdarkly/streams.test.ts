import { describe, expect, it } from 'vitest';
import { turns, until } from '../../../test/support/conditions.ts';
import { FakeExchange, fakeFront } from '../../../test/support/flags-fakes.ts';
import { flag, flagsOf, infoOf, put, segment } from '../../../test/support/flags-items.ts';
import { formatPosition } from '../../dataset/index.ts';
import type { FrontOptions } from './deps.ts';
import type { Environment } from './environment.ts';
import { lost, refused } from './facts.ts';
import { FlagsFront } from './front.ts';

interface Setting {
  readonly front: FrontOptions;
  readonly environment: Environment;
  readonly open: (target: string, headers?: Record<string, string>) => FakeExchange;
}

async function setUp(front: FrontOptions = fakeFront()): Promise<Setting> {
  const flags = new FlagsFront(front);
  await flags.load(infoOf('test'), [...flagsOf(200_000), flag('k', 1), segment('s', 1)], 'source');
  const [environment] = flags.environments();
  if (environment === undefined) throw new Error('Cannot find the environment');
  const open = (target: string, headers = {}): FakeExchange => {
    const exchange = new FakeExchange(target, headers);
    const route = flags.routes().find(({ path }) => path === exchange.path);
    void route?.handle(exchange, {});
    return exchange;
  };
  return { front, environment, open };
}

function basis({ data }: Environment): string {
  const { digest, clock } = data.snapshot();
  return formatPosition({ digest, clock, view: 'all' });
}

describe('a stream', () => {
  it('is sent the same bytes, not the like, as every other one', async () => {
    const { environment, open } = await setUp();
    const [one, two] = [open('/all'), open('/all')];
    await until('two streams', () => environment.streams === 2);
    const large = one.channel.pieces.filter((piece) => piece.length > 1000);
    expect(large.length).toBeGreaterThan(2);
    for (const piece of large) expect(two.channel.pieces).toContain(piece);
    await environment.data.apply([put(flag('k', 2))]);
    await turns(5);
    expect(one.channel.pieces.at(-1)).toBe(two.channel.pieces.at(-1));
    environment.close();
  });

  it('has its place in the log before any change can pass it', async () => {
    const { environment, open } = await setUp();
    const stream = open('/all');
    for (let version = 2; version < 40; version++) {
      await environment.data.apply([put(flag('k', version))]);
      await turns(1);
    }
    await until('a stream', () => environment.streams === 1);
    await turns(10);
    const first = Number(/"k","version":([0-9]+)/.exec(stream.text)?.[1]);
    const versions = [...stream.text.matchAll(/"k","version":([0-9]+)/g)].map((match) => Number(match[1]));
    expect(versions).toEqual(Array.from({ length: 40 - first }, (_, at) => first + at));
    environment.close();
  });

  it('that is refused is told why, before its head', async () => {
    const { front, environment, open } = await setUp(fakeFront({ maxConcurrent: 1, maxQueued: 1 }));
    const held = front.limiter.tryAcquire();
    const facts: object[] = [];
    const stop = refused.listen((fact) => facts.push(fact));
    const waits = open('/all');
    const full = open('/all', { 'user-agent': 'GoClient/7.14.6' });
    await until('an answer', () => full.answered);
    expect(full).toMatchObject({ status: 503, headers: { 'content-type': 'application/json' } });
    front.limiter.close();
    await until('an answer', () => waits.answered);
    expect(JSON.parse(waits.text)).toEqual({ message: 'Headgate is shutting down; retry shortly' });
    expect(facts).toMatchObject([
      { reason: 'full', sdk: 'GoClient', route: '/all', environment: 'test', remoteAddress: '192.0.2.1' },
      { reason: 'closed' },
    ]);
    stop();
    if (held.admitted) held.slot.release();
    environment.close();
  });

  it('whose client has left while it waited takes nothing', async () => {
    const { front, environment, open } = await setUp(fakeFront({ maxConcurrent: 1 }));
    const held = front.limiter.tryAcquire();
    const stream = open('/all');
    await until('a queue', () => front.limiter.waiting === 1);
    stream.channel.leave();
    await until('nobody', () => front.limiter.waiting === 0);
    if (held.admitted) held.slot.release();
    await turns(5);
    expect(stream.answered).toBe(false);
    expect(front.limiter.stats()).toMatchObject({ held: 0, refused: { aborted: 1 } });
    environment.close();
  });

  it('that was cut in its copy never follows', async () => {
    const { environment, open } = await setUp();
    const stream = open('/all');
    stream.channel.takes = false;
    await until('its first bytes', () => stream.channel.pieces.length > 0);
    stream.channel.kill();
    await environment.data.apply([put(flag('k', 2))]);
    await turns(10);
    expect(environment.streams).toBe(0);
    expect(stream.text).not.toContain('event: patch');
    environment.close();
  });

  it('is told how long to wait before it comes back, within its first event', async () => {
    const { environment, open } = await setUp(fakeFront({}, { retryMs: 7000 }));
    const current = open(`/sdk/stream?basis=${basis(environment)}`);
    const full = open('/all');
    await until('two streams', () => environment.streams === 2);
    expect(current.text.startsWith('retry: 7000\nevent: server-intent\n')).toBe(true);
    expect(full.text.startsWith('retry: 7000\nevent: put\n')).toBe(true);
    environment.close();
  });
});

describe('a change as large as a copy', () => {
  it('goes to each stream when it has a slot, and nothing of later overtakes it', async () => {
    const { front, environment, open } = await setUp(fakeFront({ maxConcurrent: 1 }));
    const streams = [open('/all'), open('/sdk/stream')];
    await until('two streams', () => environment.streams === 2 && front.limiter.held === 0);
    const before = streams.map(({ text }) => text.length);
    const held = front.limiter.tryAcquire();
    await environment.data.apply(flagsOf(300 * 1024, 2).map(put));
    await environment.data.apply([put(flag('k', 2))]);
    await turns(10);
    expect(streams.map(({ text }) => text.length)).toEqual(before);
    expect(front.limiter.stats().waitingOpen).toBe(2);
    if (held.admitted) held.slot.release();
    await until('both of them', () => streams.every(({ text }) => text.endsWith(`id: ${basis(environment)}\n\n`)));
    await until('their places', () => environment.streams === 2 && front.limiter.held === 0);
    expect(streams[0]?.text.slice(before[0]).match(/"key":"flag-0"/g)).toHaveLength(1);
    environment.close();
  });
});

describe('a stream that falls off the log', () => {
  it('is made known', async () => {
    const { environment, open } = await setUp(fakeFront({}, { logBatchesMax: 2 }));
    const stream = open('/all');
    await until('a stream', () => environment.streams === 1);
    // a channel that holds back what it is sent
    stream.channel.send = () => false;
    const facts: object[] = [];
    const stop = lost.listen((fact) => facts.push(fact));
    for (let version = 2; version < 8; version++) {
      await environment.data.apply([put(flag('k', version))]);
      await turns(3);
    }
    expect(facts).toMatchObject([{ route: '/all', environment: 'test' }]);
    expect(stream.channel.over).toBe('killed');
    expect(environment.streams).toBe(0);
    stop();
    environment.close();
  });
});
