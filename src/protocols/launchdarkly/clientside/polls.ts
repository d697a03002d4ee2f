import { promisify } from 'node:util';
import { constants, gzip } from 'node:zlib';
import type { Slot } from '../../../admission/index.ts';
import { type CatchUp, formatPosition, parsePosition, type Position } from '../../../dataset/index.ts';
import { acceptsGzip, Departure, type Exchange } from '../../../delivery/index.ts';
import { admit } from '../admit.ts';
import { CATCH_UP_BYTES_FREE } from '../catch-up.ts';
import type { Evaluated } from '../evaluation/types.ts';
import { type ClientFact, caughtUp, factOf, steppedBack } from '../facts.ts';
import { type Claim, positionOf, startOf, whileAhead } from '../positions.ts';
import { replyBehind, replyJson } from '../replies.ts';
import { sendCharged } from '../send.ts';
import type { ClientSideOptions } from './deps.ts';
import type { ClientFeeds } from './feeds.ts';
import { affectedBy, changesOf, evaluateMissed } from './missed.ts';
import { type Asked, type Question, viewOf } from './question.ts';
import { type Encoded, encode, encodeFull, type Shape, sourceOf } from './values.ts';

/** One who polls. */
interface Poll extends Asked {
  readonly feeds: ClientFeeds;
  readonly question: Question;
  readonly shape: Shape;
}

/** As long as a poll waits to learn whether it is ahead of us: its program waits for the answer. */
const AHEAD_WAIT_MS_MAX = 1000;
/** Below it, compression gains nothing that a packet would show. */
const GZIP_BYTES_MIN = 1024;
const TAG_PREFIX = 'relay-';
const compress = promisify(gzip);

/** Full replies that are evaluated, and how little is sent to those who are nearly up to date. */
export class EvaluatedPolls {
  readonly #options: ClientSideOptions;

  constructor(options: ClientSideOptions) {
    this.#options = options;
  }

  /** Answers with everything, or with what is missing where the shape has words for it. */
  async answer(asked: Asked, feeds: ClientFeeds, question: Question, shape: Shape): Promise<void> {
    const { exchange, environment } = asked;
    if (!environment.data.ready) {
      exchange.reply(503, { 'content-type': 'application/json' }, NOT_INITIALIZED);
      return;
    }
    const poll: Poll = { ...asked, feeds, question, shape };
    const tag = tagOf(positionOf(environment.data.snapshot(), viewOf(question, '')));
    if (shownTag(exchange) === tag) exchange.reply(304, this.#headersOf(tag));
    else if (shape.changes === undefined || !(await this.#answerSmall(poll))) await this.#answerFull(poll);
  }

  /** Answers whoever is up to date or nearly: no slot, never refused. Whether it did. */
  async #answerSmall(poll: Poll): Promise<boolean> {
    const { exchange, environment, question } = poll;
    const { front } = this.#options;
    const claim = claimOf(exchange, question);
    await whileAhead(environment, claim, front.clock, Math.min(front.aheadWaitMsMax, AHEAD_WAIT_MS_MAX));
    if (exchange.closed) return true;
    const start = startOf(environment, claim, () => steppedBack.publish(() => factOfPoll(poll)));
    if (start.kind === 'behind') {
      replyBehind(exchange, () => factOfPoll(poll));
      return true;
    }
    if (start.kind === 'full') return false;
    if (start.kind === 'changes') return this.#answerChanges(poll, start);
    return this.#replyUpToDate(poll, positionOf(environment.data.snapshot(), viewOf(question, '')));
  }

  #replyUpToDate(poll: Poll, position: Position): boolean {
    const body = poll.shape.upToDate?.(position);
    if (body === undefined) return false;
    caughtUp.publish(() => Object.assign(factOfPoll(poll), { changes: 0, bytes: body.length }));
    replyJson(poll.exchange, { etag: tagOf(position) }, body);
    return true;
  }

  async #answerChanges(poll: Poll, start: CatchUp): Promise<boolean> {
    const { exchange, environment, audience, question, feeds, shape } = poll;
    const { evaluations } = this.#options;
    if (start.bytes >= CATCH_UP_BYTES_FREE) return false;
    const keys = await affectedBy(evaluations, environment.info.id, start);
    if (keys.length === 0) return exchange.closed || this.#replyUpToDate(poll, positionOf(start, viewOf(question, '')));
    if (feeds.expectedBytes(audience, keys.length) >= CATCH_UP_BYTES_FREE) return false;
    using departure = new Departure(exchange);
    const missed = await feeds.catchUps.run(() =>
      unlessGone(exchange, () => evaluateMissed(evaluations, poll, start.from, departure.signal)),
    );
    if (exchange.closed) return true;
    if (missed === undefined || typeof missed === 'string' || shape.changes === undefined) return false;
    const position = positionOf(missed.to, viewOf(question, missed.evaluated.bigSegmentsRevision));
    const changes = changesOf(missed, feeds, poll);
    const { pieces, bytes } = await encode(shape.changes(changes, position));
    caughtUp.publish(() => Object.assign(factOfPoll(poll), { changes: changes.length, bytes }));
    replyJson(exchange, { etag: tagOf(position) }, Buffer.concat(pieces));
    return true;
  }

  async #answerFull(poll: Poll): Promise<void> {
    const { exchange, environment, audience, feeds } = poll;
    const { front, waitMsMax = front.streamWaitMsMax } = this.#options;
    const slot = await admit(front, exchange, () => factOfPoll(poll), {
      tenant: environment.info.id,
      klass: audience === 'server' ? 'server' : 'public',
      returning: exchange.header('if-none-match') !== undefined || namedBy(exchange) !== undefined,
      pinBytes: feeds.of(audience).expected.bytes,
      waitMsMax,
    });
    if (slot === undefined) return;
    using held = slot;
    // whoever leaves while we evaluate has its slot freed now, and not when the evaluation is over
    using departure = new Departure(exchange);
    departure.signal.addEventListener('abort', () => held.release());
    await this.#deliver(poll, held, departure.signal);
  }

  async #deliver(poll: Poll, slot: Slot, signal: AbortSignal): Promise<void> {
    const { exchange, environment, audience, feeds, question, shape } = poll;
    const { withReasons, context } = question;
    const evaluated = await unlessGone(exchange, () =>
      this.#options.evaluations.evaluate({
        environmentId: environment.info.id,
        context,
        audience,
        withReasons,
        signal,
      }),
    );
    if (evaluated === undefined || exchange.closed) return;
    const position = positionOf(evaluated, viewOf(question, evaluated.bigSegmentsRevision));
    if (this.#answerSame(poll, evaluated, position)) return;
    const encoded = await encodeFull(shape, evaluated.flags, position);
    feeds.evaluated(audience, evaluated, encoded.bytes);
    slot.pin(encoded.bytes);
    await this.#send(poll, slot, encoded, tagOf(position));
  }

  /** Where big segments have a say, only an evaluation tells that a client has this already. */
  #answerSame(poll: Poll, evaluated: Evaluated, position: Position): boolean {
    if (evaluated.bigSegmentsRevision === '') return false;
    const { exchange } = poll;
    if (shownTag(exchange) === tagOf(position)) {
      exchange.reply(304, this.#headersOf(tagOf(position)));
      return true;
    }
    const named = parsePosition(namedBy(exchange) ?? '');
    if (named?.view !== position.view || named.digest !== position.digest) return false;
    return this.#replyUpToDate(poll, position);
  }

  /** Of an answer with values, and of the 304 in its place, which must say the same (RFC 9110, section 15.4.5). */
  #headersOf(etag: string): Record<string, string> {
    return this.#options.front.compression ? { etag, vary: 'Accept-Encoding' } : { etag };
  }

  async #send(poll: Poll, slot: Slot, encoded: Encoded, etag: string): Promise<void> {
    const { exchange } = poll;
    const { front } = this.#options;
    const isGzip =
      front.compression && encoded.bytes >= GZIP_BYTES_MIN && acceptsGzip(exchange.header('accept-encoding'));
    const sent = isGzip ? await compressed(encoded) : encoded;
    if (exchange.closed) return;
    const channel = exchange.open(200, {
      'content-type': 'application/json',
      ...this.#headersOf(etag),
      'content-length': String(sent.bytes),
      ...(isGzip ? { 'content-encoding': 'gzip' } : {}),
    });
    const report = await sendCharged(front, {
      channel,
      source: sourceOf(sent),
      slot,
      what: 'full',
      encoding: isGzip ? 'gzip' : 'identity',
      plainBytes: () => encoded.bytes,
      fact: () => factOfPoll(poll),
    });
    if (report.outcome === 'completed') channel.end();
  }
}

const NOT_INITIALIZED = '{"message":"Service not initialized"}';

function factOfPoll({ environment, route, info }: Asked): ClientFact {
  return factOf(environment, route, info);
}

function tagOf(position: Position): string {
  return TAG_PREFIX + formatPosition(position);
}

/** A proxy that compresses makes a tag weak (RFC 9110, section 8.8.1): the content is the same. */
function shownTag(exchange: Exchange): string | undefined {
  return exchange.header('if-none-match')?.replace(/^W\//, '');
}

/** What a client names as its position: `Last-Event-ID` is always the latest. */
export function namedBy(exchange: Exchange): string | undefined {
  return exchange.header('last-event-id') ?? exchange.query.get('basis') ?? undefined;
}

/** Where a client says that it is. Where big segments had a say, the data alone do not tell whether it is up to date. */
export function claimOf(exchange: Exchange, question: Question): Claim {
  const named = namedBy(exchange);
  const position = named === undefined ? undefined : parsePosition(named);
  return {
    position: position?.view === viewOf(question, '') ? position : undefined,
    frozen: false,
    returning: named !== undefined,
  };
}

/** Work that ends with an error when its client leaves: nobody is there to hear of it. */
export async function unlessGone<T>(exchange: Exchange, work: () => Promise<T>): Promise<T | undefined> {
  if (exchange.closed) return undefined;
  try {
    return await work();
  } catch (error) {
    if (exchange.closed) return undefined;
    throw error;
  }
}

/** Level 1: ten browsers that come at once share the threads that do this with everything else. */
async function compressed({ pieces }: Encoded): Promise<Encoded> {
  const bytes = await compress(Buffer.concat(pieces), { level: constants.Z_BEST_SPEED });
  return { pieces: [bytes], bytes: bytes.length };
}
