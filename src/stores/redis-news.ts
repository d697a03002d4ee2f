import type { OrderBook } from './redis-order.ts';

/** So much is remembered one by one. */
const HEARD_MAX = 1000;

/**
 * Whether others may have gone on in the order.
 *
 * A writer need not know: its transaction is refused when they have. So it looks before it writes only when something was
 * heard that the book does not have, or something may have been missed. Each replica hears of its own writes too, some of
 * them before their answers: those are no news once they stand in the book.
 */
export class News {
  #isMissed = true;
  readonly #heard = new Set<string>();

  /** @param news - `<place>-0 <digest>`, undefined when something may have been missed */
  hear(news: string | undefined): void {
    if (news === undefined || this.#heard.size >= HEARD_MAX) this.miss();
    else this.#heard.add(news);
  }

  /** Something may have been published that was not heard. */
  miss(): void {
    this.#isMissed = true;
    this.#heard.clear();
  }

  /** A look begins: whatever was published until now, it sees. */
  look(): void {
    this.#isMissed = false;
    this.#heard.clear();
  }

  /** Whether the book may be behind. */
  isAny(book: OrderBook): boolean {
    for (const news of this.#heard) {
      const [id = '', digest = ''] = news.split(' ');
      if (!book.has(Number.parseInt(id, 10), digest)) this.#isMissed = true;
    }
    this.#heard.clear();
    return this.#isMissed;
  }
}
