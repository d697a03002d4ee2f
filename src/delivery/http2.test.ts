import type http2 from 'node:http2';
import net from 'node:net';
import tls from 'node:tls';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { pages } from '../../test/support/delivery-fakes.ts';
import {
  ask,
  connect,
  type Connection,
  disconnect,
  kernelConnections,
  openRig,
  type Rig,
} from '../../test/support/transports.ts';
import { FakeClock } from '../kernel/index.ts';
import type { Channel } from './channel.ts';
import { Deliveries, type Report } from './deliveries.ts';
import { eventBlock } from './sse.ts';

// real sockets on a machine that may be busy; every wait inside has a bound of its own
vi.setConfig({ testTimeout: 20_000 });

const SSE = { 'content-type': 'text/event-stream' };
const rigs: Rig[] = [];
const connections: Connection[] = [];
const sockets: net.Socket[] = [];

afterEach(async () => {
  for (const connection of connections.splice(0)) disconnect(connection);
  for (const socket of sockets.splice(0)) socket.destroy();
  await Promise.all(rigs.splice(0).map((rig) => rig.close()));
});

const until = (condition: () => unknown): Promise<unknown> => vi.waitUntil(condition, { interval: 2, timeout: 8000 });

async function quiet(measure: () => number): Promise<void> {
  let last = -1;
  let still = 0;
  await until(() => {
    const now = measure();
    still = now === last ? still + 1 : 0;
    last = now;
    return still > 30;
  });
}

async function setUp(transport: 'h2c' | 'h2') {
  const clock = new FakeClock();
  const engine = new Deliveries({ clock, slackMs: 1000, creditMs: 500 });
  const reports = new Map<string, Report>();
  const channels = new Map<string, Channel>();
  const rig = await openRig(
    transport,
    (exchange) => {
      const channel = exchange.open(200, { ...SSE, connection: 'keep-alive', 'transfer-encoding': 'chunked' });
      channels.set(exchange.path, channel);
      const source = pages(exchange.path === '/flood' ? 2000 : 4);
      void engine.deliver({ channel, source }).then((report) => void reports.set(exchange.path, report));
    },
    { clock },
  );
  rigs.push(rig);
  return { clock, engine, reports, channels, rig };
}

/** A client with windows without end that reads nothing: its connection stalls, and it answers no PING. */
async function openStalled(rig: Rig): Promise<net.Socket> {
  const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  const INITIAL_WINDOW = [0, 4, 0x7f, 0xff, 0xff, 0xff];
  const GET_HTTP = [0x82, 0x86];
  const PATH_FLOOD = [0x04, 6, ...Buffer.from('/flood')];
  const AUTHORITY = [0x01, 1, ...Buffer.from('a')];
  const END_STREAM_AND_HEADERS = 0x05;
  const frame = (type: number, flags: number, stream: number, payload: readonly number[]): Buffer =>
    Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, stream, ...payload]);
  const options = { port: rig.port, host: '127.0.0.1' };
  const socket =
    rig.transport === 'h2'
      ? tls.connect({ ...options, ALPNProtocols: ['h2'], rejectUnauthorized: false })
      : net.connect(options);
  sockets.push(socket);
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once(rig.transport === 'h2' ? 'secureConnect' : 'connect', resolve));
  socket.pause();
  socket.write(
    Buffer.concat([
      PREFACE,
      frame(4, 0, 0, INITIAL_WINDOW),
      frame(8, 0, 0, [0x7f, 0xf0, 0, 0]),
      frame(1, END_STREAM_AND_HEADERS, 1, [...GET_HTTP, ...PATH_FLOOD, ...AUTHORITY]),
    ]),
  );
  return socket;
}

describe.each(['h2c', 'h2'] as const)('over %s', (transport) => {
  it('a stream that is cut leaves the other streams of its connection alone', async () => {
    const { clock, engine, reports, channels, rig } = await setUp(transport);
    const session = connect(rig) as http2.ClientHttp2Session;
    connections.push(session);
    const healthy = await ask(rig, '/healthy', { over: session });
    const stalled = await ask(rig, '/flood', { over: session, reads: false });
    await until(() => reports.has('/healthy'));
    await quiet(() => engine.stats().bytes);
    clock.advance(4000);
    await until(() => reports.has('/flood'));
    expect(reports.get('/flood')?.outcome).toBe('stalled');
    expect(await stalled.ended).toBe('broken');
    // the PING is answered, and its deadline called off. Fails when an answer does not cancel the timer of probe().
    await until(() => clock.armed === 0);
    clock.advance(60_000);
    channels.get('/healthy')?.send(eventBlock({ data: 'still here' }));
    await until(() => healthy.text.endsWith('data: still here\n\n'));
    channels.get('/healthy')?.end();
    expect(await healthy.ended).toBe('whole');
    expect(session.closed).toBe(false);
  });

  // session.destroy() would keep the connection for ever. Fails when probe() does not reset it, or kill() does not probe.
  it('a connection that is stalled as a whole is reset when it does not answer a PING for two seconds', async () => {
    const { clock, engine, reports, rig } = await setUp(transport);
    await openStalled(rig);
    await until(() => engine.active === 1);
    await quiet(() => engine.stats().bytes);
    clock.advance(4000);
    await until(() => reports.has('/flood'));
    expect(reports.get('/flood')?.outcome).toBe('stalled');
    expect(clock.armed).toBe(1);
    clock.advance(1999);
    await new Promise((resolve) => setImmediate(resolve));
    expect(kernelConnections(rig.port) ?? 1).toBe(1);
    clock.advance(1);
    await until(() => (kernelConnections(rig.port) ?? 0) === 0);
    expect([clock.armed, engine.active]).toEqual([0, 0]);
  });

  it('streams that are killed together ask with one PING', async () => {
    const clock = new FakeClock();
    const channels: Channel[] = [];
    const rig = await openRig(transport, (exchange) => void channels.push(exchange.open(200, SSE)), { clock });
    rigs.push(rig);
    const session = connect(rig) as http2.ClientHttp2Session;
    connections.push(session);
    let pings = 0;
    session.on('ping', () => void pings++);
    const answers = await Promise.all(['/1', '/2', '/3'].map((path) => ask(rig, path, { over: session })));
    for (const channel of channels) channel.kill();
    expect(clock.armed).toBe(1);
    await Promise.all(answers.map(({ ended }) => ended));
    await until(() => clock.armed === 0);
    expect(pings).toBe(1);
    const again = await ask(rig, '/4', { over: session });
    channels[3]?.kill();
    expect(await again.ended).toBe('broken');
    await until(() => pings === 2);
  });

  it('a stream killed on a connection that is gone asks nobody', async () => {
    const clock = new FakeClock();
    const channels: Channel[] = [];
    const rig = await openRig(transport, (exchange) => void channels.push(exchange.open(200, SSE)), { clock });
    rigs.push(rig);
    const session = connect(rig) as http2.ClientHttp2Session;
    await ask(rig, '/', { over: session });
    disconnect(session);
    await until(() => channels[0]?.dead);
    channels[0]?.kill();
    expect(clock.armed).toBe(0);
  });

  it('headers that speak of the connection are left out', async () => {
    const { rig } = await setUp(transport);
    const answer = await ask(rig, '/');
    connections.push(connect(rig));
    expect([answer.status, answer.headers['connection'], answer.headers['transfer-encoding']]).toEqual([
      200,
      undefined,
      undefined,
    ]);
    answer.leave();
  });
});
