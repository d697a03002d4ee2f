import { createHash, timingSafeEqual } from 'node:crypto';
import type { Exchange } from '../delivery/index.ts';
import type { Clock } from '../kernel/index.ts';
import type { Route } from './route.ts';
import { Server } from './server.ts';

/** Where operators and their tools ask, apart from the clients. */
export interface AdminOptions {
  /** Absent: every address. */
  readonly host?: string;
  /** 0: any free one. */
  readonly port: number;
  /** What has to be shown, as `Authorization: Bearer …`. Absent: nothing on loopback; elsewhere nobody may ask. */
  readonly token?: string;
  /** A path that answers without a token, whatever the address. */
  readonly openPath?: string;
  /**
   * Paths that want no token: they hold no data, and ask for it themselves. Where nobody may ask without a token because
   * none is set, nobody may ask for them either.
   */
  readonly publicPaths?: ReadonlySet<string>;
  readonly clock?: Clock;
  readonly onFailure: (error: unknown, path: string) => void;
}

/** A listener for operators that is open. */
export interface Admin {
  readonly port: number;
  close(): void;
}

const TEXT = { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' };

/** Few ask here, and none of them has to send much. */
const BOUNDS = {
  http2: false,
  backlog: 64,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  keepAliveTimeoutMs: 65_000,
  headerBytesMax: 16_384,
  http2ConcurrentStreamsMax: 1,
  bodyBytesMax: 65_536,
} as const;

/**
 * Opens the listener for operators. Rejects with `HG_LISTEN` when the address cannot be had.
 *
 * On loopback anybody on this machine may ask, and no page that a browser of it has open: the name that was asked for must
 * be one of loopback's, which keeps out names that an attacker points here (DNS rebinding). Elsewhere a token is wanted.
 *
 * @example
 * const hello: Route = { methods: ['GET'], path: '/hello', handle: (exchange) => exchange.reply(200, {}, 'hello') };
 * const admin = await openAdmin({ host: '127.0.0.1', port: 0, token: 'secret', onFailure: () => {} }, [hello]);
 * const url = `http://127.0.0.1:${admin.port}/hello`;
 * console.log((await fetch(url)).status); // 401
 * const authorized = await fetch(url, { headers: { authorization: 'Bearer secret' } });
 * console.log(authorized.status, await authorized.text()); // 200 hello
 * admin.close();
 */
export async function openAdmin(options: AdminOptions, routes: readonly Route[]): Promise<Admin> {
  const { host, port, token, openPath, publicPaths, clock, onFailure } = options;
  const guard = guardOf(options);
  const guarded = routes.map((route): Route => {
    const isPublic = token !== undefined && publicPaths?.has(route.path) === true;
    if (route.path === openPath || isPublic) return route;
    return { ...route, handle: (exchange, params) => (guard(exchange) ? route.handle(exchange, params) : undefined) };
  });
  const server = await Server.create(
    {
      ...BOUNDS,
      port,
      ...(host === undefined ? {} : { host }),
      ...(clock === undefined ? {} : { clock }),
      askKernel: false,
      isObserved: false,
      onFailure,
    },
    guarded,
  );
  const listening = await server.listen();
  return {
    port: listening.port,
    close() {
      server.stopAccepting();
      server.closeIdle();
    },
  };
}

/** Whether a request may be answered; if not, it was told why. */
function guardOf({ host, token }: AdminOptions): (exchange: Exchange) => boolean {
  if (token !== undefined) {
    const wanted = digestOf(`bearer ${token}`);
    return (exchange) => {
      // digests have one length: the comparison tells nothing about the token
      if (timingSafeEqual(digestOf(credentialsOf(exchange)), wanted)) return true;
      exchange.reply(401, { ...TEXT, 'www-authenticate': 'Bearer' }, 'a bearer token is wanted\n');
      return false;
    };
  }
  if (!isLoopback(host)) {
    return (exchange) => {
      exchange.reply(
        403,
        TEXT,
        'nobody may ask here, since no token is set: set admin.token or HEADGATE_ADMIN_TOKEN\n',
      );
      return false;
    };
  }
  return (exchange) => {
    if (isLoopback(nameIn(exchange.header('host')))) return true;
    exchange.reply(403, TEXT, 'this listener answers to the names of loopback only\n');
    return false;
  };
}

/** What was shown. The name of a scheme is the same in any case (RFC 9110, section 11.1). */
function credentialsOf(exchange: Exchange): string {
  return (exchange.header('authorization') ?? '').replace(/^bearer /i, 'bearer ');
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Whether a name or an address is of this machine alone. */
function isLoopback(name: string | undefined): boolean {
  return name !== undefined && /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i.test(name);
}

/** The name in a Host header, without the port. HTTP/1.0 has none, and no browser speaks that. */
function nameIn(header: string | undefined): string {
  return header === undefined ? 'localhost' : header.replace(/:\d+$/, '');
}
