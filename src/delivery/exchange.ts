import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import {
  constants,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type Http2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { Clock } from '../kernel/index.ts';
import { type Channel, DeadChannel, ignoreError } from './channel.ts';
import { Http1Channel, whenLostBeforeTurn, whenOwnsSocket } from './http1.ts';
import { Http2Channel } from './http2.ts';
import { type Peer, peerOf } from './peer.ts';
import type { RawSockets } from './raw-sockets.ts';
import { Receipt, type Receipts } from './receipts.ts';

/** Names to values. Names in lower case; HTTP/2 allows nothing else (RFC 9113, section 8.2.1). */
export type ReplyHeaders = Readonly<Record<string, string>>;

/**
 * One request and the way to answer it, whatever the transport. The limits on the size and time of headers are the server's.
 *
 * It is answered once: `reply` with a body at hand, or `open` for a body that is sent piece by piece. A second answer is
 * ignored and told to `onMisuse`.
 *
 * @example
 * function answerHealth(exchange: Exchange): void {
 *   if (exchange.path === '/health') exchange.reply(200, { 'content-type': 'text/plain' }, 'ok');
 *   else exchange.reply(404, {});
 * }
 */
export interface Exchange {
  readonly method: string;
  /** As sent, still percent-encoded, without the query. */
  readonly path: string;
  /** Path and query as sent. */
  readonly target: string;
  readonly query: URLSearchParams;
  /** @param name - in lower case. Several values are joined with `, `. */
  header(name: string): string | undefined;
  readonly remoteAddress: string;
  /** The same object for every exchange of one connection. */
  readonly connection: object;
  /** Who the client is by its certificate; undefined without one, or when it was not verified. */
  readonly peer: Peer | undefined;
  readonly httpVersion: '1.0' | '1.1' | '2.0';
  /** Over: the response is complete, or the client is gone. */
  readonly closed: boolean;
  /** Whether an answer was given. */
  readonly answered: boolean;
  /**
   * Tells once when the exchange is over; at once when it already is. `complete`: the whole response was taken. Otherwise
   * the client went away first, or the response was killed.
   */
  onClose(listener: (complete: boolean) => void): void;
  /** Takes a listener of `onClose` back. */
  offClose(listener: (complete: boolean) => void): void;
  /**
   * Tells once whether the response was received. `true`: all of it was sent, and the client's kernel acknowledged it, or
   * the client itself did. `false`: it was cut, or its connection ended without a proof; it may have been received all the
   * same. Where a connection is to be closed after this response, our side is closed and the rest kept for the proof, 5 s at
   * most. Ask before the response is over: later nothing is known, and `false` is told.
   */
  onReceived(listener: (received: boolean) => void): void;
  /**
   * Calls `listener` when this response is the one its connection carries: at once, or when the pipelined ones before it are
   * done. Take a slot only then. Never called when the client goes away first.
   */
  onTurn(listener: () => void): void;
  /**
   * The request's body. Rejects when it is larger than `bytesMax` or the client leaves before its end.
   *
   * @param onPart - told how many bytes came, each time; when it says no, the rest is dropped and the promise rejects.
   */
  body(bytesMax: number, onPart?: (bytes: number) => boolean): Promise<Buffer>;
  /** A whole answer. Content-Length is added; a HEAD request gets the headers only. */
  reply(status: number, headers: ReplyHeaders, body?: string | Uint8Array): void;
  /** Begins an answer: with Content-Length in `headers` the body must have exactly that size, without it is chunked. */
  open(status: number, headers: ReplyHeaders): Channel;
}

/** What an exchange needs to know about its server. */
export interface ExchangeContext {
  readonly rawSockets: RawSockets;
  /** Finds out what was received. Without it `onReceived` always tells `false`. */
  readonly receipts?: Receipts;
  readonly clock?: Clock;
  /** Told when an exchange is answered twice: a fault of the caller's, never of the client's. */
  readonly onMisuse?: (fault: string) => void;
}

type AnyRequest = IncomingMessage | Http2ServerRequest;
type AnyResponse = ServerResponse | Http2ServerResponse;

/**
 * An exchange over a request and response of node:http, node:https or node:http2 (its compatibility API).
 *
 * @example
 * import http from 'node:http';
 * import type { AddressInfo } from 'node:net';
 *
 * const server = http.createServer();
 * const rawSockets = trackRawSockets(server);
 * server.on('request', (req, res) => {
 *   const exchange = exchangeOf(req, res, { rawSockets });
 *   exchange.reply(200, {}, `${exchange.method} ${exchange.path}`);
 * });
 * await new Promise<void>((resolve) => server.listen(0, resolve));
 * const response = await fetch(`http://localhost:${(server.address() as AddressInfo).port}/flags?all`);
 * console.log(await response.text()); // GET /flags
 * server.close();
 */
export function exchangeOf(req: AnyRequest, res: AnyResponse, context: ExchangeContext): Exchange {
  return new NodeExchange(req, res, context);
}

/** Most requests have none, and ten thousand streams need not each have an empty one. Never changed. */
const NO_QUERY = new URLSearchParams();

/** Headers that speak about the connection; HTTP/2 has none (RFC 9113, section 8.2.2) and node:http2 throws on them. */
const CONNECTION_HEADERS = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade']);

class NodeExchange implements Exchange {
  readonly method: string;
  readonly path: string;
  readonly target: string;
  readonly connection: object;
  readonly httpVersion: '1.0' | '1.1' | '2.0';
  readonly #req: AnyRequest;
  readonly #res: AnyResponse;
  readonly #context: ExchangeContext;
  readonly #search: string;
  #query: URLSearchParams | undefined;
  #answered = false;
  #complete: boolean | undefined;
  #finished = false;
  #receipt: Receipt | undefined;
  #listeners: ((complete: boolean) => void)[] = [];

  constructor(req: AnyRequest, res: AnyResponse, context: ExchangeContext) {
    const url = req.url ?? '/';
    const mark = url.indexOf('?');
    this.method = req.method ?? 'GET';
    this.target = url;
    this.path = mark < 0 ? url : url.slice(0, mark);
    // a stream that is over already has forgotten its session
    this.connection = isHttp2(res) ? (res.stream.session ?? res.stream) : req.socket;
    this.httpVersion = req.httpVersionMajor === 2 ? '2.0' : req.httpVersionMinor === 0 ? '1.0' : '1.1';
    this.#search = mark < 0 ? '' : url.slice(mark + 1);
    this.#req = req;
    this.#res = res;
    this.#context = context;
    context.receipts?.requested(this.connection, !isHttp2(res) && res.socket === null);
    // the compatibility API says 'finish' whenever it closes; the stream below it knows better
    const body = bodyOf(res);
    body.on('error', ignoreError);
    body.prependOnceListener('finish', () => {
      this.#finished = !isCut(req, res);
      if (this.#finished && this.#receipt !== undefined && !isHttp2(res)) this.#sent(this.#receipt);
    });
    body.once('close', () => this.#over(this.#finished || this.#isHeadOnly()));
    if (!isHttp2(res)) whenLostBeforeTurn(res, req.socket, () => this.#over(false));
    if (isHttp2(res) ? res.stream.closed : res.closed) this.#over(false);
  }

  get query(): URLSearchParams {
    this.#query ??= this.#search === '' ? NO_QUERY : new URLSearchParams(this.#search);
    return this.#query;
  }

  get remoteAddress(): string {
    return this.#req.socket?.remoteAddress ?? '';
  }

  get peer(): Peer | undefined {
    return peerOf(this.connection);
  }

  get closed(): boolean {
    return this.#complete !== undefined || isCut(this.#req, this.#res);
  }

  get answered(): boolean {
    return this.#answered;
  }

  header(name: string): string | undefined {
    const value = this.#req.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  onClose(listener: (complete: boolean) => void): void {
    if (this.#complete === undefined) this.#listeners.push(listener);
    else listener(this.#complete);
  }

  offClose(listener: (complete: boolean) => void): void {
    const at = this.#listeners.indexOf(listener);
    if (at >= 0) this.#listeners.splice(at, 1);
  }

  onReceived(listener: (received: boolean) => void): void {
    this.#receipt ??= new Receipt();
    if (this.#finished || this.#complete !== undefined) this.#receipt.tell(false);
    this.#receipt.onTold(listener);
  }

  onTurn(listener: () => void): void {
    if (isHttp2(this.#res)) listener();
    else whenOwnsSocket(this.#res, listener);
  }

  body(bytesMax: number, onPart?: (bytes: number) => boolean): Promise<Buffer> {
    const req = this.#req;
    return new Promise((resolve, reject) => {
      const parts: Buffer[] = [];
      let bytes = 0;
      const collect = (part: Buffer): void => {
        bytes += part.byteLength;
        const isTaken = bytes <= bytesMax && (onPart?.(part.byteLength) ?? true);
        if (isTaken) {
          parts.push(part);
          return;
        }
        parts.length = 0;
        // without a listener the rest flows on and is dropped; a destroyed request would take the answer's connection along
        req.removeListener('data', collect);
        const limit = bytes > bytesMax ? `its body may have ${bytesMax} bytes` : 'there is no room for its body';
        reject(new Error(`Cannot read the request: ${limit}, got more`));
      };
      req.on('data', collect);
      req.once('end', () => resolve(Buffer.concat(parts)));
      req.once('error', reject);
      req.once('close', () => reject(new Error('Cannot read the request: the client left before its end')));
    });
  }

  reply(status: number, headers: ReplyHeaders, body: string | Uint8Array = ''): void {
    if (!this.#mayAnswer('reply')) return;
    // a string stays one: Node joins it with the head into one write
    const length = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
    const all: Record<string, string> = { ...headers };
    if (status !== 204 && status !== 304) all['content-length'] ??= String(length);
    const res = this.#res;
    if (!isHttp2(res)) res.writeHead(status, all);
    else if (!respondWhole(res, status, withoutConnection(all))) return;
    const hasBody = this.method !== 'HEAD' && length > 0 && status !== 204 && status !== 304;
    const to = bodyOf(res);
    if (hasBody) to.end(body);
    else to.end();
  }

  open(status: number, headers: ReplyHeaders): Channel {
    if (!this.#mayAnswer('open')) return new DeadChannel(this.#req.httpVersionMajor === 2 ? 'h2c' : 'http1');
    const length = headers['content-length'];
    const bodyBytes = length === undefined ? undefined : Number(length);
    const res = this.#res;
    const { rawSockets, clock } = this.#context;
    if (!isHttp2(res)) {
      res.writeHead(status, headers);
      return new Http1Channel(res, res.req.socket, rawSockets, bodyBytes);
    }
    // by `res`, which waits for trailers: without that, Node ends a stream that is killed as if it were whole
    res.writeHead(status, withoutConnection(headers));
    const bodyless = this.method === 'HEAD' || status === 204 || status === 304;
    return new Http2Channel(res.stream, { rawSockets, bodyBytes, bodyless, ...(clock === undefined ? {} : { clock }) });
  }

  /** Node ends a stream that answers HEAD before anybody can listen: all of it is sent once its head is. */
  #isHeadOnly(): boolean {
    const res = this.#res;
    if (!isHttp2(res) || this.method !== 'HEAD') return false;
    return res.stream.headersSent && res.stream.rstCode === constants.NGHTTP2_NO_ERROR;
  }

  #mayAnswer(how: string): boolean {
    if (this.#answered) {
      this.#context.onMisuse?.(`Cannot ${how}: the exchange was answered before, got ${this.method} ${this.path}`);
      return false;
    }
    this.#answered = true;
    return true;
  }

  #over(complete: boolean): void {
    if (this.#complete !== undefined) return;
    this.#complete = complete;
    const listeners = this.#listeners;
    this.#listeners = [];
    for (const listener of listeners) listener(complete);
    const receipt = this.#receipt;
    if (receipt === undefined) return;
    if (!complete) receipt.tell(false);
    else if (isHttp2(this.#res)) this.#sent(receipt);
  }

  #sent(receipt: Receipt): void {
    const { receipts, rawSockets } = this.#context;
    if (receipts === undefined) {
      receipt.tell(false);
    } else if (isHttp2(this.#res)) {
      const session = this.connection as Http2Session;
      receipts.sentOverHttp2(receipt, session, rawSockets.ofSession(session));
    } else {
      const socket = this.connection as Socket;
      receipts.sentOverHttp1(receipt, socket, rawSockets.ofSocket(socket));
    }
  }
}

function withoutConnection(headers: ReplyHeaders): OutgoingHttpHeaders {
  const allowed: OutgoingHttpHeaders = {};
  for (const [name, value] of Object.entries(headers)) if (!CONNECTION_HEADERS.has(name)) allowed[name] = value;
  return allowed;
}

/**
 * Begins an answer that is at hand as a whole. Not by the compatibility API: it waits for trailers, and so sends the end of
 * the body in a frame, and often a segment, of its own. A client that leaves when it has read what was announced would find
 * that one unread, and reset the connection instead of closing it: no receipt.
 */
function respondWhole(res: Http2ServerResponse, status: number, headers: OutgoingHttpHeaders): boolean {
  const { stream } = res;
  if (stream.destroyed || stream.closed) return false;
  // for those who count answers by it
  res.statusCode = status;
  stream.respond({ ...headers, ':status': status });
  return true;
}

function isHttp2(res: AnyResponse): res is Http2ServerResponse {
  return 'stream' in res;
}

function bodyOf(res: AnyResponse): ServerResponse | ServerHttp2Stream {
  return isHttp2(res) ? res.stream : res;
}

/** Whether the response can no longer reach the client as a whole. */
function isCut(req: AnyRequest, res: AnyResponse): boolean {
  if (!isHttp2(res)) return req.socket.destroyed;
  const stream = res.stream;
  return stream.destroyed || stream.aborted || stream.rstCode !== constants.NGHTTP2_NO_ERROR;
}
