import { INTERVAL_MS_MIN } from './defaults.ts';
import type { Problems } from './problems.ts';
import type { ServicePlaces } from './service-draft.ts';
import type { VendorSettings } from './settings.ts';
import type { Config, LimitsSpec, LogLevel, Mutable, TlsVersion } from './types.ts';
import { formatDuration } from './values.ts';
import { clamped } from './vendor-bounds.ts';
import { applyService } from './vendor-service.ts';

/** The vendor's bounds on its own limits. */
const SLOTS_MAX = 65_536;
const QUEUE_MAX = 1_000_000;
const SEND_TIMEOUT_MS_MIN = 5000;

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

function applyFlags(
  settings: VendorSettings,
  problems: Problems,
  flags: Mutable<Config['flags']>,
  places: ServicePlaces,
): void {
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
  places.set('archive', settings.where('OfflineMode', 'fileDataSource'));
  const prefix = settings.text('OfflineMode', 'envDatastorePrefix');
  const tableName = settings.text('OfflineMode', 'envDatastoreTableName');
  flags.sources = [
    {
      type: 'archive',
      path,
      intervalMs: clamped(settings, problems, ['OfflineMode', 'fileDataSourceMonitoringInterval'], interval) ?? 1000,
      allowedOrigins: [...settings.list('OfflineMode', 'envAllowedOrigin')],
      allowedHeaders: [...settings.list('OfflineMode', 'envAllowedHeader')],
      ...(prefix === undefined ? {} : { prefix }),
      ...(tableName === undefined ? {} : { tableName }),
    },
  ];
}

/** Lays the vendor's settings over `draft`, and notes where each stands. What they do not say stays as it is. */
export function applyVendorSettings(
  settings: VendorSettings,
  draft: Mutable<Config>,
  places: ServicePlaces,
  problems: Problems,
): void {
  applyServer(settings, problems, draft.server);
  applyFlags(settings, problems, draft.flags, places);
  applyService(settings, draft, places, problems);
  draft.exit.onError = settings.flag('Main', 'exitOnError') ?? draft.exit.onError;
  draft.exit.always = settings.flag('Main', 'exitAlways') ?? draft.exit.always;
  draft.exit.ignoreConnectionErrors =
    settings.flag('Main', 'ignoreConnectionErrors') ?? draft.exit.ignoreConnectionErrors;
  draft.log.level = logLevel(settings.text('Main', 'logLevel')) ?? draft.log.level;
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
