/**
 * Browsers that all come at once, each with a context of its own, and server SDKs that reconnect meanwhile. See README.md.
 *
 *   npm run build && npx tsc -p bench/tsconfig.json && node .bench/bench/browsers.js [--repeats N] [scenario...]
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { contextOf, writeFlags } from './browser-data.ts';
import { buildLoad, Headgate, type HerdResult, isolated, load, loopProbed, type PollResult } from './processes.ts';
import { atMost, below, exactly, machineLine, Table } from './report.ts';

const ENV_ID = '000000000000000000000001';
const SDK_KEYS = { own: 'sdk-bench-browsers', other: 'sdk-bench-other' };
/** Together one each 5 ms; a connection of its own for each that is late by then. */
const PROBES = 8;
const PROBE_PACE_MS = 40;
/** How long the herd is on before the first server SDKs come. */
const HEAD_MS = 100;
/** Between the end of a wave and the next. */
const PAUSE_MS = 1000;
const IDLE_WAVES = 3;
const SETTLE_MS = 1500;
const NAN = Number.NaN;

const options = parseArgs({
  allowPositionals: true,
  options: {
    repeats: { type: 'string', default: '3' },
    clients: { type: 'string', default: '2000' },
    flags: { type: 'string', default: '2000' },
    servers: { type: 'string', default: '50' },
    json: { type: 'string' },
    first: { type: 'boolean', default: false },
  },
});
const repeats = Number(options.values.repeats);
const clients = Number(options.values.clients);
const flags = Number(options.values.flags);
const servers = Number(options.values.servers);

const LIMITS: Readonly<Record<string, object>> = { auto: { mode: 'auto' }, '32 slots': { mode: 'auto', slots: 32 } };

interface Herd {
  readonly title: string;
  /** So many different contexts, in turn. */
  readonly contexts: number;
  readonly pathOf: (context: string) => string;
  readonly headers: readonly string[];
}

const evalx = (context: string): string => `/sdk/evalx/${ENV_ID}/contexts/${context}`;
const evaluated = (context: string): string => `/sdk/poll/eval/${context}`;
const HERDS: Readonly<Record<string, Herd>> = {
  a: { title: 'different contexts, /sdk/evalx', contexts: clients, pathOf: evalx, headers: [] },
  b: {
    title: 'different contexts, /sdk/poll/eval',
    contexts: clients,
    pathOf: evaluated,
    headers: [`Authorization: ${ENV_ID}`],
  },
  c: {
    title: 'a tenth as many contexts, ten times each, /sdk/evalx',
    contexts: Math.ceil(clients / 10),
    pathOf: evalx,
    headers: [],
  },
};

const wait = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });

function configOf(folder: string, limits: object): object {
  const file = join(folder, 'flags.json');
  const sources = [
    { type: 'file', name: 'browsers', paths: [file], sdkKey: SDK_KEYS.own, envId: ENV_ID, allowedOrigins: ['*'] },
    { type: 'file', name: 'other', paths: [file], sdkKey: SDK_KEYS.other },
  ];
  return {
    server: { host: '127.0.0.1', port: 0, drainDelay: '0s', grace: '1s' },
    limits,
    admin: { port: 0 },
    log: { level: 'info' },
    flags: { sources },
  };
}

const refusedOf = (statuses: Readonly<Record<string, number>>): number =>
  Object.entries(statuses).reduce((sum, [status, count]) => sum + (status === '200' ? 0 : count), 0);

/** So many server SDKs, for a full copy each. */
function wave(server: Headgate, key: string): Promise<HerdResult> {
  const url = `http://127.0.0.1:${server.port}/all`;
  const agent = 'User-Agent: PythonClient/9.20.0';
  const H = [`Authorization: ${key}`, agent];
  return load<HerdResult>('herd', { url, H, until: 'event:put', count: servers, obey: true }).result;
}

interface Waves {
  readonly lastSeconds: number[];
  readonly firstByteSeconds: number[];
  refused: number;
  missing: number;
  clientCpuSeconds: number;
}

/** Waves of both environments at once, one behind the other as long as it is wanted. */
async function wavesWhile(server: Headgate, isWanted: (count: number) => boolean): Promise<Record<string, Waves>> {
  const keys = Object.entries(SDK_KEYS);
  const all: Record<string, Waves> = {};
  for (const [name] of keys)
    all[name] = { lastSeconds: [], firstByteSeconds: [], refused: 0, missing: 0, clientCpuSeconds: 0 };
  for (let count = 0; isWanted(count); count++) {
    const results = await Promise.all(keys.map(([, key]) => wave(server, key)));
    for (const [at, result] of results.entries()) {
      const waves = all[keys[at]?.[0] ?? ''];
      if (waves === undefined) continue;
      waves.lastSeconds.push(result.healthySeconds);
      waves.firstByteSeconds.push(result.firstByteSeconds?.max ?? NAN);
      waves.refused += refusedOf(result.statuses);
      waves.clientCpuSeconds += result.server.clientCpuSeconds;
      waves.missing += result.expected - result.complete;
    }
    await wait(PAUSE_MS);
  }
  return all;
}

function addWaves(table: Table, idle: Record<string, Waves>, during: Record<string, Waves>): void {
  for (const [name, waves] of Object.entries(during)) {
    const environment = name === 'own' ? 'SDKs of the same environment' : 'SDKs of another environment';
    const [before, worst] = [Math.max(...(idle[name]?.lastSeconds ?? [NAN])), Math.max(...waves.lastSeconds)];
    table.add(`${environment}: waves during the herd`, waves.lastSeconds.length);
    table.add(`${environment}: last of a wave has all, idle, worst, s`, before);
    table.add(`${environment}: last of a wave has all, during, worst, s`, worst);
    table.add(`${environment}: longer by, s`, worst - before, below(1, 's'));
    table.add(`${environment}: first byte, during, worst, s`, Math.max(...waves.firstByteSeconds));
    table.add(`${environment}: refused or failed`, waves.refused + waves.missing, exactly(0));
  }
}

interface Run {
  readonly result: HerdResult;
  readonly small: PollResult;
  readonly during: Record<string, Waves>;
}

/** The other load clients are no strangers: what they burned is not contamination. */
const clientCpuOf = ({ small, during }: Run): number =>
  Object.values(during).reduce((sum, waves) => sum + waves.clientCpuSeconds, small.server.clientCpuSeconds);

async function herdBeside(server: Headgate, paths: string, headers: readonly string[]): Promise<Run> {
  const url = `http://127.0.0.1:${server.port}`;
  const shared = { H: ['User-Agent: Mozilla/5.0', 'Origin: https://shop.example.com', ...headers] };
  const probe = { url: `${url}/sdk/flags/flag-0`, H: `Authorization: ${SDK_KEYS.own}`, count: PROBES };
  const pace = `${PROBE_PACE_MS}ms`;
  const small = load<PollResult>('poll', { ...probe, pace, ramp: pace, 'until-eof': true });
  let over = false;
  const herd = load<HerdResult>('herd', { url, paths, ...shared, count: clients, pid: server.pid, obey: true }).result;
  const ended = herd.finally(() => {
    over = true;
    small.end();
  });
  await wait(HEAD_MS);
  const during = await wavesWhile(server, (count) => count === 0 || !over);
  return { result: await ended, small: await small.result, during };
}

function addHerd(table: Table, { result, small }: Run): void {
  const { server } = result;
  table.add('browsers with their body', result.complete, exactly(result.expected));
  table.add('refusals', refusedOf(result.statuses), exactly(0));
  table.add('last done, s', result.healthySeconds);
  table.add('median done, s', result.doneSeconds?.p50 ?? NAN);
  table.add('first byte p50, s', result.firstByteSeconds?.p50 ?? NAN);
  table.add('first byte p99, s', result.firstByteSeconds?.p99 ?? NAN);
  table.add('body, kB', result.bytesMax / 1000);
  table.add('CPU until then, all threads, s', result.cpuSecondsUntilHealthy);
  table.add('RSS before, MiB', server.rssBeforeMib);
  table.add('RSS peak (VmHWM), MiB', server.rssPeakMib);
  table.add("server's sockets peak, MiB", server.serverSocketsPeakMib);
  table.add('small requests during the herd', small.requests);
  table.add('small requests: refused or failed', refusedOf(small.statuses) + refusedOf(small.failures), exactly(0));
  table.add('small requests: p50, ms', small.latencyMs?.p50 ?? NAN);
  table.add('small requests: p99, ms', small.latencyMs?.p99 ?? NAN);
  table.add('small requests: max, ms', small.latencyMs?.max ?? NAN);
}

async function addBlocks(table: Table, server: Headgate): Promise<void> {
  const { longestMs, ownMs, waitedMs, ownOver20, cpuMs } = await server.blocks();
  table.add('main thread: longest between two turns, ms', longestMs);
  table.add('main thread: most that it ran between two turns, ms', ownMs, atMost(20, 'ms'));
  table.add('main thread: turns that ran more than 20 ms', ownOver20, exactly(0));
  table.add('main thread: most that it waited for a processor, ms', waitedMs);
  table.add('main thread: CPU, s', cpuMs / 1000);
  const { held, waiting, parked, active } = await server.counters();
  table.add('slots, queue, parked, deliveries afterwards', held + waiting + parked + active, exactly(0));
}

async function browsers(folder: string, herd: Herd, limits: string): Promise<Table> {
  const table = new Table(`${clients} browsers at once, ${herd.title}, ${flags} flags, limits: ${limits}`);
  const paths = join(folder, 'paths.txt');
  const lines = Array.from({ length: clients }, (_, at) => herd.pathOf(contextOf(at % herd.contexts)));
  writeFileSync(paths, `${lines.join('\n')}\n`);
  for (let at = 0; at < repeats; at++) {
    const server = await Headgate.start(join(folder, 'config.yaml'), configOf(folder, LIMITS[limits] ?? {}));
    try {
      await wait(SETTLE_MS);
      const idle = await wavesWhile(server, (count) => count < IDLE_WAVES);
      await server.blocks();
      const run = await herdBeside(server, paths, herd.headers);
      addHerd(table, run);
      await addBlocks(table, server);
      addWaves(table, idle, run.during);
      const { server: measured } = run.result;
      table.ran({ ...measured, otherCpuSeconds: Math.max(0, measured.otherCpuSeconds - clientCpuOf(run)) });
    } finally {
      await server.stop();
    }
  }
  return table;
}

async function main(): Promise<void> {
  const which = options.positionals.length > 0 ? options.positionals : Object.keys(HERDS);
  buildLoad();
  const exitCode = isolated(options.values.first);
  if (exitCode !== undefined) {
    process.exitCode = exitCode;
    return;
  }
  loopProbed();
  console.log(machineLine());
  console.log(`${repeats} repeats, each against a fresh server; beside the herd waves of 2 x ${servers} server SDKs`);
  console.log('Server, its evaluating threads, load clients and this program share the processors');
  const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
  const tables: Table[] = [];
  try {
    writeFlags(join(folder, 'flags.json'), { flags, segments: 50 });
    for (const letter of which) {
      const herd = HERDS[letter];
      if (herd === undefined) throw new Error(`Cannot run: scenarios are a, b and c, got ${letter}`);
      for (const limits of Object.keys(LIMITS)) {
        const table = await browsers(folder, herd, limits);
        table.print();
        tables.push(table);
      }
    }
    const missed = tables.reduce((sum, table) => sum + table.missed, 0);
    console.log(`\n${missed} figures miss their target.`);
    if (options.values.json !== undefined) {
      writeFileSync(options.values.json, `${JSON.stringify({ machine: machineLine(), tables }, undefined, 2)}\n`);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

await main();
