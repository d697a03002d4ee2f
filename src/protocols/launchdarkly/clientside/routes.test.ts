import { createHmac } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import {
  CLIENT_INFO,
  type ClientSideRig,
  ENV_ID,
  encoded,
  MOBILE_KEY,
  type RigOptions,
  SDK_KEY,
  startClientSide,
  valued,
} from '../../../../test/support/clientside-rig.ts';
import type { Reply } from '../../../../test/support/connections.ts';
import type { EnvironmentInfo } from '../credentials.ts';

const CONTEXT = { kind: 'user', key: 'user-6994', country: 'us', email: 'a@example.com' };
const JSON_CONTEXT = JSON.stringify(CONTEXT);
const B64 = encoded(CONTEXT);
const EVERYBODY = [
  valued('flag-0', 1, { value: 'on' }),
  valued('flag-1', 1, { value: 'on', sees: [] }),
  valued('flag-2', 1, { value: 'control', sees: ['mobile'] }),
];
const FLAG_0 = '"flag-0":{"value":"on","variation":0,"version":1}';
const FLAG_1 = '"flag-1":{"value":"on","variation":0,"version":1}';
const FLAG_2 = '"flag-2":{"value":"control","variation":0,"version":1}';
const ALLOWED =
  'Cache-Control,Content-Type,Content-Length,Accept-Encoding,X-LaunchDarkly-User-Agent,X-LaunchDarkly-Payload-ID,X-LaunchDarkly-Wrapper,X-LaunchDarkly-Event-Schema,X-LaunchDarkly-Tags';

let rig: ClientSideRig | undefined;
afterEach(async () => {
  await rig?.stop();
  rig = undefined;
});

async function start(options: RigOptions = {}, info: EnvironmentInfo = CLIENT_INFO): Promise<ClientSideRig> {
  rig = await startClientSide(options);
  await rig.load(EVERYBODY, info);
  return rig;
}

/** Headers that traces fix, without those of the connection. */
function corsOf({ headers }: Reply): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('access-control-')));
}

function cors(methods: string, origin = '*', allowed = ALLOWED): Record<string, unknown> {
  return {
    'access-control-allow-credentials': 'false',
    'access-control-allow-headers': allowed,
    'access-control-allow-methods': methods,
    'access-control-allow-origin': origin,
    'access-control-expose-headers': expect.stringMatching(/^Date,.*\bRetry-After\b/),
    'access-control-max-age': '300',
  };
}

const KEYS = {
  server: { authorization: SDK_KEY },
  mobile: { authorization: MOBILE_KEY },
  none: {},
};

describe('evalx', () => {
  const FORMS = [
    { prefix: '/sdk/evalx', headers: KEYS.server, body: `{${FLAG_0},${FLAG_1},${FLAG_2}}`, isCors: false },
    { prefix: '/msdk/evalx', headers: KEYS.mobile, body: `{${FLAG_0},${FLAG_2}}`, isCors: false },
    { prefix: `/sdk/evalx/${ENV_ID}`, headers: KEYS.none, body: `{${FLAG_0}}`, isCors: true },
  ];

  it.each(FORMS)(
    'of $prefix answers all four forms with what its key sees',
    async ({ prefix, headers, body, isCors }) => {
      const { get, report } = bound(await start());
      for (const name of ['contexts', 'users']) {
        const reply = await get(`${prefix}/${name}/${B64}`, headers);
        expect(reply).toMatchObject({ status: 200, body });
        expect(reply.headers).toMatchObject({ 'content-type': 'application/json', 'content-length': `${body.length}` });
        expect(corsOf(reply)).toEqual(isCors ? cors('GET,OPTIONS') : {});
      }
      for (const name of ['context', 'user']) {
        const reply = await report(`${prefix}/${name}`, JSON_CONTEXT, headers).whole();
        expect(reply).toMatchObject({ status: 200, body });
        expect(corsOf(reply)).toEqual(isCors ? cors('REPORT,OPTIONS') : {});
      }
    },
  );

  it('takes either base64 alphabet, padded or not', async () => {
    const { get } = bound(await start());
    const context = { kind: 'user', key: 'ÿþ?>~' };
    const json = JSON.stringify(context);
    for (const text of [
      Buffer.from(json).toString('base64'),
      Buffer.from(json).toString('base64url'),
      Buffer.from(`${json} `).toString('base64'),
      Buffer.from(`${json}  `).toString('base64'),
    ]) {
      const path = `/sdk/evalx/${ENV_ID}/contexts/${encodeURIComponent(text)}`;
      expect((await get(path)).status).toBe(200);
    }
  });

  it('gives reasons to those who ask for them', async () => {
    const { get } = bound(await start());
    const reply = await get(`/sdk/evalx/${ENV_ID}/contexts/${B64}?withReasons=true`);
    expect(reply.body).toBe(`{"flag-0":{"value":"on","variation":0,"version":1,"reason":{"kind":"FALLTHROUGH"}}}`);
    expect((await get(`/sdk/evalx/${ENV_ID}/contexts/${B64}?withReasons=false`)).body).toBe(`{${FLAG_0}}`);
  });

  it('says what is wrong with a request, as the vendor does', async () => {
    const { get, report, ask } = bound(await start());
    const badBase64 = await get('/sdk/evalx/contexts/%25%25', KEYS.server);
    expect(badBase64).toMatchObject({
      status: 400,
      body: '{"message":"context part of URL path did not decode as valid base64"}',
    });
    expect(badBase64.headers['content-type']).toBe('application/json');
    for (const text of ['bm90anNvbg', encoded({ kind: 'user', key: '' })]) {
      expect(await get(`/sdk/evalx/contexts/${text}`, KEYS.server)).toMatchObject({
        status: 400,
        body: '{"message":"context part of URL path did not decode to valid evaluation context as JSON"}',
      });
    }
    expect(await get('/sdk/evalx/contexts/abcde', KEYS.server)).toMatchObject({ status: 400, body: badBase64.body });
    const badType = await report('/sdk/evalx/context', JSON_CONTEXT, {
      ...KEYS.server,
      'content-type': 'text/plain',
    }).whole();
    expect(badType).toMatchObject({ status: 415, body: 'Content-Type must be application/json.' });
    expect(badType.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect((await report('/sdk/evalx/context', '[]', KEYS.server).whole()).status).toBe(400);
    expect(await get(`/msdk/evalx/contexts/${B64}`, { authorization: 'mob-x' })).toMatchObject({
      status: 401,
      body: 'Relay Proxy does not recognize the client credential (missing or invalid Authorization header)',
    });
    const unknown = await get(`/sdk/evalx/ffffffffffffffffffffffff/contexts/${B64}`);
    expect(unknown).toMatchObject({ status: 404, body: 'URL did not contain an environment ID' });
    expect(corsOf(unknown)).toEqual({ 'access-control-allow-methods': 'GET,OPTIONS' });
    expect((await ask(`/sdk/evalx/${ENV_ID}/contexts/${B64}`, { method: 'POST' }).whole()).status).toBe(405);
    expect((await get(`/sdk/evalx/${ENV_ID}/contexts/${B64}?filter=none`)).status).toBe(404);
  });

  it('takes a body up to its bound, and says so beyond it', async () => {
    const { report } = bound(await start({ side: { bodyBytesMax: 100 } }));
    const context = (bytes: number): string => JSON.stringify({ kind: 'user', key: 'x'.repeat(bytes) });
    const over = context(100).length - 100;
    expect((await report('/msdk/evalx/context', context(100 - over), KEYS.mobile).whole()).status).toBe(200);
    expect((await report('/msdk/evalx/context', context(101 - over), KEYS.mobile).whole()).status).toBe(413);
    expect((await report('/msdk/evalx/context', context(60_000), KEYS.mobile).whole()).status).toBe(413);
  });

  it('asks clients to come back while there are no data', async () => {
    rig = await startClientSide();
    rig.front.upsert(CLIENT_INFO);
    const reply = await rig.get(`/sdk/evalx/${ENV_ID}/contexts/${encoded({ key: 'a' })}`);
    expect(reply).toMatchObject({ status: 503, body: '{"message":"Service not initialized"}' });
    expect(reply.headers['content-type']).toBe('application/json');
    expect(corsOf(reply)).toEqual(cors('GET,OPTIONS'));
  });

  it('asks clients to come back while the environments are not known', async () => {
    rig = await startClientSide({ known: false });
    const reply = await rig.get(`/sdk/evalx/${ENV_ID}/contexts/${B64}`);
    expect(reply).toMatchObject({
      status: 503,
      body: 'Relay Proxy is not yet fully initialized, does not have list of environments yet',
    });
    expect(corsOf(reply)).toEqual({ 'access-control-allow-methods': 'GET,OPTIONS' });
  });

  it('has a tag of what was asked and of the data, and costs nothing when that is the same', async () => {
    const one = await start();
    const { get, report } = bound(one);
    const path = `/msdk/evalx/contexts/${B64}`;
    const { etag = '' } = (await get(path, KEYS.mobile)).headers;
    const evaluations = one.evaluator.asked.length;
    const same = await get(path, { ...KEYS.mobile, 'if-none-match': etag });
    expect(same).toMatchObject({ status: 304, body: '' });
    // what the 200 would have said (RFC 9110, section 15.4.5)
    expect(same.headers).toMatchObject({ etag, vary: 'Accept-Encoding' });
    expect((await get(path, { ...KEYS.mobile, 'if-none-match': `W/${etag}` })).status).toBe(304);
    // the same context written in another order is the same
    const turned = JSON.stringify(Object.fromEntries(Object.entries(CONTEXT).toReversed()));
    const again = report('/msdk/evalx/context', turned, { ...KEYS.mobile, 'if-none-match': etag });
    expect((await again.whole()).status).toBe(304);
    expect(one.evaluator.asked.length).toBe(evaluations);
    const others = [
      await get(`/msdk/evalx/contexts/${encoded({ key: 'else' })}`, { ...KEYS.mobile, 'if-none-match': etag }),
      await get(`${path}?withReasons=true`, { ...KEYS.mobile, 'if-none-match': etag }),
      await get(`/sdk/evalx/contexts/${B64}`, { ...KEYS.server, 'if-none-match': etag }),
    ];
    expect(others.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(new Set(others.map(({ headers }) => headers['etag'])).size).toBe(3);
    await one.apply({ kind: 'flags', key: 'flag-0', version: 2, item: valued('flag-0', 2, { value: 'off' }) });
    const changed = await get(path, { ...KEYS.mobile, 'if-none-match': etag });
    expect(changed.json()).toMatchObject({ 'flag-0': { value: 'off', version: 2 } });
  });

  it('is compressed for those who take it', async () => {
    const one = await start();
    await one.load(Array.from({ length: 100 }, (_, at) => valued(`flag-${at}`, 2, { value: 'on' })));
    const plain = await one.get(`/sdk/evalx/${ENV_ID}/contexts/${B64}`);
    const zipped = await one.get(`/sdk/evalx/${ENV_ID}/contexts/${B64}`, { 'accept-encoding': 'gzip' });
    expect(zipped.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'Accept-Encoding' });
    expect(zipped.bytes).toBeLessThan(plain.bytes / 2);
    expect(gunzipSync(zipped.buffer).toString()).toBe(plain.body);
  });
});

describe('secure mode', () => {
  const HASH = createHmac('sha256', SDK_KEY).update('user-6994').digest('hex');
  const secure = { ...CLIENT_INFO, secureMode: true };

  it('lets a browser ask with the hash of its context, by any valid key of its environment, and no other', async () => {
    const past = { value: 'sdk-past', expiresMs: Date.now() - 1000 };
    const still = { value: 'sdk-still', expiresMs: Date.now() + 100_000 };
    const { get, report } = bound(await start({}, { ...secure, sdkKeys: [past, { value: SDK_KEY }, still] }));
    const by = (key: string): string => createHmac('sha256', key).update('user-6994').digest('hex');
    const paths = [`/sdk/evalx/${ENV_ID}/contexts/${B64}`, `/sdk/poll/eval/${B64}`];
    for (const path of paths) {
      const status = async (hash: string): Promise<number> => (await get(`${path}?auth=${ENV_ID}${hash}`)).status;
      expect(await Promise.all([status(`&h=${HASH}`), status(`&h=${by('sdk-still')}`)])).toEqual([200, 200]);
      const wrong = [
        '',
        '&h=',
        `&h=${HASH.slice(1)}`,
        `&h=${HASH.toUpperCase()}`,
        `&h=${by('sdk-past')}`,
        `&h=${'é'.repeat(32)}`,
      ];
      expect(await Promise.all(wrong.map(status))).toEqual(wrong.map(() => 400));
    }
    const refused = await get(paths[0] ?? '');
    expect(refused.body).toBe('{"message":"Environment is in secure mode, and context hash does not match."}');
    expect(corsOf(refused)).toEqual(cors('GET,OPTIONS'));
    expect((await report(`/sdk/evalx/${ENV_ID}/context?h=${HASH}`, JSON_CONTEXT).whole()).status).toBe(200);
    expect((await get(`/eval/${ENV_ID}/${B64}`)).status).toBe(400);
  });

  it('is for browsers alone', async () => {
    const { get } = bound(await start({}, secure));
    expect((await get(`/msdk/evalx/contexts/${B64}`, KEYS.mobile)).status).toBe(200);
    expect((await get(`/sdk/poll/eval/${B64}`, KEYS.mobile)).status).toBe(200);
  });
});

describe('a browser of another origin', () => {
  it('is told which methods and headers it may use', async () => {
    const { ask } = bound(await start());
    const origin = { origin: 'https://app.example.com', 'access-control-request-method': 'REPORT' };
    const routes = {
      [`/sdk/evalx/${ENV_ID}/contexts/${B64}`]: 'GET,OPTIONS',
      [`/sdk/evalx/${ENV_ID}/users/${B64}`]: 'GET,OPTIONS',
      [`/sdk/evalx/${ENV_ID}/context`]: 'REPORT,OPTIONS',
      [`/sdk/evalx/${ENV_ID}/user`]: 'REPORT,OPTIONS',
      [`/eval/${ENV_ID}/${B64}`]: 'GET,OPTIONS',
      [`/eval/${ENV_ID}`]: 'REPORT,OPTIONS',
      [`/ping/${ENV_ID}`]: 'GET,OPTIONS',
      [`/sdk/goals/${ENV_ID}`]: 'GET,OPTIONS',
    };
    for (const [path, methods] of Object.entries(routes)) {
      const reply = await ask(path, { method: 'OPTIONS', headers: origin }).whole();
      expect(reply).toMatchObject({ status: 200, body: '' });
      expect(corsOf(reply)).toEqual(cors(methods, 'https://app.example.com'));
    }
    // a preflight does not carry the key: it is answered before anybody knows whose it is
    const more = `${ALLOWED},Authorization,If-None-Match,Last-Event-ID`;
    for (const path of ['/sdk/poll/eval', '/sdk/stream/eval']) {
      const inBody = await ask(path, { method: 'OPTIONS' }).whole();
      expect(inBody).toMatchObject({ status: 200, body: '' });
      expect(corsOf(inBody)).toEqual(cors('POST,REPORT,OPTIONS', '*', more));
      const inPath = await ask(`${path}/${B64}`, { method: 'OPTIONS', headers: origin }).whole();
      expect(corsOf(inPath)).toEqual(cors('GET,OPTIONS', 'https://app.example.com', more));
    }
    expect((await ask(`/ping/ffffffffffffffffffffffff`, { method: 'OPTIONS' }).whole()).status).toBe(404);
  });

  it('reads what is allowed to its origin, and sends the headers that the environment allows', async () => {
    const allowedOrigins = ['https://ok.example.com', 'https://also.example.com'];
    const { get } = bound(await start({}, { ...CLIENT_INFO, allowedOrigins, allowedHeaders: ['X-Extra'] }));
    const originFor = async (headers: Record<string, string>): Promise<unknown> =>
      corsOf(await get(`/sdk/evalx/${ENV_ID}/contexts/${B64}`, headers))['access-control-allow-origin'];
    expect(await originFor({ origin: 'https://also.example.com' })).toBe('https://also.example.com');
    expect(await originFor({ origin: 'https://other.example.com' })).toBe('https://ok.example.com');
    expect(await originFor({})).toBe('https://ok.example.com');
    expect(corsOf(await get(`/sdk/poll/eval/${B64}?auth=${ENV_ID}`))).toEqual(
      cors('GET,OPTIONS', 'https://ok.example.com', `${ALLOWED},Authorization,If-None-Match,Last-Event-ID,X-Extra`),
    );
  });
});

describe('goals', () => {
  it('are asked of the service', async () => {
    const asked: object[] = [];
    const body = Buffer.from('[{"kind":"pageview"}]');
    const goals = async (envId: string, headers: object): ReturnType<NonNullable<GoalsOption>> => {
      asked.push({ envId, headers });
      return Promise.resolve({
        status: 202,
        headers: { etag: 'e1', connection: 'close', 'access-control-allow-origin': 'x', 'content-length': '9' },
        body,
      });
    };
    const { get } = bound(await start({ side: { goals } }));
    const reply = await get(`/sdk/goals/${ENV_ID}`, { 'x-launchdarkly-user-agent': 'JS/1', cookie: 'secret' });
    expect(reply).toMatchObject({ status: 202, body: body.toString() });
    expect(reply.headers).toMatchObject({ etag: 'e1', 'content-length': `${body.length}` });
    expect(corsOf(reply)).toEqual(cors('GET,OPTIONS'));
    expect(asked).toEqual([{ envId: ENV_ID, headers: { 'x-launchdarkly-user-agent': 'JS/1' } }]);
  });

  it('are 502 where there is no service, or it is down', async () => {
    const down = (): Promise<never> => Promise.reject(new Error('connection refused'));
    for (const side of [{}, { goals: down }]) {
      const { get } = bound(await start({ side }));
      const reply = await get(`/sdk/goals/${ENV_ID}`);
      expect(reply).toMatchObject({ status: 502, body: '' });
      expect(corsOf(reply)).toEqual(cors('GET,OPTIONS'));
      await rig?.stop();
    }
  });
});

type GoalsOption = NonNullable<RigOptions['side']>['goals'];

function bound(one: ClientSideRig): Pick<ClientSideRig, 'get' | 'report' | 'ask'> {
  return { get: one.get.bind(one), report: one.report.bind(one), ask: one.ask.bind(one) };
}
