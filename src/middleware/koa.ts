import type { ReplyHeaders, Report } from '../delivery/index.ts';
import { admit, copyOfResponse } from './admit.ts';
import type { Copies } from './copies.ts';
import type { Copy } from './copy.ts';
import type { LimitOptions, NodeRequest, NodeResponse, Payload } from './types.ts';

export * from './shared.ts';

/** What is needed of Koa's context. */
export interface KoaContextLike {
  readonly req: NodeRequest;
  readonly res: NodeResponse;
  status: number;
  body: unknown;
  respond?: boolean | undefined;
  set(name: string, value: string): void;
}

/**
 * Middleware for Koa: what comes after it runs only with a slot of `copies`. Those who find none wait, or are answered 503;
 * what is thrown goes to Koa as ever. The slot is held until Koa has sent what `ctx.body` is, streams too.
 *
 * @example
 * import Koa from 'koa';
 * import type { AddressInfo } from 'node:net';
 * import { Copies, limitDeliveries } from 'headgate/middleware/koa';
 *
 * const app = new Koa();
 * const copies = new Copies({ maxConcurrent: 64, maxQueued: 1000, waitMsMax: 5000 });
 * app.use(limitDeliveries(copies));
 * app.use((ctx) => {
 *   ctx.body = { rows: [1, 2, 3] };
 * });
 *
 * const server = app.listen(0);
 * const response = await fetch(`http://localhost:${(server.address() as AddressInfo).port}/export`);
 * console.log(await response.text()); // {"rows":[1,2,3]}
 * server.close();
 */
export function limitDeliveries<Context extends KoaContextLike = KoaContextLike>(
  copies: Copies,
  options: LimitOptions<Context> = {},
): (ctx: Context, next: () => Promise<unknown>) => Promise<void> {
  return async (ctx, next) => {
    const { copy, shed } = await admit(copies, { req: ctx.req, res: ctx.res, request: ctx }, options);
    if (copy !== undefined) {
      try {
        await next();
      } finally {
        copy.handled();
      }
    } else if (shed === undefined) {
      // nobody is there to be answered
      ctx.respond = false;
    } else {
      ctx.status = shed.status;
      for (const [name, value] of Object.entries(shed.headers)) ctx.set(name, value);
      ctx.body = shed.body;
    }
  };
}

/**
 * The copy that a context is: its signal, and its numbers.
 *
 * @throws HeadgateError `HG_OPTION` for a context that `limitDeliveries` has not admitted.
 * @example
 * import Koa from 'koa';
 * import { Copies, copyOf, limitDeliveries } from 'headgate/middleware/koa';
 *
 * const copies = new Copies({ maxConcurrent: 64 });
 * new Koa().use(limitDeliveries(copies)).use(async (ctx) => {
 *   const rows = await fetch('http://localhost:9000/rows', { signal: copyOf(ctx).signal });
 *   ctx.body = await rows.json();
 * });
 */
export function copyOf(ctx: Pick<KoaContextLike, 'res'>): Copy {
  return copyOfResponse(ctx.res);
}

/**
 * Answers with a payload: under a deadline for the reader, and by the ration that all copies share. See {@link Copy}.
 * Koa's own sending is passed by (`ctx.respond = false`). The status is 200 unless another was set.
 *
 * @throws HeadgateError `HG_OPTION` for a context that was not admitted, or was begun before.
 * @example
 * import { createReadStream } from 'node:fs';
 * import Koa from 'koa';
 * import { Copies, deliver, limitDeliveries } from 'headgate/middleware/koa';
 *
 * const copies = new Copies({ maxConcurrent: 64 });
 * new Koa().use(limitDeliveries(copies)).use(async (ctx) => {
 *   ctx.type = 'json';
 *   await deliver(ctx, createReadStream('export.json'));
 * });
 */
export async function deliver(
  ctx: KoaContextLike,
  payload: Payload,
  options: { readonly headers?: ReplyHeaders } = {},
): Promise<Report> {
  const copy = copyOfResponse(ctx.res);
  ctx.respond = false;
  // Koa's way of saying that nobody has answered yet
  if (ctx.status === 404) ctx.status = 200;
  return copy.deliver(payload, options);
}
