/**
 * The measure beside ours: as little as node:http can do for the same bytes. Started by the benchmark, which tells it
 * over their channel what to answer.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What it is told. */
export type Order =
  | { readonly kind: 'answer'; readonly replies: Readonly<Record<string, Reply>> }
  /** A stream's first event; each `change` then sends `event` to all. */
  | { readonly kind: 'stream'; readonly path: string; readonly first: string; readonly event: string }
  | { readonly kind: 'change' };

/** A whole reply. */
export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

let replies: Readonly<Record<string, Reply>> = {};
let stream: Extract<Order, { kind: 'stream' }> | undefined;
const clients = new Set<ServerResponse>();

const server = createServer({ keepAliveTimeout: 65_000, noDelay: true }, (request, response) => {
  const reply = replies[request.url ?? ''];
  if (reply !== undefined) {
    response.writeHead(reply.status, reply.headers);
    response.end(reply.body);
    return;
  }
  if (stream === undefined || request.url !== stream.path) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  response.write(stream.first);
  clients.add(response);
  response.once('close', () => clients.delete(response));
});

process.on('message', (order: Order) => {
  if (order.kind === 'answer') replies = order.replies;
  if (order.kind === 'stream') stream = order;
  if (order.kind !== 'change' || stream === undefined) return process.send?.({ unixMs: 0 });
  const unixMs = performance.timeOrigin + performance.now();
  for (const response of clients) response.write(stream.event);
  return process.send?.({ unixMs });
});

server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
