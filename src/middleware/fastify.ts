import type { ReplyHeaders, Report } from '../delivery/index.ts';
import { admit, copyOfResponse } from './admit.ts';
import type { Copies } from './copies.ts';
import type { Copy } from './copy.ts';
import type { LimitOptions, NodeRequest, NodeResponse, Payload } from './types.ts';

export * from './shared.ts';

/** What is needed of Fastify's request. */
export interface FastifyRequestLike {
  readonly raw: NodeRequest;
}

/** What is needed of Fastify's reply. */
export interface FastifyReplyLike {
  readonly raw: NodeResponse;
  readonly statusCode: number;
  code(statusCode: number): unknown;
  header(name: string, value: string): unknown;
  getHeaders(): Record<string, number | string | string[] | undefined>;
  send(payload: string): unknown;
  hijack(): unknown;
}

/** What is needed of a Fastify instance. */
export interface FastifyLike {
  addHook(name: 'onRequest', hook: (request: FastifyRequestLike, reply: FastifyReplyLike) => Promise<unknown>): unknown;
}

/**
 * A hook for Fastify: the route's handler runs only with a slot of `copies`. As `onRequest` it comes before the body is read;
 * as `preHandler`, after whoever finds out which tenant asks. On a route, or on a scope with `addHook`.
 *
 * Those who find no slot wait, or are answered 503 by `reply.send`; what a handler throws goes to Fastify's error handler as
 * ever.
 *
 * @example
 * import fastify from 'fastify';
 * import { Copies, limitDeliveries } from 'headgate/middleware/fastify';
 *
 * const app = fastify();
 * const copies = new Copies({ maxConcurrent: 64, maxQueued: 1000, waitMsMax: 5000 });
 * app.get('/export', { onRequest: limitDeliveries(copies) }, async () => ({ rows: [1, 2, 3] }));
 *
 * const response = await fetch(`${await app.listen()}/export`);
 * console.log(await response.text()); // {"rows":[1,2,3]}
 * await app.close();
 */
export function limitDeliveries<Req extends FastifyRequestLike = FastifyRequestLike>(
  copies: Copies,
  options: LimitOptions<Req> = {},
): (request: FastifyRequestLike, reply: FastifyReplyLike) => Promise<unknown> {
  return async (request, reply) => {
    // Fastify's own types say what its request has: an inference from the hook's type would find none that fits all hooks
    const asking = { req: request.raw, res: reply.raw, request: request as Req };
    const { copy, shed } = await admit(copies, asking, options);
    if (copy !== undefined) return undefined;
    if (shed === undefined) {
      // nobody is there to be answered
      reply.hijack();
      return reply;
    }
    reply.code(shed.status);
    for (const [name, value] of Object.entries(shed.headers)) reply.header(name, value);
    reply.send(shed.body);
    return reply;
  };
}

/** What {@link limitedDeliveries} is registered with. */
export interface LimitedDeliveriesOptions extends LimitOptions<FastifyRequestLike> {
  readonly copies: Copies;
}

/**
 * A plugin for Fastify that limits every route of the scope in which it is registered, and of those within it; routes beside
 * it are not touched.
 *
 * @example
 * import fastify from 'fastify';
 * import { Copies, limitedDeliveries } from 'headgate/middleware/fastify';
 *
 * const app = fastify();
 * const copies = new Copies({ maxConcurrent: 64 });
 * app.get('/health', async () => 'ok');
 * await app.register(async (exports) => {
 *   await exports.register(limitedDeliveries, { copies });
 *   exports.get('/export', async () => ({ rows: [1, 2, 3] }));
 * });
 * await app.inject('/health');
 * console.log(copies.stats().admitted); // 0
 */
export const limitedDeliveries: {
  (app: FastifyLike, options: LimitedDeliveriesOptions): Promise<void>;
} = Object.assign(
  async (app: FastifyLike, { copies, ...options }: LimitedDeliveriesOptions): Promise<void> => {
    app.addHook('onRequest', limitDeliveries(copies, options));
  },
  // the hook is for the scope that registers the plugin, not for one of the plugin's own
  { [Symbol.for('skip-override')]: true, [Symbol.for('fastify.display-name')]: 'headgate' },
);

/**
 * The copy that a reply is: its signal, and its numbers.
 *
 * @throws HeadgateError `HG_OPTION` for a reply that `limitDeliveries` has not admitted.
 * @example
 * import fastify from 'fastify';
 * import { Copies, copyOf, limitDeliveries } from 'headgate/middleware/fastify';
 *
 * const copies = new Copies({ maxConcurrent: 64 });
 * fastify().get('/export', { onRequest: limitDeliveries(copies) }, async (_request, reply) => {
 *   const rows = await fetch('http://localhost:9000/rows', { signal: copyOf(reply).signal });
 *   return rows.json();
 * });
 */
export function copyOf(reply: Pick<FastifyReplyLike, 'raw'>): Copy {
  return copyOfResponse(reply.raw);
}

/**
 * Answers with a payload: under a deadline for the reader, and by the ration that all copies share. See {@link Copy}.
 * Fastify's own sending is passed by (`reply.hijack`), and so are its `onSend` hooks.
 *
 * @throws HeadgateError `HG_OPTION` for a reply that was not admitted, or was begun before.
 * @example
 * import { createReadStream } from 'node:fs';
 * import fastify from 'fastify';
 * import { Copies, deliver, limitDeliveries } from 'headgate/middleware/fastify';
 *
 * const copies = new Copies({ maxConcurrent: 64 });
 * fastify().get('/export', { onRequest: limitDeliveries(copies) }, async (_request, reply) => {
 *   await deliver(reply.type('application/json'), createReadStream('export.json'));
 * });
 */
export async function deliver(
  reply: FastifyReplyLike,
  payload: Payload,
  options: { readonly headers?: ReplyHeaders } = {},
): Promise<Report> {
  const copy = copyOfResponse(reply.raw);
  reply.hijack();
  reply.raw.statusCode = reply.statusCode;
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value);
  }
  return copy.deliver(payload, options);
}
