/**
 * How long the data set's work takes on a large set, and how long it keeps the event loop from anything else.
 *
 *   npx tsc -p bench/tsconfig.json && node .bench/bench/dataset.js [megabytes] [repeats]
 *
 * The longest block is the largest gap between two turns of a chain of immediates, less the time in which this thread
 * was ready and had no core (Linux tells): other programs on the machine are not ours. "Own" is what is left of a gap
 * without the collector's pauses, which depend on the heap and on how many cores its helpers get, and never more than
 * the time this thread was on a core.
 * (`monitorEventLoopDelay` is not used: a reset just before a block loses that block.)
 */
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { PerformanceObserver } from 'node:perf_hooks';
import { type Change, DataSet, type Item, type Plan, payloadOf, planOf, type Shape } from '../src/dataset/index.ts';

const ITEM_BYTES = 455;
const megabytes = Number(process.argv[2] ?? 100);
const repeats = Number(process.argv[3] ?? 5);
const count = Math.round((megabytes * 1e6) / ITEM_BYTES);

interface Sample {
  readonly ms: number;
  readonly blockMs: number;
  readonly ownMs: number;
}

/** A time between two turns of the loop, and how much of it the thread was on a core and waited for one. */
interface Gap {
  readonly fromMs: number;
  readonly toMs: number;
  readonly ranMs: number;
  readonly queuedMs: number;
}

/** When the collector stopped everything. */
const pauses: { readonly fromMs: number; readonly toMs: number }[] = [];
new PerformanceObserver((list) => {
  for (const { startTime, duration } of list.getEntries()) {
    pauses.push({ fromMs: startTime, toMs: startTime + duration });
  }
}).observe({ entryTypes: ['gc'] });

function collectedMs(gap: Gap): number {
  let ms = 0;
  for (const { fromMs, toMs } of pauses) ms += Math.max(0, Math.min(toMs, gap.toMs) - Math.max(fromMs, gap.fromMs));
  return ms;
}

/** The kernel counts a running thread's time once a tick. */
const TICK_MS = 4;

/** A pause may itself have waited for a core, so the two are not added up: this is never too little. */
function ownMs(gap: Gap): number {
  return Math.min(gap.ranMs + TICK_MS, gap.toMs - gap.fromMs - Math.max(gap.queuedMs, collectedMs(gap)));
}

/** Milliseconds that the main thread was on a core so far, and that it waited for one. */
function scheduled(): { readonly ranMs: number; readonly queuedMs: number } {
  try {
    const [ran, queued] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ');
    return { ranMs: Number(ran) / 1e6, queuedMs: Number(queued) / 1e6 };
  } catch {
    return { ranMs: performance.now(), queuedMs: 0 };
  }
}

/** Shorter gaps are turns like any other. */
const NOTED_MS_MIN = 1;

/** Runs a job and watches the loop meanwhile. */
async function measure(job: () => unknown): Promise<Sample> {
  const gaps: Gap[] = [];
  let watching = true;
  let fromMs = performance.now();
  let from = scheduled();
  const turn = (): void => {
    const toMs = performance.now();
    const to = scheduled();
    if (toMs - fromMs > NOTED_MS_MIN) {
      gaps.push({ fromMs, toMs, ranMs: to.ranMs - from.ranMs, queuedMs: to.queuedMs - from.queuedMs });
    }
    from = to;
    fromMs = performance.now();
    if (watching) setImmediate(turn);
  };
  setImmediate(turn);
  await new Promise((resolve) => setImmediate(resolve));
  const begin = performance.now();
  await job();
  const ms = performance.now() - begin;
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  watching = false;
  // the observer hears of collections a little later
  await new Promise((resolve) => setTimeout(resolve, 20));
  const longest = (of: (gap: Gap) => number): number => gaps.reduce((most, gap) => Math.max(most, of(gap)), 0);
  return { ms, blockMs: longest((gap) => gap.toMs - gap.fromMs - gap.queuedMs), ownMs: longest(ownMs) };
}

const rows = new Map<string, Sample[]>();

async function step(name: string, job: () => unknown): Promise<void> {
  const sample = await measure(job);
  rows.set(name, [...(rows.get(name) ?? []), sample]);
}

const WORDS =
  'lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore'.split(
    ' ',
  );

/** A text of the usual length, not more repetitive than flags are. */
function textOf(key: string, version: number): string {
  let filler = '';
  for (let seed = version * 31 + key.length * 7 + Number(key.slice(5)); filler.length < ITEM_BYTES - 110; ) {
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    filler += `${WORDS[seed % WORDS.length]}-${seed.toString(36)} `;
  }
  return JSON.stringify({ key, on: true, variations: [true, false], version, salt: filler });
}

function flag(at: number, version = 1): Item {
  // scattered, so that keys do not come in order
  const key = `flag-${(at * 7919) % count}`;
  return { kind: 'flags', key, version, text: textOf(key, version) };
}

const shape: Shape = { name: 'map', entry: (item) => `${JSON.stringify(item.key)}:${item.text}`, separator: ',' };
const plan: Plan = planOf('{"flags":{', { kind: 'flags', shape }, '}}');

async function drain(set: DataSet, encoding: 'identity' | 'gzip'): Promise<number> {
  let bytes = 0;
  const payload = payloadOf(set.snapshot(), plan, encoding);
  for (let group = payload.next(); group !== undefined; group = payload.next()) {
    for (const piece of await group) bytes += piece.length;
    // what a delivery does: one write, then the loop turns
    await new Promise((resolve) => setImmediate(resolve));
  }
  return bytes;
}

/** Turns in which the garbage of the step before is collected, where it harms nobody's numbers. */
async function settle(): Promise<void> {
  (globalThis as { gc?: () => void }).gc?.();
  await new Promise((resolve) => setTimeout(resolve, 50));
}

async function round(items: readonly Item[]): Promise<{ set: DataSet; identity: number; gzip: number }> {
  const set = new DataSet({ name: 'bench', kinds: ['flags'] });
  await step('load', () => set.replace(items));
  await settle();
  await step('measure (Content-Length)', () => set.snapshot().measure(plan));
  let identity = 0;
  let gzip = 0;
  await step('first copy, identity', async () => (identity = await drain(set, 'identity')));
  await step('first copy, gzip', async () => (gzip = await drain(set, 'gzip')));
  await settle();
  const change: Change = {
    kind: 'flags',
    key: items[5]!.key,
    version: 2,
    item: { ...items[5]!, version: 2, text: textOf(items[5]!.key, 2) },
  };
  await step('one change', () => set.apply([change]));
  await step('the changed page, both encodings', async () => {
    await payloadOf(set.snapshot(), plan, 'identity').prepare();
    await payloadOf(set.snapshot(), plan, 'gzip').prepare();
  });
  const position = { digest: set.snapshot().digest, clock: set.snapshot().clock, view: 'bench' };
  const pin = set.pin();
  const same = items.map((item) => (item.key === change.key ? change.item! : { ...item }));
  await settle();
  await step('full put, nothing changed', () => set.replace(same));
  const tenth = items.map((item, at) =>
    at % 10 === 0 || item.key === change.key ? { ...item, version: 3, text: textOf(item.key, 3) } : item,
  );
  await settle();
  await step('full put, a tenth changed', () => set.replace(tenth));
  await settle();
  await step('catch-up of that tenth', () => set.since(position));
  await step('difference to a pinned snapshot', () => set.difference(pin.snapshot));
  pin.release();
  const every = items.map((item) => ({ ...item, version: 4, text: textOf(item.key, 4) }));
  await settle();
  await step('full put, everything changed', () => set.replace(every));
  await settle();
  await step('one change after it (evicts)', () =>
    set.apply([{ ...change, version: 5, item: { ...change.item!, version: 5 } }]),
  );
  return { set, identity, gzip };
}

const items = Array.from({ length: count }, (_, at) => flag(at));
const bytes = items.reduce((sum, item) => sum + item.text.length, 0);
let sizes = { identity: 0, gzip: 0 };
for (let at = 0; at < repeats; at++) sizes = await round(items);

const middle = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
const spread = (values: number[]): string => {
  const sorted = [...values].sort((a, b) => a - b);
  return `${middle(sorted).toFixed(1)} (${sorted[0]!.toFixed(1)} to ${sorted.at(-1)!.toFixed(1)})`;
};
console.log(
  `Node ${process.version}, ${cpus().length} x ${cpus()[0]?.model}, ${repeats} repeats in one process; median (least to most)`,
);
console.log(
  `${count} items, ${(bytes / 1e6).toFixed(1)} MB of text, ${(sizes.identity / 1e6).toFixed(1)} MB identity, ${(sizes.gzip / 1e6).toFixed(1)} MB gzip`,
);
console.log('| step | ms | longest block ms | own ms |\n|---|---|---|---|');
for (const [name, samples] of rows) {
  const columns = [
    samples.map(({ ms }) => ms),
    samples.map(({ blockMs }) => blockMs),
    samples.map((each) => each.ownMs),
  ];
  console.log(`| ${name} | ${columns.map(spread).join(' | ')} |`);
}
console.log(`peak RSS ${(process.resourceUsage().maxRSS / 1024).toFixed(0)} MB`);
