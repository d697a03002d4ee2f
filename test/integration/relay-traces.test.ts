import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { until } from '../support/conditions.ts';
import { type FakeEnvironment, FakeUpstream } from '../support/fake-upstream.ts';
import { ROOT } from '../support/files.ts';
import { redisAvailable, RedisServer } from '../support/redis.ts';
import {
  compareStream,
  type Differences,
  readRelayTraces,
  type RelayTrace,
  type TracedItem,
} from '../support/relay-traces.ts';
import {
  differencesOfRequests,
  ENV_ID,
  KEY,
  LISTED_ENVIRONMENT,
  NEXT_KEY,
  putArchive,
  RELAYED_ENVIRONMENT,
  seriesOf,
  TracedRelay,
} from '../support/relay-traces-setups.ts';
import type { SseReader } from '../support/sse-reader.ts';

vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

/*
 * Every request of which it was recorded what the vendor's relay 8.10.1 answered, asked of a Headgate that is set up by
 * the same environment variables: the same status, headers, bodies and events. `flags-contract.test.ts` looks closer at
 * what server SDKs ask.
 */

const { traces, items, upstream: sent, redis: kept, metrics } = readRelayTraces();

/** What is found where, and how it reads here. */
type Found = Readonly<Record<string, RegExp>>;

interface Difference {
  /** The first column of its row in docs/differences.md. */
  readonly title: string;
  /** What of a trace it changes; undefined: nothing. */
  readonly in: (trace: RelayTrace) => Found | undefined;
}

function named(...names: readonly string[]): (trace: RelayTrace) => boolean {
  for (const name of names) traceOf(name);
  return ({ name }) => names.includes(name);
}

function where(holds: (trace: RelayTrace) => boolean, found: Found): Difference['in'] {
  return (trace) => (holds(trace) ? found : undefined);
}

const isPoll = named(
  'sdk-flags',
  'sdk-flags-accept-gzip',
  'sdk-flags-http10',
  'online-sdk-flags-after-delete',
  'ttl-sdk-flags',
);
const isUnchanged = named('sdk-flags-304', 'ttl-sdk-flags-304');
const isItem = ({ response }: RelayTrace): boolean => response.headers['etag'] === 'relay-1';
const isValues = ({ request, response }: RelayTrace): boolean =>
  request.path.includes('/evalx/') && response.status === 200 && request.method !== 'OPTIONS';
const isStatus = ({ request, response }: RelayTrace): boolean =>
  request.path === '/status' && request.method === 'GET' && response.status === 200;
const isUpdate = named('fdv1-all-stream-archive-update', 'fdv1-flags-stream-archive-update');

/** The positions that events of data carry here. */
function idsOf({ name, response: { events = [] } }: RelayTrace): Found {
  const come = name === 'autoconfig-oldkey-stream' ? events.slice(0, 1) : events;
  const ids = come.flatMap(({ event }, at) =>
    event === 'ping' ? [] : [[`event ${at + 1} id`, /^[\w-]{43}\.\d+\.(all|flags)$/]],
  );
  return Object.fromEntries(ids) as Found;
}

/**
 * Where Headgate means to answer otherwise: why stands in docs/differences.md. A trace must differ in exactly what is
 * said here of it, so that one that no longer does is noticed.
 */
const DIFFERENCES: readonly Difference[] = [
  {
    title: 'FDv2',
    in: where(named('fdv2-sdk-poll-404', 'fdv2-sdk-poll-eval-404', 'fdv2-sdk-stream-404'), { status: /^200$/ }),
  },
  { title: '`/sdk/latest-all`', in: where(named('sdk-latest-all-404'), { status: /^200$/ }) },
  { title: '`/status/{environment}`', in: where(named('status-env-404'), { status: /^200$/ }) },
  {
    title: 'Streams before there are data',
    in: where(named('notready-env-before-init-timeout-all'), { status: /^200$/ }),
  },
  { title: '`/sdk/flags` before there are data', in: where(named('notready-env-flags'), { status: /^503$/ }) },
  { title: 'Positions in streams', in: idsOf },
  { title: 'A new archive', in: where(isUpdate, { 'event 2': /^patch$/ }) },
  {
    // the service of these traces forgot that a flag was deleted
    title: 'A service that goes back',
    in: where(named('autoconfig-oldkey-stream'), { 'event 2': /^none$/ }),
  },
  {
    title: 'A service that goes back',
    in: where(named('autoconfig-status-expiring'), {
      [`json /environments/${ENV_ID}/connectionStatus/lastError`]: /^\{"kind":"INVALID_DATA","time":\d+\}$/,
    }),
  },
  {
    title: 'A service that goes back',
    in: where(named('autoconfig-env-deleted-stream'), { 'event 1 data /data/flags/flag-2': /^none$/ }),
  },
  { title: '`ETag` of all flags', in: where(isPoll, { 'header etag': /^relay-[\w-]{43}$/ }) },
  { title: '`ETag` in a 304', in: where(isUnchanged, { 'header etag': /^relay-[\w-]{43}$/ }) },
  { title: '`ETag` of one item', in: where(isItem, { 'header etag': /^relay-1-[0-9a-z]+$/ }) },
  { title: '`ETag` in a 304', in: where(named('sdk-flag-key-304'), { 'header etag': /^relay-1-[0-9a-z]+$/ }) },
  {
    title: '`ETag` of values',
    in: where(isValues, { 'header etag': /^relay-[\w-]{43}\.\d+\.eval-[0-9a-f]{40}-\d+$/ }),
  },
  {
    title: '`Cache-Control` of polls',
    in: where((trace) => isPoll(trace) || isUnchanged(trace), {
      'header cache-control': /^max-age=(0|300), stale-if-error=86400$/,
    }),
  },
  {
    title: 'What pages may read',
    in: where(({ response }) => response.headers['access-control-expose-headers'] === 'Date', {
      'header access-control-expose-headers': /^Date,ETag,Retry-After,X-LD-FD-Fallback,X-LD-FD-Fallback-TTL$/,
    }),
  },
  {
    title: 'HTTP/1.0',
    in: where(named('sdk-flags-http10'), { version: /^HTTP\/1\.1$/ }),
  },
  {
    title: "Methods of browsers' diagnostics",
    in: where(named('events-js-diagnostic'), { 'header access-control-allow-methods': /^POST,OPTIONS$/ }),
  },
  {
    title: '`/status`',
    in: where(isStatus, {
      'header content-length': /^\d+$/,
      'json /version': /^"\d+\.\d+\.\d+/,
      'json /clientVersion': /^"headgate-\d+\.\d+\.\d+/,
      'json /headgate': /^\{"streams":\d+,"admission":\{.*\},"deliveries":\{.*\}\}$/,
    }),
  },
];

/** Differences that are shown by a test of their own. */
const apart = new Set<string>();
const replayed = new Set<string>();

function shows(title: string): string {
  apart.add(title);
  return `(meant: ${title})`;
}

function item(name: string): TracedItem {
  const found = items[name];
  if (found === undefined) throw new Error(`Cannot find an item of the traces, got ${name}`);
  return found;
}

function traceOf(name: string): RelayTrace {
  const found = traces.find((trace) => trace.name === name);
  if (found === undefined) throw new Error(`Cannot find a trace, got ${name}`);
  return found;
}

/** The traces of a set-up that need nothing to happen between them. */
function tracesOf(setup: string, besides: readonly string[] = []): [string, RelayTrace][] {
  return traces
    .filter((trace) => trace.setup === setup && !besides.includes(trace.name))
    .map((trace) => [trace.name, trace]);
}

/** What is meant to be different from a trace, which counts as replayed. */
function meantIn(trace: RelayTrace): Record<string, string> {
  replayed.add(trace.name);
  const meant = Object.assign({}, ...DIFFERENCES.map((difference) => difference.in(trace))) as Found;
  const matchers = Object.entries(meant).map(([what, reads]): [string, string] => [
    what,
    expect.stringMatching(reads) as string,
  ]);
  return Object.fromEntries(matchers);
}

/** A series of a metric, its labels in order. */
function inWords([name, labels]: readonly [string, Readonly<Record<string, string>>]): string {
  return JSON.stringify([name, Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1))]);
}

/** Waits until what was decided before on a stream has come: heartbeats come after it. */
async function settled(reader: SseReader): Promise<void> {
  const { comments } = reader;
  await reader.until('two heartbeats', () => reader.comments >= comments + 2);
}

/** What `/status` says of the only environment, and what is said where it alone is asked for, by each of these names. */
async function statusesOf(traced: TracedRelay, ...others: readonly string[]): Promise<{ all: unknown; each: unknown }> {
  const status = (await traced.get('/status')).json() as { environments: Record<string, object> };
  const [[name, environment] = ['', {}]] = Object.entries(status.environments);
  const names = [name, ...others];
  const each: Record<string, unknown> = {};
  for (const asked of [...names, 'nobody']) {
    const one = await traced.get(`/status/${asked}`);
    each[asked] = one.status === 200 ? one.json() : one.status;
  }
  return { all: { ...Object.fromEntries(names.map((one) => [one, environment])), nobody: 404 }, each };
}

const DATA = {
  flags: ['flag-0@1', 'flag-1@1', 'flag-2@1'].map(item),
  segments: ['segment-0@1', 'segment-1@1'].map(item),
};

describe('offline, from an archive', () => {
  const UPDATED = ['fdv1-all-stream-archive-update', 'fdv1-flags-stream-archive-update', 'ping-js-archive-update'];
  let traced: TracedRelay;

  beforeAll(async () => {
    traced = await TracedRelay.archived({ dataId: 'one', ...DATA }, { USE_PROMETHEUS: '1' });
  });

  afterAll(async () => await traced.stop());

  it.each(tracesOf('archive', UPDATED))('%s', async (_name, trace) => {
    expect(await traced.compare(trace)).toEqual(meantIn(trace));
  });

  it('/status of one environment', async () => {
    const { all, each } = await statusesOf(traced, ENV_ID, 'default/production');
    expect(each).toEqual(all);
  });

  it(`metrics ${shows('Metrics with a `relayId`')} ${shows('`userAgent` in metrics')}`, async () => {
    const ours = seriesOf(await (await fetch(`http://127.0.0.1:${traced.relay.adminPort}/metrics`)).text());
    const told = new Set(ours.series.map(inWords));
    const isInternal = ([, labels]: (typeof metrics.series)[number]): boolean => labels['relayId'] !== undefined;
    const theirs = metrics.series.filter((series) => !isInternal(series));
    expect([theirs.length, metrics.series.length]).toEqual([30, 37]);
    const missing = theirs.map(([name, labels]) => inWords([name, { ...labels, userAgent: 'curl' }]));
    expect(missing.filter((series) => !told.has(series))).toEqual([]);
    for (const [name] of theirs) expect(ours.types[name]).toBe(metrics.types[name]);
    expect(ours.series.filter(isInternal)).toEqual([]);
  });

  it(`${UPDATED.join(', ')}`, async () => {
    const readers = await Promise.all(UPDATED.map(async (name) => await traced.open(traceOf(name))));
    for (const reader of readers) await reader.until('the first event', () => reader.events.length > 0);
    const changed = item('flag-1@2');
    await putArchive(traced.folder, {
      dataId: 'two',
      ...DATA,
      flags: [item('flag-0@1'), changed, item('flag-2@1')],
    });
    const [all, legacy] = readers;
    expect((await all?.event(2))?.json).toEqual({ path: '/flags/flag-1', data: changed });
    expect((await legacy?.event(2))?.json).toEqual({ path: '/flag-1', data: changed });
    for (const [at, reader] of readers.entries()) {
      await settled(reader);
      const trace = traceOf(UPDATED[at] ?? '');
      expect(compareStream(trace, reader)).toEqual(meantIn(trace));
    }
  });

  it(`members that the vendor's relay does not know ${shows('Members of flags and segments that are not known')}`, async () => {
    const strange = { ...item('flag-0@1'), version: 2, fromTomorrow: { a: 1 } };
    await putArchive(traced.folder, { dataId: 'three', ...DATA, flags: [strange] });
    const stream = await traced.open(traceOf('fdv1-all-stream'));
    await stream.until('the change', () => stream.events.some(({ data }) => data.includes('fromTomorrow')));
    expect((await traced.get('/sdk/flags', { authorization: KEY })).json()).toEqual({ 'flag-0': strange });
  });
});

describe('an archive whose environment is', () => {
  it.each([
    ['in secure mode', 'secure', { secureMode: true }],
    ['cached for five minutes', 'ttl', { defaultTtl: 5 }],
  ])('%s', async (_what, setup, env) => {
    const traced = await TracedRelay.archived({ dataId: 'one', ...DATA, env });
    for (const [, trace] of tracesOf(setup)) expect(await traced.compare(trace)).toEqual(meantIn(trace));
    await traced.stop();
  });
});

it('max-connection-time-1s', async () => {
  const traced = await TracedRelay.archived({ dataId: 'one', ...DATA }, { MAX_CLIENT_CONNECTION_TIME: '1s' });
  const beganMs = performance.now();
  const reader = await traced.open(traceOf('max-connection-time-1s'));
  await reader.reply.ended();
  expect(performance.now() - beganMs).toBeGreaterThan(900);
  expect(compareStream(traceOf('max-connection-time-1s'), reader)).toEqual(meantIn(traceOf('max-connection-time-1s')));
  await traced.stop();
});

it(`sdk-flags-accept-gzip ${shows('Compression')}`, async () => {
  const traced = await TracedRelay.archived({ dataId: 'one', ...DATA }, { HTTP_ENABLE_COMPRESSION: 'true' });
  const poll = await (await traced.ask(traceOf('sdk-flags-accept-gzip'))).whole();
  expect(poll.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'Accept-Encoding' });
  expect(JSON.parse(gunzipSync(poll.buffer).toString())).toEqual(traceOf('sdk-flags-accept-gzip').response.json);
  await traced.stop();
});

describe('online, with events', () => {
  const CHANGED = ['online-all-patch-delete', 'online-flags-patch-delete', 'online-mping-patch-delete'];
  let upstream: FakeUpstream;
  let environment: FakeEnvironment;
  let traced: TracedRelay;

  beforeAll(async () => {
    upstream = await FakeUpstream.start({ protocols: 'fdv1' });
    environment = upstream.environment(KEY, DATA);
    upstream.refuse({ status: 202, path: `/sdk/goals/${ENV_ID}` });
    traced = await TracedRelay.start({
      ...RELAYED_ENVIRONMENT,
      STREAM_URI: upstream.url,
      BASE_URI: upstream.url,
      USE_EVENTS: '1',
      EVENTS_HOST: upstream.url,
      EVENTS_FLUSH_INTERVAL: '100ms',
      LD_ALLOWED_ORIGIN_test: 'https://ok.example.com',
      LD_ALLOWED_HEADER_test: 'X-Extra',
    });
    await traced.ready();
  });

  afterAll(async () => {
    await traced.stop();
    await upstream.stop();
  });

  it(`${CHANGED.join(', ')}`, async () => {
    const readers = await Promise.all(CHANGED.map(async (name) => await traced.open(traceOf(name))));
    const pings = readers[2] as SseReader;
    for (const reader of readers) await reader.until('the first event', () => reader.events.length > 0);
    const changes = [
      () => environment.patch('flags', item('flag-1@2')),
      () => environment.remove('flags', 'flag-2', 7),
      () => environment.patch('segments', item('segment-0@9')),
    ];
    for (const [at, change] of changes.entries()) {
      change();
      // pings that would follow one another at once are one
      await pings.until(`ping ${at + 2}`, () => pings.events.length === at + 2);
    }
    for (const [at, reader] of readers.entries()) {
      await settled(reader);
      const trace = traceOf(CHANGED[at] ?? '');
      expect(compareStream(trace, reader)).toEqual(meantIn(trace));
    }
  });

  it.each(tracesOf('online', CHANGED))('%s', async (_name, trace) => {
    expect(await traced.compare(trace)).toEqual(meantIn(trace));
  });

  it('/status of one environment', async () => {
    const { all, each } = await statusesOf(traced, ENV_ID);
    expect(each).toEqual(all);
  });

  it(`what the services are asked ${shows('Requests to the service')} ${shows('Diagnostics of the relay itself')}`, async () => {
    await until(
      'three batches',
      () => upstream.requests.filter(({ path }) => path.endsWith('bulk') || path.includes('/bulk/')).length >= 3,
    );
    expect(differencesOfRequests(sent.online, upstream.requests)).toEqual({
      'GET /all': { 'user-agent': expect.stringMatching(/^Headgate\//) as string },
      [`GET /sdk/goals/${ENV_ID}`]: { 'x-forwarded-for': 'none' },
      'POST /bulk 4': { 'user-agent': expect.stringMatching(/^Headgate\//) as string },
      'POST /bulk 4 application-id/x': { 'user-agent': expect.stringMatching(/^Headgate\//) as string },
      [`POST /events/bulk/${ENV_ID} 3`]: { 'user-agent': expect.stringMatching(/^Headgate\//) as string },
      // FDv2 first: this service answered 404
      more: ['GET /sdk/stream'],
    });
  });
});

describe.runIf(redisAvailable())('with auto-configuration and Redis', () => {
  let upstream: FakeUpstream;
  let environment: FakeEnvironment;
  let redis: RedisServer;
  let traced: TracedRelay;

  const replay = async (name: string): Promise<Differences> => await traced.compare(traceOf(name));

  beforeAll(async () => {
    redis = await RedisServer.start();
    upstream = await FakeUpstream.start({
      protocols: 'fdv1',
      autoConfigKey: 'rel-12345678-1234-4234-8234-123456789abc',
    });
    environment = upstream.environment(KEY, DATA);
    upstream.setAutoConfig({ environments: { [ENV_ID]: LISTED_ENVIRONMENT } });
    traced = await TracedRelay.start({
      STREAM_URI: upstream.url,
      BASE_URI: upstream.url,
      EVENTS_HOST: upstream.url,
      AUTO_CONFIG_KEY: upstream.autoConfigKey,
      USE_REDIS: '1',
      REDIS_URL: redis.url,
      ENV_DATASTORE_PREFIX: 'ld-$CID',
      EXPIRED_CREDENTIAL_CLEANUP_INTERVAL: '100ms',
    });
    traced.aliases.set(redis.url, 'redis://127.0.0.1:16379');
    await traced.ready();
  });

  afterAll(async () => {
    await traced.stop();
    await upstream.stop();
    await redis.stop();
  });

  it('autoconfig-status', async () => {
    expect(await replay('autoconfig-status')).toEqual(meantIn(traceOf('autoconfig-status')));
    const { all, each } = await statusesOf(traced, ENV_ID, 'default/production');
    expect(each).toEqual(all);
  });

  it(`what is in Redis, before and after a flag is deleted ${shows('Keys in Redis')}`, async () => {
    const { prefix } = kept;
    await redis.with(async (client) => {
      const names = (await client.keys('*')).map((key) => key.replace(`${prefix}:`, '')).toSorted();
      expect(names.filter((name) => !name.startsWith('headgate:'))).toEqual(['$inited', 'features', 'segments']);
      expect(names.some((name) => name.startsWith('headgate:'))).toBe(true);
      for (const kind of ['features', 'segments']) {
        expect((await client.hkeys(`${prefix}:${kind}`)).toSorted()).toEqual(kept[kind]);
      }
      expect(JSON.parse((await client.hget(`${prefix}:features`, 'flag-0')) ?? '')).toEqual(kept['flag-0']);
      expect(await client.get(`${prefix}:$inited`)).toBe(kept['$inited']);
      // only on the stream that is open, as when it was recorded: whoever connects again is told of it as before
      upstream.raw('event: delete\ndata: {"path":"/flags/flag-2","version":7}\n\n', 'fdv1');
      const reader = await traced.open(traceOf('fdv1-flags-stream'));
      await reader.until('the deletion', () =>
        reader.events.some(({ event, data }) => event === 'delete' || !data.includes('flag-2')),
      );
      expect(JSON.parse((await client.hget(`${prefix}:features`, 'flag-2')) ?? '')).toEqual(kept['flag-2 deleted']);
    });
  });

  it('a key that expires', async () => {
    const old = await traced.open(traceOf('autoconfig-oldkey-stream'));
    await old.event(1);
    environment.rotate(NEXT_KEY, true);
    upstream.tellAutoConfig('patch', {
      path: `/environments/${ENV_ID}`,
      data: {
        ...LISTED_ENVIRONMENT,
        sdkKey: { value: NEXT_KEY, expiring: { value: KEY, timestamp: Date.now() + 1500 } },
        version: 2,
      },
    });
    await until('a connection with the new key', () => upstream.requests.some(({ key }) => key === NEXT_KEY));
    await traced.until('what the service now says is refused', '/status', (text) => text.includes('INVALID_DATA'));
    expect(await replay('autoconfig-newkey')).toEqual(meantIn(traceOf('autoconfig-newkey')));
    expect(await replay('autoconfig-oldkey-before-expiry')).toEqual(
      meantIn(traceOf('autoconfig-oldkey-before-expiry')),
    );
    expect(await replay('autoconfig-status-expiring')).toEqual(meantIn(traceOf('autoconfig-status-expiring')));
    await old.reply.ended();
    expect(compareStream(traceOf('autoconfig-oldkey-stream'), old)).toEqual(
      meantIn(traceOf('autoconfig-oldkey-stream')),
    );
    expect(await replay('autoconfig-oldkey-after-expiry')).toEqual(meantIn(traceOf('autoconfig-oldkey-after-expiry')));
  });

  it('an environment that is removed', async () => {
    const last = await traced.open(traceOf('autoconfig-env-deleted-stream'));
    await last.event(1);
    upstream.tellAutoConfig('delete', { path: `/environments/${ENV_ID}`, version: 3 });
    await last.reply.ended();
    expect(compareStream(traceOf('autoconfig-env-deleted-stream'), last)).toEqual(
      meantIn(traceOf('autoconfig-env-deleted-stream')),
    );
    expect(await replay('autoconfig-env-deleted')).toEqual(meantIn(traceOf('autoconfig-env-deleted')));
    expect(await replay('autoconfig-status-noenv')).toEqual(meantIn(traceOf('autoconfig-status-noenv')));
    expect((await traced.get(`/status/${ENV_ID}`)).status).toBe(404);
  });

  it(`what the services are asked ${shows('Requests to the service')} ${shows('Diagnostics of the relay itself')}`, () => {
    expect(differencesOfRequests(sent.listed, upstream.requests)).toEqual({
      'GET /relay_auto_config?rpacProtocolVersion=2': { 'user-agent': expect.stringMatching(/^Headgate\//) as string },
      'GET /all': { 'user-agent': expect.stringMatching(/^Headgate\//) as string },
      'GET /all #2': { 'user-agent': expect.stringMatching(/^Headgate\//) as string },
      // what goes back is asked for again, in case that it only lags
      more: ['GET /sdk/stream', 'GET /all'],
    });
  });
});

it(`a key that changes while the data do not ${shows('A new SDK key')}`, async () => {
  const upstream = await FakeUpstream.start({ protocols: 'fdv1' });
  const environment = upstream.environment(KEY, DATA);
  upstream.setAutoConfig({ environments: { [ENV_ID]: LISTED_ENVIRONMENT } });
  const traced = await TracedRelay.start({
    STREAM_URI: upstream.url,
    BASE_URI: upstream.url,
    AUTO_CONFIG_KEY: upstream.autoConfigKey,
  });
  await traced.ready();
  const stream = await traced.open(traceOf('autoconfig-oldkey-stream'));
  await stream.event(1);
  environment.rotate(NEXT_KEY, true);
  const sdkKey = { value: NEXT_KEY, expiring: { value: KEY, timestamp: Date.now() + 60_000 } };
  upstream.tellAutoConfig('patch', {
    path: `/environments/${ENV_ID}`,
    data: { ...LISTED_ENVIRONMENT, sdkKey, version: 2 },
  });
  // the connection of the old key is let go once everything has come over that of the new one
  await until(
    'the new connection alone',
    () =>
      upstream
        .seen('/all', true)
        .map(({ key }) => key)
        .join() === NEXT_KEY,
  );
  await settled(stream);
  expect(stream.names).toEqual(['put']);
  await traced.stop();
  await upstream.stop();
});

describe('not ready', () => {
  it('without a list of environments', async () => {
    const upstream = await FakeUpstream.start();
    upstream.fault({ kind: 'stall' });
    const traced = await TracedRelay.start({ STREAM_URI: upstream.url, AUTO_CONFIG_KEY: upstream.autoConfigKey });
    for (const [, trace] of tracesOf('unlisted')) expect(await traced.compare(trace)).toEqual(meantIn(trace));
    expect((await traced.get(`/status/${ENV_ID}`)).status).toBe(503);
    await traced.stop();
    await upstream.stop();
  });

  it('without data, before and after the time to start is over', async () => {
    const BEFORE = 'notready-env-before-init-timeout-all';
    const upstream = await FakeUpstream.start();
    await upstream.stop();
    const { LD_MOBILE_KEY_test: _none, ...variables } = RELAYED_ENVIRONMENT;
    const traced = await TracedRelay.start({
      ...variables,
      STREAM_URI: upstream.url,
      BASE_URI: upstream.url,
      INIT_TIMEOUT: '1s',
      IGNORE_CONNECTION_ERRORS: '1',
    });
    const waiting = await traced.open(traceOf(BEFORE));
    expect(compareStream(traceOf(BEFORE), waiting)).toEqual(meantIn(traceOf(BEFORE)));
    await settled(waiting);
    expect(waiting.events).toEqual([]);
    await traced.relay.loaded;
    for (const [, trace] of tracesOf('unready', [BEFORE])) expect(await traced.compare(trace)).toEqual(meantIn(trace));
    const { all, each } = await statusesOf(traced, ENV_ID);
    expect(each).toEqual(all);
    await traced.stop();
  });
});

describe('the list of what is different', () => {
  const text = readFileSync(`${ROOT}docs/differences.md`, 'utf8');
  const rows = [...text.matchAll(/^\| (?!where )(.+?) \|/gm)].map(([, title]) => title);
  const titles = new Set([...DIFFERENCES.map(({ title }) => title), ...apart]);

  it('has every trace', () => {
    const missing = traces.filter(({ name }) => !replayed.has(name)).map(({ name }) => name);
    expect(redisAvailable() ? missing : missing.filter((name) => !name.startsWith('autoconfig-'))).toEqual([]);
  });

  it.each(DIFFERENCES)('$title is in at least one trace', (difference) => {
    expect(traces.filter((trace) => difference.in(trace) !== undefined)).not.toEqual([]);
  });

  it('is the one that operators read', () => {
    expect(new Set(rows)).toEqual(titles);
  });
});
