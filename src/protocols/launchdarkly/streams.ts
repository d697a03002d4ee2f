import type { Slot } from '../../admission/index.ts';
import { payloadOf, type Pin, type Plan, type Snapshot } from '../../dataset/index.ts';
import { acceptsGzip, blockOf, type Exchange, Stages } from '../../delivery/index.ts';
import { admit } from './admit.ts';
import { bytesSource, CATCH_UP_BYTES_FREE, catchUpSource } from './catch-up.ts';
import { clientOf } from './client.ts';
import { CompressedStream } from './compressed.ts';
import { credentialOf } from './credentials.ts';
import type { FrontOptions } from './deps.ts';
import { type Environment, type Feed, groupOf, type StreamClient } from './environment.ts';
import { aboutOf, type ClientFact, caughtUp, factOf, failed, steppedBack } from './facts.ts';
import { untilData } from './first-data.ts';
import { type Claim, claimOf, positionOf, type Start, startOf, unchanged, whileAhead } from './positions.ts';
import { takesCatchUp } from './quirks.ts';
import { replyBehind } from './replies.ts';
import { type Charged, sendCharged } from './send.ts';
import type { StreamView } from './views.ts';
import { STREAM_HEADERS } from './words.ts';

/** Up to date, or changes away from it. */
type Nearly = Exclude<Start, { kind: 'full' | 'behind' }>;

type Opening = Pick<StreamClient, 'environment' | 'feed' | 'route' | 'info'> & { readonly exchange: Exchange };

/**
 * Streams, from the request to the last change.
 *
 * ```
 *  request ─► no data yet ──────────────────► wait ───────────────┐ first data
 *     │        (whoever names a position waits before the head)   ▼
 *     ├─► up to date, small catch-up ──► write ──► follow ◄── full copy ◄───┐
 *     └─► full copy, large catch-up ──► slot ──► deliver ──┘   (slot)       │
 *                                                  │  ▲                     │
 *                            a change as large as  │  │ slot, deliver      │ log broken
 *                            a catch-up            └──┘                    │
 *                                                  └────────────────────────┘
 * ```
 */
export class Streams {
  readonly #front: FrontOptions;
  /** Put before the first event of a copy, and part of it: on a line of its own Go takes it for an event without a name. */
  readonly #retry: readonly string[];

  constructor(front: FrontOptions) {
    this.#front = front;
    this.#retry = front.retryMs === undefined ? [] : [`retry: ${front.retryMs}\n`];
  }

  /** Answers a request for a stream. */
  async open(exchange: Exchange, environment: Environment, feed: Feed, route: string): Promise<void> {
    const opening: Opening = { environment, feed, route, info: clientOf(exchange), exchange };
    const claim = claimOf(exchange, feed.view, opening.info.quirks.frozenBasis);
    if (this.#takesChanges(opening)) {
      await untilData(environment.data, claim, this.#front.clock, this.#front.aheadWaitMsMax);
      if (exchange.closed) return;
    }
    if (!environment.data.ready) {
      environment.wait(this.#openStream(opening), true);
      return;
    }
    await this.#whileAhead(opening, claim);
    if (exchange.closed) return;
    const start = this.#startOf(opening, claim);
    if (start.kind === 'behind') replyBehind(exchange, () => factOf(environment, route, opening.info));
    else if (start.kind === 'full' || (start.kind === 'changes' && start.bytes >= CATCH_UP_BYTES_FREE)) {
      await this.#openWithSlot(opening, claim);
    } else {
      await this.#openFree(opening, start);
    }
  }

  /** Gives an open stream a full copy: its first data, or all of it again after a break in the log. */
  refresh(client: StreamClient): Promise<void> {
    return orKill(client, async () => {
      const slot = await this.#slotForOpen(client);
      if (slot !== undefined) await this.#deliverFull(client, slot);
    });
  }

  /** Goes on with a stream that has everything before `offset`. */
  follow(client: StreamClient, offset: number): Promise<void> {
    return orKill(client, () => this.#follow(client, offset));
  }

  /**
   * Lets a stream that has everything before `offset` follow the log. Where it misses as much as a large catch-up, it
   * gets that first, with a slot; where the log does not reach back so far, a full copy.
   *
   * @param held - what it was sent last: of use when the log no longer reaches back to it
   */
  async #follow(client: StreamClient, offset: number, held?: Snapshot): Promise<void> {
    const { environment, feed, channel } = client;
    const { data } = environment;
    if (channel.dead) return;
    const missed = environment.unbrokenSince(offset) ? data.sinceOffset(offset) : undefined;
    if (missed !== undefined && missed.bytes < CATCH_UP_BYTES_FREE) {
      client.live = groupOf(client).add(channel, offset, client, client.openedMs);
      return;
    }
    const slot = await this.#slotForOpen(client);
    if (slot === undefined) return;
    using _slot = slot;
    const stages = new Stages(this.#front.clock);
    using pin = data.pin();
    const unbroken = environment.unbrokenSince(offset);
    const difference = unbroken && held !== undefined ? await data.difference(held) : undefined;
    // the log as of now, unless it no longer reaches back: then the difference, which was made from a pinned copy
    const changes = unbroken ? (data.sinceOffset(offset) ?? difference) : undefined;
    if (changes === undefined) {
      await this.#deliverFull(client, slot);
      return;
    }
    stages.pinned();
    const text = catchUpSource(feed.view.changes(changes.keys, positionOf(changes, feed.view.name)));
    const source = client.compressed?.compress(text) ?? text;
    if (!(await this.#send(client, { slot, source, what: 'catch-up', stages }))) return;
    await this.#follow(client, changes.to, changes.to === pin.snapshot.offset ? pin.snapshot : undefined);
  }

  async #whileAhead({ environment }: Opening, claim: Claim): Promise<void> {
    const { clock, aheadWaitMsMax } = this.#front;
    await whileAhead(environment, claim, clock, aheadWaitMsMax);
  }

  #startOf(opening: Opening, claim: Claim): Start {
    const { environment, route, info } = opening;
    const start = startOf(environment, claim, () => steppedBack.publish(() => factOf(environment, route, info)));
    return start.kind === 'behind' || this.#takesChanges(opening) ? start : { kind: 'full' };
  }

  /** Whether a client that comes back may be given changes in place of everything. */
  #takesChanges({ environment, feed, info }: Opening): boolean {
    return feed === environment.objects || takesCatchUp(info.quirks, this.#front.catchUp);
  }

  /** Up to date, or nearly: no slot, never refused. */
  async #openFree(opening: Opening, start: Nearly): Promise<void> {
    const { environment, feed, route } = opening;
    using pin = environment.data.pin();
    const encode = (): Buffer =>
      Buffer.from([...this.#retry, ...reconnectText(feed.view, start, pin.snapshot)].join(''));
    const bytes = start.kind === 'changes' ? start.memo(`stream${route}`, encode) : encode();
    const changes = start.kind === 'changes' ? start.keys.length : 0;
    caughtUp.publish(() => Object.assign(factOf(environment, route, opening.info), { changes, bytes: bytes.length }));
    const client = this.#openStream(opening);
    await orKill(client, async () => {
      const { outcome } = await this.#front.deliveries.deliver({
        channel: client.channel,
        source: client.compressed?.compress(bytesSource(bytes)) ?? bytesSource(bytes),
        guarded: this.#front.guarded,
        about: () => aboutOf(factOf(environment, route, opening.info)),
      });
      if (outcome === 'completed') await this.#follow(client, pin.snapshot.offset, pin.snapshot);
    });
  }

  async #openWithSlot(opening: Opening, claim: Claim): Promise<void> {
    const { environment, route, info, exchange } = opening;
    const slot = await admit(this.#front, exchange, () => factOf(environment, route, info), {
      tenant: environment.info.id,
      returning: claim.returning,
      waitMsMax: this.#front.streamWaitMsMax,
    });
    if (slot === undefined) return;
    using held = slot;
    if (exchange.closed) return;
    const start = this.#startOf(opening, claim);
    if (start.kind === 'behind') {
      replyBehind(exchange, () => factOf(environment, route, info));
      return;
    }
    const client = this.#openStream(opening);
    await orKill(client, () =>
      start.kind === 'full' ? this.#deliverFull(client, held) : this.#deliverCatchUp(client, held, start),
    );
  }

  async #deliverFull(client: StreamClient, slot: Slot): Promise<void> {
    using _slot = slot;
    const stages = new Stages(this.#front.clock);
    const { environment, feed, compressed } = client;
    using pin = environment.data.pin();
    stages.pinned();
    const { pieces } = feed.view.full(positionOf(pin.snapshot, feed.view.name));
    const plan: Plan = { pieces: [...this.#retry, ...pieces] };
    const source =
      compressed === undefined
        ? payloadOf(pin.snapshot, plan, 'identity')
        : compressed.pages(payloadOf(pin.snapshot, plan, 'gzip', { framed: false }));
    await this.#sendThenFollow(client, pin, { slot, source, what: 'full', stages });
  }

  async #deliverCatchUp(client: StreamClient, slot: Slot, start: Nearly): Promise<void> {
    using _slot = slot;
    const stages = new Stages(this.#front.clock);
    using pin = client.environment.data.pin();
    stages.pinned();
    const text = catchUpSource(reconnectText(client.feed.view, start, pin.snapshot));
    const source = client.compressed?.compress(text) ?? text;
    await this.#sendThenFollow(client, pin, { slot, source, what: 'catch-up', stages });
  }

  /**
   * From a copy to live changes, without a gap and without a repeat: the cursor is the offset of the pinned snapshot, and
   * the pin is held until the stream has its place in the log.
   */
  async #sendThenFollow(client: StreamClient, pin: Pin, charged: Sending): Promise<void> {
    if (await this.#send(client, charged)) await this.#follow(client, pin.snapshot.offset, pin.snapshot);
  }

  async #send(client: StreamClient, sending: Sending): Promise<boolean> {
    const { channel, environment, route, info, compressed } = client;
    const encoding = compressed === undefined ? 'identity' : 'gzip';
    const fact = (): ClientFact => factOf(environment, route, info);
    const before = compressed?.plainBytes ?? 0;
    const plainBytes = (): number => (compressed?.plainBytes ?? 0) - before;
    const { outcome } = await sendCharged(this.#front, { ...sending, channel, encoding, fact, plainBytes });
    return outcome === 'completed' && !channel.dead;
  }

  /** A slot for a stream that is open already: it waits with heartbeats, outside the bounds, and is never shed. */
  async #slotForOpen(client: StreamClient): Promise<Slot | undefined> {
    const { environment, channel } = client;
    if (channel.dead) return undefined;
    environment.wait(client);
    const controller = new AbortController();
    const abort = (): void => controller.abort();
    channel.onClose(abort);
    const answer = await this.#front.limiter.acquire({
      tenant: environment.info.id,
      outsideQueueBound: true,
      signal: controller.signal,
    });
    channel.offClose?.(abort);
    environment.stopWaiting(client);
    if (answer.admitted) return answer.slot;
    if (!channel.dead) {
      if (client.compressed !== undefined) channel.send(blockOf(client.compressed.trailer()));
      channel.end();
    }
    return undefined;
  }

  /** Sends the head of a stream: from here on it is open. */
  #openStream({ environment, feed, route, info, exchange }: Opening): StreamClient {
    const gzip = this.#front.compression && info.quirks.gzipStreams && acceptsGzip(exchange.header('accept-encoding'));
    const headers = gzip ? { ...STREAM_HEADERS, 'content-encoding': 'gzip', vary: 'Accept-Encoding' } : STREAM_HEADERS;
    const channel = exchange.open(200, headers);
    const compressed = gzip ? new CompressedStream() : undefined;
    const openedMs = this.#front.clock.now();
    const credential = credentialOf(exchange.header('authorization'));
    return { environment, feed, route, info, channel, credential, compressed, openedMs, live: undefined };
  }
}

type Sending = Pick<Charged, 'slot' | 'source' | 'what' | 'stages'>;

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

/** A stream that we cannot go on with, whatever the reason, is reset: its client must not take silence for "no change". */
async function orKill(client: StreamClient, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    failed.publish(() => ({ ...factOf(client.environment, client.route, client.info), error }));
    client.channel.kill();
  }
}
