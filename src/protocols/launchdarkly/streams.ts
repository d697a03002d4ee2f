import type { Slot } from '../../admission/index.ts';
import { payloadOf, type Pin, type Snapshot } from '../../dataset/index.ts';
import type { Channel, Exchange, Report } from '../../delivery/index.ts';
import { admit, factOf } from './admit.ts';
import { bytesSource, CATCH_UP_BYTES_FREE, catchUpSource } from './catch-up.ts';
import { type ClientInfo, clientOf } from './client.ts';
import type { FrontOptions } from './deps.ts';
import type { Environment, Feed } from './environment.ts';
import { type ClientFact, caughtUp, lost } from './facts.ts';
import { type Claim, claimOf, positionOf, type Start, startOf, unchanged, whileAhead } from './positions.ts';
import { takesCatchUp } from './quirks.ts';
import { type Charged, sendCharged } from './send.ts';
import type { StreamView } from './views.ts';
import { STREAM_HEADERS } from './words.ts';

/** A stream that is open. */
export interface StreamClient {
  readonly environment: Environment;
  readonly feed: Feed;
  readonly route: string;
  readonly info: ClientInfo;
  readonly channel: Channel;
}

/** Up to date, or changes away from it. */
type Nearly = Exclude<Start, { kind: 'full' }>;

type Opening = Omit<StreamClient, 'channel'> & { readonly exchange: Exchange };

/**
 * Streams, from the request to the last change.
 *
 * ```
 *  request ─► no data yet ──────────────────► wait ──────────────┐ first data
 *     │                                                          ▼
 *     ├─► up to date, small catch-up ──► write ──► follow ◄── full copy ◄─┐
 *     └─► full copy, large catch-up ──► slot ──► deliver ──┘   (slot)     │
 *                                                  follow ── log broken ──┘
 * ```
 */
export class Streams {
  readonly #front: FrontOptions;

  constructor(front: FrontOptions) {
    this.#front = front;
  }

  /** Answers a request for a stream. */
  async open(exchange: Exchange, environment: Environment, feed: Feed, route: string): Promise<void> {
    const opening: Opening = { environment, feed, route, info: clientOf(exchange), exchange };
    if (!environment.data.ready) {
      const client = openStream(opening);
      environment.waiting.add(client.channel, 0, client);
      return;
    }
    const claim = claimOf(exchange, feed.view, opening.info.quirks.frozenBasis);
    await this.#whileAhead(opening, claim);
    if (exchange.closed) return;
    const start = this.#startOf(opening, claim);
    if (start.kind === 'full' || (start.kind === 'changes' && start.bytes >= CATCH_UP_BYTES_FREE)) {
      await this.#openWithSlot(opening, claim);
    } else {
      await this.#openFree(opening, start);
    }
  }

  /** Gives an open stream a full copy: its first data, or all of it again after a break in the log. */
  async refresh(client: StreamClient): Promise<void> {
    const { environment, channel } = client;
    environment.waiting.add(channel, 0, client);
    const controller = new AbortController();
    channel.onClose(() => controller.abort());
    const answer = await this.#front.limiter.acquire({
      tenant: environment.info.id,
      outsideQueueBound: true,
      signal: controller.signal,
    });
    environment.waiting.remove(channel);
    if (answer.admitted) await this.#deliverFull(client, answer.slot);
    else if (!channel.dead) channel.end();
  }

  async #whileAhead({ environment }: Opening, claim: Claim): Promise<void> {
    const { clock, aheadWaitMsMax } = this.#front;
    await whileAhead(environment.data, claim, clock, aheadWaitMsMax);
  }

  #startOf({ environment, feed, info }: Opening, claim: Claim): Start {
    const isFdv1 = feed !== environment.objects;
    if (isFdv1 && !takesCatchUp(info.quirks, this.#front.catchUp)) return { kind: 'full' };
    return startOf(environment.data, claim);
  }

  /** Up to date, or nearly: no slot, never refused. */
  async #openFree(opening: Opening, start: Nearly): Promise<void> {
    const { environment, feed, route } = opening;
    const { view } = feed;
    const pin = environment.data.pin();
    const encode = (): Buffer => Buffer.from([...reconnectText(view, start, pin.snapshot)].join(''));
    const bytes = start.kind === 'changes' ? start.memo(`stream${route}`, encode) : encode();
    caughtUp.publish(() => ({
      ...factOf(environment, route, opening.info),
      changes: start.kind === 'changes' ? start.keys.length : 0,
      bytes: bytes.length,
    }));
    const client = openStream(opening);
    const report = await this.#front.deliveries.deliver({
      channel: client.channel,
      source: bytesSource(bytes),
      guarded: this.#front.guarded,
    });
    await this.#followAfter(client, pin, report);
  }

  async #openWithSlot(opening: Opening, claim: Claim): Promise<void> {
    const { environment, route, info, exchange } = opening;
    const fact = (): ClientFact => factOf(environment, route, info);
    const slot = await admit(this.#front, exchange, fact, {
      tenant: environment.info.id,
      returning: claim.returning,
      waitMsMax: this.#front.streamWaitMsMax,
    });
    if (slot === undefined) return;
    using held = slot;
    if (exchange.closed) return;
    const start = this.#startOf(opening, claim);
    const client = openStream(opening);
    if (start.kind === 'full') await this.#deliverFull(client, held);
    else await this.#deliverCatchUp(client, held, start);
  }

  async #deliverFull(client: StreamClient, slot: Slot): Promise<void> {
    const { environment, feed } = client;
    const pin = environment.data.pin();
    const position = positionOf(pin.snapshot, feed.view.name);
    const source = payloadOf(pin.snapshot, feed.view.full(position), 'identity');
    await this.#deliver(client, pin, { slot, source, what: 'full' });
  }

  async #deliverCatchUp(client: StreamClient, slot: Slot, start: Nearly): Promise<void> {
    const { environment, feed } = client;
    const { view } = feed;
    const pin = environment.data.pin();
    const source = catchUpSource(reconnectText(view, start, pin.snapshot));
    await this.#deliver(client, pin, { slot, source, what: 'catch-up' });
  }

  async #deliver(client: StreamClient, pin: Pin, charged: Pick<Charged, 'slot' | 'source' | 'what'>): Promise<void> {
    const { channel, environment, route, info } = client;
    const fact = (): ClientFact => factOf(environment, route, info);
    const report = await sendCharged(this.#front, { ...charged, channel, encoding: 'identity', fact });
    await this.#followAfter(client, pin, report);
  }

  /**
   * From what was just sent to live changes, without a gap and without a repeat: the cursor is the offset of the
   * pinned snapshot. Where the log no longer reaches back that far, the difference between that snapshot and now
   * takes its place, and then the next difference, until the log reaches.
   */
  async #followAfter(client: StreamClient, pin: Pin, report: Report): Promise<void> {
    using _held = pin;
    const { environment, feed, channel } = client;
    if (report.outcome !== 'completed' || channel.dead) return;
    const { data } = environment;
    let { offset } = pin.snapshot;
    let from: Snapshot = pin.snapshot;
    while (offset < data.log.first && environment.unbrokenSince(offset)) {
      const to = data.snapshot();
      const difference = await data.difference(from);
      if (difference === undefined) break;
      const source = catchUpSource(feed.view.changes(difference.keys, positionOf(difference, feed.view.name)));
      const { outcome } = await this.#front.deliveries.deliver({ channel, source, guarded: this.#front.guarded });
      if (outcome !== 'completed') return;
      offset = difference.to;
      from = to;
    }
    if (offset >= data.log.first && environment.unbrokenSince(offset)) feed.group.add(channel, offset, client);
    else await this.refresh(client);
  }
}

/**
 * What a client that reconnects is told. FDv1 has no word for "up to date", and some of its SDKs take their stream
 * for well only when an event arrives: they get an item that they already have.
 */
function reconnectText(view: StreamView, start: Nearly, snapshot: Snapshot): Iterable<string> {
  const position = positionOf(snapshot, view.name);
  if (start.kind === 'changes' && start.keys.some((change) => view.kinds.includes(change.kind))) {
    return view.catchUp(start.keys, position);
  }
  const word = view.upToDate(position);
  return word === undefined ? view.catchUp(unchanged(snapshot, view.kinds), position) : [word];
}

/** Sends the head of a stream: from here on it is open. */
function openStream(opening: Opening): StreamClient {
  const { environment, feed, route, info, exchange } = opening;
  return { environment, feed, route, info, channel: exchange.open(200, { ...STREAM_HEADERS }) };
}

/** Tells that a stream fell off the log. */
export function tellLost(client: StreamClient): void {
  lost.publish(() => factOf(client.environment, client.route, client.info));
}
