import { z } from 'zod';
import type { DecisionsDraft } from './decisions-draft.ts';
import { boolean, duration, integer, listenAddress, networks, section, text, texts, word } from './scalars.ts';
import type { SchemaIssue } from './schema-parts.ts';
import type { ClientVerification, Config, Mutable } from './types.ts';
import { formatDuration } from './values.ts';

/** The vendor's own defaults, which 0 and less stand for as well. */
const PAGE_ITEMS = 10_000;

const ANY_NUMBER = { min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER } as const;

const VERIFICATIONS: Readonly<Record<string, ClientVerification>> = {
  NoClientCert: 'none',
  RequestClientCert: 'request',
  // A certificate that nobody checks proves nothing: there is no such mode here.
  RequireAnyClientCert: 'require',
  VerifyClientCertIfGiven: 'verify-if-given',
  RequireAndVerifyClientCert: 'require',
};

const UPSTREAM_ONLY = 'that is for the upstream local API, which keeps it';
const OWN_NAME = (name: string): string => `set ${name}`;

/** Settings of the vendor's `config.yaml` that have no effect here, and what to know instead. Keys are paths below `api`. */
export const IGNORED_BY_PATH: ReadonlyMap<string, string> = new Map([
  ['client', 'the upstream is a source of type lapi: list it under decisions.sources'],
  ['cti', UPSTREAM_ONLY],
  ['server.enable', 'decisions are served when decisions.sources has a source'],
  ['server.listen_socket', 'Headgate listens on an address only: set listen_uri or server.host and server.port'],
  ['server.profiles_path', UPSTREAM_ONLY],
  ['server.console_path', UPSTREAM_ONLY],
  ['server.capi_whitelists_path', UPSTREAM_ONLY],
  ['server.log_level', OWN_NAME('log.level')],
  ['server.papi_log_level', UPSTREAM_ONLY],
  ['server.trusted_ips', 'administration goes to the upstream local API, which sees the address of Headgate'],
  ['server.disable_remote_lapi_registration', UPSTREAM_ONLY],
  ['server.auto_registration', UPSTREAM_ONLY],
  ['server.online_client', UPSTREAM_ONLY],
  ['server.disable_usage_metrics_export', UPSTREAM_ONLY],
  ['server.tls.server_name', 'the name of an upstream is tls.serverName of its source'],
  ['server.tls.crl_path', 'certificates are not looked up in revocation lists'],
  ['server.tls.agents_allowed_ou', UPSTREAM_ONLY],
  ['server.tls.cache_expiration', 'nothing is looked up that would be cached'],
]);

/** Whole sections of the vendor's `config.yaml` beside `api`, and what to know instead. */
export const IGNORED_SECTIONS: ReadonlyMap<string, string> = new Map([
  ['db_config', 'Headgate keeps its data in the store: set store'],
  ['prometheus', 'metrics are on the admin listener: set admin'],
]);

/** The vendor's `api.server.decisions_stream`. */
interface StreamSettings {
  readonly page_size?: number | undefined;
  readonly max_concurrent_requests?: number | undefined;
  readonly max_queue_wait?: number | undefined;
}

interface ApiTlsSettings {
  readonly cert_file?: string | undefined;
  readonly key_file?: string | undefined;
  readonly ca_cert_path?: string | undefined;
  readonly client_verification?: string | undefined;
  readonly bouncers_allowed_ou?: readonly string[] | undefined;
}

/** The vendor's `api` section, as the file has it. */
export interface ApiSettings {
  readonly server?:
    | {
        readonly listen_uri?: { readonly host: string | undefined; readonly port: number } | undefined;
        readonly use_forwarded_for_headers?: boolean | undefined;
        readonly trusted_proxies?: readonly string[] | undefined;
        readonly tls?: ApiTlsSettings | undefined;
        readonly decisions_stream?: StreamSettings | undefined;
      }
    | undefined;
}

/** A value that may be left empty, as the vendor's file has many: then it is not set. */
function unset<Schema extends z.ZodType>(schema: Schema): z.ZodType<z.infer<Schema> | undefined> {
  return z.preprocess((value) => value ?? undefined, schema.optional()).optional() as unknown as z.ZodType<
    z.infer<Schema> | undefined
  >;
}

/** The keys below `prefix` that have no effect. */
function ignoredBelow(prefix: string): Record<string, z.ZodType<unknown>> {
  const keys = [...IGNORED_BY_PATH.keys()]
    .filter((path) => path.startsWith(prefix))
    .map((path) => path.slice(prefix.length));
  return Object.fromEntries(keys.filter((key) => !key.includes('.')).map((key) => [key, z.unknown().optional()]));
}

const path = unset(text('a path'));

/** The vendor's `api` section. */
export const apiSchema: z.ZodType<ApiSettings> = section({
  server: section({
    decisions_stream: section({
      page_size: unset(integer(ANY_NUMBER)),
      max_concurrent_requests: unset(integer(ANY_NUMBER)),
      max_queue_wait: unset(duration(ANY_NUMBER)),
    }).optional(),
    listen_uri: unset(listenAddress()),
    use_forwarded_for_headers: unset(boolean()),
    trusted_proxies: unset(networks()),
    tls: section({
      cert_file: path,
      key_file: path,
      ca_cert_path: path,
      client_verification: unset(word(...Object.keys(VERIFICATIONS))),
      bouncers_allowed_ou: unset(texts('organizational units')),
      ...ignoredBelow('server.tls.'),
    }).optional(),
    ...ignoredBelow('server.'),
  }).optional(),
  ...ignoredBelow(''),
}) as unknown as z.ZodType<ApiSettings>;

/** What `decisions_stream` asks of the limits. Numbers that stand for "none" or "the default" are undefined. */
export interface StreamLimits {
  readonly slots: number | undefined;
  readonly waitMs: number | undefined;
}

const STREAM = ['api', 'server', 'decisions_stream'] as const;

/** The vendor's numbers: unset and 0 are its defaults, and so is less than 0, with a warning. */
function* streamIssues(stream: StreamSettings): Generator<SchemaIssue> {
  for (const [key, used] of [
    ['page_size', `${PAGE_ITEMS} is used`],
    ['max_concurrent_requests', 'there is no limit'],
    ['max_queue_wait', '10s is used'],
  ] as const) {
    const value = stream[key] ?? 0;
    if (value >= 0) continue;
    const got = key === 'max_queue_wait' ? formatDuration(value) : String(value);
    yield { path: [...STREAM, key], message: `expected at least 0, got ${got}; ${used}`, severity: 'warning' };
  }
}

function aboveZero(value: number | undefined): number | undefined {
  return value !== undefined && value > 0 ? value : undefined;
}

/** What the file asks of the limits under the vendor's names; undefined when it does not have the section. */
export function streamLimitsOf(api: ApiSettings | undefined): StreamLimits | undefined {
  const stream = api?.server?.decisions_stream;
  if (stream === undefined) return undefined;
  return { slots: aboveZero(stream.max_concurrent_requests), waitMs: aboveZero(stream.max_queue_wait) };
}

/** Which settings the file has under our own names as well: they win. */
export interface OwnNames {
  readonly address: boolean;
  readonly tls: boolean;
  readonly trustedProxies: boolean;
  readonly bouncersAllowedOu: boolean;
}

function overlap(key: string, own: string): SchemaIssue {
  return {
    path: ['api', 'server', ...key.split('.')],
    message: `is set as ${own} as well, which is used: remove one of the two`,
    severity: 'warning',
  };
}

/** Settings of the vendor that are set and have no effect, each with what to know instead. */
export function* ignoredIssues(value: object): Generator<SchemaIssue> {
  for (const [name, instead] of IGNORED_SECTIONS) {
    if (valueAt(value, [name]) !== undefined) yield ignored([name], instead);
  }
  for (const [name, instead] of IGNORED_BY_PATH) {
    const at = ['api', ...name.split('.')];
    const found = valueAt(value, at);
    if (found !== undefined && !(name === 'server.enable' && found === true)) yield ignored(at, instead);
  }
}

function ignored(at: readonly string[], instead: string): SchemaIssue {
  return { path: at, message: `is recognised but has no effect here: ${instead}`, severity: 'warning' };
}

/** What stands at `at`; undefined for nothing, and for null. */
function valueAt(value: unknown, at: readonly string[]): unknown {
  let found = value;
  for (const key of at) {
    if (typeof found !== 'object' || found === null) return undefined;
    found = (found as Record<string, unknown>)[key];
  }
  return found ?? undefined;
}

/** Lays the vendor's `api` section over `config`, where our own names say nothing. */
export function* applyApi(
  api: ApiSettings,
  own: OwnNames,
  config: Mutable<Config>,
  open: DecisionsDraft,
): Generator<SchemaIssue> {
  const { server } = api;
  if (server === undefined) return;
  const { listen_uri, tls, decisions_stream, trusted_proxies } = server;
  if (decisions_stream !== undefined) {
    yield* streamIssues(decisions_stream);
    config.decisions.pageItemsMax = aboveZero(decisions_stream.page_size) ?? PAGE_ITEMS;
  }
  if (listen_uri !== undefined && own.address) yield overlap('listen_uri', 'server.host or server.port');
  else if (listen_uri !== undefined) {
    config.server.host = listen_uri.host;
    config.server.port = listen_uri.port;
    open.portGiven = true;
  }
  // without a list, the header of everybody is believed: the vendor's meaning
  const proxies = trusted_proxies ?? (server.use_forwarded_for_headers === true ? ['0.0.0.0/0'] : undefined);
  if (proxies !== undefined && own.trustedProxies) {
    const key = trusted_proxies === undefined ? 'use_forwarded_for_headers' : 'trusted_proxies';
    yield overlap(key, 'decisions.trustedProxies');
  } else if (proxies !== undefined) config.decisions.trustedProxies = [...proxies];
  if (tls !== undefined) yield* applyApiTls(tls, own, config);
}

function* applyApiTls(tls: ApiTlsSettings, own: OwnNames, config: Mutable<Config>): Generator<SchemaIssue> {
  const { cert_file, key_file, ca_cert_path, client_verification, bouncers_allowed_ou } = tls;
  if (bouncers_allowed_ou !== undefined && own.bouncersAllowedOu) {
    yield overlap('tls.bouncers_allowed_ou', 'decisions.bouncersAllowedOu');
  } else if (bouncers_allowed_ou !== undefined) config.decisions.bouncersAllowedOu = [...bouncers_allowed_ou];
  if (own.tls) {
    const key = Object.keys(tls).find((name) => name.endsWith('_file') || name === 'ca_cert_path');
    if (key !== undefined) yield overlap(`tls.${key}`, 'server.tls');
    return;
  }
  if ((cert_file === undefined) !== (key_file === undefined)) {
    yield {
      path: ['api', 'server', 'tls'],
      message: `expected cert_file and key_file together, got ${cert_file === undefined ? 'key_file' : 'cert_file'} alone`,
    };
  }
  if (cert_file === undefined || key_file === undefined) return;
  if (client_verification === 'RequireAnyClientCert') {
    yield {
      path: ['api', 'server', 'tls', 'client_verification'],
      message: 'a certificate that nobody verifies proves nothing; RequireAndVerifyClientCert is used',
      severity: 'warning',
    };
  }
  const named = client_verification === undefined ? undefined : VERIFICATIONS[client_verification];
  const verification = named ?? (ca_cert_path === undefined ? 'none' : 'verify-if-given');
  if (ca_cert_path === undefined && (verification === 'verify-if-given' || verification === 'require')) {
    yield {
      path: ['api', 'server', 'tls', 'client_verification'],
      message: 'expected a ca_cert_path beside it, to verify client certificates with, got none',
    };
  }
  config.server.tls = {
    certPath: cert_file,
    keyPath: key_file,
    minVersion: '1.2',
    ...(ca_cert_path === undefined ? {} : { clientCaPath: ca_cert_path }),
    clientVerification: verification,
  };
}
