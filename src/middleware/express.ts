import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ReplyHeaders, Report } from '../delivery/index.ts';
import { admit, answerShed, copyOfResponse } from './admit.ts';
import type { Copies, Entry } from './copies.ts';
import type { Copy } from './copy.ts';
import type { LimitOptions, Payload } from './types.ts';

export * from './shared.ts';

/** Passes on to what comes after, or to the error handlers. */
type Next = (error?: unknown) => void;

/**
 * Middleware for Express (4 or 5, or anything else that calls `next`): what comes after it runs only with a slot of `copies`.
 * Those who find none wait, or are answered 503; what a handler throws goes to the application's error handlers as ever.
 *
 * @example
 * import express from 'express';
 * import type { AddressInfo } from 'node:net';
 * import { Copies, limitDeliveries } from 'headgate/middleware/express';
 *
 * const app = express();
 * const copies = new Copies({ maxConcurrent: 64, maxQueued: 1000, waitMsMax: 5000 });
 * app.get('/export', limitDeliveries(copies), (_req, res) => void res.json({ rows: [1, 2, 3] }));
 *
 * const server = app.listen(0);
 * const response = await fetch(`http://localhost:${(server.address() as AddressInfo).port}/export`);
 * console.log(await response.text()); // {"rows":[1,2,3]}
 * server.close();
 */
export function limitDeliveries<Req extends IncomingMessage = IncomingMessage>(
  copies: Copies,
  options: LimitOptions<Req> = {},
): (req: Req, res: ServerResponse, next: Next) => void {
  // never rejects: Express 4 would not notice
  const pass = async ({ req, res, next }: { req: Req; res: ServerResponse; next: Next }): Promise<void> => {
    let entry: Entry;
    try {
      entry = await admit(copies, { req, res, request: req }, options);
    } catch (error) {
      return next(error);
    }
    if (entry.copy !== undefined) next();
    else if (entry.shed !== undefined) answerShed(res, entry.shed);
  };
  return (req, res, next) => {
    void pass({ req, res, next });
  };
}

/**
 * The copy that a response is: its signal, and its numbers.
 *
 * @throws HeadgateError `HG_OPTION` for a response that `limitDeliveries` has not admitted.
 * @example
 * import express from 'express';
 * import { Copies, copyOf, limitDeliveries } from 'headgate/middleware/express';
 *
 * const copies = new Copies({ maxConcurrent: 64 });
 * express().get('/export', limitDeliveries(copies), async (_req, res) => {
 *   const rows = await fetch('http://localhost:9000/rows', { signal: copyOf(res).signal });
 *   res.json(await rows.json());
 * });
 */
export function copyOf(res: ServerResponse): Copy {
  return copyOfResponse(res);
}

/**
 * Answers with a payload: under a deadline for the reader, and by the ration that all copies share. See {@link Copy}.
 *
 * @throws HeadgateError `HG_OPTION` for a response that was not admitted, or was begun before.
 * @example
 * import { createReadStream } from 'node:fs';
 * import express from 'express';
 * import { Copies, deliver, limitDeliveries } from 'headgate/middleware/express';
 *
 * const copies = new Copies({ maxConcurrent: 64 });
 * express().get('/export', limitDeliveries(copies), async (_req, res) => {
 *   await deliver(res.type('json'), createReadStream('export.json'));
 * });
 */
export async function deliver(
  res: ServerResponse,
  payload: Payload,
  options: { readonly headers?: ReplyHeaders } = {},
): Promise<Report> {
  return copyOfResponse(res).deliver(payload, options);
}
