import { mkdtempSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Bucket, State, Timeline } from '../../src/observability/index.ts';
import { type Headgate, startHeadgate } from '../support/headgate.ts';

const SDK_KEY = 'sdk-00000000-1111-2222-3333-444444444444';
const MOBILE_KEY = 'mob-00000000-1111-2222-3333-555555555555';
const ENV_ID = '507f1f77bcf86cd799439011';
const BOUNCER_KEY = 'key-of-the-edge-that-nobody-sees';
const TOKEN = 's3cret-of-the-operators';
const SECRETS = [SDK_KEY, MOBILE_KEY, ENV_ID, BOUNCER_KEY, TOKEN];

const READERS = 24;
const STALLED = 6;
/** Where those that stall say that they come from: loopback is a network. */
const STALLED_ADDRESS = '127.0.0.2';
const FLAGS = 800;
/** Together more than both kernels hold for a reader that takes nothing. */
const FLAG_BYTES = 16_384;
const WAIT_MS = 30_000;
/** A process is started, and a herd served, on a machine that may be busy. */
const TEST_MS_MAX = 120_000;

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

function flagsFile(): string {
  const path = join(mkdtempSync(join(tmpdir(), 'headgate-live-')), 'flags.json');
  const flags = Array.from({ length: FLAGS }, (_, at) => {
    const key = `flag-${at}`;
    return [key, { key, version: 1, on: true, variations: ['x'.repeat(FLAG_BYTES)] }];
  });
  writeFileSync(path, JSON.stringify({ flags: Object.fromEntries(flags), segments: {} }));
  return path;
}

function decisionsFile(): string {
  const path = join(mkdtempSync(join(tmpdir(), 'headgate-live-')), 'drop.txt');
  writeFileSync(path, Array.from({ length: 50 }, (_, at) => `192.0.2.${at}\n`).join(''));
  return path;
}

interface More {
  readonly limits?: object;
  /** Sources of flags besides the one. */
  readonly sources?: readonly object[];
  readonly store?: string;
}

async function start(more: More = {}): Promise<{ headgate: Headgate; admin: string }> {
  const file = { type: 'file', name: 'production', sdkKey: SDK_KEY, mobileKey: MOBILE_KEY, envId: ENV_ID };
  const headgate = await startHeadgate({
    config: {
      server: { drainDelay: 0, grace: '1s' },
      // nobody is cut while the test looks
      limits: {
        slots: 4,
        queue: 1000,
        floor: 'off',
        wait: { stream: '20s', poll: '20s', decisions: '20s' },
        ...more.limits,
      },
      flags: { sources: [{ ...file, paths: [flagsFile()] }, ...(more.sources ?? [])] },
      decisions: {
        sources: [{ type: 'file', name: 'drop', paths: [decisionsFile()] }],
        keys: [{ name: 'edge', key: BOUNCER_KEY }],
      },
      store: more.store ?? 'none',
      admin: { token: TOKEN },
    },
  });
  closing.push(() => headgate.stop());
  await Promise.all([headgate.waitForLog('environment loaded'), headgate.waitForLog('decisions loaded')]);
  const { port } = await headgate.waitForLog('admin listening');
  return { headgate, admin: `http://127.0.0.1:${String(port)}` };
}

const AUTHORIZED = { authorization: `Bearer ${TOKEN}` };

async function textOf(url: string): Promise<string> {
  const response = await fetch(url, { headers: AUTHORIZED });
  expect(response.status).toBe(200);
  return await response.text();
}

/** One SDK on a socket of its own. `stalls`: it takes nothing after the first bytes. */
function sdk(port: number, stalls: boolean): { socket: Socket; begun: Promise<void> } {
  const socket = connect({ port, host: '127.0.0.1', ...(stalls ? { localAddress: STALLED_ADDRESS } : {}) });
  closing.push(() => socket.destroy());
  socket.on('error', () => undefined);
  socket.write(`GET /all HTTP/1.1\r\nHost: relay\r\nAuthorization: ${SDK_KEY}\r\nUser-Agent: GoClient/7.14.6\r\n\r\n`);
  const begun = new Promise<void>((resolve) => socket.once('data', () => resolve()));
  socket.on('data', () => stalls && socket.pause());
  return { socket, begun };
}

/** The events of `/api/live`, as the page reads them: by fetch, since it sends a token. */
class Viewer {
  readonly events: EventSourceMessage[] = [];
  text = '';
  readonly over: Promise<void>;

  private constructor(response: Response) {
    const parser = createParser({ onEvent: (event) => this.events.push(event) });
    this.over = (async () => {
      for await (const part of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
        this.text += part;
        parser.feed(part);
      }
    })();
  }

  static async open(admin: string): Promise<Viewer> {
    const response = await fetch(`${admin}/api/live`, { headers: AUTHORIZED });
    if (response.headers.get('content-type') === 'text/event-stream') return new Viewer(response);
    throw new Error(`Cannot watch ${admin}: got ${response.status} ${await response.text()}`);
  }

  all<Data>(name: string): Data[] {
    return this.events.filter(({ event }) => event === name).map(({ data }) => JSON.parse(data) as Data);
  }
}

interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

function parse(text: string): Series[] {
  return text.split('\n').flatMap((line) => {
    const match = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match === null || line.startsWith('#')) return [];
    const labels = [...(match[2] ?? '').matchAll(/(\w+)="([^"]*)"/g)].map(([, label = '', value = '']) => [
      label,
      value,
    ]);
    return [
      { name: match[1] ?? '', labels: Object.fromEntries(labels) as Record<string, string>, value: Number(match[3]) },
    ];
  });
}

/** The sum of a metric over those series whose labels are so; a pattern of alternatives is written `a|b`. */
function sumIn(series: readonly Series[], name: string, labels: Readonly<Record<string, string>> = {}): number {
  const isSo = (one: Series): boolean =>
    Object.entries(labels).every(([label, wanted]) => wanted.split('|').includes(one.labels[label] ?? ''));
  return series
    .filter((one) => [name, `headgate_${name}`].includes(one.name) && isSo(one))
    .reduce((sum, { value }) => sum + value, 0);
}

/** How metrics call what a state counts. */
const LAGS = { current: '0', few: '1-10', many: 'more' } as const;

/** Every number that is in a state and in the metrics: where it is in both. */
function pairsOf(
  state: State,
  series: readonly Series[],
): Record<string, readonly [state: number | null, metrics: number]> {
  const { budget, deliveries, sharing, decisions, memory, loop } = state;
  const refused = (reason: string): number => sumIn(series, 'admission_refused_total', { reason });
  const ended = (outcome: string): number => sumIn(series, 'deliveries_total', { outcome });
  const lag = (front: string, key: keyof typeof LAGS): number =>
    sumIn(series, 'clients_behind', { front, lag: LAGS[key] });
  const changes = { copy: 'catch-up|delta' };
  const of = <Key extends string>(
    prefix: string,
    numbers: Readonly<Record<Key, number>>,
    read: (key: Key) => number,
  ): [string, readonly [number, number]][] =>
    (Object.keys(numbers) as Key[]).map((key) => [`${prefix}.${key}`, [numbers[key], read(key)]]);
  const [environment] = state.environments;
  return Object.fromEntries<readonly [number | null, number]>([
    ['slotsMax', [budget.slotsMax, sumIn(series, 'admission_slots_max')]],
    ['queueMax', [budget.queueMax, sumIn(series, 'admission_queue_max')]],
    ['limitBytes', [memory.limitBytes, sumIn(series, 'memory_limit_bytes')]],
    ['pinnedBytesMax', [budget.pinnedBytesMax, sumIn(series, 'admission_pinned_max_bytes')]],
    ['held', [budget.held, sumIn(series, 'admission_held')]],
    ['budget.parked', [budget.parked, sumIn(series, 'admission_parked')]],
    ['waiting', [budget.waiting, sumIn(series, 'admission_waiting')]],
    ['waitingOpen', [budget.waitingOpen, sumIn(series, 'admission_waiting_open')]],
    ['pinnedBytes', [budget.pinnedBytes, sumIn(series, 'admission_pinned_bytes')]],
    ['sharing.pinnedBytes', [sharing.pinnedBytes, sumIn(series, 'admission_pinned_bytes')]],
    ['admitted', [budget.admitted, sumIn(series, 'admission_admitted_total')]],
    ...of('refused', budget.refused, refused),
    ['active', [deliveries.active, sumIn(series, 'deliveries_active')]],
    ['deliveries.parked', [deliveries.parked, sumIn(series, 'deliveries_parked')]],
    ['started', [deliveries.started, sumIn(series, 'deliveries_started_total')]],
    ['parks', [deliveries.parks, sumIn(series, 'deliveries_parks_total')]],
    ['kernelHeldBytes', [deliveries.kernelHeldBytes, sumIn(series, 'deliveries_kernel_held_bytes')]],
    ...of('ended', deliveries.ended, ended),
    ['items', [environment?.items ?? null, sumIn(series, 'environment_items', { tenant: 'production' })]],
    ['ready', [Number(environment?.ready), sumIn(series, 'environment_ready', { tenant: 'production' })]],
    ['size', [environment?.bytes ?? null, sumIn(series, 'environment_size_bytes', { tenant: 'production' })]],
    ['age', [(environment?.ageMs ?? 0) / 1000, sumIn(series, 'environment_age_seconds', { tenant: 'production' })]],
    ['streams', [environment?.streams ?? null, sumIn(series, 'streams', { tenant: 'production' })]],
    ...of('behind', environment?.behind ?? { current: 0, few: 0, many: 0 }, (key) => lag('flags', key)),
    ['decisions', [decisions?.held ?? null, sumIn(series, 'decisions')]],
    ['tombstones', [decisions?.tombstones ?? null, sumIn(series, 'decisions_tombstones')]],
    ['decisions.bytes', [decisions?.bytes ?? null, sumIn(series, 'decisions_size_bytes')]],
    ['offset', [decisions?.offset ?? null, sumIn(series, 'decisions_offset')]],
    ['bouncers', [decisions?.bouncers ?? null, sumIn(series, 'cursors')]],
    ...of('decisions.behind', decisions?.behind ?? { current: 0, few: 0, many: 0 }, (key) => lag('decisions', key)),
    ['source.up', [Number(decisions?.sources[0]?.up), sumIn(series, 'source_up', { source: 'drop' })]],
    ['source.decisions', [decisions?.sources[0]?.decisions ?? null, sumIn(series, 'source_decisions')]],
    ['savedBytes', [sharing.savedBytes, sumIn(series, 'saved_bytes_total')]],
    ['identity', [sharing.sentBytes.identity, sumIn(series, 'sent_bytes_total', { encoding: 'identity|unknown' })]],
    ['gzip', [sharing.sentBytes.gzip, sumIn(series, 'sent_bytes_total', { encoding: 'gzip' })]],
    ['full', [sharing.full, sumIn(series, 'deliveries_total', { copy: 'full', outcome: 'completed' })]],
    [
      'catchUps',
      [
        sharing.catchUps,
        sumIn(series, 'deliveries_total', { ...changes, outcome: 'completed' }) +
          sumIn(series, 'small_answers_total', changes),
      ],
    ],
    ['current', [sharing.current, sumIn(series, 'small_answers_total', { copy: 'current' })]],
    ['rss', [memory.rssBytes, sumIn(series, 'process_resident_memory_bytes')]],
    ['heapUsed', [memory.heapUsedBytes, sumIn(series, 'memory_bytes', { kind: 'heap_used' })]],
    ['external', [memory.externalBytes, sumIn(series, 'memory_bytes', { kind: 'external' })]],
    ['loop.p50', [loop.p50Ms / 1000, sumIn(series, 'loop_delay_seconds', { quantile: '0.5' })]],
    ['loop.p99', [loop.p99Ms / 1000, sumIn(series, 'loop_delay_seconds', { quantile: '0.99' })]],
    ['loop.max', [loop.maxMs / 1000, sumIn(series, 'loop_delay_seconds', { quantile: '1' })]],
  ]);
}

/** What moves by itself from one request to the next; all else has to be the same. */
const MOVING = new Set(['age', 'rss', 'heapUsed', 'external', 'loop.p50', 'loop.p99', 'loop.max']);

/** Whether a number of a state is that of the metrics which were read before it and after it. */
function isSame(name: string, told: number | null, [before, after]: readonly [number, number]): boolean {
  // null where there is no series yet
  const value = told ?? 0;
  if (!MOVING.has(name)) return value === before && value === after;
  // the same thing in the same unit, a moment apart
  return value >= Math.min(before, after) / 2 && value <= Math.max(before, after) * 2;
}

/** Compares all numbers, of a moment at which nothing happened. */
async function compare(admin: string): Promise<State> {
  return await vi.waitFor(async () => {
    const before = parse(await textOf(`${admin}/metrics`));
    const state = JSON.parse(await textOf(`${admin}/api/state`)) as State;
    const after = parse(await textOf(`${admin}/metrics`));
    const later = pairsOf(state, after);
    const unlike = Object.entries(pairsOf(state, before)).flatMap(([name, [told, metric]]) => {
      const both = [metric, later[name]?.[1] ?? Number.NaN] as const;
      return isSame(name, told, both) ? [] : [{ name, told, both }];
    });
    expect(unlike).toEqual([]);
    return state;
  }, WAIT_MS);
}

describe('the admin API', { timeout: TEST_MS_MAX }, () => {
  it('tells of a herd with stalled readers what the metrics tell, as it happens, and no key', async () => {
    const { headgate, admin } = await start();
    const said: string[] = [];
    for (const path of ['/api/state', '/api/live', '/metrics']) {
      const refusal = await fetch(admin + path);
      expect(refusal.status).toBe(401);
      said.push(await refusal.text());
    }
    const viewer = await Viewer.open(admin);
    await compare(admin);

    const stalled = Array.from({ length: STALLED }, () => sdk(headgate.port, true));
    await Promise.all(stalled.map(({ begun }) => begun));
    const readers = Array.from({ length: READERS }, () => sdk(headgate.port, false));
    await Promise.all(readers.map(({ begun }) => begun));
    const headers = { 'x-api-key': BOUNCER_KEY };
    for (const query of ['?startup=true', '', '']) {
      const answer = await fetch(`${headgate.url}/v1/decisions/stream${query}`, { headers });
      expect(answer.status).toBe(200);
      await answer.arrayBuffer();
    }

    const state = await vi.waitFor(async () => {
      const now = await compare(admin);
      expect(now.deliveries).toMatchObject({ active: STALLED, parked: STALLED });
      expect(now.deliveries.ended.completed).toBeGreaterThanOrEqual(READERS);
      expect(now.deliveries.slowest).toHaveLength(STALLED);
      return now;
    }, WAIT_MS);
    expect(state.environments).toMatchObject([{ name: 'production', items: FLAGS }]);
    expect(state.environments[0]?.streams).toBe(READERS);
    expect(state.sharing.full).toBeGreaterThanOrEqual(READERS);
    // a copy for each who stalls, where there is one for all of them
    expect(state.sharing.copiedBytes).toBeGreaterThan(STALLED * FLAGS * FLAG_BYTES);
    expect(state.sharing.copiedBytes).toBe(STALLED * (state.deliveries.slowest[0]?.totalBytes ?? 0));
    for (const slow of state.deliveries.slowest) {
      expect(slow).toMatchObject({ front: 'flags', name: 'production', route: '/all', parked: true });
      expect(slow.address).toContain(STALLED_ADDRESS);
      expect(slow.bytes).toBeLessThan(slow.totalBytes ?? 0);
    }
    const rates = state.deliveries.slowest.map(({ bytesPerSecond }) => bytesPerSecond);
    expect(rates).toEqual(rates.toSorted((one, other) => one - other));

    for (const { socket } of stalled) socket.destroy();
    const later = await vi.waitFor(async () => {
      const now = await compare(admin);
      expect(now.deliveries).toMatchObject({ active: 0, slowest: [], ended: { client_gone: STALLED } });
      return now;
    }, WAIT_MS);
    expect(later.sharing.copiedBytes).toBe(0);

    expect(viewer.events[0]?.event).toBe('timeline');
    expect(viewer.events[1]?.event).toBe('state');
    expect(viewer.all<Timeline>('timeline')[0]).toMatchObject({ everyMs: 2000 });
    const sumOf = (member: keyof Bucket): number =>
      viewer.all<Bucket>('bucket').reduce((sum, bucket) => sum + bucket[member], 0);
    // what happened in the buckets is, together, what happened
    await vi.waitFor(() => {
      expect(sumOf('admitted')).toBe(later.budget.admitted);
      expect(sumOf('completed')).toBe(later.deliveries.ended.completed);
      expect(sumOf('gone')).toBe(STALLED);
      expect(sumOf('bytes')).toBe(later.deliveries.bytes);
    }, WAIT_MS);
    const most = (member: keyof Bucket): number => Math.max(...viewer.all<Bucket>('bucket').map((one) => one[member]));
    // on a busy machine others may be parked for a moment
    expect(most('parked')).toBeGreaterThanOrEqual(STALLED);
    expect(most('streams')).toBe(READERS);
    expect(viewer.all<State>('state').at(-1)?.atMs).toBeGreaterThan(later.startedAtMs);

    said.push(viewer.text, await textOf(`${admin}/api/state`), await textOf(`${admin}/metrics`));
    for (const secret of SECRETS) {
      expect(said.filter((text) => text.includes(secret))).toEqual([]);
    }
    await headgate.stop();
    // its streams have ended, and whoever watched until then has seen why
    await viewer.over;
    expect(viewer.all<State>('state').some(({ stopping }) => stopping)).toBe(true);
  });

  it('is the same in a second stream, which begins with the hour that the first one saw', async () => {
    const { admin } = await start({ store: mkdtempSync(join(tmpdir(), 'headgate-live-')) });
    const first = await Viewer.open(admin);
    await vi.waitFor(() => expect(first.all('bucket')).toHaveLength(2), WAIT_MS);
    const second = await Viewer.open(admin);
    await vi.waitFor(() => expect(second.events.length).toBeGreaterThan(1), WAIT_MS);
    const [timeline] = second.all<Timeline>('timeline');
    const told = first.all<Bucket>('bucket').map(({ atMs }) => atMs);
    expect(timeline?.atMs.slice(-told.length)).toEqual(told);
    expect(timeline?.rssBytes.at(-1)).toBeGreaterThan(1e7);
    const metrics = parse(await textOf(`${admin}/metrics`));
    const stores = metrics.filter(({ name }) => name === 'headgate_store_failing');
    expect(stores.map(({ labels, value }) => [labels['store'], value])).toEqual([
      ['flags', 0],
      ['decisions', 0],
    ]);
    expect(sumIn(metrics, 'ready')).toBe(1);
  });

  it('tells what the log warned of: each thing once, as often as it was, and without keys', async () => {
    const missing = join(mkdtempSync(join(tmpdir(), 'headgate-live-')), `${ENV_ID}.json`);
    const gone = { type: 'file', name: 'gone', sdkKey: `${SDK_KEY}-of-gone`, paths: [missing] };
    const { headgate, admin } = await start({ limits: { slots: 1, queue: 0 }, sources: [gone] });
    const clients = Array.from({ length: READERS }, () => sdk(headgate.port, false));
    await Promise.all(clients.map(({ begun }) => begun));
    const state = await vi.waitFor(async () => {
      const now = JSON.parse(await textOf(`${admin}/api/state`)) as State;
      // the log sums for 10 s
      const refused = now.trouble.find(({ text }) => text === 'refused: full (production)');
      expect(refused).toMatchObject({ level: 'warn', count: now.budget.refused.full });
      return now;
    }, WAIT_MS);
    expect(state.budget.refused.full).toBeGreaterThan(READERS / 2);
    const [error, ...others] = state.trouble.filter(({ level }) => level === 'error');
    expect([error?.text, others]).toEqual([expect.stringContaining('/...9011.json'), []]);
    expect(Math.abs(Date.now() - (error?.atMs ?? 0))).toBeLessThan(TEST_MS_MAX);
    // as operators see it in the log, which names the file as it is
    const line = headgate.logs.find(({ level, msg }) => level === 50 && String(msg).includes(missing));
    expect(line).toBeDefined();
    const text = JSON.stringify(state);
    expect(SECRETS.filter((secret) => text.includes(secret))).toEqual([]);
    expect(sumIn(parse(await textOf(`${admin}/metrics`)), 'ready')).toBe(0);
  });
});
