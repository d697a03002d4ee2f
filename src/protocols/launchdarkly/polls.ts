import { crc32 } from 'node:zlib';
import { payloadOf, type Pin, type Position, type Snapshot } from '../../dataset/index.ts';
import { acceptsGzip, type Exchange, Stages } from '../../delivery/index.ts';
import { admit } from './admit.ts';
import { CATCH_UP_BYTES_FREE, catchUpSource } from './catch-up.ts';
import { type ClientInfo, clientOf } from './client.ts';
import type { FrontOptions } from './deps.ts';
import type { Environment } from './environment.ts';
import { type ClientFact, caughtUp, factOf, steppedBack } from './facts.ts';
import { type Claim, claimOf, positionOf, startOf, whileAhead } from './positions.ts';
import { replyBehind, replyEmpty, replyJson, replyText } from './replies.ts';
import { type Charged, sendCharged } from './send.ts';
import type { PollView } from './views.ts';
import { POLL_CACHE_CONTROL, TEXT } from './words.ts';

interface Poll {
  readonly exchange: Exchange;
  readonly environment: Environment;
  readonly view: PollView;
  readonly route: string;
  readonly info: ClientInfo;
}

type Headers = Record<string, string>;

/** Polls: the tag first, which costs nothing; then a small reply; a full copy last. */
export class Polls {
  readonly #front: FrontOptions;

  readonly #upToDateTexts = new WeakMap<Snapshot, Map<PollView, string>>();

  constructor(front: FrontOptions) {
    this.#front = front;
  }

  /** Answers a poll. */
  async answer(exchange: Exchange, environment: Environment, view: PollView, route: string): Promise<void> {
    if (!environment.data.ready) {
      replyText(exchange, 503, TEXT.notInitialized);
      return;
    }
    const tag = tagOf(environment.data.snapshot(), view);
    if (exchange.header('if-none-match') === tag) {
      exchange.reply(304, this.#headersOf(environment, tag));
      return;
    }
    const poll: Poll = { exchange, environment, view, route, info: clientOf(exchange) };
    if (await this.#refusedBehind(poll)) return;
    if (view.incremental !== undefined && (await this.#answerSmall(poll))) return;
    await this.#answerWithSlot(poll);
  }

  /** A tag of newer data than ours: the client waits for our source, and is asked to come back when that takes too long. */
  async #refusedBehind(poll: Poll): Promise<boolean> {
    const { exchange, environment, view } = poll;
    const position = claimedByTag(exchange.header('if-none-match'), view);
    if (position === undefined || environment.order === undefined) return false;
    const claim = { position, frozen: false, returning: true };
    await this.#whileAhead(environment, claim);
    if (exchange.closed) return true;
    if (startOf(environment, claim).kind !== 'behind') return false;
    replyBehind(exchange, () => this.#fact(poll));
    return true;
  }

  async #whileAhead(environment: Environment, claim: Claim): Promise<void> {
    const waitMsMax = Math.min(this.#front.aheadWaitMsMax, this.#front.pollWaitMsMax, AHEAD_WAIT_MS_MAX);
    await whileAhead(environment, claim, this.#front.clock, waitMsMax);
  }

  /** Answers a client that is up to date or nearly: no slot, never refused. Whether it did. */
  async #answerSmall(poll: Poll): Promise<boolean> {
    const { exchange, environment, view, info } = poll;
    const claim = claimOf(exchange, view, info.quirks.frozenBasis);
    await this.#whileAhead(environment, claim);
    if (exchange.closed) return true;
    const start = startOf(environment, claim, () => steppedBack.publish(() => this.#fact(poll)));
    if (start.kind === 'behind') {
      replyBehind(exchange, () => this.#fact(poll));
      return true;
    }
    if (start.kind === 'full' || view.incremental === undefined) return false;
    if (start.kind === 'changes' && start.bytes >= CATCH_UP_BYTES_FREE) return false;
    const { incremental } = view;
    const snapshot = environment.data.snapshot();
    const changes = start.kind === 'changes' ? start.keys.length : 0;
    const body =
      start.kind === 'changes'
        ? start.memo(`poll${poll.route}`, () =>
            Buffer.from([...incremental.catchUp(start.keys, positionOf(snapshot, view.name))].join('')),
          )
        : this.#upToDate(snapshot, view, incremental);
    caughtUp.publish(() => Object.assign(this.#fact(poll), { changes, bytes: body.length }));
    replyJson(exchange, { etag: tagOf(snapshot, view), ...ttlHeaders(environment) }, body);
    return true;
  }

  /** Said again and again, and the same until the data change. */
  #upToDate(snapshot: Snapshot, view: PollView, incremental: NonNullable<PollView['incremental']>): string {
    let texts = this.#upToDateTexts.get(snapshot);
    if (texts === undefined) this.#upToDateTexts.set(snapshot, (texts = new Map()));
    let text = texts.get(view);
    if (text === undefined) texts.set(view, (text = incremental.upToDate(positionOf(snapshot, view.name))));
    return text;
  }

  async #answerWithSlot(poll: Poll): Promise<void> {
    const { exchange, environment, view, info } = poll;
    const claim = claimOf(exchange, view, info.quirks.frozenBasis);
    const slot = await admit(this.#front, exchange, () => this.#fact(poll), {
      tenant: environment.info.id,
      returning: claim.returning || exchange.header('if-none-match') !== undefined,
      waitMsMax: this.#front.pollWaitMsMax,
    });
    if (slot === undefined) return;
    const start = view.incremental === undefined ? FULL : startOf(environment, claim);
    const stages = new Stages(this.#front.clock);
    const pin = environment.data.pin();
    stages.pinned();
    try {
      if (start.kind === 'behind') {
        replyBehind(exchange, () => this.#fact(poll));
        return;
      }
      const headers = this.#headersOf(environment, tagOf(pin.snapshot, view));
      if (start.kind === 'changes' && view.incremental !== undefined) {
        const parts = view.incremental.catchUp(start.keys, positionOf(pin.snapshot, view.name));
        await this.#deliver(poll, headers, {
          slot,
          source: catchUpSource(parts),
          what: 'catch-up',
          encoding: 'identity',
          stages,
        });
      } else {
        await this.#deliverFull(poll, { slot, stages }, headers, pin);
      }
    } finally {
      slot.release();
      pin.release();
    }
  }

  async #deliverFull(poll: Poll, charged: Pick<Charged, 'slot' | 'stages'>, headers: Headers, pin: Pin): Promise<void> {
    const { exchange, view } = poll;
    const gzip = this.#front.compression && acceptsGzip(exchange.header('accept-encoding'));
    const payload = payloadOf(pin.snapshot, view.full(positionOf(pin.snapshot, view.name)), gzip ? 'gzip' : 'identity');
    const length = payload.bytes ?? (await payload.prepare());
    if (exchange.closed) return;
    const encoding = gzip ? 'gzip' : 'identity';
    const sized: Headers = { ...headers, 'content-length': String(length) };
    if (gzip) sized['content-encoding'] = encoding;
    await this.#deliver(poll, sized, {
      ...charged,
      source: payload,
      what: 'full',
      encoding,
      plainBytes: () => payload.checksum.length,
    });
  }

  /** Of an answer with data, and of the 304 in its place, which must say the same (RFC 9110, section 15.4.5). */
  #headersOf(environment: Environment, etag: string): Headers {
    const headers: Headers = {
      ...ttlHeaders(environment),
      etag,
      'cache-control': cacheControlOf(environment),
    };
    if (this.#front.compression) headers['vary'] = varyOf(headers);
    return headers;
  }

  async #deliver(poll: Poll, headers: Headers, charged: Omit<Charged, 'channel' | 'fact'>): Promise<void> {
    const channel = poll.exchange.open(200, { 'content-type': 'application/json', ...headers });
    const report = await sendCharged(this.#front, { ...charged, channel, fact: () => this.#fact(poll) });
    if (report.outcome === 'completed') channel.end();
  }

  #fact(poll: Poll): ClientFact {
    return factOf(poll.environment, poll.route, poll.info);
  }
}

/** Go gives a whole poll 3 s, its body included, also where the queue has no limit in time. */
const AHEAD_WAIT_MS_MAX = 1000;

const FULL = { kind: 'full' } as const;

const TAG_PREFIX = 'relay-';

/** The position that a tag stands for: only that of a view which shows everything is one. */
function claimedByTag(tag: string | undefined, view: PollView): Position | undefined {
  if (view.kinds.length === 1 || tag?.startsWith(TAG_PREFIX) !== true) return undefined;
  return { digest: tag.slice(TAG_PREFIX.length), clock: 0, view: view.name };
}

/** The tag of a view's content: known before any work, and the same for the same data on every replica. */
function tagOf(snapshot: Snapshot, view: PollView): string {
  const digest =
    view.kinds.length === 1 && view.kinds[0] !== undefined ? snapshot.digestOf(view.kinds[0]) : snapshot.digest;
  return `${TAG_PREFIX}${digest}`;
}

/** With a time to live, a poll may be reused by whoever sent this credential, until then. */
function ttlHeaders(environment: Environment): Headers {
  const { ttlMs } = environment.info;
  if (ttlMs <= 0) return {};
  return { vary: 'Authorization', expires: new Date(Date.now() + ttlMs).toUTCString() };
}

/** `max-age` outranks `Expires` (RFC 9111, section 5.3): it must say the same. */
function cacheControlOf({ info: { ttlMs } }: Environment): string {
  return `max-age=${Math.floor(ttlMs / 1000)}, ${POLL_CACHE_CONTROL}`;
}

function varyOf(headers: Headers): string {
  return headers['vary'] === undefined ? 'Accept-Encoding' : `${headers['vary']}, Accept-Encoding`;
}

/** One item, as PHP asks for it at each evaluation. */
export function answerItem(exchange: Exchange, environment: Environment, kind: string, key: string): void {
  if (!environment.data.ready) {
    replyText(exchange, 503, TEXT.notInitialized);
    return;
  }
  const item = environment.data.snapshot().get(kind, key);
  if (item === undefined) {
    replyEmpty(exchange, 404);
    return;
  }
  const etag = `relay-${item.version}-${crc32(item.text).toString(36)}`;
  if (exchange.header('if-none-match') === etag) exchange.reply(304, { etag, ...ttlHeaders(environment) });
  else replyJson(exchange, { etag, ...ttlHeaders(environment) }, item.text);
}
