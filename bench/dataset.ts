/**
 * How long the data set's work takes on a large set, and how long it keeps the event loop from anything else.
 *
 *   npx tsc -p bench/tsconfig.json && node .bench/bench/dataset.js [megabytes] [repeats]
 *
 * The longest block is the largest gap between two turns of a chain of immediates, garbage collection included, less
 * the time in which this thread was ready and had no core (Linux tells): other programs on the machine are not ours.
 * (`monitorEventLoopDelay` is not used: a reset just before a block loses that block.)
 */
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { type Change, DataSet, type Item, type Plan, payloadOf, planOf, type Shape } from '../src/dataset/index.ts';

const ITEM_BYTES = 455;
const megabytes = Number(process.argv[2] ?? 100);
const repeats = Number(process.argv[3] ?? 5);
const count = Math.round((megabytes * 1e6) / ITEM_BYTES);

interface Sample {
  readonly ms: number;
  readonly blockMs: number;
}

/** Milliseconds that the main thread waited for a core so far. */
function queuedMs(): number {
  try {
    return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
  } catch {
    return 0;
  }
}

/** Runs a job and watches the loop meanwhile. */
async function measure(job: () => unknown): Promise<Sample> {
  let blockMs = 0;
  let watching = true;
  let last = performance.now();
  let lastQueuedMs = queuedMs();
  const turn = (): void => {
    const now = performance.now();
    const gapMs = now - last;
    if (gapMs > blockMs) blockMs = Math.max(blockMs, gapMs - (queuedMs() - lastQueuedMs));
    lastQueuedMs = queuedMs();
    last = performance.now();
    if (watching) setImmediate(turn);
  };
  setImmediate(turn);
  await new Promise((resolve) => setImmediate(resolve));
  const begin = performance.now();
  await job();
  const ms = performance.now() - begin;
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  watching = false;
  return { ms, blockMs };
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
console.log('| step | ms | longest block ms |\n|---|---|---|');
for (const [name, samples] of rows) {
  console.log(
    `| ${name} | ${spread(samples.map(({ ms }) => ms))} | ${spread(samples.map(({ blockMs }) => blockMs))} |`,
  );
}
console.log(`peak RSS ${(process.resourceUsage().maxRSS / 1024).toFixed(0)} MB`);
