import { setMaxListeners } from 'node:events';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Clock } from '../kernel/index.ts';
import { Backoff, type Outbound, type OutboundReply, urlUnder } from '../outbound/index.ts';
import type { EventsFact } from './facts.ts';
import type { Lane } from './lane.ts';
import type { Failure, Ledger } from './ledger.ts';

/** Requests at once, of all lanes together. */
const REQUESTS_MAX = 32;

/** Tries of one payload; the vendor's SDKs make two. */
const TRIES_MAX = 5;
const TRIES_MAX_SHORT = 2;
const RETRY_MS = 1000;
const RETRY_MS_MAX = 30_000;

/** SDKs give it as long. */
const REPLY_MS_MAX = 10_000;

const compress = promisify(gzip);

/** One request to be made. */
export interface Payload {
  readonly lane: Lane;
  readonly fact: EventsFact;
  readonly path: string;
  /** Without those that the poster sets itself. */
  readonly headers: Readonly<Record<string, string>>;
  readonly events: number;
  /** About, before compression. */
  readonly bytes: number;
  /** The body; asked for once, when it is about to be sent. */
  readonly body: () => Promise<Uint8Array>;
  /** Told when only the compressed body is held any more, and how large it is. */
  readonly onCompressed: (bytes: number) => void;
}

/** What a poster works with. */
export interface PosterOptions {
  readonly outbound: Pick<Outbound, 'send'>;
  readonly uri: string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly ledger: Ledger;
}

/** What came of a try that did not succeed. */
interface Outcome {
  readonly failure: Failure;
  /** As the other side asks. */
  readonly retryAfterMs: number;
}

/** A payload on its way. */
interface Journey {
  readonly payload: Payload;
  body: Uint8Array | undefined;
  bytes: number;
  tries: number;
}

/** Sends payloads, and tries again what may succeed the next time. */
export class Poster {
  readonly #options: PosterOptions;
  readonly #abort = new AbortController();
  readonly #waiting: (() => void)[] = [];
  #requests = 0;

  constructor(options: PosterOptions) {
    this.#options = options;
    // every request and every wait listens to it
    setMaxListeners(0, this.#abort.signal);
  }

  /** Gives up what is on its way. */
  close(): void {
    this.#abort.abort();
  }

  /** Sends a payload. Never rejects: what becomes of it is in the ledger. */
  async post(payload: Payload): Promise<void> {
    const { clock, ledger, random } = this.#options;
    const beganMs = clock.now();
    const backoff = new Backoff({ firstMs: 2 * RETRY_MS, maxMs: RETRY_MS_MAX, random });
    const journey: Journey = { payload, body: undefined, bytes: payload.bytes, tries: 0 };
    for (;;) {
      const outcome = await this.#placed(() => this.#try(journey));
      const { bytes, tries } = journey;
      const tally = { payloads: 1, events: payload.events, bytes };
      if (outcome === undefined) {
        return ledger.sent(payload.fact, tally, { tries, tookMs: clock.now() - beganMs });
      }
      ledger.failed(payload.fact, tally, outcome.failure);
      if (outcome.failure.final) return;
      const waitMs = tries === 1 ? RETRY_MS : backoff.failed();
      await this.#sleep(Math.max(waitMs, outcome.retryAfterMs));
    }
  }

  /** Undefined: it arrived. */
  async #try(journey: Journey): Promise<Outcome | undefined> {
    const { lane, fact } = journey.payload;
    const tries = ++journey.tries;
    if (lane.isRefused) return outcomeOf('refused', { tries, final: true });
    const { sdkKey } = lane;
    let reply: OutboundReply;
    try {
      this.#abort.signal.throwIfAborted();
      reply = await this.#send(journey.payload, (journey.body ??= await this.#compressed(journey)));
    } catch (error) {
      const isOver = this.#abort.signal.aborted || tries >= triesMax(fact);
      return outcomeOf('network', { error, tries, final: isOver });
    }
    const { status } = reply;
    reply.discard();
    lane.upstreamMs = Math.max(lane.upstreamMs, Date.parse(reply.header('date') ?? '') || 0);
    if (status >= 200 && status < 300) return undefined;
    const isRefused = status === 401 || status === 403 || status === 404;
    // an events service may do without diagnostics: that says nothing of the key
    if (isRefused && fact.what === 'bulk') {
      if (lane.refusedKey !== sdkKey) this.#options.ledger.stopped(fact, status);
      lane.refusedKey = sdkKey;
    }
    const final = tries >= Math.min(triesMax(fact), triesOf(status));
    return {
      ...outcomeOf(isRefused ? 'refused' : 'status', { status, tries, final }),
      retryAfterMs: retryAfterMs(reply),
    };
  }

  async #compressed(journey: Journey): Promise<Uint8Array> {
    const whole = await journey.payload.body();
    const body = await compress(whole);
    journey.bytes = whole.length;
    journey.payload.onCompressed(body.length);
    return body;
  }

  #send({ lane, path, headers }: Payload, body: Uint8Array): Promise<OutboundReply> {
    const { outbound, uri } = this.#options;
    return outbound.send({
      method: 'POST',
      url: urlUnder(uri, path),
      headers: {
        ...headers,
        ...(lane.audience === 'client' ? {} : { authorization: lane.sdkKey }),
        'content-encoding': 'gzip',
        'content-type': 'application/json',
      },
      body,
      signal: this.#abort.signal,
      headersTimeoutMs: REPLY_MS_MAX,
    });
  }

  /** Runs one request when there is a place for it. Nobody keeps a place while it waits to try again. */
  async #placed<T>(run: () => Promise<T>): Promise<T> {
    if (this.#requests >= REQUESTS_MAX) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#requests++;
    try {
      return await run();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#requests--;
      else next();
    }
  }

  /** Cut short when there is no time left to try again. */
  #sleep(ms: number): Promise<void> {
    const { signal } = this.#abort;
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = this.#options.clock.after(ms, () => wake());
      const wake = (): void => {
        timer.cancel();
        signal.removeEventListener('abort', wake);
        resolve();
      };
      signal.addEventListener('abort', wake);
    });
  }
}

function outcomeOf(
  cause: Failure['cause'],
  { status, error, tries, final }: { status?: number; error?: unknown; tries: number; final: boolean },
): Outcome {
  return { failure: { cause, status, error, tries, final }, retryAfterMs: 0 };
}

function triesMax({ what }: EventsFact): number {
  return what === 'bulk' ? TRIES_MAX : TRIES_MAX_SHORT;
}

/** How often a payload that is answered so may be tried. */
function triesOf(status: number): number {
  if (status === 408 || status === 429 || status >= 500) return TRIES_MAX;
  // SDKs try it once more; a body that is wrong stays wrong
  return status === 400 ? TRIES_MAX_SHORT : 1;
}

/** `Retry-After` in seconds (RFC 9110, section 10.2.3), within bounds. */
function retryAfterMs(reply: OutboundReply): number {
  const seconds = Number(reply.header('retry-after') ?? 0);
  return seconds > 0 ? Math.min(seconds * 1000, RETRY_MS_MAX) : 0;
}
