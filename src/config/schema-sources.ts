import { z } from 'zod';
import { INTERVAL_MS_MIN } from './defaults.ts';
import { boolean, duration, secret, strict, text, texts } from './scalars.ts';
import type { SchemaIssue } from './schema-parts.ts';
import type { FlagSource, Mutable } from './types.ts';

const DAY_MS = 24 * 3_600_000;

interface SharedSettings {
  readonly interval?: number | undefined;
  readonly allowedOrigins?: readonly string[] | undefined;
  readonly allowedHeaders?: readonly string[] | undefined;
  readonly prefix?: string | undefined;
  readonly tableName?: string | undefined;
}

interface ArchiveSettings extends SharedSettings {
  readonly type: 'archive';
  readonly path: string;
}

interface FileSettings extends SharedSettings {
  readonly type: 'file';
  readonly name: string;
  readonly paths: readonly string[];
  readonly sdkKey?: string | undefined;
  readonly mobileKey?: string | undefined;
  readonly envId?: string | undefined;
  readonly projectKey?: string | undefined;
  readonly ttl?: number | undefined;
  readonly secureMode?: boolean | undefined;
}

/** A source of flags, as the file has it. */
export type SourceSettings = ArchiveSettings | FileSettings;

const interval = duration({ min: INTERVAL_MS_MIN, max: DAY_MS }).optional();
const shared = {
  interval,
  prefix: text('what stands before the keys of an environment in a database').optional(),
  tableName: text('the name of the table of an environment').optional(),
  allowedOrigins: texts('origins that browsers may ask from').optional(),
  allowedHeaders: texts('names of headers that browsers may send').optional(),
};

/** A source of flags other than the service. */
export const sourceSchema: z.ZodType<SourceSettings> = z.discriminatedUnion(
  'type',
  [
    strict({
      type: z.literal('archive'),
      path: text('the path of an archive'),
      ...shared,
    }),
    strict({
      type: z.literal('file'),
      name: text('the name of the environment'),
      paths: texts('paths of JSON or YAML files'),
      sdkKey: secret('a server-side key').optional(),
      mobileKey: secret('a mobile key').optional(),
      envId: secret('a client-side ID').optional(),
      projectKey: text('the key of the project').optional(),
      ttl: duration({ min: 0, max: 30 * DAY_MS }).optional(),
      secureMode: boolean().optional(),
      ...shared,
    }),
  ],
  { error: 'expected archive or file as the type of a source' },
);

/** A source with every default filled in. */
export function sourceOf(settings: SourceSettings): Mutable<FlagSource> {
  const { prefix, tableName } = settings;
  const common = {
    intervalMs: settings.interval ?? 1000,
    allowedOrigins: [...(settings.allowedOrigins ?? [])],
    allowedHeaders: [...(settings.allowedHeaders ?? [])],
    ...(prefix === undefined ? {} : { prefix }),
    ...(tableName === undefined ? {} : { tableName }),
  };
  if (settings.type === 'archive') return { type: 'archive', path: settings.path, ...common };
  return {
    type: 'file',
    name: settings.name,
    paths: [...settings.paths],
    ...common,
    sdkKey: settings.sdkKey,
    mobileKey: settings.mobileKey,
    envId: settings.envId,
    projectKey: settings.projectKey,
    ttlMs: settings.ttl ?? 0,
    secureMode: settings.secureMode ?? false,
  };
}

/** Names, IDs and keys of their own, and something to read. */
export function* sourceConflicts(sources: readonly SourceSettings[]): Generator<SchemaIssue> {
  const names = new Set<string>();
  const ids = new Set<string>();
  const keys = new Set<string>();
  for (const [index, each] of sources.entries()) {
    const path = ['flags', 'sources', index];
    if (each.type !== 'file') continue;
    if (each.sdkKey === undefined && each.mobileKey === undefined && each.envId === undefined) {
      yield {
        path,
        message: 'expected at least one of sdkKey, mobileKey and envId: nobody could ask for this environment',
      };
    }
    if (each.paths.length === 0) yield { path: [...path, 'paths'], message: 'expected at least one file' };
    if (names.has(each.name))
      yield { path: [...path, 'name'], message: `expected a name of its own, got "${each.name}" again` };
    names.add(each.name);
    const id = each.envId ?? each.name;
    if (each.envId !== undefined && ids.has(id))
      yield { path: [...path, 'envId'], message: `expected an ID of its own, got that of another source, "${id}"` };
    ids.add(id);
    if (each.sdkKey === undefined) continue;
    if (keys.has(each.sdkKey))
      yield { path: [...path, 'sdkKey'], message: 'expected a key of its own, got that of another source' };
    keys.add(each.sdkKey);
  }
}
