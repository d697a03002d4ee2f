import type { Server } from 'node:net';
import { TLSSocket } from 'node:tls';
import { Limiter } from '../admission/index.ts';
import {
  Deliveries,
  exchangeOf,
  type LowWater,
  type RawSockets,
  setLowWater,
  slackMsFor,
  trackRawSockets,
} from '../delivery/index.ts';
import { type Clock, HeadgateError, systemClock } from '../kernel/index.ts';
import { Copy, type CopyContext } from './copy.ts';
import { endedFact, shedFact } from './facts.ts';
import { shedOf } from './shed.ts';
import type {
  Asker,
  CopiesOptions,
  CopiesStats,
  Ending,
  NodeRequest,
  NodeResponse,
  Shed,
  ShedReason,
} from './types.ts';
import { Watch } from './watch.ts';

/** What became of a request: it holds a slot, or it is to be told why not; `undefined`: its client left, nobody is there. */
export type Entry =
  | { readonly copy: Copy; readonly shed?: never }
  | { readonly copy?: never; readonly shed: Shed | undefined };

/**
 * The copies that a service hands out: how many at a time, who waits for one, and what is expected of their readers. One
 * object for all routes that share a budget; `limitDeliveries` of each framework takes it.
 *
 * @example
 * import http from 'node:http';
 * import { Copies, limitDeliveries } from 'headgate/middleware/node';
 *
 * const copies = new Copies({ maxConcurrent: 64, maxQueued: 1000, waitMsMax: 5000 });
 * const server = http.createServer(limitDeliveries(copies, (req, res) => res.end(JSON.stringify({ all: 'of it' }))));
 * copies.attach(server);
 * console.log(copies.held, copies.stats().admitted); // 0 0
 */
export class Copies {
  readonly #name: string;
  readonly #limiter: Limiter;
  readonly #watch: Watch;
  readonly #context: Omit<CopyContext, 'deliveries'>;
  readonly #clock: Clock;
  readonly #options: CopiesOptions;
  readonly #active = new Set<Copy>();
  readonly #trackers: RawSockets[] = [];
  readonly #ended: Record<Ending, number> = {
    completed: 0,
    client_gone: 0,
    stalled: 0,
    capped: 0,
    overdue: 0,
    error: 0,
    shutdown: 0,
  };
  #worstMark: LowWater['mode'] | undefined;
  #slackMs: number;
  #deliveries: Deliveries;
  #bytes = 0;
  /** Requests that had left when they came. */
  #leftBefore = 0;
  /** Requests that left between the moment their turn came and the one in which they were told. */
  #leftAtTurn = 0;

  /** @throws HeadgateError `HG_OPTION` for an option out of range. */
  constructor(options: CopiesOptions) {
    const { name = 'copies', maxConcurrent, maxQueued = 1000, waitMsMax = 5000, maxParked = maxConcurrent } = options;
    const { handlerMsMax = 60_000, leftMsMax = 10_000, sweepMs = 250, clock = systemClock } = options;
    checkPositive('handlerMsMax', handlerMsMax);
    if (leftMsMax !== 0) checkPositive('leftMsMax', leftMsMax);
    checkPositive('capMs', options.capMs ?? Infinity);
    this.#name = name;
    this.#options = options;
    this.#clock = clock;
    this.#limiter = new Limiter({ name, maxConcurrent, maxQueued, waitMsMax, maxParked, clock });
    this.#slackMs = options.slackMs ?? slackMsFor('none');
    this.#deliveries = this.#engine();
    const nextTurn = (run: () => void): void => void setImmediate(run);
    this.#watch = new Watch({ clock, sweepMs, handlerMsMax, nextTurn });
    this.#context = this.#contextOf(maxParked);
  }

  /** Slots held now: never more than `maxConcurrent`. */
  get held(): number {
    return this.#limiter.held;
  }

  /** Requests in the queue: never more than `maxQueued`. */
  get waiting(): number {
    return this.#limiter.waiting;
  }

  /** How far a reader may fall behind the floor rate now: see `slackMs` of the options. */
  get slackMs(): number {
    return this.#slackMs;
  }

  /**
   * Makes a server known, before it listens. Its sockets can then be reset under TLS and HTTP/2, and the low-water mark is
   * set on its listening socket, where the system allows it, so that stalled readers show within ten seconds and not thirty.
   * A server of plain HTTP/1.1 does without; one of TLS or HTTP/2 does not, and a stalled client would keep its kernel's
   * buffers after it was cut.
   */
  attach(server: Server, options: { readonly lowWater?: boolean } = {}): void {
    this.#trackers.push(trackRawSockets(server));
    const enabled = options.lowWater ?? true;
    if (server.listening) this.#listens(setLowWater(server, { enabled }));
    else server.once('listening', () => this.#listens(setLowWater(server, { enabled })));
  }

  /** Admits nobody from now on, and tells those who wait. Copies on their way go on to their end. */
  close(): void {
    this.#limiter.close();
  }

  /**
   * Resolves when no copy is on its way and nobody waits: after `close()`, when the last has ended.
   *
   * @param msMax - after so long those that remain are cut, as `shutdown`. Default never.
   */
  async drain(msMax: number = Infinity): Promise<void> {
    const timer = msMax === Infinity ? undefined : this.#clock.after(msMax, () => this.#cutAll());
    await this.#limiter.drain();
    timer?.cancel();
  }

  /** The numbers of now, and the counts since these were made. */
  stats(): CopiesStats {
    const { held, waiting, parked, admitted, refused, longestWaitMs, closed } = this.#limiter.stats();
    return {
      name: this.#name,
      closed,
      held,
      waiting,
      parked,
      admitted: admitted - this.#leftAtTurn,
      shed: { ...refused, aborted: refused.aborted + this.#leftBefore + this.#leftAtTurn },
      longestWaitMs,
      ended: { ...this.#ended },
      bytes: this.#bytes,
    };
  }

  /**
   * Asks for a slot for a request, once its response owns its connection, and waits for one if need be: what the
   * `limitDeliveries` of each framework does. For frameworks that have none here.
   *
   * The slot is freed when the response is over, however it ends. Call the handler only with a copy.
   */
  async enter(req: NodeRequest, res: NodeResponse, asker: Asker = {}): Promise<Entry> {
    const exchange = exchangeOf(req, res, this.#context);
    const tenant = asker.tenant ?? '';
    if (res.writableEnded || exchange.closed) {
      this.#leftBefore++;
      return this.#turnAway('aborted', tenant, 0);
    }
    const left = new AbortController();
    const onClose = (): void => left.abort();
    exchange.onClose(onClose);
    if (!('stream' in res) && res.socket === null) await turnOf(exchange);
    const answer = await this.#limiter.acquire({ tenant, klass: asker.class ?? 'server', signal: left.signal });
    exchange.offClose(onClose);
    if (!answer.admitted) return this.#turnAway(answer.reason, tenant, answer.waitedMs);
    if (exchange.closed) {
      this.#leftAtTurn++;
      answer.slot.release();
      return this.#turnAway('aborted', tenant, answer.slot.waitedMs);
    }
    const copy = new Copy({ req, res, exchange }, answer.slot, tenant, {
      ...this.#context,
      deliveries: this.#deliveries,
    });
    // it may have ended as it began
    if (copy.ending === undefined) this.#active.add(copy);
    return { copy };
  }

  #turnAway(reason: ShedReason, tenant: string, waitedMs: number): Entry {
    const shed = reason === 'aborted' ? undefined : shedOf(reason, this.#limiter.retryAfterSeconds());
    const retryAfterSeconds = shed?.retryAfterSeconds;
    shedFact.publish(() => ({ name: this.#name, reason, tenant, waitedMs, retryAfterSeconds }));
    return { shed };
  }

  #ends(copy: Copy, ending: Ending): void {
    this.#active.delete(copy);
    this.#ended[ending]++;
    const { bytes, tenant, status, waitedMs, ms } = copy;
    this.#bytes += bytes;
    endedFact.publish(() => ({ name: this.#name, ending, tenant, status, bytes, waitedMs, ms }));
  }

  #cutAll(): void {
    for (const copy of this.#active) copy.cut('shutdown');
  }

  #contextOf(maxParked: number): Omit<CopyContext, 'deliveries'> {
    const { floorBytesPerSecond = 65_536, capMs, creditMs, leftMsMax = 10_000 } = this.#options;
    return {
      clock: this.#clock,
      capMs,
      leftMsMax,
      rawSockets: this.#rawSockets(),
      parking: () => maxParked > 0 && this.#limiter.waiting > 0,
      watch: (meter, cut) => {
        const slackMs = this.#slackMs;
        return this.#watch.add(meter, { floorBytesPerSecond, slackMs, creditMs: creditMs ?? slackMs / 2, capMs }, cut);
      },
      unwatch: (watched) => this.#watch.remove(watched),
      ended: (copy, ending) => this.#ends(copy, ending),
    };
  }

  #rawSockets(): RawSockets {
    const trackers = this.#trackers;
    return {
      ofSocket: (socket) => (socket instanceof TLSSocket ? first(trackers, (all) => all.ofSocket(socket)) : socket),
      ofSession: (session) => first(trackers, (all) => all.ofSession(session)),
      get size() {
        return trackers.reduce((sum, { size }) => sum + size, 0);
      },
    };
  }

  /** The worst of all servers decides. Copies that are on their way keep the slack they began with. */
  #listens({ mode }: LowWater): void {
    this.#worstMark = this.#worstMark === undefined || mode === 'none' ? mode : this.#worstMark;
    if (this.#options.slackMs !== undefined) return;
    this.#slackMs = slackMsFor(this.#worstMark);
    this.#deliveries = this.#engine();
  }

  #engine(): Deliveries {
    const { floorBytesPerSecond, creditMs, sweepMs } = this.#options;
    return new Deliveries({
      clock: this.#clock,
      slackMs: this.#slackMs,
      ...(floorBytesPerSecond === undefined ? {} : { floorBytesPerSecond }),
      ...(creditMs === undefined ? {} : { creditMs }),
      ...(sweepMs === undefined ? {} : { sweepMs }),
    });
  }
}

function checkPositive(name: string, value: number): void {
  if (value > 0) return;
  throw new HeadgateError('HG_OPTION', `Cannot make copies: ${name} must be a positive number, got ${value}`);
}

/** When a pipelined response has its connection, or never will. */
function turnOf(exchange: ReturnType<typeof exchangeOf>): Promise<void> {
  return new Promise((resolve) => {
    exchange.onTurn(resolve);
    exchange.onClose(() => resolve());
  });
}

function first<T, R>(all: readonly T[], find: (one: T) => R | undefined): R | undefined {
  for (const one of all) {
    const found = find(one);
    if (found !== undefined) return found;
  }
  return undefined;
}
