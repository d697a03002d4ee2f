import type { Copy } from '../../dataset/decisions/index.ts';
import { type Exchange, Stages } from '../../delivery/index.ts';
import { admit } from './admit.ts';
import type { Caller } from './callers.ts';
import { searchOf } from './client.ts';
import type { Commits } from './commits.ts';
import type { FrontOptions } from './deps.ts';
import { answered, factOf, type Who } from './facts.ts';
import { BadQuery, StreamQueries, type StreamQuery } from './params.ts';
import type { CursorName, Cursors } from './positions.ts';
import { replyStream } from './replies.ts';
import { bodyOf, sendCharged } from './send.ts';
import { have, waitFor, whenStored } from './waiting.ts';
import { replyNotYet } from './unavailable.ts';
import { STREAM_TYPE } from './words.ts';

/** A delta that looks at so many entries at most is made and sent at once, without a slot: it is a few packets. */
const ENTRIES_FREE = 1000;
const BYTES_FREE = 262_144;

/** Nothing is new, and nothing is over. */
const EMPTY_DELTA = '{"new": [], "deleted": []}';

/** One request for a stream. */
interface Poll {
  readonly exchange: Exchange;
  readonly who: Who;
  readonly caller: Caller | undefined;
  readonly query: StreamQuery;
  readonly name: CursorName;
}

/**
 * Streams: what is new since a bouncer last asked. Being up to date is nearly free; a small delta needs no slot; everything,
 * or a large delta, does.
 */
export class Polls {
  readonly #front: FrontOptions;
  readonly #cursors: Cursors;
  readonly #commits: Commits;
  readonly #queries = new StreamQueries();

  constructor(front: FrontOptions, cursors: Cursors, commits: Commits) {
    this.#front = front;
    this.#cursors = cursors;
    this.#commits = commits;
  }

  /** @param caller - the bouncer's own connection, if it has one. */
  answer(exchange: Exchange, who: Who, caller: Caller | undefined): Promise<void> | void {
    const query = this.#queries.read(searchOf(exchange.target));
    // as the local API does, which has sent its head before it reads the filter
    if (query instanceof BadQuery) return replyStream(exchange, EMPTY_DELTA);
    const name = { id: who.bouncer.id, address: who.address, meaning: query.meaning };
    const poll: Poll = { exchange, who, caller, query, name };
    const wait = have(this.#front, query.need);
    return wait === true ? this.#answer(poll) : this.#answerAfter(poll, wait);
  }

  async #answerAfter(poll: Poll, wait: Exclude<ReturnType<typeof have>, true>): Promise<void> {
    const { exchange, who } = poll;
    const had = await waitFor(this.#front, exchange, wait);
    if (exchange.closed) return;
    if (had === 'had') await this.#answer(poll);
    else replyNotYet(this.#front, exchange, factOf(exchange, who), had);
  }

  #answer(poll: Poll): Promise<void> | void {
    if (poll.query.startup) return this.#answerWithSlot(poll);
    const from = this.#enter(poll);
    const { ledger } = this.#front;
    if (from === undefined) return this.#answerWithSlot(poll);
    if (from === ledger.offset) return this.#answerCurrent(poll);
    if (ledger.entriesSince(from) > ENTRIES_FREE) return this.#answerWithSlot(poll);
    return this.#answerSmall(poll, from);
  }

  /** Where the bouncer stands; undefined: it needs everything. To be acted upon before anything else can happen. */
  #enter({ name, caller }: Poll): number | undefined {
    const from = this.#cursors.enter(name, caller);
    const { reach, offset } = this.#front.ledger;
    return from !== undefined && from >= reach && from <= offset ? from : undefined;
  }

  /** The most frequent answer: nothing moves, so nobody need know whether it was received. */
  #answerCurrent({ exchange, who }: Poll): void {
    const bytes = EMPTY_DELTA.length;
    answered.publish(() => Object.assign(factOf(exchange, who), { what: 'current' as const, bytes, hit: false }));
    replyStream(exchange, EMPTY_DELTA);
  }

  async #answerSmall(poll: Poll, from: number): Promise<void> {
    const { exchange, who } = poll;
    const copy = await this.#deltaFrom(poll, from);
    try {
      if (exchange.closed) return;
      if (copy !== undefined && copy.bytes < BYTES_FREE) {
        await whenStored(this.#front, copy.offset);
        const { body, encoding } = await bodyOf(exchange, copy);
        if (exchange.closed) return;
        const hit = copy.added + copy.deleted > 0;
        const bytes = body.length;
        answered.publish(() => Object.assign(factOf(exchange, who), { what: 'delta' as const, bytes, hit, encoding }));
        this.#moveWhenReceived(poll, copy, from);
        replyStream(exchange, body, encoding);
        return;
      }
    } finally {
      copy?.release();
    }
    await this.#answerWithSlot(poll);
  }

  /** The cursor is read when the slot is won: a bouncer that queued is answered as of then. */
  async #answerWithSlot(poll: Poll): Promise<void> {
    const { exchange, who, query } = poll;
    const fact = factOf(exchange, who);
    const slot = await admit(this.#front, exchange, () => fact, !query.startup);
    if (slot === undefined) return;
    const stages = new Stages(this.#front.clock);
    try {
      const from = query.startup ? undefined : this.#enter(poll);
      const delta = from === undefined ? undefined : await this.#deltaFrom(poll, from);
      const copy = delta ?? (await this.#front.views.full(query.filter, { dedup: query.dedup }));
      await whenStored(this.#front, copy.offset);
      if (exchange.closed) {
        copy.release();
        return;
      }
      stages.pinned();
      this.#moveWhenReceived(poll, copy, delta === undefined ? undefined : from);
      const what = delta === undefined ? 'full' : 'delta';
      const charged = { exchange, copy, slot, what, stages, contentType: STREAM_TYPE } as const;
      await sendCharged(this.#front, { ...charged, fact: () => fact });
    } finally {
      slot.release();
    }
  }

  /** Undefined: what it would have needed is gone by now. */
  async #deltaFrom({ query: { filter, dedup } }: Poll, from: number): Promise<Copy | undefined> {
    const { views, ledger } = this.#front;
    const made = views.delta(filter, { dedup, from });
    const copy = made instanceof Promise ? await made : made;
    if (from >= ledger.reach) return copy;
    copy.release();
    return undefined;
  }

  /** @param from - the cursor that a delta was made from */
  #moveWhenReceived({ exchange, name, caller }: Poll, { offset, added, deleted }: Copy, from?: number): void {
    const tells = added + deleted > 0;
    exchange.onReceived((received) => {
      if (!received) return;
      this.#cursors.moved(name, caller, offset);
      if (tells && from !== undefined) this.#commits.received(from);
    });
  }
}
