import { Agent as HttpAgent, type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import { pipeline, type Readable } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { createGunzip } from 'node:zlib';
import { type Clock, HeadgateError, messageOf, type Timer } from '../kernel/index.ts';
import { LapiError } from './lapi-error.ts';

/** How the connection to a local API is secured, and who we are on it. */
export interface LapiTls {
  readonly ca?: Buffer;
  /** Our own certificate, and its key. */
  readonly cert?: Buffer;
  readonly key?: Buffer;
  /** False: any certificate is accepted. */
  readonly rejectUnauthorized?: boolean;
  readonly servername?: string;
}

/** Settings of a {@link LapiClient}. */
export interface ClientOptions {
  readonly name: string;
  readonly url: string;
  readonly tls: LapiTls | undefined;
  readonly clock: Clock;
  /** How many connections may be open at once. */
  readonly socketsMax: number;
}

/** A request to a local API. */
export interface ClientRequestOptions {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Whether a body that came compressed is given out as it was before. */
  readonly decode: boolean;
  /** How long the whole answer may take, in milliseconds. Not given: as long as bytes keep coming. */
  readonly totalMsMax?: number;
}

/** An answer whose body is still to be read: to its end, or until the iteration is left, which closes the connection. */
export interface ClientReply {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: AsyncIterable<Buffer>;
}

const CONNECT_MS_MAX = 10_000;
/** Between two reads. A local API with 1,200 bouncers at its door was seen to need most of a minute for a first byte. */
const SILENCE_MS_MAX = 60_000;

/**
 * HTTP/1.1 to one local API, over connections that are kept. What goes wrong is a {@link LapiError} that says what and where.
 */
export class LapiClient {
  readonly name: string;
  /** Scheme, host and path that come before every target. */
  readonly url: string;
  readonly #prefix: string;
  readonly #clock: Clock;
  readonly #agent: HttpAgent;
  readonly #secure: boolean;
  readonly #underWay = new Set<Attempt>();
  #closed = false;

  /** Throws HG_OPTION on a URL that cannot be used. */
  constructor(options: ClientOptions) {
    const url = parseUrl(options);
    this.name = options.name;
    this.#prefix = url.pathname.replace(/\/+$/, '');
    this.url = url.origin + this.#prefix;
    this.#clock = options.clock;
    this.#secure = url.protocol === 'https:';
    const pool = { keepAlive: true, maxSockets: options.socketsMax, maxFreeSockets: options.socketsMax };
    this.#agent = this.#secure ? new HttpsAgent({ ...pool, ...options.tls }) : new HttpAgent(pool);
  }

  /**
   * Resolves when the head of the answer is here.
   *
   * A kept connection that the other side closed in the same moment is no failure of the local API: the request is made
   * once more, on a new one, when it is one that may be repeated (RFC 9110 section 9.2.2).
   */
  async request(options: ClientRequestOptions): Promise<ClientReply> {
    const attempt = this.#attempt(options);
    try {
      return await attempt.run();
    } catch (thrown) {
      if (!attempt.stale || this.#closed) throw thrown;
      return await this.#attempt(options).run();
    }
  }

  /** Gives up every request, and closes every connection. */
  close(): void {
    this.#closed = true;
    for (const attempt of this.#underWay) attempt.stop();
    this.#agent.destroy();
  }

  #attempt(options: ClientRequestOptions): Attempt {
    return new Attempt({
      request: options,
      client: this,
      clock: this.#clock,
      send: () => {
        if (this.#closed) throw new Error('it was stopped');
        return this.#send(options);
      },
      begins: (attempt) => this.#underWay.add(attempt),
      ends: (attempt) => this.#underWay.delete(attempt),
    });
  }

  #send({ method, target, headers, body, signal }: ClientRequestOptions): ClientRequest {
    const send = this.#secure ? httpsRequest : httpRequest;
    const length = body === undefined ? {} : { 'content-length': String(body.byteLength) };
    const path = this.#prefix + target;
    const abort = signal === undefined ? {} : { signal };
    const request = { agent: this.#agent, method, path, headers: { ...headers, ...length }, ...abort };
    return send(this.url, request).end(body);
  }
}

function parseUrl({ name, url }: ClientOptions): URL {
  const refuse = (cause: string): never => {
    throw new HeadgateError('HG_OPTION', `Cannot use the local API ${name}: ${cause}`);
  };
  if (!URL.canParse(url)) return refuse(`its URL must be one, got ${JSON.stringify(url)}`);
  const parsed = new URL(url);
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') {
    return refuse(`its URL must begin with http:// or https://, got ${parsed.protocol}`);
  }
  // a URL is shown in logs and in the status
  if (parsed.username !== '' || parsed.password !== '') return refuse('its URL must not hold a user or a password');
  if (parsed.search !== '' || parsed.hash !== '') return refuse('its URL must end with the path');
  return parsed;
}

/** `tls.TLSSocket` has it, its types do not. */
interface Securing {
  readonly secureConnecting: boolean;
}

interface AttemptOptions {
  readonly request: ClientRequestOptions;
  readonly client: LapiClient;
  readonly clock: Clock;
  readonly send: () => ClientRequest;
  readonly begins: (attempt: Attempt) => void;
  readonly ends: (attempt: Attempt) => void;
}

/** One exchange: its timer, and what becomes of its failures. */
class Attempt {
  readonly #options: AttemptOptions;
  readonly #beganMs: number;
  #request: ClientRequest | undefined;
  #response: IncomingMessage | undefined;
  #timer: Timer | undefined;
  #connected = false;
  /** Whether it went over a connection that another had used before. */
  #kept = false;
  /** Why we ended it, when we did. */
  #ended: LapiError | undefined;
  #bytes = 0;

  constructor(options: AttemptOptions) {
    this.#options = options;
    this.#beganMs = options.clock.now();
  }

  /** Whether it failed on a kept connection before any byte of an answer, and may be made again. */
  get stale(): boolean {
    const { method, signal } = this.#options.request;
    const mayRepeat = (method === 'GET' || method === 'HEAD') && signal?.aborted !== true;
    return mayRepeat && this.#ended === undefined && this.#kept;
  }

  async run(): Promise<ClientReply> {
    this.#options.begins(this);
    try {
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        const request = this.#options.send();
        this.#request = request;
        request.on('error', reject);
        request.on('response', resolve);
        request.on('socket', (socket) => this.#onSocket(socket));
        this.#arm(Number.POSITIVE_INFINITY, 'unreachable', '');
      });
      this.#response = response;
      // told to whoever reads; nobody may be reading yet
      response.on('error', () => {});
      response.on('close', () => this.#options.ends(this));
      return { status: response.statusCode ?? 0, headers: response.headers, body: this.#read(response) };
    } catch (thrown) {
      this.#options.ends(this);
      throw this.#translate(thrown);
    } finally {
      this.#disarm();
    }
  }

  /** Gives it up. */
  stop(): void {
    this.#end(this.#failure('stopped', 'it was given up'));
  }

  #onSocket(socket: Socket): void {
    const listen = (): void => {
      this.#connected = true;
      this.#waitForBytes();
    };
    const isSecuring = socket instanceof TLSSocket && (socket as TLSSocket & Securing).secureConnecting;
    this.#kept = !socket.connecting && !isSecuring;
    if (this.#kept) return listen();
    this.#arm(CONNECT_MS_MAX, 'unreachable', `no connection within ${CONNECT_MS_MAX / 1000} s`);
    socket.once(socket instanceof TLSSocket ? 'secureConnect' : 'connect', listen);
  }

  async *#read(response: IncomingMessage): AsyncGenerator<Buffer, void, undefined> {
    try {
      const pieces = this.#bodyOf(response)[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
      for (let piece = await this.#next(pieces); piece !== undefined; piece = await this.#next(pieces)) {
        this.#bytes += piece.length;
        yield piece;
      }
    } catch (thrown) {
      throw this.#translate(thrown);
    } finally {
      // before its end the rest cannot be told from the next answer, so the connection goes with it
      response.destroy();
    }
  }

  /** Only the time for which we wait counts: a reader that takes its time is no silence of the local API. */
  async #next(pieces: AsyncIterator<Buffer>): Promise<Buffer | undefined> {
    this.#waitForBytes();
    try {
      const { done, value } = await pieces.next();
      return done === true ? undefined : value;
    } finally {
      this.#disarm();
    }
  }

  #bodyOf(response: IncomingMessage): Readable {
    const encoding = this.#options.request.decode
      ? (response.headers['content-encoding'] ?? 'identity').toLowerCase()
      : 'identity';
    if (encoding === 'identity') return response;
    if (encoding !== 'gzip') throw new Error(`the answer must be plain or gzip, got ${JSON.stringify(encoding)}`);
    // the outcome is seen by whoever reads
    return pipeline(response, createGunzip(), () => {});
  }

  #waitForBytes(): void {
    this.#arm(SILENCE_MS_MAX, 'answer', `nothing came for ${SILENCE_MS_MAX / 1000} s`);
  }

  /** Ends the exchange after `ms`, or when it has taken as long as it may. */
  #arm(ms: number, failure: 'unreachable' | 'answer', cause: string): void {
    this.#disarm();
    const { clock, request } = this.#options;
    const { totalMsMax = Number.POSITIVE_INFINITY } = request;
    const leftMs = this.#beganMs + totalMsMax - clock.now();
    if (leftMs < ms) {
      this.#timer = clock.after(leftMs, () =>
        this.#end(this.#failure(failure, `no end within ${totalMsMax / 1000} s`)),
      );
    } else if (ms < Number.POSITIVE_INFINITY) {
      this.#timer = clock.after(ms, () => this.#end(this.#failure(failure, cause)));
    }
  }

  #end(error: LapiError): void {
    this.#ended ??= error;
    (this.#response ?? this.#request)?.destroy(error);
  }

  #disarm(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #translate(thrown: unknown): LapiError {
    // what the destroyed stream says of its end is less than what we know
    if (this.#ended !== undefined) return this.#ended;
    if (thrown instanceof LapiError) return thrown;
    if (this.#options.request.signal?.aborted === true) return this.#failure('stopped', 'it was given up', thrown);
    return this.#failure(this.#connected ? 'answer' : 'unreachable', causeOf(thrown), thrown);
  }

  #failure(failure: LapiError['failure'], cause: string, thrown?: unknown): LapiError {
    const { name, url } = this.#options.client;
    const after = this.#response !== undefined ? ` after ${this.#bytes} bytes of the answer` : '';
    const message = `Cannot ask the local API ${name} at ${url}: ${cause}${after}`;
    return new LapiError(failure, message, thrown === undefined ? {} : { cause: thrown });
  }
}

/** A name with several addresses fails once for each, and the error that stands for all of them has no text of its own. */
function causeOf(thrown: unknown): string {
  return thrown instanceof AggregateError ? thrown.errors.map(messageOf).join(', ') : messageOf(thrown);
}
