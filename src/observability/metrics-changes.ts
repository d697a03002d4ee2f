import { pagesEncoded } from '../dataset/index.ts';
import { pickedUp } from '../protocols/crowdsec/index.ts';
import { taken, takenCompressed } from '../protocols/launchdarkly/index.ts';
import { CHANGES } from './catalog.ts';
import type { Behind, Figures } from './figures.ts';
import { type Collected, type HistogramSeries, type NumberSeries, observed, type Registry } from './instruments.ts';
import type { SharedMetrics } from './metrics-shared.ts';

const FLAGS = 'flags';
const DECISIONS = 'decisions';
const CHANGE = 'change';
const FRONTS = { items: FLAGS, decisions: DECISIONS } as const;

/** Which fronts there are. */
interface Fronts {
  readonly flags: boolean;
  readonly decisions: boolean;
}

/** Listens to data on their way: what is encoded, and how soon clients have what changed. */
export function measureChanges(registry: Registry, shared: SharedMetrics, fronts: Fronts): () => void {
  const latency = registry.histogram(CHANGES.latency);
  const stops = [measureEncoding(registry, fronts)];
  if (fronts.flags) {
    const seconds = latency.bind(FLAGS);
    const listen = (fact: typeof taken, sent: NumberSeries): (() => void) =>
      fact.listen(({ ms, clients, bytes }) => {
        seconds.record(ms / 1000, clients);
        sent.value += bytes;
      });
    stops.push(
      listen(taken, shared.sent.bind(FLAGS, CHANGE, 'identity')),
      listen(takenCompressed, shared.sent.bind(FLAGS, CHANGE, 'gzip')),
    );
  }
  if (fronts.decisions) {
    const seconds = latency.bind(DECISIONS);
    stops.push(pickedUp.listen(({ ms }) => seconds.record(ms / 1000)));
  }
  return () => {
    for (const stop of stops) stop();
  };
}

function measureEncoding(registry: Registry, fronts: Fronts): () => void {
  const seconds = registry.histogram(CHANGES.encode);
  const bytes = registry.number(CHANGES.encoded);
  const bound = new Map<string, { readonly seconds: HistogramSeries; readonly bytes: NumberSeries }>();
  return pagesEncoded.listen((fact) => {
    const { data, encoding, ms } = fact;
    const front = FRONTS[data];
    if (!fronts[front]) return;
    const key = `${front} ${encoding}`;
    let series = bound.get(key);
    if (series === undefined) {
      bound.set(key, (series = { seconds: seconds.bind(front, encoding), bytes: bytes.bind(front, encoding) }));
    }
    series.seconds.record(ms / 1000);
    series.bytes.value += fact.bytes;
  });
}

/** How far clients are behind: open streams of all environments, and bouncers. */
export function* lagMetrics({ environments, decisions }: Figures, fronts: Fronts): Generator<Collected> {
  const rows: [values: readonly string[], value: number][] = [];
  const add = (front: string, { current, few, many }: Behind): void => {
    rows.push([[front, '0'], current], [[front, '1-10'], few], [[front, 'more'], many]);
  };
  if (fronts.flags) {
    const all = { current: 0, few: 0, many: 0 };
    for (const { behind } of environments) {
      all.current += behind.current;
      all.few += behind.few;
      all.many += behind.many;
    }
    add(FLAGS, all);
  }
  if (decisions !== undefined) add(DECISIONS, decisions.behind);
  yield observed(CHANGES.behind, rows);
}
