import { HeadgateError } from '../kernel/index.ts';
import type { Copies, Entry } from './copies.ts';
import type { Copy } from './copy.ts';
import type { LimitOptions, NodeRequest, NodeResponse, Shed } from './types.ts';

/** On the response itself: in a WeakMap, each would cost the garbage collector more than all the rest of a small request. */
const admitted: unique symbol = Symbol('headgate.copy');

interface Admitted {
  [admitted]?: { readonly copies: Copies; readonly copy: Copy };
}

/** A request and response of Node, and what the framework calls its request. */
export interface Asking<Request> {
  readonly req: NodeRequest;
  readonly res: NodeResponse;
  readonly request: Request;
}

/** Asks for a slot, unless the response has one of the same copies already: a limit may stand on a router and on its route. */
export async function admit<Request>(
  copies: Copies,
  asking: Asking<Request>,
  options: LimitOptions<Request>,
): Promise<Entry> {
  const { req, res, request } = asking;
  const before = (res as Admitted)[admitted];
  if (before?.copies === copies) return before;
  const asker = { tenant: options.tenant?.(request) ?? '', class: options.class?.(request) ?? 'server' };
  const entry = await copies.enter(req, res, asker);
  if (entry.copy !== undefined) (res as Admitted)[admitted] = { copies, copy: entry.copy };
  return entry;
}

/** The copy of a response. */
export function copyOfResponse(res: NodeResponse): Copy {
  const found = (res as Admitted)[admitted];
  if (found !== undefined) return found.copy;
  const message = 'Cannot find the copy of a response: limitDeliveries must come before, got a response without a slot';
  throw new HeadgateError('HG_OPTION', message);
}

/** Answers on Node's own response. Does nothing when it was begun meanwhile. */
export function answerShed(res: NodeResponse, shed: Shed): void {
  if (res.headersSent) return;
  res.statusCode = shed.status;
  for (const [name, value] of Object.entries(shed.headers)) res.setHeader(name, value);
  res.setHeader('content-length', Buffer.byteLength(shed.body));
  res.end(shed.body);
}
