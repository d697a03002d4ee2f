import { afterEach, describe, expect, it } from 'vitest';
import {
  type ClientSideRig,
  ENV_ID,
  encoded,
  members,
  MOBILE_KEY,
  type RigOptions,
  SDK_KEY,
  startClientSide,
  valued,
} from '../../../../test/support/clientside-rig.ts';
import { until } from '../../../../test/support/conditions.ts';
import { gone, put } from '../../../../test/support/flags-items.ts';
import { caughtUp, delivered, refused, requested } from '../facts.ts';

const ME = { kind: 'user', key: 'me' };
const PATH = `/sdk/poll/eval/${encoded(ME)}?auth=${ENV_ID}`;

interface Polled {
  readonly events: readonly { readonly event: string; readonly data: Record<string, unknown> }[];
}

let rig: ClientSideRig | undefined;
afterEach(async () => {
  await rig?.stop();
  rig = undefined;
});

async function start(options: RigOptions = {}): Promise<ClientSideRig> {
  rig = await startClientSide(options);
  await rig.load([
    valued('a', 1, { value: 'one' }),
    valued('b', 1, { value: 'out', segment: { key: 's', value: 'in' } }),
    valued('hidden', 1, { value: 'x', sees: [] }),
    valued('phones', 1, { value: 'p', sees: ['mobile'] }),
    members('s', 1, []),
  ]);
  return rig;
}

async function poll(one: ClientSideRig, path = PATH, headers: Record<string, string> = {}): Promise<Polled> {
  const reply = await one.get(path, headers);
  if (reply.status !== 200) throw new Error(`Cannot poll: got ${reply.status} ${reply.body}`);
  return reply.json() as Polled;
}

function stateOf({ events }: Polled): string {
  const last = events.at(-1)?.data as { state?: string; payloads?: { id: string }[] } | undefined;
  return last?.state ?? last?.payloads?.[0]?.id ?? '';
}

function puts({ events }: Polled): string[] {
  return events.slice(1, -1).map(({ event, data }) => {
    const key = data['key'] as string;
    return event === 'put-object' ? key : `-${key}`;
  });
}

describe('an evaluated poll', () => {
  it('has everything that its key sees, in the words of the protocol', async () => {
    const one = await start();
    const reply = await one.get(PATH);
    const polled = reply.json() as Polled;
    const state = stateOf(polled);
    expect(state).toMatch(/^[A-Za-z0-9_-]{43}\.[0-9]+\.eval-[0-9a-f]{40}-0$/);
    const version = polled.events.at(-1)?.data['version'];
    const object = { value: 'one', variation: 0, flagVersion: 1 };
    expect(polled).toEqual({
      events: [
        {
          event: 'server-intent',
          data: { payloads: [{ id: state, target: version, intentCode: 'xfer-full', reason: 'cant-catchup' }] },
        },
        { event: 'put-object', data: { version: 1, kind: 'flag-eval', key: 'a', object } },
        { event: 'put-object', data: { version: 1, kind: 'flag-eval', key: 'b', object: { ...object, value: 'out' } } },
        { event: 'payload-transferred', data: { state, version } },
      ],
    });
    expect(reply.headers).toMatchObject({ 'content-type': 'application/json', etag: `relay-${state}` });
    expect(reply.body).toContain('"object":{"value":"one","variation":0,"flagVersion":1}');
  });

  it('takes its key from the header or the query, and its context from the path or the body', async () => {
    const one = await start();
    const json = { 'content-type': 'application/json' };
    const body = JSON.stringify(ME);
    const mobile = { authorization: MOBILE_KEY };
    expect(puts(await poll(one, `/sdk/poll/eval/${encoded(ME)}`, mobile))).toEqual(['a', 'b', 'phones']);
    expect(puts(await poll(one, `/sdk/poll/eval/${encoded(ME)}`, { authorization: ENV_ID }))).toEqual(['a', 'b']);
    for (const method of ['POST', 'REPORT']) {
      const reply = await one.ask('/sdk/poll/eval', { method, body, headers: { ...json, ...mobile } }).whole();
      expect(puts(reply.json() as Polled)).toEqual(['a', 'b', 'phones']);
    }
    const statuses = [
      await one.get(`/sdk/poll/eval/${encoded(ME)}`),
      await one.get(`/sdk/poll/eval/${encoded(ME)}?auth=unknown`),
      await one.get(`/sdk/poll/eval/${encoded(ME)}?auth=mob-unknown`),
      await one.get(`/sdk/poll/eval/${encoded(ME)}`, { authorization: SDK_KEY }),
      await one.get('/sdk/poll/eval', mobile),
      await one.ask('/sdk/poll/eval', { method: 'POST', body, headers: mobile }).whole(),
    ].map(({ status }) => status);
    expect(statuses).toEqual([401, 401, 401, 401, 405, 415]);
  });

  it('of whoever is up to date says so, and evaluates nothing', async () => {
    const one = await start();
    const state = stateOf(await poll(one));
    const evaluations = one.evaluator.asked.length;
    const facts: object[] = [];
    const stop = caughtUp.listen(({ changes, route, environment }) => facts.push({ changes, route, environment }));
    const none = { intentCode: 'none', reason: 'up-to-date', id: state };
    const byBasis = await poll(one, `${PATH}&basis=${state}`);
    expect(byBasis.events).toMatchObject([{ event: 'server-intent', data: { payloads: [none] } }]);
    const outranked = await poll(one, `${PATH}&basis=else`, { 'last-event-id': state });
    expect(outranked.events).toHaveLength(1);
    expect((await one.get(PATH, { 'if-none-match': `relay-${state}` })).status).toBe(304);
    // nothing that a change of servers' flags says is news to this client
    await one.apply(put(members('else', 1, ['me'])));
    expect((await poll(one, `${PATH}&basis=${state}`)).events).toHaveLength(1);
    expect(one.evaluator.asked.length).toBe(evaluations);
    stop();
    expect(facts).toEqual(
      Array.from({ length: 3 }, () => ({ changes: 0, route: '/sdk/poll/eval/:context', environment: 'test' })),
    );
  });

  it('of whoever is nearly up to date evaluates what may have changed, and no more', async () => {
    const one = await start();
    const state = stateOf(await poll(one));
    await one.apply(put(members('s', 2, ['me'])), put(valued('new', 1, { value: 'n' })));
    await one.apply(gone('flags', 'a', 2));
    const polled = await poll(one, `${PATH}&basis=${state}`);
    expect(one.evaluator.asked.at(-1)?.keys?.toSorted()).toEqual(['a', 'b', 'new']);
    const full = await poll(one);
    expect(stateOf(polled)).toBe(stateOf(full));
    expect(polled.events[0]).toMatchObject({ data: { payloads: [{ intentCode: 'xfer-changes', reason: 'stale' }] } });
    expect(puts(polled)).toEqual(['b', 'new', '-a']);
    expect(polled.events[1]).toMatchObject({ data: { object: { value: 'in' } } });
    expect(polled.events[3]).toEqual({ event: 'delete-object', data: { version: 2, kind: 'flag-eval', key: 'a' } });
  });

  it('tells nobody the names of flags that only servers see', async () => {
    const one = await start();
    const state = stateOf(await poll(one));
    await one.apply(put(valued('hidden', 2, { value: 'y', sees: [] })), put(valued('a', 2, { value: 'x', sees: [] })));
    await one.apply(put(valued('fresh', 1, { value: 'y' })));
    await one.apply(put(valued('fresh', 2, { value: 'y', sees: [] })), gone('flags', 'phones', 2));
    // `fresh` was seen between: another replica may have sent it
    expect(puts(await poll(one, `${PATH}&basis=${state}`)).toSorted()).toEqual(['-a', '-fresh']);
  });

  it('of whoever is from before this process deletes whatever it may have', async () => {
    const one = await start();
    const state = stateOf(await poll(one, `${PATH}&withReasons=true`));
    await one.apply(put(valued('a', 2, { value: 'x', sees: [] })));
    const fresh = await startClientSide();
    // the same data, and nobody asked before: which flags the audience saw is not known
    await fresh.load(
      [...one.environment.data.snapshot().items('flags'), members('s', 1, [])].map((item) =>
        item.key === 'a' ? valued('a', 1, { value: 'one' }) : item,
      ),
    );
    await fresh.apply(put(valued('a', 2, { value: 'x', sees: [] })));
    expect(puts(await poll(fresh, `${PATH}&withReasons=true&basis=${state}`))).toEqual(['-a']);
    await fresh.stop();
  });

  it('gives everything to whoever names what is not its own position', async () => {
    const one = await start();
    const state = stateOf(await poll(one));
    const strangers = [
      `/sdk/poll/eval/${encoded({ kind: 'user', key: 'else' })}?auth=${ENV_ID}&basis=${state}`,
      `${PATH}&withReasons=true&basis=${state}`,
      `${PATH}&basis=${state.replace('eval-', 'evil-')}`,
      `${PATH}&basis=(p:5A46PZ79FQ9D08YYKT79DECDNV:461)`,
    ];
    for (const path of strangers) {
      const { events } = await poll(one, path);
      expect(events[0]).toMatchObject({ data: { payloads: [{ intentCode: 'xfer-full' }] } });
    }
    const mobile = await poll(one, `/sdk/poll/eval/${encoded(ME)}?basis=${state}`, { authorization: MOBILE_KEY });
    expect(puts(mobile)).toEqual(['a', 'b', 'phones']);
  });

  it('believes no position where big segments had a say, but compares what it finds', async () => {
    const one = await start();
    one.evaluator.revision = 'first';
    const state = stateOf(await poll(one));
    expect(state).toMatch(/-[0-9a-f]{16}$/);
    const evaluations = one.evaluator.asked.length;
    expect((await poll(one, `${PATH}&basis=${state}`)).events).toHaveLength(1);
    const same = await one.get(PATH, { 'if-none-match': `relay-${state}` });
    expect(same.status).toBe(304);
    expect(same.headers).toMatchObject({ etag: `relay-${state}`, vary: 'Accept-Encoding' });
    expect(one.evaluator.asked.length).toBe(evaluations + 2);
    one.evaluator.revision = 'second';
    expect((await one.get(PATH, { 'if-none-match': `relay-${state}` })).status).toBe(200);
    expect(puts(await poll(one, `${PATH}&basis=${state}`))).toEqual(['a', 'b']);
  });

  it('of an evaluator that lags is what it says it is, and no more', async () => {
    const one = await start();
    const state = stateOf(await poll(one));
    await one.apply(put(valued('a', 2, { value: 'two' })));
    const between = one.environment.data.snapshot();
    await one.apply(put(valued('a', 3, { value: 'three' })), put(valued('z', 1, { value: 'z' })));
    one.evaluator.snapshot = between;
    const polled = await poll(one, `${PATH}&basis=${state}`);
    one.evaluator.snapshot = undefined;
    expect(polled.events[1]).toMatchObject({ data: { key: 'a', object: { value: 'two' } } });
    const next = await poll(one, `${PATH}&basis=${stateOf(polled)}`);
    expect(puts(next)).toEqual(['a', 'z']);
  });
});

describe('the budget', () => {
  it('is taken before a poll is evaluated, and what is evaluated is of then', async () => {
    const one = await start({ limits: { maxConcurrent: 1 } });
    const held = one.limiter.tryAcquire();
    const reply = one.ask(PATH);
    await until('a queue', () => one.limiter.waiting === 1);
    expect(one.evaluator.asked).toEqual([]);
    await one.apply(put(valued('a', 2, { value: 'two' })));
    if (held.admitted) held.slot.release();
    expect((await reply.whole()).json()).toMatchObject({
      events: [{}, { data: { object: { value: 'two' } } }, {}, {}],
    });
  });

  it('refuses what does not fit, with headers that a browser can read, and never what is up to date or nearly', async () => {
    const one = await start({ limits: { maxConcurrent: 1, maxQueued: 0 } });
    const state = stateOf(await poll(one));
    const evalx = `/sdk/evalx/${ENV_ID}/contexts/${encoded(ME)}`;
    const { etag = '' } = (await one.get(evalx)).headers;
    const held = one.limiter.tryAcquire();
    const facts: object[] = [];
    const stop = refused.listen(({ reason, route }) => facts.push({ reason, route }));
    for (const path of [PATH, evalx, `/sdk/stream/eval/${encoded(ME)}?auth=${ENV_ID}`]) {
      const reply = await one.get(path, { origin: 'https://app.example.com' });
      expect(reply).toMatchObject({ status: 503 });
      expect(reply.headers).toMatchObject({
        'retry-after': expect.stringMatching(/^[1-9][0-9]?$/),
        'access-control-allow-origin': 'https://app.example.com',
        'access-control-expose-headers': expect.stringContaining('Retry-After'),
      });
      expect(reply.json()).toEqual({ message: expect.stringContaining('Headgate is at the limit') });
    }
    stop();
    expect(facts).toMatchObject([
      { reason: 'full', route: '/sdk/poll/eval/:context' },
      { reason: 'full', route: '/sdk/evalx/:envId/contexts/:context' },
      { reason: 'full', route: '/sdk/stream/eval/:context' },
    ]);
    expect((await one.get(evalx, { 'if-none-match': etag })).status).toBe(304);
    expect((await poll(one, `${PATH}&basis=${state}`)).events).toHaveLength(1);
    await one.apply(put(valued('a', 2, { value: 'two' })));
    expect(puts(await poll(one, `${PATH}&basis=${state}`))).toEqual(['a']);
    if (held.admitted) held.slot.release();
  });

  it('serves servers before browsers', async () => {
    const one = await start({ limits: { maxConcurrent: 1 } });
    const held = one.limiter.tryAcquire();
    const order: string[] = [];
    const stop = delivered.listen(({ route }) => order.push(route));
    const browsers = [1, 2, 3].map((at) => one.ask(`/sdk/evalx/${ENV_ID}/contexts/${encoded({ key: `b${at}` })}`));
    await until('browsers in the queue', () => one.limiter.waiting === 3);
    const server = one.ask(`/sdk/evalx/contexts/${encoded(ME)}`, { headers: { authorization: SDK_KEY } });
    await until('a server in the queue', () => one.limiter.waiting === 4);
    if (held.admitted) held.slot.release();
    await Promise.all([...browsers, server].map((reply) => reply.whole()));
    stop();
    expect(order.indexOf('/sdk/evalx/contexts/:context')).toBeLessThan(2);
  });

  it('is charged with the bytes that a reply really has', async () => {
    const one = await start();
    await one.load(Array.from({ length: 50 }, (_, at) => valued(`f${at}`, 2, { value: 'x'.repeat(200_000) })));
    const slow = one.ask(PATH, { bytesMax: 1 });
    await until('a delivery', () => one.limiter.stats().declaredBytes > 10_000_000);
    slow.parts.length = 0;
    await one.stop();
    expect(one.limiter.stats().declaredBytes).toBe(0);
  });

  it('has its slot back from whoever leaves, in the queue and while it is evaluated, and after a fault of ours', async () => {
    const one = await start({ limits: { maxConcurrent: 1 } });
    const release = one.evaluator.hold();
    const connection = one.connect();
    one.ask(PATH, {}, connection);
    await until('an evaluation', () => one.evaluator.running === 1);
    expect(one.limiter.held).toBe(1);
    const queued = one.connect();
    one.ask(PATH, {}, queued);
    await until('a queue', () => one.limiter.waiting === 1);
    queued.leave();
    await until('no queue', () => one.limiter.waiting === 0);
    connection.leave();
    // the evaluation goes on; the slot does not wait for it
    await until('a free slot', () => one.limiter.held === 0);
    expect(one.evaluator.running).toBe(1);
    expect(one.evaluator.asked[0]?.signal?.aborted).toBe(true);
    release();
    await until('no evaluation', () => one.evaluator.running === 0);
    one.evaluator.failure = new Error('out of order');
    const failed = await one.get(PATH);
    expect(failed.status).toBe(500);
    expect(one.failures.splice(0)).toEqual([one.evaluator.failure]);
    expect(one.limiter.held).toBe(0);
    one.evaluator.failure = undefined;
    expect((await one.get(PATH)).status).toBe(200);
  });

  it('cuts who does not read, and what was cut cannot be taken for the whole', async () => {
    const one = await start({ front: { capMs: 1500 } });
    await one.load(Array.from({ length: 100 }, (_, at) => valued(`f${at}`, 2, { value: 'x'.repeat(300_000) })));
    const outcomes: string[] = [];
    const stop = delivered.listen(({ outcome }) => outcomes.push(outcome));
    const connection = one.connect();
    const slow = one.ask(PATH, { bytesMax: 1 }, connection);
    await until('a cut', () => outcomes.length === 1);
    connection.resume(slow);
    await slow.ended();
    stop();
    expect(outcomes).toEqual(['capped']);
    expect(slow.over).toBe('cut');
    expect(() => slow.json()).toThrow(SyntaxError);
    expect(one.limiter.held).toBe(0);
  });

  it('is told apart in facts', async () => {
    const one = await start();
    const facts: object[] = [];
    const stops = [
      requested.listen(({ method, route, sdk }) => facts.push({ method, route, sdk })),
      delivered.listen(({ what, outcome, encoding }) => facts.push({ what, outcome, encoding })),
    ];
    await one.get(PATH, { 'user-agent': 'Mozilla/5.0', 'x-launchdarkly-user-agent': 'JSClient/4.0.0' });
    await until('a delivery', () => facts.length === 2);
    for (const stop of stops) stop();
    expect(facts).toEqual([
      { method: 'GET', route: '/sdk/poll/eval/:context', sdk: 'JSClient' },
      { what: 'full', outcome: 'completed', encoding: 'identity' },
    ]);
  });
});
