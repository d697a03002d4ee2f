import { Limiter, type LimiterOptions } from '../../src/admission/index.ts';
import type { Change, DataSet, Item } from '../../src/dataset/index.ts';
import { Deliveries } from '../../src/delivery/index.ts';
import { type Clock, FakeClock, systemClock } from '../../src/kernel/index.ts';
import {
  ClientSide,
  type ClientSideOptions,
  type Evaluating,
} from '../../src/protocols/launchdarkly/clientside/index.ts';
import type { EnvironmentInfo } from '../../src/protocols/launchdarkly/credentials.ts';
import type { FrontOptions } from '../../src/protocols/launchdarkly/deps.ts';
import {
  type Evaluated,
  type EvaluatedFlag,
  type EvaluationRequest,
  parseContext,
} from '../../src/protocols/launchdarkly/evaluation/index.ts';
import { type Environment, FlagsFront } from '../../src/protocols/launchdarkly/index.ts';
import { Server } from '../../src/server/index.ts';
import { turns, until } from './conditions.ts';
import { type Ask, type Connection, connect, type Reply } from './connections.ts';
import { SseReader } from './sse-reader.ts';

export const ENV_ID = '507f1f77bcf86cd799439011';
export const MOBILE_KEY = 'mob-11111111-2222-4333-8444-555555555555';
export const SDK_KEY = 'sdk-aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee';

/** An environment that all three kinds of client may ask. */
export const CLIENT_INFO: EnvironmentInfo = {
  id: ENV_ID,
  name: 'test',
  sdkKeys: [{ value: SDK_KEY }],
  mobileKey: MOBILE_KEY,
  envId: ENV_ID,
  ttlMs: 0,
};

/** What decides the value of a flag here. */
export interface ValueRules {
  /** Who sees it; default everybody. */
  readonly sees?: readonly ('mobile' | 'client')[];
  /** Its value, for those who are not named. */
  readonly value: string;
  readonly byKey?: Readonly<Record<string, string>>;
  /** A segment that decides: whoever is in it has this value. */
  readonly segment?: { readonly key: string; readonly value: string };
}

/** A flag with a value that does not come from its version. */
export function valued(key: string, version: number, rules: ValueRules): Item {
  const { sees = ['mobile', 'client'], ...rest } = rules;
  const clientSideAvailability = {
    usingMobileKey: sees.includes('mobile'),
    usingEnvironmentId: sees.includes('client'),
  };
  return { kind: 'flags', key, version, text: JSON.stringify({ key, version, clientSideAvailability, ...rest }) };
}

/** A segment, by the keys of those in it. */
export function members(key: string, version: number, included: readonly string[]): Item {
  return { kind: 'segments', key, version, text: JSON.stringify({ key, version, included }) };
}

interface FlagText extends ValueRules {
  readonly clientSideAvailability: { readonly usingMobileKey: boolean; readonly usingEnvironmentId: boolean };
}

/** An evaluator that answers when it is told to, from the data of that moment. */
export class FakeEvaluator implements Evaluating {
  readonly asked: EvaluationRequest[] = [];
  /** What is to be said of big segments. */
  revision = '';
  /** How many evaluations are under way. */
  running = 0;
  runningMax = 0;
  /** Set: everything waits for it. */
  held: Promise<void> | undefined;
  /** Thrown in place of an answer. */
  failure: Error | undefined;
  /** How far behind the data an answer is, in batches: undefined is not at all. */
  snapshot: ReturnType<DataSet['snapshot']> | undefined;
  readonly #dataOf: (environmentId: string) => DataSet;

  constructor(dataOf: (environmentId: string) => DataSet) {
    this.#dataOf = dataOf;
  }

  /** Holds everything until the answer is called. */
  hold(): () => void {
    let release = (): void => undefined;
    this.held = new Promise((resolve) => {
      release = () => {
        this.held = undefined;
        resolve();
      };
    });
    return () => release();
  }

  parseContext(json: string): ReturnType<Evaluating['parseContext']> {
    return parseContext(json);
  }

  async evaluate(request: EvaluationRequest): Promise<Evaluated> {
    this.asked.push(request);
    this.running++;
    this.runningMax = Math.max(this.runningMax, this.running);
    try {
      await turns(1);
      await this.held;
      if (this.failure !== undefined) throw this.failure;
      return this.#answer(request);
    } finally {
      this.running--;
    }
  }

  affected(environmentId: string, changes: readonly Change[]): readonly string[] {
    const segments = new Set(changes.filter(({ kind }) => kind === 'segments').map(({ key }) => key));
    const keys = new Set(changes.filter(({ kind }) => kind === 'flags').map(({ key }) => key));
    for (const { key, text } of this.#dataOf(environmentId).snapshot().items('flags')) {
      const { segment } = JSON.parse(text) as FlagText;
      if (segment !== undefined && segments.has(segment.key)) keys.add(key);
    }
    return [...keys];
  }

  #answer({ environmentId, context, audience, withReasons, keys }: EvaluationRequest): Evaluated {
    const snapshot = this.snapshot ?? this.#dataOf(environmentId).snapshot();
    const { key: contextKey } = JSON.parse(context) as { key: string };
    const flags: EvaluatedFlag[] = [];
    const absent = new Set(keys);
    for (const item of snapshot.items('flags')) {
      if (keys !== undefined && !keys.includes(item.key)) continue;
      const rules = JSON.parse(item.text) as FlagText;
      const { usingMobileKey, usingEnvironmentId } = rules.clientSideAvailability;
      if (audience === 'mobile' ? !usingMobileKey : audience === 'client' && !usingEnvironmentId) continue;
      absent.delete(item.key);
      const segment = rules.segment && snapshot.get('segments', rules.segment.key);
      const isIn =
        segment !== undefined && (JSON.parse(segment.text) as { included: string[] }).included.includes(contextKey);
      const value = isIn ? rules.segment?.value : (rules.byKey?.[contextKey] ?? rules.value);
      const base = `"value":${JSON.stringify(value)},"variation":0`;
      const fields = withReasons ? `${base},"reason":{"kind":"FALLTHROUGH"}` : base;
      flags.push({ key: item.key, version: item.version, fields, versionAt: base.length, extra: '' });
    }
    const { digest, clock, offset } = snapshot;
    return { digest, clock, offset, bigSegmentsRevision: this.revision, flags, absent: [...absent] };
  }
}

/** How a rig is set up. */
export interface RigOptions {
  readonly clock?: Clock;
  readonly limits?: Partial<LimiterOptions>;
  readonly front?: Partial<FrontOptions>;
  readonly side?: Partial<ClientSideOptions>;
  /** Whether the list of environments is known. Default true. */
  readonly known?: boolean;
  readonly transport?: 'http1' | 'h2c';
}

/** The client side behind a server of its own, with real sockets. */
export class ClientSideRig {
  readonly side: ClientSide;
  readonly front: FlagsFront;
  readonly evaluator: FakeEvaluator;
  readonly limiter: Limiter;
  readonly failures: unknown[];
  readonly clock: Clock;
  readonly #transport: 'http1' | 'h2c';
  readonly #server: Server;
  readonly #port: number;
  readonly #deliveries: Deliveries;
  readonly #connections: Connection[] = [];

  constructor(
    parts: Pick<ClientSideRig, 'side' | 'front' | 'evaluator' | 'limiter' | 'failures' | 'clock'>,
    under: { server: Server; port: number; deliveries: Deliveries; transport: 'http1' | 'h2c' },
  ) {
    this.side = parts.side;
    this.front = parts.front;
    this.evaluator = parts.evaluator;
    this.limiter = parts.limiter;
    this.failures = parts.failures;
    this.clock = parts.clock;
    this.#server = under.server;
    this.#port = under.port;
    this.#deliveries = under.deliveries;
    this.#transport = under.transport;
  }

  get environment(): Environment {
    return this.front.upsert(CLIENT_INFO);
  }

  async load(items: readonly Item[], info: EnvironmentInfo = CLIENT_INFO): Promise<void> {
    await this.front.load(info, items, 'source');
  }

  async apply(...changes: Change[]): Promise<void> {
    const environment = this.front.environments()[0];
    if (environment === undefined) throw new Error('Cannot apply changes: there is no environment');
    await environment.data.apply(changes);
  }

  ask(path: string, more: Omit<Ask, 'path'> = {}, connection: Connection = this.connect()): Reply {
    return connection.ask({ ...more, path });
  }

  connect(): Connection {
    const connection = connect(this.#transport, this.#port);
    this.#connections.push(connection);
    return connection;
  }

  get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    return this.ask(path, { headers }).whole();
  }

  /** Sends a context in the body. */
  report(path: string, body: string, headers: Readonly<Record<string, string>> = {}): Reply {
    return this.ask(path, { method: 'REPORT', body, headers: { 'content-type': 'application/json', ...headers } });
  }

  async stream(path: string, headers: Readonly<Record<string, string>> = {}): Promise<SseReader> {
    const reply = await this.ask(path, { headers }).begun();
    if (reply.status !== 200) throw new Error(`Cannot open a stream: got ${reply.status} ${reply.body}`);
    return new SseReader(reply);
  }

  async pass(ms: number, stepMs = 250): Promise<void> {
    if (!(this.clock instanceof FakeClock)) throw new Error('Cannot let time pass: it needs a fake clock');
    for (let leftMs = ms; leftMs > 0; leftMs -= stepMs) {
      this.clock.advance(Math.min(stepMs, leftMs));
      await turns(4);
    }
  }

  /** Stops, and finds out whether anything was left behind. */
  async stop(): Promise<void> {
    this.#server.stopAccepting();
    this.limiter.close();
    for (const connection of this.#connections) connection.leave();
    this.#deliveries.shutdown();
    for (const { info } of this.front.environments()) this.front.remove(info.id);
    this.#server.closeIdle();
    const { listening } = this.#server;
    if (listening.listening) await new Promise((resolve) => listening.once('close', resolve));
    if (this.failures.length > 0) throw new Error('A route failed', { cause: this.failures[0] });
    await until('nothing open and no slot held', () => {
      const { held, waiting, waitingOpen, parked, declaredBytes } = this.limiter.stats();
      return held + waiting + waitingOpen + parked + declaredBytes + this.side.streams === 0;
    });
  }
}

/** A context as it stands in a path. */
export function encoded(context: object | string): string {
  const json = typeof context === 'string' ? context : JSON.stringify(context);
  return Buffer.from(json).toString('base64url');
}

export async function startClientSide(options: RigOptions = {}): Promise<ClientSideRig> {
  const { clock = systemClock, limits = {}, transport = 'http1' } = options;
  const limiter = new Limiter({
    name: 'full copies',
    maxConcurrent: 4,
    maxQueued: 1000,
    waitMsMax: 10_000,
    earlyShed: false,
    clock,
    ...limits,
  });
  const deliveries = new Deliveries({ clock, slackMs: 10_000 });
  const frontOptions: FrontOptions = {
    clock,
    limiter,
    deliveries,
    guarded: true,
    parking: false,
    streamWaitMsMax: limits.waitMsMax ?? 10_000,
    pollWaitMsMax: 1000,
    aheadWaitMsMax: 5000,
    disconnectedMs: 60_000,
    staleAsDegraded: false,
    heartbeatMs: 180_000,
    compression: true,
    catchUp: 'safe',
    logBatchesMax: 1000,
    logBytesMax: 32 * 1024 * 1024,
    onPinnedDropped: () => limiter.recheck(),
    ...options.front,
  };
  const front = new FlagsFront(frontOptions);
  const evaluator = new FakeEvaluator((id) => {
    const found = front.directory.get(id);
    if (found === undefined) throw new Error(`Cannot evaluate: no such environment, got ${id}`);
    return found.data;
  });
  const side = new ClientSide({
    front: frontOptions,
    directory: front.directory,
    evaluations: evaluator,
    bodyBytesMax: 64 * 1024,
    pingJitterMs: 0,
    ...options.side,
  });
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
    },
    side.routes(),
  );
  const { port } = await server.listen();
  if (options.known ?? true) front.environmentsKnown();
  return new ClientSideRig(
    { side, front, evaluator, limiter, failures, clock },
    { server, port, deliveries, transport },
  );
}
