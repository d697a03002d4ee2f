import { afterEach, describe, expect, it } from 'vitest';
import {
  CLIENT_INFO,
  type ClientSideRig,
  ENV_ID,
  encoded,
  MOBILE_KEY,
  type RigOptions,
  startClientSide,
  valued,
} from '../../../../test/support/clientside-rig.ts';
import { turns, until } from '../../../../test/support/conditions.ts';
import type { Reply } from '../../../../test/support/connections.ts';
import { fakeFront, KeptChannel } from '../../../../test/support/flags-fakes.ts';
import { put } from '../../../../test/support/flags-items.ts';
import { FakeClock } from '../../../kernel/index.ts';
import { taken } from '../facts.ts';
import { quirksOf } from '../quirks.ts';
import { PingFeed } from './pings.ts';

const CONTEXT = { kind: 'user', key: 'me' };
const B64 = encoded(CONTEXT);
const PING = 'event: ping\ndata:  \n\n';
const MOBILE = { authorization: MOBILE_KEY };
const HEADERS = {
  'access-control-allow-origin': '*',
  'cache-control': 'no-cache, no-store, must-revalidate',
  'content-type': 'text/event-stream; charset=utf-8',
  'x-accel-buffering': 'no',
};

const STREAM = {
  audience: 'client',
  credential: ENV_ID,
  route: '/ping/:envId',
  info: { remoteAddress: '', quirks: quirksOf(undefined) },
  openedMs: 0,
} as const;

let rig: ClientSideRig | undefined;
afterEach(async () => {
  await rig?.stop();
  rig = undefined;
});

async function start(options: RigOptions = {}): Promise<ClientSideRig> {
  rig = await startClientSide(options);
  await rig.load([valued('a', 1, { value: 'one' })]);
  return rig;
}

function flagsAt(version: number, count: number): ReturnType<typeof put>[] {
  return Array.from({ length: count }, (_, at) => put(valued(`flag-${at}`, version, { value: 'on' })));
}

async function text(reply: Reply, expected: string): Promise<void> {
  await reply.until(`${expected.length} bytes`, () => reply.bytes >= expected.length || reply.over !== undefined);
  expect(reply.body).toBe(expected);
}

describe('a ping stream', () => {
  it('begins with a ping on every route, and has one more for each change, however large', async () => {
    const one = await start();
    const body = { 'content-type': 'application/json', origin: 'https://app.example.com' };
    const replies = [
      one.ask(`/eval/${ENV_ID}/${B64}`, { headers: { origin: 'https://app.example.com' } }),
      one.ask(`/ping/${ENV_ID}`),
      one.report(`/eval/${ENV_ID}`, JSON.stringify(CONTEXT), body),
      one.ask(`/meval/${B64}`, { headers: MOBILE }),
      one.ask('/mping', { headers: MOBILE }),
      one.report('/meval', JSON.stringify(CONTEXT), MOBILE),
    ];
    for (const [at, reply] of replies.entries()) {
      await text(reply, PING);
      expect(reply.headers).toMatchObject(HEADERS);
      const methods = ['GET,OPTIONS', 'GET,OPTIONS', 'REPORT,OPTIONS', undefined, undefined, undefined][at];
      expect(reply.headers['access-control-allow-methods']).toBe(methods);
    }
    expect(one.side.streams).toBe(6);
    await one.apply(...flagsAt(1, 300));
    for (const reply of replies) await text(reply, PING.repeat(2));
    // a version that does not rise: everybody starts over, which is a change as well
    await one.apply(put(valued('a', 1, { value: 'two' })));
    for (const reply of replies) await text(reply, PING.repeat(3));
    expect(one.evaluator.asked).toEqual([]);
  });

  it('has no ping before there are data, but heartbeats', async () => {
    rig = await startClientSide({ clock: new FakeClock() });
    rig.front.upsert(CLIENT_INFO);
    const reply = await rig.ask(`/ping/${ENV_ID}`).begun();
    expect(reply.headers).toMatchObject(HEADERS);
    expect(reply.bytes).toBe(0);
    await rig.pass(180_000, 60_000);
    await text(reply, ':\n');
    await rig.load([valued('a', 1, { value: 'one' })]);
    await text(reply, `:\n${PING}`);
    await rig.pass(180_000, 60_000);
    await text(reply, `:\n${PING}:\n`);
  });

  it('is refused where its key or its context is wrong', async () => {
    const one = await start();
    expect(await one.get(`/ping/ffffffffffffffffffffffff`)).toMatchObject({
      status: 404,
      body: 'URL did not contain an environment ID',
    });
    expect((await one.get('/mping', { authorization: 'mob-else' })).status).toBe(401);
    expect((await one.get(`/eval/${ENV_ID}/bm90anNvbg`)).status).toBe(400);
    expect((await one.get('/meval/%25', MOBILE)).status).toBe(400);
    expect(one.side.streams).toBe(0);
  });

  it('spreads the pings of one change over the jitter, and tells what came meanwhile with them', async () => {
    const one = await start({ clock: new FakeClock(), side: { pingJitterMs: 3200 } });
    const replies = await Promise.all(Array.from({ length: 32 }, () => one.ask(`/ping/${ENV_ID}`).begun()));
    for (const reply of replies) await text(reply, PING);
    await one.apply(put(valued('a', 2, { value: 'two' })));
    const pinged = (): number => replies.filter(({ body }) => body.length > PING.length).length;
    await until('the first ping', () => pinged() === 1);
    await one.pass(1600, 100);
    await until('half of the pings', () => pinged() === 17);
    await one.apply(put(valued('a', 3, { value: 'three' })));
    await one.pass(3200, 100);
    for (const reply of replies) await reply.until('a ping', () => reply.bytes > PING.length);
    await turns(10);
    // the first half had its ping for the first change when the second came; the others were told of both at once
    const counts = replies.map(({ body }) => body.length / PING.length);
    expect(counts.filter((count) => count === 3)).toHaveLength(17);
    expect(counts.filter((count) => count === 2)).toHaveLength(15);
  });

  it('that missed several changes is told once', async () => {
    const one = await start();
    const stream = { ...STREAM, environment: one.environment, channel: new KeptChannel() };
    const feed = new PingFeed(fakeFront(), 0);
    feed.add(stream.channel, stream, true);
    for (let change = 0; change < 100; change++) feed.publish();
    await turns(5);
    expect(stream.channel.text).toBe(PING.repeat(2));
    await feed.close(0);
  });

  // Fails when tell() leaves it to publish() to say when the change was.
  it('that is told later than others counts from the change, and misses it until then', async () => {
    const clock = new FakeClock();
    const feed = new PingFeed({ ...fakeFront(), clock }, 3200);
    const told: [number, number][] = [];
    const stop = taken.listen(({ ms, clients }) => told.push([ms, clients]));
    for (let number = 0; number < 2; number++) {
      feed.add(new KeptChannel(), { ...STREAM, environment: {} as never, channel: new KeptChannel() }, true);
    }
    const missed = (): number[] => {
      const counts: number[] = [];
      feed.survey((_, count) => counts.push(count));
      return counts;
    };
    feed.publish();
    await turns(3);
    expect([told, missed()]).toEqual([[[0, 1]], [0, 1]]);
    clock.advance(100);
    await turns(3);
    stop();
    expect([told.at(-1), missed()]).toEqual([
      [100, 1],
      [0, 0],
    ]);
    await feed.close(0);
  });

  it('ends with its environment, with its key, and when the server goes', async () => {
    const one = await start();
    const phone = await one.ask('/mping', { headers: MOBILE }).begun();
    const page = await one.ask(`/ping/${ENV_ID}`).begun();
    one.front.upsert({ ...CLIENT_INFO, mobileKey: 'mob-new' });
    one.side.endRevoked();
    await phone.whole();
    expect(page.over).toBeUndefined();
    expect(one.side.streams).toBe(1);
    const again = await one.ask('/mping', { headers: { authorization: 'mob-new' } }).begun();
    await one.side.closeStreams(0);
    expect([(await page.whole()).over, (await again.whole()).over]).toEqual(['whole', 'whole']);
    await one.stop();
    rig = undefined;
    const other = await start();
    const last = await other.ask(`/ping/${ENV_ID}`).begun();
    const seen: unknown[] = [];
    other.environment.survey(({ audience, info }, missed) => seen.push([audience, info.quirks.sdk, missed]));
    expect(seen).toEqual([['client', 'unknown', 0]]);
    other.front.remove(ENV_ID);
    await last.whole();
    expect(other.side.streams).toBe(0);
  });

  it('ends when it is as old as streams may be', async () => {
    const one = await start({ clock: new FakeClock(), front: { connectionMsMax: 60_000 } });
    const reply = await one.ask(`/ping/${ENV_ID}`).begun();
    await one.pass(59_000, 1000);
    expect(reply.over).toBeUndefined();
    await one.pass(3000, 1000);
    expect((await reply.whole()).over).toBe('whole');
  });

  it('is opened and told of changes while no slot is free', async () => {
    const one = await start({ limits: { maxConcurrent: 1, maxQueued: 0 } });
    const held = one.limiter.tryAcquire();
    const reply = await one.ask(`/ping/${ENV_ID}`).begun();
    await one.apply(put(valued('a', 2, { value: 'two' })));
    await text(reply, PING.repeat(2));
    expect(one.limiter.stats()).toMatchObject({ held: 1, waiting: 0 });
    if (held.admitted) held.slot.release();
  });
});
