import type { Exchange } from '../../delivery/index.ts';
import { type Quirks, quirksOf } from './quirks.ts';

/** Who asks, as far as a request tells. */
export interface ClientInfo {
  readonly remoteAddress: string;
  readonly userAgent: string;
  readonly quirks: Quirks;
}

const USER_AGENT_LENGTH_MAX = 120;

/** Who sent this request. */
export function clientOf(exchange: Exchange): ClientInfo {
  const userAgent = exchange.header('user-agent');
  return {
    remoteAddress: exchange.remoteAddress,
    userAgent: (userAgent ?? '').slice(0, USER_AGENT_LENGTH_MAX),
    quirks: quirksOf(userAgent),
  };
}

/** A signal that fires when the client goes away before its reply is complete. */
export function abortSignalOf(exchange: Exchange): AbortSignal {
  const controller = new AbortController();
  if (exchange.closed) controller.abort();
  else exchange.onClose(() => controller.abort());
  return controller.signal;
}

/** Whether the client accepts gzip: RFC 9110, section 12.5.3. */
export function acceptsGzip(acceptEncoding: string | undefined): boolean {
  if (acceptEncoding === undefined) return false;
  return acceptEncoding.split(',').some((part) => /^\s*(gzip|x-gzip|\*)\s*(;\s*q=(?!0(\.0*)?\s*$).*)?$/i.test(part));
}
