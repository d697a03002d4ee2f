import type { Clock } from '../kernel/index.ts';
import { ADMISSION, DECISIONS, DELIVERY, HEALTH, HTTP, PROCESS, RELAY_9 } from './catalog.ts';
import type { Figures } from './figures.ts';
import { type Collected, observed, Registry } from './instruments.ts';
import { lagMetrics, measureChanges } from './metrics-changes.ts';
import { decisionMetrics, measureDecisions } from './metrics-decisions.ts';
import { environmentMetrics, measureFlags } from './metrics-flags.ts';
import { flagMetrics } from './metrics-relay.ts';
import { measureHttp } from './metrics-http.ts';
import { type LoopDelay, ProcessMetrics } from './metrics-process.ts';
import { SharedMetrics, type Totals } from './metrics-shared.ts';
import { prometheusText } from './prometheus.ts';

/** What is measured. */
export interface MetricsOptions {
  readonly clock: Clock;
  readonly version: string;
  /** Asked whenever metrics are read. */
  readonly figures: () => Figures;
  /** Which fronts there are: those that are not have no metrics. */
  readonly flags: boolean;
  readonly decisions: boolean;
  /** What an environment is called, by its name in facts; absent: the same. */
  readonly tenantOf?: (name: string) => string;
  /** Absent: without the names of the vendor's relay of version 8; else what stands before them. */
  readonly relay8Prefix?: string;
}

/** What a process measures of itself. */
export interface Metrics {
  /** In Prometheus' text format, as of now. */
  text(): string;
  collect(): Iterable<Collected>;
  /** What was answered so far, over all series: of the same numbers. */
  totals(): Totals;
  loopDelay(): LoopDelay;
  close(): void;
}

/**
 * Listens to what the rooms make known, and counts it. Writing is adding to a number that is already there; names, texts and
 * what is known elsewhere are put together when somebody reads.
 *
 * @example
 * import { Limiter } from 'headgate/admission';
 * import { Deliveries } from 'headgate/delivery';
 *
 * const limiter = new Limiter({ name: 'copies', maxConcurrent: 8, maxQueued: 0, waitMsMax: 1000 });
 * const deliveries = new Deliveries();
 * const figures = () => ({
 *   admission: limiter.stats(), slotsMax: 8, pinnedBytesMax: Infinity, deliveries: deliveries.stats(),
 *   kernelHeldBytes: deliveries.kernelHeldBytes(), activeRequests: 0, environments: [],
 * });
 * const metrics = openMetrics({ clock: systemClock, version: '1.0.0', figures, flags: true, decisions: false });
 * limiter.tryAcquire();
 * console.log(metrics.text().includes('\nheadgate_admission_held 1\n')); // true
 * metrics.close();
 */
export function openMetrics(options: MetricsOptions): Metrics {
  const { clock, version, figures, flags, decisions, relay8Prefix } = options;
  const registry = new Registry();
  const shared = new SharedMetrics(registry);
  const ownProcess = new ProcessMetrics(clock, version);
  const stops = [measureHttp(registry, decisions), measureChanges(registry, shared, options)];
  if (flags) {
    const prefix = relay8Prefix === undefined ? {} : { prefix: relay8Prefix };
    stops.push(measureFlags(registry, shared, { ...prefix, tenantOf: options.tenantOf ?? ((name) => name) }));
  }
  if (decisions) stops.push(measureDecisions(registry, shared));
  registry.observe(function* () {
    const now = figures();
    yield* budgetMetrics(now);
    yield* lagMetrics(now, options);
    if (flags) {
      yield* relayMetrics(now);
      yield* environmentMetrics(now.environments, relay8Prefix);
      if (now.flags !== undefined) yield* flagMetrics(now.flags, now.environments);
    }
    if (now.decisions !== undefined) yield* decisionMetrics(now.decisions, version);
    const sources = [...(now.flags?.sources ?? []), ...(now.decisions?.sources ?? [])];
    yield observed(
      DECISIONS.sourceUp,
      sources.map(({ name, up }) => [[name], Number(up)] as const),
    );
  });
  registry.observe(() => ownProcess.collect());
  return {
    text: () => prometheusText(registry.collect()),
    collect: () => registry.collect(),
    totals: () => shared.totals(),
    loopDelay: () => ownProcess.loopDelay(),
    close() {
      for (const stop of stops) stop();
      ownProcess.close();
    },
  };
}

function* budgetMetrics({
  admission,
  deliveries,
  kernelHeldBytes,
  slotsMax,
  queueMax = Number.POSITIVE_INFINITY,
  pinnedBytesMax,
  parkedMax,
  memoryLimitBytes,
  activeRequests,
  ready,
  stores = [],
}: Figures): Generator<Collected> {
  const finite = (value: number): number | undefined => (Number.isFinite(value) ? value : undefined);
  const { refused, refusedEarly } = admission;
  yield observed(ADMISSION.slotsMax, admission.enabled ? finite(slotsMax) : undefined);
  yield observed(ADMISSION.held, admission.held);
  yield observed(ADMISSION.parked, admission.parked);
  yield observed(ADMISSION.parkedMax, admission.enabled ? parkedMax : undefined);
  yield observed(ADMISSION.waiting, admission.waiting);
  yield observed(ADMISSION.queueMax, admission.enabled ? finite(queueMax) : undefined);
  yield observed(ADMISSION.waitingOpen, admission.waitingOpen);
  yield observed(ADMISSION.pinned, admission.pinnedBytes);
  yield observed(ADMISSION.pinnedMax, admission.enabled ? finite(pinnedBytesMax) : undefined);
  yield observed(ADMISSION.admitted, admission.admitted);
  yield observed(ADMISSION.refused, [
    [['full'], refused.full],
    [['timeout'], refused.timeout - refusedEarly],
    [['early'], refusedEarly],
    [['aborted'], refused.aborted],
    [['closed'], refused.closed],
  ]);
  yield observed(DELIVERY.active, deliveries.active);
  yield observed(DELIVERY.parked, deliveries.parked);
  yield observed(DELIVERY.kernelHeld, kernelHeldBytes);
  yield observed(DELIVERY.started, deliveries.started);
  yield observed(DELIVERY.parks, deliveries.parks);
  yield observed(HTTP.active, activeRequests);
  yield observed(PROCESS.memoryLimit, memoryLimitBytes);
  yield observed(HEALTH.ready, ready === undefined ? undefined : Number(ready));
  yield observed(
    HEALTH.storeFailing,
    stores.map(({ name, failing }) => [[name], Number(failing)]),
  );
}

/** The budget by the names of the vendor's relay, which has no limit on waiting: a wait that is over is its full queue. */
function* relayMetrics({ admission }: Figures): Generator<Collected> {
  const { refused } = admission;
  yield observed(RELAY_9.held, admission.held);
  yield observed(RELAY_9.waiting, admission.waiting + admission.waitingOpen);
  yield observed(RELAY_9.admitted, admission.admitted);
  yield observed(RELAY_9.rejected, [
    [['budget_full'], refused.full + refused.timeout],
    [['client_gone'], refused.aborted],
    [['shutdown'], refused.closed],
  ]);
}
