import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { Changing } from './conditions.ts';

/** A decision as the fake keeps it. */
export interface FakeRow {
  readonly id: number;
  readonly uuid: string;
  readonly origin: string;
  readonly scenario: string;
  readonly scope: string;
  readonly type: string;
  readonly value: string;
  untilMs: number;
  /** What the time-based cursor compares. A row that becomes visible later than it was created is lost to those who polled in between. */
  createdMs: number;
  visibleMs: number;
  readonly simulated: boolean;
}

/** What goes wrong with one answer. Bytes are those of the body, before compression. */
export type Fault =
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly message?: string;
      readonly headers?: Record<string, string>;
    }
  /** Connection reset before any byte of an answer. */
  | { readonly kind: 'reset' }
  /** Chunked, and the connection is reset in the middle. */
  | { readonly kind: 'cut'; readonly bytes: number }
  /** Chunked, and ended properly in the middle. */
  | { readonly kind: 'truncate'; readonly bytes: number }
  /** Fewer bytes than Content-Length says, then the end of the connection. */
  | { readonly kind: 'announce'; readonly bytes: number }
  /** No framing at all: the end of the connection is the end of the body. */
  | { readonly kind: 'close'; readonly bytes: number }
  /** 200 without a body. */
  | { readonly kind: 'empty' }
  /** A valid answer with the first rows only, as after an error of the database. */
  | { readonly kind: 'short'; readonly rows: number }
  /** The head and so many bytes, and the rest after {@link FakeLapi.release}; fewer than none: not even the head. */
  | { readonly kind: 'hold'; readonly bytes: number }
  /** The head, and then what the test sends, for ever. */
  | { readonly kind: 'drip'; readonly every: (send: (text: string) => void) => void }
  | { readonly kind: 'body'; readonly body: string };

/** A request as it came. */
export interface SeenRequest {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  /** By a client certificate. */
  readonly commonName: string | undefined;
  body: string;
  /** The connection ended before the answer did. */
  gone: boolean;
  /** Its answer has ended, in whatever way. */
  over: boolean;
}

/** What requests a fault is for. */
export type Kind = 'stream' | 'live' | 'head' | 'other';

/** Settings of {@link FakeLapi.start}. */
export interface FakeLapiOptions {
  readonly keys?: readonly string[];
  /** The shape of a body: that of now, or that of before, with fractions of seconds. */
  readonly shape?: 'new' | 'old';
  readonly gzip?: boolean;
  readonly wallNow?: () => number;
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer; readonly ca?: Buffer };
  /** Comes before `/v1`. */
  readonly prefix?: string;
}

const OVERLAP_MS = 2000;

/** A local API on loopback, over real sockets, whose every answer can go wrong. */
export class FakeLapi extends Changing {
  readonly rows: Map<number, FakeRow> = new Map();
  readonly keys: Set<string>;
  readonly requests: SeenRequest[] = [];
  /** By key: when the last answer to it was written, which is its cursor. */
  readonly lastPullMs: Map<string, number> = new Map();
  /** What other paths answer; 404 when not here. */
  readonly answers: Map<string, (request: SeenRequest, response: ServerResponse) => void> = new Map();
  shape: 'new' | 'old';
  readonly #options: FakeLapiOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #faults = new Map<Kind, Fault[]>();
  readonly #lasting = new Map<Kind, Fault>();
  #held: (() => void)[] = [];
  #nextId = 1;

  private constructor(options: FakeLapiOptions) {
    super();
    this.#options = options;
    this.shape = options.shape ?? 'new';
    this.keys = new Set(options.keys ?? ['key-1']);
    const { tls } = options;
    const secure = tls === undefined ? undefined : { ...tls, requestCert: tls.ca !== undefined };
    this.#server = secure === undefined ? createServer() : createSecureServer(secure);
    this.#server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      void this.#serve(request, response);
    });
    this.#server.on(secure === undefined ? 'connection' : 'secureConnection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
      socket.on('error', () => {});
    });
  }

  static async start(options: FakeLapiOptions = {}): Promise<FakeLapi> {
    const lapi = new FakeLapi(options);
    await lapi.listen();
    return lapi;
  }

  /** Listens, again after {@link stop}, on the port it had if it is still free. */
  async listen(port = 0): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, '127.0.0.1', resolve);
    });
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    const scheme = this.#options.tls === undefined ? 'http' : 'https';
    return `${scheme}://127.0.0.1:${this.port}${this.#options.prefix ?? ''}`;
  }

  /** How many connections are open. */
  get connections(): number {
    return this.#sockets.size;
  }

  /** Ends every connection and listens no more. */
  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.dropConnections();
    await closed;
  }

  /** Resets every connection. */
  dropConnections(): void {
    for (const socket of Array.from(this.#sockets)) socket.destroy();
  }

  /** Adds rows, each a ban of an address of its own for four hours unless it says otherwise; answers their ids. */
  add(...rows: readonly Partial<FakeRow>[]): number[] {
    return this.#addAll(rows);
  }

  /** Adds so many rows. */
  addMany(count: number, row: Partial<FakeRow> = {}): number[] {
    return this.#addAll(Array.from({ length: count }, () => row));
  }

  #addAll(rows: readonly Partial<FakeRow>[]): number[] {
    const nowMs = this.#now();
    return rows.map((row) => {
      const id = row.id ?? this.#nextId;
      this.#nextId = Math.max(this.#nextId, id + 1);
      this.rows.set(id, {
        uuid: `00000000-0000-4000-8000-${String(id).padStart(12, '0')}`,
        origin: 'cscli',
        scenario: 'manual ban',
        scope: 'Ip',
        type: 'ban',
        value: `10.${(id >> 16) & 255}.${(id >> 8) & 255}.${id & 255}`,
        untilMs: nowMs + 4 * 3_600_000,
        // after an answer of the same moment
        createdMs: nowMs + 1,
        visibleMs: nowMs,
        simulated: false,
        ...row,
        id,
      });
      return id;
    });
  }

  /** Ends rows now, as deleting them does. */
  delete(...ids: readonly number[]): void {
    for (const id of ids) {
      const row = this.rows.get(id);
      if (row !== undefined) row.untilMs = this.#now();
    }
  }

  /** The next requests of this kind go wrong, one after another. */
  next(kind: Kind, ...faults: readonly Fault[]): void {
    this.#faults.set(kind, [...(this.#faults.get(kind) ?? []), ...faults]);
  }

  /** All requests of this kind go wrong until {@link heal}. */
  ail(kind: Kind, fault: Fault): void {
    this.#lasting.set(kind, fault);
  }

  /** Nothing goes wrong any more. */
  heal(): void {
    this.#lasting.clear();
    this.#faults.clear();
  }

  /** Lets every answer go on that is held. */
  release(): void {
    const held = this.#held;
    this.#held = [];
    for (const goOn of held) goOn();
  }

  /** How many answers are held. */
  get held(): number {
    return this.#held.length;
  }

  /** The requests that pulled decisions, without those for keys. */
  get pulls(): readonly SeenRequest[] {
    return this.requests.filter(({ method, path }) => method === 'GET' && path.startsWith('/v1/decisions'));
  }

  protected override describe(): string {
    const last = this.requests.slice(-5).map(({ method, target }) => `${method} ${target}`);
    return `${this.requests.length} requests, the last ${last.join(', ')}`;
  }

  #now(): number {
    return (this.#options.wallNow ?? Date.now)();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request;
    const target = url.slice(this.#options.prefix?.length ?? 0);
    const { pathname: path, searchParams: query } = new URL(target, 'http://fake');
    const peer = this.#options.tls?.ca === undefined ? undefined : (request.socket as TLSSocket).getPeerCertificate();
    const commonName = peer?.subject?.CN;
    const name = typeof commonName === 'string' ? commonName : undefined;
    const seen: SeenRequest = {
      method,
      target,
      path,
      query,
      headers,
      commonName: name,
      body: '',
      gone: false,
      over: false,
    };
    this.requests.push(seen);
    response.on('close', () => {
      seen.gone = !response.writableFinished;
      seen.over = true;
      this.changed();
    });
    this.changed();
    try {
      for await (const piece of request) seen.body += String(piece);
      this.#answer(seen, response);
    } catch {
      // the client left
    }
    this.changed();
  }

  #answer(request: SeenRequest, response: ServerResponse): void {
    const { method, path } = request;
    const isDecisions = path === '/v1/decisions/stream' || path === '/v1/decisions';
    const kind = !isDecisions ? 'other' : method === 'HEAD' ? 'head' : path === '/v1/decisions' ? 'live' : 'stream';
    const fault = this.#faults.get(kind)?.shift() ?? this.#lasting.get(kind);
    if (fault?.kind === 'status') return complain(response, fault.status, fault.message ?? 'as told', fault.headers);
    if (fault?.kind === 'reset') return void response.socket?.resetAndDestroy();
    if (kind === 'other') return this.#other(request, response);
    const key = String(request.headers['x-api-key'] ?? '');
    if (!this.keys.has(key) && request.commonName === undefined) return complain(response, 403, 'access forbidden');
    if (kind === 'head') {
      const answer = (): void => void response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' }).end();
      if (fault?.kind === 'hold') this.#held.push(answer);
      else answer();
      return;
    }
    const nowMs = this.#now();
    const body = kind === 'live' ? this.#live(request.query) : this.#stream(request.query, key, fault);
    // a live query moves the cursor of its key as well, once a minute
    const moves = kind === 'stream' || nowMs - (this.lastPullMs.get(key) ?? 0) >= 60_000;
    this.#send(response, request, { body, fault, moveCursor: () => moves && this.lastPullMs.set(key, nowMs) });
  }

  #other(request: SeenRequest, response: ServerResponse): void {
    const answer = this.answers.get(request.path);
    if (answer !== undefined) answer(request, response);
    else if (request.path === '/health') response.end('{"status":"up"}');
    else response.writeHead(404).end();
  }

  #visible(query: URLSearchParams): FakeRow[] {
    const wanted = (query.get('scopes') ?? query.get('scope'))?.toLowerCase().split(',');
    const simulated = (query.get('simulated') ?? 'false') !== 'false';
    const nowMs = this.#now();
    return Array.from(this.rows.values())
      .filter((row) => row.visibleMs <= nowMs && (simulated || !row.simulated))
      .filter((row) => wanted === undefined || wanted.includes(row.scope.toLowerCase()))
      .toSorted((one, other) => one.id - other.id);
  }

  #live(query: URLSearchParams): string {
    const nowMs = this.#now();
    const ip = query.get('ip') ?? query.get('value');
    const rows = this.#visible(query).filter(({ untilMs, value }) => untilMs >= nowMs && (ip === null || ip === value));
    if (rows.length === 0) return 'null';
    return `[${rows.map((row) => this.#item(row, false)).join(',')}]`;
  }

  #stream(query: URLSearchParams, key: string, fault: Fault | undefined): string {
    const nowMs = this.#now();
    const isStartup = query.get('startup') === 'true';
    const sinceMs = isStartup ? undefined : this.lastPullMs.get(key);
    const rows = this.#visible(query.has('scopes') ? query : new URLSearchParams([...query, ['scopes', 'ip,range']]));
    const active = rows.filter(({ untilMs }) => untilMs > nowMs);
    const added = (query.get('dedup') === 'false' ? active : longest(active)).filter(
      ({ createdMs }) => sinceMs === undefined || createdMs > sinceMs,
    );
    const over = rows.filter(({ untilMs }) => untilMs <= nowMs);
    const deleted = over.filter(({ untilMs }) => isStartup || untilMs > (sinceMs ?? nowMs) - OVERLAP_MS);
    if (fault?.kind === 'short') return this.#body(added.slice(0, fault.rows), []);
    return this.#body(added, deleted);
  }

  #body(added: readonly FakeRow[], deleted: readonly FakeRow[]): string {
    const list = (rows: readonly FakeRow[]): string => rows.map((row) => this.#item(row, true)).join(',');
    if (this.shape === 'new') return `{"new": [${list(added)}], "deleted": [${list(deleted)}]}`;
    const orNull = (rows: readonly FakeRow[]): string => (rows.length === 0 ? 'null' : `[${list(rows)}]`);
    return `{"deleted":${orNull(deleted)},"new":${orNull(added)}}`;
  }

  #item(row: FakeRow, withUuid: boolean): string {
    const { id, origin, scenario, scope, type, uuid, value } = row;
    const duration = durationOf(row.untilMs - this.#now(), this.shape === 'old');
    return JSON.stringify({ duration, id, origin, scenario, scope, type, ...(withUuid ? { uuid } : {}), value });
  }

  #send(
    response: ServerResponse,
    request: SeenRequest,
    { body, fault, moveCursor }: { body: string; fault: Fault | undefined; moveCursor: () => unknown },
  ): void {
    const whole = Buffer.from(fault?.kind === 'body' ? fault.body : body);
    const done = (): void => void moveCursor();
    const socket = response.socket as Socket;
    const part = fault !== undefined && 'bytes' in fault ? whole.subarray(0, Math.max(0, fault.bytes)) : whole;
    const headers: Record<string, string> = { 'content-type': 'application/json' };
    switch (fault?.kind) {
      case 'cut':
        response.writeHead(200, headers);
        response.write(part, () => socket.resetAndDestroy());
        return;
      case 'truncate':
        response.writeHead(200, headers).end(part);
        return;
      case 'announce':
        response.writeHead(200, { ...headers, 'content-length': String(whole.length) });
        response.write(part, () => socket.end());
        return;
      case 'close':
        socket.end(Buffer.concat([Buffer.from('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n'), part]));
        return;
      case 'empty':
        response.writeHead(200, { ...headers, 'content-length': '0' }).end();
        return;
      case 'drip':
        response.writeHead(200, headers).flushHeaders();
        fault.every((text) => response.write(text));
        return;
      case 'hold':
        this.#hold(response, whole, fault.bytes, done);
        return;
      case undefined:
      case 'body':
      case 'short':
      case 'status':
      case 'reset':
        this.#sendWhole(response, request, whole, done);
    }
  }

  #sendWhole(response: ServerResponse, request: SeenRequest, whole: Buffer, done: () => void): void {
    const headers: Record<string, string> = { 'content-type': 'application/json' };
    const offers = String(request.headers['accept-encoding'] ?? '');
    const zipped = this.#options.gzip === true && offers.includes('gzip');
    if (zipped) headers['content-encoding'] = 'gzip';
    const bytes = zipped ? gzipSync(whole) : whole;
    if (this.shape === 'old') headers['content-length'] = String(bytes.length);
    response.writeHead(200, headers);
    response.write(bytes);
    response.end(done);
  }

  #hold(response: ServerResponse, whole: Buffer, bytes: number, done: () => void): void {
    if (bytes >= 0) {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write(whole.subarray(0, bytes));
    }
    this.#held.push(() => response.end(whole.subarray(Math.max(0, bytes)), done));
  }
}

function complain(
  response: ServerResponse,
  status: number,
  message: string,
  headers: Record<string, string> = {},
): void {
  const body = JSON.stringify({ message });
  const length = String(Buffer.byteLength(body));
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': length,
    ...headers,
  });
  response.end(body);
}

/** For each value the one that lasts longest, as the real one has it. */
function longest(rows: readonly FakeRow[]): readonly FakeRow[] {
  const best = new Map<string, number>();
  const keyOf = ({ value, type, scope }: FakeRow): string => JSON.stringify([value, type, scope]);
  for (const row of rows) best.set(keyOf(row), Math.max(row.untilMs, best.get(keyOf(row)) ?? 0));
  return rows.filter((row) => row.untilMs === best.get(keyOf(row)));
}

/** As Go writes it: of whole seconds, rounded to the nearest, or with a fraction. */
function durationOf(ms: number, fraction: boolean): string {
  const rounded = fraction ? Math.round(ms) : 1000 * Math.round(ms / 1000);
  const sign = rounded < 0 ? '-' : '';
  const seconds = Math.abs(rounded) / 1000;
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const rest = String(Number((seconds % 60).toFixed(3)));
  if (hours > 0) return `${sign}${hours}h${minutes}m${rest}s`;
  return minutes > 0 ? `${sign}${minutes}m${rest}s` : `${sign}${rest}s`;
}
