import http from 'node:http';
import type { Http2Session } from 'node:http2';
import type { Server, Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { ignoreError } from './channel.ts';

/**
 * The TCP sockets of a server, findable under TLS and HTTP/2.
 *
 * Only a TCP socket can be reset: `TLSSocket.resetAndDestroy()` throws, and an HTTP/2 session hides its socket.
 */
export interface RawSockets {
  /** The TCP socket under a socket of this server; the socket itself when there is no TLS. */
  ofSocket(socket: Socket): Socket | undefined;
  /** The TCP socket under an HTTP/2 session of this server. */
  ofSession(session: Http2Session): Socket | undefined;
  /** How many connections are remembered. Plain HTTP/1.1 needs no memory. */
  readonly size: number;
}

/*
 *  'connection' ─► raw socket ──► byEndpoints: "remote|port|local|port" ─► raw      until it closes
 *                     │ TLS handshake                     │ looked up once, while both are alive
 *  'secureConnection' ─► TLSSocket ─► underTls   (weak) ◄─┤
 *  'session'          ─► Http2Session ─► underSession ◄───┘
 *
 * The four-part name is unique only while the connection lives, so it is resolved at the moment the upper layer appears,
 * and from then on identity decides: a later connection that reuses the same port can never be reset by mistake.
 */
class TrackedSockets implements RawSockets {
  readonly #byEndpoints = new Map<string, Socket>();
  readonly #underTls = new WeakMap<Socket, Socket>();
  readonly #underSession = new WeakMap<Http2Session, Socket>();

  get size(): number {
    return this.#byEndpoints.size;
  }

  ofSocket(socket: Socket): Socket | undefined {
    return socket instanceof TLSSocket ? this.#underTls.get(socket) : socket;
  }

  ofSession(session: Http2Session): Socket | undefined {
    return this.#underSession.get(session);
  }

  connected(raw: Socket): void {
    const key = endpointsOf(raw);
    if (key === undefined) return;
    this.#byEndpoints.set(key, raw);
    raw.on('error', ignoreError);
    raw.once('close', () => {
      if (this.#byEndpoints.get(key) === raw) this.#byEndpoints.delete(key);
    });
  }

  secured(socket: Socket): void {
    const raw = this.#find(socket);
    if (raw !== undefined) this.#underTls.set(socket, raw);
  }

  opened(session: Http2Session): void {
    const raw = this.#find(session.socket);
    if (raw !== undefined) this.#underSession.set(session, raw);
  }

  #find(socket: Socket): Socket | undefined {
    const key = endpointsOf(socket);
    return key === undefined ? undefined : this.#byEndpoints.get(key);
  }
}

/** A Unix socket has no endpoints, and cannot be reset either. */
function endpointsOf(socket: Socket): string | undefined {
  if (socket.remotePort === undefined) return undefined;
  return `${socket.remoteAddress}|${socket.remotePort}|${socket.localAddress}|${socket.localPort}`;
}

/**
 * Keeps the TCP sockets of a server reachable. Call it before the server listens.
 *
 * @param server - a server of node:http, node:https or node:http2.
 * @example
 * import http2 from 'node:http2';
 *
 * const server = http2.createServer();
 * const rawSockets = trackRawSockets(server);
 * server.on('request', (req, res) => exchangeOf(req, res, { rawSockets }).reply(200, {}, 'ok'));
 * console.log(rawSockets.size); // 0
 */
export function trackRawSockets(server: Server): RawSockets {
  const sockets = new TrackedSockets();
  if (server instanceof http.Server) return sockets;
  // before node:http2's own listener, which opens the session of a clear-text connection within the same event
  server.prependListener('connection', (raw: Socket) => sockets.connected(raw));
  server.prependListener('secureConnection', (socket: Socket) => sockets.secured(socket));
  server.prependListener('session', (session: Http2Session) => sockets.opened(session));
  return sockets;
}

/**
 * Resets a connection: the client gets RST at once, and the kernel drops what was queued.
 *
 * A plain `destroy()` would leave a connection that a stalled client still believes in, with megabytes in both kernels.
 *
 * @param socket - the TCP socket, not the TLS socket above it.
 * @example
 * import net from 'node:net';
 *
 * net.createServer((socket) => resetConnection(socket));
 */
export function resetConnection(socket: Socket): void {
  if (socket.destroyed) return;
  try {
    socket.resetAndDestroy();
  } catch {
    // not TCP (a Unix socket): there is no reset, and no network that could keep a dead connection open
    socket.destroy();
  }
}
