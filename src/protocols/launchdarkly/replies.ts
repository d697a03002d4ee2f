import type { Exchange } from '../../delivery/index.ts';
import type { Refusal } from './directory.ts';
import { type ClientFact, refused } from './facts.ts';
import { TEXT } from './words.ts';

const PLAIN = { 'content-type': 'text/plain; charset=utf-8' };
const JSON_TYPE = { 'content-type': 'application/json' };

export function replyText(exchange: Exchange, status: number, text: string): void {
  exchange.reply(status, PLAIN, text);
}

export function replyEmpty(exchange: Exchange, status: number, headers: Record<string, string> = {}): void {
  exchange.reply(status, headers);
}

/** Says why there is no environment for a credential. */
export function replyRefusal(exchange: Exchange, { status, text }: Refusal): undefined {
  if (text === undefined) replyEmpty(exchange, status);
  else replyText(exchange, status, text);
  return undefined;
}

export function replyJson(exchange: Exchange, headers: Record<string, string>, body: string | Uint8Array): void {
  exchange.reply(200, { ...JSON_TYPE, ...headers }, body);
}

/** Refused before any work: the body says why, the header when to come back. */
export function replyShed(exchange: Exchange, reason: string, retryAfterSeconds: number): void {
  const message = reason === 'closed' ? TEXT.shuttingDown : TEXT.atLimit;
  exchange.reply(
    503,
    { ...JSON_TYPE, 'retry-after': String(retryAfterSeconds), 'access-control-expose-headers': 'Retry-After' },
    JSON.stringify({ message: `Headgate is ${message}` }),
  );
}

/** A client that has seen newer data than ours is asked to come back, or to another replica. */
export function replyBehind(exchange: Exchange, fact: () => ClientFact): void {
  const retryAfterSeconds = BEHIND_RETRY_SECONDS;
  refused.publish(() => ({ ...fact(), reason: 'behind', early: false, waitedMs: 0, retryAfterSeconds }));
  exchange.reply(
    503,
    { ...JSON_TYPE, 'retry-after': String(retryAfterSeconds), 'access-control-expose-headers': 'Retry-After' },
    JSON.stringify({ message: `Headgate is ${TEXT.behind}` }),
  );
}

/** Another replica may answer at once; this one has waited for its source already. */
const BEHIND_RETRY_SECONDS = 1;
