import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Config, defaultConfig } from '../../src/config/index.ts';
import type { Transport } from '../../src/delivery/index.ts';
import { FakeClock } from '../../src/kernel/index.ts';
import { openLog } from '../../src/observability/index.ts';
import { Relay } from '../../src/relay.ts';
import { turns, until } from '../support/conditions.ts';
import { type Ask, type Connection, connect, type Reply } from '../support/connections.ts';
import { flagsOf, STALLING_BYTES } from '../support/flags.ts';
import { type Headgate, startHeadgate } from '../support/headgate.ts';
import { SseReader } from '../support/sse-reader.ts';
import { selfSigned } from '../support/tls.ts';

/*
 * How a relay stops: in this process, on a clock of its own for the streams and the machine's for the waits of the drain;
 * and as a process of its own, by SIGTERM.
 */

vi.setConfig({ testTimeout: 60_000 });

let folder = '';
let relay: Relay | undefined;
let clock: FakeClock;
let connections: Connection[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'headgate-drain-'));
});

afterEach(async () => {
  for (const connection of connections.splice(0)) connection.leave();
  await relay?.stop();
  relay = undefined;
  await rm(folder, { recursive: true });
});

async function dataFile(bytes: number): Promise<string> {
  const path = join(folder, 'flags.json');
  const flags = Object.fromEntries(flagsOf(bytes).map(({ key, text }) => [key, JSON.parse(text) as unknown]));
  await writeFile(path, JSON.stringify({ flags, segments: {} }));
  return path;
}

interface Setting {
  readonly bytes?: number;
  readonly transport?: Transport;
  readonly drainDelayMs?: number;
  readonly graceMs: number;
  readonly limits?: Partial<Config['limits']>;
}

async function start({
  bytes = 1000,
  transport = 'http1',
  drainDelayMs = 0,
  graceMs,
  limits,
}: Setting): Promise<Relay> {
  const { server, flags, ...config } = defaultConfig();
  let tls: Config['server']['tls'];
  if (transport === 'https1' || transport === 'h2') {
    const { cert, key } = selfSigned();
    tls = { certPath: join(folder, 'cert.pem'), keyPath: join(folder, 'key.pem'), minVersion: '1.2' };
    await writeFile(tls.certPath, cert);
    await writeFile(tls.keyPath, key);
  }
  const file = {
    type: 'file',
    name: 'test',
    paths: [await dataFile(bytes)],
    intervalMs: 1000,
    sdkKey: 'sdk-test',
  } as const;
  const more = { mobileKey: undefined, envId: undefined, projectKey: undefined, ttlMs: 0, secureMode: false };
  clock = new FakeClock();
  relay = await Relay.start({
    config: {
      ...config,
      limits: { ...config.limits, ...limits },
      server: { ...server, host: '127.0.0.1', port: 0, tls, drainDelayMs, graceMs },
      flags: { ...flags, sources: [{ ...file, ...more, allowedOrigins: [], allowedHeaders: [] }] },
    },
    clock,
    log: openLog({ level: 'none', clock }),
  });
  const running = relay;
  await until('data', () => running.ready);
  return running;
}

function open(transport: Transport = 'http1'): Connection {
  const connection = connect(transport, relay?.port ?? 0);
  connections.push(connection);
  return connection;
}

function ask(path: string, connection: Connection = open(), more: Partial<Ask> = {}): Reply {
  return connection.ask({ path, headers: { authorization: 'sdk-test' }, ...more });
}

async function streams(paths: readonly string[], transport: Transport = 'http1'): Promise<SseReader[]> {
  const opened = await Promise.all(paths.map((path) => ask(path, open(transport)).begun()));
  const readers = opened.map((reply) => new SseReader(reply));
  await Promise.all(readers.map((reader) => reader.until('a full copy', () => reader.lastEventId !== undefined)));
  await turns(20);
  return readers;
}

/** Waits until the listener is closed: from then on the drain is under way. */
async function draining(transport: Transport = 'http1'): Promise<void> {
  for (let isOpen = true; isOpen; ) {
    const connection = open(transport);
    const reply = ask('/status', connection);
    await reply.ended();
    isOpen = reply.status !== 0;
    connection.leave();
  }
  await turns(50);
}

/** Lets time pass until `holds`; the clock of the streams stands still otherwise. */
async function passUntil(what: string, holds: () => boolean): Promise<void> {
  await until(what, () => {
    clock.advance(10);
    return holds();
  });
}

describe('before the listener is closed', () => {
  // fails when FlagsFront.ready does not know of leave()
  it('the relay is not ready, and serves everybody who still comes', async () => {
    const running = await start({ drainDelayMs: 300, graceMs: 0 });
    expect((await ask('/health/ready').whole()).status).toBe(200);
    const stopped = running.stop();
    expect(running.ready).toBe(false);
    expect((await ask('/health/ready').whole()).status).toBe(503);
    expect((await ask('/health/live').whole()).status).toBe(200);
    expect((await ask('/sdk/latest-all').whole()).status).toBe(200);
    const [stream] = await streams(['/all']);
    let over = false;
    void stopped.then(() => {
      over = true;
    });
    await passUntil('the end', () => over);
    expect((await stream?.reply.ended())?.over).toBe('whole');
  });

  it('stopping twice is stopping once', async () => {
    const running = await start({ graceMs: 0 });
    expect(running.stop()).toBe(running.stop());
    await running.stop();
  });
});

describe.each(['http1', 'https1', 'h2c', 'h2'] as const)('a drain over %s', (transport) => {
  it('takes no new connection, starts no full copy, and finishes those that are under way', async () => {
    const running = await start({ bytes: STALLING_BYTES, transport, graceMs: 20_000 });
    const connection = open(transport);
    const slow = ask('/sdk/latest-all', connection, { bytesMax: 1 });
    await slow.until('a first byte', () => slow.bytes > 0);
    const kept = open(transport);
    expect((await ask('/sdk/flags/flag-0', kept).whole()).status).toBe(200);
    const stopped = running.stop();
    await draining(transport);
    const refused = ask('/sdk/latest-all', open(transport));
    expect((await refused.ended()).status).toBe(0);
    connection.resume(slow);
    expect((await slow.ended()).over).toBe('whole');
    expect(Object.keys(slow.json() as object)).toEqual(['flags', 'segments']);
    await stopped;
  });
});

describe('full copies on connections that are kept', () => {
  // fails when the limiter is not closed
  it('are refused with 503 and Retry-After while the drain lasts, and the connection is to be closed', async () => {
    const running = await start({ bytes: STALLING_BYTES, graceMs: 20_000 });
    const connection = open();
    const first = ask('/sdk/latest-all', connection, { bytesMax: 1 });
    await first.until('a first byte', () => first.bytes > 0);
    // the drain lasts for as long as this one takes
    const slowest = { connection: open() };
    const last = ask('/sdk/latest-all', slowest.connection, { bytesMax: 1 });
    await last.until('a first byte', () => last.bytes > 0);
    const stopped = running.stop();
    await draining();
    const second = ask('/sdk/latest-all', connection);
    connection.resume(first);
    expect((await first.ended()).over).toBe('whole');
    await second.ended();
    expect(second.status).toBe(503);
    expect(second.json()).toEqual({ message: 'Headgate is shutting down; retry shortly' });
    expect(Number(second.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    expect(second.headers['connection']).toBe('close');
    slowest.connection.resume(last);
    expect((await last.ended()).over).toBe('whole');
    await stopped;
  });
});

describe('open streams', () => {
  // fails when closeStreams() is called with 0 instead of the grace period
  it('are closed one after another over the grace period', async () => {
    const running = await start({ graceMs: 60_000 });
    const readers = await streams(Array.from({ length: 20 }, (_, at) => (at % 2 === 0 ? '/all' : '/sdk/stream')));
    const openNow = (): number => readers.filter(({ reply }) => reply.over === undefined).length;
    const stopped = running.stop();
    await draining();
    for (let share = 4; share >= 1; share--) {
      await turns(20);
      const left = openNow();
      expect(left).toBeGreaterThan((20 * (share - 1)) / 4 - 3);
      expect(left).toBeLessThan((20 * share) / 4 + 3);
      for (let step = 0; step < 300; step++) clock.advance(50);
    }
    for (const { reply } of readers) expect((await reply.ended()).over).toBe('whole');
    await stopped;
  });

  // fails when the last block is left out, and when it is sent to streams of the first protocol
  it('of the second protocol are told goodbye, immediately before their clean end, and nobody else is', async () => {
    const running = await start({ graceMs: 0 });
    const readers = await streams(['/all', '/flags', '/sdk/stream']);
    const before = readers.map(({ events }) => events.length);
    const stopped = running.stop();
    for (const { reply } of readers) expect((await reply.ended()).over).toBe('whole');
    expect(readers.map(({ events }, at) => events.length - (before[at] ?? 0))).toEqual([0, 0, 1]);
    const last = readers[2]?.events.at(-1);
    expect(last?.event).toBe('goodbye');
    expect(JSON.parse(last?.data ?? '')).toMatchObject({ silent: true });
    // a goodbye is no position
    expect(last?.id).toBeUndefined();
    await stopped;
  });

  it('that get their full copy while the drain lasts get all of it, and a clean end', async () => {
    const running = await start({ bytes: STALLING_BYTES, graceMs: 20_000 });
    const connection = open();
    const reply = ask('/sdk/stream', connection, { bytesMax: 1 });
    await reply.until('a first byte', () => reply.bytes > 0);
    const reader = new SseReader(reply);
    const stopped = running.stop();
    await draining();
    connection.resume(reply);
    expect((await reply.ended()).over).toBe('whole');
    expect(reader.names.slice(-2)).toEqual(['payload-transferred', 'goodbye']);
    await stopped;
  });
});

describe('without limits', () => {
  // fails when #idle waits for the limiter alone: one that is off counts nothing
  it('a full copy that is under way is finished all the same', async () => {
    const running = await start({ bytes: STALLING_BYTES, graceMs: 20_000, limits: { enabled: false, parking: false } });
    const connection = open();
    const reply = ask('/sdk/latest-all', connection, { bytesMax: 1 });
    await reply.until('a first byte', () => reply.bytes > 0);
    const stopped = running.stop();
    await draining();
    connection.resume(reply);
    expect((await reply.ended()).over).toBe('whole');
    await stopped;
  });
});

describe('whoever does not finish', () => {
  it('is reset when the grace period is over, and the relay has stopped', async () => {
    const running = await start({ bytes: STALLING_BYTES, graceMs: 100 });
    const connection = open();
    const reply = ask('/all', connection, { bytesMax: 1 });
    await reply.until('a first byte', () => reply.bytes > 0);
    await running.stop();
    connection.resume(reply);
    expect((await reply.ended()).over).toBe('cut');
  });
});

describe('the process', () => {
  let headgate: Headgate | undefined;

  it('ends with 0 at SIGTERM, once its streams have had their goodbye and a slow copy its last byte', async () => {
    const sources = [{ type: 'file', name: 'test', paths: [await dataFile(STALLING_BYTES)], sdkKey: 'sdk-test' }];
    headgate = await startHeadgate({
      config: { server: { drainDelay: '200ms', grace: '10s' }, flags: { sources } },
    });
    const started = headgate;
    await headgate.waitForLog('environment loaded');
    const to = (path: string, bytesMax?: number): { connection: Connection; reply: Reply } => {
      const connection = connect('http1', started.port);
      connections.push(connection);
      const asked = { path, headers: { authorization: 'sdk-test' }, ...(bytesMax === undefined ? {} : { bytesMax }) };
      return { connection, reply: connection.ask(asked) };
    };
    const stream = new SseReader(await to('/sdk/stream').reply.begun());
    await stream.until('a full copy', () => stream.names.includes('payload-transferred'));
    const slow = to('/sdk/latest-all', 1);
    await slow.reply.until('a first byte', () => slow.reply.bytes > 0);
    const idle = to('/sdk/flags/flag-0');
    expect((await idle.reply.whole()).status).toBe(200);
    const code = headgate.stop();
    await stream.reply.ended();
    expect(stream.names.at(-1)).toBe('goodbye');
    slow.connection.resume(slow.reply);
    expect((await slow.reply.ended()).over).toBe('whole');
    expect(await code).toBe(0);
    expect(headgate.logs.map((line) => line['msg'])).toContain('stopped');
  });
});
