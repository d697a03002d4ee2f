import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ReplyHeaders, Report } from '../delivery/index.ts';
import { admit, answerShed, copyOfResponse } from './admit.ts';
import type { Copies } from './copies.ts';
import type { Copy } from './copy.ts';
import type { LimitOptions, NodeRequest, NodeResponse, Payload } from './types.ts';

export * from './shared.ts';

/** Options of {@link limitDeliveries} for node:http, which has no error handling of its own. */
export interface ListenerOptions<Req, Res> extends LimitOptions<Req> {
  /**
   * Told what the handler threw or rejected with (or a function of these options), unchanged, and may answer then. A
   * response that is not ended when this returns is given up. Not told of an `AbortError` after the client has left or was
   * cut: that is what the copy's signal is for. Default: an unhandled rejection, as for any other async listener.
   */
  readonly onError?: (error: unknown, req: Req, res: Res) => void;
}

/**
 * A request listener for node:http, node:https and node:http2 whose handler runs only with a slot of `copies`. Those who find
 * none wait, or are answered 503. When the handler fails, a response that it has not ended is given up: see `onError`.
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
  options: ListenerOptions<Req, Res> = {},
): (req: Req, res: Res) => void {
  const answer = async (req: Req, res: Res): Promise<void> => {
    let copy: Copy | undefined;
    try {
      const entry = await admit(copies, { req, res, request: req }, options);
      copy = entry.copy;
      if (copy !== undefined) await handled(copy, handler(req, res, copy));
      else if (entry.shed !== undefined) answerShed(res, entry.shed);
    } catch (error) {
      failed(error, { req, res, copy }, options);
    }
  };
  // a promise would be one that nobody looks at: createServer takes none
  return (req, res) => void answer(req, res);
}

/** A handler that is not asynchronous has ended when it has answered, and nobody can say before. */
async function handled(copy: Copy, result: unknown): Promise<void> {
  if (!(result instanceof Promise)) return;
  try {
    await result;
  } finally {
    copy.handled();
  }
}

/** Who did not answer now never will. */
function failed<Req extends NodeRequest, Res extends NodeResponse>(
  error: unknown,
  { req, res, copy }: { readonly req: Req; readonly res: Res; readonly copy: Copy | undefined },
  { onError }: ListenerOptions<Req, Res>,
): void {
  try {
    if (isCalledOff(error, copy)) return;
    if (onError === undefined) throw error;
    onError(error, req, res);
  } finally {
    if (!res.writableEnded) {
      if (copy === undefined) res.destroy();
      else copy.cut('error');
    }
  }
}

/** Whether a handler only says that it stopped when the copy's signal told it to: a client that leaves is nobody's fault. */
function isCalledOff(error: unknown, copy: Copy | undefined): boolean {
  const isOver = copy?.ending !== undefined && copy.ending !== 'completed';
  return isOver && error instanceof Error && error.name === 'AbortError';
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
