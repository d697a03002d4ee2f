/**
 * The flags front under load: herds, polls, small requests, idle streams. See README.md.
 *
 *   npm run build && npx tsc -p bench/tsconfig.json && node .bench/bench/herd.js [--quick] [scenario...]
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Reply } from './bare.ts';
import { FLAG_KEY, SDK_KEY, type Size, writeArchive } from './data.ts';
import {
  Bare,
  buildLoad,
  Headgate,
  type HerdResult,
  isolated,
  load,
  type PollResult,
  type Served,
  type StreamsResult,
} from './processes.ts';
import { atLeast, atMost, below, exactly, machineLine, Table } from './report.ts';

const TEN_MB: Size = { flags: 20_000, segments: 100 };
const ONE_MB: Size = { flags: 2000, segments: 50 };
const SMALL: Size = { flags: 100, segments: 5 };

const LIMITS = { mode: 'auto', slots: 32, parking: true };
const STALL = 0.3;
const POLL_CONNECTIONS = 32;
const SMALL_CONNECTIONS = 4;
const SMALL_PACE_MS = 5;
/** What resident memory does by itself after the data were loaded is over by then. */
const SETTLE_MS = 1500;

const options = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    repeats: { type: 'string' },
    clients: { type: 'string' },
    streams: { type: 'string' },
    json: { type: 'string' },
    first: { type: 'boolean', default: false },
  },
});
const { quick } = options.values;
const repeats = Number(options.values.repeats ?? (quick ? 2 : 5));
const clients = Number(options.values.clients ?? (quick ? 200 : 1000));
const streams = Number(options.values.streams ?? (quick ? 1000 : 10_000));
const pollSeconds = quick ? 2 : 10;
const roundSeconds = quick ? 1 : 3;

interface Place {
  readonly folder: string;
  readonly archives: { readonly tenMb: string; readonly oneMb: string };
}

const FDV1 = { path: '/all', until: 'event:put' };
const FDV2 = { path: '/sdk/stream', until: 'event:payload-transferred' };
const AUTHORIZATION = `Authorization: ${SDK_KEY}`;

const wait = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });

function configOf(archive: string): object {
  const source = { type: 'archive', path: archive, interval: '100ms' };
  return {
    server: { host: '127.0.0.1', port: 0, drainDelay: '0s', grace: '1s' },
    limits: LIMITS,
    flags: { sources: [source] },
  };
}

let explained = false;

/** Starts a server of its own for one run, so that no run inherits another's memory. */
async function withHeadgate<T>(place: Place, archive: string, run: (server: Headgate) => Promise<T>): Promise<T> {
  const server = await Headgate.start(join(place.folder, 'config.yaml'), configOf(archive));
  if (!explained) console.log(`\nThe server's limits: ${server.limits}`);
  explained = true;
  try {
    await wait(SETTLE_MS);
    return await run(server);
  } finally {
    await server.stop();
  }
}

type LoadOptions = Record<string, string | number | boolean | readonly string[]>;

function aimed(server: Served, path: string, more: LoadOptions): LoadOptions {
  return { url: `http://127.0.0.1:${server.port}${path}`, H: AUTHORIZATION, pid: server.pid, ...more };
}

function herdRun(server: Served, { path, until }: typeof FDV1, more: LoadOptions): Promise<HerdResult> {
  return load<HerdResult>('herd', aimed(server, path, { until, count: clients, ...more })).result;
}

const NAN = Number.NaN;

function addHerd(table: Table, result: HerdResult, { name = '', stalled = false } = {}): void {
  const { server } = result;
  table.add(`${name}clients with everything`, result.complete, exactly(result.expected));
  table.add(`${name}their bytes, least = most`, Number(result.bytesMin === result.bytesMax), exactly(1));
  table.add(`${name}refusals and failures before`, sumOf(result.statuses) - (result.statuses['200'] ?? 0));
  table.add(`${name}last done, s`, result.healthySeconds);
  table.add(`${name}median done, s`, result.doneSeconds?.p50 ?? NAN);
  table.add(`${name}first byte p50, s`, result.firstByteSeconds?.p50 ?? NAN);
  table.add(`${name}first byte p99, s`, result.firstByteSeconds?.p99 ?? NAN);
  table.add(`${name}CPU until then, s`, result.cpuSecondsUntilHealthy);
  table.add(`${name}RSS before, MiB`, server.rssBeforeMib);
  table.add(`${name}RSS peak (VmHWM), MiB`, server.rssPeakMib);
  table.add(`${name}server's sockets peak, MiB`, server.serverSocketsPeakMib);
  table.add(`${name}clients' sockets peak, MiB`, server.clientSocketsPeakMib);
  table.add(`${name}RSS peak + server's sockets' peak, MiB`, server.rssPeakMib + server.serverSocketsPeakMib);
  const sum = server.rssPeakMib + server.serverSocketsPeakMib + server.clientSocketsPeakMib;
  // what stalled readers hold on both sides is bounded by their number
  table.add(`${name}RSS peak + all sockets' peaks, MiB`, sum, stalled ? undefined : below(200, 'MiB'));
  table.ran(server);
}

const sumOf = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0);

async function addCounters(table: Table, server: Headgate, name = ''): Promise<void> {
  const { held, waiting, parked, active, parks, ended } = await server.counters();
  table.add(`${name}slots, queue, parked, deliveries afterwards`, held + waiting + parked + active, exactly(0));
  table.add(`${name}times a place was given up (parked)`, parks);
  table.add(`${name}deliveries cut as stalled or capped`, (ended['stalled'] ?? 0) + (ended['capped'] ?? 0));
}

/** Repeats a herd, each time against a fresh server. */
async function herds(place: Place, title: string, protocol: typeof FDV1, more: LoadOptions = {}): Promise<Table> {
  const table = new Table(title);
  for (let at = 0; at < repeats; at++) {
    await withHeadgate(place, place.archives.tenMb, async (server) => {
      const result = await herdRun(server, protocol, more);
      addHerd(table, result);
      if (more['ramp'] !== undefined) table.add('from its own arrival, p99, s', result.tookSeconds?.p99 ?? NAN);
      await addCounters(table, server);
    });
  }
  return table;
}

/** The healthy ones alone, then with stalled ones among them, then behind them: in turn, so that a drift hits all three. */
async function stalls(place: Place, which: readonly string[]): Promise<Table> {
  const table = new Table(
    `d, e, f: ${clients} FDv1 clients at once, ${STALL * 100} % of them stalled after 10 kB, against the healthy ones alone`,
  );
  const healthy = clients - Math.round(clients * STALL);
  const runs: [string, string, LoadOptions][] = [
    ['d', 'd (among them): ', { stall: STALL }],
    ['e', 'e (first in line): ', { stall: STALL, 'stall-first': true }],
  ];
  for (let at = 0; at < repeats; at++) {
    const alone = await withHeadgate(place, place.archives.tenMb, async (server) => {
      const result = await herdRun(server, FDV1, { count: healthy });
      addHerd(table, result, { name: 'f (alone): ' });
      return result;
    });
    for (const [letter, name, more] of runs) {
      if (!which.includes(letter)) continue;
      await withHeadgate(place, place.archives.tenMb, async (server) => {
        const result = await herdRun(server, FDV1, more);
        addHerd(table, result, { name, stalled: true });
        table.add(`${name}last done / alone`, result.healthySeconds / alone.healthySeconds, atMost(1.2, ''));
        table.add(`${name}stalled ones that are left uncut`, result.stalled - result.cutByServer, exactly(0));
        table.add(`${name}cut after, p50, s`, result.cutSeconds?.p50 ?? NAN);
        table.add(`${name}cut after, max, s`, result.cutSeconds?.max ?? NAN);
        table.add(`${name}server's sockets afterwards, MiB`, result.server.serverSocketsAfterMib);
        await addCounters(table, server, name);
      });
    }
  }
  return table;
}

async function fullPolls(place: Place): Promise<Table> {
  const table = new Table(`g: whole polls, /sdk/flags, ${POLL_CONNECTIONS} keep-alive connections, ${pollSeconds} s`);
  const sets: [string, string, number][] = [
    ['10 MB', place.archives.tenMb, 210],
    ['1 MB', place.archives.oneMb, 2440],
  ];
  for (let at = 0; at < repeats; at++) {
    for (const [name, archive, target] of sets) {
      await withHeadgate(place, archive, async (server) => {
        const more = { count: POLL_CONNECTIONS, duration: `${pollSeconds}s` };
        const result = await load<PollResult>('poll', aimed(server, '/sdk/flags', more)).result;
        const refused = sumOf(result.statuses) - (result.statuses['200'] ?? 0);
        table.add(`${name}: polls per second`, result.requestsPerSecond, atLeast(target, '/s (ten times a Go relay)'));
        table.add(`${name}: not 200, or failed`, refused + sumOf(result.failures), exactly(0));
        table.add(`${name}: p50, ms`, result.latencyMs?.p50 ?? NAN);
        table.add(`${name}: p99, ms`, result.latencyMs?.p99 ?? NAN);
        table.add(`${name}: RSS peak, MiB`, result.server.rssPeakMib);
        table.add(`${name}: CPU share of one core, %`, (100 * result.server.cpuSeconds) / result.server.seconds);
        table.ran(result.server);
      });
    }
  }
  return table;
}

async function smallDuringHerd(place: Place): Promise<Table> {
  const table = new Table(
    `h: /sdk/flags/KEY on ${SMALL_CONNECTIONS} keep-alive connections, one each ${SMALL_PACE_MS} ms, during (a)`,
  );
  for (let at = 0; at < repeats; at++) {
    await withHeadgate(place, place.archives.tenMb, async (server) => {
      const path = `/sdk/flags/${FLAG_KEY}`;
      const small = { count: SMALL_CONNECTIONS, pace: `${SMALL_PACE_MS}ms` };
      const idle = await load<PollResult>('poll', aimed(server, path, { ...small, duration: `${roundSeconds}s` }))
        .result;
      const during = load<PollResult>('poll', aimed(server, path, { ...small, 'until-eof': true }));
      const herd = await herdRun(server, FDV1, {});
      during.end();
      const result = await during.result;
      table.add('idle server: p50, ms', idle.latencyMs?.p50 ?? NAN);
      table.add('idle server: p99, ms', idle.latencyMs?.p99 ?? NAN);
      table.add('idle server: max, ms', idle.latencyMs?.max ?? NAN);
      table.add('during the herd: requests', result.requests);
      table.add('during the herd: failed', sumOf(result.failures), exactly(0));
      table.add('during the herd: p50, ms', result.latencyMs?.p50 ?? NAN);
      table.add('during the herd: p99, ms', result.latencyMs?.p99 ?? NAN, below(10, 'ms'));
      table.add('during the herd: max, ms', result.latencyMs?.max ?? NAN, below(50, 'ms'));
      table.add('herd: last done, s', herd.healthySeconds);
      table.ran({ ...herd.server, otherCpuSeconds: Math.max(0, herd.server.otherCpuSeconds - ownOf(result)) });
    });
  }
  return table;
}

/** The second load client is no stranger: what it burned is not contamination. */
const ownOf = ({ server }: PollResult): number => server.clientCpuSeconds;

function get(port: number, path: string, headers: Record<string, string> = {}): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const request = http.get({ host: '127.0.0.1', port, path, headers: { authorization: SDK_KEY, ...headers } });
    request.once('error', reject);
    request.once('response', (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (piece: string) => {
        body += piece;
        // a stream never ends: its first event is all of it that is wanted
        if (response.headers['content-type']?.startsWith('text/event-stream') && body.endsWith('\n\n')) finish();
      });
      const finish = (): void => {
        // those that Node writes by itself
        const { date: _, connection: _c, 'keep-alive': _k, 'transfer-encoding': _t, ...rest } = response.headers;
        resolve({ status: response.statusCode ?? 0, headers: rest as Record<string, string>, body });
        request.destroy();
      };
      response.once('end', finish);
    });
  });
}

interface SmallReply {
  readonly name: string;
  readonly path: string;
  readonly headers: Record<string, string>;
}

async function smallReplies(port: number): Promise<SmallReply[]> {
  const whole = await get(port, '/sdk/poll');
  const { events } = JSON.parse(whole.body) as { events: { event: string; data: { state?: string } }[] };
  const basis = encodeURIComponent(events.at(-1)?.data.state ?? '');
  const { headers } = await get(port, '/sdk/flags');
  return [
    { name: 'FDv2 poll, up to date', path: `/sdk/poll?basis=${basis}`, headers: {} },
    { name: '304', path: '/sdk/flags', headers: { 'If-None-Match': headers['etag'] ?? '' } },
    { name: 'one flag', path: `/sdk/flags/${FLAG_KEY}`, headers: {} },
  ];
}

async function rates(place: Place): Promise<Table> {
  const table = new Table(
    `i: small replies per second, ${POLL_CONNECTIONS} keep-alive connections, beside bare node:http with the same bytes, ${roundSeconds} s in turn`,
  );
  const bare = await Bare.start();
  try {
    await withHeadgate(place, place.archives.oneMb, async (server) => {
      const asked = await smallReplies(server.port);
      for (let at = 0; at < repeats; at++) {
        for (const { name, path, headers } of asked) {
          const lines = Object.entries(headers).map(([key, value]) => `${key}: ${value}`);
          await bare.order({ kind: 'answer', replies: { [path]: await get(server.port, path, headers) } });
          const more = { H: [AUTHORIZATION, ...lines], count: POLL_CONNECTIONS, duration: `${roundSeconds}s` };
          const ours = await load<PollResult>('poll', aimed(server, path, more)).result;
          const theirs = await load<PollResult>('poll', aimed(bare, path, more)).result;
          table.add(`${name}: ours, /s`, ours.requestsPerSecond);
          table.add(`${name}: bare, /s`, theirs.requestsPerSecond);
          table.add(`${name}: ours / bare, %`, (100 * ours.requestsPerSecond) / theirs.requestsPerSecond);
          table.add(`${name}: our CPU per request, µs`, (1e6 * ours.server.cpuSeconds) / ours.requests);
          table.add(`${name}: bare CPU per request, µs`, (1e6 * theirs.server.cpuSeconds) / theirs.requests);
          table.add(`${name}: our p99, ms`, ours.latencyMs?.p99 ?? NAN);
          table.ran(ours.server);
          table.ran(theirs.server);
        }
      }
    });
  } finally {
    await bare.stop();
  }
  return table;
}

function addStreams(table: Table, name: string, result: StreamsResult, changedUnixMs: number): void {
  const ours = name === 'ours';
  table.add(`${name}: open`, result.open, exactly(streams));
  table.add(`${name}: RSS per stream, B`, result.rssBytesPerStream, ours ? atMost(9000, 'B') : undefined);
  table.add(`${name}: kernel memory per stream, B`, result.serverSocketBytesPerStream);
  table.add(`${name}: got the change`, result.got, exactly(streams));
  const last = result.lastUnixMs - changedUnixMs;
  table.add(`${name}: change made to last client, ms`, last, ours ? atMost(90, 'ms') : undefined);
  table.add(`${name}: first to last client, ms`, result.afterFirstMs?.max ?? NAN);
  if (ours) table.add('ours: archive replaced to last client, ms', result.afterChangeMs?.max ?? NAN);
  table.add(`${name}: CPU for the change, s`, result.changeCpuSeconds);
  table.ran(result.server);
}

async function idle(place: Place): Promise<Table> {
  const table = new Table(
    `j: ${streams} idle FDv1 streams and one change, beside bare node:http (res.write for each) with the same bytes`,
  );
  const [path, next] = [join(place.folder, 'small.tar.gz'), join(place.folder, 'changed.tar.gz')];
  const shared = { until: 'event:put', event: 'patch', count: streams, settle: '3s', duration: '20s' };
  for (let at = 0; at < repeats; at++) {
    await writeArchive(path, SMALL);
    await writeArchive(next, SMALL, true);
    const { first, event } = await withHeadgate(place, path, async (server) => {
      const { body } = await get(server.port, FDV1.path);
      const more = { ...shared, trigger: 'rename', 'replace-from': next, 'replace-to': path };
      const result = await load<StreamsResult>('streams', aimed(server, FDV1.path, more)).result;
      addStreams(table, 'ours', result, (await server.counters()).publishedUnixMs);
      const flag = (await get(server.port, `/sdk/flags/${FLAG_KEY}`)).body;
      const id = body.slice(body.lastIndexOf('\nid: '));
      return { first: body, event: `event: patch\ndata: {"path":"/flags/${FLAG_KEY}","data":${flag}}${id}` };
    });
    const bare = await Bare.start();
    try {
      await bare.order({ kind: 'stream', path: FDV1.path, first, event });
      let changed = Promise.resolve(0);
      const onLine = (): void => {
        changed = bare.order({ kind: 'change' });
      };
      const more = { ...shared, trigger: 'line' };
      const result = await load<StreamsResult>('streams', aimed(bare, FDV1.path, more), onLine).result;
      addStreams(table, 'bare', result, await changed);
    } finally {
      await bare.stop();
    }
  }
  return table;
}

const at = (what: string): string => `${clients} ${what}, 10 MB`;
const SCENARIOS: Readonly<Record<string, (place: Place, which: readonly string[]) => Promise<readonly Table[]>>> = {
  a: async (place) => [await herds(place, `a: ${at('FDv1 clients at once')}`, FDV1)],
  b: async (place) => [await herds(place, `b: ${at('FDv2 clients at once')}`, FDV2)],
  c: async (place) => [
    await herds(place, `c: ${at('FDv1 clients over 5 s')}`, FDV1, { ramp: '5s' }),
    await herds(place, `c: ${at('FDv2 clients over 5 s')}`, FDV2, { ramp: '5s' }),
  ],
  d: async (place, which) => [await stalls(place, which)],
  g: async (place) => [await fullPolls(place)],
  h: async (place) => [await smallDuringHerd(place)],
  i: async (place) => [await rates(place)],
  j: async (place) => [await idle(place)],
};
const LETTERS = 'abcdefghij';

async function main(): Promise<void> {
  const which = options.positionals.length > 0 ? options.positionals : LETTERS.split('');
  for (const letter of which) {
    if (!LETTERS.includes(letter)) throw new Error(`Cannot run: scenarios are a to j, got ${letter}`);
  }
  buildLoad();
  const exitCode = isolated(options.values.first);
  if (exitCode !== undefined) {
    process.exitCode = exitCode;
    return;
  }
  console.log(machineLine());
  console.log(
    `${repeats} repeats; ${clients} clients, ${streams} streams${quick ? '; quick: targets are for the full size' : ''}`,
  );
  console.log(
    process.env['BENCH_ISOLATED'] === undefined
      ? 'Network: shared with the rest of the machine (run as root for a namespace of its own)'
      : 'Network: a namespace of its own',
  );
  console.log(`Limits: ${JSON.stringify(LIMITS)}, all else by default`);
  if (options.values.first) console.log('Servers and clients go before other programs of the machine');
  console.log('Clients: refused or failed, they come back after 1 s, doubled up to 30 s, half of it random');
  const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
  const tables: Table[] = [];
  try {
    const archives = { tenMb: join(folder, '10mb.tar.gz'), oneMb: join(folder, '1mb.tar.gz') };
    await writeArchive(archives.tenMb, TEN_MB);
    await writeArchive(archives.oneMb, ONE_MB);
    // d, e and f share their runs
    const letters = new Set(which.map((letter) => (letter === 'e' || letter === 'f' ? 'd' : letter)));
    for (const letter of letters) {
      const made = (await SCENARIOS[letter]?.({ folder, archives }, which)) ?? [];
      for (const table of made) table.print();
      tables.push(...made);
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
