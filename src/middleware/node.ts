import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ReplyHeaders, Report } from '../delivery/index.ts';
import { admit, answerShed, copyOfResponse } from './admit.ts';
import type { Copies } from './copies.ts';
import type { Copy } from './copy.ts';
import type { LimitOptions, NodeRequest, NodeResponse, Payload } from './types.ts';

export * from './shared.ts';

/**
 * A request listener for node:http, node:https and node:http2 whose handler runs only with a slot of `copies`. Those who find
 * none wait, or are answered 503.
 *
 * The promise rejects with what the handler threw or rejected with, unchanged, after the response was given up if it was not
 * over: given to `createServer` as it is, that is an unhandled rejection, as it is for any other async listener.
 *
 * @example
 * import http from 'node:http';
 * import type { AddressInfo } from 'node:net';
 * import { Copies, limitDeliveries } from 'headgate/middleware/node';
 *
 * const copies = new Copies({ maxConcurrent: 64 });
 * const server = http.createServer(limitDeliveries(copies, (req, res) => res.end(`all of ${req.url}`)));
 * copies.attach(server);
 * await new Promise<void>((resolve) => server.listen(0, resolve));
 * const response = await fetch(`http://localhost:${(server.address() as AddressInfo).port}/export`);
 * console.log(await response.text()); // all of /export
 * server.close();
 */
export function limitDeliveries<Req extends NodeRequest = IncomingMessage, Res extends NodeResponse = ServerResponse>(
  copies: Copies,
  handler: (req: Req, res: Res, copy: Copy) => unknown,
  options: LimitOptions<Req> = {},
): (req: Req, res: Res) => Promise<void> {
  return async (req, res) => {
    const { copy, shed } = await admit(copies, { req, res, request: req }, options);
    if (copy === undefined) {
      if (shed !== undefined) answerShed(res, shed);
      return;
    }
    try {
      await handler(req, res, copy);
    } catch (error) {
      // who did not answer now never will
      if (!res.writableEnded) copy.cut('error');
      throw error;
    }
  };
}

/**
 * The copy that a response is: its signal, and its numbers.
 *
 * @throws HeadgateError `HG_OPTION` for a response that `limitDeliveries` has not admitted.
 * @example
 * import http from 'node:http';
 * import { Copies, copyOf, limitDeliveries } from 'headgate/middleware/node';
 *
 * const copies = new Copies({ maxConcurrent: 64 });
 * http.createServer(limitDeliveries(copies, async (req, res) => {
 *   const rows = await fetch('http://localhost:9000/rows', { signal: copyOf(res).signal });
 *   res.end(await rows.text());
 * }));
 */
export function copyOf(res: NodeResponse): Copy {
  return copyOfResponse(res);
}

/**
 * Answers with a payload: under a deadline for the reader, and by the ration that all copies share. See {@link Copy}.
 *
 * @throws HeadgateError `HG_OPTION` for a response that was not admitted, or was begun before.
 * @example
 * import http from 'node:http';
 * import { createReadStream } from 'node:fs';
 * import { Copies, deliver, limitDeliveries } from 'headgate/middleware/node';
 *
 * const copies = new Copies({ maxConcurrent: 64 });
 * http.createServer(limitDeliveries(copies, async (req, res) => {
 *   res.setHeader('content-type', 'application/json');
 *   const { outcome, bytes } = await deliver(res, createReadStream('export.json'));
 *   if (outcome !== 'completed') process.emitWarning(`${outcome} after ${bytes} bytes`);
 * }));
 */
export async function deliver(
  res: NodeResponse,
  payload: Payload,
  options: { readonly headers?: ReplyHeaders } = {},
): Promise<Report> {
  return copyOfResponse(res).deliver(payload, options);
}
