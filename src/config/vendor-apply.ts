import { INTERVAL_MS_MIN } from './defaults.ts';
import type { Problems } from './problems.ts';
import { flagOf, listOf, numberOf, type SettingGroup, textOf, type VendorSettings } from './settings.ts';
import type { Config, EnvironmentConfig, LimitsSpec, LogLevel, Mutable, TlsVersion } from './types.ts';
import { formatDuration } from './values.ts';

/** The vendor's bounds on its own limits. */
const SLOTS_MAX = 65_536;
const QUEUE_MAX = 1_000_000;
const SEND_TIMEOUT_MS_MIN = 5000;
const METRICS_CAPACITY_MIN = 1000;
/** What the vendor took as its base address before; a default in disguise. */
const OLD_BASE_URI = 'https://app.launchdarkly.com';

/** Brings a number into bounds, with a warning, as the vendor does; undefined stays undefined. */
function clamped(
  settings: VendorSettings,
  problems: Problems,
  setting: readonly [section: string, key: string],
  bounds: { readonly min?: number; readonly max?: number; readonly write?: (value: number) => string },
): number | undefined {
  const found = settings.get(...setting);
  const value = numberOf(found);
  if (found === undefined || value === undefined) return undefined;
  const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY, write = String } = bounds;
  const used = Math.min(max, Math.max(min, value));
  if (used !== value) {
    const bound = value < min ? 'at least' : 'at most';
    problems.warn(
      found.where,
      `${found.called}: expected ${bound} ${write(used)}, got ${write(value)}; ${write(used)} is used`,
    );
  }
  return used;
}

function logLevel(text: string | undefined): LogLevel | undefined {
  return text as LogLevel | undefined; // The reader lets no other word through.
}

function applyServer(settings: VendorSettings, problems: Problems, server: Mutable<Config['server']>): void {
  server.port = settings.number('Main', 'port') ?? server.port;
  server.graceMs = settings.number('Main', 'gracefulShutdownTimeout') ?? server.graceMs;
  server.bodyBytesMax = settings.number('Main', 'maxClientRequestBodySize') ?? server.bodyBytesMax;
  const enabled = settings.flag('Main', 'tlsEnabled') ?? server.tls !== undefined;
  const certPath = settings.text('Main', 'tlsCert') ?? server.tls?.certPath;
  const keyPath = settings.text('Main', 'tlsKey') ?? server.tls?.keyPath;
  const minVersion =
    (settings.text('Main', 'tlsMinVersion') as TlsVersion | undefined) ?? server.tls?.minVersion ?? '1.2';
  if (enabled && (certPath === undefined || keyPath === undefined)) {
    const missing = [certPath === undefined ? 'tlsCert' : '', keyPath === undefined ? 'tlsKey' : ''];
    problems.error(
      settings.where('Main', 'tlsEnabled'),
      `TLS is enabled without ${missing.filter((key) => key !== '').join(' and ')}: give the paths of the PEM files, or disable TLS`,
    );
  }
  server.tls =
    enabled && certPath !== undefined && keyPath !== undefined
      ? { ...server.tls, certPath, keyPath, minVersion }
      : undefined;
}

function applyFlags(settings: VendorSettings, problems: Problems, flags: Mutable<Config['flags']>): void {
  const interval = { min: INTERVAL_MS_MIN, write: formatDuration };
  flags.heartbeatMs = clamped(settings, problems, ['Main', 'heartbeatInterval'], interval) ?? flags.heartbeatMs;
  const connectionMs = settings.number('Main', 'maxClientConnectionTime');
  if (connectionMs !== undefined) flags.connectionMsMax = connectionMs === 0 ? undefined : connectionMs;
  flags.initTimeoutMs = settings.number('Main', 'initTimeout') ?? flags.initTimeoutMs;
  flags.disconnectedStatusMs = settings.number('Main', 'disconnectedStatusTime') ?? flags.disconnectedStatusMs;
  flags.credentialCleanupMs =
    clamped(settings, problems, ['Main', 'expiredCredentialCleanupInterval'], interval) ?? flags.credentialCleanupMs;
  const compress = settings.flag('Http', 'enableCompression');
  if (compress !== undefined) flags.compression = compress ? 'auto' : 'off';
  const path = settings.text('OfflineMode', 'fileDataSource');
  if (path === undefined) return;
  flags.sources = [
    {
      type: 'archive',
      path,
      intervalMs: clamped(settings, problems, ['OfflineMode', 'fileDataSourceMonitoringInterval'], interval) ?? 1000,
      allowedOrigins: [...settings.list('OfflineMode', 'envAllowedOrigin')],
      allowedHeaders: [...settings.list('OfflineMode', 'envAllowedHeader')],
    },
  ];
}

function environmentOf(name: string, group: SettingGroup, settings: VendorSettings): Mutable<EnvironmentConfig> {
  const projectKey = textOf(group.get('projKey'));
  const filters = projectKey === undefined ? undefined : settings.filters.get(projectKey);
  return {
    name,
    sdkKey: textOf(group.get('sdkKey')) ?? '',
    mobileKey: textOf(group.get('mobileKey')),
    envId: textOf(group.get('envId')),
    projectKey,
    filterKeys: [...listOf(filters?.get('keys'))],
    prefix: textOf(group.get('prefix')),
    tableName: textOf(group.get('tableName')),
    allowedOrigins: [...listOf(group.get('allowedOrigin'))],
    allowedHeaders: [...listOf(group.get('allowedHeader'))],
    secureMode: flagOf(group.get('secureMode')) ?? false,
    logLevel: logLevel(textOf(group.get('logLevel'))),
    ttlMs: numberOf(group.get('ttl')) ?? 0,
  };
}

function applyUpstream(settings: VendorSettings, problems: Problems, draft: Mutable<Config>): void {
  const { upstream, events } = draft;
  const baseUri = settings.text('Main', 'baseUri');
  const custom = baseUri !== undefined && baseUri !== upstream.baseUri && baseUri !== OLD_BASE_URI;
  // A private instance of the service answers browsers at the same address.
  upstream.clientSideBaseUri =
    settings.text('Main', 'clientSideBaseUri') ?? (custom ? baseUri : upstream.clientSideBaseUri);
  upstream.baseUri = custom ? baseUri : upstream.baseUri;
  upstream.streamUri = settings.text('Main', 'streamUri') ?? upstream.streamUri;
  events.send = settings.flag('Events', 'sendEvents') ?? events.send;
  events.uri = settings.text('Events', 'eventsUri') ?? events.uri;
  events.flushIntervalMs = settings.number('Events', 'flushInterval') ?? events.flushIntervalMs;
  events.capacity = settings.number('Events', 'capacity') ?? events.capacity;
  events.inlineUsers = settings.flag('Events', 'inlineUsers') ?? events.inlineUsers;
  events.inboundPayloadBytesMax = settings.number('Events', 'maxInboundPayloadSize') ?? events.inboundPayloadBytesMax;
  clamped(settings, problems, ['Events', 'metricsCapacity'], { min: METRICS_CAPACITY_MIN });
}

/** Lays the vendor's settings over `draft`. What they do not say stays as it is. */
export function applyVendorSettings(settings: VendorSettings, draft: Mutable<Config>, problems: Problems): void {
  applyServer(settings, problems, draft.server);
  applyFlags(settings, problems, draft.flags);
  applyUpstream(settings, problems, draft);
  draft.exit.onError = settings.flag('Main', 'exitOnError') ?? draft.exit.onError;
  draft.exit.always = settings.flag('Main', 'exitAlways') ?? draft.exit.always;
  draft.exit.ignoreConnectionErrors =
    settings.flag('Main', 'ignoreConnectionErrors') ?? draft.exit.ignoreConnectionErrors;
  draft.log.level = logLevel(settings.text('Main', 'logLevel')) ?? draft.log.level;
  for (const [name, group] of settings.environments) draft.environments.push(environmentOf(name, group, settings));
}

/** What the vendor's settings ask of the limits; fields they do not mention are absent. */
export function vendorLimits(settings: VendorSettings, problems: Problems): Omit<LimitsSpec, 'mode'> {
  const slots = clamped(settings, problems, ['Concurrency', 'maxConcurrent'], { min: 0, max: SLOTS_MAX });
  const queue = clamped(settings, problems, ['Concurrency', 'maxQueued'], { min: 0, max: QUEUE_MAX });
  const unset = settings.number('Concurrency', 'sendTimeout') === 0;
  const sendTimeoutMs = unset
    ? undefined
    : clamped(settings, problems, ['Concurrency', 'sendTimeout'], { min: SEND_TIMEOUT_MS_MIN, write: formatDuration });
  return {
    ...(slots === undefined ? {} : { slots }),
    ...(queue === undefined ? {} : { queue }),
    ...(sendTimeoutMs === undefined ? {} : { sendTimeoutMs }),
  };
}
