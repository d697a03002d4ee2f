import { ADMISSION, DELIVERY } from './catalog.ts';
import type { Family, HistogramSeries, NumberSeries, Registry } from './instruments.ts';

/** What both fronts tell of a delivery, as far as it is measured. */
interface DeliveredFact {
  readonly route: string;
  readonly what: string;
  readonly outcome: string;
  readonly encoding: string;
  readonly waitedMs: number;
  readonly bytes: number;
  readonly ms: number;
  readonly plainBytes?: number;
}

/** What both fronts tell of a refusal, as far as it is measured. */
interface RefusedFact {
  readonly route: string;
  readonly reason: string;
  readonly early: boolean;
  readonly waitedMs: number;
}

/** What was answered so far, over all series. */
export interface Totals {
  /** By catch-ups. */
  readonly savedBytes: number;
  /** By compression. */
  readonly compressedAwayBytes: number;
  /** What nobody knows the encoding of counts as not compressed. */
  readonly sentBytes: { readonly identity: number; readonly gzip: number };
  /** Full copies that were sent to their end. */
  readonly full: number;
  /** Catch-ups of flags and deltas of decisions, large ones that were sent to their end among them. */
  readonly catchUps: number;
  /** Answers that nothing is new. */
  readonly current: number;
}

/** Metrics that both fronts write to. */
export class SharedMetrics {
  readonly small: Family<NumberSeries>;
  readonly sent: Family<NumberSeries>;
  readonly saved: Family<NumberSeries>;
  readonly #wait: Family<HistogramSeries>;
  readonly #ended: Family<NumberSeries>;
  readonly #duration: Family<HistogramSeries>;
  readonly #refusals: Family<NumberSeries>;
  readonly #compressedAway: Family<NumberSeries>;

  constructor(registry: Registry) {
    this.small = registry.number(DELIVERY.small);
    this.sent = registry.number(DELIVERY.sent);
    this.saved = registry.number(DELIVERY.saved);
    this.#wait = registry.histogram(ADMISSION.wait);
    this.#ended = registry.number(DELIVERY.ended);
    this.#duration = registry.histogram(DELIVERY.duration);
    this.#refusals = registry.number(DELIVERY.refusals);
    this.#compressedAway = registry.number(DELIVERY.compressedAway);
  }

  /** A delivery under a slot has ended: rare beside what it cost, so its series are looked up. */
  delivered(front: string, tenant: string, fact: DeliveredFact): void {
    const { route, what, outcome, encoding, waitedMs, bytes, ms, plainBytes } = fact;
    this.#wait.bind(front, 'admitted').record(waitedMs / 1000);
    this.#ended.bind(front, tenant, route, what, outcome).value++;
    this.#duration.bind(front, what, outcome).record(ms / 1000);
    this.sent.bind(front, what, encoding).value += bytes;
    if (outcome === 'completed' && plainBytes !== undefined)
      this.#compressedAway.bind(front).value += Math.max(0, plainBytes - bytes);
  }

  refused(front: string, tenant: string, { route, reason, early, waitedMs }: RefusedFact): void {
    this.#wait.bind(front, 'refused').record(waitedMs / 1000);
    this.#refusals.bind(front, tenant, route, early ? 'early' : reason).value++;
  }

  totals(): Totals {
    const small = valuesOf(this.small);
    const ended = valuesOf(this.#ended);
    const sent = valuesOf(this.sent);
    const isChange = ({ copy }: Labels): boolean => copy === 'catch-up' || copy === 'delta';
    return {
      savedBytes: sum(valuesOf(this.saved)),
      compressedAwayBytes: sum(valuesOf(this.#compressedAway)),
      sentBytes: {
        identity: sum(sent, ({ encoding }) => encoding !== 'gzip'),
        gzip: sum(sent, ({ encoding }) => encoding === 'gzip'),
      },
      full: sum(ended, ({ copy, outcome }) => copy === 'full' && outcome === 'completed'),
      catchUps: sum(small, isChange) + sum(ended, (labels) => isChange(labels) && labels.outcome === 'completed'),
      current: sum(small, ({ copy }) => copy === 'current'),
    };
  }

  /** A client that waited for a slot has left. */
  left(front: string, waitedMs: number): void {
    this.#wait.bind(front, 'left').record(waitedMs / 1000);
  }
}

/** Those of the labels of a series that totals are made by. */
type Labels = Readonly<Partial<Record<'copy' | 'outcome' | 'encoding', string>>>;

function valuesOf(family: Family<NumberSeries>): (readonly [labels: Labels, value: number])[] {
  const names = family.definition.labels ?? [];
  return Array.from(family.all(), ({ values, value }) => [
    Object.fromEntries(names.map((name, at) => [name, values[at]])) as Labels,
    value,
  ]);
}

function sum(
  values: readonly (readonly [labels: Labels, value: number])[],
  counts: (labels: Labels) => boolean = () => true,
): number {
  return values.reduce((total, [labels, value]) => (counts(labels) ? total + value : total), 0);
}
