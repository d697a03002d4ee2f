/**
 * What metrics cost a small request, alone and over HTTP, and what metrics and logs cost a herd. See README.md.
 *
 *   npm run build && npx tsc -p bench/tsconfig.json && node .bench/bench/metrics.js [--pairs N] [--seconds N]
 *     [--clients N] [--quick] [alone] [http] [herd]
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Limiter } from '../src/admission/index.ts';
import { Deliveries } from '../src/delivery/index.ts';
import { systemClock } from '../src/kernel/index.ts';
import { openMetrics } from '../src/observability/index.ts';
import { answered } from '../src/protocols/crowdsec/index.ts';
import { caughtUp, requested as requestedFlags } from '../src/protocols/launchdarkly/index.ts';
import { requested } from '../src/server/index.ts';
import { herdOverhead } from './metrics-herd.ts';
import { buildLoad, Headgate, load, type PollResult } from './processes.ts';
import { atMost, machineLine, Table } from './report.ts';

const MICROSECONDS_MAX = 4;
const ROUND = 100_000;
const BOUNCERS = 1000;
const CONNECTIONS = 32;
const SDK_KEY = 'sdk-bench';

const PARTS = ['alone', 'http', 'herd'];
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    pairs: { type: 'string' },
    seconds: { type: 'string' },
    clients: { type: 'string' },
    quick: { type: 'boolean', default: false },
  },
});
for (const part of positionals) {
  if (!PARTS.includes(part)) throw new Error(`Cannot run: parts are ${PARTS.join(', ')}, got ${part}`);
}
const parts = new Set(positionals.length > 0 ? positionals : PARTS);
const clients = Number(values.clients ?? (values.quick ? 100 : 500));
const pairs = Number(values.pairs ?? (values.quick ? 3 : 15));
const seconds = Number(values.seconds ?? (values.quick ? 1 : 3));

const bouncers = Array.from({ length: BOUNCERS }, (_, number) => `bouncer-${number}`);
const REMOTE = '192.0.2.7';

/** The server's part: what every request tells. */
function httpFact(route: string): void {
  if (!requested.isHeard) return;
  const beganMs = performance.now();
  requested.publish(() => ({ route, method: 'GET', status: 200, ms: performance.now() - beganMs, complete: true }));
}

function flagsFact(): { environment: string; route: string; sdk: string; remoteAddress: string } {
  return { environment: 'production', route: '/sdk/poll', sdk: 'GoClient', remoteAddress: REMOTE };
}

/** The facts of one small request, as fronts and server make them known. */
const REQUESTS: Readonly<Record<string, (number: number) => void>> = {
  'a bouncer that is up to date': (number) => {
    const bouncer = bouncers[number % BOUNCERS] ?? '';
    const fact = { bouncer, agent: 'crowdsec-nginx-bouncer/v1', route: '/v1/decisions/stream', remoteAddress: REMOTE };
    answered.publish(() => Object.assign(fact, { what: 'current' as const, bytes: 26, hit: false }));
    httpFact('/v1/decisions/stream');
  },
  'a look-up': (number) => {
    const bouncer = bouncers[number % BOUNCERS] ?? '';
    const fact = { bouncer, agent: 'crowdsec-nginx-bouncer/v1', route: '/v1/decisions', remoteAddress: REMOTE };
    answered.publish(() => Object.assign(fact, { what: 'look-up' as const, bytes: 4, hit: number % 2 === 0 }));
    httpFact('/v1/decisions');
  },
  'a flags poll that is up to date': () => {
    requestedFlags.publish(() => Object.assign(flagsFact(), { method: 'GET' }));
    caughtUp.publish(() => Object.assign(flagsFact(), { changes: 0, bytes: 100 }));
    httpFact('/sdk/poll');
  },
};

function microsecondsEach(request: (number: number) => void): number {
  const began = process.cpuUsage();
  for (let number = 0; number < ROUND; number++) request(number);
  const { user, system } = process.cpuUsage(began);
  return (user + system) / ROUND;
}

function alone(): Table {
  const table = new Table(`facts of a small request, CPU, ${pairs} pairs of ${ROUND} with and without listeners`);
  const limiter = Limiter.disabled('copies');
  const deliveries = new Deliveries();
  const figures = (): Parameters<typeof openMetrics>[0]['figures'] extends () => infer Figures ? Figures : never => ({
    admission: limiter.stats(),
    slotsMax: 1,
    pinnedBytesMax: 1,
    deliveries: deliveries.stats(),
    kernelHeldBytes: undefined,
    activeRequests: 0,
    environments: [],
  });
  const shared = { clock: systemClock, version: 'bench', figures, flags: true, decisions: true };
  for (const warm of Object.values(REQUESTS)) microsecondsEach(warm);
  const kept = openMetrics(shared);
  for (const warm of Object.values(REQUESTS)) microsecondsEach(warm);
  const beganMs = performance.now();
  const bytes = kept.text().length;
  table.add('a page of metrics, ms', performance.now() - beganMs);
  table.add('a page of metrics, kB', bytes / 1000);
  kept.close();
  for (let pair = 0; pair < pairs; pair++) {
    for (const [name, request] of Object.entries(REQUESTS)) {
      const without = microsecondsEach(request);
      const metrics = openMetrics(shared);
      // the first of each name binds its series
      for (let number = 0; number < BOUNCERS; number++) request(number);
      const withListeners = microsecondsEach(request);
      metrics.close();
      table.add(`${name}: more with listeners, µs`, withListeners - without, atMost(MICROSECONDS_MAX, 'µs'));
    }
  }
  return table;
}

async function basisOf(port: number): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}/sdk/poll`, { headers: { authorization: SDK_KEY } });
  return /"state":"([\w.-]+)"/.exec(await response.text())?.[1] ?? '';
}

async function microsecondsOverHttp({ port, pid }: Headgate, path: string, table: Table): Promise<number> {
  const url = `http://127.0.0.1:${port}${path}`;
  const options = { url, pid, H: `Authorization: ${SDK_KEY}`, count: CONNECTIONS, duration: `${seconds}s` };
  const { server, requests } = await load<PollResult>('poll', options).result;
  table.ran(server);
  return (1e6 * server.cpuSeconds) / requests;
}

async function overHttp(folder: string): Promise<Table> {
  const flags = join(folder, 'flags.json');
  writeFileSync(flags, JSON.stringify({ flags: { one: { key: 'one', version: 1, on: true } }, segments: {} }));
  const source = { type: 'file', name: 'bench', paths: [flags], sdkKey: SDK_KEY };
  const start = (name: string, admin: unknown): Promise<Headgate> =>
    Headgate.start(join(folder, `${name}.yaml`), {
      server: { host: '127.0.0.1', port: 0, drainDelay: 0 },
      log: { level: 'info' },
      admin,
      flags: { sources: [source] },
    });
  const servers = { with: await start('with', { port: 0 }), without: await start('without', 'off') };
  const table = new Table(
    `over HTTP, ${CONNECTIONS} keep-alive connections, CPU of the server, ${pairs} pairs of ${seconds} s`,
  );
  const basis = await basisOf(servers.with.port);
  const paths = { 'a single flag': '/sdk/flags/one', 'a poll that is up to date': `/sdk/poll?basis=${basis}` };
  try {
    for (let pair = 0; pair < pairs; pair++) {
      for (const [name, path] of Object.entries(paths)) {
        // which of the two goes first changes, since the machine does
        const others = pair % 2 === 0;
        const first = await microsecondsOverHttp(others ? servers.with : servers.without, path, table);
        const second = await microsecondsOverHttp(others ? servers.without : servers.with, path, table);
        const without = others ? second : first;
        table.add(`${name}: without, µs`, without);
        table.add(
          `${name}: more with metrics, µs`,
          (others ? first : second) - without,
          atMost(MICROSECONDS_MAX, 'µs'),
        );
      }
    }
  } finally {
    await Promise.all(Object.values(servers).map((server) => server.stop()));
  }
  return table;
}

const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
try {
  console.log(machineLine());
  const tables: Table[] = [];
  const show = (table: Table): void => {
    table.print();
    tables.push(table);
  };
  if (parts.has('alone')) show(alone());
  if (parts.has('http') || parts.has('herd')) buildLoad();
  if (parts.has('http')) show(await overHttp(folder));
  if (parts.has('herd')) show(await herdOverhead(folder, { pairs, clients, quick: values.quick }));
  process.exitCode = tables.some(({ missed }) => missed > 0) ? 1 : 0;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
