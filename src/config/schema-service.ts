import { z } from 'zod';
import type { WhereOf } from './decisions-apply.ts';
import { newEnvironment } from './defaults.ts';
import {
  baseUrl,
  boolean,
  bytes,
  duration,
  integer,
  numberOr,
  secret,
  section,
  strict,
  text,
  texts,
  word,
} from './scalars.ts';
import { put, type SchemaIssue } from './schema-parts.ts';
import type { ServicePlaces } from './service-draft.ts';
import type { Config, Mutable } from './types.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

interface CorsSettings {
  readonly allowedOrigins?: readonly string[] | undefined;
  readonly allowedHeaders?: readonly string[] | undefined;
}

/** An environment, as the file has it. */
interface EnvironmentSettings extends CorsSettings {
  readonly sdkKey: string;
  readonly mobileKey?: string | undefined;
  readonly envId?: string | undefined;
  readonly projectKey?: string | undefined;
  readonly filters?: readonly string[] | undefined;
  readonly secureMode?: boolean | undefined;
  readonly ttl?: number | undefined;
  readonly prefix?: string | undefined;
  readonly tableName?: string | undefined;
}

interface AutoConfigSettings extends CorsSettings {
  readonly key: string;
  readonly cacheKey?: string | undefined;
  readonly cacheEncryptionKey?: string | undefined;
  readonly prefix?: string | undefined;
  readonly tableName?: string | undefined;
}

interface UpstreamSettings {
  readonly streamUri?: string | undefined;
  readonly baseUri?: string | undefined;
  readonly clientSideBaseUri?: string | undefined;
  readonly protocol?: 'auto' | 'fdv1' | 'fdv2' | undefined;
  readonly disconnectedAfter?: number | undefined;
}

interface EventsSettings {
  readonly send?: boolean | undefined;
  readonly uri?: string | undefined;
  readonly flushInterval?: number | undefined;
  readonly capacity?: number | undefined;
  readonly inlineUsers?: boolean | undefined;
  readonly maxBodyBytes?: number | undefined;
  readonly heldBytes?: number | undefined;
}

/** What the file says of the service, in the `flags` section. */
export interface ServiceSettings {
  readonly initTimeout?: number | undefined;
  readonly credentialCleanup?: number | undefined;
  readonly pingJitter?: number | undefined;
  readonly upstream?: UpstreamSettings | undefined;
  readonly environments?: Readonly<Record<string, EnvironmentSettings>> | undefined;
  readonly autoConfig?: AutoConfigSettings | undefined;
  readonly events?: EventsSettings | undefined;
  readonly evaluation?:
    | { readonly threads?: number | 'auto' | undefined; readonly cacheBytes?: number | undefined }
    | undefined;
  readonly bigSegments?:
    | {
        readonly staleAsDegraded?: boolean | undefined;
        readonly staleThreshold?: number | undefined;
      }
    | undefined;
}

/** The `outbound` section, as the file has it. */
export interface OutboundSettings {
  readonly proxy?:
    | { readonly url: string; readonly user?: string | undefined; readonly password?: string | undefined }
    | undefined;
  readonly caFiles?: readonly string[] | undefined;
}

const cors = {
  allowedOrigins: texts('origins that browsers may ask from').optional(),
  allowedHeaders: texts('names of headers that browsers may send').optional(),
};

const environment = strict({
  sdkKey: secret('a server-side key'),
  mobileKey: secret('a mobile key').optional(),
  envId: secret('a client-side ID').optional(),
  projectKey: text('the key of the project').optional(),
  filters: texts('keys of payload filters').optional(),
  secureMode: boolean().optional(),
  ttl: duration({ min: 0, max: 30 * DAY_MS }).optional(),
  prefix: text('what stands before its keys in a database').optional(),
  tableName: text('the name of its table').optional(),
  ...cors,
});

const autoConfig = strict({
  key: secret('the key of an automatic configuration'),
  cacheKey: text('a name for what is kept').optional(),
  cacheEncryptionKey: secret('a key to encrypt with').optional(),
  prefix: text('what stands before the keys of an environment in a database').optional(),
  tableName: text('the name of the table of an environment').optional(),
  ...cors,
});

/** The parts of the `flags` section that have to do with the vendor's service. */
export const serviceShape: { readonly [Key in keyof ServiceSettings]-?: z.ZodType<ServiceSettings[Key]> } = {
  initTimeout: duration({ min: 0, max: HOUR_MS }).optional(),
  credentialCleanup: duration({ min: 100, max: HOUR_MS }).optional(),
  pingJitter: duration({ min: 0, max: HOUR_MS }).optional(),
  upstream: section({
    streamUri: baseUrl().optional(),
    baseUri: baseUrl().optional(),
    clientSideBaseUri: baseUrl().optional(),
    protocol: word('auto', 'fdv1', 'fdv2').optional(),
    disconnectedAfter: duration({ min: 0, max: DAY_MS }).optional(),
  }).optional(),
  environments: z.preprocess((value) => value ?? {}, z.record(z.string(), environment)).optional(),
  autoConfig: autoConfig.optional(),
  events: section({
    send: boolean().optional(),
    uri: baseUrl().optional(),
    flushInterval: duration({ min: 100, max: HOUR_MS }).optional(),
    capacity: integer({ min: 1, max: 10_000_000 }).optional(),
    inlineUsers: boolean().optional(),
    maxBodyBytes: bytes({ min: KIB, max: GIB }).optional(),
    heldBytes: bytes({ min: MIB, max: 16 * GIB }).optional(),
  }).optional(),
  evaluation: section({
    threads: numberOr('auto', { min: 1, max: 64 }).optional(),
    cacheBytes: bytes({ min: 0, max: 64 * GIB }).optional(),
  }).optional(),
  bigSegments: section({
    staleAsDegraded: boolean().optional(),
    staleThreshold: duration({ min: 1000, max: 30 * DAY_MS }).optional(),
  }).optional(),
};

/** The `outbound` section of our own file. */
export const outboundSchema: z.ZodType<OutboundSettings> = section({
  proxy: section({
    url: baseUrl(),
    user: text('the user of the proxy').optional(),
    password: secret('the password of the proxy').optional(),
  }).optional(),
  caFiles: texts('paths of PEM files').optional(),
});
function applyUpstream(settings: UpstreamSettings, { upstream, flags }: Mutable<Config>): void {
  const { streamUri, baseUri, clientSideBaseUri } = settings;
  put(upstream, 'streamUri', streamUri);
  // whatever stands for the service stands for all of it, unless it says otherwise
  put(upstream, 'baseUri', baseUri ?? streamUri);
  put(upstream, 'clientSideBaseUri', clientSideBaseUri ?? baseUri ?? streamUri);
  put(flags, 'upstreamProtocol', settings.protocol);
  put(flags, 'disconnectedStatusMs', settings.disconnectedAfter);
}

function applyEvents(settings: EventsSettings, { events }: Mutable<Config>): void {
  put(events, 'send', settings.send);
  put(events, 'uri', settings.uri);
  put(events, 'flushIntervalMs', settings.flushInterval);
  put(events, 'capacity', settings.capacity);
  put(events, 'inlineUsers', settings.inlineUsers);
  put(events, 'inboundPayloadBytesMax', settings.maxBodyBytes);
  put(events, 'heldBytesMax', settings.heldBytes);
}

function applyEnvironments(
  environments: NonNullable<ServiceSettings['environments']>,
  draft: Mutable<Config>,
  places: ServicePlaces,
  whereOf: WhereOf,
): void {
  for (const [name, settings] of Object.entries(environments)) {
    const { filters, ttl, allowedOrigins, allowedHeaders, ...rest } = settings;
    draft.environments.push({
      ...newEnvironment(name),
      ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
      filterKeys: [...(filters ?? [])],
      allowedOrigins: [...(allowedOrigins ?? [])],
      allowedHeaders: [...(allowedHeaders ?? [])],
      ttlMs: ttl ?? 0,
    });
    places.set(`environment ${name}`, whereOf(['flags', 'environments', name]));
  }
}

/** The name under which the list of environments is kept by someone who gave it none. */
const CACHE_NAME = 'auto-config';

function applyAutoConfig(settings: AutoConfigSettings, draft: Mutable<Config>): void {
  const { key, cacheKey, cacheEncryptionKey, prefix, tableName, allowedOrigins, allowedHeaders } = settings;
  draft.autoConfig = {
    key,
    prefix,
    tableName,
    allowedOrigins: [...(allowedOrigins ?? [])],
    allowedHeaders: [...(allowedHeaders ?? [])],
    cache:
      cacheEncryptionKey === undefined
        ? undefined
        : { name: cacheKey ?? CACHE_NAME, encryptionKey: cacheEncryptionKey },
  };
}

/** Lays what the file says of the service over `draft`, and notes where it stands. */
export function applyServiceSettings(
  { flags = {}, outbound }: { flags?: ServiceSettings | undefined; outbound?: OutboundSettings | undefined },
  draft: Mutable<Config>,
  places: ServicePlaces,
  whereOf: WhereOf,
): void {
  put(draft.flags, 'initTimeoutMs', flags.initTimeout);
  put(draft.flags, 'credentialCleanupMs', flags.credentialCleanup);
  put(draft.flags, 'pingJitterMs', flags.pingJitter);
  if (flags.upstream !== undefined) applyUpstream(flags.upstream, draft);
  if (flags.events !== undefined) applyEvents(flags.events, draft);
  if (flags.environments !== undefined) applyEnvironments(flags.environments, draft, places, whereOf);
  if (flags.autoConfig !== undefined) applyAutoConfig(flags.autoConfig, draft);
  put(draft.flags.evaluation, 'threads', flags.evaluation?.threads);
  put(draft.flags.evaluation, 'cacheBytesMax', flags.evaluation?.cacheBytes);
  put(draft.flags.bigSegments, 'staleAsDegraded', flags.bigSegments?.staleAsDegraded);
  put(draft.flags.bigSegments, 'staleThresholdMs', flags.bigSegments?.staleThreshold);
  put(draft.outbound, 'caPaths', outbound?.caFiles && [...outbound.caFiles]);
  if (outbound?.proxy !== undefined) {
    const { url, user, password } = outbound.proxy;
    draft.outbound.proxy = { url };
    put(draft.outbound.proxy, 'user', user);
    put(draft.outbound.proxy, 'password', password);
  }
  const given = {
    autoConfig: flags.autoConfig,
    cache: flags.autoConfig?.cacheEncryptionKey,
    events: flags.events,
    proxy: outbound?.proxy,
  };
  const paths = {
    autoConfig: ['flags', 'autoConfig'],
    cache: ['flags', 'autoConfig', 'cacheEncryptionKey'],
    events: ['flags', 'events'],
    proxy: ['outbound', 'proxy'],
  };
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) places.set(name, whereOf(paths[name as keyof typeof paths]));
  }
}

/** What does not go together, and what has no effect. */
export function* serviceConflicts(flags: ServiceSettings): Generator<SchemaIssue> {
  const { autoConfig: automatic, environments = {}, events } = flags;
  for (const name of Object.keys(environments)) {
    if (name.trim() === '')
      yield { path: ['flags', 'environments', name], message: 'expected a name for each environment, got nothing' };
  }
  if (automatic?.cacheKey !== undefined && automatic.cacheEncryptionKey === undefined) {
    yield {
      path: ['flags', 'autoConfig', 'cacheKey'],
      message: 'expected a cacheEncryptionKey beside it, since what is kept has keys in it, got none',
    };
  }
  if (events !== undefined && events.send !== true) {
    for (const [key, value] of Object.entries(events)) {
      if (key === 'send' || value === undefined) continue;
      yield { path: ['flags', 'events', key], message: 'has no effect unless events.send is true', severity: 'info' };
    }
  }
}
