import { afterEach, describe, expect, it } from 'vitest';
import { turns } from '../../../test/support/conditions.ts';
import { assembleDecisions, BOUNCER, type DecisionsOptions, KEY, sha512 } from '../../../test/support/decisions.ts';
import {
  type BouncerAsk,
  BouncerExchange,
  FakeConnection,
  FakeSmallStore,
  FakeUpstream,
} from '../../../test/support/decisions-fakes.ts';
import { type Decision, ENFORCED, filterKey } from '../../dataset/decisions/index.ts';
import { FakeClock, type Fact } from '../../kernel/index.ts';
import { DecisionsFront } from './front.ts';
import { answered, cursorShared, delivered, left, notForwarded, pickedUp, refused, unavailable } from './facts.ts';

const STREAM = '/v1/decisions/stream';
const LIVE = '/v1/decisions';
const METRICS = '/v1/usage-metrics';
const EMPTY = '{"new": [], "deleted": []}';
const WALL_MS = 1_800_000_000_000;
const HOUR_MS = 3_600_000;
const SECONDS: unknown = expect.stringMatching(/^([1-9]|10)$/);

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

/** Keeps what is published, by what it is about. */
function kept<T extends object>(fact: Fact<T>): T[] {
  const facts: T[] = [];
  stops.push(fact.listen((one) => facts.push(one)));
  return facts;
}

function decision(id: number, value: string, more: Partial<Decision> = {}): Decision {
  const ordinary = {
    uuid: undefined,
    origin: 'cscli',
    scenario: 'manual ban',
    scope: 'Ip',
    type: 'ban',
    simulated: false,
  };
  return { ...ordinary, id, value, untilMs: WALL_MS + 4 * HOUR_MS, ...more };
}

async function kit(held: readonly Decision[] | undefined, options: DecisionsOptions = {}) {
  const clock = new FakeClock();
  const parts = assembleDecisions({ clock, wallMs: WALL_MS, ...options });
  stops.push(() => parts.front.close());
  const fill = async (decisions: readonly Decision[]): Promise<void> => {
    const read = parts.ledger.begin(0, { toleranceMs: 2000, simulatedToo: true });
    for (const one of decisions) read.add(one);
    await read.commit(parts.wall.now());
  };
  if (held !== undefined) await fill(held);
  const routes = parts.front.routes();
  const kept = new Map<string, FakeConnection>();
  /** Asks over the one connection that this address keeps, unless it has another. */
  const start = (target: string, ask: BouncerAsk = {}): { exchange: BouncerExchange; done: Promise<void> } => {
    const { remoteAddress = '192.0.2.1' } = ask;
    const connection = ask.connection ?? kept.get(remoteAddress) ?? new FakeConnection();
    if (ask.connection === undefined) kept.set(remoteAddress, connection);
    const exchange = new BouncerExchange(target, { ...ask, connection });
    const route = routes.find(({ path, methods }) => {
      const fits = path.endsWith('/*') ? exchange.path.startsWith(path.slice(0, -1)) : path === exchange.path;
      return fits && (methods === '*' || methods.includes(exchange.method));
    });
    if (route === undefined) throw new Error(`Cannot ask: no route for ${exchange.method} ${target}`);
    return { exchange, done: Promise.resolve(route.handle(exchange)) };
  };
  /** Asks, and says that the answer was received. */
  const ask = async (target: string, how: BouncerAsk = {}): Promise<BouncerExchange> => {
    const { exchange, done } = start(target, how);
    await done;
    exchange.received(true);
    return exchange;
  };
  const patch = (added: readonly Decision[], removedIds: readonly number[] = []) =>
    parts.ledger.patch(0, { added, removedIds }, { nowMs: parts.wall.now(), toleranceMs: 2000 });
  return { ...parts, clock, fill, start, ask, patch };
}

const idsIn = (exchange: BouncerExchange): { new: number[]; deleted: number[] } => {
  const read = exchange.json as { new: { id: number }[]; deleted: { id: number }[] };
  return { new: read.new.map(({ id }) => id), deleted: read.deleted.map(({ id }) => id) };
};

describe('who may ask', () => {
  it.each([STREAM, LIVE])('is nobody without a key, or with another: %s', async (path) => {
    const { ask } = await kit([]);
    const others: BouncerAsk[] = [
      { keyless: true },
      { headers: { 'x-api-key': '' } },
      { headers: { 'x-api-key': 'x' } },
    ];
    for (const other of others) {
      const refusal = await ask(path, other);
      expect([refusal.status, refusal.text]).toEqual([403, '{"message":"access forbidden"}']);
    }
  });

  // fails when certifiedOf() does not look at the units
  it('is a bouncer with a certificate of a unit that is allowed', async () => {
    const { ask } = await kit([decision(1, '192.0.2.1')], { front: { bouncersAllowedOu: ['bouncer-ou'] } });
    const facts = kept(delivered);
    const headers = { 'x-api-key': 'none' };
    const good = { commonName: 'edge 1', organizationalUnits: ['x', 'bouncer-ou'] };
    const other = { commonName: 'edge 1', organizationalUnits: ['agent-ou'] };
    expect((await ask(`${STREAM}?startup=true`, { headers, peer: good })).status).toBe(200);
    expect(facts[0]?.bouncer).toBe('edge 1@192.0.2.1');
    expect((await ask(STREAM, { headers, peer: good })).text).toBe(EMPTY);
    expect((await ask(STREAM, { headers, peer: other })).status).toBe(403);
    expect((await ask(STREAM, { peer: other })).status).toBe(200);
  });

  it('is said by the upstream for keys that are not ours, and nobody is refused while it cannot', async () => {
    const upstream = new FakeUpstream();
    const { ask } = await kit([], { front: { delegate: true, upstreams: [upstream] } });
    const facts = kept(unavailable);
    upstream.keys = 'unreachable';
    const unknown = await ask(STREAM, { headers: { 'x-api-key': 'new' } });
    expect([unknown.status, unknown.headers['retry-after']]).toEqual([503, SECONDS]);
    expect(facts).toMatchObject([{ bouncer: undefined, reason: 'key not checked', remoteAddress: '192.0.2.1' }]);
    upstream.keys = 'good';
    expect((await ask(STREAM, { headers: { 'x-api-key': 'new' } })).status).toBe(200);
    upstream.keys = 'refused';
    expect((await ask(STREAM, { headers: { 'x-api-key': 'bad' } })).status).toBe(403);
  });

  it('is told by a HEAD, which does no more', async () => {
    const { ask } = await kit(undefined);
    for (const path of [`${STREAM}?startup=true`, LIVE]) {
      const head = await ask(path, { method: 'HEAD' });
      expect([head.status, head.headers['content-type'], head.text]).toEqual([200, 'text/plain; charset=utf-8', '']);
      expect(head.isWatched).toBe(false);
    }
  });

  it('changes with the configuration', async () => {
    const { ask, front } = await kit([]);
    front.setKeys([{ name: 'second', sha512: sha512('second') }]);
    expect((await ask(STREAM)).status).toBe(403);
    expect((await ask(STREAM, { headers: { 'x-api-key': 'second' } })).status).toBe(200);
  });
});

describe('a stream', () => {
  it('gives everything to whoever is new, then what is new, then nothing', async () => {
    const { ask, patch } = await kit([decision(1, '192.0.2.1'), decision(2, '192.0.2.2')]);
    expect(idsIn(await ask(STREAM))).toEqual({ new: [1, 2], deleted: [] });
    await patch([decision(3, '192.0.2.3')], [1]);
    const delta = await ask(STREAM);
    expect(idsIn(delta)).toEqual({ new: [3], deleted: [1] });
    expect(delta.headers['content-type']).toBe('application/json');
    const nothing = await ask(STREAM);
    expect([nothing.text, nothing.isWatched]).toEqual([EMPTY, false]);
  });

  // fails when the cursor moves without a look at `received`
  it.each(['small', 'full'] as const)('repeats what was not received: %s', async (size) => {
    const { ask, start, patch } = await kit([decision(1, '192.0.2.1')]);
    if (size === 'small') {
      await ask(STREAM);
      await patch([decision(2, '192.0.2.2')]);
    }
    const lost = start(STREAM);
    await lost.done;
    const again = start(STREAM);
    await again.done;
    lost.exchange.received(false);
    const third = await ask(STREAM);
    expect([idsIn(again.exchange), idsIn(third)]).toEqual([idsIn(lost.exchange), idsIn(lost.exchange)]);
    expect((await ask(STREAM)).text).toBe(EMPTY);
  });

  it.each([
    ['address', {}, { remoteAddress: '192.0.2.99' }],
    ['filter', {}, { search: '?origins=cscli' }],
    ['dedup', {}, { search: '?dedup=false' }],
  ])('has a position for each %s', async (_, __, { search = '', ...how }: BouncerAsk & { search?: string }) => {
    const { ask } = await kit([decision(1, '192.0.2.1')]);
    await ask(STREAM);
    expect(idsIn(await ask(`${STREAM}${search}`, how)).new).toEqual([1]);
    expect((await ask(`${STREAM}${search}`, how)).text).toBe(EMPTY);
  });

  it('has one position for a query, however it is written', async () => {
    const { ask } = await kit([decision(1, '192.0.2.1')]);
    await ask(`${STREAM}?startup=true&community_pull=false`);
    expect((await ask(`${STREAM}?scopes=RANGE,ip&startup=false`)).text).toBe(EMPTY);
  });

  it('begins anew with startup=true, and goes on from there', async () => {
    const { ask, patch } = await kit([decision(1, '192.0.2.1')]);
    await ask(STREAM);
    await patch([decision(2, '192.0.2.2')]);
    expect(idsIn(await ask(`${STREAM}?startup=true`)).new).toEqual([1, 2]);
    expect((await ask(STREAM)).text).toBe(EMPTY);
  });

  it('is empty for a filter that cannot be read, and stands where it stood', async () => {
    const { ask } = await kit([decision(1, '192.0.2.1')]);
    const bad = await ask(`${STREAM}?startup=true&ip=notanip`);
    expect([bad.status, bad.text, bad.isWatched]).toEqual([200, EMPTY, false]);
    expect(idsIn(await ask(STREAM)).new).toEqual([1]);
  });

  // fails when a cursor below `reach` is answered with a delta
  it('gives everything, with what is over, to a bouncer that was away for too long', async () => {
    const { ask, patch, ledger, clock, wall } = await kit(
      [decision(1, '192.0.2.1', { untilMs: WALL_MS + HOUR_MS }), decision(2, '192.0.2.2')],
      { ledger: { keepExpiredMs: 1 } },
    );
    await ask(STREAM);
    await patch([], [1]);
    clock.advance(2 * HOUR_MS);
    await ledger.tick(wall.now());
    await patch([decision(3, '192.0.2.3')], [2]);
    expect(ledger.reach).toBeGreaterThan(1);
    expect(idsIn(await ask(STREAM))).toEqual({ new: [3], deleted: [2] });
  });

  it('tells two bouncers behind one address apart by their connections', async () => {
    const { ask, patch } = await kit([decision(1, '192.0.2.1')]);
    const shared = kept(cursorShared);
    const [one, other] = [new FakeConnection(), new FakeConnection()];
    await ask(`${STREAM}?startup=true`, { connection: one });
    await ask(`${STREAM}?startup=true`, { connection: other });
    await patch([decision(2, '192.0.2.2')]);
    expect(idsIn(await ask(STREAM, { connection: one })).new).toEqual([2]);
    expect(idsIn(await ask(STREAM, { connection: other })).new).toEqual([2]);
    expect((await ask(STREAM, { connection: one })).text).toBe(EMPTY);
    expect(shared).toEqual([{ bouncer: BOUNCER, remoteAddress: '192.0.2.1' }]);
  });

  // fails when connections that a proxy named the client of are taken for the client's
  it('takes connections of a proxy for nobody’s', async () => {
    const { ask, patch } = await kit([decision(1, '192.0.2.1')], { front: { trustedProxies: ['10.0.0.0/8'] } });
    const shared = kept(cursorShared);
    const pool = [new FakeConnection(), new FakeConnection()] as const;
    const via = (connection: FakeConnection): BouncerAsk => ({
      connection,
      remoteAddress: '10.0.0.1',
      headers: { 'x-forwarded-for': '198.51.100.1' },
    });
    await ask(STREAM, via(pool[0]));
    await ask(STREAM, via(pool[1]));
    await patch([decision(2, '192.0.2.2')]);
    expect(idsIn(await ask(STREAM, via(pool[1]))).new).toEqual([2]);
    expect((await ask(STREAM, via(pool[0]))).text).toBe(EMPTY);
    expect(shared).toEqual([]);
  });

  // fails when a connection that carries two keys stays the first one's
  it('takes a connection with several keys for nobody’s', async () => {
    const keys = ['a', 'b'].map((name) => ({ name, sha512: sha512(name) }));
    const { ask, patch } = await kit([decision(1, '192.0.2.1')], { front: { keys } });
    const shared = kept(cursorShared);
    const pool = [new FakeConnection(), new FakeConnection()];
    const asks = pool.flatMap((connection) => ['a', 'b'].map((key) => ({ connection, headers: { 'x-api-key': key } })));
    for (const how of asks) await ask(STREAM, how);
    await patch([decision(2, '192.0.2.2')]);
    const texts: string[] = [];
    for (const how of asks) texts.push((await ask(STREAM, how)).text);
    expect(texts.map((text) => text === EMPTY)).toEqual([false, false, true, true]);
    expect(shared).toEqual([]);
  });
});

describe('the budget of a stream', () => {
  const busy = async (held: readonly Decision[]) => {
    const all = await kit(held, { limits: { maxConcurrent: 1, maxQueued: 1, waitMsMax: 2000 } });
    const answer = all.limiter.tryAcquire();
    if (!answer.admitted) throw new Error('Broken test: no slot');
    return { ...all, slot: answer.slot };
  };

  // fails when a small delta asks for a slot
  it('never keeps a small delta waiting', async () => {
    const all = await kit([decision(1, '192.0.2.1')], { limits: { maxConcurrent: 1, maxQueued: 0 } });
    await all.ask(STREAM);
    await all.patch([decision(2, '192.0.2.2')]);
    const answer = all.limiter.tryAcquire();
    expect(answer.admitted).toBe(true);
    const facts = kept(answered);
    expect(idsIn(await all.ask(STREAM)).new).toEqual([2]);
    expect((await all.ask(STREAM)).text).toBe(EMPTY);
    expect((await all.ask(`${STREAM}?startup=true`)).status).toBe(503);
    expect(facts.map(({ what, hit }) => [what, hit])).toEqual([
      ['delta', true],
      ['current', false],
    ]);
  });

  // fails when the cursor is read, or the copy made, before the slot is won
  it('is waited for, and the answer is of the moment at which it was had', async () => {
    const { start, patch, slot } = await busy([decision(1, '192.0.2.1')]);
    const waiting = start(STREAM);
    await turns();
    await patch([decision(2, '192.0.2.2')], [1]);
    slot.release();
    await waiting.done;
    expect(idsIn(waiting.exchange)).toEqual({ new: [2], deleted: [1] });
  });

  it('is refused after its time, or where too many wait, with the name of the bouncer', async () => {
    const { start, clock, ask, slot } = await busy([decision(1, '192.0.2.1')]);
    const facts = kept(refused);
    const waiting = start(STREAM);
    await turns();
    const tooMany = await ask(STREAM);
    clock.advance(2000);
    await waiting.done;
    for (const exchange of [tooMany, waiting.exchange]) {
      expect([exchange.status, exchange.headers['content-type']]).toEqual([503, 'application/json; charset=utf-8']);
      expect(exchange.headers['retry-after']).toEqual(SECONDS);
      expect(exchange.json).toMatchObject({ message: expect.stringContaining('limit') as string });
      expect(exchange.isWatched).toBe(false);
    }
    expect(facts).toMatchObject([
      { bouncer: BOUNCER, reason: 'full', route: STREAM, waitedMs: 0 },
      { bouncer: BOUNCER, reason: 'timeout', route: STREAM, waitedMs: 2000 },
    ]);
    slot.release();
    expect(idsIn(await ask(STREAM)).new).toEqual([1]);
  });

  it('is given up by who leaves while it waits, and nothing moves', async () => {
    const { start, ask, limiter, slot } = await busy([decision(1, '192.0.2.1')]);
    const facts = kept(left);
    const waiting = start(STREAM);
    await turns();
    waiting.exchange.channel.leave();
    await waiting.done;
    expect(limiter.waiting).toBe(0);
    expect(waiting.exchange.answered).toBe(false);
    expect(facts).toMatchObject([{ bouncer: BOUNCER, route: STREAM }]);
    slot.release();
    expect(idsIn(await ask(STREAM)).new).toEqual([1]);
    expect(limiter.held).toBe(0);
  });

  // fails when the number of entries, or `offset`, is not looked at before an answer is made
  it.each(['a long log', 'a cursor from before the log', 'a cursor from beyond it'])(
    'is for what takes long to make, however small it is: %s',
    async (what) => {
      const store = new FakeSmallStore();
      const beyond = { offset: what.endsWith('it') ? 99 : 1, usedMs: WALL_MS, shared: false };
      const meaning = filterKey({ ...ENFORCED, origins: ['lists'] });
      store.set(`${sha512(KEY)} 192.0.2.1 ${meaning}`, Buffer.from(JSON.stringify(beyond)));
      const all = await kit([decision(1, '192.0.2.1', { untilMs: WALL_MS + 1000 })], {
        limits: { maxConcurrent: 1, maxQueued: 0 },
        ledger: { keepExpiredMs: 1 },
        front: { cursors: store },
      });
      if (what === 'a long log') {
        await all.patch(Array.from({ length: 1500 }, (_, at) => decision(at + 10, `10.0.${at >> 8}.${at & 255}`)));
      } else if (what.startsWith('a cursor from before')) {
        for (let tick = 0; tick < 3; tick++) {
          all.clock.advance(2000);
          await all.ledger.tick(all.wall.now());
        }
      }
      const answer = all.limiter.tryAcquire();
      if (!answer.admitted) throw new Error('Broken test: no slot');
      expect(all.ledger.reach > beyond.offset).toBe(what.startsWith('a cursor from before'));
      expect((await all.ask(`${STREAM}?origins=lists`)).status).toBe(503);
      answer.slot.release();
      expect((await all.ask(`${STREAM}?origins=lists`)).text).toBe(EMPTY);
    },
  );

  // fails when `reach` is not looked at again once a delta is made
  it('gives everything when what a delta needs has gone while it was made', async () => {
    const store = new FakeSmallStore();
    const saved = { offset: 1, usedMs: WALL_MS, shared: false };
    store.set(`${sha512(KEY)} 192.0.2.1 ${filterKey(ENFORCED)}`, Buffer.from(JSON.stringify(saved)));
    const all = await kit([decision(1, '192.0.2.1')], { front: { cursors: store } });
    await all.patch([decision(2, '192.0.2.2')]);
    const { ledger, views } = all;
    let reach = 0;
    const moving = {
      subscribe: () => () => undefined,
      ready: true,
      entriesSince: () => 1,
      offset: 2,
      get reach() {
        return reach;
      },
    };
    const front = new DecisionsFront({
      ...all.options,
      ledger: moving,
      views: {
        pinnedBytes: 0,
        full: (filter, o) => views.full(filter, o),
        find: (filter) => views.find(filter),
        list: (filter, part) => views.list(filter, part),
        async delta(filter, o) {
          reach = 2;
          return views.delta(filter, o);
        },
      },
    });
    stops.push(() => front.close());
    const exchange = new BouncerExchange(STREAM);
    await front.routes()[0]?.handle(exchange);
    expect(idsIn(exchange).new).toEqual([1, 2]);
    expect(ledger.reach).toBe(0);
  });

  it('is closed with the process', async () => {
    const { ask, limiter } = await busy([decision(1, '192.0.2.1')]);
    limiter.close();
    const refusal = await ask(STREAM);
    expect([refusal.status, refusal.json]).toEqual([503, { message: 'Headgate is shutting down; retry shortly' }]);
  });

  it('is for a large delta as well, and for every list', async () => {
    const many = Array.from({ length: 3000 }, (_, at) => decision(at + 10, `10.0.${at >> 8}.${at & 255}`));
    const all = await kit([decision(1, '192.0.2.1')], { limits: { maxConcurrent: 1, maxQueued: 0 } });
    await all.ask(STREAM);
    await all.patch(many);
    const facts = kept(delivered);
    const answer = all.limiter.tryAcquire();
    if (!answer.admitted) throw new Error('Broken test: no slot');
    expect((await all.ask(STREAM)).status).toBe(503);
    expect((await all.ask(LIVE)).status).toBe(503);
    expect((await all.ask(`${LIVE}?ip=192.0.2.1`)).status).toBe(200);
    answer.slot.release();
    expect(idsIn(await all.ask(STREAM)).new.length).toBe(3000);
    expect((await all.ask(STREAM)).text.length).toBe(EMPTY.length);
    expect(((await all.ask(LIVE)).json as unknown[]).length).toBe(3001);
    expect(facts.map(({ what, outcome }) => [what, outcome])).toEqual([
      ['delta', 'completed'],
      ['list', 'completed'],
    ]);
    expect(all.limiter.held).toBe(0);
  });
});

describe('a front without all that is asked for', () => {
  it('waits for the first data, for a while', async () => {
    const { start, fill, clock } = await kit(undefined);
    const facts = kept(unavailable);
    const early = start(STREAM);
    const live = start(`${LIVE}?ip=192.0.2.1`);
    await turns();
    expect([early.exchange.answered, live.exchange.answered]).toEqual([false, false]);
    await fill([decision(1, '192.0.2.1')]);
    await Promise.all([early.done, live.done]);
    expect(idsIn(early.exchange).new).toEqual([1]);
    expect(live.exchange.json).toHaveLength(1);
    expect(clock.now()).toBe(0);
    expect(facts).toEqual([]);
  });

  it('waits for the first data also when there are none', async () => {
    const { start, fill } = await kit(undefined);
    const early = start(STREAM);
    await turns();
    await fill([]);
    await early.done;
    expect(early.exchange.text).toBe(EMPTY);
  });

  // fails when the wait is without end, or is answered with what there is
  it('says so in the end, and never gives an empty answer', async () => {
    const { start, clock } = await kit(undefined);
    const facts = kept(unavailable);
    const early = start(STREAM);
    await turns();
    clock.advance(10_000);
    await early.done;
    expect([early.exchange.status, early.exchange.headers['retry-after']]).toEqual([503, SECONDS]);
    expect(facts).toMatchObject([{ bouncer: BOUNCER, reason: 'no data' }]);
  });

  it('gets a scope that it does not hold from its upstreams first', async () => {
    const upstream = new FakeUpstream();
    const { start, ask, fill } = await kit([decision(1, '192.0.2.1')], { front: { upstreams: [upstream] } });
    const waiting = start(`${STREAM}?scopes=ip,country,username`);
    await turns();
    expect([waiting.exchange.answered, upstream.asked]).toEqual([false, ['hold Country,username']]);
    await fill([decision(1, '192.0.2.1'), decision(2, 'FR', { scope: 'Country' })]);
    upstream.settle(true);
    await waiting.done;
    expect(idsIn(waiting.exchange).new).toEqual([1, 2]);
    upstream.held.add('Country');
    expect((await ask(`${STREAM}?scopes=ip,country&startup=true`)).status).toBe(200);
  });

  it.each(['refused', 'not in time'] as const)('says so when the scope cannot be had: %s', async (how) => {
    const upstream = new FakeUpstream();
    const { start, clock } = await kit([decision(1, '192.0.2.1')], { front: { upstreams: [upstream] } });
    const facts = kept(unavailable);
    const waiting = start(`${STREAM}?scopes=country`);
    await turns();
    if (how === 'refused') upstream.settle(false);
    else clock.advance(10_000);
    await waiting.done;
    expect([waiting.exchange.status, waiting.exchange.text.includes('new')]).toEqual([503, false]);
    expect(facts).toMatchObject([{ reason: 'not held' }]);
  });

  it.each([
    [`${STREAM}?simulated=true`, ['hold wide']],
    [LIVE, ['hold wide']],
    [`${LIVE}?value=FR`, ['hold wide']],
    [`${LIVE}?scope=country&value=FR`, ['hold Country']],
    [`${LIVE}?scope=ip`, []],
    [`${LIVE}?ip=192.0.2.1`, []],
    [`${LIVE}?ip=192.0.2.1&simulated=true`, ['hold wide']],
    [STREAM, []],
  ])('asks its upstreams for what a request needs: %s', async (target, asked) => {
    const upstream = new FakeUpstream();
    upstream.wide = true;
    upstream.held.add('Country');
    const { ask } = await kit([], { front: { upstreams: [upstream] } });
    expect((await ask(target)).status).toBe(200);
    expect(upstream.asked).toEqual(asked);
  });

  it('does not wait for upstreams without end where they cannot be told to stop', async () => {
    const upstream = new FakeUpstream();
    const { start, clock } = await kit([], { front: { upstreams: [upstream] } });
    const waiting = start(LIVE);
    await turns();
    clock.advance(10_000);
    await waiting.done;
    expect(waiting.exchange.status).toBe(503);
  });

  // fails when what is told is not waited for to be stored
  it('tells nothing that a crash could make it forget, unless the store is too slow', async () => {
    let store: (stored: boolean) => void = () => undefined;
    const offsets: number[] = [];
    const stored = (offset: number): true | Promise<boolean> => {
      offsets.push(offset);
      return offset === 1 ? true : new Promise((resolve) => (store = resolve));
    };
    const { start, ask, patch, clock } = await kit([decision(1, '192.0.2.1')], { front: { stored } });
    expect(idsIn(await ask(STREAM)).new).toEqual([1]);
    await patch([decision(2, '192.0.2.2')]);
    const waiting = start(STREAM);
    await turns(3);
    expect([waiting.exchange.answered, offsets]).toEqual([false, [1, 2]]);
    store(true);
    await waiting.done;
    expect(idsIn(waiting.exchange).new).toEqual([2]);
    const slow = start(`${STREAM}?startup=true`);
    await turns(3);
    expect(slow.exchange.answered).toBe(false);
    clock.advance(2000);
    await slow.done;
    expect(idsIn(slow.exchange).new).toEqual([1, 2]);
  });
});

describe('a look-up', () => {
  it('never moves a cursor', async () => {
    const { ask } = await kit([decision(1, '192.0.2.1')]);
    for (const target of [LIVE, `${LIVE}?ip=192.0.2.1`, `${LIVE}?limit=1`])
      expect((await ask(target)).isWatched).toBe(false);
    expect(idsIn(await ask(STREAM)).new).toEqual([1]);
  });

  it('finds what holds for an address, or exactly null', async () => {
    const { ask } = await kit([decision(1, '192.0.2.1'), decision(2, '192.0.2.0/24', { scope: 'Range' })]);
    const facts = kept(answered);
    expect((await ask(`${LIVE}?ip=192.0.2.1`)).json).toMatchObject([{ id: 1 }, { id: 2 }]);
    const miss = await ask(`${LIVE}?ip=198.51.100.1`);
    expect([miss.text, miss.headers['content-type']]).toEqual(['null', 'application/json; charset=utf-8']);
    expect((await ask(`${LIVE}?type=captcha`)).text).toBe('null');
    expect(facts.map(({ what, hit }) => [what, hit])).toEqual([
      ['look-up', true],
      ['look-up', false],
    ]);
  });

  it('says what is wrong with it, to a HEAD as well', async () => {
    const { ask } = await kit([]);
    const message = 'invalid limit value: strconv.Atoi: parsing \\"<b>\\": invalid syntax: invalid filter';
    const bad = await ask(`${LIVE}?limit=%3Cb%3E`);
    expect([bad.status, bad.text]).toEqual([
      500,
      `{"message":"${message.replace('<', '\\u003c').replace('>', '\\u003e')}"}`,
    ]);
    expect((await ask(`${LIVE}?ip=x`, { method: 'HEAD' })).status).toBe(500);
  });
});

describe('usage metrics', () => {
  const body = JSON.stringify({ remediation_components: [{ version: 'v1', utc_startup_timestamp: 1 }] });
  const post = { method: 'POST', body } as const;

  it('are accepted where there is no upstream', async () => {
    const { ask } = await kit(undefined);
    const accepted = await ask(METRICS, post);
    expect([accepted.status, accepted.text, accepted.headers]).toEqual([201, '', {}]);
  });

  it('go on to the upstream that knows the key, as they came', async () => {
    const upstreams = [new FakeUpstream(), new FakeUpstream()] as const;
    upstreams[0].keys = 'refused';
    const { ask } = await kit(undefined, { front: { delegate: true, upstreams } });
    const headers = { 'x-api-key': 'theirs', 'content-type': 'application/json', 'user-agent': 'b/1', cookie: 'x' };
    expect((await ask(METRICS, { ...post, headers })).status).toBe(201);
    expect(upstreams[0].forwarded).toEqual([]);
    expect(upstreams[1].forwarded).toMatchObject([{ method: 'POST', target: METRICS }]);
    expect(upstreams[1].forwarded[0]?.headers).toEqual({
      'x-api-key': 'theirs',
      'content-type': 'application/json',
      'user-agent': 'b/1',
      'x-forwarded-for': '192.0.2.1',
    });
    expect(Buffer.from(upstreams[1].forwarded[0]?.body ?? '').toString()).toBe(body);
  });

  it('are answered as the upstream does where that is about them', async () => {
    const upstream = new FakeUpstream();
    upstream.reply = { status: 422, headers: { 'content-type': 'application/json' }, parts: ['{"message":', '"no"}'] };
    const { ask } = await kit(undefined, { front: { upstreams: [upstream] } });
    const answer = await ask(METRICS, post);
    expect([answer.status, answer.headers, answer.text]).toEqual([
      422,
      { 'content-type': 'application/json' },
      '{"message":"no"}',
    ]);
  });

  it.each([
    ['it is down', new Error('down')],
    ['it is too old for them', { status: 404 }],
    ['it does not know the key', { status: 403 }],
    ['it fails', { status: 500 }],
    ['its answer is cut', { status: 201, parts: [new Error('cut')] }],
  ])('are accepted all the same, and that is told, when %s', async (_, reply) => {
    const upstream = new FakeUpstream();
    upstream.reply = reply;
    const { ask } = await kit(undefined, { front: { upstreams: [upstream] } });
    const facts = kept(notForwarded);
    expect((await ask(METRICS, post)).status).toBe(201);
    expect(facts).toMatchObject([{ bouncer: BOUNCER, route: METRICS }]);
  });

  it('are not waited for without end', async () => {
    const upstream = new FakeUpstream();
    upstream.forward = ({ signal }) =>
      new Promise((_, reject) => signal?.addEventListener('abort', () => reject(new Error('aborted'))));
    const { start, clock } = await kit(undefined, { front: { upstreams: [upstream] } });
    const { exchange, done } = start(METRICS, post);
    await turns(3);
    clock.advance(5000);
    await done;
    expect(exchange.status).toBe(201);
  });

  it.each([
    ['a body that is too large', 'x'.repeat(70_000), 400, 'http: request body too large'],
    ['two processors', '{"log_processors":[{},{}]}', 400, 'Payload has more than one log processor'],
    ['bytes that are no gzip', 'no gzip', 400, 'incorrect header check'],
  ])('are refused with %s', async (_, sent, status, message) => {
    const { ask } = await kit(undefined);
    const headers: Record<string, string> = sent === 'no gzip' ? { 'content-encoding': 'gzip' } : {};
    const refusal = await ask(METRICS, { method: 'POST', body: sent, headers });
    expect([refusal.status, refusal.json]).toEqual([status, { message }]);
  });
});

describe('pass-through', () => {
  const passed = async (upstream: FakeUpstream) => kit([], { front: { upstreams: [upstream], passthrough: true } });

  it('is off unless it is on', async () => {
    const { front } = await kit([], { front: { upstreams: [new FakeUpstream()] } });
    expect(front.routes().map(({ path }) => path)).toEqual([STREAM, LIVE, METRICS, '/health']);
  });

  it('takes everything else to the first upstream and brings back what it says', async () => {
    const upstream = new FakeUpstream();
    upstream.reply = {
      status: 401,
      headers: { 'content-type': 'application/json', 'www-authenticate': 'JWT', connection: 'close', date: 'then' },
      parts: ['{"code":', '401}'],
    };
    const { ask } = await passed(upstream);
    const headers = { authorization: 'Bearer x', 'user-agent': 'crowdsec/v1', 'x-forwarded-for': 'forged' };
    const answer = await ask('/v1/alerts?scope=ip', { method: 'POST', headers, body: '[]' });
    expect([answer.status, answer.headers, answer.text]).toEqual([
      401,
      { 'content-type': 'application/json', 'www-authenticate': 'JWT' },
      '{"code":401}',
    ]);
    expect(upstream.forwarded).toMatchObject([
      {
        method: 'POST',
        target: '/v1/alerts?scope=ip',
        headers: { authorization: 'Bearer x', 'x-forwarded-for': '192.0.2.1' },
        body: Buffer.from('[]'),
      },
    ]);
  });

  it('takes metrics of log processors there, and those of bouncers the other way', async () => {
    const upstream = new FakeUpstream();
    const { start } = await passed(upstream);
    const processor = start(METRICS, {
      method: 'POST',
      body: '{}',
      keyless: true,
      headers: { authorization: 'x' },
    });
    await processor.done;
    expect(processor.exchange.status).toBe(201);
    expect(upstream.forwarded).toHaveLength(1);
    const bouncer = start(METRICS, { method: 'POST', body: '{}' });
    await bouncer.done;
    expect(bouncer.exchange.status).toBe(400);
  });

  it('says so when the upstream is down, and cuts what it cuts', async () => {
    const upstream = new FakeUpstream();
    const facts = kept(notForwarded);
    const { ask } = await passed(upstream);
    upstream.reply = new Error('down');
    const down = await ask('/v1/alerts');
    expect([down.status, down.headers['retry-after']]).toEqual([503, SECONDS]);
    upstream.reply = { status: 200, parts: ['[{"id":1}', new Error('cut')] };
    const cut = await ask('/v1/alerts');
    expect([cut.status, cut.channel.over]).toEqual([200, 'killed']);
    upstream.reply = { status: 200, headers: { 'content-length': '10' }, parts: ['[{"id":1}'] };
    expect((await ask('/v1/alerts')).channel.over).toBe('killed');
    expect(facts).toHaveLength(3);
  });

  it('gives HTTP/1.0 a whole body, and a HEAD none', async () => {
    const upstream = new FakeUpstream();
    const { ask } = await passed(upstream);
    upstream.reply = { status: 200, parts: ['a', 'b'] };
    expect((await ask('/v1/alerts', { httpVersion: '1.0' })).answer).toBe('ab');
    upstream.reply = { status: 204 };
    expect((await ask('/v1/watchers/self', { method: 'DELETE' })).status).toBe(204);
    upstream.reply = { status: 200, parts: [new Error('cut')] };
    expect((await ask('/v1/alerts', { httpVersion: '1.0' })).status).toBe(503);
  });

  it('takes no larger body than it may', async () => {
    const { ask } = await passed(new FakeUpstream());
    expect((await ask('/v1/alerts', { method: 'POST', body: 'x'.repeat(70_000) })).status).toBe(413);
  });
});

describe('the front', () => {
  it('is up as long as it runs, and ready while it has data and stays', async () => {
    const { front, ask, fill } = await kit(undefined);
    expect(front.ready).toBe(false);
    expect((await ask('/health')).text).toBe('{"status":"up"}');
    await fill([]);
    expect(front.ready).toBe(true);
    front.leave();
    expect(front.ready).toBe(false);
    expect((await ask(STREAM)).text).toBe(EMPTY);
  });

  it('says where it stands', async () => {
    const { front, ask } = await kit([decision(1, '192.0.2.1')]);
    await ask(STREAM);
    expect(front.status()).toEqual({
      ready: true,
      offset: 1,
      reach: 0,
      cursors: 1,
      keys: { configured: 1, vouched: 0, refusedLately: 0, beingChecked: 0 },
      pinnedBytes: 0,
    });
  });

  it('is idle when the last request is over', async () => {
    const { front, start, fill } = await kit(undefined);
    await front.idle();
    const early = start(STREAM);
    let isIdle = false;
    const idle = front.idle().then(() => (isIdle = true));
    await turns(3);
    expect(isIdle).toBe(false);
    await fill([]);
    await Promise.all([early.done, idle]);
    expect(isIdle).toBe(true);
  });
});

describe('how soon bouncers have what changed', () => {
  // Fails when it is told for answers without decisions, or before they were received.
  it('is told once they have received it: from the oldest commit that they had not got', async () => {
    const { ask, start, patch, clock, front } = await kit([decision(1, '192.0.2.1')]);
    const ages = kept(pickedUp);
    await ask(`${STREAM}?startup=true`);
    await ask(STREAM);
    expect(front.survey()).toMatchObject({ cursors: 1, behind: { current: 1, few: 0, many: 0 } });
    await patch([decision(2, '192.0.2.2')]);
    clock.advance(4000);
    await patch([decision(3, '192.0.2.3')]);
    clock.advance(1000);
    expect(front.survey().behind).toMatchObject({ current: 0, few: 1, many: 0 });
    const { exchange, done } = start(STREAM);
    await done;
    expect([idsIn(exchange).new, ages]).toEqual([[2, 3], []]);
    exchange.received(true);
    expect(ages).toEqual([{ ms: 5000 }]);
    await patch([decision(4, '192.0.2.4', { simulated: true })]);
    await ask(STREAM);
    expect(ages).toHaveLength(1);
  });

  it('is known of deliveries too, with what they took to get under way', async () => {
    const { ask } = await kit([decision(1, '192.0.2.1')]);
    const facts = kept(delivered);
    await ask(`${STREAM}?startup=true`);
    expect(facts[0]?.stages).toEqual({ pinMs: 0, prepareMs: 0, encodeMs: 0 });
  });

  it('is known with its length before compression', async () => {
    const { ask } = await kit(Array.from({ length: 200 }, (_, at) => decision(at + 1, `10.0.0.${at}`)));
    const facts = kept(delivered);
    const plain = await ask(`${STREAM}?startup=true`);
    await ask(`${STREAM}?startup=true`, { headers: { 'accept-encoding': 'gzip' } });
    expect(facts.map(({ encoding, plainBytes }) => [encoding, plainBytes])).toEqual([
      ['identity', undefined],
      ['gzip', plain.text.length],
    ]);
  });
});
