import { EventEmitter } from 'node:events';
import type { Exchange, Peer } from '../../src/delivery/index.ts';
import type { ForwardReply, ForwardRequest, SmallStore, Upstream } from '../../src/protocols/crowdsec/index.ts';
import { KEY } from './decisions.ts';
import { FakeExchange } from './flags-fakes.ts';

/** How a bouncer asks. */
export interface BouncerAsk {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Without a key. */
  readonly keyless?: boolean;
  readonly remoteAddress?: string;
  readonly connection?: FakeConnection;
  readonly peer?: Peer;
  readonly httpVersion?: Exchange['httpVersion'];
  readonly body?: string | Uint8Array;
}

/** A connection that the test closes. */
export class FakeConnection extends EventEmitter {
  destroyed = false;

  close(): void {
    this.destroyed = true;
    this.emit('close');
  }
}

/** A request of a bouncer, and what it was answered. Whether it was received is for the test to say. */
export class BouncerExchange extends FakeExchange {
  override readonly method: string;
  override readonly remoteAddress: string;
  override readonly connection: FakeConnection;
  override readonly peer: Peer | undefined;
  override readonly httpVersion: Exchange['httpVersion'];
  readonly #headers: Readonly<Record<string, string>>;
  readonly #body: Buffer;
  #listeners: ((received: boolean) => void)[] = [];

  constructor(target: string, ask: BouncerAsk = {}) {
    super(target);
    this.#headers = { ...(ask.keyless === true ? {} : { 'x-api-key': KEY }), ...ask.headers };
    this.method = ask.method ?? 'GET';
    this.remoteAddress = ask.remoteAddress ?? '192.0.2.1';
    this.connection = ask.connection ?? new FakeConnection();
    this.peer = ask.peer;
    this.httpVersion = ask.httpVersion ?? '1.1';
    this.#body = Buffer.from(ask.body ?? '');
  }

  override header(name: string): string | undefined {
    return this.#headers[name];
  }

  override onReceived(listener: (received: boolean) => void): void {
    this.#listeners.push(listener);
  }

  /** Whether anybody wants to know whether it was received. */
  get isWatched(): boolean {
    return this.#listeners.length > 0;
  }

  received(received: boolean): void {
    for (const listener of this.#listeners.splice(0)) listener(received);
  }

  override body(bytesMax: number = Number.POSITIVE_INFINITY): Promise<Buffer> {
    if (this.#body.length > bytesMax) return Promise.reject(new Error('too large'));
    return Promise.resolve(this.#body);
  }

  get json(): unknown {
    return JSON.parse(this.text) as unknown;
  }
}

/** An upstream that does what the test says. */
export class FakeUpstream implements Upstream {
  readonly asked: string[] = [];
  readonly forwarded: ForwardRequest[] = [];
  readonly held: Set<string> = new Set(['Ip', 'Range']);
  wide = false;
  keys: 'good' | 'refused' | 'unreachable' = 'good';
  reply: { status: number; headers?: Record<string, string>; parts?: readonly (string | Error)[] } | Error = {
    status: 201,
  };
  #waiting: ((held: boolean) => void)[] = [];

  hold(scopes: readonly string[], signal?: AbortSignal): true | Promise<boolean> {
    this.asked.push(`hold ${scopes.join()}`);
    return scopes.every((scope) => this.held.has(scope)) ? true : this.#wait(signal);
  }

  holdWide(): true | Promise<boolean> {
    this.asked.push('hold wide');
    return this.wide ? true : this.#wait();
  }

  checkKey(key: string): Promise<'good' | 'refused' | 'unreachable'> {
    this.asked.push(`key ${key}`);
    return Promise.resolve(this.keys);
  }

  forward(request: ForwardRequest): Promise<ForwardReply> {
    this.forwarded.push(request);
    const { reply } = this;
    if (reply instanceof Error) return Promise.reject(reply);
    const { status, headers = {}, parts = [] } = reply;
    return Promise.resolve({ status, headers, body: bodyOf(parts) });
  }

  /** Answers those that wait. */
  settle(held: boolean): void {
    for (const resolve of this.#waiting.splice(0)) resolve(held);
  }

  #wait(signal?: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      signal?.addEventListener('abort', () => resolve(false));
    });
  }
}

async function* bodyOf(parts: readonly (string | Error)[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) {
    if (part instanceof Error) throw part;
    yield await Promise.resolve(Buffer.from(part));
  }
}

/** A store that has written everything at once. */
export class FakeSmallStore implements SmallStore {
  readonly values: Map<string, Uint8Array>;

  /** @param values - what another process has left. */
  constructor(values: Map<string, Uint8Array> = new Map()) {
    this.values = values;
  }

  entries(): Iterable<readonly [string, Uint8Array]> {
    return [...this.values];
  }

  set(key: string, value: Uint8Array): void {
    this.values.set(key, value);
  }

  delete(key: string): void {
    this.values.delete(key);
  }
}
