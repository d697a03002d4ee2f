import type { Problems } from './problems.ts';
import type { TelemetryAsked } from './schema-telemetry.ts';
import type { VendorSettings } from './settings.ts';
import type { Config, Mutable, Variables } from './types.ts';
import { parseBoolean, parseInteger, parseListenAddress } from './values.ts';

/** Variables of our own about metrics; those of OpenTelemetry count beside them. */
export const TELEMETRY_VARIABLES: readonly string[] = ['HEADGATE_ADMIN', 'HEADGATE_ADMIN_TOKEN'];

/** What the vendor puts before its names in Prometheus. */
const RELAY_PREFIX = 'launchdarkly_relay';
const PREFIX = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/** Everything that says something about metrics and traces. */
export interface TelemetrySources {
  readonly variables: Variables;
  readonly settings: VendorSettings;
  readonly asked: TelemetryAsked;
}

/** Fills in where operators may ask, and what goes to a collector, from the file and the environment together. */
export function settleTelemetry(draft: Mutable<Config>, sources: TelemetrySources, problems: Problems): void {
  applyVendorPrometheus(draft.admin, sources, problems);
  readAdminVariables(draft.admin, sources.variables, problems);
  checkAdmin(draft.admin, sources, problems);
  settleOtlp(draft.otlp, sources, problems);
}

/** The vendor's exporter listens on every address and answers anybody: so does ours, for that one page. */
function applyVendorPrometheus(
  admin: Mutable<Config['admin']>,
  { settings, asked }: TelemetrySources,
  problems: Problems,
): void {
  const port = settings.number('Prometheus', 'port');
  if (port !== undefined && port > 65_535) {
    problems.error(settings.where('Prometheus', 'port'), `expected a port between 1 and 65535, got ${port}`);
  } else if (port !== undefined) admin.port = port;
  if (settings.flag('Prometheus', 'enabled') !== true) return;
  admin.enabled = true;
  admin.openMetrics = true;
  if (!asked.adminHost) admin.host = undefined;
  const prefix = settings.text('Prometheus', 'prefix') ?? RELAY_PREFIX;
  if (PREFIX.test(prefix)) admin.relay8Prefix = prefix;
  else {
    problems.error(
      settings.where('Prometheus', 'prefix'),
      `expected letters, digits and underscores, got ${JSON.stringify(prefix)}`,
    );
  }
}

function textOf(variables: Variables, name: string): string | undefined {
  const text = variables[name]?.trim();
  return text === '' ? undefined : text;
}

function readAdminVariables(admin: Mutable<Config['admin']>, variables: Variables, problems: Problems): void {
  admin.token = textOf(variables, 'HEADGATE_ADMIN_TOKEN') ?? admin.token;
  const text = textOf(variables, 'HEADGATE_ADMIN');
  if (text === undefined) return;
  admin.enabled = text !== 'off';
  if (!admin.enabled) return;
  const parsed = parseListenAddress(text);
  if (!parsed.ok) {
    problems.error('HEADGATE_ADMIN', `expected ${parsed.expected}, or off, got ${JSON.stringify(text)}`);
    return;
  }
  admin.host = parsed.value.host;
  admin.port = parsed.value.port;
}

function checkAdmin(
  { enabled, host, token, openMetrics }: Mutable<Config['admin']>,
  { variables, asked, settings }: TelemetrySources,
  problems: Problems,
): void {
  if (!enabled || token !== undefined || isLoopback(host)) return;
  const where =
    textOf(variables, 'HEADGATE_ADMIN') === undefined
      ? asked.adminHost
        ? asked.adminAt
        : settings.where('Prometheus', 'enabled')
      : 'HEADGATE_ADMIN';
  const others = host === undefined ? 'every address' : host;
  if (openMetrics) {
    problems.info(where, `on ${others} only /metrics is answered: the rest wants admin.token (HEADGATE_ADMIN_TOKEN)`);
  } else {
    problems.error(
      where,
      `expected a token, since ${others} may be reached by others, got none: set admin.token (HEADGATE_ADMIN_TOKEN), or listen on 127.0.0.1`,
    );
  }
}

function isLoopback(host: string | undefined): boolean {
  return host !== undefined && /^(localhost|127(\.\d{1,3}){3}|::1)$/i.test(host);
}

const SIGNALS = [
  { signal: 'metrics', url: 'metricsUrl', exporter: 'metricsExporter' },
  { signal: 'traces', url: 'tracesUrl', exporter: 'tracesExporter' },
] as const;

/**
 * A signal goes out when its exporter is named, or when nobody says otherwise and the address of a collector is known. The
 * vendor's switch asks for exporters by name, and turned off it turns all of them off.
 */
function settleOtlp(otlp: Mutable<Config['otlp']>, sources: TelemetrySources, problems: Problems): void {
  const { variables, settings, asked } = sources;
  const vendor = settings.flag('OpenTelemetry', 'enabled');
  const disabled = parseBoolean(textOf(variables, 'OTEL_SDK_DISABLED') ?? '', 'env');
  if (asked.otlp.mode === 'off' || vendor === false || (disabled.ok && disabled.value)) return;
  for (const { signal, url, exporter } of SIGNALS) {
    const upper = signal.toUpperCase();
    const byVariable =
      textOf(variables, `OTEL_EXPORTER_OTLP_${upper}_ENDPOINT`) ?? textOf(variables, 'OTEL_EXPORTER_OTLP_ENDPOINT');
    const { endpoint } = asked.otlp;
    const named = textOf(variables, `OTEL_${upper}_EXPORTER`) ?? settings.text('OpenTelemetry', exporter);
    const known = byVariable !== undefined || endpoint !== undefined;
    otlp[signal] =
      named === undefined
        ? (asked.otlp[signal] ?? (known && vendor !== true))
        : named.split(',').some((each) => each.trim() === 'otlp');
    // without one the SDK reads the variables, which say more than the address
    if (byVariable === undefined && endpoint !== undefined) otlp[url] = `${endpoint}/v1/${signal}`;
  }
  if (!otlp.metrics && !otlp.traces) return;
  readInterval(otlp, variables, problems);
  const protocol = textOf(variables, 'OTEL_EXPORTER_OTLP_PROTOCOL') ?? settings.text('OpenTelemetry', 'protocol');
  if (protocol !== 'grpc') return;
  problems.warn(
    'OTEL_EXPORTER_OTLP_PROTOCOL',
    'grpc is not supported: JSON over HTTP is sent, which collectors take at port 4318 by default',
  );
}

function readInterval(otlp: Mutable<Config['otlp']>, variables: Variables, problems: Problems): void {
  const text = textOf(variables, 'OTEL_METRIC_EXPORT_INTERVAL');
  if (text === undefined) return;
  const parsed = parseInteger(text);
  if (parsed.ok && parsed.value >= 1) otlp.intervalMs = parsed.value;
  else problems.error('OTEL_METRIC_EXPORT_INTERVAL', `expected milliseconds, got ${JSON.stringify(text)}`);
}
