import http2 from 'node:http2';
import https from 'node:https';
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { authority, type Pair, selfSigned } from '../../test/support/tls.ts';
import type { Exchange } from '../delivery/index.ts';
import type { Route } from './route.ts';
import { Server } from './server.ts';
import type { ClientVerification } from './tls-material.ts';

const OPTIONS = {
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
};

const ours = authority('ours');
const theirs = authority('theirs');
const good = ours.issue('/CN=first/CN=bouncer@10.0.0.1/OU=bouncers/OU=more');
const nameless = ours.issue('/O=somebody');
const bad = theirs.issue('/CN=bouncer/OU=bouncers');

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.stopAccepting();
    server.closeIdle();
  }
});

const WHO: Route = {
  methods: ['GET'],
  path: '/who',
  handle: (exchange: Exchange) => exchange.reply(200, {}, JSON.stringify(exchange.peer ?? null)),
};

async function serve(
  clientVerification: ClientVerification | undefined,
  given: { http2?: boolean; clientCa?: Buffer | undefined } = {},
): Promise<{ server: Server; port: number }> {
  const { clientCa = ours.cert } = given;
  const tls = { ...selfSigned(), clientCa, ...(clientVerification === undefined ? {} : { clientVerification }) };
  const server = await Server.create({ ...OPTIONS, http2: given.http2 ?? true, tls }, [WHO]);
  servers.push(server);
  return { server, port: (await server.listen()).port };
}

/** What the server says who we are, over HTTP/1.1; `refused` when it closes the connection. */
function askHttp1(port: number, pair?: Pair): Promise<unknown> {
  return new Promise((resolve) => {
    const options = { port, host: '127.0.0.1', path: '/who', rejectUnauthorized: false, agent: false as const };
    const request = https.get({ ...options, ...pair }, (response) => {
      let text = '';
      response.on('data', (part: Buffer) => (text += part.toString()));
      response.on('end', () => resolve(JSON.parse(text)));
    });
    request.on('error', () => resolve('refused'));
  });
}

function askHttp2(port: number, pair?: Pair): Promise<unknown> {
  return new Promise((resolve) => {
    const session = http2.connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false, ...pair });
    session.on('error', () => resolve('refused'));
    session.on('close', () => resolve('refused'));
    const stream = session.request({ ':path': '/who' });
    let text = '';
    // Node's client tells an alert only to the stream
    stream.on('error', () => resolve('refused'));
    stream.on('data', (part: Buffer) => (text += part.toString()));
    stream.on('end', () => {
      if (text !== '') resolve(JSON.parse(text));
      session.close();
    });
  });
}

const BOUNCER = { commonName: 'bouncer@10.0.0.1', organizationalUnits: ['bouncers', 'more'] };
const NAMELESS = { commonName: '', organizationalUnits: [] };

describe.each([
  ['HTTP/1.1', askHttp1],
  ['HTTP/2', askHttp2],
] as const)('a client certificate over %s', (_, ask) => {
  // Fails when `peer` looks at the certificate without `authorized`, or guardClients() is not there.
  it.each([
    ['none', { good: null, bad: null, no: null }],
    ['request', { good: BOUNCER, bad: null, no: null }],
    ['verify-if-given', { good: BOUNCER, bad: 'refused', no: null }],
    ['require', { good: BOUNCER, bad: 'refused', no: 'refused' }],
  ] as const)('that is asked for with %s', async (verification, expected) => {
    const { port } = await serve(verification);
    expect({ good: await ask(port, good), bad: await ask(port, bad), no: await ask(port) }).toEqual(expected);
  });

  it('that names nobody makes a peer without a name', async () => {
    const { port } = await serve('require');
    expect(await ask(port, nameless)).toEqual(NAMELESS);
  });
});

describe('a server', () => {
  it('asks for nothing unless it is told to', async () => {
    const { port } = await serve(undefined);
    expect(await askHttp1(port, good)).toBe(null);
  });

  it('without HTTP/2 checks as well', async () => {
    const { port } = await serve('verify-if-given', { http2: false });
    expect([await askHttp1(port, good), await askHttp1(port, bad)]).toEqual([BOUNCER, 'refused']);
  });

  it.each(['verify-if-given', 'require'] as const)('cannot %s without authorities', async (clientVerification) => {
    const made = Server.create({ ...OPTIONS, tls: { ...selfSigned(), clientVerification } }, []);
    await expect(made).rejects.toMatchObject({ code: 'HG_TLS', message: expect.stringContaining('clientCa') });
  });

  // Fails when setTls() leaves the authorities as they were.
  it('takes new authorities: those of old connections stay, new ones are asked again', async () => {
    const { server, port } = await serve('require');
    server.setTls({ ...selfSigned(), clientCa: theirs.cert, clientVerification: 'require' });
    expect([await askHttp1(port, good), await askHttp1(port, bad)]).toEqual([
      'refused',
      { commonName: 'bouncer', organizationalUnits: ['bouncers'] },
    ]);
  });
});

describe.each(['TLSv1.2', 'TLSv1.3'] as const)('a session of %s that is resumed', (version) => {
  const OVER = { host: '127.0.0.1', rejectUnauthorized: false, minVersion: version, maxVersion: version } as const;

  /** Asks on a connection of its own; answers what came, the session to resume, and whether one was. */
  async function askOnce(options: ConnectionOptions): Promise<{ body: string; session: Buffer; resumed: boolean }> {
    const socket: TLSSocket = connect({ ...OVER, ...options });
    let [text, session]: [string, Buffer | undefined] = ['', undefined];
    socket.on('session', (one) => (session = one));
    socket.on('data', (part: Buffer) => (text += part.toString()));
    let isClosed = false;
    socket.on('error', () => {});
    socket.on('close', () => (isClosed = true));
    await new Promise((resolve) => {
      socket.once('secureConnect', resolve);
      socket.once('close', resolve);
    });
    socket.write('GET /who HTTP/1.1\r\nhost: a\r\n\r\n');
    await vi.waitUntil(() => isClosed || text.includes('\r\n\r\n'), { interval: 2, timeout: 5000 });
    const resumed = socket.isSessionReused();
    socket.destroy();
    return { body: text.split('\r\n\r\n')[1] ?? '', session: session ?? Buffer.alloc(0), resumed };
  }

  it('is the same client', async () => {
    const { port } = await serve('verify-if-given');
    const first = await askOnce({ port, ...good });
    const again = await askOnce({ port, session: first.session });
    expect([again.resumed, JSON.parse(again.body)]).toEqual([true, BOUNCER]);
  });

  // Node calls such a client authorized over TLS 1.3. Fails when `peer` does not look for a subject.
  it('without a certificate is nobody', async () => {
    const { port } = await serve('verify-if-given');
    const first = await askOnce({ port });
    const again = await askOnce({ port, session: first.session });
    expect([again.resumed, again.body]).toEqual([true, 'null']);
  });

  it('does not outlive its authority', async () => {
    const { server, port } = await serve('verify-if-given');
    const first = await askOnce({ port, ...good });
    server.setTls({ ...selfSigned(), clientCa: theirs.cert, clientVerification: 'verify-if-given' });
    const again = await askOnce({ port, session: first.session });
    expect([again.resumed, again.body]).toEqual([false, 'null']);
  });
});
