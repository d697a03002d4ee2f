import { z } from 'zod';
import { Slices } from '../kernel/index.ts';
import { environmentOf } from './environment-rep.ts';
import type { SourceEnvironment } from './source.ts';

/** What the automatic configuration is made of, as its paths name it. */
type RepKind = 'environments' | 'filters';

/** An environment as upstream described it. */
export interface EnvironmentRep {
  readonly version: number;
  readonly environment: SourceEnvironment;
  /** What came, unknown members included: a later release may understand more of it. */
  readonly raw: unknown;
}

/** A payload filter, which every environment of its project offers. */
export interface FilterRep {
  readonly version: number;
  readonly projKey: string;
  readonly key: string;
  readonly raw: unknown;
}

/** A part of a message that cannot be read. */
export interface Malformed {
  readonly of: RepKind;
  readonly id: string;
  /** Where it stands, as `data.environments.ID.sdkKey.value`. */
  readonly place: string;
  /** What is wrong with it; never the value, which may be a key. */
  readonly cause: string;
}

/** Undefined is one that is there and cannot be read: what is held of it stays. */
export type Reps<R> = ReadonlyMap<string, R | undefined>;

/** An event of the stream, read. */
export type AutoConfigMessage =
  | {
      readonly kind: 'put';
      readonly environments: Reps<EnvironmentRep>;
      readonly filters: Reps<FilterRep>;
      readonly malformed: readonly Malformed[];
    }
  | { readonly kind: 'patch'; readonly of: 'environments'; readonly id: string; readonly rep: EnvironmentRep }
  | { readonly kind: 'patch'; readonly of: 'filters'; readonly id: string; readonly rep: FilterRep }
  | { readonly kind: 'delete'; readonly of: RepKind; readonly id: string; readonly version: number }
  /** A patch that cannot be read: it changes nothing. */
  | { readonly kind: 'malformed'; readonly malformed: Malformed }
  /** Of a kind, or for a path, that this release does not know. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'reconnect' };

/** Why an event as a whole cannot be read. The message names the place and the cause, without any value. */
export class UnreadableEvent extends Error {}

// an absent member and null are the zero of their type, as the vendor's relay reads them
const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '');
const count = z
  .int()
  .nonnegative()
  .nullish()
  .transform((value) => value ?? 0);
const yes = z
  .boolean()
  .nullish()
  .transform((value) => value ?? false);

/** It is sent in a header (RFC 9110 section 5.5). Not shown in any message: it is a key. */
const headerText = z.string().regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces');

const ENVIRONMENT = z.object({
  envID: text,
  envKey: text,
  envName: text,
  mobKey: text,
  projKey: text,
  projName: text,
  sdkKey: z.object({
    value: headerText,
    expiring: z.object({ value: text, timestamp: count }).nullish(),
  }),
  defaultTtl: count,
  secureMode: yes,
  version: count,
});
const FILTER = z.object({ projKey: z.string().min(1), key: z.string().min(1), version: count });

// the environments must be named: their absence by mistake would take every client's key away
const PUT = z.object({
  path: z.string().nullish(),
  data: z.object({
    environments: z.record(z.string(), z.unknown()).nullable(),
    filters: z.record(z.string(), z.unknown()).nullish(),
  }),
});
const PUT_PATH = z.object({ path: z.string().nullish() });
const PATCH = z.object({ path: z.string(), data: z.unknown() });
const DELETE = z.object({ path: z.string(), version: count });

/**
 * Reads one event of the stream, a large one in slices. A description that cannot be read is told beside the others.
 *
 * @param name - of the event
 * @param data - its text
 * @throws UnreadableEvent when the text is no JSON, or not laid out as the protocol has it.
 */
export async function parseMessage(name: string, data: string): Promise<AutoConfigMessage> {
  if (name === 'put') return parsePut(parseJson(name, data));
  if (name === 'patch') return parsePatch(parseJson(name, data));
  if (name === 'delete') return parseDelete(parseJson(name, data));
  return name === 'reconnect' ? { kind: 'reconnect' } : { kind: 'unknown' };
}

/** Reads a description of an environment that stands under `id`. */
export function parseEnvironment(id: string, raw: unknown): EnvironmentRep | Malformed {
  const parsed = ENVIRONMENT.safeParse(raw);
  if (!parsed.success) return malformed('environments', id, parsed.error);
  const rep = parsed.data;
  if (rep.envID !== '' && rep.envID !== id) {
    return { ...placeOf('environments', id, ['envID']), cause: 'must be the ID in its path' };
  }
  return {
    version: rep.version,
    raw,
    environment: environmentOf(id, rep),
  };
}

/** Reads a description of a filter that stands under `id`. */
export function parseFilter(id: string, raw: unknown): FilterRep | Malformed {
  const parsed = FILTER.safeParse(raw);
  return parsed.success ? { ...parsed.data, raw } : malformed('filters', id, parsed.error);
}

/** Whether a description could not be read. */
export function isMalformed(rep: EnvironmentRep | FilterRep | Malformed): rep is Malformed {
  return 'cause' in rep;
}

function parseJson(name: string, data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    // the parser's message quotes the text, and the text holds keys
    throw new UnreadableEvent(
      `the data of its ${name} event must be JSON, got ${data.length} characters that are none`,
    );
  }
}

async function parsePut(json: unknown): Promise<AutoConfigMessage> {
  const { path } = expect('put', PUT_PATH, json);
  if (typeof path === 'string' && path !== '/') return { kind: 'unknown' };
  const { data } = expect('put', PUT, json);
  const found: Malformed[] = [];
  const environments = await readAll(data.environments ?? {}, parseEnvironment, found);
  const filters = await readAll(data.filters ?? {}, parseFilter, found);
  return { kind: 'put', environments, filters, malformed: found };
}

/** @param found - takes what cannot be read */
async function readAll<R extends EnvironmentRep | FilterRep>(
  raws: Readonly<Record<string, unknown>>,
  parse: (id: string, raw: unknown) => R | Malformed,
  found: Malformed[],
): Promise<Reps<R>> {
  const slices = new Slices();
  const reps = new Map<string, R | undefined>();
  for (const [id, raw] of Object.entries(raws)) {
    const rep = parse(id, raw);
    if (isMalformed(rep)) found.push(rep);
    reps.set(id, isMalformed(rep) ? undefined : rep);
    if (slices.due()) await slices.pause();
  }
  return reps;
}

function parsePatch(json: unknown): AutoConfigMessage {
  const { path, data } = expect('patch', PATCH, json);
  const at = parsePath(path);
  if (at === undefined) return { kind: 'unknown' };
  const { of, id } = at;
  if (of === 'environments') {
    const rep = parseEnvironment(id, data);
    return isMalformed(rep) ? { kind: 'malformed', malformed: rep } : { kind: 'patch', of, id, rep };
  }
  const rep = parseFilter(id, data);
  return isMalformed(rep) ? { kind: 'malformed', malformed: rep } : { kind: 'patch', of, id, rep };
}

function parseDelete(json: unknown): AutoConfigMessage {
  const { path, version } = expect('delete', DELETE, json);
  const at = parsePath(path);
  return at === undefined ? { kind: 'unknown' } : { kind: 'delete', ...at, version };
}

const PATH = /^\/(?<of>environments|filters)\/(?<id>[^/]+)$/;

function parsePath(path: string): { readonly of: RepKind; readonly id: string } | undefined {
  const groups = PATH.exec(path)?.groups;
  if (groups === undefined) return undefined;
  return { of: groups['of'] as RepKind, id: groups['id'] as string };
}

function expect<T>(name: string, form: z.ZodType<T>, json: unknown): T {
  const parsed = form.safeParse(json);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const at = issue?.path.map(String).join('.') ?? '';
  throw new UnreadableEvent(`its ${name} event cannot be read: ${at}: ${issue?.message ?? 'not as expected'}`);
}

function malformed(of: RepKind, id: string, error: z.ZodError): Malformed {
  const issue = error.issues[0];
  return { ...placeOf(of, id, issue?.path ?? []), cause: issue?.message ?? 'not as expected' };
}

function placeOf(of: RepKind, id: string, below: readonly PropertyKey[]): Omit<Malformed, 'cause'> {
  return { of, id, place: ['data', of, id, ...below.map(String)].join('.') };
}
