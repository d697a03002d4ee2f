import type { Exchange } from '../../delivery/index.ts';
import { JSON_TYPE, STREAM_TYPE, TEXT, TEXT_TYPE } from './words.ts';

const JSON_HEADERS = { 'content-type': JSON_TYPE };
const STREAM_HEADERS = { 'content-type': STREAM_TYPE };
const STREAM_GZIP_HEADERS = { 'content-type': STREAM_TYPE, 'content-encoding': 'gzip' };
const TEXT_HEADERS = { 'content-type': TEXT_TYPE };

/** A whole answer to a stream. */
export function replyStream(
  exchange: Exchange,
  body: string | Uint8Array,
  encoding: 'identity' | 'gzip' = 'identity',
): void {
  exchange.reply(200, encoding === 'gzip' ? STREAM_GZIP_HEADERS : STREAM_HEADERS, body);
}

export function replyJson(exchange: Exchange, status: number, body: string | Uint8Array): void {
  exchange.reply(status, JSON_HEADERS, body);
}

/** What a HEAD gets: nothing but that the key is good. */
export function replyGoodKey(exchange: Exchange): void {
  exchange.reply(200, TEXT_HEADERS);
}

export function replyMessage(exchange: Exchange, status: number, message: string): void {
  exchange.reply(status, JSON_HEADERS, messageBody(message));
}

export function replyForbidden(exchange: Exchange): void {
  replyMessage(exchange, 403, TEXT.forbidden);
}

/** Refused before any work: the body says why, the header when to come back. */
export function replyUnavailable(exchange: Exchange, message: string, retryAfterSeconds: number): void {
  exchange.reply(503, { ...JSON_HEADERS, 'retry-after': String(retryAfterSeconds) }, messageBody(message));
}

/** As Go's encoder writes it: what HTML or JavaScript might take for its own is escaped. */
function messageBody(message: string): string {
  const escaped = JSON.stringify(message).replace(/[<>&\u2028\u2029]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
  return `{"message":${escaped}}`;
}
