import { setMaxListeners } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import { until } from '../../test/support/conditions.ts';
import { FakeLapi } from '../../test/support/fake-lapi.ts';
import { FakeClock, systemClock } from '../kernel/index.ts';
import { LapiClient } from './lapi-client.ts';
import { FORWARD_SOCKETS_MAX, Forwarder, type ForwardReply, type ForwardRequest } from './lapi-forward.ts';
import { KEY_SOCKETS_MAX, KeyChecks } from './lapi-keys.ts';

const opened: { close(): unknown }[] = [];

afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

async function begin(
  socketsMax: number,
  clock: typeof systemClock = systemClock,
): Promise<{ lapi: FakeLapi; client: LapiClient }> {
  const lapi = await FakeLapi.start();
  const client = new LapiClient({ name: 'one', url: lapi.url, tls: undefined, clock, socketsMax });
  opened.push(client, { close: () => lapi.stop() });
  return { lapi, client };
}

const get = (target: string, more: Partial<ForwardRequest> = {}): ForwardRequest => ({
  method: 'GET',
  target,
  headers: {},
  ...more,
});

async function textOf({ body }: ForwardReply): Promise<string> {
  let text = '';
  for await (const piece of body) text += Buffer.from(piece).toString();
  return text;
}

describe('a request that is passed on', () => {
  it('keeps its method, target, headers and body, and gets the answer as it is', async () => {
    const { lapi, client } = await begin(FORWARD_SOCKETS_MAX);
    lapi.answers.set('/v1/alerts', (_, response) => {
      response.writeHead(201, { 'content-type': 'application/json', 'x-more': ['a', 'b'], 'keep-alive': 'timeout=9' });
      response.end('["12"]');
    });
    const reply = await new Forwarder(client).forward({
      method: 'POST',
      target: '/v1/alerts?a=%2F&b=1',
      headers: {
        authorization: 'Bearer them',
        'user-agent': 'crowdsec/v1',
        'content-type': 'application/json',
        'x-forwarded-for': '192.0.2.1',
      },
      body: Buffer.from('[{}]'),
    });
    expect(reply.status).toBe(201);
    expect(reply.headers).toMatchObject({ 'content-type': 'application/json', 'x-more': 'a, b' });
    expect(await textOf(reply)).toBe('["12"]');
    const seen = lapi.requests[0];
    expect(seen).toMatchObject({ method: 'POST', target: '/v1/alerts?a=%2F&b=1', body: '[{}]' });
    expect(seen?.headers).toMatchObject({
      authorization: 'Bearer them',
      'user-agent': 'crowdsec/v1',
      'x-forwarded-for': '192.0.2.1',
    });
    expect(seen?.headers).toMatchObject({ host: `127.0.0.1:${lapi.port}`, 'content-length': '4' });
    // ours would make a stranger a bouncer
    expect(seen?.headers).not.toHaveProperty('x-api-key');
  });

  // fails when `OF_ONE_CONNECTION` or what Connection names is passed on
  it('leaves out what speaks of one connection, either way', async () => {
    const { lapi, client } = await begin(FORWARD_SOCKETS_MAX);
    lapi.answers.set('/v1/heartbeat', (_, response) => {
      response
        .writeHead(200, { connection: 'keep-alive, X-Hop', 'x-hop': '1', 'proxy-authenticate': 'Basic', 'x-kept': '2' })
        .end();
    });
    const headers = {
      host: 'them',
      connection: 'close, x-mine',
      'x-mine': '1',
      te: 'trailers',
      upgrade: 'h2c',
      'content-length': '99',
      'x-kept': '3',
    };
    const reply = await new Forwarder(client).forward(get('/v1/heartbeat', { headers }));
    await textOf(reply);
    expect(reply.headers).toMatchObject({ 'x-kept': '2' });
    for (const name of ['connection', 'x-hop', 'proxy-authenticate', 'transfer-encoding', 'keep-alive']) {
      expect(reply.headers).not.toHaveProperty(name);
    }
    const seen = lapi.requests[0]?.headers ?? {};
    expect(seen).toMatchObject({ 'x-kept': '3', host: `127.0.0.1:${lapi.port}`, connection: 'keep-alive' });
    for (const name of ['x-mine', 'te', 'upgrade', 'content-length']) expect(seen).not.toHaveProperty(name);
  });

  it('tells an answer that is compressed as it came', async () => {
    const { lapi, client } = await begin(FORWARD_SOCKETS_MAX);
    lapi.answers.set('/v1/alerts', (_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end('gz'));
    const reply = await new Forwarder(client).forward(get('/v1/alerts'));
    expect(reply.headers['content-encoding']).toBe('gzip');
    expect(await textOf(reply)).toBe('gz');
  });

  it('fails with HG_SOURCE when nobody answers, and while its body is read when that is cut', async () => {
    const { lapi, client } = await begin(FORWARD_SOCKETS_MAX);
    lapi.next('other', { kind: 'reset' });
    await expect(new Forwarder(client).forward(get('/v1/alerts'))).rejects.toMatchObject({ code: 'HG_SOURCE' });
    lapi.answers.set('/v1/alerts', (_, response) => {
      response.writeHead(200);
      response.write('some', () => response.destroy());
    });
    const reply = await new Forwarder(client).forward(get('/v1/alerts'));
    await expect(textOf(reply)).rejects.toMatchObject({ code: 'HG_SOURCE', failure: 'answer' });
  });

  it('ends when its signal aborts', async () => {
    const { lapi, client } = await begin(FORWARD_SOCKETS_MAX);
    lapi.answers.set('/v1/alerts', () => {});
    const abort = new AbortController();
    const failure = new Forwarder(client)
      .forward(get('/v1/alerts', { signal: abort.signal }))
      .catch((thrown: unknown) => thrown);
    await until('the request', () => lapi.requests.length === 1);
    abort.abort();
    expect(await failure).toMatchObject({ code: 'HG_SOURCE', failure: 'stopped' });
    await until('its end', () => lapi.requests[0]?.gone === true);
  });

  // fails when the bound in forward() is removed
  it('is refused when too many wait', async () => {
    const { lapi, client } = await begin(FORWARD_SOCKETS_MAX);
    lapi.answers.set('/v1/alerts', () => {});
    const forwarder = new Forwarder(client);
    const abort = new AbortController();
    setMaxListeners(0, abort.signal);
    const waiting = get('/v1/alerts', { signal: abort.signal });
    const pending = Array.from({ length: FORWARD_SOCKETS_MAX + 256 }, () =>
      forwarder.forward(waiting).catch(() => 'ended'),
    );
    await expect(forwarder.forward(get('/v1/alerts'))).rejects.toThrow('256 others may wait, got one more');
    await until('those under way', () => lapi.requests.length === FORWARD_SOCKETS_MAX);
    abort.abort();
    expect(new Set(await Promise.all(pending))).toEqual(new Set(['ended']));
    expect(await forwarder.forward(get('/health'))).toMatchObject({ status: 200 });
  });
});

describe('a question about a key', () => {
  it('is answered by the local API, and says who asks', async () => {
    const { lapi, client } = await begin(KEY_SOCKETS_MAX);
    const keys = new KeyChecks(client, 'headgate/1.2.3');
    expect(await keys.check('key-1')).toBe('good');
    expect(await keys.check('key-2')).toBe('refused');
    expect(lapi.requests[0]).toMatchObject({ method: 'HEAD', target: '/v1/decisions/stream' });
    expect(lapi.requests[0]?.headers).toMatchObject({ 'user-agent': 'headgate/1.2.3', 'x-api-key': 'key-1' });
    expect(lapi.lastPullMs.size).toBe(0);
  });

  it.each([500, 503, 404, 429, 302])('is open after %i', async (status) => {
    const { lapi, client } = await begin(KEY_SOCKETS_MAX);
    lapi.next('head', { kind: 'status', status });
    expect(await new KeyChecks(client, 'headgate/1').check('key-1')).toBe('unreachable');
  });

  it('is open when nobody answers, or not in ten seconds', async () => {
    const clock = new FakeClock();
    const { lapi, client } = await begin(KEY_SOCKETS_MAX, clock);
    const keys = new KeyChecks(client, 'headgate/1');
    lapi.next('head', { kind: 'reset' });
    expect(await keys.check('key-1')).toBe('unreachable');
    // a key that is no header
    expect(await keys.check('a\nb')).toBe('unreachable');
    lapi.next('head', { kind: 'hold', bytes: -1 });
    const late = keys.check('key-1');
    await until('the question', () => lapi.held === 1);
    clock.advance(10_000);
    expect(await late).toBe('unreachable');
    client.close();
    expect(await keys.check('key-1')).toBe('unreachable');
  });

  it('is asked once for all who come with the key at once, again for those who come later', async () => {
    const { lapi, client } = await begin(KEY_SOCKETS_MAX);
    const keys = new KeyChecks(client, 'headgate/1');
    expect(await Promise.all(Array.from({ length: 50 }, () => keys.check('key-1')))).toEqual(Array(50).fill('good'));
    expect(lapi.requests).toHaveLength(1);
    lapi.keys.clear();
    expect(await keys.check('key-1')).toBe('refused');
  });

  // fails when the bound in check() is removed
  it('is not asked when too many wait', async () => {
    const { lapi, client } = await begin(KEY_SOCKETS_MAX);
    const keys = new KeyChecks(client, 'headgate/1');
    const verdicts = await Promise.all(Array.from({ length: 100 }, (_, key) => keys.check(`stranger-${key}`)));
    expect(verdicts.filter((verdict) => verdict === 'refused')).toHaveLength(68);
    expect(verdicts.slice(68)).toEqual(Array(32).fill('unreachable'));
    expect(lapi.requests).toHaveLength(68);
    expect(lapi.connections).toBe(KEY_SOCKETS_MAX);
  });
});
