import type { Exchange } from '../../delivery/index.ts';
import { type Quirks, quirksOf } from './quirks.ts';

/** Who asks, as far as a request tells. */
export interface ClientInfo {
  readonly remoteAddress: string;
  readonly quirks: Quirks;
}

/** Who sent this request. Read now, since the address of a connection that is gone can no longer be asked for. */
export function clientOf(exchange: Exchange): ClientInfo {
  return { remoteAddress: exchange.remoteAddress, quirks: quirksOf(exchange.header('user-agent')) };
}
