import http2 from 'node:http2';
import net, { type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { until } from '../../test/support/conditions.ts';
import { connectionsOf, settled, untilConnections } from '../../test/support/receipts-rig.ts';
import { selfSigned } from '../../test/support/tls.ts';
import type { Channel, Exchange } from '../delivery/index.ts';
import { FakeClock } from '../kernel/index.ts';
import { Server } from './server.ts';

// real sockets on a machine that may be busy; every wait inside has a bound of its own
vi.setConfig({ testTimeout: 30_000 });

const IDLE_MS = 5000;
const OPTIONS = {
  host: '127.0.0.1',
  port: 0,
  backlog: 16,
  http2: true,
  http2ConcurrentStreamsMax: 10,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 10_000,
  keepAliveTimeoutMs: IDLE_MS,
  headerBytesMax: 16_384,
  bodyBytesMax: 1024,
  onFailure: () => {},
};

const servers: Server[] = [];
const sockets: Socket[] = [];

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) {
    server.stopAccepting();
    server.closeIdle();
  }
});

async function setUp(isTls: boolean, keepAliveTimeoutMs: number = IDLE_MS) {
  const clock = new FakeClock();
  const channels: Channel[] = [];
  const exchanges: Exchange[] = [];
  const told: boolean[] = [];
  const handle = (exchange: Exchange): void => {
    exchanges.push(exchange);
    if (exchange.path === '/open') return void channels.push(exchange.open(200, {}));
    if (exchange.path === '/large') exchange.onReceived((received) => void told.push(received));
    exchange.reply(200, {}, exchange.path === '/large' ? Buffer.alloc(1_000_000) : 'hello');
  };
  const server = await Server.create(
    { ...OPTIONS, keepAliveTimeoutMs, clock, ...(isTls ? { tls: selfSigned() } : {}) },
    [{ methods: ['GET'], path: '/*', handle }],
  );
  servers.push(server);
  const { port } = await server.listen();
  const raw = isTls
    ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2'] })
    : net.connect({ port, host: '127.0.0.1' });
  sockets.push(raw);
  const session = http2.connect(`http://127.0.0.1:${port}`, { createConnection: () => raw });
  session.on('error', () => {});
  let goaways = 0;
  session.on('goaway', () => void goaways++);
  await new Promise((resolve) => session.once('remoteSettings', resolve));
  return { clock, server, session, channels, exchanges, told, port, goaways: () => goaways };
}

async function hear(session: http2.ClientHttp2Session, path = '/'): Promise<void> {
  const stream = session.request({ ':path': path });
  stream.resume();
  await new Promise((resolve) => stream.once('close', resolve));
}

describe.each([
  ['in the clear', false],
  ['over TLS', true],
])('an HTTP/2 session %s', (_, isTls) => {
  // Fails when closeWhenIdle() is not called: such a session stays for as long as its client.
  it('without streams is closed when the keep-alive time is over', async () => {
    const { clock, session, goaways } = await setUp(isTls);
    clock.advance(IDLE_MS - 1);
    await hear(session);
    await settled();
    clock.advance(IDLE_MS - 1);
    await settled();
    expect([session.closed, goaways()]).toEqual([false, 0]);
    clock.advance(1);
    await until('the session to close', () => session.destroyed);
    expect(goaways()).toBeGreaterThan(0);
    await settled();
    expect(clock.armed).toBe(0);
  });

  it('that never had a stream is closed as well', async () => {
    const { clock, session } = await setUp(isTls);
    clock.advance(IDLE_MS);
    await until('the session to close', () => session.destroyed);
    expect(session.closed).toBe(true);
  });

  // Fails when the timer is not called off.
  it('that its client closes leaves nothing behind', async () => {
    const { clock, session, server } = await setUp(isTls);
    await hear(session);
    session.close();
    await untilConnections(server.listening, 0);
    expect(clock.armed).toBe(0);
  });

  // Fails when the time is counted from the last request.
  it('with an open stream stays, however long nothing is sent', async () => {
    const { clock, session, channels, goaways } = await setUp(isTls);
    const stream = session.request({ ':path': '/open' });
    stream.resume();
    await until('the channel', () => channels.length === 1);
    for (let i = 0; i < 10; i++) clock.advance(IDLE_MS);
    await settled();
    expect([session.closed, goaways()]).toEqual([false, 0]);
    channels[0]?.end();
    await until('the end of the stream', () => stream.closed);
    await settled();
    clock.advance(2 * IDLE_MS);
    await until('the session to close', () => session.destroyed);
  });

  it('stays when the keep-alive time is without end', async () => {
    const { clock, session } = await setUp(isTls, 0);
    clock.advance(1e9);
    await hear(session);
    expect([session.closed, clock.armed]).toEqual([false, 0]);
  });
});

/** A client in the clear that speaks frames, and closes nothing by itself. */
async function speakFrames(
  port: number,
  ...frames: (readonly [type: number, flags: number, payload: readonly number[]])[]
) {
  const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  sockets.push(socket);
  socket.on('error', () => {});
  socket.resume();
  await new Promise((resolve) => socket.once('connect', resolve));
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  const send = (type: number, flags: number, payload: readonly number[], stream = 0): void => {
    socket.write(Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, stream, ...payload]));
  };
  send(SETTINGS, 0, []);
  for (const [type, flags, payload] of frames) send(type, flags, payload, 1);
  return { socket, send };
}

const [HEADERS, RST_STREAM, SETTINGS] = [1, 3, 4];
const GET_LARGE = [0x82, 0x86, 0x04, 6, ...Buffer.from('/large'), 0x01, 1, ...Buffer.from('a')];

describe('a server that stops', () => {
  // Fails when stopAccepting() speaks to a session that is destroyed: Node throws.
  it('passes over sessions that are closing already', async () => {
    const { clock, server, port, session } = await setUp(false);
    session.destroy();
    await speakFrames(port);
    await untilConnections(server.listening, 1);
    clock.advance(IDLE_MS);
    await settled();
    expect(() => server.stopAccepting()).not.toThrow();
  });
});

describe('a client that does not play along', () => {
  // Fails without the second timer: Node waits for the client's FIN, and for ever.
  it('has two seconds to close its side', async () => {
    const { clock, server, port, session } = await setUp(false);
    session.destroy();
    await speakFrames(port);
    await untilConnections(server.listening, 1);
    clock.advance(IDLE_MS);
    await settled();
    expect(await connectionsOf(server.listening)).toBe(1);
    clock.advance(2000);
    await untilConnections(server.listening, 0);
    await settled();
    expect(clock.armed).toBe(0);
  });

  // Fails when the streams that were lost are not destroyed: Node keeps each, and its session is never idle.
  it('and resets a stream without an error while it has something to come is rid of it within two such times', async () => {
    const { clock, port, exchanges, told, server } = await setUp(false);
    const { send } = await speakFrames(port, [HEADERS, 5, GET_LARGE]);
    await until('the request', () => exchanges.length === 1);
    await settled();
    send(RST_STREAM, 0, [0, 0, 0, 0], 1);
    await settled();
    expect([exchanges[0]?.closed, told]).toEqual([false, []]);
    clock.advance(IDLE_MS);
    await settled();
    clock.advance(IDLE_MS);
    await until('the end of the exchange', () => exchanges[0]?.closed === true);
    await until('its receipt', () => told.length === 1);
    expect([told, server.receipts.pending]).toEqual([[false], 0]);
  });
});
