import { afterEach, describe, expect, it, vi } from 'vitest';
import { type RequestFact, requested } from './requests.ts';
import type { Route } from './route.ts';
import { Server } from './server.ts';

let finish: (() => void) | undefined;
const routes: readonly Route[] = [
  { methods: ['GET'], path: '/item/:key', handle: (exchange) => exchange.reply(204, {}) },
  {
    methods: ['GET'],
    path: '/stream',
    handle: (exchange) => {
      const channel = exchange.open(200, {});
      finish = () => channel.end();
    },
  },
];

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

async function start(): Promise<{ server: Server; url: string }> {
  const server = await Server.create(
    {
      host: '127.0.0.1',
      port: 0,
      backlog: 16,
      http2: false,
      http2ConcurrentStreamsMax: 100,
      headersTimeoutMs: 10_000,
      requestTimeoutMs: 30_000,
      keepAliveTimeoutMs: 5000,
      headerBytesMax: 16_384,
      bodyBytesMax: 1024,
      onFailure: () => {},
    },
    routes,
  );
  const { port } = await server.listen();
  stops.push(() => {
    server.stopAccepting();
    server.closeIdle();
  });
  return { server, url: `http://127.0.0.1:${port}` };
}

describe('requests', () => {
  it('are made known when they are over, by route, method and status', async () => {
    const { url } = await start();
    const facts: RequestFact[] = [];
    stops.push(requested.listen((fact) => facts.push(fact)));
    for (const [path, method] of [
      ['/item/a', 'GET'],
      ['/item/b', 'POST'],
      ['/nowhere', 'GET'],
    ] as const) {
      await (await fetch(url + path, { method })).text();
    }
    await vi.waitFor(() => expect(facts).toHaveLength(3));
    expect(facts.map(({ route, method, status, complete }) => [route, method, status, complete])).toEqual([
      ['/item/:key', 'GET', 204, true],
      ['405', 'POST', 405, true],
      ['404', 'GET', 404, true],
    ]);
  });

  it('are under way until then, and are cut when their client leaves', async () => {
    const { server, url } = await start();
    const facts: RequestFact[] = [];
    stops.push(requested.listen((fact) => facts.push(fact)));
    const leaving = new AbortController();
    await fetch(`${url}/stream`, { signal: leaving.signal });
    const response = await fetch(`${url}/stream`);
    expect(server.activeRequests).toBe(2);
    finish?.();
    await response.text();
    leaving.abort();
    await vi.waitFor(() => expect(server.activeRequests).toBe(0));
    expect(facts.map(({ complete }) => complete)).toEqual(expect.arrayContaining([false, true]));
  });

  // Fails when the check of `isHeard` in `begin` is removed.
  it('cost nothing while nobody listens', async () => {
    const { server, url } = await start();
    const response = await fetch(`${url}/stream`);
    expect(server.activeRequests).toBe(0);
    finish?.();
    await response.text();
  });
});
