import { describe, expect, it } from 'vitest';
import { FakeChannel } from '../../test/support/delivery-fakes.ts';
import type { Exchange } from '../delivery/index.ts';
import { FakeClock } from '../kernel/index.ts';
import type { Bucket, State, Timeline } from '../observability/index.ts';
import { Live, type LiveParts } from './live.ts';

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

function setUp(more: Partial<LiveParts> = {}) {
  const clock = new FakeClock();
  const failures: unknown[] = [];
  let reads = 0;
  const live = new Live({
    clock,
    state: () => ({ atMs: ++reads }) as unknown as State,
    timeline: () => ({ everyMs: 2000, atMs: [reads] }) as unknown as Timeline,
    onFailure: (error) => failures.push(error),
    ...more,
  });
  const ask = (
    path: string,
    given: Readonly<Record<string, string>> = {},
  ): { channel: FakeChannel; answer?: Answer } => {
    const asked: { channel: FakeChannel; answer?: Answer } = { channel: new FakeChannel() };
    asked.channel.open = true;
    const exchange: Pick<Exchange, 'header' | 'reply' | 'open'> = {
      header: (name) => given[name],
      reply: (status, headers, body) => (asked.answer = { status, headers, body: String(body) }),
      open(status, headers) {
        asked.answer = { status, headers, body: '' };
        return asked.channel;
      },
    };
    const route = live.routes.find((one) => one.path === path);
    void route?.handle(exchange as Exchange, {});
    return asked;
  };
  const watch = (): FakeChannel => ask('/api/live').channel;
  return { clock, live, ask, watch, failures, reads: () => reads };
}

function bucketAt(atMs: number): Bucket {
  return { atMs } as Bucket;
}

describe('whoever watches', () => {
  it('is told the timeline and the state at once, then the state each second, and each bucket', () => {
    const { clock, live, ask } = setUp();
    const { channel, answer } = ask('/api/live');
    expect(answer).toMatchObject({
      status: 200,
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
    });
    expect(channel.text).toBe(
      'event: timeline\ndata: {"everyMs":2000,"atMs":[0]}\n\nevent: state\ndata: {"atMs":1}\n\n',
    );
    clock.advance(999);
    expect(channel.text).not.toContain('{"atMs":2}');
    clock.advance(1);
    live.bucket(bucketAt(77));
    clock.advance(1000);
    expect(channel.text.split('\n\n').slice(2)).toEqual([
      'event: state\ndata: {"atMs":2}',
      'event: bucket\ndata: {"atMs":77}',
      'event: state\ndata: {"atMs":3}',
      '',
    ]);
  });

  it('shares each state with all who watch', () => {
    const { clock, watch, reads } = setUp();
    for (let viewer = 0; viewer < 5; viewer++) watch();
    clock.advance(3000);
    expect(reads()).toBe(5 + 3);
  });

  // Fails when the timer goes on without viewers.
  it('is all that it is worked out for', () => {
    const { clock, live, watch, reads } = setUp();
    live.bucket(bucketAt(1));
    clock.advance(60_000);
    expect([reads(), clock.armed]).toEqual([0, 0]);
    const channel = watch();
    expect(clock.armed).toBe(1);
    channel.close();
    expect([live.viewers, clock.armed]).toEqual([0, 0]);
    clock.advance(60_000);
    expect(reads()).toBe(1);
  });

  // Fails when the look at `behindSinceMs` in `#send` is removed.
  it('is passed over while it does not read, and then told the whole timeline again', () => {
    const { clock, live, watch } = setUp();
    const [stalled, reading] = [watch(), watch()];
    stalled.open = false;
    clock.advance(1000);
    const { written } = stalled;
    live.bucket(bucketAt(5));
    clock.advance(10_000);
    expect(stalled.written).toBe(written);
    const before = stalled.text.length;
    stalled.open = true;
    stalled.take();
    expect(stalled.text.length).toBe(before);
    clock.advance(1000);
    expect(stalled.text.slice(before)).toMatch(/^event: timeline\ndata: .*\n\nevent: state\ndata: .*\n\n$/);
    clock.advance(1000);
    expect(stalled.text.slice(before).match(/timeline/g)).toHaveLength(1);
    expect(reading.text.match(/timeline/g)).toHaveLength(1);
    expect(reading.text).toContain('event: bucket\ndata: {"atMs":5}');
  });

  it('is not told the timeline again when it missed states alone', () => {
    const { clock, watch } = setUp();
    const channel = watch();
    channel.open = false;
    clock.advance(3000);
    channel.open = true;
    channel.take();
    clock.advance(1000);
    expect(channel.text.match(/timeline/g)).toHaveLength(1);
  });

  it('costs nothing while nobody reads, and gives its place up after a minute', () => {
    const { clock, live, watch, reads } = setUp();
    const channel = watch();
    channel.open = false;
    clock.advance(60_000);
    expect([channel.kills, reads()]).toEqual([0, 2]);
    clock.advance(1000);
    expect([channel.kills, live.viewers]).toEqual([1, 0]);
  });

  // Fails when the bound is removed.
  it('is one of sixteen: the next is told to come back', () => {
    const { ask, live, watch } = setUp();
    const viewers = Array.from({ length: 16 }, watch);
    const { answer } = ask('/api/live');
    expect(answer).toMatchObject({ status: 503, headers: { 'retry-after': '10' } });
    expect(live.viewers).toBe(16);
    viewers[0]?.close();
    expect(ask('/api/live').answer?.status).toBe(200);
  });

  // Fails when the look at Sec-Fetch-Site is removed.
  it('is no page of another site', () => {
    const { ask, live, reads } = setUp();
    for (const from of ['cross-site', 'same-site']) {
      for (const path of ['/api/live', '/api/state']) {
        expect(ask(path, { 'sec-fetch-site': from }).answer?.status).toBe(403);
      }
    }
    expect([live.viewers, reads()]).toEqual([0, 0]);
    expect(ask('/api/live', { 'sec-fetch-site': 'same-origin' }).answer?.status).toBe(200);
  });

  it('is told the end at the stop, and later ones are refused', () => {
    const { clock, ask, live, watch } = setUp();
    const [reading, stalled] = [watch(), watch()];
    stalled.open = false;
    clock.advance(1000);
    live.close();
    expect([reading.ends, reading.kills]).toEqual([1, 0]);
    expect(ask('/api/live').answer).toMatchObject({ status: 503, body: 'a stop is under way\n' });
    clock.advance(500);
    expect([stalled.kills, live.viewers, clock.armed]).toEqual([1, 0, 0]);
  });

  it('is cut when the state cannot be read, which is told once', () => {
    let isBroken = false;
    const error = new Error('broken');
    const state = (): State => {
      if (isBroken) throw error;
      return {} as State;
    };
    const { clock, live, watch, failures } = setUp({ state });
    const channel = watch();
    isBroken = true;
    clock.advance(5000);
    expect([failures, channel.kills, live.viewers]).toEqual([[error], 1, 0]);
  });
});

describe('the state', () => {
  it('is answered as JSON that nobody keeps', () => {
    const { ask } = setUp();
    expect(ask('/api/state').answer).toEqual({
      status: 200,
      headers: {
        'content-type': 'application/json',
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
      },
      body: '{"atMs":1}',
    });
  });
});
