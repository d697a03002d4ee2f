import { createHash } from 'node:crypto';
import type { OldContext, OldEvaluation, OldEvent } from './old-events.ts';
import { Summary } from './summary.ts';

/** How many contexts are remembered as told, and for how long: as the vendor's SDKs do. */
const CONTEXTS_MAX = 1000;
export const CONTEXTS_MS_MAX: number = 5 * 60_000;

/** Where a summarizer puts what it makes of events. Both say whether there was room. */
export interface Outlet {
  /** One event, as JSON. */
  put(event: string): boolean;
  /** Room for a summary that grows, in bytes. */
  grow(bytes: number): boolean;
}

/** How a summarizer sees the world. */
export interface SummarizerOptions {
  /** Whether custom events keep the whole context. */
  readonly inlineUsers: boolean;
  /** The flag as it is now: what events of the oldest SDKs do not say. */
  readonly flagOf: (key: string) => KnownFlag | undefined;
  /** Unix time in milliseconds, by the clock of the events service where it is known. */
  readonly unixMs: () => number;
}

/** What a summary needs to know of a flag. */
export interface KnownFlag {
  readonly trackEvents: boolean;
  readonly debugUntilMs: number | undefined;
  /** As JSON. */
  readonly variations: readonly string[];
}

/**
 * Makes of old events what a newer SDK would have sent: evaluations become counters, whom they were about is told once, and
 * only what is tracked or debugged goes out in full.
 *
 * The SDK's own event code cannot do it: it takes contexts to be filtered, not ones that were filtered where they came from,
 * and evaluations as they happen.
 */
export class Summarizer {
  readonly #options: SummarizerOptions;
  /** Contexts that were told, the least recently seen first. */
  readonly #told = new Set<string>();
  #summary = new Summary();

  constructor(options: SummarizerOptions) {
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#summary.isEmpty;
  }

  /** Takes the counters away; undefined when there are none. */
  take(): Summary | undefined {
    const summary = this.#summary;
    if (summary.isEmpty) return undefined;
    this.#summary = new Summary();
    return summary;
  }

  /** Forgets whom it has told. */
  forgetContexts(): void {
    this.#told.clear();
  }

  /** Takes an event. Whether there was room for everything that it led to. `schema`: the event's own. */
  add(event: OldEvent, schema: number, outlet: Outlet): boolean {
    switch (event.kind) {
      case 'other':
        return outlet.put(event.text);
      case 'identify':
        if (!outlet.put(headOf('identify', event.creationDate, { context: event.context.text }))) return false;
        this.#see(event.context);
        return true;
      case 'custom': {
        const { key, context, creationDate, data, metricValue } = event;
        const whom = this.#options.inlineUsers
          ? { context: context.text }
          : { contextKeys: JSON.stringify(context.keys) };
        const members = { key: JSON.stringify(key), data, ...whom, metricValue };
        return this.#index(event, outlet) && outlet.put(headOf('custom', creationDate, members));
      }
      case 'feature':
        return this.#evaluation(this.#completed(event, schema), outlet);
    }
  }

  #evaluation(event: OldEvaluation, outlet: Outlet): boolean {
    let isWhole = true;
    if (!event.isExcluded) {
      isWhole = outlet.grow(this.#summary.growth(event));
      if (isWhole) this.#summary.add(event);
    }
    isWhole = this.#index(event, outlet) && isWhole;
    if (event.trackEvents === true) isWhole = outlet.put(fullText('feature', event)) && isWhole;
    if ((event.debugUntilMs ?? 0) > this.#options.unixMs()) isWhole = outlet.put(fullText('debug', event)) && isWhole;
    return isWhole;
  }

  /** With what its SDK did not say: SDKs that do not know of tracking send nothing about it, and the oldest no variation. */
  #completed(event: OldEvaluation, schema: number): OldEvaluation {
    if (event.version === undefined)
      return { ...event, variation: undefined, trackEvents: false, debugUntilMs: undefined };
    if (event.trackEvents !== undefined || event.debugUntilMs !== undefined) return event;
    const flag = this.#options.flagOf(event.key);
    if (flag === undefined) return event;
    const { trackEvents, debugUntilMs } = flag;
    const found = schema <= 1 && event.variation === undefined ? flag.variations.indexOf(event.value) : -1;
    return { ...event, trackEvents, debugUntilMs, variation: found < 0 ? event.variation : found };
  }

  /** Tells whom an event is about, unless that was told a short while ago. */
  #index({ context, creationDate }: { context: OldContext; creationDate: number }, outlet: Outlet): boolean {
    if (this.#see(context)) return true;
    if (outlet.put(headOf('index', creationDate, { context: context.text }))) return true;
    this.#told.delete(nameOf(context));
    return false;
  }

  /** Whether the context is remembered; from here on it is. */
  #see(context: OldContext): boolean {
    const name = nameOf(context);
    const isKnown = this.#told.delete(name);
    this.#told.add(name);
    if (this.#told.size > CONTEXTS_MAX) {
      const [oldest] = this.#told;
      if (oldest !== undefined) this.#told.delete(oldest);
    }
    return isKnown;
  }
}

/** Keys may be of any length: a long one is remembered by its hash. */
function nameOf({ id }: OldContext): string {
  return id.length <= 64 ? id : createHash('sha256').update(id).digest('base64');
}

function headOf(
  kind: string,
  creationDate: number,
  members: Readonly<Record<string, string | number | undefined>>,
): string {
  let text = `{"kind":"${kind}","creationDate":${creationDate}`;
  for (const [name, value] of Object.entries(members)) if (value !== undefined) text += `,"${name}":${value}`;
  return `${text}}`;
}

function fullText(kind: 'feature' | 'debug', event: OldEvaluation): string {
  const { creationDate, key, version, context, variation, value, fallback, prereqOf, reason, samplingRatio } = event;
  return headOf(kind, creationDate, {
    key: JSON.stringify(key),
    version,
    context: context.text,
    variation,
    value,
    default: fallback,
    prereqOf: prereqOf === undefined ? undefined : JSON.stringify(prereqOf),
    reason,
    samplingRatio: samplingRatio === 1 ? undefined : samplingRatio,
  });
}
