import { createConnection, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, it, vi } from 'vitest';
import { selfSigned } from '../../test/support/tls.ts';
import type { Route } from './route.ts';
import { Server } from './server.ts';

const OPTIONS = {
  host: '127.0.0.1',
  port: 0,
  backlog: 16,
  http2: true,
  http2ConcurrentStreamsMax: 10,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 10_000,
  keepAliveTimeoutMs: 200,
  headerBytesMax: 65_536,
  bodyBytesMax: 1024,
  onFailure: () => {},
};

const HELLO: Route = { methods: ['GET'], path: '/hello', handle: (exchange) => exchange.reply(200, {}, 'hello') };

/** Text that came, and whether the other side has closed. */
function watch(socket: Socket): { text: string; closed: boolean } {
  const seen = { text: '', closed: false };
  socket.on('data', (data) => (seen.text += data.toString()));
  socket.on('error', () => {});
  socket.on('close', () => (seen.closed = true));
  return seen;
}

describe('HTTP/1.1 over TLS, beside HTTP/2', () => {
  // Fails when createSecure() does not set these on the server: node:http2 takes none of them for its HTTP/1.1.
  it('has the bounds of the configuration: an idle connection is closed, and a header may be as long as it says', async () => {
    const server = await Server.create({ ...OPTIONS, tls: selfSigned() }, [HELLO]);
    const { port } = await server.listen();
    const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
    const seen = watch(socket);
    socket.write(`GET /hello HTTP/1.1\r\nHost: x\r\nX-Long: ${'y'.repeat(30_000)}\r\n\r\n`);
    await vi.waitFor(() => expect(seen.text).toMatch(/^HTTP\/1\.1 200 /));
    await vi.waitFor(() => expect(seen.closed).toBe(true), { timeout: 5000 });
    server.stopAccepting();
    server.closeIdle();
  });
});

describe('requests behind one that is not answered yet', () => {
  // Fails when whenLostBeforeTurn() has no bound: each that waits costs memory, and all of them end at once.
  it('are bounded: a connection that goes on sending them is closed', async () => {
    const never: Route = { methods: ['GET'], path: '/never', handle: () => undefined };
    const server = await Server.create(OPTIONS, [never]);
    const { port } = await server.listen();
    const socket = createConnection({ port, host: '127.0.0.1' });
    const seen = watch(socket);
    socket.write('GET /never HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(1000));
    await vi.waitFor(() => expect(seen.closed).toBe(true), { timeout: 5000 });
    server.stopAccepting();
  });
});

describe('a body that no route reads', () => {
  // Fails when the routes parse bodies: 400 for this one, after reading it.
  it.each(['application/json', 'text/html', 'application/octet-stream'])('is not parsed: %s', async (type) => {
    const server = await Server.create(OPTIONS, [HELLO]);
    const { port } = await server.listen();
    const response = await fetch(`http://127.0.0.1:${port}/hello`, {
      method: 'POST',
      headers: { 'content-type': type },
      body: '{"broken":',
    });
    expect(response.status).toBe(405);
    server.stopAccepting();
    server.closeIdle();
  });
});
