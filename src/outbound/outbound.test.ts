import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createGzip, gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { FakeClock } from '../kernel/index.ts';
import { until } from '../../test/support/conditions.ts';
import { selfSigned } from '../../test/support/tls.ts';
import { Outbound } from './outbound.ts';
import { urlUnder } from './url.ts';

const toClose: (() => void)[] = [];
afterEach(() => {
  for (const close of toClose.splice(0).reverse()) close();
});

async function listen(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  toClose.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as AddressInfo).port;
}

async function served(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  return `http://127.0.0.1:${await listen(createServer(answer))}`;
}

async function opened(options: Partial<Parameters<typeof Outbound.open>[0]> = {}): Promise<Outbound> {
  const outbound = await Outbound.open({ userAgent: 'Test/1', ...options });
  toClose.push(() => outbound.close());
  return outbound;
}

const get = (base: string, path = '/') => ({ method: 'GET', url: urlUnder(base, path) });

/** An HTTP proxy that keeps what it was asked. */
async function proxied(): Promise<{ url: string; seen: { line: string; auth: string | undefined }[] }> {
  const seen: { line: string; auth: string | undefined }[] = [];
  const note = (request: IncomingMessage): void => {
    seen.push({ line: `${request.method} ${request.url}`, auth: request.headers['proxy-authorization'] });
  };
  const proxy = createServer((request, response) => {
    note(request);
    response.end('by proxy');
  });
  proxy.on('connect', (request, socket) => {
    note(request);
    const [host = '', port = ''] = (request.url ?? '').split(':');
    const onward = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      onward.pipe(socket);
      socket.pipe(onward);
    });
    onward.on('error', () => socket.destroy());
    socket.on('error', () => onward.destroy());
  });
  return { url: `http://127.0.0.1:${await listen(proxy)}`, seen };
}

describe('a request', () => {
  it('says who we are, sends its body, and keeps its connection', async () => {
    const sockets = new Set<unknown>();
    const seen: { agent: string | undefined; length: string | undefined }[] = [];
    const base = await served((request, response) => {
      sockets.add(request.socket);
      seen.push({ agent: request.headers['user-agent'], length: request.headers['content-length'] });
      request.resume().on('end', () => response.writeHead(202, { 'x-a': '1' }).end('done'));
    });
    const outbound = await opened();
    const url = urlUnder(`${base}/under/`, '/x?y=1');
    expect(url.href).toBe(`${base}/under/x?y=1`);
    for (const body of [Buffer.from('abc'), Buffer.from('abc')]) {
      const reply = await outbound.send({ method: 'POST', url, body });
      expect([reply.status, reply.header('X-A'), await reply.text(10)]).toEqual([202, '1', 'done']);
    }
    expect(seen).toEqual(Array(2).fill({ agent: 'Test/1', length: '3' }));
    expect(sockets.size).toBe(1);
  });

  it('undoes gzip while it streams, and notices a cut', async () => {
    const base = await served((request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      if (request.url === '/cut') {
        response.end(gzipSync('x'.repeat(1000)).subarray(0, 20));
        return;
      }
      const gzip = createGzip();
      gzip.pipe(response);
      gzip.write('first');
      gzip.flush();
    });
    const outbound = await opened();
    for await (const piece of (await outbound.send(get(base))).body) {
      expect(Buffer.from(piece).toString()).toBe('first');
      break;
    }
    const cut = await outbound.send(get(base, '/cut'));
    await expect(cut.text(5000)).rejects.toMatchObject({ code: 'HG_UPSTREAM' });
  });

  it('has a bound on a text', async () => {
    const base = await served((_, response) => response.end('x'.repeat(100)));
    const outbound = await opened();
    expect(await (await outbound.send(get(base))).text(100)).toHaveLength(100);
    await expect((await outbound.send(get(base))).text(99)).rejects.toMatchObject({ code: 'HG_UPSTREAM' });
  });

  it('is sent once more when its kept connection was closed in the same moment', async () => {
    let count = 0;
    const base = await served((request, response) => {
      count += 1;
      if (count === 2) request.socket.resetAndDestroy();
      else response.end('x');
    });
    const outbound = await opened();
    await (await outbound.send(get(base))).text(10);
    expect((await outbound.send(get(base))).status).toBe(200);
    expect(count).toBe(3);
  });

  it('is not sent once more on a new connection, nor when it changes something', async () => {
    let count = 0;
    const base = await served((request, response) => {
      count += 1;
      if (count === 1) response.end('x');
      else request.socket.resetAndDestroy();
    });
    const outbound = await opened();
    await (await outbound.send(get(base))).text(10);
    await expect(outbound.send({ ...get(base), method: 'POST' })).rejects.toMatchObject({ code: 'HG_UPSTREAM' });
    expect(count).toBe(2);
    await expect(outbound.send(get(base))).rejects.toMatchObject({ code: 'HG_UPSTREAM' });
    expect(count).toBe(3);
  });

  it('ends when the head, or the next byte of the body, is too long in coming', async () => {
    const clock = new FakeClock();
    let silent = 0;
    const base = await served((request, response) => {
      silent += 1;
      if (request.url !== '/head') response.write('x');
    });
    const outbound = await opened({ clock });
    const headless = outbound.send({ ...get(base, '/head'), headersTimeoutMs: 5000 });
    await until('the request', () => silent === 1);
    clock.advance(4999);
    expect(clock.armed).toBe(1);
    clock.advance(1);
    await expect(headless).rejects.toThrow(/Cannot reach .*: no answer within 5 s/);

    const reply = await outbound.send({ ...get(base), idleTimeoutMs: 300_000 });
    const pieces = reply.body[Symbol.asyncIterator]();
    expect((await pieces.next()).done).toBe(false);
    // nobody reads: no silence of the other side
    clock.advance(600_000);
    const next = pieces.next();
    clock.advance(300_000);
    await expect(next).rejects.toThrow(/Cannot read the answer of .*: nothing came for 300 s/);
    expect(clock.armed).toBe(0);
  });

  it('ends when it is given up, before the head and after it, and when everything is closed', async () => {
    const base = await served((request, response) => {
      if (request.url !== '/head') response.write('x');
    });
    const outbound = await opened();
    const stop = new AbortController();
    const headless = outbound.send({ ...get(base, '/head'), signal: stop.signal });
    const reply = await outbound.send({ ...get(base), signal: stop.signal });
    stop.abort();
    await expect(headless).rejects.toThrow('it was given up');
    await expect(reply.text(10)).rejects.toThrow('it was given up');
    await expect(outbound.send({ ...get(base), signal: stop.signal })).rejects.toThrow('it was given up');
    const other = await outbound.send(get(base));
    outbound.close();
    await expect(other.text(10)).rejects.toThrow('it was given up');
    await expect(outbound.send(get(base))).rejects.toThrow('it was stopped');
  });

  it('lets go of an answer that is not wanted, also when the body that it promised never comes', async () => {
    const clock = new FakeClock();
    let open = 0;
    const server = createServer((_, response) => response.writeHead(503, { 'content-length': '10' }).flushHeaders());
    server.on('connection', (socket) => {
      open += 1;
      socket.on('close', () => (open -= 1)).on('error', () => {});
    });
    const base = `http://127.0.0.1:${await listen(server)}`;
    const outbound = await opened({ clock });
    (await outbound.send(get(base))).discard();
    clock.advance(5000);
    await until('the connection gone', () => open === 0);
    expect(clock.armed).toBe(0);
  });

  it('says where it could not go, without what may be secret', async () => {
    const outbound = await opened();
    const url = new URL('http://user:secret@127.0.0.1:1/all?auth=secret');
    await expect(outbound.send({ method: 'GET', url })).rejects.toThrow(
      /^Cannot reach http:\/\/127.0.0.1:1\/all: .*ECONNREFUSED/,
    );
  });
});

describe('certificates', () => {
  it('of our own are trusted besides the others, also through a proxy', async () => {
    const { cert, key } = selfSigned();
    const port = await listen(createSecureServer({ cert, key }, (_, response) => response.end('secure')));
    const caPath = join(mkdtempSync(join(tmpdir(), 'headgate-outbound-')), 'ca.pem');
    writeFileSync(caPath, cert);
    const base = `https://127.0.0.1:${port}`;
    const stranger = await opened();
    await expect(stranger.send(get(base))).rejects.toMatchObject({ code: 'HG_UPSTREAM' });
    const friend = await opened({ caPaths: [caPath] });
    expect(await (await friend.send(get(base))).text(10)).toBe('secure');
    const proxy = await proxied();
    const far = await opened({ caPaths: [caPath], proxy: { url: proxy.url, user: 'u', password: 'p:@' } });
    expect(await (await far.send(get(base))).text(10)).toBe('secure');
    const auth = `Basic ${Buffer.from('u:p:@').toString('base64')}`;
    expect(proxy.seen).toEqual([{ line: `CONNECT 127.0.0.1:${port}`, auth }]);
  });

  it('that are none are refused', async () => {
    await expect(opened({ caPaths: ['/nowhere.pem'] })).rejects.toMatchObject({ code: 'HG_OPTION' });
    await expect(opened({ caPaths: [import.meta.filename] })).rejects.toMatchObject({ code: 'HG_OPTION' });
  });
});

describe('a proxy', () => {
  // Fails when what a proxy says of a tunnel that it does not make is taken for the answer.
  it.each([403, 407, 502])('that makes no tunnel is a connection that fails, whatever it says: %s', async (status) => {
    const proxy = createServer();
    proxy.on('connect', (_request, socket) => socket.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n\r\n`));
    const outbound = await opened({ proxy: { url: `http://127.0.0.1:${await listen(proxy)}` } });
    const sent = outbound.send({ method: 'GET', url: new URL('https://flags.example/all') });
    await expect(sent).rejects.toThrow(
      `Cannot reach https://flags.example/all: its proxy must make a tunnel with status 200, got ${status}`,
    );
    await expect(sent).rejects.toMatchObject({ code: 'HG_UPSTREAM' });
  });

  it('is asked for http addresses by their whole name, with user and password', async () => {
    const proxy = await proxied();
    const outbound = await opened({ proxy: { url: proxy.url, user: 'u', password: 'p' } });
    const reply = await outbound.send(get('http://flags.example', '/all?x=1'));
    expect(await reply.text(20)).toBe('by proxy');
    expect(proxy.seen).toEqual([{ line: 'GET http://flags.example/all?x=1', auth: `Basic ${btoa('u:p')}` }]);
  });

  it('that leads nowhere is given up after the time for a connection', async () => {
    const clock = new FakeClock();
    let asked = 0;
    const silent = createServer();
    const open = new Set<unknown>();
    silent.on('connect', (_, socket) => {
      asked += 1;
      open.add(socket);
      socket.on('error', () => {}).on('end', () => open.delete(socket));
      socket.resume();
    });
    const url = `http://127.0.0.1:${await listen(silent)}`;
    const outbound = await opened({ clock, connectTimeoutMs: 7000, proxy: { url } });
    const sent = outbound.send(get('https://flags.example'));
    await until('the proxy being asked', () => asked === 1);
    clock.advance(7000);
    await expect(sent).rejects.toThrow(/Cannot reach https:\/\/flags.example\/: no connection within 7 s/);
    await until('the connection gone', () => open.size === 0);
  });

  it('must have an address', async () => {
    await expect(opened({ proxy: { url: 'socks://x' } })).rejects.toMatchObject({ code: 'HG_OPTION' });
    expect(() => urlUnder('ftp://x', '/')).toThrow(expect.objectContaining({ code: 'HG_OPTION' }));
    // a scheme that was forgotten makes it none, and the password is one all the same
    await expect(opened({ proxy: { url: 'user:secret@proxy:3128' } })).rejects.toThrow(/got "\.\.\.@proxy:3128"$/);
  });
});
