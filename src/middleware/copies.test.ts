import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import http from 'node:http';
import type net from 'node:net';
import { connect as connectSocket } from 'node:net';
import type { AddressInfo } from 'node:net';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { turns, until } from '../../test/support/conditions.ts';
import { BIG, BIG_BYTES } from '../../test/support/middleware.ts';
import { ask, connect, kernelConnections, openRig, type Rig, TRANSPORTS } from '../../test/support/transports.ts';
import type { Transport } from '../delivery/index.ts';
import { FakeClock } from '../kernel/index.ts';
import * as onExpress from './express.ts';
import * as onFastify from './fastify.ts';
import * as onHono from './hono.ts';
import { Copies, type CopiesOptions, copyOf, deliver, type EndedFact, limitDeliveries, type ShedFact } from './node.ts';

const open: { close(): Promise<void> }[] = [];
// the machine may be busy with other work: a condition that holds is seen at once
vi.setConfig({ testTimeout: 30_000 });

afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
  vi.restoreAllMocks();
});

type Handler = (req: http.IncomingMessage, res: http.ServerResponse) => unknown;

interface Setup {
  readonly clock: FakeClock;
  readonly copies: Copies;
  readonly rig: Rig;
  readonly errors: unknown[];
}

async function setUp(transport: Transport, handler: Handler, options: Partial<CopiesOptions> = {}): Promise<Setup> {
  const clock = new FakeClock();
  const copies = new Copies({ maxConcurrent: 1, slackMs: 2000, clock, ...options });
  const errors: unknown[] = [];
  const listener = limitDeliveries(copies, handler, { onError: (error) => void errors.push(error) });
  const rig = await openRig(transport, () => undefined, { lowWater: false });
  // the rig listens already: what a server that is attached before has, it finds by itself
  copies.attach(rig.server);
  rig.server.on('request', listener);
  open.push(rig);
  return { clock, copies, rig, errors };
}

/** The head of an answer, as it was sent. */
async function headOf(port: number): Promise<string> {
  const socket = connectSocket(port, '127.0.0.1');
  socket.write('GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n');
  let text = '';
  for await (const part of socket) text += String(part);
  return text.split('\r\n\r\n')[0] ?? '';
}

async function listen(server: net.Server): Promise<Rig> {
  if (!server.listening) await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async (): Promise<void> => {
    (server as http.Server).closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  open.push({ close });
  const { port } = server.address() as AddressInfo;
  return { transport: 'http1', port, server, rawSockets: undefined as never, faults: [], close };
}

describe.each(TRANSPORTS)('over %s', (transport) => {
  // Fails, under TLS, when attach() does not track the sockets: the connection is then destroyed, and stays in the kernel.
  it('a response that its handler writes is cut by a reset, and the next one served', async () => {
    const { clock, copies, rig } = await setUp(transport, (req, res) => void res.end(req.url === '/' ? BIG : 'next'));
    const stalled = await ask(rig, '/', { reads: false });
    const over = connect(rig);
    const next = ask(rig, '/next', { over });
    await until('one in the queue', () => copies.waiting === 1);
    await until('the cut', () => {
      clock.advance(250);
      return copies.stats().ended.stalled === 1;
    });
    expect(await (await next).ended).toBe('whole');
    over.destroy();
    // before this client reads on
    if (transport.startsWith('http')) await until('no connection', () => (kernelConnections(rig.port) ?? 0) === 0);
    stalled.read();
    expect(await stalled.ended).toBe('broken');
  });

  it('a slow but steady reader gets all of it', async () => {
    const { clock, copies, rig } = await setUp(transport, (_req, res) => void res.end(BIG));
    const answer = await ask(rig, '/', { reads: false });
    // behind by less than the slack, then in time again
    for (let look = 0; look < 7; look++) {
      clock.advance(250);
      await turns(3);
    }
    answer.read();
    expect([await answer.ended, answer.bytes]).toEqual(['whole', BIG_BYTES]);
    await until('the slot free', () => copies.held === 0);
    expect(copies.stats().ended.completed).toBe(1);
  });

  // Fails when deliver() is given no `parking`.
  it('a reader that takes nothing of what is delivered lends its slot to those who wait', async () => {
    const { clock, copies, rig } = await setUp(transport, (req, res) => deliver(res, req.url === '/' ? BIG : 'next'));
    const stalled = await ask(rig, '/', { reads: false });
    const next = ask(rig, '/next');
    await until('one in the queue', () => copies.waiting === 1);
    await until('the next one', () => {
      clock.advance(50);
      return copies.stats().ended.completed === 1;
    });
    expect(clock.now()).toBeLessThan(2000);
    expect([await (await next).ended, copies.held, copies.stats().parked]).toEqual(['whole', 0, 1]);
    stalled.read();
    expect([await stalled.ended, stalled.bytes]).toEqual(['whole', BIG_BYTES]);
    await until('all ended', () => copies.stats().ended.completed === 2);
    expect(copies.stats().parked).toBe(0);
  });
});

describe('delivering', () => {
  it('keeps the status and the headers that were set, and announces the length', async () => {
    const { rig } = await setUp('http1', (_req, res) => {
      res.statusCode = 206;
      res.setHeader('x-set', '1');
      return deliver(res, ['one', Buffer.from('two')], { headers: { 'x-given': '2' } });
    });
    const { status, headers, ended } = await ask(rig);
    await ended;
    expect([status, headers['x-set'], headers['x-given'], headers['content-length']]).toEqual([206, '1', '2', '6']);
  });

  // Rule 1. Fails when a length that was announced, in either way, is not held against what came.
  it.each(['set', 'given'])('what is shorter than was announced is broken: %s', async (how) => {
    const { rig, copies } = await setUp('http1', (_req, res) => {
      if (how === 'given') return deliver(res, 'short', { headers: { 'content-length': '100' } });
      res.setHeader('content-length', 100);
      return deliver(res, 'short');
    });
    const answer = await ask(rig).then(
      ({ ended }) => ended,
      () => 'broken',
    );
    expect(answer).toBe('broken');
    await until('the slot free', () => copies.held === 0);
  });

  // Rule 1. Fails when lengthOf does not hand a length on that was set before.
  it('of pieces that come one by one is held to the length that was set before', async () => {
    const { rig, copies } = await setUp('http1', (_req, res) => {
      res.setHeader('content-length', 100);
      return deliver(res, new Set(['short']).values());
    });
    const answer = await ask(rig);
    expect(await answer.ended).toBe('broken');
    await until('the slot free', () => copies.held === 0);
    expect(copies.stats().ended.completed).toBe(0);
  });

  // Fails when names are taken as they are spelled: two lengths make a response that no client may read.
  it('sends a header once, however it is spelled', async () => {
    const { rig } = await setUp('http1', (_req, res) =>
      deliver(res, 'hello', { headers: { 'Content-Length': '5', 'Content-Type': 'text/plain' } }),
    );
    const head = await headOf(rig.port);
    expect(head.match(/content-length/gi)).toHaveLength(1);
  });

  // RFC 9110, section 8.6. Fails when lengthOf does not look at the status.
  it('with a 204 announces no length, and asks its source for nothing', async () => {
    const next = vi.fn<() => undefined>();
    const { rig } = await setUp('http1', (_req, res) => {
      res.statusCode = 204;
      return deliver(res, { bytes: 5, next });
    });
    expect(await headOf(rig.port)).not.toMatch(/content-length/i);
    expect(next.mock.calls).toEqual([]);
  });

  it('refuses what is no payload before anything is sent', async () => {
    const { rig, errors } = await setUp('http1', (_req, res) => deliver(res, { rows: [] } as never));
    await ask(rig).catch(() => undefined);
    await until('the error', () => errors.length === 1);
    expect(String(errors[0])).toContain('a payload must be');
  });

  // Rule 9. Fails when deliver() does not say whose turn it is: the wait for a slot is then taken for the handler's.
  it('that waits for its slot to go on is not the silence of its handler', async () => {
    let write = (): void => undefined;
    const { rig, copies, clock } = await setUp(
      'http1',
      (req, res) => {
        if (req.url === '/') return deliver(res, BIG);
        write = () => void res.write('.');
        return undefined;
      },
      { slackMs: 600_000, capMs: 6_000_000, handlerMsMax: 2000, waitMsMax: 600_000 },
    );
    const parked = await ask(rig, '/', { reads: false });
    const holder = ask(rig, '/holder');
    await until('the slot lent', () => {
      clock.advance(25);
      return copies.stats().parked === 1;
    });
    await until('the holder', () => copies.stats().admitted === 2);
    parked.read();
    const readBefore = parked.bytes;
    await until('what was written is taken', () => parked.bytes > readBefore);
    await turns(20);
    // the reader has all that was written, and nothing is read from the source: the place is somebody else's
    for (let ms = 0; ms < 6000; ms += 250) {
      write();
      clock.advance(250);
      await turns(3);
    }
    expect(copies.stats().ended).toMatchObject({ overdue: 0, stalled: 0 });
    (await holder).leave();
    expect([await parked.ended, parked.bytes]).toEqual(['whole', BIG_BYTES]);
  });

  it('is not possible twice, nor once the response was begun', async () => {
    const { rig, errors } = await setUp('http1', async (req, res) => {
      if (req.url === '/begun') res.write('begun');
      else await deliver(res, 'one');
      await deliver(res, 'two');
    });
    expect(await (await ask(rig, '/twice')).ended).toBe('whole');
    await ask(rig, '/begun').catch(() => undefined);
    await until('both errors', () => errors.length === 2);
    expect(errors.map((error) => (error as { code: string }).code)).toEqual(['HG_OPTION', 'HG_OPTION']);
  });

  // Fails when deliver() does not abandon what it could not send.
  it('ends a generator whose client has left', async () => {
    let ended = 0;
    async function* endless(): AsyncGenerator<Buffer> {
      try {
        for (;;) yield BIG.subarray(0, 65_536);
      } finally {
        ended++;
      }
    }
    const { rig, copies } = await setUp('http1', (_req, res) => deliver(res, endless()));
    const answer = await ask(rig);
    answer.leave();
    await until('the slot free', () => copies.held === 0);
    await until('the generator ended', () => ended === 1);
    expect(copies.stats().ended.client_gone).toBe(1);
  });

  it('a source that never gives anything is overdue', async () => {
    const { rig, copies, clock } = await setUp('http1', (_req, res) =>
      deliver(res, { bytes: undefined, next: () => new Promise(() => undefined) }),
    );
    const answer = await ask(rig);
    await until('overdue', () => {
      clock.advance(250);
      return copies.stats().ended.overdue === 1;
    });
    expect([await answer.ended, copies.held]).toEqual(['broken', 0]);
  });
});

describe('a handler of node:http that fails', () => {
  it('may still be answered for, and is given up otherwise', async () => {
    const copies = new Copies({ maxConcurrent: 1 });
    const errors: unknown[] = [];
    const failing = (req: http.IncomingMessage): never => {
      throw new Error(req.url);
    };
    const onError = (error: unknown, req: http.IncomingMessage, res: http.ServerResponse): void => {
      errors.push(error);
      if (req.url === '/answered') res.writeHead(500).end('failed');
    };
    const rig = await listen(http.createServer(limitDeliveries(copies, failing, { onError })));
    const answered = await ask(rig, '/answered');
    expect([answered.status, await answered.ended]).toEqual([500, 'whole']);
    await expect(ask(rig, '/not')).rejects.toThrow(/socket hang up|ECONNRESET/);
    await until('both ended', () => copies.held === 0);
    const { completed, error } = copies.stats().ended;
    expect([errors, completed, error]).toEqual([[new Error('/answered'), new Error('/not')], 1, 1]);
  });

  // Fails when only the handler's errors are caught: the client then waits for ever.
  it('and a tenant that nobody can tell, are told alike', async () => {
    const errors: unknown[] = [];
    const tenant = (): string => {
      throw new Error('no tenant');
    };
    const onError = (error: unknown): void => void errors.push(error);
    const copies = new Copies({ maxConcurrent: 1 });
    const rig = await listen(http.createServer(limitDeliveries(copies, () => undefined, { tenant, onError })));
    await expect(ask(rig)).rejects.toThrow(/socket hang up|ECONNRESET/);
    expect([errors, copies.held]).toEqual([[new Error('no tenant')], 0]);
  });

  // Fails when isCalledOff is not asked: a client that leaves would be an unhandled rejection, and the end of the process.
  it('because its client has left is no error', async () => {
    let rejected = 0;
    const { rig, copies, errors } = await setUp('http1', async (_req, res) => {
      const { signal } = copyOf(res);
      res.flushHeaders();
      await new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error)),
      ).finally(() => rejected++);
    });
    (await ask(rig)).leave();
    await until('the handler told', () => rejected === 1);
    await turns(5);
    expect([errors, copies.held]).toEqual([[], 0]);
  });
});

describe('a limit', () => {
  // Fails when admit() does not know what it admitted.
  it('that stands on the router and on the route takes one slot', async () => {
    const copies = new Copies({ maxConcurrent: 1, maxQueued: 0 });
    const app = express();
    app.use(onExpress.limitDeliveries(copies));
    app.get('/', onExpress.limitDeliveries(copies), (_req, res) => void res.send('ok'));
    const answer = await ask(await listen(http.createServer(app)));
    expect([answer.status, await answer.ended, copies.stats().admitted]).toEqual([200, 'whole', 1]);
  });

  it('passes an error of the function that names the tenant on', async () => {
    const copies = new Copies({ maxConcurrent: 1 });
    const app = express();
    const tenant = (): string => {
      throw new Error('no tenant');
    };
    app.get('/', onExpress.limitDeliveries(copies, { tenant }));
    app.use(
      ((error: Error, _req, res, _next) =>
        void res.status(418).send(error.message)) satisfies express.ErrorRequestHandler,
    );
    const answer = await ask(await listen(http.createServer(app)));
    expect([answer.status, await answer.ended, answer.text, copies.held]).toEqual([418, 'whole', 'no tenant', 0]);
  });

  // Fails when enter() does not look whether the response is over.
  it('takes no slot for a response that was ended before', async () => {
    const copies = new Copies({ maxConcurrent: 1 });
    let ran = 0;
    const app = express();
    app.use((_req, res, next) => {
      res.end(BIG);
      next();
    });
    app.use(onExpress.limitDeliveries(copies), () => void ran++);
    // still on its way when the limit is asked
    const answer = await ask(await listen(http.createServer(app)), '/', { reads: false });
    await until('that is seen', () => copies.stats().shed.aborted + copies.stats().admitted === 1);
    answer.read();
    expect(await answer.ended).toBe('whole');
    expect([ran, copies.stats().admitted]).toEqual([0, 0]);
  });

  it('of a Fastify scope is for the routes of that scope', async () => {
    const copies = new Copies({ maxConcurrent: 1 });
    const app = fastify();
    app.get('/health', async () => 'ok');
    await app.register(async (scope) => {
      await scope.register(onFastify.limitedDeliveries, { copies });
      scope.get('/export', async () => 'all');
    });
    await app.listen({ host: '127.0.0.1', port: 0 });
    const rig = await listen(app.server);
    expect(await (await ask(rig, '/health')).ended).toBe('whole');
    expect(copies.stats().admitted).toBe(0);
    expect(await (await ask(rig, '/export')).ended).toBe('whole');
    expect(copies.stats().admitted).toBe(1);
  });

  // Fails when a meter takes what a socket says of itself as it is: nothing, here.
  it('works where Fastify calls itself', async () => {
    const copies = new Copies({ maxConcurrent: 1, maxQueued: 0 });
    const app = fastify();
    await app.register(onFastify.limitedDeliveries, { copies });
    app.get('/', async () => 'all');
    app.get('/deliver', (_request, reply) => onFastify.deliver(reply, 'delivered'));
    expect([(await app.inject('/')).body, (await app.inject('/deliver')).body]).toEqual(['all', 'delivered']);
    const { held, bytes, ended } = copies.stats();
    expect([held, Number.isFinite(bytes), ended.completed]).toEqual([0, true, 2]);
  });

  it('of Hono refuses to work where nobody can say when a response has left', async () => {
    const app = new Hono();
    const errors: unknown[] = [];
    app.onError((error, c) => {
      errors.push(error);
      return c.text(error.message, 500);
    });
    app.get('/', onHono.limitDeliveries(new Copies({ maxConcurrent: 1 })), (c) => c.text('unguarded'));
    const elsewhere = await app.request('/');
    expect([elsewhere.status, await elsewhere.text()]).toEqual([
      500,
      'Cannot limit deliveries: Hono must run on @hono/node-server, got neither request nor response of Node',
    ]);
    const upgrade = await app.request('/', undefined, { incoming: new http.IncomingMessage(undefined as never) });
    expect(await upgrade.text()).toContain('got a request without its response');
    expect(errors.map((error) => (error as { code: string }).code)).toEqual(['HG_OPTION', 'HG_OPTION']);
  });

  it('tells whoever asks for a copy without one what is missing', () => {
    const res = new http.ServerResponse(new http.IncomingMessage(undefined as never));
    expect(() => copyOf(res)).toThrow('limitDeliveries must come before');
  });
});

describe('copies', () => {
  it.each<[Partial<CopiesOptions>, string]>([
    [{ maxConcurrent: 0 }, 'maxConcurrent must be a positive integer, got 0'],
    [{ maxQueued: -1 }, 'maxQueued must be'],
    [{ waitMsMax: Number.NaN }, 'waitMsMax must be'],
    [{ maxParked: 1.5 }, 'maxParked must be'],
    [{ floorBytesPerSecond: 0 }, 'floorBytesPerSecond must be a positive number, got 0'],
    [{ slackMs: -1 }, 'slackMs must be'],
    [{ creditMs: 0 }, 'creditMs must be'],
    [{ sweepMs: 0 }, 'sweepMs must be'],
    [{ capMs: 0 }, 'capMs must be a positive number, got 0'],
    [{ handlerMsMax: Number.NaN }, 'handlerMsMax must be a positive number, got NaN'],
    [{ leftMsMax: -1 }, 'leftMsMax must be a positive number, got -1'],
  ])('refuse %o', (options, message) => {
    expect(() => new Copies({ maxConcurrent: 1, ...options })).toThrow(message);
  });

  it('make known whom they shed, and how each copy ended', async () => {
    const facts: unknown[] = [];
    const onShed = (fact: unknown): void => void facts.push(fact as ShedFact);
    const onEnded = (fact: unknown): void => void facts.push(fact as EndedFact);
    subscribe('headgate:middleware.shed', onShed);
    subscribe('headgate:middleware.ended', onEnded);
    let end = (): void => undefined;
    const { rig, copies } = await setUp('http1', (_req, res) => void (end = () => res.writeHead(201).end('four')), {
      name: 'exports',
      maxQueued: 0,
    });
    const first = ask(rig);
    await until('the handler', () => copies.held === 1);
    await (await ask(rig)).ended;
    end();
    await (await first).ended;
    await until('both facts', () => facts.length === 2);
    unsubscribe('headgate:middleware.shed', onShed);
    unsubscribe('headgate:middleware.ended', onEnded);
    expect(facts).toEqual([
      { name: 'exports', reason: 'full', tenant: '', waitedMs: 0, retryAfterSeconds: expect.any(Number) },
      { name: 'exports', ending: 'completed', tenant: '', status: 201, bytes: expect.any(Number), waitedMs: 0, ms: 0 },
    ]);
  });

  it('wait less for readers where the low-water mark is set on every server', async () => {
    const server = http.createServer();
    const copies = new Copies({ maxConcurrent: 1 });
    copies.attach(server);
    await listen(server);
    expect([10_000, 30_000]).toContain(copies.slackMs);
    const blind = http.createServer();
    copies.attach(blind, { lowWater: false });
    const before = copies.slackMs;
    await listen(blind);
    // unless the system sets the mark on all of them
    expect([before, 30_000]).toContain(copies.slackMs);
  });

  // Fails when enter() forgets the copy of a client that left as its turn came.
  it('forget a client that leaves in the very turn in which its slot is free', async () => {
    const ran: string[] = [];
    const { rig, copies } = await setUp('http1', (req, res) => {
      ran.push(req.url ?? '');
      if (req.url === '/first') void new Promise<void>((resolve) => (go = resolve)).then(() => res.end('one'));
      else res.end('two');
    });
    let go = (): void => undefined;
    const first = ask(rig, '/first');
    await until('the handler', () => ran.length === 1);
    const sockets: net.Socket[] = [];
    rig.server.on('connection', (socket: net.Socket) => sockets.push(socket));
    const over = connect(rig);
    const second = ask(rig, '/second', { over }).catch(() => 'broken');
    await until('one in the queue', () => copies.waiting === 1);
    go();
    // Node tells the response of its end a turn later
    for (const socket of sockets) socket.destroy();
    expect(await second).toBe('broken');
    await (await first).ended;
    await until('all free', () => copies.held + copies.waiting === 0);
    expect(ran).toEqual(['/first']);
    over.destroy();
  });
});
