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

/** Passes a request for goals on to the vendor's service: 502 when there is none, or it does not answer. */
export async function answerGoals(exchange: Exchange, envId: string, goals: ClientSideOptions['goals']): Promise<void> {
  if (goals === undefined) {
    replyEmpty(exchange, 502);
    return;
  }
  const asked = pick(ASKED, (name) => exchange.header(name));
  const reply = await goals(envId, asked).catch(() => undefined);
  if (exchange.closed) return;
  if (reply === undefined) replyEmpty(exchange, 502);
  else
    exchange.reply(
      reply.status,
      pick(TOLD, (name) => reply.headers[name]),
      reply.body,
    );
}

function pick(names: readonly string[], of: (name: string) => string | undefined): Record<string, string> {
  const picked: Record<string, string> = {};
  for (const name of names) {
    const value = of(name);
    if (value !== undefined) picked[name] = value;
  }
  return picked;
}
