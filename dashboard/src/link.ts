import type { Bucket, State, Timeline } from './contract.ts';
import { EventParser, type StreamEvent } from './events.ts';

/** How the page stands to the server. */
export type LinkStatus =
  | { readonly is: 'connecting' }
  | { readonly is: 'live' }
  | { readonly is: 'lost'; readonly why: string; readonly nextAtMs: number }
  /** The server wants a token; `wrong`: another than the one that it was shown. */
  | { readonly is: 'asking'; readonly wrong: boolean };

export interface LinkOptions {
  readonly onStatus: (status: LinkStatus) => void;
  readonly onTimeline: (timeline: Timeline) => void;
  readonly onState: (state: State) => void;
  readonly onBucket: (bucket: Bucket) => void;
  readonly token: () => string | undefined;
}

const LIVE_URL = 'api/live';
/** What a header may hold. Anything else, as quotation marks that a chat made round ones, is no token of a listener. */
const HEADER_TEXT = /^[\x21-\x7e]+$/;
const FIRST_RETRY_MS = 500;
const RETRY_MS_MAX = 15_000;
/** The server speaks each second: after this long without a word the connection is dead, whatever the browser thinks of it. */
const SILENCE_MS_MAX = 6000;

/** How long to wait before the next attempt: doubled with each that failed, spread over half of it. */
export function retryMs(failures: number, random: number): number {
  const full = Math.min(RETRY_MS_MAX, FIRST_RETRY_MS * 2 ** Math.min(failures, 10));
  return full / 2 + (full / 2) * random;
}

/** What the server answered in place of the stream. */
class Refusal extends Error {
  readonly retryAfterMs: number;

  constructor(message: string, retryAfterMs: number) {
    super(message);
    this.retryAfterMs = retryAfterMs;
  }
}

/** The stream of the page: opened, read, and opened again when it is lost. */
export class Link {
  readonly #options: LinkOptions;
  #failures = 0;
  #attempt: AbortController | undefined;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  #silenceTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** Connects now, whatever was under way. */
  open(): void {
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#silenceTimer);
    this.#attempt?.abort();
    const attempt = new AbortController();
    this.#attempt = attempt;
    this.#options.onStatus({ is: 'connecting' });
    void this.#run(attempt).catch((error: unknown) => {
      // a newer attempt has its own status and its own timer
      if (this.#attempt !== attempt) return;
      clearTimeout(this.#silenceTimer);
      this.#lose(error);
    });
  }

  async #run(attempt: AbortController): Promise<void> {
    const token = this.#options.token();
    if (token !== undefined && !HEADER_TEXT.test(token)) return this.#options.onStatus({ is: 'asking', wrong: true });
    this.#expectWord(attempt);
    const response = await fetch(LIVE_URL, {
      headers: { accept: 'text/event-stream', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
      signal: attempt.signal,
    });
    if (response.status === 401) {
      clearTimeout(this.#silenceTimer);
      attempt.abort();
      this.#options.onStatus({ is: 'asking', wrong: token !== undefined });
      return;
    }
    if (!response.ok || response.body === null) throw await refusalOf(response);
    const type = response.headers.get('content-type') ?? 'nothing';
    if (!type.startsWith('text/event-stream'))
      throw new Error(`something else answers in its place: expected text/event-stream, got ${type}`);
    await this.#read(response.body, attempt);
    throw new Error('the server ended the stream');
  }

  async #read(body: ReadableStream<Uint8Array>, attempt: AbortController): Promise<void> {
    const parser = new EventParser();
    const decoder = new TextDecoder();
    const reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.#expectWord(attempt);
      for (const event of parser.feed(decoder.decode(value, { stream: true }))) this.#take(event);
    }
  }

  #take({ name, data }: StreamEvent): void {
    const value: unknown = JSON.parse(data);
    if (name === 'timeline') this.#options.onTimeline(value as Timeline);
    else if (name === 'bucket') this.#options.onBucket(value as Bucket);
    else if (name === 'state') {
      this.#failures = 0;
      this.#options.onStatus({ is: 'live' });
      this.#options.onState(value as State);
    }
  }

  #expectWord(attempt: AbortController): void {
    clearTimeout(this.#silenceTimer);
    this.#silenceTimer = setTimeout(() => {
      attempt.abort(new Error(`nothing came for ${SILENCE_MS_MAX / 1000} s`));
    }, SILENCE_MS_MAX);
  }

  #lose(error: unknown): void {
    const least = error instanceof Refusal ? error.retryAfterMs : 0;
    const waitMs = Math.max(least, retryMs(this.#failures++, Math.random()));
    const why = error instanceof TypeError ? 'the server cannot be reached' : messageOf(error);
    this.#options.onStatus({ is: 'lost', why, nextAtMs: Date.now() + waitMs });
    this.#retryTimer = setTimeout(() => this.open(), waitMs);
  }
}

/** Of what a refusal says, the first line: it is a sentence. */
const REFUSAL_CHARACTERS_MAX = 200;

async function refusalOf(response: Response): Promise<Refusal> {
  const text = await response.text();
  // a page of markup is that of a proxy
  const said = text.startsWith('<') ? '' : (text.split('\n')[0] ?? '').slice(0, REFUSAL_CHARACTERS_MAX);
  const seconds = Number(response.headers.get('retry-after') ?? 0);
  const retryAfterMs = Number.isFinite(seconds) ? Math.min(seconds, 60) * 1000 : 0;
  return new Refusal(`the server answered ${response.status}${said === '' ? '' : `: ${said}`}`, retryAfterMs);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
