import { createConnection, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { until } from '../../test/support/conditions.ts';
import { UNREAD_BYTES } from '../../test/support/receipts-rig.ts';
import { selfSigned } from '../../test/support/tls.ts';
import { bytesAcked, type Exchange } from '../delivery/index.ts';
import { FakeClock } from '../kernel/index.ts';
import { Server } from './server.ts';

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

async function serve(askKernel: boolean, isTls = false) {
  const clock = new FakeClock();
  const told: string[] = [];
  const exchanges: Exchange[] = [];
  const server = await Server.create(
    {
      host: '127.0.0.1',
      port: 0,
      backlog: 16,
      http2: true,
      http2ConcurrentStreamsMax: 10,
      headersTimeoutMs: 10_000,
      requestTimeoutMs: 10_000,
      keepAliveTimeoutMs: 10_000,
      headerBytesMax: 16_384,
      bodyBytesMax: 1024,
      onFailure: () => {},
      askKernel,
      clock,
      ...(isTls ? { tls: selfSigned() } : {}),
    },
    [
      {
        methods: ['GET'],
        path: '/:size',
        handle: (exchange, { size }) => {
          exchanges.push(exchange);
          exchange.onReceived((received) => void told.push(`${size} ${received}`));
          if (size !== 'later') exchange.reply(200, {}, Buffer.alloc(Number(size)));
        },
      },
    ],
  );
  const { port } = await server.listen();
  const ask = (size: number | 'later', reads: boolean, head = ''): { bytes: () => number } => {
    const to = { port, host: '127.0.0.1' };
    const socket = isTls ? connectTls({ ...to, rejectUnauthorized: false }) : createConnection(to);
    sockets.push(socket);
    let bytes = 0;
    socket.on('error', () => {});
    socket.on('data', (data) => (bytes += data.byteLength));
    if (!reads) socket.pause();
    socket.write(`GET /${size} HTTP/1.1\r\nhost: a\r\n${head}\r\n`);
    return { bytes: () => bytes };
  };
  return { server, clock, told, exchanges, ask };
}

describe('a server that stops', () => {
  // Fails when stopAccepting() does not look before it closes: what was received would be sent again.
  it.runIf(process.platform === 'linux')('knows what was received on the connections that it closes', async () => {
    const { server, told, ask } = await serve(true);
    const connections: Socket[] = [];
    server.listening.on('connection', (raw) => void connections.push(raw));
    const client = ask(100, true);
    await until('all of it', () => client.bytes() > 100 && server.receipts.pending === 1);
    // the client's kernel may hold it back for a while
    await until('the acknowledgement', () => connections.every((raw) => (bytesAcked(raw) ?? 0) >= raw.bytesWritten));
    server.stopAccepting();
    expect([told, server.receipts.pending]).toEqual([['100 true'], 0]);
    server.closeIdle();
  });

  it.each([
    ['in the clear', false, true],
    ['in the clear, without the kernel', false, false],
    ['over TLS', true, true],
    ['over TLS, without the kernel', true, false],
  ])('ends connections that it keeps for a receipt %s', async (_, isTls, askKernel) => {
    const { server, told, ask, clock } = await serve(askKernel, isTls);
    ask(UNREAD_BYTES, false, 'connection: close\r\n');
    await until('the connection to be kept', () => server.receipts.lingering === 1);
    server.stopAccepting();
    server.closeIdle();
    await until('the receipt', () => told.length === 1);
    expect(told).toEqual([`${UNREAD_BYTES} false`]);
    expect([server.receipts.pending, server.receipts.lingering]).toEqual([0, 0]);
    clock.advance(100);
    expect(clock.armed).toBe(0);
    await until('the server to close', () => !server.listening.listening);
  });

  // Fails when closeIdle() does not close the receipts: each such connection could hold up the end of the process for 5 s.
  it.each([true, false])('keeps no connection for a response that ends later (kernel: %s)', async (askKernel) => {
    const { server, told, exchanges, ask, clock } = await serve(askKernel);
    ask('later', false);
    await until('the request', () => exchanges.length === 1);
    server.stopAccepting();
    server.closeIdle();
    exchanges[0]?.reply(200, { connection: 'close' }, Buffer.alloc(UNREAD_BYTES));
    await until('the receipt', () => told.length === 1);
    expect([told, server.receipts.pending, server.receipts.lingering]).toEqual([['later false'], 0, 0]);
    clock.advance(100);
    expect(clock.armed).toBe(0);
  });
});
