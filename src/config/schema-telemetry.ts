import type { z } from 'zod';
import { baseUrl, boolean, duration, integer, secret, section, text, word } from './scalars.ts';
import { put, type SchemaIssue, spread } from './schema-parts.ts';
import type { Config, Mutable } from './types.ts';

const HOUR_MS = 3_600_000;

/** The `admin` section of our own file. */
interface AdminSettings {
  readonly mode?: 'on' | 'off' | undefined;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly token?: string | undefined;
  readonly openMetrics?: boolean | undefined;
}

/** The `otlp` section of our own file. */
interface OtlpSettings {
  readonly mode?: 'auto' | 'off' | undefined;
  readonly endpoint?: string | undefined;
  readonly metrics?: boolean | undefined;
  readonly traces?: boolean | undefined;
  readonly interval?: number | undefined;
}

export const adminSchema: z.ZodType<AdminSettings> = spread(
  ['mode'],
  section({
    mode: word('on', 'off').optional(),
    host: text('an address to bind').optional(),
    port: integer({ min: 0, max: 65_535 }).optional(),
    token: secret('a token').optional(),
    openMetrics: boolean().optional(),
  }),
);

export const otlpSchema: z.ZodType<OtlpSettings> = spread(
  ['mode'],
  section({
    mode: word('auto', 'off').optional(),
    endpoint: baseUrl().optional(),
    metrics: boolean().optional(),
    traces: boolean().optional(),
    interval: duration({ min: 1000, max: HOUR_MS }).optional(),
  }),
);

/** What our own file says of both, to be settled together with the environment. */
export interface TelemetryAsked {
  readonly adminHost: boolean;
  readonly adminAt: string;
  readonly otlp: OtlpSettings;
}

export const NO_TELEMETRY_ASKED: TelemetryAsked = { adminHost: false, adminAt: 'admin', otlp: {} };

/** Reads both sections into `draft`. */
export function applyTelemetry(
  { admin = {}, otlp = {} }: { readonly admin?: AdminSettings | undefined; readonly otlp?: OtlpSettings | undefined },
  draft: Mutable<Config>,
  adminAt: string,
): TelemetryAsked {
  if (admin.mode !== undefined) draft.admin.enabled = admin.mode === 'on';
  put(draft.admin, 'host', admin.host);
  put(draft.admin, 'port', admin.port);
  put(draft.admin, 'token', admin.token);
  put(draft.admin, 'openMetrics', admin.openMetrics);
  put(draft.otlp, 'intervalMs', otlp.interval);
  return { adminHost: admin.host !== undefined, adminAt, otlp };
}

/** `off` leaves nothing for the settings beside it to say. */
export function* telemetryConflicts(
  settings: Readonly<Record<'admin' | 'otlp', object | undefined>>,
): Generator<SchemaIssue> {
  for (const [name, section] of Object.entries(settings)) {
    const { mode, ...rest } = (section ?? {}) as { mode?: string };
    if (mode !== 'off') continue;
    for (const [key, value] of Object.entries(rest)) {
      if (value === undefined) continue;
      yield { path: [name, key], message: `has no effect while ${name}.mode is off: remove it, or the mode` };
    }
  }
}
