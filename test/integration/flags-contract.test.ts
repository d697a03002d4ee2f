import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { defaultConfig } from '../../src/config/index.ts';
import type { Item } from '../../src/dataset/index.ts';
import { FakeClock } from '../../src/kernel/index.ts';
import { openLog } from '../../src/observability/index.ts';
import { Relay, VERSION } from '../../src/relay.ts';
import { writeArchive } from '../support/archive.ts';
import { until } from '../support/conditions.ts';
import { type Connection, connect, type Reply } from '../support/connections.ts';
import { type Flags, gone, infoOf, put, startFlags } from '../support/flags.ts';
import { SseReader } from '../support/sse-reader.ts';

vi.setConfig({ testTimeout: 30_000 });

/*
 * What the vendor's relay 8.10.1 was seen to answer, asked of Headgate: the same status, the headers that clients look
 * at, and bodies that say the same (the order of a JSON object's members is not part of what they say). FDv2 is compared
 * with the shapes of its version 9 line.
 */

/** Where Headgate means to answer otherwise. Each is named by the test that shows it. */
const DIFFERENCES = {
  'latest-all exists': 'FDv1 polling SDKs (and the FDv2 fallback) ask for it; the vendor answers 404',
  'FDv2 exists': 'SDKs in FDv2 mode give up for good at a 404',
  'ETag from the digest': 'a tag that is known before any work, the same on every replica, and moves with every text',
  'ETag of an item has its text':
    'versions of files start over with the process: a version alone may stand for two texts',
  'ETag on 304': 'RFC 9110, section 15.4.5, and the C++ SDK compares it',
  'Cache-Control on polls': 'the Go SDK forgets its tag at any refusal unless a stale copy is allowed',
  'gzip on polls': 'a poll is compressed once for everybody who accepts it; Vary says so to caches between',
  'no data is 503':
    'the vendor says 200 and {} once its start has timed out: a client would take no flags for the truth',
  'no data never refuses a stream': 'the vendor refuses streams until its start times out; waiting costs us nothing',
  'archive update as patches': 'a whole put to every stream at once is what a relay is to prevent',
  'id on events': 'SDKs send it back as Last-Event-ID, and get the changes since instead of everything',
  'status shows the budget': 'who operates a limit must see it at work; members that a reader does not know do no harm',
  'status of one environment': 'version 9 has it: a probe may ask for one without reading all',
} as const;

const shown = new Set<string>();

function differs(name: keyof typeof DIFFERENCES): string {
  shown.add(name);
  return `(meant: ${name}) ${DIFFERENCES[name]}`;
}

const FLAG_0 = {
  key: 'flag-0',
  on: true,
  prerequisites: [],
  targets: [{ variation: 0, values: ['user-6994', 'user-54'] }],
  contextTargets: [],
  rules: [
    {
      variation: 1,
      id: 'b65d9c09-r0',
      clauses: [{ contextKind: 'user', attribute: 'country', op: 'in', values: ['au', 'us'], negate: false }],
      trackEvents: false,
    },
    {
      rollout: {
        contextKind: 'user',
        variations: [
          { variation: 0, weight: 25000 },
          { variation: 1, weight: 75000 },
        ],
        bucketBy: 'key',
      },
      id: '1e8c8754-r1',
      clauses: [{ attribute: '', op: 'segmentMatch', values: ['segment-0'], negate: false }],
      trackEvents: false,
    },
  ],
  fallthrough: {
    rollout: {
      contextKind: 'user',
      variations: [
        { variation: 0, weight: 50000 },
        { variation: 1, weight: 50000 },
      ],
      bucketBy: 'key',
    },
  },
  offVariation: 1,
  variations: [true, false],
  clientSideAvailability: { usingMobileKey: true, usingEnvironmentId: true },
  clientSide: true,
  salt: 'a70e50200abf105b',
  trackEvents: false,
  trackEventsFallthrough: false,
  debugEventsUntilDate: null,
  version: 1,
  deleted: false,
};
const FLAG_1 = {
  key: 'flag-1',
  on: true,
  prerequisites: [],
  targets: [],
  contextTargets: [],
  rules: [
    {
      variation: 1,
      id: 'ed4201b4-r0',
      clauses: [{ contextKind: 'user', attribute: 'country', op: 'in', values: ['pl', 'es'], negate: false }],
      trackEvents: false,
    },
  ],
  fallthrough: { variation: 0 },
  offVariation: 1,
  variations: [true, false],
  clientSideAvailability: { usingMobileKey: false, usingEnvironmentId: false },
  clientSide: false,
  salt: '5e0a571db8c2211c',
  trackEvents: false,
  trackEventsFallthrough: false,
  debugEventsUntilDate: null,
  version: 1,
  deleted: false,
};
const FLAG_2 = {
  key: 'flag-2',
  on: true,
  prerequisites: [],
  targets: [],
  contextTargets: [],
  rules: [],
  fallthrough: { variation: 0 },
  offVariation: 2,
  variations: ['control', 'treatment-a', 'treatment-b'],
  clientSideAvailability: { usingMobileKey: true, usingEnvironmentId: false },
  clientSide: false,
  salt: 'e48289e7ff507e04',
  trackEvents: false,
  trackEventsFallthrough: false,
  debugEventsUntilDate: null,
  version: 1,
  deleted: false,
};
const SEGMENT_0 = {
  key: 'segment-0',
  included: ['user-2420', 'user-9161', 'user-1409', 'user-9597', 'user-8833'],
  excluded: ['user-3643'],
  includedContexts: [],
  excludedContexts: [],
  salt: 'd018b74a',
  rules: [
    {
      id: '626b0b10',
      clauses: [{ contextKind: 'user', attribute: 'email', op: 'endsWith', values: ['@example.com'], negate: false }],
    },
  ],
  version: 1,
  generation: null,
  deleted: false,
};
const SEGMENT_1 = {
  key: 'segment-1',
  included: ['user-4394', 'user-1465', 'user-9919', 'user-2774', 'user-5493'],
  excluded: ['user-2866'],
  includedContexts: [],
  excludedContexts: [],
  salt: 'a9fc9f18',
  rules: [
    {
      id: '77591eda',
      clauses: [{ contextKind: 'user', attribute: 'email', op: 'endsWith', values: ['@example.com'], negate: false }],
    },
  ],
  version: 1,
  generation: null,
  deleted: false,
};

const KEY = 'sdk-aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee';
const MOBILE_KEY = 'mob-11111111-2222-4333-8444-555555555555';
const ENV_ID = '507f1f77bcf86cd799439011';
const ALL_FLAGS = { 'flag-0': FLAG_0, 'flag-1': FLAG_1, 'flag-2': FLAG_2 };
const ALL_SEGMENTS = { 'segment-0': SEGMENT_0, 'segment-1': SEGMENT_1 };
const ALL = { flags: ALL_FLAGS, segments: ALL_SEGMENTS };

const NOT_RECOGNIZED = 'Relay Proxy does not recognize the client credential (missing or invalid Authorization header)';
const NOT_FOUND = '404 page not found\n';

const STREAM_HEADERS = {
  'access-control-allow-origin': '*',
  'cache-control': 'no-cache, no-store, must-revalidate',
  connection: 'keep-alive',
  'content-type': 'text/event-stream; charset=utf-8',
  'x-accel-buffering': 'no',
  'transfer-encoding': 'chunked',
};

function item(kind: string, of: { key: string; version: number }): Item {
  return { kind, key: of.key, version: of.version, text: JSON.stringify(of) };
}

function items(): Item[] {
  return [
    ...Object.values(ALL_FLAGS).map((flag) => item('flags', flag)),
    ...Object.values(ALL_SEGMENTS).map((segment) => item('segments', segment)),
  ];
}

const INFO = infoOf('production', {
  id: ENV_ID,
  sdkKeys: [{ value: KEY }],
  mobileKey: MOBILE_KEY,
  envId: ENV_ID,
  envKey: 'production',
  envName: 'Production',
  projKey: 'default',
  projName: 'Default Project',
});

let flags: Flags | undefined;

afterEach(async () => {
  await flags?.stop();
  flags = undefined;
});

/** A front that holds what the vendor's relay held when it was traced. */
async function start(info = INFO, clock?: FakeClock): Promise<Flags> {
  flags = await startFlags(clock === undefined ? {} : { clock });
  await flags.front.load(info, items(), 'source');
  return flags;
}

async function ask(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Reply> {
  const running = flags ?? (await start());
  return running.connect().ask({ path, method, headers }).whole();
}

async function stream(path: string, headers: Record<string, string> = {}): Promise<SseReader> {
  const running = flags ?? (await start());
  const reply = await running
    .connect()
    .ask({ path, headers: { authorization: KEY, ...headers } })
    .begun();
  expect(reply.status).toBe(200);
  expect(reply.headers).toMatchObject(STREAM_HEADERS);
  return new SseReader(reply);
}

const AUTH: Record<string, string> = { authorization: KEY };
const BAD: Record<string, string> = { authorization: 'nope' };
const SPACED: Record<string, string> = { authorization: `Bearer ${KEY}` };

describe('FDv1 streams', () => {
  it.each([
    ['fdv1-all-stream', {}],
    ['fdv1-all-apikey-prefix', { authorization: `api_key ${KEY}` }],
    ['fdv1-all-accept-gzip', { 'accept-encoding': 'gzip' }],
  ])('%s', async (_trace, headers) => {
    const reader = await stream('/all', headers);
    expect(reader.reply.headers).not.toHaveProperty('content-encoding');
    expect(await reader.event(1)).toMatchObject({ event: 'put', json: { path: '/', data: ALL } });
  });

  it('fdv1-flags-stream', async () => {
    const reader = await stream('/flags');
    expect(await reader.event(1)).toMatchObject({ event: 'put', json: ALL_FLAGS });
  });

  it('heartbeats are two bytes, ":" and LF', async () => {
    const clock = new FakeClock();
    await start(INFO, clock);
    const reader = await stream('/all');
    await reader.event(1);
    await flags?.following(1, ENV_ID);
    const { body } = reader.reply;
    clock.advance(180_000);
    await reader.until('a heartbeat', () => reader.comments === 1);
    expect(reader.reply.body).toBe(`${body}:\n`);
  });

  it('max-connection-time-1s: the stream ends cleanly when its time is up', async () => {
    const clock = new FakeClock();
    flags = await startFlags({ clock, front: { connectionMsMax: 1000 } });
    await flags.front.load(INFO, items(), 'source');
    const reader = await stream('/all');
    await reader.event(1);
    await flags.following(1, ENV_ID);
    clock.advance(999);
    expect(reader.reply.over).toBeUndefined();
    clock.advance(1);
    expect((await reader.reply.ended()).over).toBe('whole');
  });

  it('online-all-patch-delete', async () => {
    const running = await start();
    const reader = await stream('/all');
    await reader.event(1);
    const flag1 = { ...FLAG_1, on: false, version: 2 };
    const segment0 = { ...SEGMENT_0, included: ['x'], excluded: [], salt: 's', rules: [], version: 9 };
    const data = running.environment(ENV_ID).data;
    await data.apply([put(item('flags', flag1))]);
    await data.apply([gone('flags', 'flag-2', 7)]);
    await data.apply([put(item('segments', segment0))]);
    expect(await reader.event(2)).toMatchObject({ event: 'patch', json: { path: '/flags/flag-1', data: flag1 } });
    expect(await reader.event(3)).toMatchObject({ event: 'delete', json: { path: '/flags/flag-2', version: 7 } });
    expect(await reader.event(4)).toMatchObject({
      event: 'patch',
      json: { path: '/segments/segment-0', data: segment0 },
    });
    // online-sdk-flag-deleted, online-sdk-flags-after-delete
    expect(await ask('/sdk/flags/flag-2', AUTH)).toMatchObject({ status: 404, bytes: 0 });
    expect((await ask('/sdk/flags', AUTH)).json()).toEqual({ 'flag-0': FLAG_0, 'flag-1': flag1 });
  });

  it('online-flags-patch-delete: segments are left out', async () => {
    const running = await start();
    const reader = await stream('/flags');
    await reader.event(1);
    const flag1 = { ...FLAG_1, on: false, version: 2 };
    const data = running.environment(ENV_ID).data;
    await data.apply([put(item('segments', { ...SEGMENT_0, version: 9 }))]);
    await data.apply([put(item('flags', flag1))]);
    await data.apply([gone('flags', 'flag-2', 7)]);
    expect(await reader.event(2)).toMatchObject({ event: 'patch', json: { path: '/flag-1', data: flag1 } });
    expect(await reader.event(3)).toMatchObject({ event: 'delete', json: { path: '/flag-2', version: 7 } });
  });

  it(`events carry their position ${differs('id on events')}`, async () => {
    const running = await start();
    const reader = await stream('/all');
    const { id } = await reader.event(1);
    expect(id).toMatch(/^[A-Za-z0-9_.-]+$/);
    await running.environment(ENV_ID).data.apply([gone('flags', 'flag-2', 7)]);
    expect((await reader.event(2)).id).not.toBe(id);
  });
});

describe('who is refused', () => {
  const TEXT = { 'content-type': 'text/plain; charset=utf-8' };
  const NO_FILTER = 'Relay Proxy recognizes the provided credential, but the payload filter was not found';
  const UNKNOWN_PATH = { ...TEXT, 'x-content-type-options': 'nosniff' };

  it.each([
    { trace: 'fdv1-all-noauth', path: '/all', asks: {}, status: 401, body: '', headers: {} },
    { trace: 'fdv1-all-badkey', path: '/all', asks: BAD, status: 401, body: NOT_RECOGNIZED, headers: TEXT },
    { trace: 'sdk-flags-badkey', path: '/sdk/flags', asks: BAD, status: 401, body: NOT_RECOGNIZED, headers: TEXT },
    { trace: 'a value with a space', path: '/all', asks: SPACED, status: 401, body: '', headers: {} },
    {
      trace: 'fdv1-all-filter-unknown',
      path: '/all?filter=no',
      asks: AUTH,
      status: 404,
      body: NO_FILTER,
      headers: TEXT,
    },
    { trace: 'version-404', path: '/version', asks: {}, status: 404, body: NOT_FOUND, headers: UNKNOWN_PATH },
    { trace: 'root', path: '/', asks: {}, status: 404, body: NOT_FOUND, headers: UNKNOWN_PATH },
    { trace: 'notfound', path: '/nothing/here', asks: {}, status: 404, body: NOT_FOUND, headers: UNKNOWN_PATH },
    { trace: 'sdk-flag-unknown', path: '/sdk/flags/nope', asks: AUTH, status: 404, body: '', headers: {} },
    { trace: 'sdk-segment-unknown', path: '/sdk/segments/nope', asks: AUTH, status: 404, body: '', headers: {} },
  ])('$trace', async ({ path, asks, status, body, headers }) => {
    const reply = await ask(path, asks);
    expect({ status: reply.status, body: reply.body }).toEqual({ status, body });
    expect(reply.headers).toMatchObject({ ...headers, 'content-length': String(body.length) });
    // two SDKs keep the tag of an error for the poll that follows
    expect(reply.headers).not.toHaveProperty('etag');
  });

  it.each([
    ['fdv1-all-options', 'OPTIONS', '/all'],
    ['fdv1-all-post', 'POST', '/all'],
    ['sdk-flags-head', 'HEAD', '/sdk/flags'],
    ['sdk-flags-post', 'POST', '/sdk/flags'],
  ])('%s', async (_trace, method, path) => {
    expect(await ask(path, AUTH, method)).toMatchObject({ status: 405, bytes: 0 });
  });
});

describe('polls of the first protocol', () => {
  it('sdk-flags', async () => {
    const reply = await ask('/sdk/flags', AUTH);
    expect(reply.headers).toMatchObject({ 'content-type': 'application/json', 'content-length': String(reply.bytes) });
    expect(reply.bytes).toBe(1957);
    expect(reply.json()).toEqual(ALL_FLAGS);
  });

  it('sdk-flags-http10', async () => {
    const running = await start();
    const reply = await running.connect().ask({ path: '/sdk/flags', headers: AUTH, version: '1.0' }).whole();
    // Node says the version that it speaks; what matters to an old client is that it can tell where the body ends
    expect(reply.headers['content-length']).toBe('1957');
    expect(reply.headers).not.toHaveProperty('transfer-encoding');
    expect(reply.json()).toEqual(ALL_FLAGS);
  });

  it(`sdk-flags-304 ${differs('ETag from the digest')}`, async () => {
    const running = await start();
    const { headers } = await ask('/sdk/flags', AUTH);
    expect(headers['etag']).toMatch(/^relay-[A-Za-z0-9_-]{43}$/);
    const again = await ask('/sdk/flags', { ...AUTH, 'if-none-match': headers['etag'] ?? '' });
    expect(again).toMatchObject({ status: 304, bytes: 0 });
    // a segment is not part of this poll
    const { data } = running.environment(ENV_ID);
    await data.apply([put(item('segments', { ...SEGMENT_0, version: 2 }))]);
    expect((await ask('/sdk/flags', { ...AUTH, 'if-none-match': headers['etag'] ?? '' })).status).toBe(304);
    await data.apply([put(item('flags', { ...FLAG_1, version: 2 }))]);
    const changed = await ask('/sdk/flags', { ...AUTH, 'if-none-match': headers['etag'] ?? '' });
    expect(changed.status).toBe(200);
    expect(changed.headers['etag']).not.toBe(headers['etag']);
  });

  it(`a full poll may be kept for errors ${differs('Cache-Control on polls')}`, async () => {
    expect((await ask('/sdk/flags', AUTH)).headers['cache-control']).toBe('max-age=0, stale-if-error=86400');
  });

  it(`sdk-flags-accept-gzip ${differs('gzip on polls')}`, async () => {
    const reply = await ask('/sdk/flags', { ...AUTH, 'accept-encoding': 'gzip' });
    expect(reply.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'Accept-Encoding' });
    expect(reply.headers['content-length']).toBe(String(reply.bytes));
  });

  it('sdk-flag-key, sdk-segment-key', async () => {
    const reply = await ask('/sdk/flags/flag-0', AUTH);
    expect(reply.headers).toMatchObject({
      'content-type': 'application/json',
      etag: expect.stringMatching(/^relay-1-/),
      'content-length': '961',
    });
    expect(reply.json()).toEqual(FLAG_0);
    const segment = await ask('/sdk/segments/segment-0', AUTH);
    expect(segment.headers).toMatchObject({ etag: expect.stringMatching(/^relay-1-/), 'content-length': '365' });
    expect(segment.json()).toEqual(SEGMENT_0);
  });

  it(`sdk-flag-key-304 ${differs('ETag of an item has its text')} ${differs('ETag on 304')}`, async () => {
    const tag = (await ask('/sdk/flags/flag-0', AUTH)).headers['etag'] ?? '';
    const same = await ask('/sdk/flags/flag-0', { ...AUTH, 'if-none-match': tag });
    expect(same).toMatchObject({ status: 304, bytes: 0 });
    expect(same.headers['etag']).toBe(tag);
  });

  it('ttl-sdk-flags, ttl-sdk-flags-304', async () => {
    await start({ ...INFO, ttlMs: 300_000 });
    const reply = await ask('/sdk/flags', AUTH);
    expect(reply.headers['vary']).toMatch(/^Authorization/);
    const lastsMs = Date.parse(reply.headers['expires'] ?? '') - Date.parse(reply.headers['date'] ?? '');
    expect(lastsMs / 1000).toBeCloseTo(300, -1);
    const again = await ask('/sdk/flags', { ...AUTH, 'if-none-match': reply.headers['etag'] ?? '' });
    expect(again.status).toBe(304);
    expect(again.headers['vary']).toBe(reply.headers['vary']);
    expect(again.headers).toHaveProperty('expires');
    expect((await ask('/sdk/flags/flag-0', AUTH)).headers).toMatchObject({ vary: 'Authorization' });
  });

  it(`sdk-latest-all ${differs('latest-all exists')}`, async () => {
    const reply = await ask('/sdk/latest-all', AUTH);
    expect(reply).toMatchObject({ status: 200 });
    expect(reply.json()).toEqual(ALL);
  });
});

describe('FDv2 shapes', () => {
  const ENVELOPES = [
    ...Object.values(ALL_FLAGS).map((object) => ({ version: 1, kind: 'flag', key: object.key, object })),
    ...Object.values(ALL_SEGMENTS).map((object) => ({ version: 1, kind: 'segment', key: object.key, object })),
  ];

  it(`sdk-poll without a basis ${differs('FDv2 exists')}`, async () => {
    const reply = await ask('/sdk/poll', AUTH);
    expect(reply.headers['content-type']).toBe('application/json');
    const { events } = reply.json() as { events: { event: string; data: Record<string, unknown> }[] };
    const transferred = events.at(-1);
    const { state, version } = transferred?.data ?? {};
    expect(events[0]).toEqual({
      event: 'server-intent',
      data: { payloads: [{ id: state, target: version, intentCode: 'xfer-full', reason: 'cant-catchup' }] },
    });
    expect(events.slice(1, -1)).toEqual(ENVELOPES.map((data) => ({ event: 'put-object', data })));
    expect(transferred).toEqual({ event: 'payload-transferred', data: { state, version } });
    expect(Number.isInteger(version)).toBe(true);
    const tag = reply.headers['etag'] ?? '';
    expect(await ask('/sdk/poll', { ...AUTH, 'if-none-match': tag })).toMatchObject({ status: 304, bytes: 0 });
    const current = await ask(`/sdk/poll?basis=${String(state)}`, AUTH);
    expect(current.json()).toEqual({
      events: [
        {
          event: 'server-intent',
          data: { payloads: [{ id: state, target: version, intentCode: 'none', reason: 'up-to-date' }] },
        },
      ],
    });
  });

  it('sdk-stream: a full copy, then changes without a server-intent', async () => {
    const running = await start();
    const reader = await stream('/sdk/stream');
    const { json: intent } = await reader.event(1);
    const transferred = await reader.event(7);
    const { state, version } = transferred.json as { state: string; version: number };
    expect(intent).toEqual({
      payloads: [{ id: state, target: version, intentCode: 'xfer-full', reason: 'cant-catchup' }],
    });
    expect(reader.names).toEqual(['server-intent', ...ENVELOPES.map(() => 'put-object'), 'payload-transferred']);
    expect(reader.events.slice(1, 6).map(({ data }) => JSON.parse(data) as unknown)).toEqual(ENVELOPES);
    await running.environment(ENV_ID).data.apply([gone('flags', 'flag-2', 7)]);
    expect(await reader.event(8)).toMatchObject({
      event: 'delete-object',
      json: { version: 7, kind: 'flag', key: 'flag-2' },
    });
    expect((await reader.event(9)).event).toBe('payload-transferred');
  });

  it('sdk-stream with the current basis: one server-intent', async () => {
    await start();
    const first = await stream('/sdk/stream');
    const { state } = (await first.event(7)).json as { state: string };
    const reader = await stream(`/sdk/stream?basis=${state}`);
    expect((await reader.event(1)).json).toMatchObject({
      payloads: [{ id: state, intentCode: 'none', reason: 'up-to-date' }],
    });
  });
});

describe('before there are data', () => {
  it('notready-autoconfig-all: no list of environments yet', async () => {
    flags = await startFlags({ known: false });
    const reply = await ask('/all', AUTH);
    expect(reply.status).toBe(503);
    expect(reply.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(reply.body).toBe('Relay Proxy is not yet fully initialized, does not have list of environments yet');
    expect(await ask('/all')).toMatchObject({ status: 401, bytes: 0 });
  });

  it(`notready-env-after-init-timeout-all: headers at once, events later ${differs('no data never refuses a stream')}`, async () => {
    flags = await startFlags();
    flags.front.upsert(INFO);
    const reader = await stream('/all');
    expect(reader.reply.bytes).toBe(0);
    await flags.front.load(INFO, items(), 'source');
    expect(await reader.event(1)).toMatchObject({ event: 'put', json: { path: '/', data: ALL } });
  });

  it.each(['/sdk/flags', '/sdk/latest-all', '/sdk/poll', '/sdk/flags/flag-0'])(
    `notready-env-flags: %s ${differs('no data is 503')}`,
    async (path) => {
      flags = await startFlags();
      flags.front.upsert(INFO);
      const reply = await ask(path, AUTH);
      expect(reply.status).toBe(503);
      expect(reply.body).toBe('client was not initialized');
      expect(reply.headers).not.toHaveProperty('etag');
    },
  );
});

describe('behind a relay with an archive', () => {
  let folder = '';
  let relay: Relay;
  const connections: Connection[] = [];
  const archive = (dataId: string, flags: Record<string, unknown>): Promise<void> =>
    writeArchive(join(folder, 'archive.tar.gz'), [
      { envId: ENV_ID, sdkKey: KEY, mobileKey: MOBILE_KEY, dataId, flags, segments: ALL_SEGMENTS },
    ]);
  const request = (path: string, method = 'GET'): Reply => {
    const connection = connect('http1', relay.port);
    connections.push(connection);
    return connection.ask({ path, method, headers: AUTH });
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'headgate-contract-'));
    await archive('one', ALL_FLAGS);
    const config = defaultConfig();
    relay = await Relay.start({
      config: {
        ...config,
        server: { ...config.server, host: '127.0.0.1', port: 0, drainDelayMs: 0, graceMs: 0 },
        flags: {
          ...config.flags,
          sources: [
            {
              type: 'archive',
              path: join(folder, 'archive.tar.gz'),
              intervalMs: 100,
              allowedOrigins: [],
              allowedHeaders: [],
            },
          ],
        },
      },
      log: openLog({ level: 'none', clock: new FakeClock() }),
    });
    await until('data', () => relay.ready);
  });

  afterAll(async () => {
    for (const connection of connections) connection.leave();
    await relay.stop();
    await rm(folder, { recursive: true });
  });

  it(`fdv1-all-stream-archive-update, fdv1-flags-stream-archive-update ${differs('archive update as patches')}`, async () => {
    const all = new SseReader(await request('/all').begun());
    const legacy = new SseReader(await request('/flags').begun());
    expect((await all.event(1)).json).toEqual({ path: '/', data: ALL });
    expect((await legacy.event(1)).json).toEqual(ALL_FLAGS);
    const flag1 = { ...FLAG_1, on: false, version: 2 };
    await archive('two', { ...ALL_FLAGS, 'flag-1': flag1 });
    relay.reload();
    expect(await all.event(2)).toMatchObject({ event: 'patch', json: { path: '/flags/flag-1', data: flag1 } });
    expect(await legacy.event(2)).toMatchObject({ event: 'patch', json: { path: '/flag-1', data: flag1 } });
    expect(all.events.length + legacy.events.length).toBe(4);
  });

  it(`status ${differs('status shows the budget')}`, async () => {
    const reply = await request('/status').whole();
    expect(reply.headers).toMatchObject({ 'content-type': 'application/json', 'content-length': String(reply.bytes) });
    const { headgate, ...theirs } = reply.json() as { headgate: object };
    expect(headgate).toMatchObject({ streams: expect.any(Number) as number, admission: { refused: { full: 0 } } });
    expect(theirs).toEqual({
      environments: {
        [ENV_ID]: {
          sdkKey: 'sdk-********-****-****-****-*******eeeee',
          envId: ENV_ID,
          envKey: 'production',
          envName: 'Production',
          projKey: 'default',
          projName: 'Default',
          mobileKey: 'mob-********-****-****-****-*******55555',
          status: 'connected',
          connectionStatus: { state: 'VALID', stateSince: expect.any(Number) as number },
          dataStoreStatus: { state: 'VALID', stateSince: expect.any(Number) as number },
        },
      },
      status: 'healthy',
      version: VERSION,
      clientVersion: `headgate-${VERSION}`,
    });
  });

  it(`status-head, status-env-404 ${differs('status of one environment')}`, async () => {
    expect(await request('/status', 'HEAD').whole()).toMatchObject({ status: 405, bytes: 0 });
    const all = (await request('/status').whole()).json() as { environments: Record<string, object> };
    const one = await request(`/status/${ENV_ID}`).whole();
    expect(one.status).toBe(200);
    expect(one.json()).toEqual(all.environments[ENV_ID]);
    expect((await request('/status/nobody').whole()).status).toBe(404);
  });

  it('notready-autoconfig-status, notready-env-status', async () => {
    const running = await startFlags({ known: false });
    flags = running;
    expect(running.front.status()).toEqual({ environments: {}, healthy: false });
    running.front.upsert(infoOf('test', { sdkKeys: [{ value: KEY }], envId: ENV_ID }));
    running.front.environmentsKnown();
    expect(running.front.status()).toMatchObject({
      environments: {
        test: {
          sdkKey: 'sdk-********-****-****-****-*******eeeee',
          envId: ENV_ID,
          status: 'disconnected',
          connectionStatus: { state: 'INITIALIZING' },
          dataStoreStatus: { state: 'VALID' },
        },
      },
      healthy: false,
    });
  });
});

it('every meant difference is shown by a test', () => {
  expect([...shown].toSorted()).toEqual(Object.keys(DIFFERENCES).toSorted());
});
