import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Config, loadConfig } from '../../src/config/index.ts';
import { formatPosition } from '../../src/dataset/index.ts';
import { FakeClock } from '../../src/kernel/index.ts';
import { openLog } from '../../src/observability/index.ts';
import { delivered } from '../../src/protocols/launchdarkly/index.ts';
import { Relay } from '../../src/relay.ts';
import { writeArchive } from '../support/archive.ts';
import { turns, until } from '../support/conditions.ts';
import { type Connection, connect, type Reply } from '../support/connections.ts';
import {
  type Flags,
  type FlagsOptions,
  flag,
  flagsOf,
  gone,
  infoOf,
  put,
  segment,
  STALLING_BYTES,
  startFlags,
} from '../support/flags.ts';
import { contentsOf, Fdv1Client, Fdv2Client } from '../support/flags-model.ts';
import { SseReader } from '../support/sse-reader.ts';

/*
 * The rules of the whole, seen from a client of the front: what it is sent, when it is refused, and what it never sees.
 */

vi.setConfig({ testTimeout: 60_000 });

const NODE = { 'user-agent': 'NodeJSClient/9.13.7' };

let flags: Flags;

afterEach(async () => {
  await flags.stop();
});

async function start(options: FlagsOptions = {}): Promise<FakeClock> {
  const clock = new FakeClock();
  flags = await startFlags({ clock, ...options });
  return clock;
}

interface Reader {
  readonly connection: Connection;
  readonly reply: Reply;
}

function stall(path: string, bytes = 1, headers: Record<string, string> = {}): Reader {
  const connection = flags.connect();
  return { connection, reply: flags.ask(path, { bytesMax: bytes, headers }, connection) };
}

/** Waits until stalled readers' kernels take no more. */
async function stuck(): Promise<void> {
  let bytes = -1;
  for (let still = 0; still < 20; still++) {
    await turns(5);
    const now = flags.deliveries.stats().bytes;
    if (now !== bytes) still = 0;
    bytes = now;
  }
}

function basis(view = 'all'): string {
  const { digest, clock } = flags.environment().data.snapshot();
  return formatPosition({ digest, clock, view });
}

/** A model of an SDK on a stream, for as long as it lasts. */
function model(
  path: string,
  reply: Reply,
): { reader: SseReader; client: Fdv1Client | Fdv2Client; same: () => Promise<void> } {
  const client = path === '/sdk/stream' ? new Fdv2Client() : new Fdv1Client();
  const reader = new SseReader(reply);
  let taken = 0;
  const take = (): void => {
    for (; taken < reader.events.length; taken++) client.take(reader.events[taken]!);
  };
  reader.onChange(take);
  take();
  const same = async (): Promise<void> => {
    // the position of the last event is where the client is
    await reader.until('what is held', () => reader.lastEventId === basis());
    expect(client.contents).toEqual(contentsOf(flags.environment().data.snapshot()));
    expect(client.violations).toEqual([]);
  };
  return { reader, client, same };
}

async function nobody(): Promise<void> {
  await until('nobody', () => flags.limiter.held + flags.limiter.waiting + flags.deliveries.active === 0);
}

describe('from the full copy to live changes', () => {
  // fails when #follow joins at the offset of now instead of that of the pinned snapshot
  it.each(['/all', '/sdk/stream'])(
    'nothing is lost and nothing comes twice that changed meanwhile: %s',
    async (path) => {
      await start();
      await flags.load([...flagsOf(STALLING_BYTES), flag('k', 1), flag('d', 1), segment('s', 1)]);
      const { connection, reply } = stall(path);
      await stuck();
      for (let version = 2; version <= 5; version++) await flags.apply([put(flag('k', version))]);
      await flags.apply([gone('flags', 'd', 2), put(segment('s', 3))]);
      connection.resume(reply);
      const { reader, client, same } = model(path, reply);
      await same();
      expect(client.fulls).toBe(1);
      const perChange = reader.names.slice(
        reader.names.findIndex((name) => name === 'put' || name === 'payload-transferred'),
      );
      expect(perChange.filter((name) => name === 'patch' || name === 'put-object')).toHaveLength(5);
    },
  );

  // fails when #follow joins where the log no longer reaches: the group closes the stream as lost
  it.each(['/all', '/sdk/stream'])(
    'a delivery that outlasts the log gets the difference, once each key: %s',
    async (path) => {
      await start({ front: { logBatchesMax: 2 } });
      await flags.load([...flagsOf(STALLING_BYTES), flag('k', 1), flag('d', 1), segment('s', 1)]);
      const { connection, reply } = stall(path);
      await stuck();
      await flags.apply([gone('flags', 'd', 2), put(flag('new', 1))]);
      for (let version = 2; version <= 9; version++)
        await flags.apply([put(flag('k', version)), put(segment('s', version))]);
      connection.resume(reply);
      const { reader, client, same } = model(path, reply);
      await same();
      expect(client.fulls).toBe(1);
      const basisAt = reader.names.findIndex((name) => name === 'put' || name === 'payload-transferred');
      const differences = reader.names.slice(basisAt + 1).filter((name) => name !== 'payload-transferred');
      expect(differences).toHaveLength(4);
      await flags.apply([put(flag('k', 10))]);
      await same();
      expect(flags.environment().streams).toBe(1);
      await nobody();
      expect(flags.environment().data.pinnedBytes).toBe(0);
    },
  );

  it('a stream that falls off the log while it is idle is closed, and comes back for what it missed', async () => {
    await start({ front: { logBatchesMax: 2 } });
    await flags.load([flag('k', 1), flag('large', 1, 1024)]);
    const { connection, reply } = stall('/all', Number.POSITIVE_INFINITY, NODE);
    const { reader } = model('/all', reply);
    await reader.event(1);
    await flags.following(1);
    connection.pause(reply);
    // what its socket takes in the meantime is not what it has read
    for (let version = 2; flags.environment().streams === 1 && version < 500; version++) {
      await flags.apply([put(flag('large', version, 128 * 1024))]);
      await turns(5);
    }
    expect(flags.environment().streams).toBe(0);
    connection.resume(reply);
    expect((await reply.ended()).over).toBe('cut');
    const back = model(
      '/all',
      await flags.ask('/all', { headers: { ...NODE, 'last-event-id': reader.lastEventId ?? '' } }).begun(),
    );
    await back.same();
  });
});

describe('a compressed stream', () => {
  const GO = { 'user-agent': 'GoClient/7.14.6', 'accept-encoding': 'gzip' };

  // fails when the trailer leaves out what was sent live, and when heartbeats of the plain streams are sent
  it.each(['/all', '/sdk/stream'])('is read event by event, and is whole when it ends: %s', async (path) => {
    const clock = await start();
    await flags.load([...flagsOf(300 * 1024), flag('k', 1), segment('s', 1)]);
    const plainBytes: (number | undefined)[] = [];
    const stop = delivered.listen((fact) => plainBytes.push(fact.plainBytes));
    const reply = await flags.ask(path, { headers: GO }).begun();
    expect(reply.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'Accept-Encoding' });
    const { reader, same } = model(path, reply);
    await same();
    await until('the end of the copy', () => plainBytes.length === 1);
    stop();
    // what compression spared can be told
    expect(plainBytes).toEqual([reader.bytes]);
    await flags.following(1);
    await flags.apply([put(flag('k', 2)), gone('segments', 's', 2)]);
    await same();
    clock.advance(180_000);
    await reader.until('a heartbeat', () => reader.comments === 1);
    // as large as a copy: it takes another way
    await flags.apply(flagsOf(300 * 1024, 2).map(put));
    await same();
    await flags.following(1);
    await flags.apply([put(flag('k', 3))]);
    await same();
    flags.front.remove('test');
    expect((await reply.ended()).over).toBe('whole');
    // throws when length or checksum are not those of what came before
    const text = gunzipSync(reply.buffer).toString();
    const events = text.match(/^event: /gm) ?? [];
    await reader.until('every event', () => reader.events.length === events.length);
    expect(text.includes('goodbye')).toBe(path === '/sdk/stream');
  });

  it('is for SDKs that were seen to read one, and accept it', async () => {
    await start();
    await flags.load([flag('k', 1)]);
    for (const headers of [{ 'user-agent': 'GoClient/7.14.6' }, { ...GO, 'user-agent': 'PythonClient/9.20.0' }]) {
      expect((await flags.stream('/all', headers)).reply.headers).not.toHaveProperty('content-encoding');
    }
  });
});

describe('a break in the log', () => {
  // fails when Environment.#restart leaves the streams in their groups
  it('gives every open stream a full copy, through the budget, with heartbeats meanwhile, and refuses none', async () => {
    const clock = await start({ limits: { maxConcurrent: 1, maxQueued: 0 } });
    await flags.load([flag('k', 5), flag('other', 1), segment('s', 1)]);
    const paths = ['/all', '/sdk/stream', '/all', '/sdk/stream'];
    const streams: ReturnType<typeof model>[] = [];
    for (const path of paths) {
      streams.push(model(path, await flags.ask(path).begun()));
      await flags.following(streams.length);
      await nobody();
    }
    const { admitted } = flags.limiter.stats();
    const held = flags.limiter.tryAcquire();
    await flags.apply([put(flag('k', 4))]);
    await until('all of them in the queue', () => flags.limiter.stats().waitingOpen === paths.length);
    const eventsBefore = streams.map(({ reader }) => reader.events.length);
    // a break counts against nobody's wait, and a change meanwhile reaches nobody who has no basis for it
    await flags.apply([put(flag('k', 6))]);
    clock.advance(180_000);
    for (const { reader } of streams) await reader.until('a heartbeat', () => reader.comments > 0);
    expect(streams.map(({ reader }) => reader.events.length)).toEqual(eventsBefore);
    expect(flags.limiter.stats().refused).toEqual({ full: 0, timeout: 0, aborted: 0, closed: 0 });
    if (held.admitted) held.slot.release();
    for (const { same } of streams) await same();
    expect(streams.map(({ client }) => client.fulls)).toEqual([2, 2, 2, 2]);
    expect(flags.limiter.stats().admitted).toBe(admitted + 1 + paths.length);
    await nobody();
    expect(flags.environment().streams).toBe(paths.length);
  });

  // fails when unbrokenSince() is always true, and DataSet.difference() does not look whether every version rises
  it('in the middle of a delivery is followed by another full copy', async () => {
    await start({ limits: { maxConcurrent: 1 } });
    await flags.load([...flagsOf(STALLING_BYTES), flag('k', 5)]);
    for (const path of ['/all', '/sdk/stream']) {
      const { connection, reply } = stall(path);
      await stuck();
      const { version } = flags.environment().data.snapshot().get('flags', 'k') ?? { version: 0 };
      await flags.apply([put(flag('k', version - 1))]);
      connection.resume(reply);
      const { client, same } = model(path, reply);
      await same();
      expect(client.fulls).toBe(2);
      connection.leave();
      await nobody();
    }
  });
});

describe('a stream that waits for its first data', () => {
  it('is open, gets heartbeats, then its copy through the budget, and is refused by nothing', async () => {
    const clock = await start({ limits: { maxConcurrent: 1, maxQueued: 0 } });
    flags.front.upsert(infoOf('test'));
    const held = flags.limiter.tryAcquire();
    const streams = await Promise.all(['/all', '/flags', '/sdk/stream'].map((path) => flags.stream(path)));
    expect(flags.environment().waiting.size).toBe(3);
    clock.advance(180_000);
    for (const stream of streams) await stream.until('a heartbeat', () => stream.comments === 1);
    expect((await flags.get('/sdk/poll')).status).toBe(503);
    await flags.load([flag('k', 1)]);
    await until('their places in the queue', () => flags.limiter.stats().waitingOpen === 3);
    expect(streams.map(({ events }) => events.length)).toEqual([0, 0, 0]);
    if (held.admitted) held.slot.release();
    const firsts = await Promise.all(streams.map((stream) => stream.event(1)));
    expect(firsts.map(({ event }) => event)).toEqual(['put', 'put', 'server-intent']);
    await flags.following(3);
    await flags.apply([put(flag('k', 2))]);
    expect((await streams[0]!.event(2)).json).toMatchObject({ data: { version: 2 } });
  });

  it('leaves nothing behind when it goes before there are data', async () => {
    await start({ limits: { maxConcurrent: 1, maxQueued: 0 } });
    flags.front.upsert(infoOf('test'));
    const connection = flags.connect();
    await flags.ask('/all', {}, connection).begun();
    await flags.following(1);
    connection.leave();
    await flags.following(0);
    await flags.load([flag('k', 1)]);
    expect(flags.limiter.stats()).toMatchObject({ held: 0, admitted: 0 });
  });
});

describe('while every slot is taken and nobody may wait', () => {
  // fails when Streams.open asks for a slot whatever a client needs
  it('who is up to date, or nearly, is served; so are items, changes and heartbeats', async () => {
    const clock = await start({ limits: { maxConcurrent: 1, maxQueued: 0 } });
    await flags.load([flag('k', 1), segment('s', 1)]);
    const old = { all: basis(), flags: basis('flags') };
    const tag = (await flags.get('/sdk/flags')).headers['etag'] ?? '';
    const live = await flags.stream('/all');
    await flags.following(1);
    await nobody();
    const held = flags.limiter.tryAcquire();
    const { admitted } = flags.limiter.stats();
    for (const path of ['/sdk/poll', '/sdk/latest-all', '/sdk/flags', '/all', '/flags', '/sdk/stream']) {
      expect((await flags.get(path)).status).toBe(503);
    }
    expect((await flags.get('/sdk/flags', { 'if-none-match': tag })).status).toBe(304);
    await flags.apply([put(flag('k', 2))]);
    expect((await live.event(2)).event).toBe('patch');
    for (const position of [old.all, basis()]) {
      expect((await flags.get(`/sdk/poll?basis=${position}`)).status).toBe(200);
      const stream = await flags.stream(`/sdk/stream?basis=${position}`);
      expect((await stream.event(1)).event).toBe('server-intent');
    }
    for (const [path, position] of Object.entries({ '/all': old.all, '/flags': old.flags })) {
      const stream = await flags.stream(path, { ...NODE, 'last-event-id': position });
      expect((await stream.event(1)).event).toBe('patch');
    }
    expect((await flags.get('/sdk/flags/k')).status).toBe(200);
    expect((await flags.get('/sdk/segments/s')).status).toBe(200);
    await flags.following(5);
    clock.advance(180_000);
    await live.until('a heartbeat', () => live.comments === 1);
    expect(flags.limiter.stats()).toMatchObject({ admitted, held: 1 });
    if (held.admitted) held.slot.release();
  });

  it('a catch-up of 256 KiB is refused like a full copy, and one byte less is not', async () => {
    await start({ limits: { maxConcurrent: 1, maxQueued: 0 } });
    await flags.load([flag('k', 1)]);
    const held = flags.limiter.tryAcquire();
    const overhead = flag('k', 2, 0).text.length + 1;
    const old = basis();
    await flags.apply([put(flag('k', 2, 256 * 1024 - overhead - 1))]);
    const below = basis();
    expect((await flags.get(`/sdk/poll?basis=${old}`)).status).toBe(200);
    await flags.apply([put(flag('k', 4, 256 * 1024 - overhead))]);
    expect((await flags.get(`/sdk/poll?basis=${below}`)).status).toBe(503);
    expect((await flags.get(`/sdk/stream?basis=${below}`)).status).toBe(503);
    if (held.admitted) held.slot.release();
  });
});

describe('a connection with many streams', () => {
  // fails when Http2Channel.kill() resets the whole connection at once
  it.each(['h2c', 'h2'] as const)('outlives the one that is cut: over %s', async (transport) => {
    await start({ transport, limits: { maxConcurrent: 4 } });
    await flags.load([flag('k', 1)], 'small');
    await flags.load(flagsOf(STALLING_BYTES));
    const connection = flags.connect();
    const live = new SseReader(
      await flags.ask('/all', { headers: { authorization: 'sdk-small' } }, connection).begun(),
    );
    await live.event(1);
    const stalled = flags.ask('/all', { bytesMax: 0 }, connection);
    await until('its slot', () => flags.limiter.held === 1);
    await flags.pass(60_000);
    expect((await stalled.ended()).over).toBe('cut');
    expect(flags.deliveries.stats().ended.stalled).toBe(1);
    await flags.apply([put(flag('k', 2))], 'small');
    expect((await live.event(2)).event).toBe('patch');
    const again = flags.ask('/sdk/latest-all', { headers: { authorization: 'sdk-small' } }, connection);
    expect((await again.whole()).status).toBe(200);
    expect(connection.closed).toBe(false);
  });

  // fails when createRoutes answers without waiting for onTurn
  it('a pipelined request takes no slot before its turn', async () => {
    await start({ limits: { maxConcurrent: 1, maxQueued: 0 } });
    await flags.load([flag('k', 1), ...flagsOf(STALLING_BYTES)]);
    const connection = flags.connect();
    const first = flags.ask('/sdk/latest-all', { bytesMax: 1 }, connection);
    const second = flags.ask('/sdk/latest-all', {}, connection);
    await stuck();
    expect(flags.limiter.stats()).toMatchObject({ held: 1, admitted: 1 });
    connection.resume(first);
    expect((await first.whole()).status).toBe(200);
    expect((await second.whole()).status).toBe(200);
  });
});

describe('an environment that is removed', () => {
  it('ends its streams, and its key is refused', async () => {
    await start();
    await flags.load([flag('k', 1)]);
    const streams = await Promise.all([flags.stream('/all'), flags.stream('/sdk/stream')]);
    await flags.following(2);
    flags.front.remove('test');
    for (const { reply } of streams) expect((await reply.ended()).over).toBe('whole');
    expect(streams[0]!.names).toEqual(['put']);
    // its key may come back with another environment that the source has not told yet
    expect((await flags.get('/all')).status).toBe(503);
    flags.front.environmentsKnown();
    expect((await flags.get('/all')).status).toBe(401);
  });

  it('keeps what belongs to others', async () => {
    await start();
    await flags.load([flag('k', 1)]);
    await flags.load([flag('k', 7)], 'other');
    const stream = await flags.stream('/all');
    await flags.following(1);
    flags.front.remove('other');
    flags.front.environmentsKnown();
    expect((await flags.get('/sdk/latest-all', { authorization: 'sdk-other' })).status).toBe(401);
    await flags.apply([put(flag('k', 2))]);
    expect((await stream.event(2)).json).toMatchObject({ data: { version: 2 } });
  });
});

describe("the vendor's names for limits", () => {
  let folder = '';
  let relay: Relay | undefined;
  let clock: FakeClock;
  const connections: Connection[] = [];

  afterEach(async () => {
    for (const connection of connections.splice(0)) connection.leave();
    const stopped = relay?.stop();
    // its times are those of a clock that stands still, but for the waits of the drain
    await stopped;
    await rm(folder, { recursive: true });
  });

  async function startVendor(env: Record<string, string>): Promise<void> {
    flags = await startFlags();
    folder = await mkdtemp(join(tmpdir(), 'headgate-vendor-'));
    const path = join(folder, 'archive.tar.gz');
    const items = Object.fromEntries(
      flagsOf(STALLING_BYTES).map(({ key, text }) => [key, JSON.parse(text) as unknown]),
    );
    await writeArchive(path, [{ envId: 'e', sdkKey: 'sdk-test', dataId: '1', flags: items }]);
    const machine = { memoryLimitBytes: 512 * 2 ** 20, lowWater: true };
    const loaded = await loadConfig({ fromEnv: true, env: { FILE_DATA_SOURCE: path, ...env }, machine });
    expect(loaded.problems.filter(({ severity }) => severity === 'error')).toEqual([]);
    const { server, ...config } = loaded.config as Config;
    clock = new FakeClock();
    relay = await Relay.start({
      config: { ...config, server: { ...server, host: '127.0.0.1', port: 0, drainDelayMs: 0, graceMs: 0 } },
      clock,
      log: openLog({ level: 'none', clock }),
    });
    const running = relay;
    await until('data', () => running.ready);
  }

  function ask(bytesMax?: number, path = '/all'): Reader {
    const connection = connect('http1', relay?.port ?? 0);
    connections.push(connection);
    const more = bytesMax === undefined ? {} : { bytesMax };
    return { connection, reply: connection.ask({ path, headers: { authorization: 'sdk-test' }, ...more }) };
  }

  async function pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 250) {
      clock.advance(250);
      await turns(4);
    }
  }

  // fails when parking is switched on for the vendor's names, and when its queue is not 0
  it('INIT_MAX_CONCURRENT=1: the next copy is refused until the one that stalls is cut, and never parked', async () => {
    await startVendor({ INIT_MAX_CONCURRENT: '1', INIT_MAX_QUEUED: '0' });
    const stalled = ask(1);
    await stalled.reply.until('a first byte', () => stalled.reply.bytes > 0);
    for (const path of ['/all', '/sdk/latest-all', '/sdk/flags', '/sdk/stream', '/flags']) {
      expect((await ask(undefined, path).reply.whole()).status).toBe(503);
    }
    await pass(2000);
    expect((await ask().reply.whole()).status).toBe(503);
    await pass(20_000);
    stalled.connection.resume(stalled.reply);
    expect((await stalled.reply.ended()).over).toBe('cut');
    const served = new SseReader(await ask().reply.begun());
    expect((await served.event(1)).event).toBe('put');
  });

  it('INIT_SEND_TIMEOUT: whoever is not done by then is cut, though it reads', async () => {
    await startVendor({ INIT_MAX_CONCURRENT: '1', INIT_SEND_TIMEOUT: '30s' });
    const slow = ask(1, '/sdk/latest-all');
    await slow.reply.until('a first byte', () => slow.reply.bytes > 0);
    let seconds = 0;
    for (; (await ask(1, '/flags').reply.begun()).status === 503 && seconds < 60; seconds++) {
      // twice the floor rate: not too slow, and not done in half a minute
      const target = slow.reply.bytes + 2 * 65_536;
      slow.connection.resume(slow.reply, 2 * 65_536);
      await slow.reply.until('what it reads', () => slow.reply.over !== undefined || slow.reply.bytes >= target);
      await pass(1000);
    }
    slow.connection.resume(slow.reply);
    expect((await slow.reply.ended()).over).toBe('cut');
    expect(seconds).toBeGreaterThanOrEqual(29);
    expect(seconds).toBeLessThan(36);
  });

  // fails when deliveries are guarded whatever the limits say
  it('unset: nobody is refused and nobody is cut', async () => {
    await startVendor({});
    const stalled = Array.from({ length: 40 }, () => ask(1));
    for (const { reply } of stalled) await reply.until('a first byte', () => reply.bytes > 0);
    const served = await Promise.all([
      ask(undefined, '/sdk/latest-all').reply.whole(),
      ask(undefined, '/sdk/poll').reply.whole(),
    ]);
    expect(served.map(({ status }) => status)).toEqual([200, 200]);
    for (let minute = 0; minute < 60; minute++) {
      clock.advance(60_000);
      await turns(2);
    }
    const [one] = stalled;
    one?.connection.resume(one.reply);
    const reader = new SseReader(one!.reply);
    expect((await reader.event(1)).event).toBe('put');
    expect(stalled.filter(({ reply }) => reply.over !== undefined)).toEqual([]);
  });
});
