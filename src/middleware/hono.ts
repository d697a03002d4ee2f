import { IncomingMessage, ServerResponse } from 'node:http';
import { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import type { ReplyHeaders } from '../delivery/index.ts';
import { HeadgateError } from '../kernel/index.ts';
import { admit, copyOfResponse } from './admit.ts';
import type { Copies } from './copies.ts';
import type { Copy } from './copy.ts';
import type { LimitOptions, NodeRequest, NodeResponse, Payload } from './types.ts';

export * from './shared.ts';

/** What is needed of Hono's context. */
export interface HonoContextLike {
  /** What the adapter gives: `incoming` and `outgoing`, on `@hono/node-server`. */
  readonly env: unknown;
}

/**
 * Middleware for Hono on `@hono/node-server`: what comes after it runs only with a slot of `copies`. Those who find none
 * wait, or are answered 503; what is thrown goes to `app.onError` as ever. The slot is held until the adapter has sent the
 * `Response`, streams too.
 *
 * On other runtimes nobody can say when a response has left: there every request fails with `HG_OPTION`.
 *
 * @example
 * import { serve } from '@hono/node-server';
 * import { Hono } from 'hono';
 * import type { AddressInfo } from 'node:net';
 * import { Copies, limitDeliveries } from 'headgate/middleware/hono';
 *
 * const app = new Hono();
 * const copies = new Copies({ maxConcurrent: 64, maxQueued: 1000, waitMsMax: 5000 });
 * app.get('/export', limitDeliveries(copies), (c) => c.json({ rows: [1, 2, 3] }));
 *
 * const server = serve({ fetch: app.fetch, port: 0 });
 * const response = await fetch(`http://localhost:${(server.address() as AddressInfo).port}/export`);
 * console.log(await response.text()); // {"rows":[1,2,3]}
 * server.close();
 */
export function limitDeliveries<Context extends HonoContextLike = HonoContextLike>(
  copies: Copies,
  options: LimitOptions<Context> = {},
): (c: Context, next: () => Promise<void>) => Promise<Response | undefined> {
  return async (c, next) => {
    const { copy, shed } = await admit(copies, { ...nodeOf(c), request: c }, options);
    if (copy !== undefined) {
      try {
        await next();
      } finally {
        copy.handled();
      }
      return undefined;
    }
    if (shed === undefined) return alreadySent();
    return new Response(shed.body, { status: shed.status, headers: shed.headers });
  };
}

/**
 * The copy that a context is: its signal, and its numbers.
 *
 * @throws HeadgateError `HG_OPTION` for a context that `limitDeliveries` has not admitted.
 * @example
 * import { Hono } from 'hono';
 * import { Copies, copyOf, limitDeliveries } from 'headgate/middleware/hono';
 *
 * const copies = new Copies({ maxConcurrent: 64 });
 * new Hono().get('/export', limitDeliveries(copies), async (c) => {
 *   const rows = await fetch('http://localhost:9000/rows', { signal: copyOf(c).signal });
 *   return c.json(await rows.json());
 * });
 */
export function copyOf(c: HonoContextLike): Copy {
  return copyOfResponse(nodeOf(c).res);
}

/**
 * Answers with a payload: under a deadline for the reader, and by the ration that all copies share. See {@link Copy}. It is
 * sent around Hono: return what this promises, and give the status and headers here.
 *
 * @throws HeadgateError `HG_OPTION` for a context that was not admitted, or whose response was begun before.
 * @example
 * import { createReadStream } from 'node:fs';
 * import { Hono } from 'hono';
 * import { Copies, deliver, limitDeliveries } from 'headgate/middleware/hono';
 *
 * const copies = new Copies({ maxConcurrent: 64 });
 * const headers = { 'content-type': 'application/json' };
 * new Hono().get('/export', limitDeliveries(copies), (c) => deliver(c, createReadStream('export.json'), { headers }));
 */
export async function deliver(
  c: HonoContextLike,
  payload: Payload,
  options: { readonly headers?: ReplyHeaders; readonly status?: number } = {},
): Promise<Response> {
  const { res } = nodeOf(c);
  const copy = copyOfResponse(res);
  const { headers = {}, status = 200 } = options;
  res.statusCode = status;
  await copy.deliver(payload, { headers });
  return alreadySent();
}

/** What the adapter leaves alone. */
function alreadySent(): Response {
  const response = new Response(null, { headers: { 'x-hono-already-sent': 'true' } });
  // the adapter's own `Response` is sent by a shorter way, which does not look at its headers, until it was looked into
  void response.statusText;
  return response;
}

function nodeOf(c: HonoContextLike): { readonly req: NodeRequest; readonly res: NodeResponse } {
  const { incoming, outgoing } = (c.env ?? {}) as { readonly incoming?: unknown; readonly outgoing?: unknown };
  const isRequest = incoming instanceof IncomingMessage || incoming instanceof Http2ServerRequest;
  const isResponse = outgoing instanceof ServerResponse || outgoing instanceof Http2ServerResponse;
  if (isRequest && isResponse) return { req: incoming, res: outgoing };
  const got = isRequest ? 'a request without its response' : 'neither request nor response of Node';
  throw new HeadgateError('HG_OPTION', `Cannot limit deliveries: Hono must run on @hono/node-server, got ${got}`);
}
