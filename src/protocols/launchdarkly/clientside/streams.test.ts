import { afterEach, describe, expect, it } from 'vitest';
import {
  CLIENT_INFO,
  type ClientSideRig,
  ENV_ID,
  encoded,
  members,
  MOBILE_KEY,
  type RigOptions,
  startClientSide,
  valued,
} from '../../../../test/support/clientside-rig.ts';
import { turns, until } from '../../../../test/support/conditions.ts';
import { gone, put } from '../../../../test/support/flags-items.ts';
import { SseReader } from '../../../../test/support/sse-reader.ts';
import { FakeClock } from '../../../kernel/index.ts';
import { caughtUp, delivered, failed, requested, taken } from '../facts.ts';

const ME = { kind: 'user', key: 'me' };
const pathOf = (context: object): string => `/sdk/stream/eval/${encoded(context)}?auth=${ENV_ID}`;
const PATH = pathOf(ME);

let rig: ClientSideRig | undefined;
afterEach(async () => {
  await rig?.stop();
  rig = undefined;
});

const START = [
  valued('a', 1, { value: 'one' }),
  valued('b', 1, { value: 'out', segment: { key: 's', value: 'in' } }),
  valued('hidden', 1, { value: 'x', sees: [] }),
  members('s', 1, []),
];

async function start(options: RigOptions = {}): Promise<ClientSideRig> {
  rig = await startClientSide(options);
  await rig.load(START);
  return rig;
}

describe('a stream of values', () => {
  it('begins with everything, and goes on with what changed for its context', async () => {
    const one = await start();
    const me = await one.stream(PATH);
    const other = await one.stream(pathOf({ kind: 'user', key: 'other' }));
    await me.event(4);
    await other.event(4);
    expect(me.names).toEqual(['server-intent', 'put-object', 'put-object', 'payload-transferred']);
    expect((await me.event(1)).json).toMatchObject({ payloads: [{ intentCode: 'xfer-full', reason: 'cant-catchup' }] });
    expect((await me.event(2)).json).toEqual({
      version: 1,
      kind: 'flag-eval',
      key: 'a',
      object: { value: 'one', variation: 0, flagVersion: 1 },
    });
    const { json, id } = await me.event(4);
    expect(json).toMatchObject({ state: id });
    expect(id).toMatch(/^[A-Za-z0-9_-]{43}\.[0-9]+\.eval-[0-9a-f]{40}-0$/);
    expect(me.reply.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'GET,OPTIONS',
    });
    // an edit of a segment is a change for those whose values it changes, and a new position for the others
    await one.apply(put(members('s', 2, ['me'])));
    expect((await me.event(5)).json).toMatchObject({ key: 'b', object: { value: 'in', flagVersion: 1 } });
    expect((await me.event(6)).event).toBe('payload-transferred');
    expect((await other.event(5)).event).toBe('payload-transferred');
    expect(one.evaluator.asked.at(-1)?.keys).toEqual(['b']);
    await one.apply(gone('flags', 'a', 2), put(valued('c', 1, { value: 'new' })), gone('flags', 'hidden', 2));
    expect((await me.event(7)).json).toMatchObject({ key: 'c', object: { value: 'new' } });
    expect(await me.event(8)).toMatchObject({
      event: 'delete-object',
      json: { version: 2, kind: 'flag-eval', key: 'a' },
    });
    await me.event(9);
    await turns(10);
    expect(me.names).toHaveLength(9);
    const evaluations = one.evaluator.asked.length;
    await one.apply(put(members('unused', 1, ['me'])));
    await turns(10);
    expect(me.names).toHaveLength(9);
    expect(one.evaluator.asked.length).toBe(evaluations);
  });

  // Fails when #sendMissed does not tell.
  it('counts among those that have taken a change, with what it was sent', async () => {
    const one = await start();
    const me = await one.stream(PATH);
    await me.event(4);
    const told: object[] = [];
    const stop = taken.listen(({ clients, bytes, ms }) => told.push({ clients, bytes, late: ms > 60_000 }));
    const before = me.reply.bytes;
    await one.apply(put(members('s', 2, ['me'])));
    await me.event(6);
    await until('it is told', () => told.length > 0);
    stop();
    expect(told).toEqual([{ clients: 1, bytes: me.reply.bytes - before, late: false }]);
  });

  it('takes its context from a body as well, for phones', async () => {
    const one = await start();
    for (const method of ['POST', 'REPORT']) {
      const headers = { 'content-type': 'application/json', authorization: MOBILE_KEY };
      const reply = await one.ask('/sdk/stream/eval', { method, headers, body: JSON.stringify(ME) }).begun();
      expect(reply.status).toBe(200);
      await new SseReader(reply).event(4);
    }
    expect((await one.get(`/sdk/stream/eval/${encoded(ME)}`)).status).toBe(401);
    expect((await one.get(`/sdk/stream/eval/%25?auth=${ENV_ID}`)).status).toBe(400);
  });

  it('is told that it is up to date, or what it missed, by its position', async () => {
    const one = await start();
    const first = await one.stream(PATH);
    const { id = '' } = await first.event(4);
    const evaluations = one.evaluator.asked.length;
    const facts: object[] = [];
    const stop = caughtUp.listen(({ changes }) => facts.push({ changes }));
    const current = await one.stream(`${PATH}&basis=${id}`);
    expect(await current.event(1)).toMatchObject({
      event: 'server-intent',
      id,
      json: { payloads: [{ intentCode: 'none' }] },
    });
    expect(one.evaluator.asked.length).toBe(evaluations);
    await one.apply(put(valued('a', 2, { value: 'two' })));
    // one that was told nothing but "up to date" gets changes as well
    expect((await current.event(2)).json).toMatchObject({ key: 'a', object: { value: 'two' } });
    const nearly = await one.stream(PATH, { 'last-event-id': id });
    const intent = await nearly.event(1);
    expect(intent.json).toMatchObject({ payloads: [{ intentCode: 'xfer-changes', reason: 'stale' }] });
    expect((await nearly.event(2)).json).toMatchObject({ key: 'a', object: { value: 'two' } });
    const latest = await nearly.event(3);
    expect(latest.id).toBe((await current.event(3)).id);
    await one.apply(put(members('unused', 1, [])));
    const untouched = await one.stream(`${PATH}&basis=${latest.id}`);
    expect((await untouched.event(1)).json).toMatchObject({ payloads: [{ intentCode: 'none' }] });
    stop();
    expect(facts).toEqual([{ changes: 0 }, { changes: 1 }, { changes: 0 }]);
    const stranger = await one.stream(`${pathOf({ kind: 'user', key: 'other' })}&basis=${latest.id}`);
    expect((await stranger.event(1)).json).toMatchObject({ payloads: [{ intentCode: 'xfer-full' }] });
  });

  it('waits for the first data with heartbeats', async () => {
    rig = await startClientSide({ clock: new FakeClock() });
    rig.front.upsert(CLIENT_INFO);
    const stream = await rig.stream(PATH);
    await rig.pass(180_000, 60_000);
    await stream.until('a heartbeat', () => stream.comments === 1);
    await rig.load(START);
    await stream.event(4);
    expect(stream.names[0]).toBe('server-intent');
    await rig.pass(180_000, 60_000);
    await stream.until('a heartbeat', () => stream.comments === 2);
  });

  // Fails when untilData() is not awaited: the head of the stream is sent, and everything with the first data.
  it('that names a position waits for the first data before its head, and is told what it misses', async () => {
    const before = await start();
    const { id } = await (await before.stream(PATH)).event(4);
    await before.stop();
    rig = await startClientSide();
    rig.front.upsert(CLIENT_INFO);
    let asked = 0;
    const stop = requested.listen(() => asked++);
    const opening = rig.stream(`${PATH}&basis=${id}`);
    await until('its request', () => asked === 1);
    await rig.load(START);
    expect((await (await opening).event(1)).json).toMatchObject({ payloads: [{ intentCode: 'none' }] });
    stop();
  });

  it('gets everything again when the log is broken, without being refused', async () => {
    const one = await start({ limits: { maxConcurrent: 1, maxQueued: 0 } });
    const stream = await one.stream(PATH);
    await stream.event(4);
    const held = one.limiter.tryAcquire();
    await one.apply(put(valued('a', 1, { value: 'rolled back' })));
    await until('it in the queue', () => one.limiter.waitingOpen === 1);
    expect(stream.events).toHaveLength(4);
    if (held.admitted) held.slot.release();
    expect((await stream.event(5)).json).toMatchObject({ payloads: [{ intentCode: 'xfer-full' }] });
    expect((await stream.event(6)).json).toMatchObject({ key: 'a', object: { value: 'rolled back' } });
  });

  it('is told of changes while no slot is free', async () => {
    const one = await start({ limits: { maxConcurrent: 1, maxQueued: 0 } });
    const stream = await one.stream(PATH);
    await stream.event(4);
    const held = one.limiter.tryAcquire();
    await one.apply(put(valued('a', 2, { value: 'two' })));
    expect((await stream.event(5)).json).toMatchObject({ key: 'a' });
    if (held.admitted) held.slot.release();
  });

  it('has a slot for a change as large as a copy', async () => {
    const one = await start({ limits: { maxConcurrent: 1, maxQueued: 0 } });
    const large = (version: number) =>
      Array.from({ length: 40 }, (_, at) => valued(`f${at}`, version, { value: `${version}`.repeat(10_000) }));
    await one.load(large(2));
    const stream = await one.stream(PATH);
    await stream.event(42);
    const what: string[] = [];
    const stop = delivered.listen((fact) => what.push(fact.what));
    const held = one.limiter.tryAcquire();
    await one.apply(...large(3).map(put));
    await until('it in the queue', () => one.limiter.waitingOpen === 1);
    if (held.admitted) held.slot.release();
    await stream.event(83);
    await until('a delivery', () => what.length === 1);
    stop();
    expect(what).toEqual(['catch-up']);
    expect(stream.names.slice(42, 44)).toEqual(['put-object', 'put-object']);
  });

  it('ends with its environment, with its key, and with a goodbye when the server goes', async () => {
    const one = await start();
    const mobile = await one.stream(`/sdk/stream/eval/${encoded(ME)}`, { authorization: MOBILE_KEY });
    const page = await one.stream(PATH);
    await Promise.all([mobile.event(4), page.event(4)]);
    one.front.upsert({ ...CLIENT_INFO, mobileKey: 'mob-new' });
    one.side.endRevoked();
    await mobile.reply.whole();
    expect(page.reply.over).toBeUndefined();
    const closed = one.side.closeStreams(0);
    await page.reply.whole();
    await closed;
    expect(page.names.at(-1)).toBe('goodbye');
    const last = await one.stream(PATH).catch(() => undefined);
    await last?.reply.whole();
  });

  it.each(['endStreams', 'closeStreams'] as const)(
    'that is ended (%s) while a change is evaluated for it ends in good order',
    async (how) => {
      const one = await start();
      const connection = one.connect();
      const reply = await one.ask(PATH, {}, connection).begun();
      const stream = new SseReader(reply);
      await stream.event(4);
      // it reads on when the change has been evaluated: a reset would take what it has not read with it
      connection.pause(reply);
      const release = one.evaluator.hold();
      await one.apply(put(valued('a', 2, { value: 'two' })));
      await until('an evaluation', () => one.evaluator.running === 1);
      if (how === 'endStreams') one.side.endStreams(() => true);
      else void one.side.closeStreams(0);
      release();
      await until('no evaluation', () => one.evaluator.running === 0);
      await turns(20);
      connection.resume(reply);
      expect((await reply.whole()).over).toBe('whole');
      expect(stream.events.map(({ event }) => event).slice(4)).toEqual(how === 'endStreams' ? [] : ['goodbye']);
    },
  );

  it('that is ended while it is sent a copy gets all of it first', async () => {
    const one = await start();
    await one.load(Array.from({ length: 40 }, (_, at) => valued(`f${at}`, 2, { value: 'x'.repeat(300_000) })));
    const connection = one.connect();
    const reply = one.ask(PATH, { bytesMax: 1 }, connection);
    await reply.until('its first byte', () => reply.bytes > 0);
    one.side.endStreams(() => true);
    await one.apply(put(valued('f0', 3, { value: 'late' })));
    connection.resume(reply);
    await reply.whole();
    expect(reply.body).toContain('event: payload-transferred');
    expect(reply.body).not.toContain('late');
  });

  it('is sent nothing by an evaluator that is behind what it has', async () => {
    const one = await start({ clock: new FakeClock() });
    const before = one.environment.data.snapshot();
    await one.apply(put(valued('a', 2, { value: 'two' })));
    const stream = await one.stream(PATH);
    await stream.event(4);
    one.evaluator.snapshot = before;
    await one.apply(put(valued('a', 3, { value: 'three' })));
    await one.pass(100, 10);
    expect(stream.events).toHaveLength(4);
    one.evaluator.snapshot = undefined;
    await one.pass(100, 10);
    expect((await stream.event(5)).json).toMatchObject({ object: { value: 'three' } });
  });

  it('is reset by a fault of ours: silence would say that nothing changed', async () => {
    const one = await start();
    const stream = await one.stream(PATH);
    await stream.event(4);
    const faults: unknown[] = [];
    const stop = failed.listen(({ error, route }) => faults.push({ error, route }));
    one.evaluator.failure = new Error('out of order');
    await one.apply(put(valued('a', 2, { value: 'two' })));
    await stream.reply.ended();
    stop();
    expect(stream.reply.over).toBe('cut');
    expect(faults).toEqual([{ error: one.evaluator.failure, route: '/sdk/stream/eval/:context' }]);
  });

  it('gives its slot back when its client leaves while it is evaluated', async () => {
    const one = await start({ limits: { maxConcurrent: 1 } });
    const release = one.evaluator.hold();
    const connection = one.connect();
    one.ask(PATH, {}, connection);
    await until('an evaluation', () => one.evaluator.running === 1);
    expect(one.limiter.held).toBe(1);
    connection.leave();
    await until('a free slot', () => one.limiter.held === 0);
    release();
    await until('no evaluation', () => one.evaluator.running === 0);
    expect(one.side.streams).toBe(0);
  });

  it.each(['http1', 'h2c'] as const)('never goes on when its copy was cut (%s)', async (transport) => {
    const one = await start({ transport, front: { capMs: 1000 } });
    await one.load(Array.from({ length: 100 }, (_, at) => valued(`f${at}`, 2, { value: 'x'.repeat(300_000) })));
    const outcomes: string[] = [];
    const stop = delivered.listen(({ outcome }) => outcomes.push(outcome));
    const connection = one.connect();
    const slow = one.ask(PATH, { bytesMax: 1 }, connection);
    await until('a cut', () => outcomes.length === 1);
    stop();
    await one.apply(put(valued('f0', 3, { value: 'late' })));
    connection.resume(slow);
    await slow.ended();
    expect(slow.over).toBe('cut');
    expect(slow.body).not.toContain('late');
    expect(slow.body).not.toContain('payload-transferred');
  });
});

describe('many streams', () => {
  it('are evaluated so many at a time, in order of waiting, and what came meanwhile is one evaluation', async () => {
    const one = await start({ side: { evaluationsMax: 3 }, limits: { maxConcurrent: 100 } });
    const contexts = Array.from({ length: 20 }, (_, at) => ({ kind: 'user', key: `user-${at}` }));
    const streams = await Promise.all(contexts.map((context) => one.stream(pathOf(context))));
    await Promise.all(streams.map((stream) => stream.event(4)));
    one.evaluator.asked.length = 0;
    one.evaluator.runningMax = 0;
    const release = one.evaluator.hold();
    for (let version = 2; version < 12; version++) await one.apply(put(valued('a', version, { value: `v${version}` })));
    await until('evaluations', () => one.evaluator.running === 3);
    // a newcomer is not behind them: it has a slot
    const newcomer = await Promise.race([
      one
        .ask(pathOf({ kind: 'user', key: 'newcomer' }))
        .until('nothing', () => false)
        .catch(() => undefined),
      until('its evaluation', () => one.evaluator.running === 4),
    ]);
    expect(newcomer).toBeUndefined();
    release();
    await Promise.all(
      streams.map((stream) =>
        stream.until('the last value', () => stream.events.some(({ data }) => data.includes('v11'))),
      ),
    );
    expect(one.evaluator.runningMax).toBe(4);
    const waited = one.evaluator.asked.filter(({ keys }) => keys !== undefined).map(({ context }) => context);
    // three were under way at the second version and came again; all others were evaluated once, for ten changes
    expect(waited.length).toBeLessThanOrEqual(20 + 3 + 3);
    expect(new Set(waited.slice(0, 20)).size).toBe(20);
    for (const stream of streams.slice(5, 15)) {
      const values = stream.events
        .filter(({ data }) => data.includes('"a"'))
        .map(({ data }) => /v[0-9]+/.exec(data)?.[0]);
      expect(values.slice(1)).toEqual(['v11']);
    }
  });

  it('that leave while they wait are not evaluated', async () => {
    const one = await start({ side: { evaluationsMax: 1 } });
    const connections = Array.from({ length: 4 }, () => one.connect());
    const streams = await Promise.all(
      connections.map((connection, at) => one.ask(pathOf({ kind: 'user', key: `u${at}` }), {}, connection).begun()),
    );
    const readers = streams.map((reply) => new SseReader(reply));
    await Promise.all(readers.map((reader) => reader.event(4)));
    one.evaluator.asked.length = 0;
    const release = one.evaluator.hold();
    await one.apply(put(valued('a', 2, { value: 'two' })));
    await until('an evaluation', () => one.evaluator.running === 1);
    for (const connection of connections.slice(1, 3)) connection.leave();
    await until('two streams', () => one.side.streams === 2);
    release();
    await Promise.all([readers[0]?.event(6), readers[3]?.event(6)]);
    expect(one.evaluator.asked).toHaveLength(2);
  });
});
