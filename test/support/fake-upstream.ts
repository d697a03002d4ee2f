import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { createGzip, gzipSync } from 'node:zlib';
import { Changing } from './conditions.ts';
import {
  eventText,
  type FakeChange,
  type FakeData,
  FakeEnvironment,
  type FakeEvent,
  type FakeFilter,
} from './fake-upstream-environment.ts';
import {
  bodyOf,
  endOf,
  type FakeAutoConfig,
  type FakeFault,
  type FakeRefusal,
  type FakeUpstreamOptions,
  letGo,
  type Stream,
  type UpstreamRequest,
  write,
} from './fake-upstream-parts.ts';

export type { FakeChange, FakeData, FakeEvent, FakeFilter } from './fake-upstream-environment.ts';
export type {
  FakeAutoConfig,
  FakeFault,
  FakeRefusal,
  FakeUpstreamOptions,
  UpstreamRequest,
} from './fake-upstream-parts.ts';
export { FakeEnvironment } from './fake-upstream-environment.ts';

const EVERYTHING: FakeFilter = () => true;

/**
 * The vendor's services, as far as a relay is their client: FDv1 and FDv2 streams and polls, the stream of the
 * automatic configuration, goals, and the routes that take events (any POST). In this process, on a socket of the loopback.
 *
 * `requests` has everything that came; wait for it with `until`.
 */
export class FakeUpstream extends Changing {
  readonly requests: UpstreamRequest[] = [];
  /** The answer of the routes that take events. */
  eventStatus = 202;
  /** Headers of each answer to an event route. */
  eventHeaders: Readonly<Record<string, string>> = {};
  /** By environment id. */
  readonly goals: Map<string, unknown> = new Map();
  /** Sent with each answer. */
  headers: Readonly<Record<string, string>> = {};
  protocols: 'both' | 'fdv1' | 'fdv2';
  autoConfigKey: string;
  readonly #gzip: boolean;
  readonly #prefix: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #environments: FakeEnvironment[] = [];
  readonly #streams = new Set<Stream>();
  #autoConfig: FakeAutoConfig = {};
  #refusals: FakeRefusal[] = [];
  #faults: FakeFault[] = [];
  #held: (() => void)[] = [];
  #port = 0;

  private constructor(options: FakeUpstreamOptions) {
    super();
    this.protocols = options.protocols ?? 'both';
    this.#gzip = options.gzip ?? false;
    this.#prefix = options.prefix ?? '';
    this.autoConfigKey = options.autoConfigKey ?? 'rel-fake';
    this.#server = createServer((request, response) => void this.#serve(request, response));
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
      socket.on('error', () => {});
    });
  }

  static async start(options: FakeUpstreamOptions = {}): Promise<FakeUpstream> {
    const upstream = new FakeUpstream(options);
    await upstream.restart();
    return upstream;
  }

  get port(): number {
    return this.#port;
  }

  /** Base of every URI. */
  get url(): string {
    return `http://127.0.0.1:${this.#port}${this.#prefix}`;
  }

  /** How many connections are open. */
  get connections(): number {
    return this.#sockets.size;
  }

  /** How many streams of this kind are open. */
  streams(kind?: 'fdv1' | 'fdv2' | 'autoconfig'): number {
    return [...this.#streams].filter((stream) => kind === undefined || stream.kind === kind).length;
  }

  /** Adds an environment with this key, and its data. */
  environment(key = 'sdk-fake', data: FakeData = {}): FakeEnvironment {
    const environment = new FakeEnvironment(key, (changed, make) => this.#changed(changed, make));
    environment.set(data);
    this.#environments.push(environment);
    return environment;
  }

  /** Requests of this path, of all or those that are still open. */
  seen(path: string, open = false): readonly UpstreamRequest[] {
    return this.requests.filter((request) => request.path === path && !(open && request.over));
  }

  /** Answers with this status instead, from now on. */
  refuse(refusal: number | FakeRefusal): void {
    this.#refusals.push(typeof refusal === 'number' ? { status: refusal } : { ...refusal });
  }

  /** Refuses no longer. */
  accept(): void {
    this.#refusals = [];
  }

  /** Does this to the next stream or poll; several wait for their turn. */
  fault(...faults: readonly FakeFault[]): void {
    this.#faults.push(...faults);
  }

  /** Lets what is held go on. */
  release(): void {
    for (const go of this.#held.splice(0)) go();
  }

  /** Ends every stream: properly, or with a reset. */
  drop(how: 'end' | 'reset' = 'end'): void {
    for (const stream of this.#streams) {
      if (how === 'end') endOf(stream);
      else stream.response.socket?.resetAndDestroy();
    }
  }

  /** Writes this to every open stream of a kind, as it is. */
  raw(text: string, kind?: 'fdv1' | 'fdv2' | 'autoconfig'): void {
    for (const stream of this.#streams) if (kind === undefined || stream.kind === kind) write(stream, text);
  }

  /** Sets what the automatic configuration holds; open streams of it get a put. */
  setAutoConfig(state: FakeAutoConfig): void {
    this.#autoConfig = state;
    this.raw(eventText(this.#autoConfigPut()), 'autoconfig');
  }

  /** Sends an event on the streams of the automatic configuration: `patch`, `delete` or `reconnect`. */
  tellAutoConfig(name: string, data: unknown): void {
    this.raw(eventText({ name, data }), 'autoconfig');
  }

  /** Sets what the next put says without telling open streams: for changes that are told by patch. */
  holdAutoConfig(state: FakeAutoConfig): void {
    this.#autoConfig = state;
  }

  /** Ends every connection and listens no more. */
  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.resetAndDestroy();
    await closed;
  }

  /** Listens, again on the port it had. */
  async restart(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.#port, '127.0.0.1', resolve);
    });
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  protected override describe(): string {
    const seen = this.requests
      .slice(-10)
      .map(({ method, target, status, over }) => `${method} ${target} ${status}${over ? ' over' : ''}`);
    return `${this.requests.length} requests: ${seen.join(', ')}`;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const target = (request.url ?? '/').slice(this.#prefix.length);
    const url = new URL(target, 'http://fake');
    const seen: UpstreamRequest = {
      method: request.method ?? '',
      target,
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      key: request.headers.authorization,
      body: '',
      status: 0,
      over: false,
    };
    response.on('close', () => {
      seen.over = true;
      this.changed();
    });
    try {
      seen.body = await bodyOf(request);
    } catch {
      return; // the client went away while it sent
    }
    this.requests.push(seen);
    this.#answer(seen, response);
    seen.status = response.headersSent ? response.statusCode : 0;
    this.changed();
  }

  #answer(seen: UpstreamRequest, response: ServerResponse): void {
    for (const [name, value] of Object.entries(this.headers)) response.setHeader(name, value);
    const refusal = this.#refusal(seen.path);
    if (refusal !== undefined) {
      response.writeHead(refusal.status, { ...refusal.headers }).end(refusal.body ?? '');
      return;
    }
    if (seen.method === 'POST') {
      response.writeHead(this.eventStatus, { date: new Date().toUTCString(), ...this.eventHeaders }).end();
      return;
    }
    const goals = /^\/sdk\/goals\/(.+)$/.exec(seen.path);
    if (goals !== null) this.#json(response, this.goals.get(goals[1] ?? '') ?? []);
    else if (seen.path === '/relay_auto_config') this.#openAutoConfig(seen, response);
    else this.#flags(seen, response);
  }

  #refusal(path: string): FakeRefusal | undefined {
    const refusal = this.#refusals.find((one) => one.path === undefined || one.path === path);
    if (refusal?.times !== undefined) {
      refusal.times -= 1;
      if (refusal.times === 0) this.#refusals = this.#refusals.filter((one) => one !== refusal);
    }
    return refusal;
  }

  #flags(seen: UpstreamRequest, response: ServerResponse): void {
    const protocol = PROTOCOL_OF.get(seen.path);
    if (protocol === undefined || (this.protocols !== 'both' && this.protocols !== protocol)) {
      response.writeHead(404).end();
      return;
    }
    const environment = this.#environments.find(({ keys }) => keys.has(seen.key ?? ''));
    if (environment === undefined) {
      response.writeHead(401).end();
      return;
    }
    const name = seen.query.get('filter');
    const filter = name === null ? EVERYTHING : environment.filters.get(name);
    if (filter === undefined) {
      response.writeHead(404).end();
      return;
    }
    if (environment.envId !== undefined) response.setHeader('x-ld-envid', environment.envId);
    const basis = seen.query.get('basis') ?? undefined;
    switch (seen.path) {
      case '/all':
        return this.#open({ kind: 'fdv1', environment, filter, response }, [environment.put(filter)]);
      case '/sdk/stream':
        return this.#open({ kind: 'fdv2', environment, filter, response }, environment.since(basis, filter));
      case '/sdk/latest-all':
        return this.#poll(seen, response, `"${environment.state}"`, environment.all(filter));
      default:
        return this.#poll(seen, response, undefined, {
          events: environment.since(basis, filter).map(({ name: event, data }) => ({ event, data })),
        });
    }
  }

  #openAutoConfig(seen: UpstreamRequest, response: ServerResponse): void {
    if (seen.key !== this.autoConfigKey) {
      response.writeHead(401).end();
      return;
    }
    const stream = { kind: 'autoconfig', environment: undefined, filter: EVERYTHING, response } as const;
    this.#open(stream, [this.#autoConfigPut()]);
  }

  #autoConfigPut(): FakeEvent {
    return { name: 'put', data: { path: '/', data: { environments: {}, filters: {}, ...this.#autoConfig } } };
  }

  #open(parts: Omit<Stream, 'gzip' | 'held'>, events: readonly FakeEvent[]): void {
    const { response } = parts;
    const fault = this.#faults.shift();
    if (fault?.kind === 'stall') return;
    const gzip = this.#gzip ? createGzip() : undefined;
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      ...(gzip === undefined ? {} : { 'content-encoding': 'gzip' }),
    });
    gzip?.pipe(response);
    const stream: Stream = { ...parts, gzip, held: undefined };
    this.#streams.add(stream);
    response.on('close', () => {
      this.#streams.delete(stream);
      this.changed();
    });
    const text = events.map(eventText).join('');
    if (fault === undefined) write(stream, text);
    else this.#spoil(stream, text, fault);
  }

  #spoil(stream: Stream, text: string, fault: Exclude<FakeFault, { kind: 'stall' }>): void {
    if (fault.kind === 'text') {
      write(stream, fault.text);
      return;
    }
    write(stream, text.slice(0, fault.bytes), () => {
      if (fault.kind === 'cut') stream.response.socket?.resetAndDestroy();
      else if (fault.kind === 'truncate') endOf(stream);
      this.changed();
    });
    if (fault.kind !== 'hold') return;
    stream.held = text.slice(fault.bytes);
    this.#held.push(() => letGo(stream));
  }

  #poll(seen: UpstreamRequest, response: ServerResponse, etag: string | undefined, body: unknown): void {
    const fault = this.#faults.shift();
    if (fault?.kind === 'stall') return;
    if (etag !== undefined) response.setHeader('etag', etag);
    if (fault === undefined && etag !== undefined && seen.headers['if-none-match'] === etag) {
      response.writeHead(304).end();
      return;
    }
    const text = fault?.kind === 'text' ? fault.text : JSON.stringify(body);
    if (fault === undefined || fault.kind === 'text') {
      this.#json(response, undefined, text);
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write(text.slice(0, fault.bytes), () => {
      if (fault.kind === 'cut') response.socket?.resetAndDestroy();
      else if (fault.kind === 'truncate') response.end();
      else this.#held.push(() => response.end(text.slice(fault.bytes)));
      this.changed();
    });
  }

  #json(response: ServerResponse, body: unknown, text = JSON.stringify(body)): void {
    const bytes = this.#gzip ? gzipSync(text) : Buffer.from(text);
    response.writeHead(200, {
      'content-type': 'application/json',
      ...(this.#gzip ? { 'content-encoding': 'gzip' } : {}),
    });
    response.end(bytes);
  }

  #changed(environment: FakeEnvironment, make: (filter: FakeFilter) => FakeChange): void {
    for (const stream of this.#streams) {
      if (stream.environment !== environment) continue;
      const { fdv1, fdv2 } = make(stream.filter);
      write(stream, stream.kind === 'fdv1' ? eventText(fdv1) : fdv2.map(eventText).join(''));
    }
  }
}

const PROTOCOL_OF: ReadonlyMap<string, 'fdv1' | 'fdv2'> = new Map([
  ['/all', 'fdv1'],
  ['/sdk/latest-all', 'fdv1'],
  ['/sdk/stream', 'fdv2'],
  ['/sdk/poll', 'fdv2'],
]);
