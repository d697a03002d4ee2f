/**
 * What a limiter does for a service that sends full copies, under clients that do not read, that leave, and that come
 * late: Headgate's middleware beside the libraries that people use for it. See README.md and docs/middleware.md.
 *
 *   npm run build && npx tsc -p bench/tsconfig.json && node .bench/bench/middleware.js [--quick] [--markdown]
 *
 * `--markdown` prints no progress; `--write docs/middleware.md` replaces what was measured there.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type Counts, LIMITS } from './middleware-copy.ts';
import type { Harvest, Plan } from './middleware-load.ts';
import { SETUPS, type Setup } from './middleware-setups.ts';
import { machineLine } from './report.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    markdown: { type: 'boolean', default: false },
    repeats: { type: 'string' },
    clients: { type: 'string' },
    bytes: { type: 'string' },
    json: { type: 'string' },
    only: { type: 'string' },
    write: { type: 'string' },
  },
});
const { quick, markdown } = values;
const repeats = Number(values.repeats ?? (quick ? 1 : 3));
const clients = Number(values.clients ?? (quick ? 60 : 100));
/** More than the kernel takes for a client that does not read, which is 4 MB on loopback. */
const copyBytes = Number(values.bytes ?? 8e6);
/** Longer than any time that a limiter was given: what has not happened after it never will. */
const LIMITS_MS = Math.max(LIMITS.waitMs, LIMITS.sendMs) + 2000;
/** What is still counted when everybody has been gone for so long is leaked. */
const SETTLE_MS_MAX = LIMITS_MS;
const SETTLE_LOOK_MS = 250;

/** What was measured stands between two of these. */
const MARK = '<!-- measured -->';

const HERD = { well: 0, stalled: 0, leaveQueue: 0, leaveHandler: 0, late: 10 };
const third = Math.round(clients * 0.3);
const SCENARIOS: Readonly<Record<string, { readonly title: string; readonly herd: Omit<Plan, 'port' | Timing> }>> = {
  a: {
    title: `${clients} clients at once, of which ${third} do not read`,
    herd: { ...HERD, well: clients - third, stalled: third },
  },
  b: {
    title: `${clients} clients at once, of which ${2 * third} leave after 0.3 s in the queue`,
    herd: { ...HERD, well: clients - 2 * third, leaveQueue: 2 * third },
  },
  c: {
    title: `${2 * third} clients that leave while the handler runs, one each 25 ms, then ${clients - third} at once`,
    herd: { ...HERD, well: clients - third, leaveHandler: 2 * third },
  },
  d: { title: `${clients} clients at once, all of whom read`, herd: { ...HERD, well: clients } },
  e: {
    title: `${third} that leave while the handler runs, then ${clients} at once: ${third} do not read, ${third} leave the queue`,
    herd: { ...HERD, well: clients - 2 * third, stalled: third, leaveQueue: third, leaveHandler: third },
  },
};

type Timing = 'leaveQueueMs' | 'leaveHandlerMs' | 'lateAfterMs' | 'patienceMs' | 'silenceMs';
const TIMING: Pick<Plan, Timing> = {
  leaveQueueMs: 300,
  leaveHandlerMs: 50,
  lateAfterMs: 1000,
  patienceMs: 12_000,
  silenceMs: LIMITS_MS,
};

/** One run of one library in one scenario. */
interface Run {
  readonly harvest: Harvest;
  readonly rssPeakMib: number;
  readonly cpuSeconds: number;
  readonly leaked: number | undefined;
  readonly madeForNobody: number;
  readonly made: number;
  /** What all other processes took, as a share of the machine. */
  readonly othersShare: number;
}

function said<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null): void =>
      reject(new Error(`Cannot measure: ${child.spawnargs.join(' ')} ended with ${code}`));
    child.once('exit', ended);
    child.once('message', (message) => {
      child.off('exit', ended);
      resolve(message as T);
    });
  });
}

function countsOf(server: ChildProcess): Promise<Counts> {
  const counts = said<Counts>(server);
  server.send('counts');
  return counts;
}

/** The most that was resident so far, by the kernel's own count. */
function rssPeakMib(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
}

/** What all processes together have used of the processors so far: /proc/stat counts in hundredths of a second. */
function machineBusySeconds(): number {
  const [, user, nice, system, , , irq, softirq] = readFileSync('/proc/stat', 'utf8').split(/\s+/, 8).map(Number);
  return [user, nice, system, irq, softirq].reduce((sum: number, each = 0) => sum + each, 0) / 100;
}

/** What is still counted when all are gone: at most so long, since a limiter may wait for a timeout of its own. */
async function settled(server: ChildProcess): Promise<Counts> {
  for (let waitedMs = 0; ; waitedMs += SETTLE_LOOK_MS) {
    const counts = await countsOf(server);
    if ((counts.counted ?? 0) === 0 || waitedMs >= SETTLE_MS_MAX) return counts;
    await delay(SETTLE_LOOK_MS);
  }
}

async function measure(number: number, herd: Omit<Plan, 'port' | Timing>): Promise<Run> {
  const server = fork(join(import.meta.dirname, 'middleware-server.js'), [String(number), String(copyBytes)]);
  try {
    const { port } = await said<{ port: number }>(server);
    const before = await countsOf(server);
    const plan: Plan = { port, ...herd, ...TIMING };
    const [beganMs, busyBefore] = [performance.now(), machineBusySeconds()];
    const load = fork(join(import.meta.dirname, 'middleware-load.js'), [JSON.stringify(plan)], {
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    });
    const harvest = JSON.parse(await text(load.stdout as NodeJS.ReadableStream)) as Harvest;
    const cpuSeconds = (await countsOf(server)).cpuSeconds - before.cpuSeconds;
    const othersSeconds = machineBusySeconds() - busyBefore - cpuSeconds - harvest.cpuSeconds;
    const machineSeconds = (cpus().length * (performance.now() - beganMs)) / 1000;
    const { counted, made, madeForNobody } = await settled(server);
    return {
      harvest,
      rssPeakMib: rssPeakMib(server.pid ?? 0),
      cpuSeconds,
      leaked: counted,
      made,
      madeForNobody,
      othersShare: Math.max(0, othersSeconds / machineSeconds),
    };
  } finally {
    server.kill('SIGKILL');
  }
}

function versionOf({ package: name }: Setup): string {
  if (name === undefined) return '';
  const root = join(import.meta.dirname, '..', '..');
  const path = name === 'headgate' ? join(root, 'package.json') : join(root, 'node_modules', name, 'package.json');
  return ` ${(JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version}`;
}

function medianOf(list: readonly number[]): number {
  return list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)] ?? Number.NaN;
}

function show(value: number): string {
  if (Number.isInteger(value)) return String(value);
  return Math.abs(value) >= 100 ? String(Math.round(value)) : value.toFixed(1);
}

/** Median and, where they differ, least to most. */
function spread(list: readonly number[]): string {
  if (list.some((value) => !Number.isFinite(value))) return '–';
  const [least, most] = [show(Math.min(...list)), show(Math.max(...list))];
  return least === most ? least : `${show(medianOf(list))} (${least} to ${most})`;
}

/** A run, and that of nothing in the same repeat. */
interface Pair {
  readonly run: Run;
  readonly baseline: Run;
}

const COLUMNS: Readonly<Record<string, (pair: Pair) => number>> = {
  'peak RSS, MiB': ({ run }) => Math.round(run.rssPeakMib),
  'of nothing': ({ run, baseline }) => run.rssPeakMib / baseline.rssPeakMib,
  'served whole': ({ run }) => run.harvest.well.whole,
  'refused (503)': ({ run }) => run.harvest.well.refused,
  cut: ({ run }) => run.harvest.well.cut,
  'never answered': ({ run }) => run.harvest.well.never,
  'last served, s': ({ run }) => run.harvest.wellSeconds,
  'late: served': ({ run }) => run.harvest.lateSeconds.length,
  'late: median, s': ({ run }) => medianOf(run.harvest.lateSeconds),
  'late: last, s': ({ run }) => Math.max(...run.harvest.lateSeconds),
  'slots leaked': ({ run }) => run.leaked ?? Number.NaN,
  'made for nobody': ({ run }) => run.madeForNobody,
  'CPU, s': ({ run }) => run.cpuSeconds,
};

function tableOf(results: ReadonlyMap<Setup, readonly Pair[]>): string {
  const names = Object.keys(COLUMNS);
  const lines = [`| | ${names.join(' | ')} |`, `|---|${names.map(() => '---:').join('|')}|`];
  for (const [setup, pairs] of results) {
    const cells = Object.values(COLUMNS).map((column) => spread(pairs.map(column)));
    lines.push(`| ${setup.name} | ${cells.join(' | ')} |`);
  }
  const shares = [...results.values()].flatMap((pairs) => pairs.map(({ run }) => 100 * run.othersShare));
  lines.push('', `Others used ${spread(shares)} % of the machine.`);
  return lines.join('\n');
}

async function measureScenario(
  herd: Omit<Plan, 'port' | Timing>,
  setups: readonly Setup[],
): Promise<Map<Setup, Pair[]>> {
  const results = new Map<Setup, Pair[]>(setups.map((setup) => [setup, []]));
  for (let repeat = 0; repeat < repeats; repeat++) {
    const baseline = await measure(0, herd);
    for (const setup of setups) {
      const run = setup === SETUPS[0] ? baseline : await measure(SETUPS.indexOf(setup), herd);
      results.get(setup)?.push({ run, baseline });
      if (!markdown) console.error(`${repeat + 1}/${repeats} ${setup.name}: ${run.harvest.seconds.toFixed(1)} s`);
    }
  }
  return results;
}

const printed: string[] = [];

function print(text: string): void {
  printed.push(text);
  console.log(text);
}

/** Puts what was printed where a page has the last. */
function writeInto(path: string): void {
  const parts = readFileSync(path, 'utf8').split(MARK);
  if (parts.length !== 3)
    throw new Error(`Cannot write: ${path} must have two lines "${MARK}", got ${parts.length - 1}`);
  writeFileSync(path, [parts[0], `\n${printed.join('\n')}\n`, parts[2]].join(MARK));
}

function introduce(setups: readonly Setup[]): void {
  print(`${machineLine()}; ${repeats} repeat${repeats === 1 ? '' : 's'}.\n`);
  print(
    `${LIMITS.slots} slots, a queue of ${LIMITS.queue}, ${LIMITS.waitMs / 1000} s to wait, ${LIMITS.sendMs / 1000} s to send, for each library as far as it has such a setting. A copy has ${copyBytes / 1e6} MB and is made anew for each request. Late ones have ${TIMING.patienceMs / 1000} s from coming first; never answered: not within ${(TIMING.lateAfterMs + TIMING.patienceMs) / 1000} s, or nobody was sent a byte for ${LIMITS_MS / 1000} s; leaked: still counted ${LIMITS_MS / 1000} s after all have gone.\n`,
  );
  print('| | version | how it is set up |\n|---|---|---|');
  for (const setup of setups) print(`| ${setup.name} |${versionOf(setup)} | ${setup.note} |`);
}

const beganMs = performance.now();
const wanted = values.only?.split(',');
const setups = SETUPS.filter(
  ({ name }, at) => at === 0 || wanted === undefined || wanted.some((each) => name.includes(each)),
);
const chosen = positionals.length > 0 ? positionals : Object.keys(SCENARIOS);
introduce(setups);
const kept: object[] = [];
for (const name of chosen) {
  const scenario = SCENARIOS[name];
  if (scenario === undefined)
    throw new Error(`Cannot measure: a scenario is one of ${Object.keys(SCENARIOS).join(', ')}, got ${name}`);
  const results = await measureScenario(scenario.herd, setups);
  print(
    `\n**(${name}) ${scenario.title}**, and ${scenario.herd.late} late ones after ${TIMING.lateAfterMs / 1000} s\n\n${tableOf(results)}`,
  );
  for (const [setup, pairs] of results)
    kept.push({ scenario: name, setup: setup.name, runs: pairs.map(({ run }) => run) });
}
print(`\nMeasured in ${Math.round((performance.now() - beganMs) / 60_000)} min.`);
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(kept, undefined, 2));
if (values.write !== undefined) writeInto(values.write);
