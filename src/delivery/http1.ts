import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { BaseChannel, type Block, bytesOf, ignoreError, type Transport } from './channel.ts';
import { type RawSockets, resetConnection } from './raw-sockets.ts';

const CRLF = Buffer.from('\r\n');

/**
 * A response over HTTP/1.1 or 1.0, in the clear or over TLS.
 *
 * Once its head is out and the socket is its own, the body is written to the socket itself: a live event is then one
 * buffer that all clients share, already framed (a third less time and half the CPU of `res.write`), and the pieces of a
 * copy go out as one chunk. `res.end()` still writes the last chunk, in order, because the socket keeps the order.
 */
export class Http1Channel extends BaseChannel {
  readonly transport: Transport;
  readonly #res: ServerResponse;
  readonly #socket: Socket;
  readonly #rawSockets: RawSockets;
  readonly #bodyBytes: number | undefined;
  readonly #bodyless: boolean;
  #bytes = 0;
  #finished = false;
  #headIsOut: boolean;
  // made on first need: an idle stream has none
  #onTaken: (() => void) | undefined;

  /**
   * @param res - its headers must have been given (`writeHead`).
   * @param socket - the connection's socket; `res.socket` is null while a pipelined response waits for its turn.
   * @param bodyBytes - what Content-Length says; undefined when there is none.
   */
  constructor(res: ServerResponse, socket: Socket, rawSockets: RawSockets, bodyBytes?: number) {
    super();
    this.#res = res;
    this.#socket = socket;
    this.#rawSockets = rawSockets;
    this.#bodyBytes = bodyBytes;
    this.#bodyless = res.req.method === 'HEAD' || res.statusCode === 204 || res.statusCode === 304;
    this.transport = socket instanceof TLSSocket ? 'https1' : 'http1';
    res.on('error', ignoreError);
    // a body of known length takes its head along with its first bytes; an open stream may have none for a while
    this.#headIsOut = bodyBytes === undefined;
    if (this.#headIsOut) res.flushHeaders();
    // Node emits 'finish' also when the socket died with writes pending; only now can the two be told apart
    res.prependOnceListener('finish', () => {
      this.#finished = !this.#socket.destroyed;
    });
    res.once('close', () => this.over(this.isEnded && this.#finished && !this.isKilled));
    whenLostBeforeTurn(res, socket, () => this.over(false));
    // a response made for a connection that is already gone never emits 'close'
    if (res.closed || socket.destroyed) this.over(false);
  }

  get socket(): Socket | undefined {
    return this.#rawSockets.ofSocket(this.#socket);
  }

  get dead(): boolean {
    return this.isKilled || this.isOver || this.#res.destroyed || this.#socket.destroyed;
  }

  write(pieces: readonly Uint8Array[], done: (error?: Error) => void): void {
    const bytes = bytesOf(pieces);
    if (this.dead || (this.isEnded && !this.#isWhole)) {
      setImmediate(done, new Error('Cannot write: the channel is dead'));
    } else if (this.#bodyless || bytes === 0) {
      setImmediate(done);
    } else if (this.#overflows(bytes)) {
      setImmediate(done, new Error(`Cannot write: the body has ${this.#bodyBytes} bytes, got ${this.#bytes + bytes}`));
    } else if (this.#ownsSocket()) {
      this.#writeToSocket(pieces, bytes, done);
    } else {
      this.#writeToResponse(pieces, done);
    }
    // a client that counts may leave at its last byte: that must find the response complete, whenever our turn comes to end it
    if (this.#isWhole && !this.#bodyless) this.end();
  }

  send(block: Block): boolean {
    if (this.dead || this.isEnded || this.#bodyless) return true;
    if (this.#overflows(block.bytes.byteLength)) {
      this.kill();
      return true;
    }
    this.#onTaken ??= () => {
      if (this.#res.writableLength === 0) this.drained();
    };
    if (!this.#ownsSocket()) this.#writeToResponse([block.bytes], this.#onTaken);
    else this.#socket.write(this.#res.chunkedEncoding ? block.chunk : block.bytes, this.#onTaken);
    return this.#res.writableLength === 0 || this.holdBack();
  }

  end(): void {
    if (this.isEnded || this.isKilled || this.isOver) return;
    // a body shorter than announced would leave the client waiting, or reading the next response as the rest of this one
    if (!this.#bodyless && this.#bodyBytes !== undefined && this.#bytes !== this.#bodyBytes) return this.kill();
    this.isEnded = true;
    this.#res.end();
  }

  kill(): void {
    if (this.isKilled || this.isOver) return;
    this.isKilled = true;
    const raw = this.#rawSockets.ofSocket(this.#socket);
    if (raw === undefined) this.#socket.destroy();
    else resetConnection(raw);
  }

  /** Whether every byte of a body of known length was written. */
  get #isWhole(): boolean {
    return this.#bodyBytes !== undefined && this.#bodyBytes > 0 && this.#bytes === this.#bodyBytes;
  }

  /** Whether the body may go to the socket directly: it is this response's turn, and it holds nothing back itself. */
  #ownsSocket(): boolean {
    const { socket, writableLength } = this.#res;
    return this.#headIsOut && socket === this.#socket && writableLength === socket.writableLength;
  }

  /** Counts bytes against Content-Length; true when they are more than were announced. */
  #overflows(bytes: number): boolean {
    if (this.#bodyBytes !== undefined && this.#bytes + bytes > this.#bodyBytes) return true;
    this.#bytes += bytes;
    return false;
  }

  #writeToSocket(pieces: readonly Uint8Array[], bytes: number, done: (error?: Error) => void): void {
    const socket = this.#socket;
    const isChunked = this.#res.chunkedEncoding;
    const last = pieces.length - 1;
    const taken = (error: Error | null | undefined): void => done(error ?? undefined);
    socket.cork();
    if (isChunked) socket.write(Buffer.from(`${bytes.toString(16)}\r\n`, 'latin1'));
    for (let i = 0; i < last; i++) socket.write(pieces[i] as Uint8Array);
    if (isChunked) {
      socket.write(pieces[last] as Uint8Array);
      socket.write(CRLF, taken);
    } else {
      socket.write(pieces[last] as Uint8Array, taken);
    }
    socket.uncork();
  }

  #writeToResponse(pieces: readonly Uint8Array[], done: (error?: Error) => void): void {
    const res = this.#res;
    const last = pieces.length - 1;
    this.#headIsOut = true;
    res.cork();
    for (let i = 0; i < last; i++) res.write(pieces[i]);
    res.write(pieces[last], (error) => done(error ?? undefined));
    res.uncork();
  }
}

/**
 * Calls `listener` when the connection of a pipelined response goes away before its turn: Node tells such a response nothing.
 *
 * @param socket - the connection's socket, which the response does not have yet.
 */
export function whenLostBeforeTurn(res: ServerResponse, socket: Socket, listener: () => void): void {
  if (res.socket !== null) return;
  const listeners = beforeTurn.get(socket) ?? new Set<() => void>();
  if (!beforeTurn.has(socket)) {
    beforeTurn.set(socket, listeners);
    socket.once('close', () => {
      for (const tell of listeners) tell();
    });
  }
  listeners.add(listener);
  if (listeners.size > PIPELINED_MAX) socket.destroy();
  res.once('socket', () => listeners.delete(listener));
}

/** Requests that may wait on one connection for the response before them; no client of ours pipelines at all. */
const PIPELINED_MAX = 256;

/** Who waits on which connection. One listener on the socket for all: a client may pipeline any number of requests. */
const beforeTurn = new WeakMap<Socket, Set<() => void>>();

/**
 * Calls `listener` when the response owns its connection: at once, or when the pipelined responses before it are done.
 *
 * Until then nothing it writes reaches the client, so a slot held or a deadline armed meanwhile would be charged to a
 * healthy reader. Never called when the connection goes away first.
 *
 * @example
 * import http from 'node:http';
 *
 * http.createServer((req, res) => {
 *   whenOwnsSocket(res, () => res.end(`${req.url} has the connection to itself`));
 * });
 */
export function whenOwnsSocket(res: ServerResponse, listener: () => void): void {
  if (res.socket !== null) listener();
  else if (!res.destroyed) res.once('socket', listener);
}
