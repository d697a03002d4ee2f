/**
 * A server that ends under thousands of streams and comes back: what it takes to bring all of them up to date again.
 * See README.md.
 *
 *   npm run build && npx tsc -p bench/tsconfig.json && node .bench/bench/restart.js [--repeats N] [--items N]
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { contextOf } from './browser-data.ts';
import { SDK_KEY } from './data.ts';
import { Fleet, type FleetKind, type FleetResult, FlagsUpstream } from './fleet.ts';
import { buildLoad, Headgate, isolated, loopProbed } from './processes.ts';
import { below, exactly, machineLine, Table } from './report.ts';

const ENV_ID = '000000000000000000000001';
const CHANGED = 10;
const LIVE_CHANGES = 3;
const BACK_MS = 1000;
const SETTLE_MS = 1500;
const TIMEOUT_MS = 240_000;
/** A flag is in a change as it is in a copy: ten of a thousand are a hundredth of it, and a frame. */
const SHARE_MAX = 0.05;
const NAN = Number.NaN;

const options = parseArgs({
  options: {
    repeats: { type: 'string', default: '3' },
    streams: { type: 'string', default: '5000' },
    items: { type: 'string', default: '2000' },
    json: { type: 'string' },
    first: { type: 'boolean', default: false },
  },
});
const repeats = Number(options.values.repeats);
const streams = Number(options.values.streams);
const items = Number(options.values.items);

const server = [`Authorization: ${SDK_KEY}`];
const part = (share: number): number => Math.round(streams * share);

/** What clients of each kind name when they come back is what the real ones were seen to name. */
function kindsOf(): readonly FleetKind[] {
  const contexts = Array.from({ length: part(0.1) }, (_, at) => `/sdk/stream/eval/${contextOf(at)}`);
  const browser = ['User-Agent: Mozilla/5.0', 'Origin: https://shop.example.com'];
  return [
    {
      name: 'Node, FDv1',
      count: part(0.4),
      paths: ['/all'],
      headers: [...server, 'User-Agent: NodeJSClient/9.13.7'],
      byId: true,
      byBasis: false,
      until: 'event',
    },
    {
      name: 'Go, FDv2',
      count: part(0.3),
      paths: ['/sdk/stream'],
      headers: [...server, 'User-Agent: GoClient/7.14.6'],
      byId: true,
      byBasis: true,
      until: 'transfer',
    },
    {
      name: 'Python, FDv1',
      count: part(0.1),
      paths: ['/all'],
      headers: [...server, 'User-Agent: PythonClient/9.20.0'],
      byId: true,
      byBasis: false,
      until: 'event',
    },
    {
      name: 'browsers, values',
      count: part(0.1),
      paths: contexts,
      headers: [`Authorization: ${ENV_ID}`, ...browser],
      byId: false,
      byBasis: true,
      until: 'transfer',
    },
    {
      name: 'browsers, pings',
      count: part(0.1),
      paths: [`/ping/${ENV_ID}`],
      headers: browser,
      byId: false,
      byBasis: false,
      until: 'ping',
    },
  ];
}

/** These get everything again, whatever they name: their SDK wants it, or has no way to name a position. */
const COPIED = new Set(['Python, FDv1', 'browsers, pings']);

interface Place {
  readonly folder: string;
  readonly kinds: string;
  readonly upstream: FlagsUpstream;
}

function configOf({ folder, upstream }: Place, port: number): object {
  return {
    server: { host: '127.0.0.1', port, drainDelay: '0s', grace: '1s' },
    limits: { mode: 'auto' },
    admin: { port: 0 },
    store: { type: 'lmdb', path: join(folder, 'store') },
    flags: {
      upstream: { streamUri: upstream.url, baseUri: upstream.url },
      environments: { bench: { sdkKey: SDK_KEY, envId: ENV_ID, allowedOrigins: ['*'] } },
    },
  };
}

const start = (place: Place, port: number, until: string): Promise<Headgate> =>
  Headgate.start(join(place.folder, 'config.yaml'), configOf(place, port), until);

const refusedOf = (statuses: Readonly<Record<string, number>>): number =>
  Object.entries(statuses).reduce((sum, [status, count]) => sum + (status === '200' ? 0 : count), 0);

const sumOf = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0);

const megabytes = ({ kinds }: FleetResult): number => kinds.reduce((sum, { bytes }) => sum + bytes, 0) / 1e6;

function addKinds(table: Table, result: FleetResult, copies: FleetResult): void {
  for (const [at, kind] of result.kinds.entries()) {
    const { name, clients } = kind;
    const full = (copies.kinds[at]?.bytes ?? NAN) / clients;
    const each = kind.bytes / clients;
    table.add(`${name}: clients that are current`, kind.current, exactly(clients));
    table.add(`${name}: bytes for each`, each);
    const target = COPIED.has(name) ? undefined : below(100 * SHARE_MAX, '%');
    if (result !== copies) table.add(`${name}: of a full copy, %`, (100 * each) / full, target);
    table.add(`${name}: current after, p50, s`, kind.doneSeconds?.p50 ?? NAN);
    table.add(`${name}: current after, last, s`, kind.doneSeconds?.max ?? NAN);
    table.add(`${name}: refused`, refusedOf(kind.statuses), exactly(0));
    table.add(`${name}: failed`, sumOf(kind.failures) - refusedOf(kind.statuses), exactly(0));
  }
  table.add('all: sent, MB', megabytes(result));
  if (result !== copies) {
    table.add('all: full copies instead, MB', megabytes(copies));
    table.add('all: of full copies, %', (100 * megabytes(result)) / megabytes(copies));
  }
  table.add('all: current after, s', result.seconds);
  addServer(table, result);
}

function addServer(table: Table, { server: measured }: FleetResult): void {
  table.add('CPU, all threads, s', measured.cpuSeconds);
  table.add('RSS peak (VmHWM), MiB', measured.rssPeakMib);
  table.add("server's sockets peak, MiB", measured.serverSocketsPeakMib);
  table.ran(measured);
}

async function addBlocks(table: Table, headgate: Headgate): Promise<void> {
  const { longestMs, ownMs, ownOver20 } = await headgate.blocks();
  table.add('main thread: longest between two turns, ms', longestMs);
  table.add('main thread: most that it ran between two turns, ms', ownMs, below(20, 'ms'));
  table.add('main thread: turns that ran more than 20 ms', ownOver20, exactly(0));
}

interface Ending {
  readonly title: string;
  readonly how: 'kill' | 'stop';
  readonly changes: number;
}

const ENDINGS: readonly Ending[] = [
  { title: 'killed, nothing changed meanwhile', how: 'kill', changes: 0 },
  { title: `killed, ${CHANGED + 1} flags changed meanwhile`, how: 'kill', changes: CHANGED },
  { title: `ended by SIGTERM, ${CHANGED + 1} flags changed meanwhile`, how: 'stop', changes: CHANGED },
];

interface Tables {
  readonly first: Table;
  readonly live: Table;
  readonly endings: readonly Table[];
}

let markers = 0;
const nextMarker = (): string => `marker-${++markers}`;

async function lifetime(place: Place, tables: Tables): Promise<void> {
  let headgate = await start(place, 0, 'environment loaded');
  const { port } = headgate;
  const fleet = new Fleet(port, place.kinds, SETTLE_MS);
  const order = { timeoutMs: TIMEOUT_MS, pid: 0 };
  try {
    await headgate.blocks();
    const copies = await fleet.order({ ...order, connect: true, overMs: 0, marker: 'marker-0', pid: headgate.pid });
    addKinds(tables.first, copies, copies);
    await addBlocks(tables.first, headgate);
    for (let at = 0; at < LIVE_CHANGES; at++) {
      const marker = nextMarker();
      const wanted = { ...order, connect: false, overMs: 0, marker, pid: headgate.pid };
      const change = (): Promise<unknown> => place.upstream.order({ kind: 'change', count: CHANGED, marker });
      addKinds(tables.live, await fleet.order(wanted, change), copies);
      await addBlocks(tables.live, headgate);
    }
    for (const [at, { how, changes }] of ENDINGS.entries()) {
      const table = tables.endings[at] as Table;
      await headgate[how]();
      const marker = changes === 0 ? '' : nextMarker();
      if (changes > 0) await place.upstream.order({ kind: 'change', count: changes, marker });
      const beganMs = performance.now();
      headgate = await start(place, port, 'listening');
      table.add('process started until it listens, ms', performance.now() - beganMs);
      // loading its modules is no block that a client could see
      await headgate.blocks();
      const back = { ...order, connect: true, overMs: BACK_MS, marker, pid: headgate.pid };
      addKinds(table, await fleet.order(back), copies);
      await addBlocks(table, headgate);
    }
  } finally {
    fleet.stop();
    await headgate.stop();
  }
}

async function main(): Promise<void> {
  buildLoad();
  const exitCode = isolated(options.values.first);
  if (exitCode !== undefined) {
    process.exitCode = exitCode;
    return;
  }
  loopProbed();
  console.log(machineLine());
  console.log(`${repeats} repeats; ${streams} streams, ${items} flags; all come back within ${BACK_MS} ms`);
  console.log('Server, upstream, load client and this program share the processors');
  const tables: Tables = {
    first: new Table(`${streams} streams come for the first time, 64 at a time`),
    live: new Table(`${CHANGED + 1} flags change while all streams are open, one event each`),
    endings: ENDINGS.map(({ title }) => new Table(title)),
  };
  for (let at = 0; at < repeats; at++) {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
    const upstream = await FlagsUpstream.start();
    try {
      const kinds = join(folder, 'kinds.json');
      writeFileSync(kinds, JSON.stringify(kindsOf()));
      markers = 0;
      await upstream.order({ kind: 'hold', flags: items, segments: 50 });
      await lifetime({ folder, kinds, upstream }, tables);
    } finally {
      upstream.stop();
      rmSync(folder, { recursive: true });
    }
  }
  const all = [tables.first, tables.live, ...tables.endings];
  for (const table of all) table.print();
  const missed = all.reduce((sum, table) => sum + table.missed, 0);
  console.log(`\n${missed} figures miss their target.`);
  if (options.values.json !== undefined) {
    writeFileSync(options.values.json, `${JSON.stringify({ machine: machineLine(), tables: all }, undefined, 2)}\n`);
  }
}

await main();
