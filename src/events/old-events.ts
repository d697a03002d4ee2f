/**
 * An event as SDKs wrote it before summaries, and as those without a memory of their own (PHP) still do. Parts that are
 * only handed on are kept as JSON.
 */
export type OldEvent =
  | OldEvaluation
  | { readonly kind: 'identify'; readonly creationDate: number; readonly context: OldContext }
  | {
      readonly kind: 'custom';
      readonly creationDate: number;
      readonly context: OldContext;
      readonly key: string;
      readonly data: string | undefined;
      readonly metricValue: number | undefined;
    }
  | { readonly kind: 'other'; readonly text: string };

/** One evaluation of a flag. */
export interface OldEvaluation {
  readonly kind: 'feature';
  readonly creationDate: number;
  readonly context: OldContext;
  readonly key: string;
  /** Of the flag; undefined: there was no such flag. */
  readonly version: number | undefined;
  readonly variation: number | undefined;
  readonly value: string;
  readonly fallback: string;
  readonly reason: string | undefined;
  readonly prereqOf: string | undefined;
  readonly trackEvents: boolean | undefined;
  readonly debugUntilMs: number | undefined;
  readonly samplingRatio: number | undefined;
  readonly isExcluded: boolean;
}

/** Whom an event is about, exactly as its SDK wrote it: what is private is left out there already. */
export interface OldContext {
  readonly text: string;
  /** The same for the same context, whatever else is known about it. */
  readonly id: string;
  /** Kinds to keys. */
  readonly keys: Readonly<Record<string, string>>;
}

type Members = Readonly<Record<string, unknown>>;

/** Reads one event. Undefined: it is none, and cannot be told to anyone. */
export function readOldEvent(text: string): OldEvent | undefined {
  const event: unknown = JSON.parse(text);
  if (!isObject(event)) return undefined;
  const { kind, creationDate, key } = event;
  if (typeof kind !== 'string' || kind === '') return undefined;
  if (kind !== 'feature' && kind !== 'custom' && kind !== 'identify') return { kind: 'other', text };
  const context = contextOf(event['context'] ?? event['user']);
  if (context === undefined || !isWhole(creationDate)) return undefined;
  if (kind === 'identify') return { kind, creationDate, context };
  if (typeof key !== 'string') return undefined;
  if (kind === 'feature') return evaluationOf(event, { key, creationDate, context });
  const { data, metricValue } = event;
  if (!isOptional(metricValue, 'number')) return undefined;
  return {
    kind,
    creationDate,
    context,
    key,
    data: data === undefined || data === null ? undefined : JSON.stringify(data),
    metricValue: metricValue ?? undefined,
  };
}

function evaluationOf(
  event: Members,
  base: { readonly key: string; readonly creationDate: number; readonly context: OldContext },
): OldEvaluation | undefined {
  const { version, variation, trackEvents, debugEventsUntilDate, samplingRatio, excludeFromSummaries } = event;
  const { reason, prereqOf } = event;
  if (!isOptional(version, 'number') || !isOptional(variation, 'number') || !isOptional(samplingRatio, 'number')) {
    return undefined;
  }
  if (!isOptional(debugEventsUntilDate, 'number') || !isOptional(trackEvents, 'boolean')) return undefined;
  return {
    kind: 'feature',
    ...base,
    version: version ?? undefined,
    variation: variation ?? undefined,
    value: JSON.stringify(event['value'] ?? null),
    fallback: JSON.stringify(event['default'] ?? null),
    reason: isObject(reason) ? JSON.stringify(reason) : undefined,
    prereqOf: typeof prereqOf === 'string' ? prereqOf : undefined,
    trackEvents: trackEvents ?? undefined,
    debugUntilMs: debugEventsUntilDate ?? undefined,
    samplingRatio: samplingRatio ?? undefined,
    isExcluded: excludeFromSummaries === true,
  };
}

/** A context of one kind or of several, or a user of old, who has no kind. */
function contextOf(value: unknown): OldContext | undefined {
  if (!isObject(value)) return undefined;
  const { kind = 'user', key } = value;
  if (typeof kind !== 'string' || kind === '') return undefined;
  if (kind !== 'multi') {
    if (typeof key !== 'string') return undefined;
    const text = JSON.stringify(value);
    return { text, id: JSON.stringify([kind, key]), keys: { [kind]: key } };
  }
  const pairs: [string, string][] = [];
  for (const [name, part] of Object.entries(value)) {
    if (name === 'kind') continue;
    if (!isObject(part) || typeof part['key'] !== 'string') return undefined;
    pairs.push([name, part['key']]);
  }
  if (pairs.length === 0) return undefined;
  const sorted = pairs.toSorted(([one], [other]) => (one < other ? -1 : 1));
  return { text: JSON.stringify(value), id: JSON.stringify(sorted.flat()), keys: Object.fromEntries(pairs) };
}

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isWhole(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

interface Primitives {
  readonly number: number;
  readonly boolean: boolean;
}

function isOptional<T extends keyof Primitives>(value: unknown, type: T): value is Primitives[T] | null | undefined {
  return value === undefined || value === null || typeof value === type;
}
