import type { Exchange } from './exchange.ts';

/**
 * A signal that fires when the client goes away before its reply is complete, until it is disposed of.
 *
 * @example
 * async function answer(exchange: Exchange, find: (signal: AbortSignal) => Promise<string>): Promise<void> {
 *   using departure = new Departure(exchange);
 *   exchange.reply(200, { 'content-type': 'text/plain' }, await find(departure.signal));
 * }
 */
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
