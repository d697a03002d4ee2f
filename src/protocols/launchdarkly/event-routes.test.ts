import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { turns } from '../../../test/support/conditions.ts';
import { FakeUpstream } from '../../../test/support/fake-upstream.ts';
import { fakeFront } from '../../../test/support/flags-fakes.ts';
import { EventForwarder } from '../../events/index.ts';
import { FakeClock } from '../../kernel/index.ts';
import { Outbound } from '../../outbound/index.ts';
import { Server } from '../../server/index.ts';
import { EventRoutes, type EventRoutesOptions, type PostedEvents } from './event-routes.ts';
import { requested } from './facts.ts';
import { FlagsFront } from './front.ts';

const SDK_KEY = 'sdk-aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee';
const MOBILE_KEY = 'mob-11111111-2222-4333-8444-555555555555';
const ENV_ID = '507f1f77bcf86cd799439011';
const BODY_BYTES_MAX = 20_000;
const EVENTS = '[{"kind":"identify","creationDate":1,"context":{"kind":"user","key":"u"}}]';
const OFF = '{"message":"Event proxy is not enabled for this environment"}';
const UNKNOWN = 'Relay Proxy does not recognize the client credential (missing or invalid Authorization header)';
const ALLOWED_HEADERS =
  'Cache-Control,Content-Type,Content-Length,Accept-Encoding,X-LaunchDarkly-User-Agent,X-LaunchDarkly-Payload-ID,X-LaunchDarkly-Wrapper,X-LaunchDarkly-Event-Schema,X-LaunchDarkly-Tags';

const stops: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop();
});

interface Started {
  readonly url: string;
  readonly posted: PostedEvents[];
  readonly front: FlagsFront;
}

/** Given nothing, whatever is posted is kept; what is given may be nothing. */
async function start(...given: EventRoutesOptions['events'][]): Promise<Started> {
  const posted: PostedEvents[] = [];
  const front = new FlagsFront(fakeFront());
  front.upsert({
    id: ENV_ID,
    name: 'test',
    sdkKeys: [{ value: 'sdk-old', expiresMs: Date.now() + 3_600_000 }, { value: SDK_KEY }],
    mobileKey: MOBILE_KEY,
    envId: ENV_ID,
    ttlMs: 0,
  });
  front.environmentsKnown();
  const sink = {
    accept: (one: PostedEvents) => {
      posted.push(one);
      return 'accepted' as const;
    },
  };
  const routes = new EventRoutes({
    directory: front.directory,
    events: given.length === 0 ? sink : given[0],
    bodyBytesMax: BODY_BYTES_MAX,
  });
  const server = await Server.create(
    {
      host: '127.0.0.1',
      port: 0,
      backlog: 16,
      http2: false,
      http2ConcurrentStreamsMax: 100,
      headersTimeoutMs: 10_000,
      requestTimeoutMs: 30_000,
      keepAliveTimeoutMs: 5000,
      headerBytesMax: 65_536,
      bodyBytesMax: 1024,
      onFailure: (error) => {
        throw error;
      },
    },
    routes.routes(),
  );
  const { port } = await server.listen();
  stops.push(() => {
    server.stopAccepting();
    server.closeIdle();
  });
  return { url: `http://127.0.0.1:${port}`, posted, front };
}

const server = { authorization: SDK_KEY, 'content-type': 'application/json' };
const mobile = { authorization: MOBILE_KEY, 'content-type': 'application/json' };

function post(
  url: string,
  headers: Record<string, string> = server,
  body: string | Uint8Array<ArrayBuffer> = EVENTS,
): Promise<Response> {
  return fetch(url, { method: 'POST', headers, body });
}

describe('events that are posted', () => {
  it.each([
    ['/bulk', server, { audience: 'server', what: 'bulk', path: '/bulk', sdkKey: SDK_KEY }],
    ['/diagnostic', server, { audience: 'server', what: 'diagnostic', path: '/diagnostic', sdkKey: SDK_KEY }],
    ['/bulk', { authorization: `api_key ${SDK_KEY}` }, { sdkKey: SDK_KEY }],
    ['/bulk', { authorization: 'sdk-old' }, { sdkKey: SDK_KEY }],
    ['/mobile', mobile, { audience: 'mobile', what: 'bulk', path: '/mobile', sdkKey: MOBILE_KEY }],
    ['/mobile/events', mobile, { audience: 'mobile', what: 'bulk', path: '/mobile' }],
    ['/mobile/events/bulk', mobile, { audience: 'mobile', what: 'bulk', path: '/mobile' }],
    [
      '/mobile/events/diagnostic',
      mobile,
      { audience: 'mobile', what: 'diagnostic', path: '/mobile/events/diagnostic' },
    ],
    [
      `/events/bulk/${ENV_ID}`,
      {},
      { audience: 'client', what: 'bulk', path: `/events/bulk/${ENV_ID}`, sdkKey: ENV_ID },
    ],
    [
      `/events/diagnostic/${ENV_ID}`,
      {},
      { audience: 'client', what: 'diagnostic', path: `/events/diagnostic/${ENV_ID}` },
    ],
  ])('to %s are accepted', async (path, headers, expected) => {
    const { url, posted } = await start();
    const reply = await post(url + path, { ...headers, 'x-launchdarkly-tags': 't', 'x-other': 'x' });
    expect([reply.status, await reply.text()]).toEqual([202, '']);
    expect(posted).toEqual([expect.objectContaining({ environmentId: ENV_ID, ...expected })]);
    expect(Buffer.from(posted[0]?.body ?? []).toString()).toBe(EVENTS);
    expect(posted[0]?.headers).toMatchObject({ 'x-launchdarkly-tags': 't', accept: '*/*' });
    expect(Object.keys(posted[0]?.headers ?? {})).not.toContain('x-other');
  });

  it('are made known as requests, by the path of their route', async () => {
    const { url } = await start();
    const facts: unknown[] = [];
    stops.push(requested.listen(({ environment, route, method }) => facts.push([environment, route, method])));
    await post(`${url}/bulk`);
    await post(`${url}/bulk`, { authorization: 'nope' });
    await post(`${url}/events/bulk/${ENV_ID}`, {});
    await fetch(`${url}/a/${ENV_ID}.gif`);
    expect(facts).toEqual([
      ['test', '/bulk', 'POST'],
      ['test', '/events/bulk/:envId', 'POST'],
      ['test', '/a/:file', 'GET'],
    ]);
  });

  it('are refused without a credential that is known for them', async () => {
    const { url, posted } = await start();
    const refused = async (path: string, headers: Record<string, string> = {}): Promise<[number, string]> => {
      const reply = await post(url + path, headers);
      return [reply.status, await reply.text()];
    };
    expect(await refused('/bulk', { authorization: 'nope' })).toEqual([401, UNKNOWN]);
    expect(await refused('/bulk', { authorization: MOBILE_KEY })).toEqual([401, UNKNOWN]);
    expect(await refused('/mobile', { authorization: SDK_KEY })).toEqual([401, UNKNOWN]);
    expect(await refused('/diagnostic')).toEqual([401, '']);
    expect(await refused('/events/bulk/x')).toEqual([404, 'URL did not contain an environment ID']);
    expect((await fetch(`${url}/a/x.gif?d=W10=`)).status).toBe(404);
    expect((await fetch(`${url}/a/${ENV_ID}.png?d=W10=`)).status).toBe(404);
    expect((await fetch(`${url}/bulk`, { headers: server })).status).toBe(405);
    expect(posted).toEqual([]);
  });

  it('may not be empty', async () => {
    const { url, posted } = await start();
    const reply = await post(`${url}/bulk`, server, '');
    expect([reply.status, await reply.text()]).toEqual([400, '{"message":"body may not be empty"}']);
    const zipped = await post(`${url}/bulk`, { ...server, 'content-encoding': 'gzip' }, gzipSync(''));
    expect([zipped.status, await zipped.text()]).toEqual([400, '{"message":"body may not be empty"}']);
    expect(posted).toEqual([]);
  });

  it('may be compressed', async () => {
    const { url, posted } = await start();
    expect((await post(`${url}/bulk`, { ...server, 'content-encoding': 'gzip' }, gzipSync(EVENTS))).status).toBe(202);
    expect(Buffer.from(posted[0]?.body ?? []).toString()).toBe(EVENTS);
    const damaged = await post(`${url}/bulk`, { ...server, 'content-encoding': 'gzip' }, EVENTS);
    expect([damaged.status, await damaged.text()]).toEqual([400, '{"message":"request body is not valid gzip"}']);
  });

  it('may not be larger than allowed, neither as sent nor inflated', async () => {
    const { url, posted } = await start();
    const fits = Buffer.alloc(BODY_BYTES_MAX, ' ');
    const zipped = { ...server, 'content-encoding': 'gzip' };
    const statuses = async (...replies: Promise<Response>[]): Promise<number[]> =>
      (await Promise.all(replies)).map(({ status }) => status);
    const over = Buffer.alloc(BODY_BYTES_MAX + 1, ' ');
    expect(
      await statuses(
        post(`${url}/bulk`, server, fits),
        post(`${url}/bulk`, zipped, gzipSync(fits)),
        post(`${url}/bulk`, server, over),
        post(`${url}/bulk`, zipped, gzipSync(over)),
        post(`${url}/bulk`, zipped, gzipSync(Buffer.alloc(50_000_000))),
        post(`${url}/bulk`, zipped, gzipSync(randomBytes(30_000))),
      ),
    ).toEqual([202, 202, 413, 413, 413, 413]);
    const chunked = { method: 'POST', headers: server, body: new Blob([over]).stream(), duplex: 'half' } as const;
    expect((await fetch(`${url}/bulk`, chunked as RequestInit)).status).toBe(413);
    expect(posted.length).toBe(2);
  });

  it('are answered before they are taken: whoever takes them cannot keep a caller waiting', async () => {
    const order: string[] = [];
    const { url } = await start({
      accept: () => {
        order.push('taken');
        return 'dropped';
      },
    });
    expect((await post(`${url}/bulk`)).status).toBe(202);
    expect(order).toEqual(['taken']);
  });
});

describe('browsers', () => {
  const cors = (allowOrigin: string, methods: string): Record<string, string> => ({
    'access-control-allow-credentials': 'false',
    'access-control-allow-headers': ALLOWED_HEADERS,
    'access-control-allow-methods': methods,
    'access-control-allow-origin': allowOrigin,
    'access-control-max-age': '300',
  });
  const origin = 'https://app.example.com';

  it('may post from any origin', async () => {
    const { url } = await start();
    for (const path of [`/events/bulk/${ENV_ID}`, `/events/diagnostic/${ENV_ID}`]) {
      const asked = await fetch(url + path, { method: 'OPTIONS', headers: { origin } });
      expect([asked.status, await asked.text()]).toEqual([200, '']);
      expect(Object.fromEntries(asked.headers)).toMatchObject(cors(origin, 'POST,OPTIONS'));
      expect(asked.headers.get('access-control-expose-headers')).toMatch(/^Date\b/);
      const reply = await post(url + path, { origin });
      expect(Object.fromEntries(reply.headers)).toMatchObject(cors(origin, 'POST,OPTIONS'));
      expect(Object.fromEntries((await post(url + path, {})).headers)).toMatchObject(cors('*', 'POST,OPTIONS'));
    }
    const refused = await post(`${url}/events/bulk/${ENV_ID}`, {}, '');
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([400, '*']);
  });

  it('may put events into the URL of a picture', async () => {
    const { url, posted } = await start();
    // this one has a plus sign in base64
    const events = '[{"kind":"identify","creationDate":1,"context":{"kind":"user","key":"u>~"}}]';
    const encoded = Buffer.from(events).toString('base64');
    expect(encoded).toContain('+');
    const path = `${url}/a/${ENV_ID}.gif`;
    const reply = await fetch(`${path}?d=${encoded}`);
    expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'image/gif']);
    expect(Object.fromEntries(reply.headers)).toMatchObject(cors('*', 'GET,OPTIONS'));
    expect(Buffer.from(await reply.arrayBuffer()).toString('hex')).toBe(
      '47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002014400' + '3b',
    );
    const { body, ...rest } = posted[0] as PostedEvents;
    expect(Buffer.from(body).toString()).toBe(events);
    expect(rest).toEqual({
      environmentId: ENV_ID,
      sdkKey: ENV_ID,
      audience: 'client',
      what: 'bulk',
      path: `/events/bulk/${ENV_ID}`,
      headers: { 'x-launchdarkly-event-schema': '3' },
    });
    expect((await fetch(path)).status).toBe(200);
    expect((await fetch(path, { method: 'OPTIONS' })).headers.get('access-control-allow-methods')).toBe('GET,OPTIONS');
    expect(posted.length).toBe(1);
  });
});

describe('without a forwarder', () => {
  const answers = async (url: string): Promise<unknown[]> => {
    const all = [
      await post(`${url}/bulk`),
      await post(`${url}/mobile`, mobile),
      await post(`${url}/events/bulk/${ENV_ID}`, {}),
      await fetch(`${url}/a/${ENV_ID}.gif?d=W10=`),
      await fetch(`${url}/events/bulk/${ENV_ID}`, { method: 'OPTIONS' }),
      await post(`${url}/bulk`, { authorization: 'nope' }),
    ];
    return Promise.all(all.map(async (reply) => [reply.status, await reply.text()]));
  };

  it('events are refused', async () => {
    const { url } = await start(undefined);
    expect(await answers(url)).toEqual([
      [503, OFF],
      [503, OFF],
      [503, OFF],
      [503, OFF],
      [200, ''],
      [401, UNKNOWN],
    ]);
    expect((await post(`${url}/bulk`)).headers.get('content-type')).toBe('text/plain; charset=utf-8');
  });

  it('they are thrown away where that is asked for, except those in pictures', async () => {
    const { url } = await start('discard');
    expect(await answers(url)).toEqual([
      [202, ''],
      [202, ''],
      [202, ''],
      [503, OFF],
      [200, ''],
      [401, UNKNOWN],
    ]);
  });
});

// What the vendor's relay was seen to send for the same requests.
it('what the events service gets has the headers and bodies of the traces', async () => {
  const service = await FakeUpstream.start();
  stops.push(() => service.stop());
  const outbound = await Outbound.open({ userAgent: 'Headgate/test' });
  stops.push(() => outbound.close());
  const forwarder = new EventForwarder({
    outbound,
    uri: service.url,
    flushIntervalMs: 5000,
    capacity: 1000,
    inlineUsers: false,
    bytesMax: 1e6,
    clock: new FakeClock(),
  });
  const { url } = await start(forwarder);
  const schema = { 'x-launchdarkly-event-schema': '4' };
  const eventOf = (key: string): string => EVENTS.replace('"u"', `"${key}"`);
  await post(`${url}/bulk`, {
    ...server,
    ...schema,
    'x-launchdarkly-payload-id': 'p1',
    'x-launchdarkly-tags': 'application-id/x',
  });
  await post(`${url}/bulk`, { ...server, ...schema, 'content-encoding': 'gzip' }, gzipSync(eventOf('g')));
  await fetch(`${url}/a/${ENV_ID}.gif?d=${Buffer.from(eventOf('u2')).toString('base64')}`);
  await post(`${url}/diagnostic`, { ...server, 'user-agent': 'curl/7.88.1' }, '{"kind":"diagnostic-init"}');
  await turns(3);
  await forwarder.flush();
  const byBody = Object.fromEntries(service.requests.map((request) => [request.body, request]));
  const common = { 'content-encoding': 'gzip', 'content-type': 'application/json', 'accept-encoding': 'gzip' };
  const bulk = {
    ...common,
    'user-agent': 'Headgate/test',
    'x-launchdarkly-payload-id': expect.stringMatching(/^[0-9a-f-]{36}$/),
  };
  const own = ['host', 'connection', 'content-length'];
  const headersOf = (body: string): unknown =>
    Object.fromEntries(Object.entries(byBody[body]?.headers ?? {}).filter(([name]) => !own.includes(name)));
  expect(service.requests.map(({ path }) => path).toSorted()).toEqual([
    '/bulk',
    '/bulk',
    '/diagnostic',
    `/events/bulk/${ENV_ID}`,
  ]);
  expect(headersOf(EVENTS)).toEqual({
    ...bulk,
    authorization: SDK_KEY,
    'x-launchdarkly-event-schema': '4',
    'x-launchdarkly-tags': 'application-id/x',
  });
  expect(headersOf(eventOf('g'))).toEqual({ ...bulk, authorization: SDK_KEY, 'x-launchdarkly-event-schema': '4' });
  expect(headersOf(eventOf('u2'))).toEqual({ ...bulk, 'x-launchdarkly-event-schema': '3' });
  expect(headersOf('{"kind":"diagnostic-init"}')).toEqual({
    ...common,
    accept: '*/*',
    authorization: SDK_KEY,
    'user-agent': 'curl/7.88.1',
  });
});
