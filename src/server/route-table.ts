import type { Exchange } from '../delivery/index.ts';
import type { Route } from './route.ts';

type Params = Readonly<Record<string, string>>;

/** Who answers, and under which name its failures are told. */
export interface Answerer {
  readonly name: string;
  readonly handle: (exchange: Exchange) => Promise<void> | void;
}

/** Finds who answers a request that came in by a path of the table. */
export type Find = (exchange: Exchange, params: Params) => Answerer;

/**
 * Who answers which method of which path, and what is said where nobody does.
 *
 *   path of a route ── method? ─┬─ yes ─► that route
 *                               └─ no ──► a `/*` above it that takes the method, else 405
 *   a slash too many, under /v1/ ──────► redirect, if the path without it takes the method; else as if no such path
 *   no such path ──────────────────────► a `/*` above it that takes the method, else 404
 *
 * Refusals under `/v1/` and `/health` are those of a local API, which is written in Go with gin; elsewhere those of a flag
 * relay. Clients of either look at them.
 */
export class RouteTable {
  /** What to register with a router, most of it as it was given. */
  readonly paths: ReadonlyMap<string, Find>;
  readonly #wildcards: readonly Route[];

  constructor(routes: readonly Route[]) {
    const byPath = new Map<string, Route[]>();
    for (const route of routes) byPath.set(route.path, [...(byPath.get(route.path) ?? []), route]);
    const paths = new Map<string, Find>();
    for (const [path, group] of byPath) {
      paths.set(path, (exchange, params) => this.#find(group, exchange, params));
      if (redirects(path)) paths.set(`${path}/`, (exchange) => this.#redirect(group, exchange));
    }
    this.paths = paths;
    this.#wildcards = routes.filter(({ path }) => isWildcard(path));
  }

  /** For a path that is not in the table. */
  notFound(exchange: Exchange): Answerer {
    return this.#wildcard(exchange) ?? { name: '404', handle: replyNotFound };
  }

  #find(group: readonly Route[], exchange: Exchange, params: Params): Answerer {
    const route = group.find((one) => takes(one, exchange.method));
    if (route !== undefined) return { name: route.path, handle: (it) => route.handle(it, params) };
    return this.#wildcard(exchange) ?? { name: '405', handle: (it) => replyNotAllowed(it, group) };
  }

  #redirect(group: readonly Route[], exchange: Exchange): Answerer {
    if (!group.some((route) => takes(route, exchange.method))) return this.notFound(exchange);
    return { name: 'redirect', handle: replyWithoutSlash };
  }

  #wildcard({ path, method }: Exchange): Answerer | undefined {
    for (const route of this.#wildcards) {
      const prefix = route.path.slice(0, -1);
      if (!path.startsWith(prefix) || !takes(route, method)) continue;
      return { name: route.path, handle: (exchange) => route.handle(exchange, { '*': path.slice(prefix.length) }) };
    }
    return undefined;
  }
}

function takes({ methods }: Route, method: string): boolean {
  return methods === '*' || methods.includes(method);
}

function isWildcard(path: string): boolean {
  return path.endsWith('/*');
}

function redirects(path: string): boolean {
  return path.startsWith('/v1/') && !path.endsWith('/') && !isWildcard(path);
}

/** Whether refusals on this path are worded as gin words them: not at all. */
function isPlain(path: string): boolean {
  return path.startsWith('/v1/') || path === '/v1' || path === '/health' || path.startsWith('/health/');
}

function replyNotFound(exchange: Exchange): void {
  if (isPlain(exchange.path)) exchange.reply(404, {});
  else exchange.reply(404, NOT_FOUND_HEADERS, NOT_FOUND);
}

const NOT_FOUND = '404 page not found\n';
const NOT_FOUND_HEADERS = { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' };

function replyNotAllowed(exchange: Exchange, group: readonly Route[]): void {
  const allowed = group.flatMap(({ methods }) => methods);
  exchange.reply(405, isPlain(exchange.path) ? { allow: [...new Set(allowed)].join(', ') } : {});
}

/** 301 may turn any method into GET (RFC 9110, section 15.4.2); 307 keeps it, and its body. */
function replyWithoutSlash(exchange: Exchange): void {
  const { method, path, target } = exchange;
  const location = path.slice(0, -1) + target.slice(path.length);
  exchange.reply(method === 'GET' ? 301 : 307, { location });
}
