import { describeDecisions } from './describe-decisions.ts';
import { describeFlags, describeStore } from './describe-service.ts';
import { explainLimits } from './limits.ts';
import type { ClientVerification, Config } from './types.ts';
import { formatBytes, formatDuration } from './values.ts';

const ORIGINS: Readonly<Record<Config['origin'], string>> = {
  default: 'defaults',
  environment: 'our own variables',
  vendor: "the vendor's names",
  yaml: 'our own names',
};

/** What is asked of clients over TLS. */
const CLIENTS: Readonly<Record<ClientVerification, string>> = {
  none: '',
  request: ', client certificates requested',
  'verify-if-given': ', client certificates verified if given',
  require: ', client certificates required',
};

function listening({ server, exit }: Config): string[] {
  if (exit.always) return ['Listens on: nothing; ends as soon as every source has loaded once'];
  const { host, port, tls } = server;
  const address = host === undefined ? 'every address' : host;
  const versions = server.http2 ? 'HTTP/1.1 and HTTP/2' : 'HTTP/1.1';
  const security =
    tls === undefined
      ? 'no TLS'
      : `TLS ${tls.minVersion} or newer with ${tls.certPath} and ${tls.keyPath}${CLIENTS[tls.clientVerification ?? 'none']}`;
  return [
    `Listens on: ${address}, ${port === 0 ? 'any free port' : `port ${port}`}, ${versions}, ${security}`,
    `  at most ${formatBytes(server.headerBytesMax)} of headers in ${formatDuration(server.headersTimeoutMs)}, ${formatBytes(server.bodyBytesMax)} of body, ${server.http2ConcurrentStreamsMax} streams per HTTP/2 connection`,
    `  on shutdown: ${formatDuration(server.drainDelayMs)} not ready but serving, then ${formatDuration(server.graceMs)} for deliveries to finish`,
  ];
}

function exits({ exit }: Config): string[] {
  if (!exit.onError) return [];
  const unless = exit.ignoreConnectionErrors ? ', but for a service that cannot be reached' : '';
  return [`Ends: when something cannot be loaded at start${unless}`];
}

function telemetry({ admin, otlp, exit }: Config): string[] {
  const lines: string[] = [];
  if (admin.enabled && !exit.always) {
    const address = `${admin.host ?? 'every address'}, ${admin.port === 0 ? 'any free port' : `port ${admin.port}`}`;
    const who = admin.token === undefined ? 'no token' : 'a token is wanted';
    const open = admin.openMetrics ? ', /metrics answers anybody' : '';
    lines.push(`Admin: metrics, health and status on ${address}, ${who}${open}`);
  }
  const signals = (['metrics', 'traces'] as const).filter((signal) => otlp[signal]);
  if (signals.length > 0) {
    const where = otlp.metricsUrl ?? otlp.tracesUrl;
    const to = where === undefined ? "where OpenTelemetry's variables say" : `as ${where}`;
    lines.push(`OTLP: ${signals.join(' and ')}, ${to}, metrics every ${formatDuration(otlp.intervalMs)}`);
  }
  return lines;
}

function off(config: Config): string[] {
  const { flags: front, limits, server, events, exit, decisions, store, admin, otlp } = config;
  const list = [
    limits.enabled ? undefined : 'limits',
    limits.enabled && !limits.parking ? 'parking' : undefined,
    limits.enabled && limits.fairness === 'off' ? 'fairness between environments' : undefined,
    limits.lowWaterMarkBytes === undefined ? 'low-water mark' : undefined,
    server.tls === undefined ? 'TLS' : undefined,
    server.http2 ? undefined : 'HTTP/2',
    front.compression === 'off' ? 'compression' : undefined,
    front.catchUp === 'off' ? 'catch-up' : undefined,
    events.send ? undefined : 'events',
    admin.enabled ? undefined : 'admin listener',
    otlp.metrics || otlp.traces ? undefined : 'OTLP',
    exit.onError ? undefined : 'exit on error',
    decisions.enabled && !decisions.passthrough ? 'pass-through' : undefined,
    decisions.enabled && store.type === 'none' ? 'store' : undefined,
  ];
  return [`Off: ${list.filter((name) => name !== undefined).join(', ')}`];
}

/**
 * What will happen under this configuration, in plain lines. Keys show their last four characters only.
 *
 * @example
 * const lines = describeConfig(defaultConfig()).split('\n');
 * console.log(lines[0]); // Configuration: no file (defaults)
 * console.log(lines[1]); // Listens on: every address, port 8030, HTTP/1.1 and HTTP/2, no TLS
 */
export function describeConfig(config: Config): string {
  return [
    `Configuration: ${config.file ?? 'no file'} (${ORIGINS[config.origin]})`,
    ...listening(config),
    ...describeFlags(config),
    ...describeDecisions(config),
    ...describeStore(config),
    `Limits: ${explainLimits(config.limits, config.machine)}`,
    `  ${formatBytes(config.limits.turnBytesMax)} per turn of the event loop${config.limits.lowWaterMarkBytes === undefined ? '' : `, low-water mark ${formatBytes(config.limits.lowWaterMarkBytes)}`}`,
    ...telemetry(config),
    ...exits(config),
    `Log: ${config.log.level}, ${config.log.format}`,
    ...off(config),
  ].join('\n');
}
