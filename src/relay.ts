import { setTimeout as setTimeoutAsync } from 'node:timers/promises';
import { Limiter } from './admission/index.ts';
import type { Config, FileSource, FlagSource, LimitsConfig } from './config/index.ts';
import { explainLimits } from './config/index.ts';
import { Deliveries, setLowWater } from './delivery/index.ts';
import { type Clock, messageOf, systemClock } from './kernel/index.ts';
import { type Log, openLog } from './observability/index.ts';
import { type EnvironmentInfo, FlagsFront } from './protocols/launchdarkly/index.ts';
import { healthRoutes, type Route, Server, watchTls } from './server/index.ts';
import { openArchive, openFiles, type SourceEnvironment, type SourceListener } from './sources/index.ts';

export { type Log, openLog };

/** The version of this package, as `/status` tells it. */
export const VERSION = '0.1.0';

/** What a relay is started with. */
export interface RelayOptions {
  readonly config: Config;
  readonly clock?: Clock;
  readonly log?: Log;
  /** Without it the sources are read and nothing is served. Default true. */
  readonly listen?: boolean;
}

type FileSourceHandle = ReturnType<typeof openArchive>;

/**
 * The composition root: reads a configuration, makes the rooms, and wires them. The only file that knows every room.
 *
 * @example
 * import { defaultConfig } from 'headgate';
 *
 * const config = defaultConfig();
 * const server = { ...config.server, port: 0, drainDelayMs: 0 };
 * const relay = await Relay.start({ config: { ...config, server, log: { level: 'none', format: 'json' } } });
 * console.log(relay.port > 0); // true
 * await relay.stop();
 */
export class Relay {
  readonly port: number;
  readonly #config: Config;
  readonly #log: Log;
  readonly #server: Server;
  readonly #limiter: Limiter;
  readonly #deliveries: Deliveries;
  readonly #front: FlagsFront;
  readonly #sources: readonly FileSourceHandle[];
  readonly #stopTls: () => void;
  readonly #unread: ReadonlySet<FlagSource>;
  readonly #loaded: Promise<boolean>;
  #stopping: Promise<void> | undefined;

  private constructor(parts: Parts, port: number) {
    this.port = port;
    this.#config = parts.config;
    this.#log = parts.log;
    this.#server = parts.server;
    this.#limiter = parts.limiter;
    this.#deliveries = parts.deliveries;
    this.#front = parts.front;
    this.#sources = parts.sources;
    this.#stopTls = parts.stopTls;
    this.#unread = parts.unread;
    this.#loaded = this.#load();
  }

  /** Starts listening, then loads the sources: clients that come meanwhile wait. Rejects when it cannot listen. */
  static async start(options: RelayOptions): Promise<Relay> {
    const parts = await assemble(options);
    const port = options.listen === false ? 0 : await listen(parts);
    return new Relay(parts, port);
  }

  /** Resolves when every source was tried once: whether all of them could be read. */
  get loaded(): Promise<boolean> {
    return this.#loaded;
  }

  /** Whether every environment has data and the relay is not about to stop. */
  get ready(): boolean {
    return this.#front.ready;
  }

  /** Looks at the sources now instead of at their next interval. */
  reload(): void {
    for (const source of this.#sources) void source.reload();
  }

  /**
   * Stops in good order: not ready first, then, after `drainDelay`, no new connection and no new delivery; what is under
   * way may finish, and streams are closed one after another over the grace period, so that the next replica is not met
   * by all of them at once.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #load(): Promise<boolean> {
    await Promise.all(this.#sources.map((source) => source.start()));
    return this.#unread.size === 0;
  }

  async #stop(): Promise<void> {
    const { drainDelayMs, graceMs } = this.#config.server;
    this.#front.leave();
    this.#log.info({ drainDelayMs, graceMs, streams: this.#streams() }, 'stopping: not ready from now on');
    if (this.port !== 0) await setTimeoutAsync(drainDelayMs);
    this.#log.info({ streams: this.#streams(), deliveries: this.#deliveries.active }, 'draining');
    this.#server.stopAccepting();
    this.#limiter.close();
    const grace = new AbortController();
    const over = setTimeout(() => grace.abort(), graceMs + GRACE_MARGIN_MS);
    await Promise.race([
      Promise.all([this.#idle(grace.signal), this.#front.closeStreams(graceMs)]),
      aborted(grace.signal),
    ]);
    clearTimeout(over);
    this.#deliveries.shutdown();
    // one that hangs in a read must not hold the end of the process
    await Promise.race([
      Promise.all(this.#sources.map((source) => source.stop())),
      setTimeoutAsync(SOURCE_STOP_MS_MAX),
    ]);
    this.#server.closeIdle();
    this.#stopTls();
    this.#log.info({}, 'stopped');
    this.#log.close();
  }

  /** Resolves when no delivery is in progress, limited or not. */
  async #idle(signal: AbortSignal): Promise<void> {
    await this.#limiter.drain();
    while (this.#deliveries.active > 0 && !signal.aborted) await setTimeoutAsync(IDLE_LOOK_MS);
  }

  #streams(): number {
    return this.#front.environments().reduce((sum, { streams }) => sum + streams, 0);
  }
}

/** Without limits nobody tells that the last delivery has ended; at the end of a process's life a look is cheap. */
const IDLE_LOOK_MS = 50;

const SOURCE_STOP_MS_MAX = 500;

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Streams are closed until the last moment of the grace period; their last bytes need a moment more. */
const GRACE_MARGIN_MS = 500;

interface Parts {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly server: Server;
  readonly limiter: Limiter;
  readonly deliveries: Deliveries;
  readonly front: FlagsFront;
  readonly sources: readonly FileSourceHandle[];
  readonly stopTls: () => void;
  /** Sources that have not been read yet. */
  readonly unread: ReadonlySet<FlagSource>;
}

/** Listens, and says how: once, with what it means for slow readers. */
async function listen({ config, log, server }: Parts): Promise<number> {
  const { port } = await server.listen();
  const { limits, machine } = config;
  const { lowWaterMarkBytes } = limits;
  const lowWater = setLowWater(server.listening, {
    enabled: lowWaterMarkBytes !== undefined,
    ...(lowWaterMarkBytes === undefined ? {} : { bytes: lowWaterMarkBytes }),
  });
  log.info({ mode: lowWater.mode, reason: lowWater.reason }, 'low-water mark on unsent data');
  log.info({ mode: limits.mode, slots: limits.slots, queue: limits.queue }, explainLimits(limits, machine));
  log.info({ port, host: config.server.host ?? '*', tls: config.server.tls !== undefined }, 'listening');
  return port;
}

async function assemble(options: RelayOptions): Promise<Parts> {
  const { config } = options;
  const clock = options.clock ?? systemClock;
  const log = options.log ?? openLog({ level: config.log.level, clock });
  const { limits, flags } = config;
  let pinnedBytes = (): number => 0;
  const limiter = makeLimiter(limits, clock, () => pinnedBytes());
  const deliveries = new Deliveries({
    clock,
    turnBytesMax: limits.turnBytesMax,
    ...deadlineOf(limits),
  });
  const front = new FlagsFront({
    clock,
    limiter,
    deliveries,
    guarded: limits.enabled,
    ...(limits.sendTimeoutMs === undefined ? {} : { capMs: limits.sendTimeoutMs }),
    parking: limits.parking,
    streamWaitMsMax: limits.waitStreamMsMax,
    pollWaitMsMax: limits.waitPollMsMax,
    aheadWaitMsMax: flags.aheadWaitMs,
    heartbeatMs: flags.heartbeatMs,
    ...(flags.connectionMsMax === undefined ? {} : { connectionMsMax: flags.connectionMsMax }),
    compression: flags.compression === 'auto',
    catchUp: flags.catchUp,
    logBatchesMax: flags.logBatchesMax,
    logBytesMax: flags.logBytesMax,
    ...(flags.retryMs === undefined ? {} : { retryMs: flags.retryMs }),
    onPinnedDropped: () => limiter.recheck(),
  });
  pinnedBytes = () => front.pinnedBytes;
  const health = healthRoutes({ ready: () => front.ready, status: () => statusOf({ front, limiter, deliveries }) });
  const { server, stopTls } = await makeServer(config, clock, log, [...front.routes(), ...health]);
  const unread = new Set(flags.sources);
  const sources = flags.sources.map((source) => {
    // its keys are known before its file is read: clients wait for the data, and are not told that they are unknown
    if (source.type === 'file') front.upsert(infoOf(environmentOfFiles(source)));
    const onRead = (): void => {
      unread.delete(source);
      if (unread.size === 0) front.environmentsKnown();
    };
    return openSource(source, clock, listenerFor(front, log, onRead));
  });
  return { config, clock, log, server, limiter, deliveries, front, sources, stopTls, unread };
}

/** Without a floor a reader is never too slow; without limits nobody looks. */
function deadlineOf(limits: LimitsConfig): { floorBytesPerSecond?: number; slackMs?: number } {
  if (!limits.enabled) return {};
  const { floorBytesPerSecond, slackMs } = limits;
  return floorBytesPerSecond > 0 ? { floorBytesPerSecond, slackMs } : { slackMs: NEVER_MS };
}

const NEVER_MS = Number.MAX_SAFE_INTEGER;

function makeLimiter(limits: LimitsConfig, clock: Clock, pinnedBytes: () => number): Limiter {
  if (!limits.enabled) return Limiter.disabled('full copies');
  return new Limiter({
    name: 'full copies',
    maxConcurrent: limits.slots,
    maxQueued: limits.queue,
    waitMsMax: limits.waitStreamMsMax,
    maxParked: limits.parking ? limits.parked : 0,
    maxPinnedBytes: limits.pinnedBytesMax,
    pinnedBytes,
    fairness: limits.fairness,
    earlyShed: limits.earlyShed,
    clock,
  });
}

async function makeServer(
  config: Config,
  clock: Clock,
  log: Log,
  routes: readonly Route[],
): Promise<{ server: Server; stopTls: () => void }> {
  const { tls, host, ...rest } = config.server;
  let server: Server | undefined;
  const watched =
    tls === undefined
      ? undefined
      : await watchTls(tls, clock, {
          onChange: (material) => {
            server?.setTls(material);
            log.info({ certPath: tls.certPath }, 'certificate reloaded');
          },
          onFailure: (error) => log.error({ err: error }, messageOf(error)),
        });
  server = await Server.create(
    {
      ...rest,
      ...(host === undefined ? {} : { host }),
      ...(watched === undefined ? {} : { tls: watched.tls }),
      clock,
      onFailure: (error, path) => log.error({ err: error, path }, 'request failed'),
    },
    routes,
  );
  return { server, stopTls: () => watched?.stop() };
}

/** What `/status` says: the vendor's members, and a block of our own that shows the budget. */
function statusOf({ front, limiter, deliveries }: Pick<Parts, 'front' | 'limiter' | 'deliveries'>): object {
  const { environments, healthy } = front.status();
  const streams = front.environments().reduce((sum, environment) => sum + environment.streams, 0);
  return {
    environments,
    status: healthy ? 'healthy' : 'degraded',
    version: VERSION,
    clientVersion: `headgate-${VERSION}`,
    headgate: { streams, admission: limiter.stats(), deliveries: deliveries.stats() },
  };
}

function openSource(source: FlagSource, clock: Clock, listener: SourceListener): FileSourceHandle {
  if (source.type === 'archive') {
    return openArchive({ path: source.path, intervalMs: source.intervalMs, clock, listener });
  }
  return openFiles({
    paths: source.paths,
    intervalMs: source.intervalMs,
    environment: environmentOfFiles(source),
    clock,
    listener,
  });
}

/** Files carry no versions that must be trusted: every change of text raises them. */
const FILE_VERSIONS = 'effective';

function listenerFor(front: FlagsFront, log: Log, onRead: () => void): SourceListener {
  return {
    async upsert(environment, data) {
      const info = infoOf(environment);
      const beganMs = performance.now();
      if (data === undefined) front.upsert(info);
      else await front.load(info, data, FILE_VERSIONS);
      const { data: held } = front.upsert(info);
      const { count, digest, clock } = held.snapshot();
      log.info(
        { environment: info.name, items: count, digest, clock, ms: Math.round(performance.now() - beganMs) },
        'environment loaded',
      );
    },
    async remove(envId) {
      front.remove(envId);
      log.info({ environment: envId }, 'environment removed');
    },
    failed: (error) => log.error({ code: error.code }, `${error.message}; what was loaded before stays served`),
    loaded: onRead,
    unchanged: (path) => log.info({ path }, 'file changed, but its data id and version did not: nothing to do'),
  };
}

function infoOf(environment: SourceEnvironment): EnvironmentInfo {
  const { envId, sdkKey, expiringSdkKey, version: _version, secureMode: _secureMode, ...rest } = environment;
  // an environment may have no server key: then no server SDK may ask for it, whatever it sends
  const current = sdkKey === '' ? [] : [{ value: sdkKey }];
  const expiring =
    expiringSdkKey === undefined ? [] : [{ value: expiringSdkKey.value, expiresMs: expiringSdkKey.timestampMs }];
  return { ...rest, id: envId, name: envId, envId, sdkKeys: [...current, ...expiring] };
}

function environmentOfFiles(source: FileSource): SourceEnvironment {
  const { name, sdkKey, mobileKey, envId, projectKey, ttlMs, secureMode } = source;
  return {
    envId: envId ?? name,
    sdkKey: sdkKey ?? '',
    envName: name,
    ...(mobileKey === undefined ? {} : { mobileKey }),
    ...(projectKey === undefined ? {} : { projKey: projectKey }),
    ttlMs,
    secureMode,
    version: 1,
  };
}
