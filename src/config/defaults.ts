import { resolveLimits } from './limits.ts';
import { machineMemory } from './machine.ts';
import type { Config, EnvironmentConfig, Machine, Mutable } from './types.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

/** Evaluated flags that are kept, and events that are held, each. */
const SHARE = 16;
const SHARE_BYTES_MIN = 4 * MIB;
const SHARE_BYTES_MAX = 64 * MIB;

/** What is allowed of each interval at least: a file read more often costs more than it tells. */
export const INTERVAL_MS_MIN = 100;

/** What stands for an environment's ID in prefixes and names of tables. */
export const ID_PLACEHOLDER = '$CID';

/** What stands before the keys of an environment in Redis that names no prefix. */
export const REDIS_PREFIX = 'launchdarkly';

/** This machine, as far as it is known before the server was asked for the low-water mark. */
export function thisMachine(): Machine {
  return { memoryLimitBytes: machineMemory().memoryLimitBytes, lowWater: false };
}

/** The defaults, to be filled in. Limits are those of our own names; a reader decides otherwise. */
export function draftConfig(machine: Machine): Mutable<Config> {
  return {
    origin: 'default',
    file: undefined,
    machine: { ...machine },
    server: {
      host: undefined,
      port: 8030,
      tls: undefined,
      http2: true,
      // A fleet that reconnects in one second fills the usual 511 at once.
      backlog: 4096,
      headersTimeoutMs: 10_000,
      requestTimeoutMs: 30_000,
      // Above the 60 s after which common load balancers drop an idle connection: they must be the first to close it.
      keepAliveTimeoutMs: 65_000,
      headerBytesMax: 16 * KIB,
      bodyBytesMax: 5 * MIB,
      // More would let the pending bytes of one HTTP/2 connection pass Node's 10 MB session memory.
      http2ConcurrentStreamsMax: 100,
      drainDelayMs: 5000,
      graceMs: 30_000,
    },
    limits: { ...resolveLimits('auto', machine) },
    flags: {
      heartbeatMs: 180_000,
      connectionMsMax: undefined,
      compression: 'auto',
      retryMs: undefined,
      catchUp: 'safe',
      aheadWaitMs: 5000,
      logBatchesMax: 10_000,
      logBytesMax: 64 * MIB,
      initTimeoutMs: 10_000,
      disconnectedStatusMs: 60_000,
      credentialCleanupMs: 60_000,
      pingJitterMs: 0,
      upstreamProtocol: 'auto',
      evaluation: { threads: 'auto', cacheBytesMax: shareOf(machine) },
      bigSegments: { staleAsDegraded: false, staleThresholdMs: 300_000 },
      sources: [],
    },
    decisions: {
      enabled: false,
      sources: [],
      keys: [],
      keyFilePath: undefined,
      delegate: false,
      passthrough: false,
      waitMsMax: 2000,
      granularityMs: 5000,
      startWaitMs: 10_000,
      pageItemsMax: 10_000,
      cursorsPerKeyMax: 4096,
      pollMs: 10_000,
      trustedProxies: [],
      bouncersAllowedOu: [],
    },
    store: { type: 'none', path: '' },
    environments: [],
    exit: { onError: false, always: false, ignoreConnectionErrors: false },
    ...service(machine),
    ...outputs(),
  };
}

/** What is held for a while is given a sixteenth of the memory, and no more than is of use. */
function shareOf({ memoryLimitBytes }: Machine): number {
  return Math.min(SHARE_BYTES_MAX, Math.max(SHARE_BYTES_MIN, Math.floor(memoryLimitBytes / SHARE)));
}

/** What has to do with the vendor's service and the databases of its relay. */
function service(
  machine: Machine,
): Pick<Mutable<Config>, 'autoConfig' | 'dynamoDb' | 'events' | 'outbound' | 'redis' | 'upstream'> {
  return {
    autoConfig: undefined,
    events: {
      send: false,
      uri: 'https://events.launchdarkly.com',
      flushIntervalMs: 5000,
      capacity: 1000,
      inlineUsers: false,
      inboundPayloadBytesMax: undefined,
      heldBytesMax: shareOf(machine),
    },
    upstream: {
      streamUri: 'https://stream.launchdarkly.com',
      baseUri: 'https://sdk.launchdarkly.com',
      clientSideBaseUri: 'https://clientsdk.launchdarkly.com',
    },
    outbound: { proxy: undefined, caPaths: [] },
    redis: undefined,
    dynamoDb: undefined,
  };
}

function outputs(): Pick<Mutable<Config>, 'log' | 'admin' | 'otlp'> {
  const admin = { enabled: true, host: '127.0.0.1', port: 8031, token: undefined, openMetrics: false };
  return {
    log: { level: 'info', format: 'json' },
    admin: { ...admin, relay8Prefix: undefined },
    otlp: { metrics: false, traces: false, metricsUrl: undefined, tracesUrl: undefined, intervalMs: 60_000 },
  };
}

/** An environment of which only the name is known. */
export function newEnvironment(name: string): Mutable<EnvironmentConfig> {
  return {
    name,
    sdkKey: '',
    mobileKey: undefined,
    envId: undefined,
    projectKey: undefined,
    filterKeys: [],
    prefix: undefined,
    tableName: undefined,
    allowedOrigins: [],
    allowedHeaders: [],
    secureMode: false,
    logLevel: undefined,
    ttlMs: 0,
  };
}

/** Freezes a value and everything in it. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) deepFreeze(inner);
  return Object.freeze(value);
}

/**
 * The configuration of someone who configured nothing: port 8030, `limits: auto`, no sources.
 *
 * @example
 * const config = defaultConfig();
 * console.log(config.server.port, config.limits.mode, config.flags.sources); // 8030 auto []
 */
export function defaultConfig(machine: Machine = thisMachine()): Config {
  return deepFreeze(draftConfig(machine));
}
