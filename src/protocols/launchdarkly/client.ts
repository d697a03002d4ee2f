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

/** A signal that fires when the client goes away before its reply is complete, until it is disposed of. */
export class Departure implements Disposable {
  readonly #exchange: Exchange;
  readonly #controller = new AbortController();
  readonly #onClose = (complete: boolean): void => {
    if (!complete) this.#controller.abort();
  };

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
    if (exchange.closed) this.#controller.abort();
    else exchange.onClose(this.#onClose);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    this.#exchange.offClose(this.#onClose);
  }
}

/** Whether the client accepts gzip: RFC 9110, section 12.5.3. */
export function acceptsGzip(acceptEncoding: string | undefined): boolean {
  if (acceptEncoding === undefined) return false;
  return acceptEncoding.split(',').some((part) => /^\s*(gzip|x-gzip|\*)\s*(;\s*q=(?!0(\.0*)?\s*$).*)?$/i.test(part));
}
