import type { Exchange } from '../../../delivery/index.ts';
import { replyEmpty } from '../replies.ts';
import type { ClientSideOptions } from './deps.ts';

/** What of a request the service is told. */
const ASKED: readonly string[] = [
  'accept',
  'if-none-match',
  'if-modified-since',
  'user-agent',
  'x-launchdarkly-user-agent',
  'x-launchdarkly-wrapper',
  'x-launchdarkly-tags',
];

/** What of its answer the page is told. Headers for browsers are our own: the service knows nothing of our origins. */
const TOLD: readonly string[] = ['cache-control', 'content-type', 'etag', 'expires', 'last-modified', 'vary'];

/** How many are asked for at a time: each may take its time and some memory, and anybody can ask who knows a public ID. */
const ASKED_MAX = 32;

/** Passes requests for goals on to the vendor's service: 502 when there is none, or it does not answer. */
export class Goals {
  readonly #ask: ClientSideOptions['goals'];
  #asked = 0;

  constructor(ask: ClientSideOptions['goals']) {
    this.#ask = ask;
  }

  async answer(exchange: Exchange, envId: string): Promise<void> {
    if (this.#ask === undefined) return replyEmpty(exchange, 502);
    if (this.#asked >= ASKED_MAX) return replyEmpty(exchange, 503, { 'retry-after': '1' });
    const asked = pick(ASKED, (name) => exchange.header(name));
    this.#asked++;
    const reply = await this.#ask(envId, asked)
      .catch(() => undefined)
      .finally(() => this.#asked--);
    if (exchange.closed) return undefined;
    if (reply === undefined) return replyEmpty(exchange, 502);
    const told = pick(TOLD, (name) => reply.headers[name]);
    return exchange.reply(reply.status, told, reply.body);
  }
}

function pick(names: readonly string[], of: (name: string) => string | undefined): Record<string, string> {
  const picked: Record<string, string> = {};
  for (const name of names) {
    const value = of(name);
    if (value !== undefined) picked[name] = value;
  }
  return picked;
}
