import { existsSync, readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Bucket, State, Timeline } from '../../dashboard/src/contract.ts';
import { QUIET, timelineOf } from './dashboard-state.ts';
import { ROOT } from './files.ts';

/** The page as it was built; `BENCH_DIST` names another build. */
export const PAGE: string = `${process.env['BENCH_DIST'] ?? `${ROOT}dist`}/dashboard`;
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
};

/** What speaks the admin API without a relay behind it: a test says what it tells, when, and when it goes away. */
export class DashboardStandIn {
  readonly #server: Server;
  readonly #viewers = new Set<ServerResponse>();
  #port = 0;
  /** What has to be shown; undefined: nothing. */
  token: string | undefined;
  state: State = QUIET;
  timeline: Timeline = timelineOf([]);
  /** Whether as many watch as may. */
  isFull = false;
  /** What answers in place of the API, as a proxy does. */
  instead: { readonly status: number; readonly type: string; readonly body: string } | undefined;
  /** Requests for the API that came, with the token that they showed. */
  readonly asked: { readonly path: string; readonly authorization: string | undefined }[] = [];

  constructor() {
    this.#server = createServer((request, response) => this.#answer(request, response));
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Listens: at the port of before when it was stopped in between. */
  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, '127.0.0.1', resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Goes away as a process does that ends: every connection is gone. */
  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  /** Tells a new state to whoever looks. */
  tell(state: State): void {
    this.state = state;
    for (const viewer of this.#viewers) viewer.write(eventOf('state', state));
  }

  /** Tells a bucket to whoever looks. */
  close(bucket: Bucket): void {
    for (const viewer of this.#viewers) viewer.write(eventOf('bucket', bucket));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url ?? '/';
    response.setHeader('content-security-policy', POLICY);
    response.setHeader('x-content-type-options', 'nosniff');
    if (!path.startsWith('/api/')) return this.#file(path, response);
    const { authorization } = request.headers;
    this.asked.push({ path, authorization });
    if (this.token !== undefined && authorization !== `Bearer ${this.token}`) {
      response.writeHead(401, { 'www-authenticate': 'Bearer' }).end('a bearer token is wanted\n');
      return;
    }
    if (this.instead !== undefined) {
      const { status, type, body } = this.instead;
      response.writeHead(status, { 'content-type': type }).end(body);
      return;
    }
    if (this.isFull) {
      response.writeHead(503, { 'retry-after': '1' }).end('16 watch already\n');
      return;
    }
    if (path !== '/api/live') {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    response.write(eventOf('timeline', this.timeline) + eventOf('state', this.state));
    this.#viewers.add(response);
    response.once('close', () => this.#viewers.delete(response));
  }

  #file(path: string, response: ServerResponse): void {
    const name = path === '/' ? 'index.html' : path.slice(1);
    const type = TYPES[name.split('.').at(-1) ?? ''];
    if (!/^(assets\/)?[\w.-]+$/.test(name) || type === undefined || !existsSync(`${PAGE}/${name}`)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'content-type': type }).end(readFileSync(`${PAGE}/${name}`));
  }
}

function eventOf(name: string, value: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(value)}\n\n`;
}
