import http from 'node:http';
import http2 from 'node:http2';
import type net from 'node:net';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { serve } from '@hono/node-server';
import express from 'express';
import fastify from 'fastify';
import { type Context, Hono } from 'hono';
import Koa from 'koa';
import type { Transport } from '../../src/delivery/index.ts';
import * as onExpress from '../../src/middleware/express.ts';
import * as onFastify from '../../src/middleware/fastify.ts';
import * as onHono from '../../src/middleware/hono.ts';
import * as onKoa from '../../src/middleware/koa.ts';
import * as onNode from '../../src/middleware/node.ts';
import { turns } from './conditions.ts';

/** Four times what both kernels of a loopback connection take from one that is never read. */
export const BIG_BYTES: number = 16 * 1024 * 1024;
export const BIG: Buffer = Buffer.alloc(BIG_BYTES, 'abcdefghijklmnop');

export type StackName =
  | 'node'
  | 'node, HTTP/2'
  | 'Express'
  | 'Fastify'
  | 'Hono'
  | 'Hono, HTTP/2'
  | 'Koa'
  | 'Koa, HTTP/2';

export const STACKS: readonly StackName[] = [
  'node',
  'node, HTTP/2',
  'Express',
  'Fastify',
  'Hono',
  'Hono, HTTP/2',
  'Koa',
  'Koa, HTTP/2',
];

/**
 * What the handler of each stack does, by its own means, for a path: answers (`/small`, `/big`, `/stream`), hands over
 * (`/deliver`, `/deliver-broken`), fails (`/throw`, `/reject`, `/broken`), never answers (`/never`), answers without a body
 * (`/304`), or waits until the test opens its gate (`/gate`; `/gate/deaf` without a look at its signal).
 */
export class World {
  /** The paths whose handler was run, in order. */
  readonly ran: string[] = [];
  /** The paths whose signal fired, with why. */
  readonly aborted: string[] = [];
  /** What the framework's own error handling got. */
  readonly errors: unknown[] = [];
  /** How many handlers with a slot there were at most. */
  mostHeld = 0;
  readonly #gates: (() => void)[] = [];

  /** Lets the handler that has waited longest at the gate go on. */
  open(): void {
    this.#gates.shift()?.();
  }

  get atGate(): number {
    return this.#gates.length;
  }

  /** To be called by a handler first. */
  async enter(path: string, copy: onNode.Copy, held: () => number): Promise<void> {
    this.ran.push(path);
    this.mostHeld = Math.max(this.mostHeld, held());
    if (!path.endsWith('/deaf')) this.#listen(path, copy.signal);
    if (path.startsWith('/gate')) await new Promise<void>((resolve) => this.#gates.push(resolve));
    if (path === '/never') await new Promise(() => undefined);
    if (path === '/reject') await Promise.reject(new Error('rejected'));
  }

  #listen(path: string, signal: AbortSignal): void {
    signal.addEventListener('abort', () => this.aborted.push(`${path}: ${(signal.reason as Error).message}`));
  }
}

export const THROWN: Error = new Error('thrown');

/** A megabyte, then an error. */
async function* brokenPieces(): AsyncGenerator<Buffer> {
  yield BIG.subarray(0, 1024 * 1024);
  await turns();
  throw new Error('the source broke');
}

/** All of it, piece by piece, as a stream. */
function bigStream(): Readable {
  return Readable.from(pieces());
}

function* pieces(): Generator<Buffer> {
  for (let at = 0; at < BIG_BYTES; at += 65_536) yield BIG.subarray(at, at + 65_536);
}

export interface Stack {
  readonly transport: Transport;
  readonly port: number;
  readonly server: net.Server;
  close(): Promise<void>;
}

/** A service on one stack, all of whose routes are limited by `copies`. */
export async function openStack(name: StackName, copies: onNode.Copies, world: World): Promise<Stack> {
  const server = await SERVERS[name](copies, world);
  const open = new Set<net.Socket>();
  server.on('connection', (socket: net.Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  if (!server.listening) await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    transport: name.endsWith('HTTP/2') ? 'h2c' : 'http1',
    port: (server.address() as AddressInfo).port,
    server,
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

/** Who asks: the header `x-tenant`. */
const tenantOf = (header: unknown): string => (typeof header === 'string' ? header : '');

const SERVERS: Readonly<Record<StackName, (copies: onNode.Copies, world: World) => Promise<net.Server> | net.Server>> =
  {
    node: (copies, world) => attached(copies, http.createServer(nodeListener(copies, world))),
    'node, HTTP/2': (copies, world) => attached(copies, http2.createServer(nodeListener(copies, world))),
    Express: (copies, world) => attached(copies, http.createServer(expressApp(copies, world))),
    Fastify: async (copies, world) => {
      const app = await fastifyApp(copies, world);
      copies.attach(app.server);
      await app.listen({ host: '127.0.0.1', port: 0 });
      return app.server;
    },
    Hono: (copies, world) => honoServer(copies, world, http.createServer),
    'Hono, HTTP/2': (copies, world) => honoServer(copies, world, http2.createServer),
    Koa: (copies, world) => attached(copies, http.createServer(koaListener(copies, world))),
    'Koa, HTTP/2': (copies, world) => attached(copies, http2.createServer(koaListener(copies, world))),
  };

function attached(copies: onNode.Copies, server: net.Server): net.Server {
  copies.attach(server);
  return server;
}

function nodeListener(
  copies: onNode.Copies,
  world: World,
): (req: onNode.NodeRequest, res: onNode.NodeResponse) => void {
  type Res = http.ServerResponse;
  const handler = async (req: onNode.NodeRequest, res: Res, copy: onNode.Copy): Promise<void> => {
    const path = req.url ?? '';
    if (path === '/throw') throw THROWN;
    await world.enter(path, copy, () => copies.held);
    if (path === '/deliver') await onNode.deliver(res, pieces(), { headers: { 'x-way': 'deliver' } });
    else if (path === '/deliver-broken') await onNode.deliver(res, brokenPieces());
    else if (path === '/stream') bigStream().pipe(res);
    else if (path === '/broken')
      Readable.from(brokenPieces())
        .once('error', () => copy.cut('error'))
        .pipe(res);
    else if (path === '/304') res.writeHead(304).end();
    else res.end(path === '/big' ? BIG : path);
  };
  const listener = onNode.limitDeliveries<onNode.NodeRequest, Res>(copies, handler, {
    tenant: (req) => tenantOf(req.headers['x-tenant']),
    onError: (error) => void world.errors.push(error),
  });
  return (req, res) => listener(req, res as Res);
}

function expressApp(copies: onNode.Copies, world: World): express.Express {
  const app = express();
  app.use(onExpress.limitDeliveries(copies, { tenant: (req: express.Request) => tenantOf(req.get('x-tenant')) }));
  app.use(async (req, res) => {
    const { path } = req;
    if (path === '/throw') throw THROWN;
    await world.enter(path, onExpress.copyOf(res), () => copies.held);
    if (path === '/deliver') await onExpress.deliver(res.set('x-way', 'deliver'), pieces());
    else if (path === '/deliver-broken') await onExpress.deliver(res, brokenPieces());
    else if (path === '/stream') bigStream().pipe(res);
    else if (path === '/broken')
      Readable.from(brokenPieces())
        .once('error', () => res.destroy())
        .pipe(res);
    else if (path === '/304') res.status(304).end();
    else if (path === '/big') res.send(BIG);
    else res.type('text').send(path);
  });
  app.use((error: unknown, _req: express.Request, res: express.Response, next: express.NextFunction) => {
    world.errors.push(error);
    if (res.headersSent) next(error);
    else res.status(500).json({ message: 'failed' });
  });
  return app;
}

async function fastifyApp(copies: onNode.Copies, world: World): Promise<ReturnType<typeof fastify>> {
  const app = fastify();
  app.setErrorHandler(async (error, _request, reply) => {
    world.errors.push(error);
    return reply.code(500).send({ message: 'failed' });
  });
  await app.register(onFastify.limitedDeliveries, {
    copies,
    tenant: ({ raw }: onFastify.FastifyRequestLike) => tenantOf(raw.headers['x-tenant']),
  });
  app.get('/*', async (request, reply) => {
    const path = request.url;
    if (path === '/throw') throw THROWN;
    await world.enter(path, onFastify.copyOf(reply), () => copies.held);
    if (path === '/deliver') await onFastify.deliver(reply.header('x-way', 'deliver'), pieces());
    else if (path === '/deliver-broken') await onFastify.deliver(reply, brokenPieces());
    else if (path === '/stream') return reply.send(bigStream());
    else if (path === '/broken') return reply.send(Readable.from(brokenPieces()));
    else if (path === '/304') return reply.code(304).send();
    else return reply.send(path === '/big' ? BIG : path);
    return reply;
  });
  return app;
}

function honoServer(copies: onNode.Copies, world: World, createServer: unknown): net.Server {
  const app = new Hono();
  app.onError((error, c) => {
    world.errors.push(error);
    return c.json({ message: 'failed' }, 500);
  });
  app.use(onHono.limitDeliveries(copies, { tenant: (c: Context) => tenantOf(c.req.header('x-tenant')) }));
  app.all('/*', async (c) => {
    const { path } = c.req;
    if (path === '/throw') throw THROWN;
    await world.enter(path, onHono.copyOf(c), () => copies.held);
    if (path === '/deliver') return onHono.deliver(c, pieces(), { headers: { 'x-way': 'deliver' } });
    if (path === '/deliver-broken') return onHono.deliver(c, brokenPieces());
    if (path === '/stream') return c.body(Readable.toWeb(bigStream()) as ReadableStream);
    if (path === '/broken') return c.body(Readable.toWeb(Readable.from(brokenPieces())) as ReadableStream);
    if (path === '/304') return c.body(null, 304);
    return path === '/big' ? c.body(BIG as unknown as ArrayBuffer) : c.text(path);
  });
  const listening = serve({
    fetch: app.fetch,
    port: 0,
    hostname: '127.0.0.1',
    createServer: createServer as typeof http.createServer,
  });
  copies.attach(listening as net.Server);
  return listening as net.Server;
}

function koaApp(copies: onNode.Copies, world: World): Koa {
  const app = new Koa();
  app.on('error', (error: unknown) => {
    world.errors.push(error);
  });
  app.use(onKoa.limitDeliveries(copies, { tenant: (ctx: Koa.Context) => tenantOf(ctx.get('x-tenant')) }));
  app.use(async (ctx) => {
    const { path } = ctx;
    if (path === '/throw') throw THROWN;
    await world.enter(path, onKoa.copyOf(ctx), () => copies.held);
    if (path === '/deliver') {
      ctx.set('x-way', 'deliver');
      await onKoa.deliver(ctx, pieces());
    } else if (path === '/deliver-broken') await onKoa.deliver(ctx, brokenPieces());
    else if (path === '/stream') ctx.body = bigStream();
    else if (path === '/broken') ctx.body = Readable.from(brokenPieces());
    else if (path === '/304') ctx.status = 304;
    else ctx.body = path === '/big' ? BIG : path;
  });
  return app;
}

function koaListener(copies: onNode.Copies, world: World): (req: onNode.NodeRequest, res: onNode.NodeResponse) => void {
  const callback = koaApp(copies, world).callback();
  return (req, res) => void callback(req, res);
}
