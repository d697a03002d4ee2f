import { Limiter, type LimiterOptions } from '../../src/admission/index.ts';
import type { Change, Item } from '../../src/dataset/index.ts';
import { Deliveries, type DeliveriesOptions, setLowWater, type Transport } from '../../src/delivery/index.ts';
import { type Clock, FakeClock, systemClock } from '../../src/kernel/index.ts';
import { type Environment, FlagsFront, type FrontOptions } from '../../src/protocols/launchdarkly/index.ts';
import { Server } from '../../src/server/index.ts';
import { turns, until } from './conditions.ts';
import { type Ask, type Connection, connect, type Reply } from './connections.ts';
import { infoOf } from './flags-items.ts';
import { SseReader } from './sse-reader.ts';
import { selfSigned } from './tls.ts';

export { flag, flagsOf, gone, infoOf, put, segment } from './flags-items.ts';

/** How a front is set up. Whatever is left out is as `limits: auto` would have it, with few slots. */
export interface FlagsOptions {
  readonly transport?: Transport;
  readonly clock?: Clock;
  /** `off`: nothing is limited and nobody is cut. */
  readonly limits?: Partial<LimiterOptions> | 'off';
  readonly deliveries?: DeliveriesOptions;
  readonly front?: Partial<FrontOptions>;
  /** Whether the list of environments is known from the start. Default true. */
  readonly known?: boolean;
}

/** Every transport of the server, for tests in which it matters. */
export const TRANSPORTS: readonly Transport[] = ['http1', 'https1', 'h2c', 'h2'];

export const SLACK_MS = 10_000;
/** Above what both kernels and Node hold for a reader that takes nothing, low-water mark or not. */
export const STALLING_BYTES: number = 8 * 1024 * 1024;

/** A front behind a server of its own, in this process. */
export class Flags {
  readonly front: FlagsFront;
  readonly limiter: Limiter;
  readonly deliveries: Deliveries;
  readonly server: Server;
  readonly port: number;
  readonly transport: Transport;
  readonly clock: Clock;
  /** What routes threw: faults of ours. */
  readonly failures: unknown[];
  readonly #connections: Connection[] = [];

  constructor(
    parts: Pick<Flags, 'front' | 'limiter' | 'deliveries' | 'server' | 'clock' | 'failures' | 'transport'>,
    port: number,
  ) {
    this.front = parts.front;
    this.limiter = parts.limiter;
    this.deliveries = parts.deliveries;
    this.server = parts.server;
    this.clock = parts.clock;
    this.failures = parts.failures;
    this.transport = parts.transport;
    this.port = port;
  }

  /** Loads an environment whose key is `sdk-` and its name. */
  async load(items: Iterable<Item>, name = 'test', versions: 'source' | 'effective' = 'source'): Promise<void> {
    await this.front.load(infoOf(name), items, versions);
  }

  environment(name = 'test'): Environment {
    const found = this.front.environments().find(({ info }) => info.id === name);
    if (found === undefined) throw new Error(`Cannot find an environment: got ${name}`);
    return found;
  }

  async apply(changes: readonly Change[], name = 'test'): Promise<void> {
    await this.environment(name).data.apply(changes);
  }

  /** Opens a connection; one that the test does not close is closed with the server. */
  connect(): Connection {
    const connection = connect(this.transport, this.port);
    this.#connections.push(connection);
    return connection;
  }

  /** Asks on a connection of its own, as the environment `test`. */
  ask(path: string, more: Omit<Ask, 'path'> = {}, connection: Connection = this.connect()): Reply {
    return connection.ask({ ...more, path, headers: { authorization: 'sdk-test', ...more.headers } });
  }

  /** Asks, and waits for the whole answer. */
  get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    return this.ask(path, { headers }).whole();
  }

  /** Opens a stream and waits for its head. */
  async stream(path: string, headers: Readonly<Record<string, string>> = {}): Promise<SseReader> {
    const reply = await this.ask(path, { headers }).begun();
    if (reply.status !== 200) throw new Error(`Cannot open a stream: got ${reply.status} ${reply.body}`);
    return new SseReader(reply);
  }

  /** Waits until so many streams follow the changes, or wait for their first data: what comes next finds them there. */
  following(count: number, name = 'test'): Promise<void> {
    return until(`${count} streams that follow`, () => this.environment(name).streams === count);
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
    for (const { info } of this.front.environments()) this.front.remove(info.id);
    this.server.closeIdle();
    const { listening } = this.server;
    if (listening.listening) await new Promise((resolve) => listening.once('close', resolve));
  }
}

/** Starts a front on a port that the system picks. */
export async function startFlags(options: FlagsOptions = {}): Promise<Flags> {
  const { transport = 'http1', clock = systemClock, limits = {} } = options;
  const parts = assemble(options, clock);
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
    },
    parts.front.routes(),
  );
  const { port } = await server.listen();
  setLowWater(server.listening);
  if (options.known ?? true) parts.front.environmentsKnown();
  if (limits !== 'off' && limits.pinnedBytes !== undefined)
    throw new Error('Cannot set pinnedBytes: it is the front’s');
  return new Flags({ ...parts, server, clock, failures, transport }, port);
}

function assemble(
  { limits = {}, deliveries: deliveryOptions, front: frontOptions }: FlagsOptions,
  clock: Clock,
): { limiter: Limiter; deliveries: Deliveries; front: FlagsFront } {
  let front: FlagsFront | undefined;
  const isOff = limits === 'off';
  const limiter = isOff
    ? Limiter.disabled('full copies')
    : new Limiter({
        name: 'full copies',
        maxConcurrent: 4,
        maxQueued: 1000,
        waitMsMax: 10_000,
        earlyShed: false,
        pinnedBytes: () => front?.pinnedBytes ?? 0,
        clock,
        ...limits,
      });
  const deliveries = new Deliveries({ clock, slackMs: SLACK_MS, ...deliveryOptions });
  front = new FlagsFront({
    clock,
    limiter,
    deliveries,
    guarded: !isOff,
    parking: !isOff && (limits.maxParked ?? 0) > 0,
    streamWaitMsMax: isOff ? Number.POSITIVE_INFINITY : (limits.waitMsMax ?? 10_000),
    pollWaitMsMax: isOff ? Number.POSITIVE_INFINITY : (limits.waitMsMax ?? 10_000),
    aheadWaitMsMax: 5000,
    disconnectedMs: 60_000,
    staleAsDegraded: false,
    heartbeatMs: 180_000,
    compression: true,
    catchUp: 'safe',
    logBatchesMax: 1000,
    logBytesMax: 32 * 1024 * 1024,
    onPinnedDropped: () => limiter.recheck(),
    ...frontOptions,
  });
  return { limiter, deliveries, front };
}
