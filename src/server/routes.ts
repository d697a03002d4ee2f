import fastify, { type FastifyInstance } from 'fastify';
import { type Exchange, type ExchangeContext, exchangeOf, type RawSockets } from '../delivery/index.ts';
import type { Clock } from '../kernel/index.ts';

/** One path, and who answers it. Methods other than `method` are answered 405. */
export interface Route {
  readonly method: 'GET';
  /** `:name` stands for one segment. */
  readonly path: string;
  readonly handle: (exchange: Exchange, params: Readonly<Record<string, string>>) => Promise<void> | void;
}

/** How the routes are served. */
export interface RoutesOptions {
  readonly bodyBytesMax: number;
  readonly rawSocketsOf: (response: object) => RawSockets;
  readonly clock: Clock;
  /** Told when a route throws: a fault of ours. Its request is answered 500. */
  readonly onFailure: (error: unknown, path: string) => void;
}

const NOT_FOUND = '404 page not found\n';
const NOT_FOUND_HEADERS = { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' };

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
  // no route reads a body: none is parsed before its method and credential are looked at
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  const methodsOf = app.supportedMethods;
  const { clock, rawSocketsOf } = options;
  const onMisuse = (fault: string): void => options.onFailure(new Error(fault), fault);
  const contextOf = (response: object): ExchangeContext => ({ rawSockets: rawSocketsOf(response), clock, onMisuse });
  for (const route of routes) {
    app.route<{ Params: Record<string, string> }>({
      method: methodsOf,
      url: route.path,
      handler: (request, reply) => {
        reply.hijack();
        const exchange = exchangeOf(request.raw, reply.raw, contextOf(reply.raw));
        answer(route, exchange, request.params, options.onFailure);
      },
    });
  }
  app.setNotFoundHandler((request, reply) => {
    reply.hijack();
    const exchange = exchangeOf(request.raw, reply.raw, contextOf(reply.raw));
    exchange.reply(404, { ...NOT_FOUND_HEADERS }, NOT_FOUND);
  });
  await app.ready();
  return app;
}

/** Answers once the response owns its connection: a pipelined request must not hold a slot while it waits its turn. */
function answer(
  route: Route,
  exchange: Exchange,
  params: Readonly<Record<string, string>>,
  onFailure: (error: unknown, path: string) => void,
): void {
  if (exchange.method !== route.method) {
    exchange.reply(405, {});
    return;
  }
  exchange.onTurn(() => {
    void settle(route, exchange, params, onFailure);
  });
}

async function settle(
  route: Route,
  exchange: Exchange,
  params: Readonly<Record<string, string>>,
  onFailure: (error: unknown, path: string) => void,
): Promise<void> {
  try {
    await route.handle(exchange, params);
  } catch (error) {
    onFailure(error, route.path);
    if (!exchange.answered) exchange.reply(500, {});
  }
}
