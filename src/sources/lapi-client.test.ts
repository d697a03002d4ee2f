import { createServer, type Server } from 'node:net';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { turns, until } from '../../test/support/conditions.ts';
import { FakeLapi, type FakeLapiOptions } from '../../test/support/fake-lapi.ts';
import { anotherSelfSigned, selfSigned } from '../../test/support/tls.ts';
import { FakeClock, systemClock } from '../kernel/index.ts';
import { LapiClient, type LapiTls } from './lapi-client.ts';
import { LapiError } from './lapi-error.ts';

const STREAM = '/v1/decisions/stream?startup=true';
const opened: { close(): unknown }[] = [];

afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

async function startLapi(options: FakeLapiOptions = {}): Promise<FakeLapi> {
  const lapi = await FakeLapi.start(options);
  opened.push({ close: () => lapi.stop() });
  return lapi;
}

function clientOf(
  url: string,
  { clock = systemClock, tls }: { clock?: typeof systemClock; tls?: LapiTls } = {},
): LapiClient {
  const client = new LapiClient({ name: 'one', url, tls, clock, socketsMax: 2 });
  opened.push(client);
  return client;
}

interface Asked {
  readonly status: number;
  readonly text: string;
}

async function ask(
  client: LapiClient,
  { target = STREAM, method = 'GET', ...more }: Partial<Parameters<LapiClient['request']>[0]> = {},
): Promise<Asked> {
  const headers = { 'x-api-key': 'key-1', 'accept-encoding': 'gzip' };
  const reply = await client.request({ method, target, headers, decode: true, ...more });
  let text = '';
  for await (const piece of reply.body) text += piece.toString();
  return { status: reply.status, text };
}

async function failureOf(promise: Promise<unknown>): Promise<LapiError> {
  const thrown: unknown = await promise.then(
    () => new Error('it did not fail'),
    (error: unknown) => error,
  );
  expect(thrown).toBeInstanceOf(LapiError);
  return thrown as LapiError;
}

/** Listens, and does with connections what it is told. */
async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  opened.push({ close: () => new Promise((resolve) => server.close(resolve)) });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('the client of a local API', () => {
  it.each([false, true])('asks over one connection again and again (gzip: %s)', async (gzip) => {
    const lapi = await startLapi({ gzip });
    lapi.add({});
    const client = clientOf(lapi.url);
    for (let round = 0; round < 3; round += 1) expect((await ask(client)).text).toContain('"value":"10.0.0.1"');
    expect(lapi.requests).toHaveLength(3);
    expect(lapi.connections).toBe(1);
  });

  it('puts the path of the URL before every target', async () => {
    const lapi = await startLapi({ prefix: '/crowdsec' });
    expect((await ask(clientOf(`${lapi.url}/`))).status).toBe(200);
    expect(clientOf(`${lapi.url}/`).url).toBe(lapi.url);
  });

  it('decodes gzip', async () => {
    const lapi = await startLapi({ gzip: true });
    lapi.addMany(1000);
    const { text } = await ask(clientOf(lapi.url));
    expect(JSON.parse(text)).toMatchObject({ new: { length: 1000 } });
    const raw = await clientOf(lapi.url).request({
      method: 'GET',
      target: STREAM,
      headers: { 'x-api-key': 'key-1', 'accept-encoding': 'gzip' },
      decode: false,
    });
    expect(raw.headers['content-encoding']).toBe('gzip');
    const pieces: Buffer[] = [];
    for await (const piece of raw.body) pieces.push(piece);
    expect(Buffer.concat(pieces).readUInt16BE(0)).toBe(0x1f8b);
  });

  it('refuses an encoding that it did not offer', async () => {
    const lapi = await startLapi();
    lapi.answers.set('/v1/odd', (_, response) => response.writeHead(200, { 'content-encoding': 'br' }).end('?'));
    const error = await failureOf(ask(clientOf(lapi.url), { target: '/v1/odd' }));
    expect(error.message).toContain('the answer must be plain or gzip, got "br"');
    await until('the end of the connection', () => lapi.connections === 0);
  });

  it.each([
    ['ftp://host', 'its URL must begin with http:// or https://, got ftp:'],
    ['nowhere', 'its URL must be one, got "nowhere"'],
    ['http://user:word@host', 'its URL must not hold a user or a password'],
    ['http://host/?a=b', 'its URL must end with the path'],
  ])('cannot use %s', (url, cause) => {
    expect(() => clientOf(url)).toThrow(
      expect.objectContaining({ code: 'HG_OPTION', message: `Cannot use the local API one: ${cause}` }),
    );
  });
});

describe('an answer that fails', () => {
  it.each([
    ['is cut', { kind: 'cut', bytes: 100 } as const, / after 100 bytes of the answer$/],
    ['is shorter than announced', { kind: 'announce', bytes: 100 } as const, / after 100 bytes of the answer$/],
    ['is reset before it began', { kind: 'reset' } as const, /: socket hang up$|ECONNRESET$/],
  ])('is an error when it %s', async (_, fault, message) => {
    const lapi = await startLapi();
    lapi.add({});
    lapi.next('stream', fault);
    const error = await failureOf(ask(clientOf(lapi.url)));
    expect(error).toMatchObject({ code: 'HG_SOURCE', failure: 'answer' });
    expect(error.message).toMatch(message);
    // the connection is not used again
    await until('its end', () => lapi.connections === 0);
  });

  it('is an error when gzip is cut short though the framing is whole', async () => {
    const lapi = await startLapi();
    lapi.answers.set('/v1/short', (_, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(Buffer.from('1f8b08000000000000034b4c4a0600', 'hex'));
    });
    const error = await failureOf(ask(clientOf(lapi.url), { target: '/v1/short' }));
    expect(error).toMatchObject({ failure: 'answer' });
    expect(error.message).toContain('unexpected end of file');
  });

  it('is unreachable when nobody listens', async () => {
    const lapi = await FakeLapi.start();
    const { url } = lapi;
    await lapi.stop();
    const error = await failureOf(ask(clientOf(url)));
    expect(error.failure).toBe('unreachable');
    expect(error.message).toMatch(/^Cannot ask the local API one at http:\/\/127\.0\.0\.1:\d+: connect ECONNREFUSED/);
  });

  it('tells every address that was tried', async () => {
    const lapi = await FakeLapi.start();
    const { port } = lapi;
    await lapi.stop();
    expect((await failureOf(ask(clientOf(`http://localhost:${port}`)))).message).toContain('ECONNREFUSED');
  });
});

describe('a connection that is kept', () => {
  // fails when request() does not try again
  it('may be closed by the other side: the request is made again on a new one', async () => {
    const lapi = await startLapi();
    const client = clientOf(lapi.url);
    await ask(client);
    lapi.next('stream', { kind: 'reset' });
    expect((await ask(client)).status).toBe(200);
    expect(lapi.requests).toHaveLength(3);
  });

  it('is not tried twice: the second time it is a failure', async () => {
    const lapi = await startLapi();
    const client = clientOf(lapi.url);
    await ask(client);
    lapi.next('stream', { kind: 'reset' }, { kind: 'reset' });
    expect((await failureOf(ask(client))).failure).toBe('answer');
    expect(lapi.requests).toHaveLength(3);
  });

  // fails when stale holds for what we ended ourselves
  it('is no reason to ask again when the time is up', async () => {
    const [lapi, clock] = [await startLapi(), new FakeClock()];
    const client = clientOf(lapi.url, { clock });
    await ask(client);
    lapi.ail('stream', { kind: 'hold', bytes: -1 });
    const failure = failureOf(ask(client));
    await until('the request', () => lapi.held === 1 && clock.armed === 1);
    clock.advance(60_000);
    expect((await failure).message).toContain('nothing came for 60 s');
    expect(lapi.requests).toHaveLength(2);
  });

  // fails when a connection is taken for a new one because it came from the queue
  it.each([undefined, { rejectUnauthorized: false }])(
    'needs no time to be made for those who waited for it (%o)',
    async (tls) => {
      const [lapi, clock] = [await startLapi(tls === undefined ? {} : { tls: selfSigned() }), new FakeClock()];
      const client = new LapiClient({ name: 'one', url: lapi.url, tls, clock, socketsMax: 1 });
      opened.push(client);
      lapi.next('stream', { kind: 'hold', bytes: -1 }, { kind: 'hold', bytes: -1 });
      const both = [ask(client), ask(client)];
      await until('the first', () => lapi.held === 1);
      lapi.release();
      await until('the second', () => lapi.held === 1);
      clock.advance(50_000);
      lapi.release();
      expect(await Promise.all(both)).toMatchObject([{ status: 200 }, { status: 200 }]);
    },
  );

  it('is no reason to send a body twice', async () => {
    const lapi = await startLapi();
    const client = clientOf(lapi.url);
    await ask(client);
    lapi.next('other', { kind: 'reset' });
    await failureOf(ask(client, { method: 'POST', target: '/v1/alerts', body: Buffer.from('[]') }));
    expect(lapi.requests).toHaveLength(2);
  });
});

describe('patience', () => {
  it('ends after a minute of silence before the first byte', async () => {
    const [lapi, clock] = [await startLapi(), new FakeClock()];
    lapi.next('stream', { kind: 'hold', bytes: -1 });
    const failure = failureOf(ask(clientOf(lapi.url, { clock })));
    await until('the request', () => lapi.held === 1 && clock.armed === 1);
    clock.advance(59_999);
    expect(clock.armed).toBe(1);
    clock.advance(1);
    expect(await failure).toMatchObject({ failure: 'answer' });
    expect((await failure).message).toContain('nothing came for 60 s');
    await until('the end of the connection', () => lapi.connections === 0);
    expect(lapi.requests).toHaveLength(1);
  });

  it('ends after a minute between two pieces, however long all of it takes', async () => {
    const [lapi, clock] = [await startLapi({ gzip: true }), new FakeClock()];
    let send: (text: string) => void = () => {};
    lapi.answers.set('/v1/slow', (_, response) => {
      response.writeHead(200);
      send = (text) => response.write(text);
      send('0');
    });
    const reply = await clientOf(lapi.url, { clock }).request({
      method: 'GET',
      target: '/v1/slow',
      headers: {},
      decode: true,
    });
    let read = '';
    const reading = failureOf(
      (async () => {
        for await (const piece of reply.body) read += piece.toString();
      })(),
    );
    for (let piece = 1; piece < 5; piece += 1) {
      await until('the piece before', () => read.length === piece && clock.armed === 1);
      clock.advance(59_000);
      send(String(piece));
    }
    await until('the last piece', () => read === '01234' && clock.armed === 1);
    clock.advance(60_000);
    expect((await reading).message).toContain('nothing came for 60 s after 5 bytes of the answer');
  });

  // fails when the timer of #next is not called off while the reader works
  it('is not spent while the reader takes its time', async () => {
    const [lapi, clock] = [await startLapi(), new FakeClock()];
    lapi.addMany(3000);
    const reply = await clientOf(lapi.url, { clock }).request({
      method: 'GET',
      target: STREAM,
      headers: { 'x-api-key': 'key-1' },
      decode: true,
    });
    let bytes = 0;
    for await (const piece of reply.body) {
      bytes += piece.length;
      clock.advance(3_600_000);
    }
    expect(bytes).toBeGreaterThan(300_000);
    expect(clock.armed).toBe(0);
  });

  it('ends with the time for all of it, when there is one', async () => {
    const [lapi, clock] = [await startLapi(), new FakeClock()];
    lapi.next('stream', { kind: 'hold', bytes: 5 });
    const failure = failureOf(ask(clientOf(lapi.url, { clock }), { totalMsMax: 30_000 }));
    await until('the head', () => lapi.held === 1);
    await until('the timer', () => clock.armed === 1);
    clock.advance(30_000);
    expect((await failure).message).toContain('no end within 30 s');
  });

  it('ends after ten seconds without a connection', async () => {
    const clock = new FakeClock();
    // TLS that is never answered: the connection is made only when it is secure
    const url = await listen(createServer((socket) => void opened.unshift({ close: () => socket.destroy() })));
    const failure = failureOf(ask(clientOf(url.replace('http:', 'https:'), { clock })));
    await until('the timer', () => clock.armed === 1);
    clock.advance(10_000);
    expect(await failure).toMatchObject({ failure: 'unreachable' });
    expect((await failure).message).toContain('no connection within 10 s');
  });
});

describe('giving up', () => {
  it('ends a request whose signal aborts, before and after its head', async () => {
    const lapi = await startLapi();
    for (const bytes of [-1, 5]) {
      lapi.next('stream', { kind: 'hold', bytes });
      const abort = new AbortController();
      const failure = failureOf(ask(clientOf(lapi.url), { signal: abort.signal }));
      await until('the request', () => lapi.held > 0);
      abort.abort();
      expect(await failure).toMatchObject({ failure: 'stopped' });
      await until('the end of the connection', () => lapi.connections === 0);
      lapi.release();
    }
  });

  it('ends everything with close(), what waits for a connection as well, and takes no more', async () => {
    const lapi = await startLapi();
    lapi.ail('stream', { kind: 'hold', bytes: 5 });
    const client = clientOf(lapi.url);
    const failures = Array.from({ length: 5 }, () => failureOf(ask(client)));
    await until('two requests', () => lapi.held === 2);
    client.close();
    for (const failure of failures) expect(await failure).toMatchObject({ failure: 'stopped' });
    expect(lapi.requests).toHaveLength(2);
    await failureOf(ask(client));
    expect(lapi.requests).toHaveLength(2);
  });

  it('closes the connection of an answer that is left before its end', async () => {
    const lapi = await startLapi();
    lapi.next('stream', { kind: 'hold', bytes: 5 });
    const client = clientOf(lapi.url);
    const reply = await client.request({
      method: 'GET',
      target: STREAM,
      headers: { 'x-api-key': 'key-1' },
      decode: true,
    });
    for await (const piece of reply.body) {
      expect(piece.length).toBeGreaterThan(0);
      break;
    }
    await until('the end of the connection', () => lapi.connections === 0);
    lapi.release();
    await turns(3);
    expect(lapi.lastPullMs.size).toBe(0);
  });
});

describe('TLS', () => {
  it('asks a local API that it has the authority of', async () => {
    const lapi = await startLapi({ tls: selfSigned() });
    expect((await ask(clientOf(lapi.url, { tls: { ca: selfSigned().cert } }))).status).toBe(200);
  });

  it('is unreachable without it, unless any certificate will do', async () => {
    const lapi = await startLapi({ tls: selfSigned() });
    const error = await failureOf(ask(clientOf(lapi.url)));
    expect(error.failure).toBe('unreachable');
    expect(error.message).toContain('self-signed certificate');
    expect((await ask(clientOf(lapi.url, { tls: { rejectUnauthorized: false } }))).status).toBe(200);
  });

  it('shows its own certificate', async () => {
    const ours = anotherSelfSigned();
    const lapi = await startLapi({ tls: { ...selfSigned(), ca: ours.cert } });
    const client = clientOf(lapi.url, { tls: { ca: selfSigned().cert, ...ours } });
    const reply = await client.request({ method: 'HEAD', target: STREAM, headers: {}, decode: false });
    expect(reply.status).toBe(200);
    expect(lapi.requests[0]?.commonName).toBe('127.0.0.1');
  });
});
