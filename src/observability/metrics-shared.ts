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
}

/** What both fronts tell of a refusal, as far as it is measured. */
interface RefusedFact {
  readonly route: string;
  readonly reason: string;
  readonly early: boolean;
  readonly waitedMs: number;
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

  constructor(registry: Registry) {
    this.small = registry.number(DELIVERY.small);
    this.sent = registry.number(DELIVERY.sent);
    this.saved = registry.number(DELIVERY.saved);
    this.#wait = registry.histogram(ADMISSION.wait);
    this.#ended = registry.number(DELIVERY.ended);
    this.#duration = registry.histogram(DELIVERY.duration);
    this.#refusals = registry.number(DELIVERY.refusals);
  }

  /** A delivery under a slot has ended: rare beside what it cost, so its series are looked up. */
  delivered(front: string, tenant: string, fact: DeliveredFact): void {
    const { route, what, outcome, encoding, waitedMs, bytes, ms } = fact;
    this.#wait.bind(front, 'admitted').record(waitedMs / 1000);
    this.#ended.bind(front, tenant, route, what, outcome).value++;
    this.#duration.bind(front, what, outcome).record(ms / 1000);
    this.sent.bind(front, what, encoding).value += bytes;
  }

  refused(front: string, tenant: string, { route, reason, early, waitedMs }: RefusedFact): void {
    this.#wait.bind(front, 'refused').record(waitedMs / 1000);
    this.#refusals.bind(front, tenant, route, early ? 'early' : reason).value++;
  }

  /** A client that waited for a slot has left. */
  left(front: string, waitedMs: number): void {
    this.#wait.bind(front, 'left').record(waitedMs / 1000);
  }
}
