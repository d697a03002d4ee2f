/**
 * Loaded into the server that is measured (`node --import probe.js`): answers, over the channel to its parent, how many
 * deliveries, slots and bytes are in use. It changes nothing of what is served.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { getHeapStatistics } from 'node:v8';
import { isMainThread } from 'node:worker_threads';
import type { Limiter as LimiterOf } from '../src/admission/index.ts';
import type { Deliveries as DeliveriesOf, LiveGroup as LiveGroupOf } from '../src/delivery/index.ts';

/** What the probe answers. */
export interface Counters {
  /** Of all limiters. */
  readonly held: number;
  readonly waiting: number;
  readonly parked: number;
  readonly admitted: number;
  readonly refused: number;
  /** Deliveries in progress, and how those that are over ended. */
  readonly active: number;
  readonly ended: Readonly<Record<string, number>>;
  readonly parks: number;
  /** Unix time, in milliseconds, of the last change that live streams were told of. */
  readonly publishedUnixMs: number;
  /** Bytes. */
  readonly heapUsed: number;
  readonly heapTotal: number;
  readonly external: number;
  readonly malloced: number;
}

type Limiter = InstanceType<typeof LimiterOf>;
type Deliveries = InstanceType<typeof DeliveriesOf>;

const limiters = new Set<Limiter>();
const deliveries = new Set<Deliveries>();
let publishedUnixMs = 0;

/** Calls `look` with the object each time one of its methods is called, before it. */
function lookAt<T extends object>(prototype: T, method: keyof T & string, look: (object: T) => void): void {
  const original = Reflect.get(prototype, method) as (this: T, ...rest: unknown[]) => unknown;
  Reflect.set(prototype, method, function (this: T, ...rest: unknown[]): unknown {
    look(this);
    return original.apply(this, rest);
  });
}

async function look(dist: string): Promise<void> {
  const from = async <T>(file: string): Promise<T> => (await import(pathToFileURL(join(dist, file)).href)) as T;
  const { Limiter } = await from<{ Limiter: typeof LimiterOf }>('admission/index.js');
  const { Deliveries, LiveGroup } = await from<{ Deliveries: typeof DeliveriesOf; LiveGroup: typeof LiveGroupOf }>(
    'delivery/index.js',
  );
  lookAt(Limiter.prototype, 'acquire', (limiter) => limiters.add(limiter));
  lookAt(Deliveries.prototype, 'deliver', (each) => deliveries.add(each));
  lookAt(LiveGroup.prototype, 'publish', (group) => {
    if (group.size > 0) publishedUnixMs = performance.timeOrigin + performance.now();
  });
}

function counters(): Counters {
  const gates = [...limiters].map((limiter) => limiter.stats());
  const engines = [...deliveries].map((each) => each.stats());
  const sum = <T>(list: readonly T[], of: (each: T) => number): number => list.reduce((all, each) => all + of(each), 0);
  const ended: Record<string, number> = {};
  for (const engine of engines) {
    for (const [outcome, count] of Object.entries(engine.ended)) ended[outcome] = (ended[outcome] ?? 0) + count;
  }
  const { external } = process.memoryUsage();
  const heap = getHeapStatistics();
  return {
    held: sum(gates, ({ held }) => held),
    waiting: sum(gates, ({ waiting, waitingOpen }) => waiting + waitingOpen),
    parked: sum(gates, ({ parked }) => parked),
    admitted: sum(gates, ({ admitted }) => admitted),
    refused: sum(gates, ({ refused }) => sum(Object.values(refused), (count) => count)),
    active: sum(engines, ({ active }) => active),
    ended,
    parks: sum(engines, ({ parks }) => parks),
    publishedUnixMs,
    heapUsed: heap.used_heap_size,
    heapTotal: heap.total_heap_size,
    external,
    malloced: heap.malloced_memory,
  };
}

// the server's own threads are started with this as well, and have nobody to answer to
if (isMainThread) {
  const dist = process.env['BENCH_DIST'];
  if (dist === undefined || process.send === undefined) throw new Error('Cannot probe: no parent asks');
  await look(dist);
  process.on('message', (message) => {
    if (message === 'counters') process.send?.(counters());
    if (message === 'collect') (globalThis as { gc?: () => void }).gc?.();
  });
  // the channel alone must not keep the server alive
  process.channel?.unref();
}
