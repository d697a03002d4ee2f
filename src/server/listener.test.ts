import { createConnection, type Socket } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import type { Route } from './route.ts';
import { Server, type ServerOptions } from './server.ts';

const OPTIONS: ServerOptions = {
  host: '127.0.0.1',
  port: 0,
  backlog: 1024,
  http2: true,
  http2ConcurrentStreamsMax: 10,
  headersTimeoutMs: 200,
  requestTimeoutMs: 10_000,
  keepAliveTimeoutMs: 10_000,
  headerBytesMax: 16_384,
  bodyBytesMax: 1024,
  onFailure: () => {},
};

const HELLO: Route = { methods: ['GET'], path: '/hello', handle: (exchange) => exchange.reply(200, {}, 'hello') };
const REQUEST = 'GET /hello HTTP/1.1\r\nHost: x\r\n\r\n';

async function listen(
  routes: readonly Route[] = [HELLO],
  options: ServerOptions = OPTIONS,
): Promise<{ port: number; stop: () => void }> {
  const server = await Server.create(options, routes);
  const { port } = await server.listen();
  const stop = (): void => {
    server.stopAccepting();
    server.closeIdle();
  };
  return { port, stop };
}

function open(port: number): { socket: Socket; text: () => string; closed: () => boolean } {
  const socket = createConnection({ port, host: '127.0.0.1' });
  let text = '';
  let isClosed = false;
  socket.on('data', (data) => (text += data.toString()));
  socket.on('error', () => {});
  socket.on('close', () => (isClosed = true));
  return { socket, text: () => text, closed: () => isClosed };
}

describe('a connection in the clear', () => {
  it('is HTTP/1.1 also when its first bytes come one by one', async () => {
    const { port, stop } = await listen();
    const client = open(port);
    for (const byte of REQUEST) {
      await new Promise<void>((resolve) => client.socket.write(byte, () => resolve()));
    }
    await vi.waitFor(() => expect(client.text()).toContain('hello'));
    client.socket.destroy();
    stop();
  });

  // Fails when sniff() waits for the whole preface before it compares: PUT and PRI begin alike.
  it('is HTTP/1.1 when it begins like the preface of HTTP/2 and goes on otherwise', async () => {
    const { port, stop } = await listen();
    const client = open(port);
    client.socket.write('PRI /hello HTTP/1.1\r\nHost: x\r\n\r\n');
    await vi.waitFor(() => expect(client.text()).toMatch(/^HTTP\/1\.1 4\d\d /));
    client.socket.destroy();
    stop();
  });

  // Fails when sniff() has no timer: such a connection would stay for ever.
  it.each(['', 'PRI * HTT'])('is closed when it says nothing, or half of it: %j', async (said) => {
    const { port, stop } = await listen();
    const client = open(port);
    client.socket.write(said);
    await vi.waitFor(() => expect(client.closed()).toBe(true), { timeout: 5000 });
    expect(client.text()).toBe('');
    stop();
  });

  it('is served whoever else comes in the same moment', async () => {
    // on a busy machine three hundred take longer than the others here may wait for their head
    const { port, stop } = await listen([HELLO], { ...OPTIONS, headersTimeoutMs: 10_000 });
    const clients = Array.from({ length: 300 }, () => open(port));
    for (const { socket } of clients) socket.write(REQUEST);
    await vi.waitFor(() => expect(clients.every(({ text }) => text().includes('hello'))).toBe(true), {
      timeout: 10_000,
    });
    for (const { socket } of clients) socket.destroy();
    stop();
  });
});

describe('a request', () => {
  it.each([
    ['GET /nope HTTP/1.1', 404],
    ['POST /hello HTTP/1.1', 405],
    ['OPTIONS /hello HTTP/1.1', 405],
    ['HEAD /hello HTTP/1.1', 405],
    ['REPORT /hello HTTP/1.1', 405],
    ['GET /hello/%zz HTTP/1.1', 400],
    [`GET /hello HTTP/1.1\r\nx: ${'y'.repeat(20_000)}`, 431],
  ])('%s', async (head, status) => {
    const { port, stop } = await listen();
    const client = open(port);
    client.socket.write(`${head}\r\nHost: x\r\nConnection: close\r\n\r\n`);
    await vi.waitFor(() => expect(client.text()).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `)));
    client.socket.destroy();
    stop();
  });

  // Fails when settle() lets what a route throws through: the process would end.
  it('is answered 500 when its route throws, and the cause is told', async () => {
    const told = vi.fn<(error: unknown, path: string) => void>();
    const broken: Route = { methods: ['GET'], path: '/broken', handle: () => Promise.reject(new Error('broken')) };
    const server = await Server.create({ ...OPTIONS, onFailure: told }, [broken]);
    const { port } = await server.listen();
    const client = open(port);
    client.socket.write('GET /broken HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    await vi.waitFor(() => expect(client.text()).toMatch(/^HTTP\/1\.1 500 /));
    expect(told).toHaveBeenCalledExactlyOnceWith(new Error('broken'), '/broken');
    server.stopAccepting();
  });
});

describe('a server', () => {
  it('says which address it cannot have', async () => {
    const { port, stop } = await listen();
    const second = await Server.create({ ...OPTIONS, port }, []);
    await expect(second.listen()).rejects.toMatchObject({
      code: 'HG_LISTEN',
      message: expect.stringContaining(`Cannot listen on 127.0.0.1:${port}`),
    });
    stop();
  });
});
