import { randomUUID } from 'node:crypto';
import { Slices, type Timer } from '../kernel/index.ts';
import { urlUnder } from '../outbound/index.ts';
import { type ArrayElements, elementsOf } from './array-scan.ts';
import type { EventsFact } from './facts.ts';
import { KnownFlags } from './known-flags.ts';
import { type Batch, EventQueue, Lane, OVERHEAD_BYTES, Room } from './lane.ts';
import { Ledger } from './ledger.ts';
import { readOldEvent } from './old-events.ts';
import { Poster } from './poster.ts';
import { CONTEXTS_MS_MAX, type Outlet, Summarizer } from './summarizer.ts';
import type { DropCause, EventForwarderOptions, EventStats, InboundEvents } from './types.ts';

/** From this schema on SDKs summarize for themselves. */
const SCHEMA_SUMMARIZED = 3;
/** What summaries are written in. */
const SCHEMA_OURS = 4;

/** Requests of one lane at once, those that wait to be tried again included. */
const POSTS_MAX = 4;
const DIAGNOSTICS_MAX = 16;

/** An old event is made into values in one call, which holds the event loop: for 10 ms when it is made to be slow. */
const OLD_EVENT_BYTES_MAX = 128 * 1024;
/** Events of one post that are looked at one by one. */
const OLD_EVENTS_MAX = 50_000;

const HEADER = {
  schema: 'x-launchdarkly-event-schema',
  tags: 'x-launchdarkly-tags',
  payloadId: 'x-launchdarkly-payload-id',
  unsummarized: 'x-launchdarkly-unsummarized',
} as const;

interface Post {
  readonly lane: Lane;
  readonly inbound: InboundEvents;
  readonly heldBytes: number;
}

/**
 * Takes events from callers at once, and sends them on in batches: the events service sees a request every few seconds, not
 * one from each process of the fleet.
 *
 * ```
 *  accept ─► inbox ─► one lane for each environment and audience ─► queues by schema and tags ─► flush ─► batches ─► upstream
 *              │                                                        ▲
 *              └─ schema below 3, or unsummarized: ── summarizer ───────┘
 * ```
 *
 * Newer SDKs' events go on as they are; the oldest ones' are summarized. Everything that is held is bounded, in bytes for all
 * together and in events for each lane; what has no room is dropped and counted, so that an events service that is slow or
 * gone costs events and nothing else. What it may take the next time is tried again: after 1 s, then with a growing wait,
 * five times at most. A key that it refuses (401, 403, 404) is not used any more.
 *
 * What the vendor's relay sends about itself, events of the kind `relayMetrics`, is not sent.
 *
 * @example
 * const posts: string[] = [];
 * const outbound = {
 *   async send({ url }: { url: URL }) {
 *     posts.push(url.href);
 *     return { status: 202, header: () => undefined, body: (async function* () {})(), text: async () => '', discard: () => {} };
 *   },
 * };
 * const forwarder = new EventForwarder({
 *   outbound, uri: 'https://events.example', flushIntervalMs: 5000, capacity: 1000, inlineUsers: false, bytesMax: 64e6,
 *   clock: new FakeClock(),
 * });
 * const headers = { 'x-launchdarkly-event-schema': '4' };
 * const from = { environmentId: 'production', sdkKey: 'sdk-1', audience: 'server', what: 'bulk', path: '/bulk', headers } as const;
 * console.log(forwarder.accept({ ...from, body: Buffer.from('[{"kind":"custom"}]') })); // accepted
 * await forwarder.flush();
 * console.log(posts[0]); // https://events.example/bulk
 * await forwarder.close(1000);
 */
export class EventForwarder {
  readonly #options: EventForwarderOptions;
  readonly #room: Room;
  readonly #ledger = new Ledger();
  readonly #poster: Poster;
  readonly #flags: KnownFlags;
  readonly #lanes = new Map<string, Lane>();
  readonly #inbox: Post[] = [];
  readonly #posts = new Set<Promise<void>>();
  #reading: Promise<void> | undefined;
  #timer: Timer | undefined;
  #closed = false;
  /** There is no time left to send anything. */
  #over = false;

  /** @throws HeadgateError HG_OPTION when `uri` is not an absolute http or https URL. */
  constructor(options: EventForwarderOptions) {
    urlUnder(options.uri, '/');
    this.#options = options;
    this.#room = new Room(options.bytesMax);
    const { outbound, uri, clock, random = Math.random } = options;
    this.#poster = new Poster({ outbound, uri, clock, random, ledger: this.#ledger });
    this.#flags = new KnownFlags(options.flagText ?? (() => undefined));
  }

  /** Takes what a caller posted, if there is room. Returns at once: the caller is not to wait for upstream. */
  accept(inbound: InboundEvents): 'accepted' | 'dropped' {
    const lane = this.#lane(inbound);
    const { what, body } = inbound;
    this.#ledger.received(factOf(inbound), { payloads: 1, events: 0, bytes: body.length });
    const heldBytes = body.length + OVERHEAD_BYTES;
    const cause = this.#refusal(lane, inbound) ?? (this.#room.take(lane, heldBytes) ? undefined : 'full');
    if (cause !== undefined) {
      this.#ledger.dropped(factOf(inbound), { payloads: 1, events: 0, bytes: body.length }, cause);
      this.#forgetIdle(lane);
      return 'dropped';
    }
    const post = { lane, inbound: { ...inbound, body: compact(body) }, heldBytes };
    if (what === 'diagnostic') {
      this.#postDiagnostic(post);
      return 'accepted';
    }
    this.#inbox.push(post);
    this.#reading ??= this.#read();
    return 'accepted';
  }

  /** Sends what is held now. Resolves when all of it has arrived or was given up. */
  async flush(): Promise<void> {
    await this.#reading;
    this.#flushAll();
    while (this.#posts.size > 0) await Promise.all(this.#posts);
  }

  /** Takes no more, and sends what is held, within `msMax` milliseconds; what is left then is dropped. */
  async close(msMax: number): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#timer?.cancel();
    let limit: Timer | undefined;
    const over = new Promise<void>((resolve) => (limit = this.#options.clock.after(msMax, resolve)));
    await Promise.race([this.#drain(), over]);
    limit?.cancel();
    this.#over = true;
    this.#poster.close();
    await this.#reading;
    await Promise.all(this.#posts);
    for (const lane of this.#lanes.values()) this.#dropAll(lane, 'closed');
  }

  /** Forgets an environment that is no more, and what is held of it. */
  forget(environmentId: string): void {
    for (const lane of this.#lanes.values()) {
      if (lane.environment !== environmentId) continue;
      lane.isForgotten = true;
      this.#dropAll(lane, 'closed');
      this.#lanes.delete(laneName(lane.environment, lane.audience));
    }
    this.#ledger.forget(environmentId);
  }

  stats(): EventStats {
    let [heldEvents, posting] = [0, 0];
    for (const lane of this.#lanes.values()) {
      heldEvents += lane.events;
      posting += lane.posting + lane.postingDiagnostics;
    }
    return { heldBytes: this.#room.bytes, heldEvents, posting, environments: this.#ledger.stats() };
  }

  #lane(inbound: InboundEvents): Lane {
    const name = laneName(inbound.environmentId, inbound.audience);
    let lane = this.#lanes.get(name);
    if (lane === undefined) this.#lanes.set(name, (lane = new Lane(inbound)));
    lane.sdkKey = inbound.sdkKey;
    if (inbound.what === 'bulk') lane.path = inbound.path;
    return lane;
  }

  #refusal(lane: Lane, { what }: InboundEvents): DropCause | undefined {
    if (this.#closed) return 'closed';
    if (lane.isRefused) return 'refused';
    return what === 'diagnostic' && lane.postingDiagnostics >= DIAGNOSTICS_MAX ? 'full' : undefined;
  }

  /** Reads what came in, one post after the other. */
  async #read(): Promise<void> {
    for (let post = this.#inbox.shift(); post !== undefined; post = this.#inbox.shift()) {
      const { lane, inbound } = post;
      try {
        await this.#readOne(post);
      } catch {
        // such as a flag that is no JSON: one post must not hold up all that come after it
        this.#ledger.dropped(factOf(inbound), { payloads: 1, events: 0, bytes: inbound.body.length }, 'invalid');
      }
      if (lane.isForgotten) this.#dropAll(lane, 'closed');
      else if (lane.events >= this.#options.capacity) this.#flush(lane);
    }
    this.#reading = undefined;
  }

  async #readOne(post: Post): Promise<void> {
    const { lane, inbound, heldBytes } = post;
    const schema = schemaOf(inbound.headers);
    const isOld = schema < SCHEMA_SUMMARIZED || inbound.headers[HEADER.unsummarized] !== undefined;
    const elements = await elementsOf(inbound.body, isOld ? OLD_EVENTS_MAX : this.#options.capacity);
    // what is kept of it takes its own room
    this.#room.give(lane, heldBytes);
    if (elements === undefined) {
      this.#ledger.dropped(factOf(inbound), { payloads: 1, events: 0, bytes: inbound.body.length }, 'invalid');
      return;
    }
    this.#ledger.received(factOf(inbound), { payloads: 0, events: elements.count, bytes: 0 });
    if (isOld) await this.#summarize(post, elements, schema);
    else this.#keep(post, elements, schema);
  }

  /** Keeps events as they are, as many as there is room for. */
  #keep({ lane, inbound }: Post, { count, ends }: ArrayElements, schema: number): void {
    if (count === 0) return;
    const queue = this.#queue(lane, inbound, { schema, isOld: false });
    const kept = queue === undefined ? 0 : Math.min(count, this.#options.capacity - lane.events);
    const { body } = inbound;
    const part = kept === 0 ? body.subarray(0, 0) : body.subarray(ends[0], ends[2 * kept - 1]);
    const isKept = kept > 0 && this.#room.take(lane, part.length + OVERHEAD_BYTES);
    if (queue !== undefined && isKept) {
      queue.push({ bytes: compact(part), events: kept });
      lane.events += kept;
      this.#arm();
    }
    const events = isKept ? count - kept : count;
    const bytes = isKept ? body.length - part.length : body.length;
    if (events > 0) this.#ledger.dropped(factOf(inbound), { payloads: 0, events, bytes }, 'full');
  }

  async #summarize({ lane, inbound }: Post, { count, ends }: ArrayElements, schema: number): Promise<void> {
    const drop = (events: number, bytes: number, cause: DropCause): void =>
      this.#ledger.dropped(factOf(inbound), { payloads: 0, events, bytes }, cause);
    const queue = this.#queue(lane, inbound, { schema, isOld: true });
    if (queue?.summarizer === undefined) return drop(count, inbound.body.length, 'full');
    const outlet = this.#outlet(lane, queue);
    const slices = new Slices();
    for (let at = 0; at < ends.length; at += 2) {
      const bytes = inbound.body.subarray(ends[at], ends[at + 1]);
      const cause = summarizeOne(queue.summarizer, { bytes, schema }, outlet);
      if (cause !== undefined) drop(1, bytes.length, cause);
      if (slices.due()) await slices.pause();
    }
    if (count > ends.length / 2) drop(count - ends.length / 2, 0, 'full');
    this.#arm();
  }

  #outlet(lane: Lane, queue: EventQueue): Outlet {
    return {
      put: (text) => {
        const bytes = Buffer.from(text);
        if (lane.events >= this.#options.capacity || !this.#room.take(lane, bytes.length + OVERHEAD_BYTES))
          return false;
        queue.push({ bytes, events: 1 });
        lane.events++;
        return true;
      },
      grow: (bytes) => {
        if (!this.#room.take(lane, bytes)) return false;
        queue.grown(bytes);
        return true;
      },
    };
  }

  #queue(
    lane: Lane,
    { headers }: InboundEvents,
    { schema, isOld }: { schema: number; isOld: boolean },
  ): EventQueue | undefined {
    const tags = headers[HEADER.tags] ?? '';
    const { clock, inlineUsers, unixMs = Date.now } = this.#options;
    const nowMs = clock.now();
    const queue = lane.queue(`${isOld ? 'old' : 'new'} ${schema} ${tags}`, () => {
      const summarizer = new Summarizer({
        inlineUsers,
        flagOf: (key) => this.#flags.get(lane.environment, key),
        unixMs: () => Math.max(lane.upstreamMs, unixMs()),
      });
      return isOld
        ? new EventQueue({ schema: SCHEMA_OURS, tags, summarizer, nowMs })
        : new EventQueue({ schema, tags, summarizer: undefined, nowMs });
    });
    if (queue === undefined) return undefined;
    queue.usedMs = nowMs;
    if (nowMs - queue.forgotMs >= CONTEXTS_MS_MAX) {
      queue.summarizer?.forgetContexts();
      queue.forgotMs = nowMs;
    }
    return queue;
  }

  #arm(): void {
    if (this.#closed) return;
    this.#timer ??= this.#options.clock.after(this.#options.flushIntervalMs, () => {
      this.#timer = undefined;
      this.#flushAll();
      if ([...this.#lanes.values()].some(({ queues }) => queues.size > 0)) this.#arm();
    });
  }

  #flushAll(): void {
    for (const lane of this.#lanes.values()) this.#flush(lane);
  }

  #flush(lane: Lane): void {
    if (this.#over) return;
    if (lane.isRefused) this.#dropAll(lane, 'refused');
    lane.isBehind = false;
    const nowMs = this.#options.clock.now();
    for (const [name, queue] of lane.queues) {
      while (!queue.isEmpty && lane.posting < POSTS_MAX) this.#postBatch(lane, queue);
      if (!queue.isEmpty) lane.isBehind = true;
      // a summarizer is kept for what it remembers
      else if (queue.summarizer === undefined || nowMs - queue.usedMs >= CONTEXTS_MS_MAX) lane.queues.delete(name);
    }
    this.#forgetIdle(lane);
  }

  #postBatch(lane: Lane, queue: EventQueue): void {
    const batch = queue.take();
    let { heldBytes } = batch;
    lane.events -= batch.events;
    lane.posting++;
    const { environment, audience, path } = lane;
    const posted = this.#poster.post({
      lane,
      fact: { environment, audience, what: 'bulk' },
      path,
      headers: {
        [HEADER.schema]: String(queue.schema),
        [HEADER.payloadId]: randomUUID(),
        ...(queue.tags === '' ? {} : { [HEADER.tags]: queue.tags }),
      },
      events: batch.events + (batch.summary === undefined ? 0 : 1),
      bytes: batch.heldBytes,
      body: () => joined(batch),
      onCompressed: (bytes) => (heldBytes = this.#shrink(lane, heldBytes, bytes)),
    });
    this.#follow(
      posted.then(() => {
        lane.posting--;
        this.#room.give(lane, heldBytes);
        if (lane.isBehind) this.#flush(lane);
        else this.#forgetIdle(lane);
      }),
    );
  }

  #postDiagnostic({ lane, inbound, heldBytes }: Post): void {
    let held = heldBytes;
    lane.postingDiagnostics++;
    const posted = this.#poster.post({
      lane,
      fact: factOf(inbound),
      path: inbound.path,
      headers: inbound.headers,
      events: 1,
      bytes: inbound.body.length,
      body: () => Promise.resolve(inbound.body),
      onCompressed: (bytes) => (held = this.#shrink(lane, held, bytes)),
    });
    this.#follow(
      posted.then(() => {
        lane.postingDiagnostics--;
        this.#room.give(lane, held);
        this.#forgetIdle(lane);
      }),
    );
  }

  /** What is held once only `bytes` of it are. */
  #shrink(lane: Lane, heldBytes: number, bytes: number): number {
    const lessBytes = Math.max(0, heldBytes - bytes);
    this.#room.give(lane, lessBytes);
    return heldBytes - lessBytes;
  }

  #follow(posted: Promise<void>): void {
    this.#posts.add(posted);
    void posted.finally(() => this.#posts.delete(posted));
  }

  async #drain(): Promise<void> {
    await this.#reading;
    for (;;) {
      this.#flushAll();
      if (this.#posts.size === 0) return;
      await Promise.race(this.#posts);
    }
  }

  #dropAll(lane: Lane, cause: DropCause): void {
    const { environment, audience } = lane;
    for (const queue of lane.queues.values()) {
      while (!queue.isEmpty) {
        const { events, heldBytes } = queue.take();
        lane.events -= events;
        this.#room.give(lane, heldBytes);
        this.#ledger.dropped({ environment, audience, what: 'bulk' }, { payloads: 0, events, bytes: heldBytes }, cause);
      }
    }
    lane.queues.clear();
  }

  #forgetIdle(lane: Lane): void {
    if (lane.isIdle && lane.refusedKey === undefined) this.#lanes.delete(laneName(lane.environment, lane.audience));
  }
}

function factOf({ environmentId, audience, what }: InboundEvents): EventsFact {
  return { environment: environmentId, audience, what };
}

function laneName(environmentId: string, audience: string): string {
  return `${audience} ${environmentId}`;
}

/** SDKs older than the header have the first. */
function schemaOf(headers: InboundEvents['headers']): number {
  const schema = Number.parseInt(headers[HEADER.schema] ?? '', 10);
  return schema > 0 ? schema : 1;
}

/** Why the event was dropped, if it was. */
function summarizeOne(
  summarizer: Summarizer,
  { bytes, schema }: { bytes: Uint8Array; schema: number },
  outlet: Outlet,
): DropCause | undefined {
  if (bytes.length > OLD_EVENT_BYTES_MAX) return 'too-large';
  const event = readOldEvent(Buffer.from(bytes).toString());
  if (event === undefined) return 'invalid';
  return summarizer.add(event, schema, outlet) ? undefined : 'full';
}

/** Bytes that keep nothing else alive: a part of a large buffer, or of a pool, would keep all of it. */
function compact(bytes: Uint8Array): Uint8Array {
  return bytes.buffer.byteLength > 2 * bytes.length + OVERHEAD_BYTES ? new Uint8Array(bytes) : bytes;
}

/** The events of a batch as one array. */
async function joined({ pieces, summary }: Batch): Promise<Uint8Array> {
  const all = summary === undefined ? pieces : [...pieces, await summary.encode()];
  return Buffer.concat([OPEN, ...all.flatMap((piece, at) => (at === 0 ? [piece] : [COMMA, piece])), CLOSE]);
}

const OPEN = Buffer.from('[');
const COMMA = Buffer.from(',');
const CLOSE = Buffer.from(']');
