import { type Clock, HeadgateError, messageOf, Slices, type Timer } from '../kernel/index.ts';
import { Backoff, type Outbound, type OutboundReply, readEvents, type StreamEvent } from '../outbound/index.ts';
import { type AutoConfigMessage, parseMessage, UnreadableEvent } from './autoconfig-reps.ts';
import type { UpstreamStatus } from './upstream-types.ts';

/** Settings of a {@link Loop}. */
export interface LoopOptions {
  readonly url: URL;
  readonly key: string;
  readonly outbound: Outbound;
  readonly clock: Clock;
  readonly wallNow: () => number;
  readonly random: () => number;
  readonly take: (message: AutoConfigMessage) => void;
  readonly failed: (error: HeadgateError, fatal: boolean) => void;
  readonly status: (status: UpstreamStatus) => void;
}

/** How it is with an attempt that came to its end by itself. */
class Failure extends Error {
  readonly kind: 'NETWORK_ERROR' | 'ERROR_RESPONSE' | 'INVALID_DATA' | 'UNKNOWN';
  readonly status: number | undefined;

  constructor(kind: Failure['kind'], message: string, options: ErrorOptions & { readonly status?: number } = {}) {
    super(message, options);
    this.kind = kind;
    this.status = options.status;
  }
}

/** Upstream sends a comment every 3 minutes. */
const IDLE_MS_MAX = 300_000;
/** 100,000 environments have less. */
const EVENT_BYTES_MAX = 64 * 1024 * 1024;
/** A key that is refused may be let in again without anybody telling us; but hardly soon. */
const REFUSED_FIRST_MS = 60_000;
const REFUSED_MS_MAX = 3_600_000;

/** Follows the stream, connection after connection. */
export class Loop {
  readonly #options: LoopOptions;
  readonly #backoff: Backoff;
  readonly #refusedBackoff: Backoff;
  #status: UpstreamStatus | undefined;
  #wasValid = false;
  /** What was told of the outage that goes on. */
  #outage: string | undefined;
  #validAtMs: number | undefined;
  #running: Promise<void> | undefined;
  #isStopped = false;
  #wanted = false;
  #connection = new AbortController();
  #wake: () => void = () => {};

  constructor(options: LoopOptions) {
    const { random } = options;
    this.#options = options;
    this.#backoff = new Backoff({ random });
    this.#refusedBackoff = new Backoff({ firstMs: REFUSED_FIRST_MS, maxMs: REFUSED_MS_MAX, random });
  }

  /** @param first - is awaited before the first attempt */
  start(first: Promise<void>): void {
    this.#tellStatus('INITIALIZING', undefined);
    this.#running ??= this.#run(first);
  }

  /** Ends what is under way; nothing is told any more. */
  async stop(): Promise<void> {
    if (this.#isStopped) return this.#running;
    this.#tellStatus('OFF', this.#status?.lastError);
    this.#isStopped = true;
    this.#connection.abort();
    this.#wake();
    await this.#running;
  }

  /** Connects anew, now. */
  reconnect(): void {
    this.#wanted = true;
    this.#connection.abort();
    this.#wake();
  }

  async #run(first: Promise<void>): Promise<void> {
    await first;
    while (!this.#isStopped) {
      const waitMs = await this.#connect();
      if (!this.#isStopped && !this.#wanted) await this.#sleep(waitMs);
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer: Timer = this.#options.clock.after(ms, resolve);
      this.#wake = () => {
        timer.cancel();
        resolve();
      };
    });
  }

  /** One connection, to its end. Answers how long to wait before the next one, in milliseconds. */
  async #connect(): Promise<number> {
    this.#connection = new AbortController();
    this.#wanted = false;
    this.#validAtMs = undefined;
    try {
      await this.#follow(this.#connection.signal);
      // upstream asked for another connection; asking again and again must not make us turn in circles
      return this.#waitMs(this.#backoff);
    } catch (thrown) {
      if (this.#isStopped || this.#wanted) return 0;
      return this.#fail(failureOf(thrown));
    }
  }

  /** Resolves when upstream wants us to connect anew. */
  async #follow(signal: AbortSignal): Promise<void> {
    const { outbound, url, key } = this.#options;
    const headers = { authorization: key, accept: 'text/event-stream', 'cache-control': 'no-cache' };
    const reply = await outbound.send({ method: 'GET', url, headers, signal, idleTimeoutMs: IDLE_MS_MAX });
    checkHead(reply);
    // a change is compared with all there is, and thousands may come in one piece
    const slices = new Slices();
    for await (const event of readEvents(reply.body)) {
      if (slices.due()) await slices.pause();
      const message = await readMessage(event);
      if (signal.aborted) throw new Failure('NETWORK_ERROR', 'it was given up');
      if (message.kind === 'reconnect') return;
      this.#options.take(message);
      if (message.kind !== 'unknown') this.#good();
    }
    throw new Failure('NETWORK_ERROR', 'the stream ended');
  }

  #good(): void {
    if (this.#validAtMs !== undefined) return;
    this.#validAtMs = this.#options.clock.now();
    this.#refusedBackoff.reset();
    this.#outage = undefined;
    this.#wasValid = true;
    this.#tellStatus('VALID', this.#status?.lastError);
  }

  #fail(failure: Failure): number {
    const { kind, status } = failure;
    const isRefused = status === 401 || status === 403;
    const statusCode = status === undefined ? {} : { statusCode: status };
    const interrupted = this.#wasValid ? 'INTERRUPTED' : 'INITIALIZING';
    this.#tellStatus(isRefused ? 'OFF' : interrupted, { kind, timeMs: this.#options.wallNow(), ...statusCode });
    const cause = `${kind} ${status}`;
    if (this.#outage !== cause) this.#options.failed(this.#errorOf(failure), isRefused);
    this.#outage = cause;
    return this.#waitMs(isRefused ? this.#refusedBackoff : this.#backoff);
  }

  #errorOf({ message, cause }: Failure): HeadgateError {
    // it has the address in it
    if (cause instanceof HeadgateError && cause.code === 'HG_UPSTREAM') return cause;
    const { origin, pathname } = this.#options.url;
    const act = `follow the automatic configuration at ${origin}${pathname}`;
    return new HeadgateError('HG_UPSTREAM', `Cannot ${act}: ${message}`, { cause });
  }

  #waitMs(backoff: Backoff): number {
    if (this.#validAtMs !== undefined) this.#backoff.healthyFor(this.#options.clock.now() - this.#validAtMs);
    return backoff.failed();
  }

  #tellStatus(state: UpstreamStatus['state'], lastError: UpstreamStatus['lastError']): void {
    if (this.#isStopped) return;
    const before = this.#status;
    if (before?.state === state && before.lastError === lastError) return;
    const sinceMs = before?.state === state ? before.sinceMs : this.#options.wallNow();
    this.#status = { state, sinceMs, ...(lastError === undefined ? {} : { lastError }) };
    this.#options.status(this.#status);
  }
}

function checkHead(reply: OutboundReply): void {
  const { status } = reply;
  const type = (reply.header('content-type') ?? '').toLowerCase();
  if (status === 200 && type.startsWith('text/event-stream')) return;
  reply.discard();
  if (status === 401 || status === 403) {
    throw new Failure('ERROR_RESPONSE', `its key is refused, got status ${status}`, { status });
  }
  if (status !== 200) throw new Failure('ERROR_RESPONSE', `the answer must have status 200, got ${status}`, { status });
  // as a portal that wants somebody to log in first
  throw new Failure('INVALID_DATA', `the answer must be text/event-stream, got ${JSON.stringify(type)}`);
}

const KNOWN_EVENTS: ReadonlySet<string> = new Set(['put', 'patch', 'delete', 'reconnect']);

async function readMessage(event: StreamEvent): Promise<AutoConfigMessage> {
  // what nobody asks for is skipped, however long it is
  if (!KNOWN_EVENTS.has(event.name)) return { kind: 'unknown' };
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of event.data) {
    bytes += piece.byteLength;
    if (bytes > EVENT_BYTES_MAX) {
      throw new UnreadableEvent(`its ${event.name} event may have ${EVENT_BYTES_MAX} bytes, got more`);
    }
    pieces.push(piece);
  }
  return await parseMessage(event.name, Buffer.concat(pieces).toString('utf8'));
}

function failureOf(thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown;
  const code = thrown instanceof HeadgateError ? thrown.code : undefined;
  const isUnreadable = thrown instanceof UnreadableEvent || code === 'HG_SOURCE';
  const other = code === 'HG_UPSTREAM' ? 'NETWORK_ERROR' : 'UNKNOWN';
  return new Failure(isUnreadable ? 'INVALID_DATA' : other, messageOf(thrown), { cause: thrown });
}
