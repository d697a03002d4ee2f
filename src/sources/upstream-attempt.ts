import { HeadgateError, Slices } from '../kernel/index.ts';
import { type OutboundReply, type OutboundRequest, readEvents, type StreamEvent, urlUnder } from '../outbound/index.ts';
import { StatusError } from './upstream-failure.ts';
import { Fdv1Reader } from './upstream-fdv1.ts';
import { Fdv2Reader } from './upstream-fdv2.ts';
import { Gathering } from './upstream-gathering.ts';
import { takeAll, takeEvents } from './upstream-poll.ts';
import type { UpstreamSink } from './upstream-sink.ts';
import type { UpstreamOptions } from './upstream-types.ts';

/** The vendor sends a heartbeat every three minutes. */
const SILENCE_MS_MAX = 5 * 60_000;
/** A poll's answer comes in one go. */
const POLL_SILENCE_MS_MAX = 30_000;

/** What is known of an environment upstream, whichever connection told it. */
export interface UpstreamMemory {
  speaks: 'fdv1' | 'fdv2';
  /** Whether it is FDv1 for good: FDv1 was answered, or upstream said so. */
  settled: boolean;
  /** FDv2's selector of what is held. */
  state: string | undefined;
  lastEventId: string | undefined;
  /** What the last poll of FDv1 was tagged with, while nothing else has told anything since. */
  etag: string | undefined;
  envId: string | undefined;
  /** Whether any connection ever delivered. */
  delivered: boolean;
}

/** What an {@link Attempt} needs. */
export interface AttemptOptions {
  readonly upstream: UpstreamOptions;
  readonly memory: UpstreamMemory;
  readonly sdkKey: string;
  /** Whether everything is asked for, whatever is held. */
  readonly fresh: boolean;
  readonly sink: UpstreamSink;
  readonly signal: AbortSignal;
  /** What is held is now known to be up to date. */
  readonly delivered: () => void;
}

/** Upstream does not speak the protocol that it was asked in, as far as its answer tells. */
export class OtherProtocol extends Error {
  /** Whether upstream said so itself, and did not only fail to know an address. */
  readonly certain: boolean;
  /** What is wrong when the other protocol is not spoken either. */
  readonly failure: HeadgateError;

  constructor(certain: boolean, failure: HeadgateError) {
    super(failure.message);
    this.certain = certain;
    this.failure = failure;
  }
}

/** Statuses of an address that is not known; a server that takes whatever comes answers 202 to it. */
const UNKNOWN_ADDRESS: ReadonlySet<number> = new Set([202, 204, 404, 405, 410, 501]);

/** One connection, or one poll. */
export class Attempt {
  readonly #options: AttemptOptions;
  readonly #speaks: 'fdv1' | 'fdv2';

  constructor(options: AttemptOptions) {
    this.#options = options;
    this.#speaks = options.memory.speaks;
  }

  /** Follows a stream until it ends. Always rejects: with {@link OtherProtocol}, or with what went wrong. */
  async stream(): Promise<never> {
    const { sink, signal } = this.#options;
    const ending = new AbortController();
    const end = (): void => ending.abort();
    const gathering = new Gathering(sink, end);
    if (signal.aborted) end();
    signal.addEventListener('abort', end, { once: true });
    try {
      return await this.#follow(gathering, ending.signal);
    } catch (thrown) {
      // what came before the end counts; when it cannot be told, that is what went wrong first
      await gathering.settled();
      throw thrown;
    } finally {
      signal.removeEventListener('abort', end);
    }
  }

  async #follow(sink: Gathering, signal: AbortSignal): Promise<never> {
    const { upstream, memory, fresh, delivered } = this.#options;
    const basis = fresh ? undefined : this.#basis();
    const lastEventId = fresh ? undefined : memory.lastEventId;
    const address = urlUnder(upstream.streamUri, this.#speaks === 'fdv2' ? '/sdk/stream' : '/all');
    const headers = {
      accept: 'text/event-stream',
      'cache-control': 'no-cache',
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    };
    const reply = await this.#ask(address, basis, { idleTimeoutMs: SILENCE_MS_MAX, headers, signal });
    this.#check(reply, address, 'text/event-stream');
    const hasBasis = basis !== undefined || lastEventId !== undefined;
    const reader = this.#reader(sink, hasBasis);
    const slices = new Slices();
    for await (const event of readEvents(reply.body)) {
      if (await reader.take(event)) {
        const id = await idOf(event);
        sink.mark(() => {
          memory.etag = undefined;
          memory.lastEventId = id;
          delivered();
        });
      }
      if (slices.due()) await slices.pause();
    }
    throw new HeadgateError(
      'HG_UPSTREAM',
      `Cannot follow ${upstream.name} at ${shown(address)}: upstream ended the stream`,
    );
  }

  /** Asks once. Rejects as {@link stream} does. */
  async poll(): Promise<void> {
    const { upstream, memory, fresh, sink, signal, delivered } = this.#options;
    const isFdv2 = this.#speaks === 'fdv2';
    const basis = fresh ? undefined : this.#basis();
    const etag = fresh || isFdv2 ? undefined : memory.etag;
    const address = urlUnder(upstream.baseUri, isFdv2 ? '/sdk/poll' : '/sdk/latest-all');
    const headers = { accept: 'application/json', ...(etag === undefined ? {} : { 'if-none-match': etag }) };
    const reply = await this.#ask(address, basis, { idleTimeoutMs: POLL_SILENCE_MS_MAX, headers, signal });
    if (reply.status === 304 && etag !== undefined) {
      reply.discard();
      await sink.current();
      delivered();
      return;
    }
    this.#check(reply, address, undefined);
    if (isFdv2) {
      const reader = new Fdv2Reader(upstream.name, sink, basis !== undefined);
      if (!(await takeEvents(upstream.name, reply, reader))) {
        throw new HeadgateError(
          'HG_SOURCE',
          `Cannot read the answer to a poll of ${upstream.name}: it must end a payload, got none`,
        );
      }
    } else {
      await takeAll(upstream.name, reply, sink);
      memory.etag = reply.header('etag');
    }
    // what a poll told has no id, and the last id no longer names what is held
    memory.lastEventId = undefined;
    delivered();
  }

  #basis(): string | undefined {
    return this.#speaks === 'fdv2' ? this.#options.memory.state : undefined;
  }

  #reader(sink: UpstreamSink, hasBasis: boolean): { take(event: StreamEvent): Promise<boolean> } {
    const { upstream } = this.#options;
    return this.#speaks === 'fdv2'
      ? new Fdv2Reader(upstream.name, sink, hasBasis)
      : new Fdv1Reader(upstream.name, sink, hasBasis);
  }

  #ask(
    address: URL,
    basis: string | undefined,
    { headers, ...how }: Pick<OutboundRequest, 'headers' | 'idleTimeoutMs' | 'signal'>,
  ): Promise<OutboundReply> {
    const { upstream, sdkKey } = this.#options;
    if (basis !== undefined) address.searchParams.set('basis', basis);
    if (upstream.filterKey !== undefined) address.searchParams.set('filter', upstream.filterKey);
    return upstream.outbound.send({
      method: 'GET',
      url: address,
      headers: { authorization: sdkKey, ...headers },
      ...how,
    });
  }

  /** Throws unless the answer is what was asked for. */
  #check(reply: OutboundReply, address: URL, contentType: string | undefined): void {
    const { upstream, memory } = this.#options;
    const failure = this.#failure(reply, address, contentType);
    const isFdv2 = this.#speaks === 'fdv2';
    const mayChange = upstream.protocol === 'auto' && (isFdv2 || !memory.settled);
    const isToldSo = isFdv2 && reply.header('x-ld-fd-fallback')?.toLowerCase() === 'true';
    if (failure !== undefined || (mayChange && isToldSo)) reply.discard();
    const unknown = new StatusError(upstream.name, shown(address), reply.status);
    if (mayChange && isToldSo) throw new OtherProtocol(true, failure ?? unknown);
    if (failure !== undefined && mayChange && UNKNOWN_ADDRESS.has(reply.status))
      throw new OtherProtocol(false, failure);
    if (failure !== undefined) throw failure;
    memory.envId = reply.header('x-ld-envid') ?? memory.envId;
    if (!isFdv2) memory.settled = true;
  }

  #failure(reply: OutboundReply, address: URL, contentType: string | undefined): HeadgateError | undefined {
    const { name } = this.#options.upstream;
    if (reply.status !== 200) return new StatusError(name, shown(address), reply.status);
    const given = reply.header('content-type');
    if (contentType === undefined || given?.toLowerCase().startsWith(contentType) === true) return undefined;
    return new HeadgateError(
      'HG_SOURCE',
      `Cannot follow ${name} at ${shown(address)}: it must answer with ${contentType}, got ${given ?? 'no type'}`,
    );
  }
}

/** The id of an event, which may stand after its data. */
async function idOf(event: StreamEvent): Promise<string | undefined> {
  for await (const _ of event.data);
  return event.id === '' ? undefined : event.id;
}

function shown(address: URL): string {
  return address.origin + address.pathname;
}
