import { setTimeout as setTimeoutAsync } from 'node:timers/promises';
import { Limiter } from './admission/index.ts';
import type { Config, DataSize, LimitsConfig } from './config/index.ts';
import { explainLimits } from './config/index.ts';
import { Deliveries, setLowWater } from './delivery/index.ts';
import { type Clock, messageOf, systemClock } from './kernel/index.ts';
import { type Log, openLog } from './observability/index.ts';
import { DecisionsService } from './relay/decisions.ts';
import { FlagsService } from './relay/flags.ts';
import { labelIn } from './relay/live-names.ts';
import type { Service } from './relay/service.ts';
import { Sizing, sumOf } from './relay/sizing.ts';
import { openStore } from './relay/store.ts';
import { Telemetry } from './relay/telemetry.ts';
import { healthRoutes, type Route, Server, type StatusPath, watchTls } from './server/index.ts';
import type { Store } from './stores/index.ts';

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
  /** Where operators ask; undefined: nowhere, or its port was taken. */
  readonly adminPort: number | undefined;
  readonly #config: Config;
  readonly #log: Log;
  readonly #server: Server;
  readonly #limiter: Limiter;
  readonly #deliveries: Deliveries;
  readonly #services: readonly Service[];
  readonly #telemetry: Telemetry;
  readonly #store: Store | undefined;
  readonly #stopTls: () => void;
  readonly #sizing: Sizing;
  readonly #loaded: Promise<boolean>;
  #stopping: Promise<void> | undefined;

  private constructor(parts: Parts, port: number) {
    this.port = port;
    this.#config = parts.config;
    this.#log = parts.log;
    this.#server = parts.server;
    this.#limiter = parts.limiter;
    this.#deliveries = parts.deliveries;
    this.#services = parts.services;
    this.#telemetry = parts.telemetry;
    this.adminPort = parts.telemetry.adminPort;
    this.#store = parts.store;
    this.#stopTls = parts.stopTls;
    const { config, clock, log, services } = parts;
    const size = (): DataSize | undefined => sumOf(services.map((service) => service.dataSize?.()));
    this.#sizing = new Sizing({ config, clock, log, size });
    this.#loaded = this.#load();
  }

  /** Starts listening, then loads the sources: clients that come meanwhile wait. Rejects when it cannot listen. */
  static async start(options: RelayOptions): Promise<Relay> {
    const parts = await assemble(options);
    if (options.listen === false) return new Relay(parts, 0);
    const port = await listen(parts);
    await parts.telemetry.start();
    return new Relay(parts, port);
  }

  /** Resolves when every source was tried once: whether all of them could be read. */
  get loaded(): Promise<boolean> {
    return this.#loaded;
  }

  /** Whether there is data for everybody who may ask, and the relay is not about to stop. */
  get ready(): boolean {
    return this.#services.every(({ ready }) => ready);
  }

  /** Looks at the sources now instead of at their next interval. */
  reload(): void {
    for (const service of this.#services) service.reload();
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
    const loaded = await Promise.all(this.#services.map((service) => service.start()));
    if (this.#stopping === undefined) this.#sizing.start();
    return loaded.every(Boolean);
  }

  async #stop(): Promise<void> {
    const { drainDelayMs, graceMs } = this.#config.server;
    this.#sizing.stop();
    for (const service of this.#services) service.leave();
    this.#telemetry.leave();
    this.#log.info({ drainDelayMs, graceMs, streams: this.#streams() }, 'stopping: not ready from now on');
    if (this.port !== 0) await setTimeoutAsync(drainDelayMs);
    this.#log.info({ streams: this.#streams(), deliveries: this.#deliveries.active }, 'draining');
    this.#server.stopAccepting();
    this.#limiter.close();
    const grace = new AbortController();
    const over = setTimeout(() => grace.abort(), graceMs + GRACE_MARGIN_MS);
    await Promise.race([
      Promise.all([this.#idle(grace.signal), ...this.#services.map((service) => service.closeStreams(graceMs))]),
      aborted(grace.signal),
    ]);
    clearTimeout(over);
    this.#deliveries.shutdown();
    // one that hangs in a read must not hold the end of the process
    await Promise.race([
      Promise.all(this.#services.map((service) => service.stop())),
      setTimeoutAsync(SERVICE_STOP_MS_MAX),
    ]);
    await Promise.race([this.#store?.close(), setTimeoutAsync(SERVICE_STOP_MS_MAX)]);
    this.#server.closeIdle();
    await Promise.race([this.#telemetry.stop(), setTimeoutAsync(SERVICE_STOP_MS_MAX)]);
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
    return this.#services.reduce((sum, { streams }) => sum + streams, 0);
  }
}

/** Without limits nobody tells that the last delivery has ended; at the end of a process's life a look is cheap. */
const IDLE_LOOK_MS = 50;

const SERVICE_STOP_MS_MAX = 2000;

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
  readonly services: readonly Service[];
  readonly telemetry: Telemetry;
  readonly store: Store | undefined;
  readonly stopTls: () => void;
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
  const { limits } = config;
  const services: Service[] = [];
  const pinnedBytes = (): number => services.reduce((sum, service) => sum + service.pinnedBytes, 0);
  const limiter = makeLimiter(limits, clock, pinnedBytes);
  const deliveries = new Deliveries({
    clock,
    turnBytesMax: limits.turnBytesMax,
    // what may not be loaded for the mark is not loaded to ask for numbers either
    askKernel: limits.lowWaterMarkBytes !== undefined,
    ...deadlineOf(limits),
  });
  const unkept = { version: VERSION, config, clock, log, limiter, deliveries };
  const store = await openStore(unkept);
  const shared = { ...unkept, store };
  // with nothing configured, flags: their environments may come later
  if (hasFlags(config) || !config.decisions.enabled) services.push(await FlagsService.open(shared));
  if (config.decisions.enabled) services.push(await DecisionsService.open(shared));
  log.call((name) => labelIn(services, name) ?? name);
  const health = healthRoutes({
    ready: () => services.every(({ ready }) => ready),
    status: () => statusOf({ services, limiter, deliveries }),
    statusAt: (path) => statusAt(services, path),
  });
  const routes = [...services.flatMap((service) => service.routes), ...health];
  const { server, stopTls } = await makeServer(config, clock, log, routes);
  const activeRequests = (): number => server.activeRequests;
  const telemetry = new Telemetry({ ...shared, services, activeRequests, routes: health });
  return { config, clock, log, server, limiter, deliveries, services, telemetry, store, stopTls };
}

function hasFlags({ flags, environments, autoConfig }: Config): boolean {
  return flags.sources.length > 0 || environments.length > 0 || autoConfig !== undefined;
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
      // what may not be loaded for the mark is not loaded to ask for receipts either
      askKernel: config.limits.lowWaterMarkBytes !== undefined,
      onFailure: (error, path) => log.error({ err: error, path }, 'request failed'),
    },
    routes,
  );
  return { server, stopTls: () => watched?.stop() };
}

/** One environment, of whichever service has it. */
function statusAt(services: readonly Service[], path: StatusPath): object | 'unknown' | 'not yet' {
  const answers = services.flatMap((service) => service.statusAt?.(path) ?? []);
  return answers.find((answer) => typeof answer === 'object') ?? answers[0] ?? 'unknown';
}

/** What `/status` says: the vendor's members, and a block of our own that shows the budget. */
function statusOf({ services, limiter, deliveries }: Pick<Parts, 'services' | 'limiter' | 'deliveries'>): object {
  const states = services.map((service) => service.status());
  const streams = services.reduce((sum, service) => sum + service.streams, 0);
  return {
    ...Object.assign({}, ...states.map(({ members }) => members)),
    status: states.every(({ healthy }) => healthy) ? 'healthy' : 'degraded',
    version: VERSION,
    clientVersion: `headgate-${VERSION}`,
    headgate: { streams, admission: limiter.stats(), deliveries: deliveries.stats() },
  };
}
