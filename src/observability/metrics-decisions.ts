import {
  answered,
  cursorEvicted,
  cursorShared,
  delivered,
  keyDropped,
  keyLearned,
  left,
  notForwarded,
  refused,
  unavailable,
} from '../protocols/crowdsec/index.ts';
import { DECISIONS, LAPI } from './catalog.ts';
import type { DecisionFigures } from './figures.ts';
import { BoundByName, type Collected, type NumberSeries, observed, type Registry } from './instruments.ts';
import type { SharedMetrics } from './metrics-shared.ts';

/** Bouncers that have series of their own; the rest share one. */
const BOUNCERS_MAX = 1000;
/** Paths of ours that bouncers ask for by name. */
const ROUTES_MAX = 8;
/** Pairs of origin and type that have series of their own. */
const PAIRS_MAX = 500;

const FRONT = 'decisions';
/** There are no environments: bouncers are one tenant. */
const TENANT = '';
const LOOK_UPS = '/v1/decisions';

/** What is written to for one route of one bouncer. */
interface BouncerSeries {
  readonly requests: NumberSeries;
  readonly ok: NumberSeries;
  readonly ko: NumberSeries;
}

/** What is written to for one kind of small answer of one route. */
interface SmallSeries {
  readonly count: NumberSeries;
  readonly bytes: NumberSeries;
}

/** Listens to the decisions front. */
export function measureDecisions(registry: Registry, shared: SharedMetrics): () => void {
  const requests = registry.number(LAPI.bouncerRequests);
  const decisionsOk = registry.number(LAPI.decisionsOk);
  const decisionsKo = registry.number(LAPI.decisionsKo);
  const bouncers = new BoundByName(
    BOUNCERS_MAX,
    (bouncer) =>
      new BoundByName<BouncerSeries>(ROUTES_MAX, (route) => ({
        requests: requests.bind(bouncer, route, 'GET'),
        ok: decisionsOk.bind(bouncer),
        ko: decisionsKo.bind(bouncer),
      })),
  );
  const small = new BoundByName(
    ROUTES_MAX,
    (route) =>
      new BoundByName<SmallSeries>(ROUTES_MAX, (what) => ({
        count: shared.small.bind(FRONT, TENANT, route, what),
        bytes: shared.sent.bind(FRONT, what, 'identity'),
      })),
  );
  const stops = [
    answered.listen(({ bouncer, route, what, bytes, hit, encoding }) => {
      const series = bouncers.of(bouncer).of(route);
      series.requests.value++;
      if (what === 'look-up') (hit ? series.ok : series.ko).value++;
      const sent = small.of(route).of(what);
      sent.count.value++;
      // only large deltas are compressed: rare enough to look their series up
      (encoding === 'gzip' ? shared.sent.bind(FRONT, what, encoding) : sent.bytes).value += bytes;
    }),
    delivered.listen((fact) => {
      const series = bouncers.of(fact.bouncer).of(fact.route);
      series.requests.value++;
      if (fact.route === LOOK_UPS) (fact.added > 0 ? series.ok : series.ko).value++;
      shared.delivered(FRONT, TENANT, fact);
    }),
    refused.listen((fact) => {
      bouncers.of(fact.bouncer).of(fact.route).requests.value++;
      shared.refused(FRONT, TENANT, fact);
    }),
    left.listen(({ bouncer, route, waitedMs }) => {
      bouncers.of(bouncer).of(route).requests.value++;
      shared.left(FRONT, waitedMs);
    }),
    ...measureTrouble(registry, (bouncer, route) => bouncers.of(bouncer).of(route).requests),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

function measureTrouble(
  registry: Registry,
  requestsOf: (bouncer: string, route: string) => NumberSeries,
): (() => void)[] {
  const unanswered = registry.number(DECISIONS.unavailable);
  const cursors = registry.number(DECISIONS.cursors);
  const keys = registry.number(DECISIONS.keys);
  const forwards = registry.number(DECISIONS.notForwarded);
  // paths that are passed on come from outside
  const forwarded = new BoundByName(ROUTES_MAX, (route) => forwards.bind(route));
  const [sharedCursor, evicted] = [cursors.bind('shared'), cursors.bind('evicted')];
  const [learned, dropped] = [keys.bind('learned'), keys.bind('dropped')];
  return [
    unavailable.listen(({ bouncer, route, reason }) => {
      unanswered.bind(reason).value++;
      if (bouncer !== undefined) requestsOf(bouncer, route).value++;
    }),
    cursorShared.listen(() => sharedCursor.value++),
    cursorEvicted.listen(() => evicted.value++),
    keyLearned.listen(() => learned.value++),
    keyDropped.listen(() => dropped.value++),
    notForwarded.listen(({ route }) => forwarded.of(route).value++),
  ];
}

/** Decisions as they stand. */
export function* decisionMetrics(figures: DecisionFigures, version: string): Generator<Collected> {
  const { tombstones, bytes, offset, sources } = figures;
  const pairs = figures.counts.slice(0, PAIRS_MAX).map(({ origin, type, count }) => [[origin, type], count] as const);
  yield observed(DECISIONS.held, pairs);
  yield observed(DECISIONS.tombstones, tombstones);
  yield observed(DECISIONS.bytes, bytes);
  yield observed(DECISIONS.offset, offset);
  yield observed(DECISIONS.positions, figures.cursors);
  const each = (value: (it: (typeof sources)[number]) => number | undefined): [string[], number][] =>
    sources.flatMap((source) => {
      const number = value(source);
      return number === undefined ? [] : [[[source.name], number] as [string[], number]];
    });
  yield observed(
    DECISIONS.sourceAge,
    each(({ ageMs }) => (ageMs === undefined ? undefined : ageMs / 1000)),
  );
  yield observed(
    DECISIONS.sourceItems,
    each(({ decisions }) => decisions),
  );
  yield observed(LAPI.active, pairs);
  yield observed(LAPI.info, [[[`headgate-${version}`], 1]]);
}
