import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import type { Server, Socket } from 'node:net';
import { type RawSockets, trackRawSockets } from '../delivery/index.ts';
import { type Clock, systemClock } from '../kernel/index.ts';
import { trackSessions } from './idle-sessions.ts';
import { guardClients, type TlsMaterial, tlsContextOf, tlsDemandsOf } from './tls-material.ts';

/** What a server does with a request, whichever version of HTTP brought it. */
export type OnRequest = (
  request: http.IncomingMessage | http2.Http2ServerRequest,
  response: http.ServerResponse | http2.Http2ServerResponse,
  rawSockets: RawSockets,
) => void;

/** Bounds on what one connection may cost. Times in milliseconds, sizes in bytes. */
export interface ListenerOptions {
  readonly http2: boolean;
  readonly tls?: TlsMaterial;
  readonly clock?: Clock;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  /** How long a connection may have no request, and an HTTP/2 session no stream. 0: for ever. */
  readonly keepAliveTimeoutMs: number;
  readonly headerBytesMax: number;
  /**
   * Node counts what a session still has to send, shared or not, against `maxSessionMemory` (10 MB): a hundred
   * streams with one page of 64 KiB outstanding each, counted twice, stay within twice that.
   */
  readonly http2ConcurrentStreamsMax: number;
}

/** A listening server and the HTTP/2 sessions on it. */
export interface Listener {
  readonly server: Server;
  readonly sessions: ReadonlySet<http2.ServerHttp2Session>;
  /** Takes a new certificate for connections to come. */
  setTls(tls: TlsMaterial): void;
  /** Ends keep-alive connections that have no request. */
  closeIdle(): void;
}

const SESSION_MEMORY_MB_MAX = 32;

/** Makes the server that fits the options: HTTP/1.1 and h2c in the clear, or HTTP/1.1 and HTTP/2 over TLS. */
export function createListener(options: ListenerOptions, onRequest: OnRequest): Listener {
  return options.tls === undefined ? createPlain(options, onRequest) : createSecure(options, options.tls, onRequest);
}

function http1Options(options: ListenerOptions): http.ServerOptions {
  return {
    headersTimeout: options.headersTimeoutMs,
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: options.keepAliveTimeoutMs,
    maxHeaderSize: options.headerBytesMax,
    noDelay: true,
  };
}

function http2Options(options: ListenerOptions): http2.ServerOptions {
  return {
    maxSessionMemory: SESSION_MEMORY_MB_MAX,
    settings: {
      maxConcurrentStreams: options.http2ConcurrentStreamsMax,
      maxHeaderListSize: options.headerBytesMax,
      enablePush: false,
    },
  };
}

function createPlain(options: ListenerOptions, onRequest: OnRequest): Listener {
  const server = http.createServer(http1Options(options));
  const rawSockets = trackRawSockets(server);
  server.on('request', (request, response) => onRequest(request, response, rawSockets));
  if (!options.http2) return listenerOf(server, new Set());
  const h2c = http2.createServer(http2Options(options));
  const h2cRawSockets = trackRawSockets(h2c);
  h2c.on('request', (request, response) => onRequest(request, response, h2cRawSockets));
  const sessions = trackSessions(h2c, idleAfter(options, h2cRawSockets));
  const http1Listeners = server.listeners('connection') as ((socket: Socket) => void)[];
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    sniff(socket, options.headersTimeoutMs, (isHttp2) => {
      if (!isHttp2) {
        for (const listener of http1Listeners) listener.call(server, socket);
        return;
      }
      // node:http allows half-open sockets and ends them itself; node:http2 would never learn that its client has left
      socket.allowHalfOpen = false;
      h2c.emit('connection', socket);
    });
  });
  return listenerOf(server, sessions);
}

function createSecure(options: ListenerOptions, tls: TlsMaterial, onRequest: OnRequest): Listener {
  const tlsOptions = { ...http1Options(options), ...tlsContextOf(tls), ...tlsDemandsOf(tls) };
  const server = options.http2
    ? http2.createSecureServer({ ...http2Options(options), ...tlsOptions, allowHTTP1: true })
    : https.createServer(tlsOptions);
  // node:http2 takes none of these for the HTTP/1.1 that it also serves: it has its own defaults, and no keep-alive timeout
  Object.assign(server, {
    headersTimeout: options.headersTimeoutMs,
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: options.keepAliveTimeoutMs,
    maxHeaderSize: options.headerBytesMax,
  });
  if (tls.clientVerification === 'verify-if-given') guardClients(server);
  const rawSockets = trackRawSockets(server);
  server.on('request', (request: http.IncomingMessage, response: http.ServerResponse) =>
    onRequest(request, response, rawSockets),
  );
  const sessions = options.http2 ? trackSessions(server, idleAfter(options, rawSockets)) : new Set<never>();
  return listenerOf(server, sessions, (next) => server.setSecureContext(tlsContextOf(next)));
}

function idleAfter(options: ListenerOptions, rawSockets: RawSockets): Parameters<typeof trackSessions>[1] {
  return { clock: options.clock ?? systemClock, rawSockets, idleMs: options.keepAliveTimeoutMs };
}

function listenerOf(
  server: Server,
  sessions: ReadonlySet<http2.ServerHttp2Session>,
  setTls: (tls: TlsMaterial) => void = () => undefined,
): Listener {
  return {
    server,
    sessions,
    setTls,
    closeIdle: () => {
      if (server instanceof http.Server || server instanceof https.Server) server.closeIdleConnections();
    },
  };
}

/** The client preface of HTTP/2 with prior knowledge (RFC 9113, section 3.4). No HTTP/1.1 method begins with it. */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

/**
 * Reads as much of a connection as tells HTTP/2 from HTTP/1.1, and puts it back. One that says nothing is closed; the timer
 * is not the socket's own, which would stay on it for as long as it is open.
 */
function sniff(socket: Socket, timeoutMs: number, decide: (isHttp2: boolean) => void): void {
  let head: Buffer = Buffer.alloc(0);
  const timer = setTimeout(() => socket.destroy(), timeoutMs);
  timer.unref();
  const stop = (): void => {
    clearTimeout(timer);
    socket.off('data', onData);
    socket.off('error', onError);
    socket.off('close', stop);
  };
  const onError = (): void => {
    socket.destroy();
  };
  const onData = (data: Buffer): void => {
    head = head.length === 0 ? data : Buffer.concat([head, data]);
    const compared = Math.min(head.length, PREFACE.length);
    const isHttp2 = head.compare(PREFACE, 0, compared, 0, compared) === 0;
    if (isHttp2 && compared < PREFACE.length) return;
    stop();
    socket.pause();
    socket.unshift(head);
    decide(isHttp2);
    // node:http2 reads what was put back by itself; data that flowed now would miss it
    if (!isHttp2) socket.resume();
  };
  socket.on('data', onData);
  socket.on('error', onError);
  socket.on('close', stop);
}
