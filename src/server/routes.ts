import fastify, { type FastifyInstance } from 'fastify';
import { type Exchange, type ExchangeContext, exchangeOf, type RawSockets, type Receipts } from '../delivery/index.ts';
import type { Clock } from '../kernel/index.ts';
import type { Requests } from './requests.ts';
import type { Route } from './route.ts';
import { type Answerer, RouteTable } from './route-table.ts';

/** How the routes are served. */
export interface RoutesOptions {
  readonly bodyBytesMax: number;
  readonly rawSocketsOf: (response: object) => RawSockets;
  readonly receipts: Receipts;
  readonly clock: Clock;
  /** Told when a route throws: a fault of ours. Its request is answered 500. */
  readonly onFailure: (error: unknown, path: string) => void;
  /** Where requests are counted; absent: nowhere. */
  readonly requests?: Requests;
}

/** One segment of a path may be a flag key (256 bytes, percent-encoded) or an evaluation context. */
const PARAM_LENGTH_MAX = 8192;

/** The routes, found by Fastify and answered on the raw response. */
export async function createRoutes(routes: readonly Route[], options: RoutesOptions): Promise<FastifyInstance> {
  const app = fastify({
    bodyLimit: options.bodyBytesMax,
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX },
  });
  app.addHttpMethod('REPORT', { hasBody: true });
  // bodies are read by the routes: none is parsed, or inflated, before its method and credential are looked at
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  const methods = app.supportedMethods;
  const { clock, receipts, rawSocketsOf, onFailure, requests } = options;
  const onMisuse = (fault: string): void => onFailure(new Error(fault), fault);
  const contextOf = (response: object): ExchangeContext => ({
    rawSockets: rawSocketsOf(response),
    receipts,
    clock,
    onMisuse,
  });
  const table = new RouteTable(routes);
  for (const [url, find] of table.paths) {
    app.route<{ Params: Record<string, string> }>({
      method: methods,
      url,
      handler: (request, reply) => {
        reply.hijack();
        const exchange = exchangeOf(request.raw, reply.raw, contextOf(reply.raw));
        const answerer = find(exchange, request.params);
        requests?.begin(answerer.name, exchange, reply.raw);
        answer(answerer, exchange, onFailure);
      },
    });
  }
  app.setNotFoundHandler((request, reply) => {
    reply.hijack();
    const exchange = exchangeOf(request.raw, reply.raw, contextOf(reply.raw));
    const answerer = table.notFound(exchange);
    requests?.begin(answerer.name, exchange, reply.raw);
    answer(answerer, exchange, onFailure);
  });
  await app.ready();
  return app;
}

/** Answers once the response owns its connection: a pipelined request must not hold a slot while it waits its turn. */
function answer(answerer: Answerer, exchange: Exchange, onFailure: RoutesOptions['onFailure']): void {
  exchange.onTurn(() => {
    void settle(answerer, exchange, onFailure);
  });
}

async function settle(answerer: Answerer, exchange: Exchange, onFailure: RoutesOptions['onFailure']): Promise<void> {
  try {
    await answerer.handle(exchange);
  } catch (error) {
    onFailure(error, answerer.name);
    if (!exchange.answered) exchange.reply(500, {});
  }
}
