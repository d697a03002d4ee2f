import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline, type Readable } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { createGunzip } from 'node:zlib';
import { type Clock, HeadgateError, messageOf, type Timer } from '../kernel/index.ts';
import { shownUrl } from './url.ts';

/** A request. */
export interface OutboundRequest {
  readonly method: string;
  readonly url: URL;
  /** `accept-encoding`, `content-length` and `user-agent` are set by the client unless they are given. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Gives the request up, also while its body is read. */
  readonly signal?: AbortSignal;
  /** From the connection to the head of the answer, in milliseconds; 30,000 when not given. */
  readonly headersTimeoutMs?: number;
  /** How long a reader of the body waits for its next byte, in milliseconds; 60,000 when not given. */
  readonly idleTimeoutMs?: number;
}

/** An answer. Its body must be read, by one reader and once, or discarded: a connection is held until then. */
export interface OutboundReply {
  readonly status: number;
  /** The value of a header, whatever the case of its name; several are joined with `, `. */
  header(name: string): string | undefined;
  /** Pieces as they arrive, gzip undone. Leaving the iteration closes the connection. Throws HG_UPSTREAM, also when the answer is cut. */
  readonly body: AsyncIterable<Uint8Array>;
  /** The whole body as text. Throws HG_UPSTREAM, also when it has more than `bytesMax` bytes. */
  text(bytesMax: number): Promise<string>;
  /** Lets the body go unread. */
  discard(): void;
}

const HEADERS_MS_MAX = 30_000;
const IDLE_MS_MAX = 60_000;
/** What is cheaper to read to its end than a new connection. */
const DRAIN_BYTES_MAX = 64 * 1024;
/** It is on its way already, or a new connection is cheaper after all. */
const DRAIN_MS_MAX = 5000;

/** `tls.TLSSocket` has it, its types do not. */
interface Securing {
  readonly secureConnecting: boolean;
}

/** What an {@link Exchange} needs. */
export interface ExchangeOptions {
  readonly request: OutboundRequest;
  readonly clock: Clock;
  readonly connectTimeoutMs: number;
  /** @param signal - destroys the connection, also while a proxy is still being asked for it. */
  readonly send: (signal: AbortSignal) => ClientRequest;
  readonly ended: (exchange: Exchange) => void;
}

/** One request and its answer: the timers, and what becomes of failures. */
export class Exchange {
  readonly #options: ExchangeOptions;
  #request: ClientRequest | undefined;
  #response: IncomingMessage | undefined;
  #timer: Timer | undefined;
  #kept = false;
  /** Why we ended it, when we did: the error of the destroyed stream says less. */
  #cause: string | undefined;
  #reject: (error: Error) => void = () => {};
  readonly #stopping = new AbortController();
  readonly #onAbort = (): void => this.stop('it was given up');

  constructor(options: ExchangeOptions) {
    this.#options = options;
  }

  /** Whether it failed on a kept connection without any fault of the other side that we know of, and may be made again (RFC 9110 section 9.2.2). */
  get mayRepeat(): boolean {
    const { method } = this.#options.request;
    const isSafe = method === 'GET' || method === 'HEAD';
    return this.#kept && isSafe && this.#cause === undefined;
  }

  async run(): Promise<OutboundReply> {
    try {
      const response = await this.#head();
      // told to whoever reads; nobody may be reading yet
      response.on('error', () => {});
      response.on('close', () => this.#end());
      return this.#reply(response);
    } catch (thrown) {
      this.#end();
      throw this.#failure(thrown);
    } finally {
      this.#disarm();
    }
  }

  /** Gives it up. */
  stop(cause: string): void {
    this.#cause ??= cause;
    const error = new Error(cause);
    (this.#response ?? this.#request)?.destroy(error);
    // A request without a socket says nothing when it is destroyed, and its proxy may keep it without one for ever.
    this.#reject(error);
    this.#stopping.abort();
  }

  #end(): void {
    this.#disarm();
    this.#options.request.signal?.removeEventListener('abort', this.#onAbort);
    this.#options.ended(this);
  }

  #head(): Promise<IncomingMessage> {
    return new Promise<IncomingMessage>((resolve, reject) => {
      this.#reject = reject;
      const { signal } = this.#options.request;
      if (signal?.aborted === true) return this.stop('it was given up');
      signal?.addEventListener('abort', this.#onAbort, { once: true });
      const request = this.#options.send(this.#stopping.signal);
      this.#request = request;
      request.on('error', reject);
      request.on('response', (response) => {
        this.#response = response;
        resolve(response);
      });
      request.on('socket', (socket) => this.#onSocket(socket));
      // Behind a proxy the socket is given out once the tunnel stands, so the time for a connection begins here.
      const { connectTimeoutMs } = this.#options;
      this.#arm(connectTimeoutMs, `no connection within ${connectTimeoutMs / 1000} s`);
    });
  }

  #onSocket(socket: Socket): void {
    const { headersTimeoutMs = HEADERS_MS_MAX } = this.#options.request;
    const connected = (): void => {
      if (this.#response === undefined) this.#arm(headersTimeoutMs, `no answer within ${headersTimeoutMs / 1000} s`);
    };
    const isSecuring = socket instanceof TLSSocket && (socket as TLSSocket & Securing).secureConnecting;
    this.#kept = this.#request?.reusedSocket === true;
    if (!socket.connecting && !isSecuring) return connected();
    socket.once(socket instanceof TLSSocket ? 'secureConnect' : 'connect', connected);
  }

  #reply(response: IncomingMessage): OutboundReply {
    const header = (name: string): string | undefined => {
      const value = response.headers[name.toLowerCase()];
      return Array.isArray(value) ? value.join(', ') : value;
    };
    const body = this.#read(response);
    const discard = (): void => {
      const length = Number(header('content-length') ?? Number.POSITIVE_INFINITY);
      if (length > DRAIN_BYTES_MAX) return void response.destroy();
      // of a body that is promised and does not come nobody else would ever let go
      this.#arm(DRAIN_MS_MAX, `its end did not come within ${DRAIN_MS_MAX / 1000} s`);
      response.resume();
    };
    return { status: response.statusCode ?? 0, header, body, discard, text: (bytesMax) => this.#text(body, bytesMax) };
  }

  async #text(body: AsyncIterable<Uint8Array>, bytesMax: number): Promise<string> {
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    for await (const piece of body) {
      bytes += piece.byteLength;
      if (bytes > bytesMax) throw this.#failure(new Error(`the answer may have ${bytesMax} bytes, got more`));
      pieces.push(piece);
    }
    return Buffer.concat(pieces).toString('utf8');
  }

  async *#read(response: IncomingMessage): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      const pieces = this.#decoded(response)[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
      for (let piece = await this.#next(pieces); piece !== undefined; piece = await this.#next(pieces)) yield piece;
    } catch (thrown) {
      throw this.#failure(thrown);
    } finally {
      // before its end the rest cannot be told from the next answer, so the connection goes with it
      response.destroy();
    }
  }

  /** Only the time for which we wait counts: a reader that takes its time is no silence of the other side. */
  async #next(pieces: AsyncIterator<Buffer>): Promise<Buffer | undefined> {
    const { idleTimeoutMs = IDLE_MS_MAX } = this.#options.request;
    this.#arm(idleTimeoutMs, `nothing came for ${idleTimeoutMs / 1000} s`);
    try {
      const { done, value } = await pieces.next();
      return done === true ? undefined : value;
    } finally {
      this.#disarm();
    }
  }

  #decoded(response: IncomingMessage): Readable {
    const encoding = (response.headers['content-encoding'] ?? 'identity').toLowerCase();
    if (encoding === 'identity' || encoding === '') return response;
    if (encoding !== 'gzip') throw new Error(`the answer must be plain or gzip, got ${JSON.stringify(encoding)}`);
    // The outcome is seen by whoever reads.
    return pipeline(response, createGunzip(), () => {});
  }

  #arm(ms: number, cause: string): void {
    this.#disarm();
    if (ms < Number.POSITIVE_INFINITY) this.#timer = this.#options.clock.after(ms, () => this.stop(cause));
  }

  #disarm(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #failure(thrown: unknown): HeadgateError {
    if (thrown instanceof HeadgateError) return thrown;
    const { url } = this.#options.request;
    const given = this.#cause ?? causeOf(thrown);
    const act = this.#response === undefined ? 'reach' : 'read the answer of';
    return new HeadgateError('HG_UPSTREAM', `Cannot ${act} ${shownUrl(url)}: ${given}`, { cause: thrown });
  }
}

/** A name with several addresses fails once for each, and the error that stands for all of them has no text of its own. */
function causeOf(thrown: unknown): string {
  return thrown instanceof AggregateError ? thrown.errors.map(messageOf).join(', ') : messageOf(thrown);
}
