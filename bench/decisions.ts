/**
 * The decisions front under load: herds of bouncers, changes, look-ups. See README.md.
 *
 *   npm run build && npx tsc -p bench/tsconfig.json && node .bench/bench/decisions.js [--quick] [scenario...]
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { halfHits } from '../test/support/decision-data.ts';
import type { Reply } from './bare.ts';
import {
  Bare,
  buildLoad,
  Headgate,
  type HerdResult,
  isolated,
  load,
  type PollResult,
  type Served,
  Upstream,
} from './processes.ts';
import { atLeast, atMost, below, exactly, machineLine, Table, type Target } from './report.ts';

const STALL = 0.3;
const CONNECTIONS = 64;
const LOOKED_UP = 2000;
const CHURN = 500;
const READY_MS_MAX = 120_000;
/** What resident memory does by itself after the decisions were loaded is over by then. */
const SETTLE_MS = 1500;
const FIRST_ADDRESS = '11.0.0.0';
const STREAM = '/v1/decisions/stream';
const KEY = 'X-Api-Key: key-{n}';
/** The benchmark asks as well: with a bouncer's key it would share that one's cursor. */
const OWN_KEY = 'key-of-the-benchmark';
const GZIP = 'Accept-Encoding: gzip';
const ENCODINGS = [
  { encoding: 'identity', headers: [KEY], lastDone: 8 },
  { encoding: 'gzip', headers: [KEY, GZIP], lastDone: 2.5 },
];
type Encoding = (typeof ENCODINGS)[number];

const options = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    repeats: { type: 'string' },
    clients: { type: 'string' },
    count: { type: 'string' },
    slots: { type: 'string' },
    json: { type: 'string' },
    first: { type: 'boolean', default: false },
  },
});
const { quick, slots } = options.values;
const repeats = Number(options.values.repeats ?? (quick ? 1 : 3));
const clients = Number(options.values.clients ?? (quick ? 200 : 1200));
const count = Number(options.values.count ?? (quick ? 15_000 : 100_000));
const roundSeconds = quick ? 1 : 3;
const [small, many] = [15_000, quick ? 50_000 : 500_000];

interface Place {
  readonly folder: string;
  readonly upstream: Upstream;
}

const wait = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });

let started = 0;

/** Metrics, logs and the store are on, as a user has them; every server has a store of its own. */
function configOf({ folder, upstream }: Place): object {
  const source = { type: 'lapi', url: `http://127.0.0.1:${upstream.port}`, key: 'ours', interval: '1s', resync: '1h' };
  return {
    server: { host: '127.0.0.1', port: 0, drainDelay: '0s', grace: '1s' },
    ...(slots === undefined ? {} : { limits: { mode: 'auto', slots: Number(slots) } }),
    decisions: { sources: [source], auth: 'keys', keyFile: join(folder, 'keys') },
    store: { path: join(folder, `store-${++started}`) },
  };
}

function get(port: number, path: string, headers: Record<string, string> = {}): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const request = http.get({ host: '127.0.0.1', port, path, headers: { 'x-api-key': OWN_KEY, ...headers } });
    request.once('error', reject);
    request.once('response', (response) => {
      const pieces: string[] = [];
      response.setEncoding('utf8');
      response.on('data', (piece: string) => pieces.push(piece));
      response.once('error', reject);
      response.once('end', () => {
        // those that Node writes by itself
        const { date: _, connection: _c, 'keep-alive': _k, 'transfer-encoding': _t, ...rest } = response.headers;
        resolve({
          status: response.statusCode ?? 0,
          headers: rest as Record<string, string>,
          body: pieces.join(''),
        });
      });
    });
  });
}

async function untilReady(server: Served): Promise<void> {
  const byMs = performance.now() + READY_MS_MAX;
  for (;;) {
    const reply = await get(server.port, `/v1/decisions?ip=${FIRST_ADDRESS}`);
    if (reply.status === 200 && reply.body !== 'null') return;
    if (performance.now() > byMs) throw new Error(`Cannot measure: no decisions are served, got ${reply.status}`);
    await wait(20);
  }
}

let explained = false;

/** Starts a server of its own for one run, so that no run inherits another's memory. */
async function withHeadgate<T>(place: Place, held: number, run: (server: Headgate) => Promise<T>): Promise<T> {
  await place.upstream.order({ kind: 'hold', count: held });
  const server = await Headgate.start(join(place.folder, 'config.yaml'), configOf(place), 'listening');
  try {
    await untilReady(server);
    if (!explained) console.log(`\nThe server's limits: ${server.limits}`);
    explained = true;
    await wait(SETTLE_MS);
    return await run(server);
  } finally {
    await server.stop();
  }
}

type LoadOptions = Record<string, string | number | boolean | readonly string[]>;

const aimed = (server: Served, path: string, more: LoadOptions): LoadOptions => ({
  url: `http://127.0.0.1:${server.port}${path}`,
  H: KEY,
  pid: server.pid,
  ...more,
});

function herdRun(server: Served, { headers }: Encoding, more: LoadOptions = {}): Promise<HerdResult> {
  return load<HerdResult>('herd', aimed(server, `${STREAM}?startup=true`, { count: clients, H: headers, ...more }))
    .result;
}

/** That what was counted in bytes was what it should be. Asked after a run: to ask before would warm the server. */
async function tellsAll(server: Served, held: number): Promise<boolean> {
  const { body } = await get(server.port, `${STREAM}?startup=true`);
  return (JSON.parse(body) as { new: readonly unknown[] }).new.length === held;
}

const NAN = Number.NaN;
const sumOf = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((sum, each) => sum + each, 0);

interface Shown {
  readonly name?: string;
  readonly lastDone?: Target | undefined;
  readonly rss?: Target | undefined;
  readonly changing?: boolean;
}

function addHerd(table: Table, result: HerdResult, { name = '', lastDone, rss, changing = false }: Shown): void {
  const { server, bytesMax, healthySeconds } = result;
  table.add(`${name}bouncers with everything`, result.complete, exactly(result.expected));
  if (!changing) table.add(`${name}their bytes, least = most`, Number(result.bytesMin === bytesMax), exactly(1));
  table.add(`${name}bytes of one, MB`, bytesMax / 1e6);
  table.add(`${name}refusals and failures before`, sumOf(result.statuses) - (result.statuses['200'] ?? 0), exactly(0));
  table.add(`${name}last done, s`, healthySeconds, lastDone);
  table.add(`${name}median done, s`, result.doneSeconds?.p50 ?? NAN);
  table.add(`${name}first byte p50, s`, result.firstByteSeconds?.p50 ?? NAN);
  // lua waits 3 s, and half a second by its code's own default
  table.add(`${name}first byte p99, s`, result.firstByteSeconds?.p99 ?? NAN, below(3, 's'));
  table.add(`${name}longest gap between two reads, s`, result.longestGapSeconds?.max ?? NAN, below(3, 's'));
  table.add(`${name}MB/s`, (result.complete * bytesMax) / 1e6 / healthySeconds);
  table.add(`${name}CPU until then, s`, result.cpuSecondsUntilHealthy);
  table.add(`${name}load client's CPU, s`, server.clientCpuSeconds);
  table.add(`${name}RSS before, MiB`, server.rssBeforeMib);
  table.add(`${name}RSS peak (VmHWM), MiB`, server.rssPeakMib, rss);
  table.add(`${name}server's sockets peak, MiB`, server.serverSocketsPeakMib);
  table.add(`${name}clients' sockets peak, MiB`, server.clientSocketsPeakMib);
  table.add(`${name}machine's TCP memory peak, MiB`, server.machineTcpPeakMib);
  table.ran(server);
}

async function addCounters(table: Table, server: Headgate, name = ''): Promise<void> {
  const { held, waiting, parked, active, parks, ended } = await server.counters();
  table.add(`${name}slots, queue, parked, deliveries afterwards`, held + waiting + parked + active, exactly(0));
  table.add(`${name}times a place was given up (parked)`, parks);
  table.add(`${name}deliveries cut as stalled or capped`, (ended['stalled'] ?? 0) + (ended['capped'] ?? 0));
}

const decisionsText = (held: number): string => `${held / 1000},000 decisions`;

async function herds(place: Place, letter: string, encoding: Encoding): Promise<Table> {
  const table = new Table(
    `${letter}: ${clients} startup pulls at once, ${decisionsText(count)}, ${encoding.encoding}, each from a fresh server`,
  );
  for (let at = 0; at < repeats; at++) {
    await withHeadgate(place, count, async (server) => {
      addHerd(table, await herdRun(server, encoding), {
        lastDone: atMost(encoding.lastDone, 's'),
        rss: below(256, 'MiB'),
      });
      await addCounters(table, server);
      table.add('a full pull tells all', Number(await tellsAll(server, count)), exactly(1));
    });
  }
  return table;
}

/** The healthy ones alone, then with stalled ones among them, then behind them: in turn, so that a drift hits all three. */
async function stalls(place: Place, encoding: Encoding): Promise<Table> {
  const table = new Table(
    `c: ${clients} startup pulls at once, ${decisionsText(count)}, ${encoding.encoding}, ${STALL * 100} % of them stalled after 10 kB, against the healthy ones alone`,
  );
  const healthy = clients - Math.round(clients * STALL);
  const runs: [string, LoadOptions][] = [
    ['among them: ', { stall: STALL }],
    ['first in line: ', { stall: STALL, 'stall-first': true }],
  ];
  for (let at = 0; at < repeats; at++) {
    const alone = await withHeadgate(place, count, async (server) => {
      const result = await herdRun(server, encoding, { count: healthy });
      addHerd(table, result, { name: 'alone: ' });
      return result;
    });
    for (const [name, more] of runs) {
      await withHeadgate(place, count, async (server) => {
        const result = await herdRun(server, encoding, more);
        addHerd(table, result, { name });
        table.add(`${name}last done / alone`, result.healthySeconds / alone.healthySeconds, atMost(1.2, ''));
        table.add(`${name}stalled ones that are left uncut`, result.stalled - result.cutByServer, exactly(0));
        table.add(`${name}cut after, max, s`, result.cutSeconds?.max ?? NAN);
        table.add(`${name}server's sockets afterwards, MiB`, result.server.serverSocketsAfterMib);
        await addCounters(table, server, name);
      });
    }
  }
  return table;
}

/** Begins with the pull that brings the first of it, so that Headgate is at work on it when the herd comes. */
async function changing(place: Place, letter: string, encoding: Encoding): Promise<Table> {
  const renews = letter === 'g';
  const what = renews ? 'replaces all of them by ones with later ends, and changes' : 'changes';
  const table = new Table(
    `${letter}: ${clients} startup pulls at once, ${decisionsText(count)}, ${encoding.encoding}, while the upstream ${what} ${2 * CHURN} a second`,
  );
  for (let at = 0; at < repeats; at++) {
    await withHeadgate(place, count, async (server) => {
      const before = await place.upstream.order({ kind: 'churn', count: CHURN });
      if (renews) await place.upstream.order({ kind: 'renew' });
      for (let now = before; now.pulls === before.pulls; ) {
        await wait(10);
        now = await place.upstream.order({ kind: 'churn', count: CHURN });
      }
      const result = await herdRun(server, encoding);
      const after = await place.upstream.order({ kind: 'churn', count: 0 });
      addHerd(table, result, {
        changing: true,
        lastDone: atMost(encoding.lastDone, 's'),
        rss: below(256, 'MiB'),
      });
      table.add('pulls from the upstream meanwhile', after.pulls - before.pulls);
      table.add('decisions that they brought', after.brought - before.brought);
      await addCounters(table, server);
    });
  }
  return table;
}

/** Ours and the bare server's, in turn, with the same bytes. */
async function beside(
  table: Table,
  { name, server, bare, path }: { name: string; server: Served; bare: Bare; path: string },
  more: LoadOptions,
): Promise<void> {
  const each = { duration: `${roundSeconds}s`, ...more };
  const ours = await load<PollResult>('poll', aimed(server, path, each)).result;
  const theirs = await load<PollResult>('poll', aimed(bare, path, each)).result;
  const target = more['count'] === CONNECTIONS ? atLeast(25_000, '/s') : undefined;
  table.add(`${name}: ours, /s`, ours.requestsPerSecond, target);
  table.add(`${name}: bare, /s`, theirs.requestsPerSecond);
  table.add(`${name}: ours / bare, %`, (100 * ours.requestsPerSecond) / theirs.requestsPerSecond);
  table.add(`${name}: not 200, or failed`, bad(ours) + bad(theirs), exactly(0));
  table.add(`${name}: bytes of an answer, ours - bare`, ours.bytes / ours.requests - theirs.bytes / theirs.requests);
  table.add(`${name}: our CPU per request, µs`, (1e6 * ours.server.cpuSeconds) / ours.requests);
  table.add(`${name}: bare CPU per request, µs`, (1e6 * theirs.server.cpuSeconds) / theirs.requests);
  table.add(`${name}: our p50, ms`, ours.latencyMs?.p50 ?? NAN);
  table.add(`${name}: our p99, ms`, ours.latencyMs?.p99 ?? NAN);
  table.add(`${name}: our RSS peak, MiB`, ours.server.rssPeakMib);
  table.ran(ours.server);
  table.ran(theirs.server);
}

/** An answer that tells of no decision is shorter. */
const EMPTY_BYTES_MAX = 100;

const bad = ({ statuses, failures }: PollResult): number => sumOf(statuses) - (statuses['200'] ?? 0) + sumOf(failures);

async function withBare<T>(run: (bare: Bare) => Promise<T>): Promise<T> {
  const bare = await Bare.start();
  try {
    return await run(bare);
  } finally {
    await bare.stop();
  }
}

/** What a bouncer is answered that has everything: the first answer brings it there, once it is known to be received. */
async function upToDate(server: Served): ReturnType<typeof get> {
  for (;;) {
    const answer = await get(server.port, STREAM);
    if (answer.body.length < EMPTY_BYTES_MAX) return answer;
  }
}

async function deltas(place: Place): Promise<Table> {
  const table = new Table(
    `e: pulls that are up to date, of ${clients} bouncers over ${CONNECTIONS} keep-alive connections, beside bare node:http with the same bytes, ${roundSeconds} s in turn`,
  );
  const gzip = ENCODINGS[1] as Encoding;
  await withBare(async (bare) => {
    for (const held of [small, count, many]) {
      await withHeadgate(place, held, async (server) => {
        const herd = await herdRun(server, gzip);
        if (herd.complete !== clients) throw new Error(`Cannot measure: a herd was left without, got ${herd.complete}`);
        await bare.order({ kind: 'answer', replies: { [STREAM]: await upToDate(server) } });
        for (let at = 0; at < repeats; at++) {
          const more = { count: CONNECTIONS, logical: clients };
          await beside(table, { name: decisionsText(held), server, bare, path: STREAM }, more);
        }
      });
    }
  });
  return table;
}

async function lookUps(place: Place): Promise<Table> {
  const table = new Table(
    `f: live look-ups, half of them hits, beside bare node:http with the same bytes, ${roundSeconds} s in turn`,
  );
  const file = join(place.folder, 'paths');
  await withBare(async (bare) => {
    for (const [held, connections] of [
      [small, CONNECTIONS],
      [count, CONNECTIONS],
      [many, 1],
    ] as const) {
      await withHeadgate(place, held, async (server) => {
        const paths = halfHits({ count: held, of: LOOKED_UP }).map((address) => `/v1/decisions?ip=${address}`);
        const replies: Record<string, Reply> = {};
        for (const path of paths) replies[path] = await get(server.port, path);
        const hits = Object.values(replies).filter(({ body }) => body !== 'null').length;
        await bare.order({ kind: 'answer', replies });
        writeFileSync(file, paths.join('\n'));
        const name = `${decisionsText(held)}, ${connections} connections`;
        table.add(`${name}: hits, %`, (100 * hits) / paths.length, exactly(50));
        for (let at = 0; at < repeats; at++) {
          const more = { count: connections, logical: clients, paths: file };
          await beside(table, { name, server, bare, path: '/v1/decisions' }, more);
        }
      });
    }
  });
  return table;
}

async function large(place: Place): Promise<Table> {
  const table = new Table(`h: one startup pull of ${decisionsText(many)}, then ten at once`);
  for (let at = 0; at < repeats; at++) {
    for (const encoding of ENCODINGS) {
      await withHeadgate(place, many, async (server) => {
        addHerd(table, await herdRun(server, encoding, { count: 1 }), { name: `${encoding.encoding}, one: ` });
        addHerd(table, await herdRun(server, encoding, { count: 10 }), { name: `${encoding.encoding}, ten: ` });
        table.add(`${encoding.encoding}: a full pull tells all`, Number(await tellsAll(server, many)), exactly(1));
      });
    }
  }
  return table;
}

async function each(run: (encoding: Encoding) => Promise<Table>): Promise<readonly Table[]> {
  const tables: Table[] = [];
  for (const encoding of ENCODINGS) tables.push(await run(encoding));
  return tables;
}

const [IDENTITY, ZIPPED] = ENCODINGS as [Encoding, Encoding];
const SCENARIOS: Readonly<Record<string, (place: Place) => Promise<readonly Table[]>>> = {
  a: async (place) => [await herds(place, 'a', IDENTITY)],
  b: async (place) => [await herds(place, 'b', ZIPPED)],
  c: (place) => each((encoding) => stalls(place, encoding)),
  d: (place) => each((encoding) => changing(place, 'd', encoding)),
  e: async (place) => [await deltas(place)],
  f: async (place) => [await lookUps(place)],
  g: (place) => each((encoding) => changing(place, 'g', encoding)),
  h: async (place) => [await large(place)],
};

function keysText(): string {
  const keys = Array.from({ length: clients }, (_, at) => `bouncer-${at}: key-${at}`);
  return [...keys, `benchmark: ${OWN_KEY}`, ''].join('\n');
}

function explain(): void {
  console.log(machineLine());
  const sizes = `${repeats} repeats; ${clients} bouncers, each with a key; ${decisionsText(count)}`;
  console.log(`${sizes}${quick ? '; quick: targets are for the full size' : ''}`);
  console.log(
    process.env['BENCH_ISOLATED'] === undefined
      ? 'Network: shared with the rest of the machine (run as root for a namespace of its own)'
      : 'Network: a namespace of its own',
  );
  if (options.values.first) console.log('Servers and clients go before other programs of the machine');
  console.log('Source: a local API in a process of its own, pulled from every second. Store, logs and metrics are on');
  console.log('Clients: refused or failed, they come back after 1 s, doubled up to 30 s, half of it random');
}

async function main(): Promise<void> {
  const letters = Object.keys(SCENARIOS);
  const which = options.positionals.length > 0 ? options.positionals : letters;
  for (const letter of which) {
    if (SCENARIOS[letter] === undefined)
      throw new Error(`Cannot run: scenarios are ${letters.join(' ')}, got ${letter}`);
  }
  buildLoad();
  const exitCode = isolated(options.values.first);
  if (exitCode !== undefined) {
    process.exitCode = exitCode;
    return;
  }
  explain();
  const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
  const upstream = await Upstream.start();
  const tables: Table[] = [];
  try {
    writeFileSync(join(folder, 'keys'), keysText());
    for (const letter of which) {
      const made = (await SCENARIOS[letter]?.({ folder, upstream })) ?? [];
      for (const table of made) table.print();
      tables.push(...made);
    }
    const missed = tables.reduce((sum, table) => sum + table.missed, 0);
    console.log(`\n${missed} figures miss their target.`);
    if (options.values.json !== undefined) {
      writeFileSync(options.values.json, `${JSON.stringify({ machine: machineLine(), tables }, undefined, 2)}\n`);
    }
  } finally {
    await upstream.stop();
    rmSync(folder, { recursive: true });
  }
}

await main();
