import { Limiter, type LimiterOptions } from '../../src/admission/index.ts';
import { type Block, type Channel, Deliveries, type Exchange, type Transport } from '../../src/delivery/index.ts';
import { FakeClock } from '../../src/kernel/index.ts';
import type { FrontOptions } from '../../src/protocols/launchdarkly/deps.ts';

/** A channel that keeps what it is sent, and the very objects that it is sent. */
export class KeptChannel implements Channel {
  readonly transport: Transport = 'http1';
  readonly pieces: Uint8Array[] = [];
  over: 'ended' | 'killed' | 'left' | undefined;
  /** While it is not, writes are not taken. */
  takes = true;
  #pending: ((error?: Error) => void) | undefined;
  #listeners: ((complete: boolean) => void)[] = [];

  get dead(): boolean {
    return this.over === 'killed' || this.over === 'left';
  }

  get text(): string {
    return Buffer.concat(this.pieces).toString('utf8');
  }

  write(pieces: readonly Uint8Array[], done: (error?: Error) => void): void {
    this.pieces.push(...pieces);
    if (this.takes) setImmediate(done);
    else this.#pending = done;
  }

  send(block: Block): boolean {
    if (this.over === undefined) this.pieces.push(block.bytes);
    return true;
  }

  /** Takes what waits, and everything from now on. */
  take(): void {
    this.takes = true;
    this.#pending?.();
    this.#pending = undefined;
  }

  onDrain(): void {}

  onClose(listener: (complete: boolean) => void): void {
    if (this.over === undefined) this.#listeners.push(listener);
    else listener(this.over === 'ended');
  }

  offClose(listener: (complete: boolean) => void): void {
    this.#listeners = this.#listeners.filter((other) => other !== listener);
  }

  end(): void {
    this.#finish('ended');
  }

  kill(): void {
    this.#finish('killed');
  }

  leave(): void {
    this.#finish('left');
  }

  #finish(over: 'ended' | 'killed' | 'left'): void {
    if (this.over !== undefined) return;
    this.over = over;
    const listeners = this.#listeners;
    this.#listeners = [];
    for (const listener of listeners) listener(over === 'ended');
  }
}

/** A request, and what it was answered. */
export class FakeExchange implements Exchange {
  readonly method: string = 'GET';
  readonly path: string;
  readonly target: string;
  readonly query: URLSearchParams;
  readonly remoteAddress: string = '192.0.2.1';
  readonly connection: object = {};
  readonly peer: Exchange['peer'] = undefined;
  readonly httpVersion: Exchange['httpVersion'] = '1.1';
  readonly channel: KeptChannel = new KeptChannel();
  status = 0;
  headers: Readonly<Record<string, string>> = {};
  answer = '';
  readonly #asks: Readonly<Record<string, string>>;

  constructor(target: string, headers: Readonly<Record<string, string>> = {}) {
    const [path = '', search = ''] = target.split('?');
    this.path = path;
    this.target = target;
    this.query = new URLSearchParams(search);
    this.#asks = { authorization: 'sdk-test', ...headers };
  }

  get closed(): boolean {
    return this.channel.over !== undefined;
  }

  get answered(): boolean {
    return this.status !== 0;
  }

  header(name: string): string | undefined {
    return this.#asks[name];
  }

  onClose(listener: (complete: boolean) => void): void {
    this.channel.onClose(listener);
  }

  offClose(listener: (complete: boolean) => void): void {
    this.channel.offClose(listener);
  }

  /** As when the client acknowledges all that it gets. */
  onReceived(listener: (received: boolean) => void): void {
    this.channel.onClose(listener);
  }

  onTurn(listener: () => void): void {
    listener();
  }

  body(_bytesMax?: number, _onPart?: (bytes: number) => boolean): Promise<Buffer> {
    return Promise.resolve(Buffer.alloc(0));
  }

  /** The body of the answer, whichever way it was given. */
  get text(): string {
    return this.answer === '' ? this.channel.text : this.answer;
  }

  reply(status: number, headers: Readonly<Record<string, string>>, body: string | Uint8Array = ''): void {
    this.#answer(status, headers);
    this.answer = Buffer.from(body).toString('utf8');
    this.channel.end();
  }

  open(status: number, headers: Readonly<Record<string, string>>): KeptChannel {
    this.#answer(status, headers);
    return this.channel;
  }

  #answer(status: number, headers: Readonly<Record<string, string>>): void {
    if (this.answered) throw new Error(`Broken: answered twice, got ${status} after ${this.status}`);
    this.status = status;
    this.headers = headers;
  }
}

/** What a front works with, without a server. */
export function fakeFront(limits: Partial<LimiterOptions> = {}, more: Partial<FrontOptions> = {}): FrontOptions {
  const clock = new FakeClock();
  const limiter = new Limiter({ name: 'copies', maxConcurrent: 4, maxQueued: 10, waitMsMax: 1000, clock, ...limits });
  return {
    clock,
    limiter,
    deliveries: new Deliveries({ clock }),
    guarded: true,
    parking: false,
    streamWaitMsMax: 1000,
    pollWaitMsMax: 1000,
    aheadWaitMsMax: 5000,
    disconnectedMs: 60_000,
    staleAsDegraded: false,
    heartbeatMs: 180_000,
    compression: true,
    catchUp: 'safe',
    logBatchesMax: 100,
    logBytesMax: 1024 * 1024,
    onPinnedDropped: () => limiter.recheck(),
    ...more,
  };
}
