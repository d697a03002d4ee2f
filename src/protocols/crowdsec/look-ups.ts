import { type Exchange, Stages } from '../../delivery/index.ts';
import { admit } from './admit.ts';
import { searchOf } from './client.ts';
import type { FrontOptions } from './deps.ts';
import { answered, factOf, type Who } from './facts.ts';
import { BadQuery, type LiveQuery, readLive } from './params.ts';
import { replyGoodKey, replyJson, replyMessage } from './replies.ts';
import { sendCharged } from './send.ts';
import { replyNotYet } from './unavailable.ts';
import { have, waitFor } from './waiting.ts';
import { JSON_TYPE, NO_DECISION } from './words.ts';

/** Live look-ups. They never move a cursor. One that no address and no value bounds is a full delivery like any other. */
export class LookUps {
  readonly #front: FrontOptions;

  constructor(front: FrontOptions) {
    this.#front = front;
  }

  answer(exchange: Exchange, who: Who): Promise<void> | void {
    const query = readLive(searchOf(exchange.target));
    if (query instanceof BadQuery) return replyMessage(exchange, 500, query.message);
    if (exchange.method === 'HEAD') return replyGoodKey(exchange);
    const wait = have(this.#front, query.need);
    return wait === true ? this.#answer(exchange, who, query) : this.#answerAfter(exchange, who, query, wait);
  }

  async #answerAfter(
    exchange: Exchange,
    who: Who,
    query: LiveQuery,
    wait: Exclude<ReturnType<typeof have>, true>,
  ): Promise<void> {
    const had = await waitFor(this.#front, exchange, wait);
    if (exchange.closed) return;
    if (had === 'had') await this.#answer(exchange, who, query);
    else replyNotYet(this.#front, exchange, factOf(exchange, who), had);
  }

  #answer(exchange: Exchange, who: Who, query: LiveQuery): Promise<void> | void {
    if (!query.bound) return this.#answerWithSlot(exchange, who, query);
    const found = this.#front.views.find(query.filter);
    answered.publish(() =>
      Object.assign(factOf(exchange, who), {
        what: 'look-up' as const,
        bytes: Buffer.byteLength(found),
        hit: found !== NO_DECISION,
      }),
    );
    replyJson(exchange, 200, found);
  }

  async #answerWithSlot(exchange: Exchange, who: Who, { filter, limit, offset, idGt }: LiveQuery): Promise<void> {
    const fact = factOf(exchange, who);
    const slot = await admit(this.#front, exchange, () => fact, true);
    if (slot === undefined) return;
    const stages = new Stages(this.#front.clock);
    try {
      const copy = await this.#front.views.list(filter, {
        ...(limit === undefined ? {} : { limit }),
        ...(offset === undefined ? {} : { offset }),
        ...(idGt === undefined ? {} : { idGt }),
      });
      if (exchange.closed) {
        copy.release();
        return;
      }
      stages.pinned();
      const charged = { exchange, copy, slot, stages, what: 'list', contentType: JSON_TYPE } as const;
      await sendCharged(this.#front, { ...charged, fact: () => fact });
    } finally {
      slot.release();
    }
  }
}
