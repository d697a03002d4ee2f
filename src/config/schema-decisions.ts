import { z } from 'zod';
import { INTERVAL_MS_MIN } from './defaults.ts';
import {
  baseUrl,
  boolean,
  duration,
  integer,
  keyHash,
  networks,
  secret,
  section,
  strict,
  text,
  texts,
  word,
} from './scalars.ts';
import { list, type SchemaIssue } from './schema-parts.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** A source of type `lapi`, as the file has it. */
export interface LapiSettings {
  readonly type: 'lapi';
  readonly name?: string | undefined;
  readonly url: string;
  readonly key?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly interval?: number | undefined;
  readonly resync?: number | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly tls?:
    | {
        readonly ca?: string | undefined;
        readonly cert?: string | undefined;
        readonly key?: string | undefined;
        readonly serverName?: string | undefined;
        readonly verify?: boolean | undefined;
      }
    | undefined;
}

/** A source of type `file`, as the file has it. */
export interface DecisionFileSettings {
  readonly type: 'file';
  readonly name?: string | undefined;
  readonly paths: readonly string[];
  readonly interval?: number | undefined;
  readonly duration?: number | undefined;
  readonly origin?: string | undefined;
  readonly scenario?: string | undefined;
  readonly decisionType?: string | undefined;
}

/** The `decisions` section, as the file has it. */
export interface DecisionsSettings {
  readonly sources?: readonly (LapiSettings | DecisionFileSettings)[] | undefined;
  readonly keys?:
    | readonly { readonly name: string; readonly key?: string | undefined; readonly sha512?: string | undefined }[]
    | undefined;
  readonly keyFile?: string | undefined;
  readonly auth?: 'delegated' | 'keys' | undefined;
  readonly passthrough?: boolean | undefined;
  readonly wait?: number | undefined;
  readonly durationGranularity?: number | undefined;
  readonly startWait?: number | undefined;
  readonly cursorsPerKey?: number | undefined;
  readonly pollInterval?: number | undefined;
  readonly trustedProxies?: readonly string[] | undefined;
  readonly bouncersAllowedOu?: readonly string[] | undefined;
}

const pem = text('the path of a PEM file').optional();

const source = z.discriminatedUnion(
  'type',
  [
    strict({
      type: z.literal('lapi'),
      name: text('a name for the source').optional(),
      url: baseUrl(),
      key: secret('the key of a bouncer of this local API').optional(),
      keyFile: text('the path of a file with the key').optional(),
      // more often than once a second, the upstream would do nothing else
      interval: duration({ min: 1000, max: HOUR_MS }).optional(),
      resync: duration({ min: 1000, max: DAY_MS }).optional(),
      scopes: texts('scopes of decisions').optional(),
      tls: section({
        ca: pem,
        cert: pem,
        key: pem,
        serverName: text('the name in the certificate').optional(),
        verify: boolean().optional(),
      }).optional(),
    }),
    strict({
      type: z.literal('file'),
      name: text('a name for the source').optional(),
      paths: texts('paths of JSON, CSV or text files'),
      interval: duration({ min: INTERVAL_MS_MIN, max: DAY_MS }).optional(),
      duration: duration({ min: 1000, max: 3650 * DAY_MS }).optional(),
      origin: text('an origin').optional(),
      scenario: text('a scenario').optional(),
      decisionType: text('a type of decision').optional(),
    }),
  ],
  { error: 'expected lapi or file as the type of a source' },
);

/** The `decisions` section of our own file. */
export const decisionsSchema: z.ZodType<DecisionsSettings> = section({
  sources: list(source).optional(),
  keys: list(
    strict({
      name: text('the name of a bouncer'),
      key: secret('the key of a bouncer').optional(),
      sha512: keyHash().optional(),
    }),
  ).optional(),
  keyFile: text('the path of a file of keys').optional(),
  auth: word('delegated', 'keys').optional(),
  passthrough: boolean().optional(),
  wait: duration({ min: 0, max: HOUR_MS }).optional(),
  // a ban may end late by this much
  durationGranularity: duration({ min: 1000, max: 10 * MINUTE_MS }).optional(),
  startWait: duration({ min: 0, max: 10 * MINUTE_MS }).optional(),
  cursorsPerKey: integer({ min: 1, max: 1_000_000 }).optional(),
  pollInterval: duration({ min: 1000, max: HOUR_MS }).optional(),
  trustedProxies: networks().optional(),
  bouncersAllowedOu: texts('organizational units').optional(),
});

function* sourceConflicts(
  settings: LapiSettings | DecisionFileSettings,
  path: readonly (string | number)[],
): Generator<SchemaIssue> {
  if (settings.type === 'file') {
    if (settings.paths.length === 0) yield { path: [...path, 'paths'], message: 'expected at least one file' };
    return;
  }
  const { key, keyFile, tls, url, interval, resync } = settings;
  const certified = tls?.cert !== undefined;
  if (key !== undefined && keyFile !== undefined) {
    yield { path: [...path, 'keyFile'], message: 'expected either a key or a keyFile, got both: remove one of them' };
  } else if (key === undefined && keyFile === undefined && !certified) {
    yield { path, message: 'expected a key, a keyFile, or a client certificate under tls, got nothing' };
  }
  if (certified !== (tls?.key !== undefined)) {
    yield {
      path: [...path, 'tls'],
      message: `expected cert and key together, got ${certified ? 'cert' : 'key'} alone`,
    };
  }
  if (tls !== undefined && !url.startsWith('https:')) {
    yield { path: [...path, 'tls'], message: 'has no effect without TLS: write the url with https, or remove it' };
  }
  if (tls?.verify === false) {
    yield {
      path: [...path, 'tls', 'verify'],
      message: 'whoever sits in between can read the key and change decisions: give a ca instead',
      severity: 'warning',
    };
  }
  if (resync !== undefined && resync < (interval ?? 0)) {
    yield { path: [...path, 'resync'], message: 'expected at least the interval: a resync is a pull of everything' };
  }
}

/** Settings of the section that contradict each other. What depends on the environment as well is settled later. */
export function* decisionsConflicts(settings: DecisionsSettings): Generator<SchemaIssue> {
  for (const [index, each] of (settings.sources ?? []).entries()) {
    yield* sourceConflicts(each, ['decisions', 'sources', index]);
  }
  const names = new Set<string>();
  for (const [index, each] of (settings.keys ?? []).entries()) {
    const path = ['decisions', 'keys', index];
    if ((each.key === undefined) === (each.sha512 === undefined)) {
      const got = each.key === undefined ? 'neither' : 'both';
      yield { path, message: `expected either a key or its sha512, got ${got}` };
    }
    if (names.has(each.name)) {
      yield { path: [...path, 'name'], message: `expected a name of its own, got "${each.name}" again` };
    }
    names.add(each.name);
  }
}
