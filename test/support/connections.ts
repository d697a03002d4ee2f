import http2, { type ClientHttp2Session, type ClientHttp2Stream, constants } from 'node:http2';
import net, { type Socket } from 'node:net';
import tls from 'node:tls';
import type { Transport } from '../../src/delivery/index.ts';
import { Changing } from './conditions.ts';

/** One request. */
export interface Ask {
  readonly method?: string;
  readonly path: string;
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent with its length. */
  readonly body?: string | Uint8Array;
  /** HTTP/1 only. */
  readonly version?: '1.0' | '1.1';
  /** How much of the body to read before the reader stops; everything when left out. 0 does not even read the head. */
  readonly bytesMax?: number;
}

/** What came back, so far. */
export class Reply extends Changing {
  status = 0;
  /** Names in lower case. */
  headers: Readonly<Record<string, string>> = {};
  /** The head as it came, on HTTP/1. */
  head = '';
  readonly parts: Buffer[] = [];
  bytes = 0;
  /** `whole`: the response ended as HTTP says that it must. `cut`: the connection or the stream went away before. */
  over: 'whole' | 'cut' | undefined;
  /** What the transport said when it was cut: `ECONNRESET`, `rst 8`. */
  reason = '';

  get body(): string {
    return Buffer.concat(this.parts).toString('utf8');
  }

  get buffer(): Buffer {
    return Buffer.concat(this.parts);
  }

  json(): unknown {
    return JSON.parse(this.body) as unknown;
  }

  /** Waits for the head. */
  async begun(): Promise<this> {
    await this.until('a response', () => this.status !== 0 || this.over !== undefined);
    return this;
  }

  /** Waits for the whole response; a cut is an error. */
  async whole(): Promise<this> {
    await this.ended();
    if (this.over === 'cut') throw new Error(`Cannot read a reply: it was cut, got ${this.describe()}`);
    return this;
  }

  /** Waits until it is over, one way or the other. */
  async ended(): Promise<this> {
    await this.until('the end of a response', () => this.over !== undefined);
    return this;
  }

  /** To be called by the transport. */
  began(status: number, headers: Record<string, string>, head: string): void {
    this.status = status;
    this.headers = headers;
    this.head = head;
    this.changed();
  }

  took(part: Buffer): void {
    this.parts.push(part);
    this.bytes += part.length;
    this.changed();
  }

  finished(over: 'whole' | 'cut', reason: string): void {
    if (this.over !== undefined) return;
    this.over = over;
    this.reason = reason;
    this.changed();
  }

  protected override describe(): string {
    const state = this.over ?? 'open';
    return `status ${this.status}, ${this.bytes} bytes, ${state} ${this.reason}, ending in ${this.body.slice(-200)}`;
  }
}

/** One connection of a client that the test drives: it reads everything, some bytes, or nothing. */
export interface Connection {
  readonly transport: Transport;
  /** Whether the connection itself is over. */
  readonly closed: boolean;
  /** Sends a request. On HTTP/1 several are pipelined. */
  ask(ask: Ask): Reply;
  /** Stops reading the connection. */
  pause(reply: Reply): void;
  /** Reads on: so many bytes of the body, or to the end. */
  resume(reply: Reply, bytes?: number): void;
  /** Goes away without a word. */
  leave(): void;
}

/** Connects to a server on this machine. */
export function connect(transport: Transport, port: number): Connection {
  return transport === 'http1' || transport === 'https1'
    ? new Http1Connection(transport, port)
    : new Http2Connection(transport, port);
}

function lengthOf({ body }: Ask): Record<string, string> {
  return body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
}

function hasNoBody(method: string, status: number): boolean {
  return method === 'HEAD' || status === 204 || status === 304;
}

type Framing = { kind: 'sized'; left: number } | { kind: 'chunked'; left: number; tail: boolean } | { kind: 'close' };

/** HTTP/1.1 and 1.0 on a bare socket: what stands on the wire is what the test sees. */
class Http1Connection implements Connection {
  readonly transport: Transport;
  readonly #socket: Socket;
  readonly #port: number;
  #asked: { ask: Ask; reply: Reply }[] = [];
  #unread: Buffer = Buffer.alloc(0);
  #framing: Framing | undefined;
  #error = '';

  constructor(transport: Transport, port: number) {
    this.transport = transport;
    this.#port = port;
    this.#socket =
      transport === 'https1'
        ? tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] })
        : net.connect({ port, host: '127.0.0.1' });
    this.#socket.setNoDelay(true);
    this.#socket.on('data', (data: Buffer) => {
      this.#unread = this.#unread.length === 0 ? data : Buffer.concat([this.#unread, data]);
      this.#read();
    });
    this.#socket.on('error', (error: NodeJS.ErrnoException) => {
      this.#error = error.code ?? error.message;
    });
    this.#socket.on('end', () => this.#ended());
    this.#socket.on('close', () => {
      for (const { reply } of this.#asked.splice(0)) reply.finished('cut', this.#error);
    });
  }

  get closed(): boolean {
    return this.#socket.destroyed;
  }

  ask(ask: Ask): Reply {
    const reply = new Reply();
    this.#asked.push({ ask, reply });
    const headers = { host: `127.0.0.1:${this.#port}`, ...lengthOf(ask), ...ask.headers };
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const version = ask.version ?? '1.1';
    if (ask.bytesMax === 0) this.#socket.pause();
    this.#socket.write(`${ask.method ?? 'GET'} ${ask.path} HTTP/${version}\r\n${lines.join('')}\r\n`);
    if (ask.body !== undefined) this.#socket.write(ask.body);
    return reply;
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(reply: Reply, bytes: number = Number.POSITIVE_INFINITY): void {
    const asked = this.#asked.find((one) => one.reply === reply);
    if (asked !== undefined) asked.ask = { ...asked.ask, bytesMax: reply.bytes + bytes };
    this.#socket.resume();
  }

  leave(): void {
    this.#socket.destroy();
  }

  #read(): void {
    for (let current = this.#asked[0]; current !== undefined; current = this.#asked[0]) {
      if (this.#framing === undefined && !this.#readHead(current)) return;
      const done = this.#readBody(current.reply);
      if (current.reply.bytes >= (current.ask.bytesMax ?? Number.POSITIVE_INFINITY)) this.#socket.pause();
      if (!done) return;
      this.#framing = undefined;
      this.#asked.shift();
      current.reply.finished('whole', '');
    }
  }

  #readHead({ ask, reply }: { ask: Ask; reply: Reply }): boolean {
    const end = this.#unread.indexOf('\r\n\r\n');
    if (end < 0) return false;
    const head = this.#unread.subarray(0, end).toString('latin1');
    this.#unread = this.#unread.subarray(end + 4);
    const [first = '', ...lines] = head.split('\r\n');
    const headers: Record<string, string> = {};
    for (const line of lines) {
      const colon = line.indexOf(':');
      headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
    }
    const status = Number(first.split(' ')[1]);
    const length = headers['content-length'];
    if (hasNoBody(ask.method ?? 'GET', status)) this.#framing = { kind: 'sized', left: 0 };
    else if (headers['transfer-encoding'] === 'chunked') this.#framing = { kind: 'chunked', left: 0, tail: false };
    else if (length !== undefined) this.#framing = { kind: 'sized', left: Number(length) };
    else this.#framing = { kind: 'close' };
    reply.began(status, headers, head);
    return true;
  }

  #readBody(reply: Reply): boolean {
    const framing = this.#framing;
    if (framing === undefined) return false;
    if (framing.kind === 'chunked') return this.#readChunks(framing, reply);
    const size = framing.kind === 'close' ? this.#unread.length : Math.min(framing.left, this.#unread.length);
    this.#take(size, reply);
    if (framing.kind === 'close') return false;
    framing.left -= size;
    return framing.left === 0;
  }

  /** RFC 9112, section 7.1; no extensions, no trailers. */
  #readChunks(framing: { left: number; tail: boolean }, reply: Reply): boolean {
    for (;;) {
      if (framing.left > 0) {
        const size = Math.min(framing.left, this.#unread.length);
        this.#take(size, reply);
        framing.left -= size;
        if (framing.left > 0) return false;
        framing.tail = true;
      }
      const end = this.#unread.indexOf('\r\n', framing.tail ? 2 : 0);
      if (end < 0) return false;
      const line = this.#unread.subarray(framing.tail ? 2 : 0, end).toString('latin1');
      if (line === '0' && this.#unread.length < end + 4) return false;
      this.#unread = this.#unread.subarray(end + (line === '0' ? 4 : 2));
      if (line === '0') return true;
      framing.tail = false;
      framing.left = Number.parseInt(line, 16);
      if (!(framing.left > 0)) throw new Error(`Broken framing: expected the size of a chunk, got ${line}`);
    }
  }

  #take(size: number, reply: Reply): void {
    if (size === 0) return;
    reply.took(this.#unread.subarray(0, size));
    this.#unread = this.#unread.subarray(size);
  }

  /** The server has ended the connection. */
  #ended(): void {
    const current = this.#asked[0];
    if (current === undefined || this.#framing?.kind !== 'close') return;
    this.#asked.shift();
    current.reply.finished('whole', '');
  }
}

/** HTTP/2, in the clear with prior knowledge or over TLS. */
class Http2Connection implements Connection {
  readonly transport: Transport;
  readonly #session: ClientHttp2Session;
  readonly #streams = new Map<Reply, ClientHttp2Stream>();
  #raw: Socket | undefined;

  constructor(transport: Transport, port: number) {
    this.transport = transport;
    const secure = transport === 'h2';
    this.#session = http2.connect(`${secure ? 'https' : 'http'}://127.0.0.1:${port}`, {
      createConnection: () => {
        const raw = secure
          ? tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2'] })
          : net.connect({ port, host: '127.0.0.1' });
        this.#raw = raw;
        return raw;
      },
    });
    // what fails here fails in the streams, which the test looks at
    this.#session.on('error', () => undefined);
  }

  get closed(): boolean {
    return this.#session.destroyed;
  }

  ask(ask: Ask): Reply {
    const reply = new Reply();
    const head = { ':method': ask.method ?? 'GET', ':path': ask.path, ...lengthOf(ask), ...ask.headers };
    const stream = this.#session.request(head);
    if (ask.body !== undefined) stream.end(ask.body);
    this.#streams.set(reply, stream);
    stream.on('response', (headers) => {
      const plain = Object.entries(headers).filter(([name]) => !name.startsWith(':'));
      reply.began(
        Number(headers[':status']),
        Object.fromEntries(plain.map(([name, value]) => [name, String(value)])),
        '',
      );
    });
    this.#read(stream, reply, ask.bytesMax ?? Number.POSITIVE_INFINITY);
    if (ask.bytesMax === 0) stream.pause();
    let ended = false;
    stream.on('end', () => {
      ended = true;
    });
    stream.on('error', (error: NodeJS.ErrnoException) => {
      reply.reason = error.code ?? error.message;
    });
    stream.on('close', () => {
      this.#streams.delete(reply);
      const clean = ended && !stream.aborted && stream.rstCode === constants.NGHTTP2_NO_ERROR;
      reply.finished(clean ? 'whole' : 'cut', `rst ${stream.rstCode}`);
    });
    return reply;
  }

  pause(reply: Reply): void {
    this.#streams.get(reply)?.pause();
  }

  resume(reply: Reply, bytes: number = Number.POSITIVE_INFINITY): void {
    const stream = this.#streams.get(reply);
    if (stream === undefined) return;
    stream.removeAllListeners('data');
    this.#read(stream, reply, reply.bytes + bytes);
    stream.resume();
  }

  leave(): void {
    this.#raw?.destroy();
    this.#session.destroy();
  }

  #read(stream: ClientHttp2Stream, reply: Reply, bytesMax: number): void {
    stream.on('data', (part: Buffer) => {
      reply.took(part);
      if (reply.bytes >= bytesMax) stream.pause();
    });
  }
}
