import { createConnection } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Exchange } from '../delivery/index.ts';
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
  keepAliveTimeoutMs: 10_000,
  headerBytesMax: 65_536,
  bodyBytesMax: 1024,
  onFailure: () => {},
};

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.stopAccepting();
    server.closeIdle();
  }
});

/** A route that says which one it is, and what its parameters are. */
function route(methods: Route['methods'], path: string, name = path): Route {
  const handle = (exchange: Exchange, params: Readonly<Record<string, string>>): void => {
    exchange.reply(200, {}, `${name} ${exchange.method} ${JSON.stringify(params)}`);
  };
  return { methods, path, handle };
}

const DECISIONS = [
  route(['GET', 'HEAD'], '/v1/decisions'),
  route(['DELETE'], '/v1/decisions', 'delete'),
  route(['GET', 'HEAD'], '/v1/decisions/stream'),
  route(['GET'], '/v1/decisions/:id'),
  route(['POST'], '/v1/usage-metrics'),
  route(['GET'], '/health'),
  route(['GET'], '/flags/:key'),
];
const PASSTHROUGH = route('*', '/v1/*', 'passthrough');

async function serve(routes: readonly Route[]): Promise<number> {
  const server = await Server.create(OPTIONS, routes);
  servers.push(server);
  return (await server.listen()).port;
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** As it came. */
  readonly text: string;
}

/** Sends bytes and reads to the end of the connection: nothing is followed, added or understood on the way. */
async function say(port: number, text: string): Promise<Answer> {
  const socket = createConnection({ port, host: '127.0.0.1' });
  let got = '';
  let isOver = false;
  socket.on('data', (data) => (got += data.toString('latin1')));
  socket.on('error', () => {});
  socket.on('close', () => (isOver = true));
  socket.write(text);
  await vi.waitUntil(() => isOver, { interval: 2, timeout: 8000 });
  const [head = '', ...rest] = got.split('\r\n\r\n');
  const [first = '', ...lines] = head.split('\r\n');
  const pairs = lines.map((line) => [line.split(': ')[0]?.toLowerCase() ?? '', line.split(': ')[1] ?? ''] as const);
  return {
    status: Number(first.split(' ')[1]),
    headers: Object.fromEntries(pairs),
    body: rest.join('\r\n\r\n'),
    text: got,
  };
}

const ask = (port: number, method: string, target: string, version = '1.1'): Promise<Answer> =>
  say(port, `${method} ${target} HTTP/${version}\r\nhost: a\r\nconnection: close\r\n\r\n`);

describe('a route', () => {
  it.each([
    ['GET', '/v1/decisions', '/v1/decisions GET {}'],
    ['DELETE', '/v1/decisions', 'delete DELETE {}'],
    ['GET', '/v1/decisions/stream', '/v1/decisions/stream GET {}'],
    ['GET', '/v1/decisions/17', '/v1/decisions/:id GET {"id":"17"}'],
    ['POST', '/v1/usage-metrics?a=b', '/v1/usage-metrics POST {}'],
    ['GET', '/flags/a%20b', '/flags/:key GET {"key":"a b"}'],
  ])('is found by path and method: %s %s', async (method, target, body) => {
    expect(await ask(await serve(DECISIONS), method, target)).toMatchObject({ status: 200, body });
  });

  it('that takes HEAD answers it without a body', async () => {
    const answer = await ask(await serve(DECISIONS), 'HEAD', '/v1/decisions');
    expect(answer).toMatchObject({ status: 200, body: '', headers: { 'content-length': '21' } });
  });
});

describe('a path above others', () => {
  it.each([
    ['GET', '/v1/alerts/1/x?y=z', 'passthrough GET {"*":"alerts/1/x"}'],
    ['POST', '/v1/watchers/login', 'passthrough POST {"*":"watchers/login"}'],
    // Fails when a path of its own hides what is above it: the methods that it does not take belong to the wildcard.
    ['POST', '/v1/decisions', 'passthrough POST {"*":"decisions"}'],
    ['GET', '/v1/decisions', '/v1/decisions GET {}'],
    ['DELETE', '/v1/usage-metrics/', 'passthrough DELETE {"*":"usage-metrics/"}'],
    ['PATCH', '/v1/', 'passthrough PATCH {"*":""}'],
  ])('takes what no other route does: %s %s', async (method, target, body) => {
    const port = await serve([...DECISIONS, PASSTHROUGH]);
    expect(await ask(port, method, target)).toMatchObject({ status: 200, body });
  });

  it('may take some methods only', async () => {
    const port = await serve([...DECISIONS, route(['GET'], '/v1/*', 'above')]);
    expect(await ask(port, 'POST', '/v1/decisions')).toMatchObject({ status: 405 });
    expect(await ask(port, 'POST', '/v1/alerts')).toMatchObject({ status: 405, headers: { allow: 'GET' } });
  });
});

describe('a refusal', () => {
  // As a local API words it.
  it.each([
    ['GET', '/v1/nothing', 404, undefined],
    ['GET', '/v1', 404, undefined],
    ['POST', '/v1/decisions/', 404, undefined],
    ['POST', '/v1/decisions', 405, 'GET, HEAD, DELETE'],
    ['GET', '/v1/usage-metrics', 405, 'POST'],
    ['POST', '/health', 405, 'GET'],
  ])('under /v1/ and /health is empty: %s %s', async (method, target, status, allow) => {
    const answer = await ask(await serve(DECISIONS), method, target);
    expect(answer).toMatchObject({ status, body: '', headers: { 'content-length': '0' } });
    expect(answer.headers['allow']).toBe(allow);
  });

  // As a flag relay words it.
  it('elsewhere says that the page was not found, and nothing of a method', async () => {
    const port = await serve(DECISIONS);
    expect(await ask(port, 'GET', '/nothing')).toMatchObject({ status: 404, body: '404 page not found\n' });
    expect(await ask(port, 'GET', '//v1/decisions')).toMatchObject({ status: 404 });
    const notAllowed = await ask(port, 'POST', '/flags/a');
    expect([notAllowed.status, notAllowed.body, notAllowed.headers['allow']]).toEqual([405, '', undefined]);
  });
});

describe('a slash too many', () => {
  it.each([
    ['GET', '/v1/decisions/', 301, '/v1/decisions'],
    ['GET', '/v1/decisions/stream/?startup=true&x=/', 301, '/v1/decisions/stream?startup=true&x=/'],
    ['HEAD', '/v1/decisions/stream/', 307, '/v1/decisions/stream'],
    ['POST', '/v1/usage-metrics/?a', 307, '/v1/usage-metrics?a'],
    ['GET', '/v1/decisions/1/', 301, '/v1/decisions/1'],
  ])('under /v1/ is redirected: %s %s', async (method, target, status, location) => {
    const port = await serve([...DECISIONS, PASSTHROUGH]);
    expect(await ask(port, method, target)).toMatchObject({ status, headers: { location } });
  });

  it('elsewhere is another path', async () => {
    const port = await serve(DECISIONS);
    expect(await ask(port, 'GET', '/health/')).toMatchObject({ status: 404, body: '' });
  });
});

describe('a request behind another on its connection', () => {
  // Fails when answer() does not wait for the turn: a slot would be held, and a deadline run, while nothing can be sent.
  it('is handled when that one is answered', async () => {
    const [exchanges, handled]: [Exchange[], string[]] = [[], []];
    const handle = (exchange: Exchange): void => {
      handled.push(exchange.path);
      exchanges.push(exchange);
    };
    const port = await serve([{ methods: ['GET'], path: '/:name', handle }]);
    const both = say(port, 'GET /1 HTTP/1.1\r\nhost: a\r\n\r\nGET /2 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n');
    await vi.waitUntil(() => handled.length > 0, { interval: 2 });
    await new Promise((resolve) => setImmediate(resolve));
    expect(handled).toEqual(['/1']);
    exchanges[0]?.reply(200, {}, 'one');
    await vi.waitUntil(() => handled.length > 1, { interval: 2 });
    exchanges[1]?.reply(200, {}, 'two');
    expect((await both).text).toMatch(/one.*two$/s);
  });
});

describe('the body of a request', () => {
  it('reaches its route as it was sent, also when it is compressed', async () => {
    const sent = gzipSync('{"metrics":[]}');
    const got: Buffer[] = [];
    const read: Route = {
      methods: ['POST'],
      path: '/v1/usage-metrics',
      handle: async (exchange) => {
        got.push(await exchange.body(1024));
        exchange.reply(201, {}, exchange.header('content-encoding') ?? '');
      },
    };
    const port = await serve([read]);
    for (const headers of [{ 'content-type': 'application/json' }, {}] as const) {
      const response = await fetch(`http://127.0.0.1:${port}/v1/usage-metrics`, {
        method: 'POST',
        headers: { ...headers, 'content-encoding': 'gzip' },
        body: sent,
      });
      expect([response.status, await response.text()]).toEqual([201, 'gzip']);
    }
    expect(got).toEqual([sent, sent]);
  });

  it('that is too long is refused by the route, whoever sent it', async () => {
    const read: Route = {
      methods: '*',
      path: '/v1/*',
      handle: async (exchange) => {
        const body = await exchange.body(10).catch(() => undefined);
        exchange.reply(body === undefined ? 413 : 200, {});
      },
    };
    const port = await serve([read]);
    for (const [length, status] of [
      [10, 200],
      [11, 413],
      [100_000, 413],
    ] as const) {
      const body = 'x'.repeat(length);
      const head = `POST /v1/alerts HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: ${length}\r\n\r\n`;
      expect(await say(port, head + body)).toMatchObject({ status });
    }
  });
});

describe('a request of HTTP/1.0', () => {
  it('is answered with the length of what is at hand', async () => {
    const answer = await ask(await serve(DECISIONS), 'GET', '/v1/decisions', '1.0');
    expect(answer).toMatchObject({ status: 200, headers: { 'content-length': '20' }, body: '/v1/decisions GET {}' });
    expect(answer.headers['transfer-encoding']).toBe(undefined);
  });

  it.each([{ 'content-length': '5' }, {}])('is never answered in chunks: %j', async (headers) => {
    const open: Route = {
      methods: ['GET'],
      path: '/open',
      handle: (exchange) => {
        const channel = exchange.open(200, headers as Readonly<Record<string, string>>);
        channel.write([Buffer.from('he'), Buffer.from('llo')], () => channel.end());
      },
    };
    const answer = await ask(await serve([open]), 'GET', '/open', '1.0');
    expect([answer.body, answer.headers['transfer-encoding']]).toEqual(['hello', undefined]);
  });

  // Fails when a channel is ended instead of killed: the client has no other way to tell a piece from the whole.
  it('that cannot be answered to the end sees a reset', async () => {
    const errors: string[] = [];
    const broken: Route = {
      methods: ['GET'],
      path: '/broken',
      handle: (exchange) => {
        const channel = exchange.open(200, {});
        channel.write([Buffer.from('he')], () => {});
        seen.then(() => channel.kill()).catch(() => undefined);
      },
    };
    const port = await serve([broken]);
    const socket = createConnection({ port, host: '127.0.0.1' });
    const seen = new Promise((resolve) => socket.on('data', resolve));
    socket.on('error', (error: NodeJS.ErrnoException) => errors.push(error.code ?? ''));
    const closed = new Promise((resolve) => socket.on('close', resolve));
    socket.write('GET /broken HTTP/1.0\r\n\r\n');
    await closed;
    expect(errors).toEqual(['ECONNRESET']);
  });
});
