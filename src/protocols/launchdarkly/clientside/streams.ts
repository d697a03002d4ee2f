import type { Slot } from '../../../admission/index.ts';
import { type CatchUp, parsePosition } from '../../../dataset/index.ts';
import { type DeliveryAbout, Departure } from '../../../delivery/index.ts';
import { admit } from '../admit.ts';
import { CATCH_UP_BYTES_FREE } from '../catch-up.ts';
import type { Evaluated } from '../evaluation/types.ts';
import { aboutOf, type ClientFact, caughtUp, factOf, failed, steppedBack } from '../facts.ts';
import { untilData } from '../first-data.ts';
import { positionOf, startOf, whileAhead } from '../positions.ts';
import { replyBehind } from '../replies.ts';
import { sendCharged } from '../send.ts';
import { STREAM_HEADERS } from '../words.ts';
import type { ClientSideOptions } from './deps.ts';
import type { ClientFeeds } from './feeds.ts';
import { Fingerprints } from './fingerprints.ts';
import { affectedBy, changesOf, evaluateMissed, type Missed, revisionsOf } from './missed.ts';
import { claimOf, namedBy, unlessGone } from './polls.ts';
import { type Asked, type Question, viewOf } from './question.ts';
import type { ValueStream } from './value-feed.ts';
import { type Encoded, encode, encodeFull, sourceOf, STREAM } from './values.ts';

interface Opening extends Asked {
  readonly feeds: ClientFeeds;
  readonly question: Question;
}

/** How soon an evaluator that has not got to a change is asked again, in milliseconds. */
const LATER_MS = 20;

/**
 * Streams of evaluated values, from the request to the last change.
 *
 * ```
 *  request ─► no data yet ─────────────────────────► rest ◄──────────────┐
 *     ├─► up to date, small catch-up ──► send ───────► │                  │
 *     └─► slot ──► evaluate all ──► deliver ─────────► │                  │
 *                                                      │ change           │
 *                                in line, one at a time▼                  │
 *               log broken, or off it ◄── evaluate what it missed ──► send┘
 *                    └─► slot ──► evaluate all ──► deliver ───────────────┘
 * ```
 */
export class ValueStreams {
  readonly #options: ClientSideOptions;

  constructor(options: ClientSideOptions) {
    this.#options = options;
  }

  /** Answers a request for a stream. */
  async open(asked: Asked, feeds: ClientFeeds, question: Question): Promise<void> {
    const opening: Opening = { ...asked, feeds, question };
    const { exchange, environment } = opening;
    const { clock, aheadWaitMsMax } = this.#options.front;
    const claim = claimOf(exchange, question);
    await untilData(environment.data, claim, clock, aheadWaitMsMax);
    if (exchange.closed) return;
    if (!environment.data.ready) {
      const stream = this.#openStream(opening, -1);
      stream.running = false;
      feeds.values.rest(stream);
      return;
    }
    await whileAhead(environment, claim, clock, aheadWaitMsMax);
    if (exchange.closed) return;
    const start = startOf(environment, claim, () => steppedBack.publish(() => factOfStream(opening)));
    if (start.kind === 'behind') replyBehind(exchange, () => factOfStream(opening));
    else if (start.kind === 'current') await this.#openCurrent(opening, environment.data.snapshot());
    else if (start.kind === 'full' || !(await this.#openNearly(opening, start))) await this.#openWithSlot(opening);
  }

  /** Brings a stream up to date, and stays with it until it is. Does nothing where somebody does already. */
  follow(feeds: ClientFeeds, stream: ValueStream): void {
    if (stream.running) return;
    stream.running = true;
    void this.#catchUp(feeds, stream);
  }

  async #catchUp(feeds: ClientFeeds, stream: ValueStream): Promise<void> {
    await orKill(stream, async () => {
      while (isBehind(stream)) await this.#step(feeds, stream);
    });
    stream.running = false;
  }

  /** In line with all others that are behind. What came while it waited is part of what it is evaluated for. */
  async #step(feeds: ClientFeeds, stream: ValueStream): Promise<void> {
    const { environment, audience } = stream;
    const changes = environment.data.sinceOffset(stream.cursor);
    if (changes === undefined) return this.#refresh(feeds, stream);
    const keys = await affectedBy(this.#options.evaluations, environment.info.id, changes);
    if (keys.length === 0) {
      stream.cursor = changes.to;
      return undefined;
    }
    if (feeds.expectedBytes(audience, keys.length) >= CATCH_UP_BYTES_FREE) return this.#stepWithSlot(feeds, stream);
    const missed = await feeds.values.turns.run(() => this.#evaluateMissed(stream));
    return this.#sendMissed(feeds, stream, missed);
  }

  /** A change as large as a copy is not sent to everybody at once: each gets it when it has a slot. */
  async #stepWithSlot(feeds: ClientFeeds, stream: ValueStream): Promise<void> {
    const slot = await this.#slotForOpen(feeds, stream);
    if (slot === undefined) return;
    using held = slot;
    await this.#sendMissed(feeds, stream, await this.#evaluateMissed(stream), held);
  }

  async #evaluateMissed(stream: ValueStream): ReturnType<typeof evaluateMissed> {
    if (stream.channel.dead || stream.over) return 'nothing';
    return evaluateMissed(this.#options.evaluations, stream, stream.cursor);
  }

  async #sendMissed(
    feeds: ClientFeeds,
    stream: ValueStream,
    missed: Awaited<ReturnType<typeof evaluateMissed>>,
    slot?: Slot,
  ): Promise<void> {
    if (stream.channel.dead || missed === undefined || missed === 'nothing') return;
    if (missed === 'later') {
      await new Promise<void>((resolve) => this.#options.front.clock.after(LATER_MS, resolve));
      return;
    }
    stream.revision = revisionsOf(stream.revision, missed.evaluated.bigSegmentsRevision);
    const position = positionOf(missed.to, viewOf(stream.question, stream.revision));
    const changes = changesOf(missed, feeds, stream, stream.prints);
    const encoded = await encode(STREAM.changes(changes, position));
    if (slot === undefined) {
      const isTaken = await this.#sendFree(feeds, stream, encoded);
      // what changed while it was in line came with the oldest
      if (isTaken) feeds.times.took(stream.cursor, encoded.bytes);
      feeds.times.tell(this.#options.front.clock.now());
    } else await this.#sendWithSlot(feeds, stream, { encoded, slot, what: 'catch-up' });
    stream.cursor = missed.to.offset;
  }

  /** Gives an open stream everything: its first data, or all of it again. It is never shed. */
  async #refresh(feeds: ClientFeeds, stream: ValueStream): Promise<void> {
    const slot = await this.#slotForOpen(feeds, stream);
    if (slot === undefined) return;
    using held = slot;
    const evaluated = await this.#evaluateAll(stream);
    if (stream.channel.dead) return;
    await this.#deliverFull(feeds, stream, evaluated, held);
  }

  #evaluateAll(
    { environment, audience, question }: Pick<ValueStream, 'environment' | 'audience' | 'question'>,
    signal?: AbortSignal,
  ): Promise<Evaluated> {
    return this.#options.evaluations.evaluate({
      environmentId: environment.info.id,
      context: question.context,
      withReasons: question.withReasons,
      audience,
      ...(signal === undefined ? {} : { signal }),
    });
  }

  /** From a copy to changes: the cursor is the offset of the data that the copy was computed from. */
  async #deliverFull(feeds: ClientFeeds, stream: ValueStream, evaluated: Evaluated, slot: Slot): Promise<void> {
    const { flags, bigSegmentsRevision, offset } = evaluated;
    const position = positionOf(evaluated, viewOf(stream.question, bigSegmentsRevision));
    const encoded = await encodeFull(STREAM, flags, position);
    feeds.evaluated(stream.audience, evaluated, encoded.bytes);
    if (!(await this.#sendWithSlot(feeds, stream, { encoded, slot, what: 'full' }))) return;
    stream.prints.replace(flags);
    stream.revision = bigSegmentsRevision;
    stream.cursor = offset;
  }

  async #openCurrent(opening: Opening, now: { digest: string; clock: number; offset: number }): Promise<void> {
    const position = positionOf(now, viewOf(opening.question, ''));
    const stream = this.#openStream(opening, now.offset);
    const encoded = await encode([STREAM.upToDate(position)]);
    caughtUp.publish(() => Object.assign(factOfStream(opening), { changes: 0, bytes: encoded.bytes }));
    await this.#begin(opening.feeds, stream, () => this.#sendFree(opening.feeds, stream, encoded));
  }

  /** For a client whose position is in the log. Whether it was answered, or is gone. */
  async #openNearly(opening: Opening, start: CatchUp): Promise<boolean> {
    const { exchange, environment, audience, feeds } = opening;
    const { evaluations } = this.#options;
    if (start.bytes >= CATCH_UP_BYTES_FREE) return false;
    const keys = await affectedBy(evaluations, environment.info.id, start);
    if (exchange.closed) return true;
    if (keys.length === 0) {
      await this.#openCurrent(opening, { digest: start.digest, clock: start.clock, offset: start.to });
      return true;
    }
    if (feeds.expectedBytes(audience, keys.length) >= CATCH_UP_BYTES_FREE) return false;
    using departure = new Departure(exchange);
    const missed = await feeds.catchUps.run(() =>
      unlessGone(exchange, () => evaluateMissed(evaluations, opening, start.from, departure.signal)),
    );
    if (exchange.closed) return true;
    if (missed === undefined || typeof missed === 'string') return false;
    await this.#openChanges(opening, missed);
    return true;
  }

  async #openChanges(opening: Opening, missed: Missed): Promise<void> {
    const { feeds, question } = opening;
    const revision = missed.evaluated.bigSegmentsRevision;
    const position = positionOf(missed.to, viewOf(question, revision));
    const changes = changesOf(missed, feeds, opening);
    const encoded = await encode([STREAM.intent(position), ...STREAM.changes(changes, position)]);
    caughtUp.publish(() => Object.assign(factOfStream(opening), { changes: changes.length, bytes: encoded.bytes }));
    const stream = this.#openStream(opening, missed.to.offset);
    stream.revision = revision;
    await this.#begin(feeds, stream, () => this.#sendFree(feeds, stream, encoded));
  }

  async #openWithSlot(opening: Opening): Promise<void> {
    const { exchange, environment, audience, feeds, question } = opening;
    const { front } = this.#options;
    const slot = await admit(front, exchange, () => factOfStream(opening), {
      tenant: environment.info.id,
      klass: 'public',
      returning: namedBy(exchange) !== undefined,
      pinBytes: feeds.of(audience).expected.bytes,
      waitMsMax: this.#options.waitMsMax ?? front.streamWaitMsMax,
    });
    if (slot === undefined) return;
    using held = slot;
    using departure = new Departure(exchange);
    departure.signal.addEventListener('abort', () => held.release());
    const evaluated = await unlessGone(exchange, () => this.#evaluateAll(opening, departure.signal));
    if (evaluated === undefined || exchange.closed) return;
    const position = positionOf(evaluated, viewOf(question, evaluated.bigSegmentsRevision));
    const named = parsePosition(namedBy(exchange) ?? '');
    const stream = this.#openStream(opening, -1);
    stream.revision = evaluated.bigSegmentsRevision;
    // where big segments have a say, only an evaluation tells that a client is up to date
    if (evaluated.bigSegmentsRevision !== '' && named?.view === position.view && named.digest === position.digest) {
      held.release();
      stream.cursor = evaluated.offset;
      const encoded = await encode([STREAM.upToDate(position)]);
      await this.#begin(feeds, stream, () => this.#sendFree(feeds, stream, encoded));
      return;
    }
    await this.#begin(feeds, stream, () => this.#deliverFull(feeds, stream, evaluated, held));
  }

  /** Sends the first thing to a stream, then lets it follow. */
  async #begin(feeds: ClientFeeds, stream: ValueStream, send: () => Promise<unknown>): Promise<void> {
    await orKill(stream, send);
    stream.running = false;
    if (!stream.channel.dead) this.follow(feeds, stream);
  }

  /** What costs nothing: no slot, but the same watch over whoever does not take it. */
  async #sendFree(feeds: ClientFeeds, stream: ValueStream, encoded: Encoded): Promise<boolean> {
    const { deliveries, guarded } = this.#options.front;
    if (!feeds.values.take(stream)) return false;
    const { channel } = stream;
    const about = (): DeliveryAbout => aboutOf(factOfStream(stream));
    const { outcome } = await deliveries.deliver({ channel, source: sourceOf(encoded), guarded, about });
    feeds.values.rest(stream);
    return outcome === 'completed';
  }

  async #sendWithSlot(
    feeds: ClientFeeds,
    stream: ValueStream,
    { encoded, slot, what }: { encoded: Encoded; slot: Slot; what: 'full' | 'catch-up' },
  ): Promise<boolean> {
    if (!feeds.values.take(stream)) return false;
    slot.pin(encoded.bytes);
    const { outcome } = await sendCharged(this.#options.front, {
      channel: stream.channel,
      source: sourceOf(encoded),
      slot,
      what,
      encoding: 'identity',
      fact: () => factOfStream(stream),
    });
    feeds.values.rest(stream);
    return outcome === 'completed';
  }

  /** A slot for a stream that is open already: it waits with heartbeats, outside the bounds, and is never shed. */
  async #slotForOpen(feeds: ClientFeeds, stream: ValueStream): Promise<Slot | undefined> {
    const { channel, environment, audience } = stream;
    if (channel.dead) return undefined;
    const controller = new AbortController();
    const abort = (): void => controller.abort();
    channel.onClose(abort);
    const answer = await this.#options.front.limiter.acquire({
      tenant: environment.info.id,
      klass: 'public',
      pinBytes: feeds.of(audience).expected.bytes,
      outsideQueueBound: true,
      signal: controller.signal,
    });
    channel.offClose?.(abort);
    if (answer.admitted) return answer.slot;
    stream.over = true;
    if (!channel.dead) channel.end();
    return undefined;
  }

  /** Sends the head of a stream: from here on it is open. A change must not overtake the first thing that it is sent. */
  #openStream(opening: Opening, cursor: number): ValueStream {
    const { exchange, environment, audience, credential, route, info, feeds, question } = opening;
    const stream: ValueStream = {
      environment,
      audience,
      credential,
      route,
      info,
      question,
      cursor,
      channel: exchange.open(200, STREAM_HEADERS),
      openedMs: this.#options.front.clock.now(),
      prints: new Fingerprints(feeds.of(audience).prints),
      revision: '',
      running: true,
      resting: false,
      over: false,
    };
    feeds.values.opened(stream);
    return stream;
  }
}

function isBehind({ channel, over, environment: { data }, cursor }: ValueStream): boolean {
  return !channel.dead && !over && data.ready && cursor < data.log.next;
}

function factOfStream({ environment, route, info }: Pick<ValueStream, 'environment' | 'route' | 'info'>): ClientFact {
  return factOf(environment, route, info);
}

/** A stream that we cannot go on with, whatever the reason, is reset: its client must not take silence for "no change". */
async function orKill(stream: ValueStream, work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    failed.publish(() => ({ ...factOfStream(stream), error }));
    stream.channel.kill();
  }
}
