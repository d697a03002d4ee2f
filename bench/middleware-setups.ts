/** The libraries of the comparison, each set up as its documentation says, and with all that it offers against abuse. */
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { finished } from 'node:stream/promises';
import { bulkhead, type BulkheadPolicy, TimeoutStrategy, timeout, wrap } from 'cockatiel';
import express from 'express';
import queueOf from 'express-queue';
import fastify from 'fastify';
import underPressure from '@fastify/under-pressure';
import pLimit from 'p-limit';
import PQueue from 'p-queue';
import { limitDeliveries as limitExpress } from '../src/middleware/express.ts';
import { Copies, deliver, limitDeliveries } from '../src/middleware/node.ts';
import { LIMITS, makeCopy } from './middleware-copy.ts';

/** A server that was made. It does not listen yet. */
export interface Made {
  readonly server: Server;
  /** Requests that the limiter counts at the moment. */
  counted?(): number;
}

/** One of the things that are compared. */
export interface Setup {
  readonly name: string;
  /** The package whose version is named. */
  readonly package?: string;
  /** How it was set up, and why. */
  readonly note: string;
  make(): Promise<Made> | Made;
}

function send(res: ServerResponse, body: Buffer): void {
  res.writeHead(200, { 'content-type': 'application/json', 'content-length': body.byteLength });
  res.end(body);
}

function refuse(res: ServerResponse): void {
  if (res.headersSent || res.destroyed) return void res.destroy();
  res.writeHead(503, { 'retry-after': '1', 'content-length': '0' });
  res.end();
}

/** Fires when the client has gone before the response was complete. */
function goneSignal(res: ServerResponse): AbortSignal {
  const controller = new AbortController();
  res.once('close', () => res.writableFinished || controller.abort());
  return controller.signal;
}

/** Makes a copy and sends it, to the last byte or until the client has gone. */
async function serveWhole(req: IncomingMessage, res: ServerResponse, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted === true || res.destroyed) return;
  send(res, await makeCopy(req.socket, signal));
  await finished(res);
}

/** Answers whatever a promise rejects with. */
function listener(serve: (req: IncomingMessage, res: ServerResponse) => Promise<void>): RequestListener {
  return (req, res) => {
    serve(req, res).catch(() => refuse(res));
  };
}

const nothing: Setup = {
  name: 'nothing (node:http)',
  note: 'the handler alone: makes the copy, then `res.end(copy)`',
  make: () => ({ server: createServer(listener(async (req, res) => send(res, await makeCopy(req.socket)))) }),
};

const pLimitWork: Setup = {
  name: 'p-limit, the work',
  package: 'p-limit',
  note: 'as its first example: `limit(() => makeCopy())`. A request is refused when `limit.pendingCount` has reached the bound of the queue',
  make: () => {
    const limit = pLimit(LIMITS.slots);
    const server = createServer(
      listener(async (req, res) => {
        if (limit.pendingCount >= LIMITS.queue) return refuse(res);
        send(res, await limit(() => makeCopy(req.socket)));
      }),
    );
    return { server, counted: () => limit.activeCount + limit.pendingCount };
  },
};

const pLimitWhole: Setup = {
  name: 'p-limit, to the end',
  package: 'p-limit',
  note: 'the limited function ends when the response has (`finished(res)`), and does nothing when the client has gone by its turn. It has no timeout and no cancellation',
  make: () => {
    const limit = pLimit(LIMITS.slots);
    const server = createServer(
      listener(async (req, res) => {
        if (limit.pendingCount >= LIMITS.queue) return refuse(res);
        await limit(() => serveWhole(req, res, goneSignal(res)));
      }),
    );
    return { server, counted: () => limit.activeCount + limit.pendingCount };
  },
};

const pQueue: Setup = {
  name: 'p-queue',
  package: 'p-queue',
  note: 'to the end of the response; `timeout` for sending, after which the response is destroyed, or refused when it has not begun; `signal` takes a client that has gone or waited too long out of the queue; refused when `queue.size` has reached the bound',
  make: () => {
    const queue = new PQueue({ concurrency: LIMITS.slots, timeout: LIMITS.sendMs });
    const server = createServer(
      listener(async (req, res) => {
        if (queue.size >= LIMITS.queue) return refuse(res);
        const gone = goneSignal(res);
        const waited = new AbortController();
        const timer = setTimeout(() => waited.abort(), LIMITS.waitMs);
        const run = (): Promise<void> => {
          clearTimeout(timer);
          return serveWhole(req, res, gone);
        };
        try {
          await queue.add(run, { signal: AbortSignal.any([gone, waited.signal]) });
        } catch {
          refuse(res);
        } finally {
          clearTimeout(timer);
        }
      }),
    );
    return { server, counted: () => queue.pending + queue.size };
  },
};

/** What the gate of cockatiel counts: what runs and what waits. */
function countedBy(gate: BulkheadPolicy): () => number {
  return () => LIMITS.slots - gate.executionSlots + LIMITS.queue - gate.queueSlots;
}

const cockatiel: Setup = {
  name: 'cockatiel',
  package: 'cockatiel',
  note: '`wrap(bulkhead(slots, queue), timeout)` to the end of the response; the timeout destroys what is not sent by then; does nothing when the client has gone by its turn',
  make: () => {
    const gate = bulkhead(LIMITS.slots, LIMITS.queue);
    const policy = wrap(gate, timeout(LIMITS.sendMs, TimeoutStrategy.Aggressive));
    const server = createServer(
      listener(async (req, res) => {
        const gone = goneSignal(res);
        try {
          const run = ({ signal }: { signal: AbortSignal }): Promise<void> =>
            serveWhole(req, res, AbortSignal.any([gone, signal]));
          // a signal of its own: without one all share one, and Node warns of its listeners
          await policy.execute(run, new AbortController().signal);
        } catch {
          refuse(res);
        }
      }),
    );
    return { server, counted: countedBy(gate) };
  },
};

const cockatielSignal: Setup = {
  name: 'cockatiel, with signals',
  package: 'cockatiel',
  note: 'the same, and `execute` is given a signal that aborts when the client has gone or has waited too long. In this version one that aborts in the queue takes the turn of the next ([connor4312/cockatiel#114](https://github.com/connor4312/cockatiel/pull/114)): with enough of them the queue stands',
  make: () => {
    const gate = bulkhead(LIMITS.slots, LIMITS.queue);
    const policy = wrap(gate, timeout(LIMITS.sendMs, TimeoutStrategy.Aggressive));
    const server = createServer(
      listener(async (req, res) => {
        const waited = new AbortController();
        const timer = setTimeout(() => waited.abort(), LIMITS.waitMs);
        const run = async ({ signal }: { signal: AbortSignal }): Promise<void> => {
          clearTimeout(timer);
          await serveWhole(req, res, signal);
        };
        try {
          await policy.execute(run, AbortSignal.any([goneSignal(res), waited.signal]));
        } catch {
          refuse(res);
        } finally {
          clearTimeout(timer);
        }
      }),
    );
    return { server, counted: countedBy(gate) };
  },
};

const expressQueue: Setup = {
  name: 'express-queue (Express)',
  package: 'express-queue',
  note: '`queue({ activeLimit, queuedLimit })` before the handler, which is the same; it counts a request until `res.end()` is called, and takes a client that has gone out of the queue',
  make: () => {
    const limit = queueOf({ activeLimit: LIMITS.slots, queuedLimit: LIMITS.queue });
    const app = express();
    app.get('/copy', limit, async (req, res) => send(res, await makeCopy(req.socket)));
    return { server: createServer(app), counted: () => limit.queue.activeCount + limit.queue.getLength() };
  },
};

/** What a server with all slots in use takes, and some. */
const RSS_BYTES_MAX = 512e6;

const pressure: Setup = {
  name: '@fastify/under-pressure (Fastify)',
  package: '@fastify/under-pressure',
  note: `refuses while \`maxRssBytes\` (${RSS_BYTES_MAX / 1e6} MB) or \`maxEventLoopDelay\` (1 s) is passed, looked at every 100 ms; \`retryAfter: 1\`. It counts nothing`,
  make: async () => {
    const app = fastify();
    await app.register(underPressure, {
      maxEventLoopDelay: 1000,
      maxRssBytes: RSS_BYTES_MAX,
      sampleInterval: 100,
      retryAfter: 1,
    });
    app.get('/copy', async (request, reply) => {
      const body = await makeCopy(request.raw.socket);
      return reply.type('application/json').send(body);
    });
    await app.ready();
    return { server: app.server };
  },
};

function copiesOf(): Copies {
  const { slots: maxConcurrent, queue: maxQueued, waitMs: waitMsMax, sendMs: slackMs } = LIMITS;
  return new Copies({ maxConcurrent, maxQueued, waitMsMax, slackMs });
}

/** Headgate's numbers, as those of the others are asked for. */
function madeOf(copies: Copies, server: Server): Made {
  copies.attach(server);
  const counted = (): number => {
    const { held, waiting, parked } = copies.stats();
    return held + waiting + parked;
  };
  return { server, counted };
}

const headgateSame: Setup = {
  name: 'Headgate, same handler (Express)',
  package: 'headgate',
  note: '`limitDeliveries(copies)` before the handler, which is the same, and ends with `res.end(copy)`',
  make: () => {
    const copies = copiesOf();
    const app = express();
    app.get('/copy', limitExpress(copies), async (req, res) => send(res, await makeCopy(req.socket)));
    return madeOf(copies, createServer(app));
  },
};

const headgate: Setup = {
  name: 'Headgate, deliver',
  package: 'headgate',
  note: '`limitDeliveries(copies, handler)` of node:http; the handler hands `copy.signal` on, and ends with `deliver(res, copy)`, so that a reader that takes nothing lends its slot to those who wait',
  make: () => {
    const copies = copiesOf();
    const handler = limitDeliveries(copies, async (req, res, { signal }) => {
      const body = await makeCopy(req.socket, signal);
      await deliver(res, body, { headers: { 'content-type': 'application/json' } });
    });
    return madeOf(copies, createServer(handler));
  },
};

/** In the order of the tables. The first is what the others are compared with. */
export const SETUPS: readonly Setup[] = [
  nothing,
  pLimitWork,
  pLimitWhole,
  pQueue,
  cockatiel,
  cockatielSignal,
  expressQueue,
  pressure,
  headgateSame,
  headgate,
];
