import { createHash } from 'node:crypto';
import { Limiter, type LimiterOptions } from '../../src/admission/index.ts';
import {
  type Decision,
  Ledger,
  type LedgerOptions,
  Views,
  type ViewsOptions,
} from '../../src/dataset/decisions/index.ts';
import { Deliveries, type DeliveriesOptions, setLowWater, type Transport } from '../../src/delivery/index.ts';
import { type Clock, FakeClock, systemClock } from '../../src/kernel/index.ts';
import { DecisionsFront, type FrontOptions } from '../../src/protocols/crowdsec/index.ts';
import { Server, type ServerOptions } from '../../src/server/index.ts';
import { turns, until } from './conditions.ts';
import { type Ask, type Connection, connect, type Reply } from './connections.ts';
import { selfSigned } from './tls.ts';

/** How a front is set up. Whatever is left out is as `limits: auto` would have it, with few slots. */
export interface DecisionsOptions {
  readonly transport?: Transport;
  readonly clock?: Clock;
  /** Where the wall clock begins, Unix time in milliseconds; it goes on with the clock. Default now. */
  readonly wallMs?: number;
  /** `off`: nothing is limited and nobody is cut. */
  readonly limits?: Partial<LimiterOptions> | 'off';
  readonly deliveries?: DeliveriesOptions;
  readonly front?: Partial<FrontOptions>;
  readonly ledger?: LedgerOptions;
  readonly views?: Partial<ViewsOptions>;
  readonly server?: Partial<ServerOptions>;
}

/** What a decision of a test is like, unless the test says otherwise. */
const ORDINARY = {
  uuid: undefined,
  origin: 'cscli',
  scenario: 'manual ban',
  scope: 'Ip',
  type: 'ban',
  simulated: false,
};

const HOUR_MS = 3_600_000;
const TOLERANCE_MS = 2000;

/** The key that requests of tests are sent with, and what the front calls its bouncer. */
export const KEY = 'test-key';
export const BOUNCER = 'test-bouncer';

export function sha512(key: string): string {
  return createHash('sha512').update(key).digest('hex');
}

/** A front behind a server of its own, in this process. */
export class Decisions {
  readonly front: DecisionsFront;
  readonly ledger: Ledger;
  readonly views: Views;
  readonly limiter: Limiter;
  readonly deliveries: Deliveries;
  readonly server: Server;
  readonly port: number;
  readonly transport: Transport;
  readonly clock: Clock;
  /** To be set by tests in which it matters. */
  readonly wall: { now: () => number };
  /** What routes threw: faults of ours. */
  readonly failures: unknown[];
  readonly #connections: Connection[] = [];

  constructor(
    parts: Omit<Parts, 'options'> & { server: Server; failures: unknown[]; transport: Transport },
    port: number,
  ) {
    this.front = parts.front;
    this.ledger = parts.ledger;
    this.views = parts.views;
    this.limiter = parts.limiter;
    this.deliveries = parts.deliveries;
    this.server = parts.server;
    this.clock = parts.clock;
    this.wall = parts.wall;
    this.failures = parts.failures;
    this.transport = parts.transport;
    this.port = port;
  }

  /** A decision that ends in four hours. */
  decision(id: number, value: string, more: Partial<Decision> = {}): Decision {
    return { ...ORDINARY, id, value, untilMs: this.wall.now() + 4 * HOUR_MS, ...more };
  }

  /** Everything that a source holds. */
  async load(decisions: Iterable<Decision>, source = 0): Promise<void> {
    const read = this.ledger.begin(source, { toleranceMs: TOLERANCE_MS, simulatedToo: true });
    for (const decision of decisions) read.add(decision);
    await read.commit(this.wall.now());
  }

  async patch(added: readonly Decision[], removedIds: readonly number[] = [], source = 0): Promise<void> {
    await this.ledger.patch(source, { added, removedIds }, { nowMs: this.wall.now(), toleranceMs: TOLERANCE_MS });
  }

  /** Opens a connection; one that the test does not close is closed with the server. */
  connect(): Connection {
    const connection = connect(this.transport, this.port);
    this.#connections.push(connection);
    return connection;
  }

  /** Asks on a connection of its own. */
  ask(path: string, more: Omit<Ask, 'path'> = {}, connection: Connection = this.connect()): Reply {
    return connection.ask({ ...more, path, headers: { 'x-api-key': KEY, ...more.headers } });
  }

  /** Asks, and waits for the whole answer. */
  get(path: string, headers: Readonly<Record<string, string>> = {}, connection?: Connection): Promise<Reply> {
    return this.ask(path, { headers }, connection).whole();
  }

  /** Waits until it is known of every answer so far whether it was received. */
  receipts(): Promise<void> {
    return until('receipts', () => this.server.receipts.pending === 0);
  }

  /**
   * Lets time pass on a fake clock, in steps small enough for every timer, with the event loop turning in between: what
   * a reader has taken is known before the next step.
   */
  async pass(ms: number, stepMs = 250): Promise<void> {
    if (!(this.clock instanceof FakeClock)) throw new Error('Cannot let time pass: it needs a fake clock');
    for (let leftMs = ms; leftMs > 0; leftMs -= stepMs) {
      this.clock.advance(Math.min(stepMs, leftMs));
      await turns(4);
    }
  }

  async stop(): Promise<void> {
    this.server.stopAccepting();
    this.limiter.close();
    for (const connection of this.#connections) connection.leave();
    this.deliveries.shutdown();
    this.front.close();
    this.server.closeIdle();
    const { listening } = this.server;
    if (listening.listening) await new Promise((resolve) => listening.once('close', resolve));
  }
}

interface Parts {
  readonly front: DecisionsFront;
  /** What the front was made with. */
  readonly options: FrontOptions;
  readonly ledger: Ledger;
  readonly views: Views;
  readonly limiter: Limiter;
  readonly deliveries: Deliveries;
  readonly clock: Clock;
  readonly wall: { now: () => number };
}

/** Starts a front on a port that the system picks. */
export async function startDecisions(options: DecisionsOptions = {}): Promise<Decisions> {
  const { transport = 'http1' } = options;
  const parts = assembleDecisions(options);
  const failures: unknown[] = [];
  const server = await Server.create(
    {
      host: '127.0.0.1',
      port: 0,
      backlog: 1024,
      http2: true,
      headersTimeoutMs: 10_000,
      requestTimeoutMs: 30_000,
      keepAliveTimeoutMs: 65_000,
      headerBytesMax: 16 * 1024,
      bodyBytesMax: 1024 * 1024,
      http2ConcurrentStreamsMax: 100,
      onFailure: (error) => failures.push(error),
      ...(transport === 'https1' || transport === 'h2' ? { tls: selfSigned() } : {}),
      ...options.server,
    },
    parts.front.routes(),
  );
  const { port } = await server.listen();
  setLowWater(server.listening);
  return new Decisions({ ...parts, server, failures, transport }, port);
}

/** The same without a server. */
export function assembleDecisions(options: DecisionsOptions = {}): Parts {
  const { limits = {}, clock = systemClock } = options;
  const isOff = limits === 'off';
  const beganMs = clock.now();
  const { wallMs = Date.now() } = options;
  const wall = { now: () => wallMs + clock.now() - beganMs };
  const wallNow = (): number => wall.now();
  const ledger = new Ledger(options.ledger);
  const views = new Views(ledger, { wallNow, clock, ...options.views });
  const limiter = isOff
    ? Limiter.disabled('full copies')
    : new Limiter({
        name: 'full copies',
        maxConcurrent: 4,
        maxQueued: 1000,
        waitMsMax: 10_000,
        earlyShed: false,
        pinnedBytes: () => views.pinnedBytes,
        clock,
        ...limits,
      });
  const deliveries = new Deliveries({ clock, slackMs: 10_000, ...options.deliveries });
  const made: FrontOptions = {
    clock,
    wallNow,
    limiter,
    deliveries,
    guarded: !isOff,
    parking: !isOff && (limits.maxParked ?? 0) > 0,
    waitMsMax: isOff ? Number.POSITIVE_INFINITY : (limits.waitMsMax ?? 10_000),
    ledger,
    views,
    upstreams: [],
    keys: [{ name: BOUNCER, sha512: sha512(KEY) }],
    delegate: false,
    cursorsPerKeyMax: 64,
    startWaitMs: 10_000,
    passthrough: false,
    trustedProxies: [],
    bouncersAllowedOu: [],
    bodyBytesMax: 64 * 1024,
    ...options.front,
  };
  return { front: new DecisionsFront(made), options: made, ledger, views, limiter, deliveries, clock, wall };
}
