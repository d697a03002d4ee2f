import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { type RawSockets, Receipts } from '../delivery/index.ts';
import { HeadgateError, messageOf, systemClock } from '../kernel/index.ts';
import { createListener, type Listener, type ListenerOptions } from './listener.ts';
import { Requests } from './requests.ts';
import type { Route } from './route.ts';
import { createRoutes } from './routes.ts';
import type { TlsMaterial } from './tls-material.ts';

/** Where to listen and what a connection may cost. */
export interface ServerOptions extends ListenerOptions {
  readonly host?: string;
  readonly port: number;
  readonly backlog: number;
  readonly bodyBytesMax: number;
  /** Whether our kernel may be asked what a client has received, by native code. Default true. */
  readonly askKernel?: boolean;
  /** Told when a route throws: a fault of ours. Its request is answered 500. */
  readonly onFailure: (error: unknown, path: string) => void;
  /** Whether requests are made known, and counted. Default true. */
  readonly isObserved?: boolean;
}

/**
 * The server: listens, finds the route, ends in good order.
 *
 * @example
 * const hello: Route = {
 *   methods: ['GET'],
 *   path: '/hello/:name',
 *   handle: (exchange, { name }) => exchange.reply(200, { 'content-type': 'text/plain' }, `Hello, ${name}`),
 * };
 * const server = await Server.create(
 *   {
 *     host: '127.0.0.1', port: 0, backlog: 511, http2: true, http2ConcurrentStreamsMax: 100,
 *     headersTimeoutMs: 10_000, requestTimeoutMs: 30_000, keepAliveTimeoutMs: 5000,
 *     headerBytesMax: 16_384, bodyBytesMax: 1024, onFailure: () => {},
 *   },
 *   [hello],
 * );
 * const { port } = await server.listen();
 * const response = await fetch(`http://127.0.0.1:${port}/hello/gate`);
 * console.log(await response.text()); // Hello, gate
 * server.stopAccepting();
 * server.closeIdle();
 */
export class Server {
  readonly #options: ServerOptions;
  readonly #listener: Listener;
  readonly #receipts: Receipts;
  readonly #requests: Requests;
  #draining = false;

  private constructor(
    options: ServerOptions,
    app: FastifyInstance,
    known: {
      readonly rawSockets: WeakMap<object, RawSockets>;
      readonly receipts: Receipts;
      readonly requests: Requests;
    },
  ) {
    this.#options = options;
    this.#receipts = known.receipts;
    this.#requests = known.requests;
    this.#listener = createListener(options, (request, response, raw) => {
      known.rawSockets.set(response, raw);
      if (this.#draining && request.httpVersionMajor < 2) response.setHeader('connection', 'close');
      app.routing(request as never, response as never);
    });
  }

  /** Makes a server for these routes. It does not listen yet. */
  static async create(options: ServerOptions, routes: readonly Route[]): Promise<Server> {
    const rawSockets = new WeakMap<object, RawSockets>();
    const clock = options.clock ?? systemClock;
    const asksKernel = options.askKernel ?? true;
    const receipts = new Receipts({ clock, ...(asksKernel ? {} : { acknowledged: () => undefined }) });
    const requests = new Requests();
    const app = await createRoutes(routes, {
      ...((options.isObserved ?? true) ? { requests } : {}),
      bodyBytesMax: options.bodyBytesMax,
      onFailure: options.onFailure,
      clock,
      receipts,
      rawSocketsOf: (response) => {
        const raw = rawSockets.get(response);
        if (raw === undefined) throw new Error('Broken invariant: every response came through the listener');
        return raw;
      },
    });
    return new Server(options, app, { rawSockets, receipts, requests });
  }

  /** The listening server, for what is set on its socket. */
  get listening(): Listener['server'] {
    return this.#listener.server;
  }

  /** Responses whose receipt is waited for, and connections that are kept for one. */
  get receipts(): { readonly pending: number; readonly lingering: number } {
    return this.#receipts;
  }

  /** Requests under way, open streams among them, as far as they were counted: see {@link requested}. */
  get activeRequests(): number {
    return this.#requests.active;
  }

  /** Listens. Rejects with `HG_LISTEN` when the address cannot be had. */
  async listen(): Promise<{ port: number }> {
    const { host, port, backlog } = this.#options;
    const { server } = this.#listener;
    await new Promise<void>((resolve, reject) => {
      const onError = (error: Error): void => {
        const at = `${host ?? '*'}:${port}`;
        reject(new HeadgateError('HG_LISTEN', `Cannot listen on ${at}: ${messageOf(error)}`, { cause: error }));
      };
      server.once('error', onError);
      server.listen({ port, backlog, ...(host === undefined ? {} : { host }) }, () => {
        server.off('error', onError);
        resolve();
      });
    });
    return { port: (server.address() as AddressInfo).port };
  }

  /** Takes new certificates, ours and those of the client authorities, for connections to come. */
  setTls(tls: TlsMaterial): void {
    this.#listener.setTls(tls);
  }

  /** Takes no new connection, and asks clients to leave those they have once their requests are answered. */
  stopAccepting(): void {
    this.#draining = true;
    // what is closed now cannot be asked about any more
    this.#receipts.settle();
    this.#listener.server.close();
    this.#listener.closeIdle();
    for (const session of this.#listener.sessions) {
      // one that is on its way out has said so, and throws
      if (!session.destroyed) session.goaway();
    }
  }

  /** Ends what is left, as soon as nothing is under way on it. */
  closeIdle(): void {
    this.#receipts.close();
    this.#listener.closeIdle();
    for (const session of this.#listener.sessions) session.close();
  }
}
