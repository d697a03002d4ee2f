import { z } from 'zod';
import { applyDecisions, type WhereOf } from './decisions-apply.ts';
import type { DecisionsDraft } from './decisions-draft.ts';
import {
  boolean,
  bytes,
  bytesOr,
  duration,
  durationOr,
  integer,
  kindOf,
  link,
  section,
  text,
  word,
} from './scalars.ts';
import { decisionsConflicts, decisionsSchema } from './schema-decisions.ts';
import { list, put, type SchemaIssue, spread } from './schema-parts.ts';
import { applyServiceSettings, outboundSchema, serviceConflicts, serviceShape } from './schema-service.ts';
import { applyStore, storeConflicts, storeSchema } from './schema-store.ts';
import { sourceConflicts, sourceOf, sourceSchema } from './schema-sources.ts';
import {
  adminSchema,
  applyTelemetry,
  NO_TELEMETRY_ASKED,
  otlpSchema,
  type TelemetryAsked,
  telemetryConflicts,
} from './schema-telemetry.ts';
import type { Config, LimitsSpec, Mutable, TlsConfig } from './types.ts';
import {
  apiSchema,
  applyApi,
  ignoredIssues,
  IGNORED_SECTIONS,
  type StreamLimits,
  streamLimitsOf,
} from './vendor-lapi.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const INFINITE: number = Number.POSITIVE_INFINITY;

const server = section({
  host: text('an address to bind').optional(),
  port: integer({ min: 0, max: 65_535 }).optional(),
  tls: section({
    cert: text('the path of a PEM file'),
    key: text('the path of a PEM file'),
    minVersion: word('1.0', '1.1', '1.2', '1.3').optional(),
    clientCa: text('the path of a PEM file').optional(),
    clientVerification: word('none', 'request', 'verify-if-given', 'require').optional(),
  }).optional(),
  http2: boolean().optional(),
  backlog: integer({ min: 1, max: 65_535 }).optional(),
  headersTimeout: duration({ min: 1000, max: HOUR_MS }).optional(),
  requestTimeout: duration({ min: 1000, max: HOUR_MS }).optional(),
  keepAliveTimeout: duration({ min: 1000, max: HOUR_MS }).optional(),
  maxHeaderBytes: bytes({ min: 4 * KIB, max: MIB }).optional(),
  maxBodyBytes: bytes({ min: KIB, max: GIB }).optional(),
  drainDelay: duration({ min: 0, max: HOUR_MS }).optional(),
  grace: duration({ min: 0, max: HOUR_MS }).optional(),
  http2MaxConcurrentStreams: integer({ min: 1, max: 10_000 }).optional(),
});

const limits = spread(
  ['mode'],
  section({
    mode: word('auto', 'off').optional(),
    slots: integer({ min: 1, max: 65_536 }).optional(),
    queue: integer({ min: 0, max: 1_000_000 }).optional(),
    wait: spread(
      ['stream', 'poll', 'decisions'],
      section({
        stream: durationOr('off', INFINITE, { min: 0, max: HOUR_MS }).optional(),
        poll: durationOr('off', INFINITE, { min: 0, max: HOUR_MS }).optional(),
        decisions: durationOr('off', INFINITE, { min: 0, max: HOUR_MS }).optional(),
      }),
    ).optional(),
    parked: integer({ min: 0, max: 65_536 }).optional(),
    pinnedBytes: bytesOr('off', INFINITE, { min: MIB, max: Number.MAX_SAFE_INTEGER }).optional(),
    sendTimeout: durationOr('auto', undefined, { min: 5000, max: DAY_MS }).optional(),
    link: link().optional(),
    floor: bytesOr('off', 0, { min: KIB, max: GIB }).optional(),
    slack: duration({ min: 1000, max: HOUR_MS }).optional(),
    fairness: word('tenant', 'off').optional(),
    parking: boolean().optional(),
    earlyShed: boolean().optional(),
    turn: bytes({ min: 64 * KIB, max: GIB }).optional(),
    lowWaterMark: bytesOr('off', 'off' as const, { min: 4 * KIB, max: 16 * MIB }).optional(),
  }),
);

const flags = section({
  heartbeat: duration({ min: 100, max: HOUR_MS }).optional(),
  maxConnectionTime: durationOr('off', undefined, { min: 1000, max: 30 * DAY_MS }).optional(),
  compression: word('auto', 'off').optional(),
  retry: durationOr('off', undefined, { min: 0, max: HOUR_MS }).optional(),
  catchUp: word('safe', 'all', 'off').optional(),
  aheadWait: duration({ min: 0, max: MINUTE_MS }).optional(),
  log: section({
    batches: integer({ min: 1, max: 1_000_000 }).optional(),
    bytes: bytes({ min: 64 * KIB, max: 16 * GIB }).optional(),
  }).optional(),
  sources: list(sourceSchema).optional(),
  ...serviceShape,
});

const schema = section({
  server: server.optional(),
  limits: limits.optional(),
  flags: flags.optional(),
  outbound: outboundSchema.optional(),
  exit: section({
    onError: boolean().optional(),
    always: boolean().optional(),
    ignoreConnectionErrors: boolean().optional(),
  }).optional(),
  log: section({
    level: word('debug', 'info', 'warn', 'error', 'none').optional(),
    format: word('json', 'pretty').optional(),
  }).optional(),
  decisions: decisionsSchema.optional(),
  store: storeSchema.optional(),
  admin: adminSchema.optional(),
  otlp: otlpSchema.optional(),
  api: apiSchema.optional(),
  ...Object.fromEntries([...IGNORED_SECTIONS.keys()].map((name) => [name, z.unknown().optional()])),
});

type Settings = z.infer<typeof schema>;

function issuesOf(issue: z.core.$ZodIssue): SchemaIssue[] {
  const path = issue.path.map((part) => (typeof part === 'number' ? part : String(part)));
  if (issue.code === 'unrecognized_keys') {
    const known = issue.message.split(' ');
    return issue.keys.map((key) => ({ path, unknownKey: { key, known }, message: `no setting is named "${key}"` }));
  }
  if (issue.code === 'invalid_type') {
    return [
      { path, message: `expected ${issue.expected === 'array' ? 'a list' : 'a mapping'}, got ${kindOf(issue.input)}` },
    ];
  }
  return [{ path, message: issue.message }];
}

function tlsOf(settings: NonNullable<NonNullable<Settings['server']>['tls']>): Mutable<TlsConfig> {
  const { cert, key, minVersion, clientCa, clientVerification } = settings;
  return {
    certPath: cert,
    keyPath: key,
    minVersion: minVersion ?? '1.2',
    ...(clientCa === undefined ? {} : { clientCaPath: clientCa }),
    clientVerification: clientVerification ?? (clientCa === undefined ? 'none' : 'verify-if-given'),
  };
}

function applyServer(settings: NonNullable<Settings['server']>, target: Mutable<Config['server']>): void {
  put(target, 'host', settings.host);
  put(target, 'port', settings.port);
  if (settings.tls !== undefined) target.tls = tlsOf(settings.tls);
  put(target, 'http2', settings.http2);
  put(target, 'backlog', settings.backlog);
  put(target, 'headersTimeoutMs', settings.headersTimeout);
  put(target, 'requestTimeoutMs', settings.requestTimeout);
  put(target, 'keepAliveTimeoutMs', settings.keepAliveTimeout);
  put(target, 'headerBytesMax', settings.maxHeaderBytes);
  put(target, 'bodyBytesMax', settings.maxBodyBytes);
  put(target, 'drainDelayMs', settings.drainDelay);
  put(target, 'graceMs', settings.grace);
  put(target, 'http2ConcurrentStreamsMax', settings.http2MaxConcurrentStreams);
}

function applyFlags(settings: NonNullable<Settings['flags']>, target: Mutable<Config['flags']>): void {
  put(target, 'heartbeatMs', settings.heartbeat);
  put(target, 'connectionMsMax', settings.maxConnectionTime);
  put(target, 'compression', settings.compression);
  put(target, 'retryMs', settings.retry);
  put(target, 'catchUp', settings.catchUp);
  put(target, 'aheadWaitMs', settings.aheadWait);
  put(target, 'logBatchesMax', settings.log?.batches);
  put(target, 'logBytesMax', settings.log?.bytes);
  target.sources = (settings.sources ?? []).map((each) => sourceOf(each));
}

function limitsOf(settings: NonNullable<Settings['limits']>): LimitsSpec {
  const spec: { -readonly [Key in keyof LimitsSpec]: LimitsSpec[Key] } = { mode: settings.mode ?? 'auto' };
  put(spec, 'slots', settings.slots);
  put(spec, 'queue', settings.queue);
  put(spec, 'waitStreamMs', settings.wait?.stream);
  put(spec, 'waitPollMs', settings.wait?.poll);
  put(spec, 'waitDecisionsMs', settings.wait?.decisions);
  put(spec, 'parked', settings.parked);
  put(spec, 'pinnedBytes', settings.pinnedBytes);
  put(spec, 'sendTimeoutMs', settings.sendTimeout);
  put(spec, 'linkBytesPerSecond', settings.link);
  put(spec, 'floorBytesPerSecond', settings.floor);
  put(spec, 'slackMs', settings.slack);
  put(spec, 'fairness', settings.fairness);
  put(spec, 'parking', settings.parking);
  put(spec, 'earlyShed', settings.earlyShed);
  put(spec, 'turnBytes', settings.turn);
  put(spec, 'lowWaterMarkBytes', settings.lowWaterMark);
  return spec;
}

/** `limits: off` leaves these in force; every other setting beside it would have no effect. */
const KEPT_WHEN_OFF: ReadonlySet<string> = new Set(['mode', 'turn', 'lowWaterMark']);

function* conflictsOf(settings: Settings): Generator<SchemaIssue> {
  if (settings.limits?.mode === 'off') {
    for (const [key, value] of Object.entries(settings.limits)) {
      if (value === undefined || KEPT_WHEN_OFF.has(key)) continue;
      yield {
        path: ['limits', key],
        message: 'has no effect while limits.mode is off: remove it, or set the mode to auto',
      };
    }
  }
  if (settings.limits?.mode === 'off' && settings.decisions?.wait !== undefined) {
    yield {
      path: ['decisions', 'wait'],
      message: 'has no effect while limits.mode is off: remove it, or set the mode to auto',
    };
  }
  yield* tlsConflicts(settings.server?.tls);
  yield* sourceConflicts(settings.flags?.sources ?? []);
  if (settings.decisions !== undefined) yield* decisionsConflicts(settings.decisions);
  if (settings.store !== undefined) yield* storeConflicts(settings.store);
  if (settings.flags !== undefined) yield* serviceConflicts(settings.flags);
  yield* telemetryConflicts({ admin: settings.admin, otlp: settings.otlp });
}

function* tlsConflicts(tls: NonNullable<Settings['server']>['tls']): Generator<SchemaIssue> {
  if (tls === undefined) return;
  const { clientCa, clientVerification } = tls;
  const verifies = clientVerification === 'verify-if-given' || clientVerification === 'require';
  if (verifies && clientCa === undefined) {
    yield {
      path: ['server', 'tls', 'clientVerification'],
      message: `expected a clientCa beside it, to verify client certificates with, got none`,
    };
  }
  if (clientCa !== undefined && clientVerification !== undefined && !verifies) {
    yield {
      path: ['server', 'tls', 'clientCa'],
      message: `has no effect while clientVerification is ${clientVerification}: remove it, or verify`,
    };
  }
}

/** What our own file asks for that is settled together with the environment. */
export interface Asked {
  /** The `limits` section; undefined when there is none. */
  readonly limits: LimitsSpec | undefined;
  readonly waitDecisionsMs: number | undefined;
  /** The vendor's section about the budget of decisions; undefined when there is none. */
  readonly stream: StreamLimits | undefined;
  readonly telemetry: TelemetryAsked;
}

/** What is asked by a file that cannot be read. */
export const NOTHING_ASKED: Asked = {
  limits: undefined,
  waitDecisionsMs: undefined,
  stream: undefined,
  telemetry: NO_TELEMETRY_ASKED,
};

/**
 * Reads the settings of our own file into `draft` and `open`.
 *
 * @returns what was asked, and the issues; with errors among them the draft must not be used.
 */
export function applySettings(
  value: unknown,
  draft: Mutable<Config>,
  open: DecisionsDraft,
  whereOf: WhereOf,
): { readonly asked: Asked; readonly issues: readonly SchemaIssue[] } {
  const parsed = schema.safeParse(value, { reportInput: true });
  if (!parsed.success) return { asked: NOTHING_ASKED, issues: parsed.error.issues.flatMap((issue) => issuesOf(issue)) };
  const settings = parsed.data;
  const { server, limits, flags, decisions, store, api } = settings;
  if (server !== undefined) applyServer(server, draft.server);
  if (flags !== undefined) applyFlags(flags, draft.flags);
  if (decisions !== undefined) applyDecisions(decisions, draft, open, whereOf);
  if (store !== undefined) applyStore(store, draft, open, whereOf(['store']));
  applyServiceSettings(settings, draft, open.places, whereOf);
  const archive = flags?.sources?.findIndex(({ type }) => type === 'archive') ?? -1;
  if (archive !== -1) open.places.set('archive', whereOf(['flags', 'sources', archive, 'path']));
  open.portGiven = server?.port !== undefined;
  put(draft.exit, 'onError', settings.exit?.onError);
  put(draft.exit, 'always', settings.exit?.always);
  put(draft.exit, 'ignoreConnectionErrors', settings.exit?.ignoreConnectionErrors);
  put(draft.log, 'level', settings.log?.level);
  put(draft.log, 'format', settings.log?.format);
  return {
    asked: {
      limits: limits === undefined ? undefined : limitsOf(limits),
      waitDecisionsMs: decisions?.wait,
      stream: streamLimitsOf(api),
      telemetry: applyTelemetry(settings, draft, whereOf(['admin'])),
    },
    issues: [...conflictsOf(settings), ...vendorIssues(settings, draft, open, whereOf)],
  };
}

/** Lays the vendor's names of our file under our own. */
function* vendorIssues(
  settings: Settings,
  draft: Mutable<Config>,
  open: DecisionsDraft,
  whereOf: WhereOf,
): Generator<SchemaIssue> {
  const { server, decisions, api } = settings;
  yield* ignoredIssues(settings);
  if (api === undefined) return;
  const own = {
    address: server?.host !== undefined || server?.port !== undefined,
    tls: server?.tls !== undefined,
    trustedProxies: decisions?.trustedProxies !== undefined,
    bouncersAllowedOu: decisions?.bouncersAllowedOu !== undefined,
  };
  open.bouncersAllowedOuAt ??= whereOf(['api', 'server', 'tls', 'bouncers_allowed_ou']);
  yield* applyApi(api, own, draft, open);
}
