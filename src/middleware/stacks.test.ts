import http from 'node:http';
import net from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { turns, until } from '../../test/support/conditions.ts';
import {
  BIG_BYTES,
  openStack,
  type Stack,
  type StackName,
  STACKS,
  THROWN,
  World,
} from '../../test/support/middleware.ts';
import {
  type Answer,
  ask,
  connect,
  type Connection,
  disconnect,
  kernelConnections,
  type Rig,
} from '../../test/support/transports.ts';
import { FakeClock } from '../kernel/index.ts';
import { Copies, type CopiesOptions } from './node.ts';

interface Setup {
  readonly clock: FakeClock;
  readonly copies: Copies;
  readonly world: World;
  readonly stack: Stack;
  readonly rig: Rig;
}

const open: Stack[] = [];
// the machine may be busy with other work: a condition that holds is seen at once
vi.setConfig({ testTimeout: 30_000 });

afterEach(async () => {
  for (const stack of open.splice(0)) await stack.close();
  vi.restoreAllMocks();
});

async function setUp(name: StackName, options: Partial<CopiesOptions> = {}): Promise<Setup> {
  const clock = new FakeClock();
  const copies = new Copies({ maxConcurrent: 1, maxQueued: 2, waitMsMax: 5000, slackMs: 2000, clock, ...options });
  const world = new World();
  const stack = await openStack(name, copies, world);
  open.push(stack);
  return { clock, copies, world, stack, rig: { ...stack, rawSockets: undefined as never, faults: [] } };
}

/** Time passes, and the loop turns in between, until something holds. */
async function passUntil(what: string, clock: FakeClock, holds: () => boolean): Promise<void> {
  await until(what, () => {
    if (!holds()) clock.advance(250);
    return holds();
  });
}

/** What became of a request whose answer may never begin. */
async function endOf(
  rig: Rig,
  path: string,
  over: Connection = connect(rig),
): Promise<{ ended: string; status?: number }> {
  if (over instanceof http.Agent) {
    const answer = await ask(rig, path, { over }).catch(() => undefined);
    return answer === undefined ? { ended: 'broken' } : { ended: await answer.ended, status: answer.status };
  }
  const stream = over.request({ ':path': path });
  let status: number | undefined;
  let sawEnd = false;
  stream.on('response', (head) => (status = Number(head[':status'])));
  stream.on('end', () => (sawEnd = true)).on('error', () => undefined);
  stream.resume();
  await new Promise((resolve) => stream.once('close', resolve));
  const ended = sawEnd && status !== undefined && stream.rstCode === 0 ? 'whole' : 'broken';
  return { ended, ...(status === undefined ? {} : { status }) };
}

/** The answer's text, once it is whole. */
async function textOf(answer: Answer): Promise<string> {
  expect(await answer.ended).toBe('whole');
  return answer.text;
}

const isHttp2 = (name: StackName): boolean => name.endsWith('HTTP/2');

describe.each(STACKS)('on %s', (name) => {
  // Rule 5. Fails when #end does not release, or exchangeOf's end is not listened to.
  it.each(['/small', '/big', '/stream', '/deliver'])('%s arrives whole, and its slot is free then', async (path) => {
    const { copies, rig, world, clock } = await setUp(name);
    const answer = await ask(rig, path);
    expect([answer.status, await answer.ended]).toEqual([200, 'whole']);
    const got = [answer.bytes, answer.text.slice(-16), answer.headers['x-way']];
    const way = path === '/deliver' ? 'deliver' : undefined;
    expect(got).toEqual(path === '/small' ? [path.length, path, way] : [BIG_BYTES, 'abcdefghijklmnop', way]);
    await until('the slot free', () => copies.held === 0);
    const { admitted, ended, bytes } = copies.stats();
    expect([admitted, ended.completed, world.aborted, clock.armed]).toEqual([1, 1, [], 0]);
    expect(bytes).toBeGreaterThanOrEqual(answer.bytes);
  });

  it('a slot is held until the last byte was taken', async () => {
    const { copies, rig, world } = await setUp(name);
    const slow = await ask(rig, '/big', { reads: false });
    const next = ask(rig, '/small');
    await until('one in the queue', () => copies.waiting === 1);
    await turns(50);
    expect([copies.held, copies.waiting, world.ran]).toEqual([1, 1, ['/big']]);
    slow.read();
    expect(await slow.ended).toBe('whole');
    expect(await textOf(await next)).toBe('/small');
  });

  // Rules 1, 6. Fails when the handler is run before the answer of the limiter.
  it('who finds no slot waits; who finds no place is shed before any work', async () => {
    const { copies, rig, world } = await setUp(name, { maxQueued: 1 });
    const first = ask(rig, '/gate');
    await until('the gate', () => world.atGate === 1);
    const second = ask(rig, '/small');
    await until('one in the queue', () => copies.waiting === 1);
    const third = await ask(rig, '/big');
    expect([third.status, await third.ended]).toEqual([503, 'whole']);
    const retryAfter = Number(third.headers['retry-after']);
    expect(retryAfter).toBeGreaterThanOrEqual(1);
    expect(third.headers['content-type']).toMatch(/^application\/json/);
    expect(JSON.parse(third.text)).toEqual({
      message: 'Too many requests wait for a copy',
      reason: 'full',
      retryAfterSeconds: retryAfter,
    });
    expect(world.ran).toEqual(['/gate']);
    world.open();
    expect(await textOf(await first)).toBe('/gate');
    expect(await textOf(await second)).toBe('/small');
    await until('the slot free', () => copies.held === 0);
    expect(world.mostHeld).toBe(1);
  });

  it('who waits too long is shed', async () => {
    const { clock, copies, rig, world } = await setUp(name);
    const first = ask(rig, '/gate');
    await until('the gate', () => world.atGate === 1);
    const second = ask(rig, '/small');
    await until('one in the queue', () => copies.waiting === 1);
    clock.advance(5000);
    const shed = await second;
    expect([shed.status, await shed.ended]).toEqual([503, 'whole']);
    expect(shed.text).toContain('"reason":"timeout"');
    world.open();
    await (await first).ended;
    expect(copies.stats().shed.timeout).toBe(1);
  });

  // Rule 6. Fails when enter() gives the limiter no signal, or `exchange.onClose` does not fire it.
  it('who leaves the queue gives its place back at once, and its handler never runs', async () => {
    const { copies, rig, world } = await setUp(name, { maxQueued: 1 });
    const first = ask(rig, '/gate');
    await until('the gate', () => world.atGate === 1);
    const over = connect(rig);
    const leaver = endOf(rig, '/big', over);
    await until('one in the queue', () => copies.waiting === 1);
    disconnect(over);
    await until('its place free', () => copies.waiting === 0);
    expect((await leaver).ended).toBe('broken');
    const third = ask(rig, '/small');
    await until('another in the queue', () => copies.waiting === 1);
    world.open();
    await (await first).ended;
    expect(await textOf(await third)).toBe('/small');
    await until('the slot free', () => copies.held === 0);
    expect(world.ran).toEqual(['/gate', '/small']);
    expect([copies.stats().shed.aborted, world.errors]).toEqual([1, []]);
  });

  // Rule 1. Fails when Watch does not cut (/big, /stream), or deliver() is given no deadline (/deliver).
  it.each(['/big', '/stream', '/deliver'])('%s to a reader that takes nothing is cut by a reset', async (path) => {
    const { clock, copies, rig, world, stack } = await setUp(name);
    const stalled = await ask(rig, path, { reads: false });
    expect(copies.held).toBe(1);
    await passUntil('the slot free', clock, () => copies.held === 0);
    expect(world.aborted).toEqual([`${path}: Cannot deliver: the client takes too little`]);
    expect(copies.stats().ended.stalled).toBe(1);
    // a connection that was destroyed and not reset stays in the kernel with what was not read
    if (!isHttp2(name)) await until('no connection in the kernel', () => (kernelConnections(stack.port) ?? 0) === 0);
    stalled.read();
    expect(await stalled.ended).toBe('broken');
    expect(await textOf(await ask(rig, '/small'))).toBe('/small');
  });

  it.each(['/gate', '/big', '/deliver'])(
    'who leaves in the middle of %s frees its slot, and the signal fires',
    async (path) => {
      const { copies, rig, world } = await setUp(name);
      const over = connect(rig);
      const ends = path === '/gate' ? endOf(rig, path, over) : ask(rig, path, { over, reads: false });
      await until('the handler', () => world.ran.length === 1);
      if (path !== '/gate') await ends;
      disconnect(over);
      await until('the slot free', () => copies.held === 0);
      expect(world.aborted).toEqual([`${path}: Cannot deliver: the client is gone`]);
      expect([await (await ends).ended, copies.stats().ended.client_gone]).toEqual(['broken', 1]);
      expect(await textOf(await ask(rig, '/small'))).toBe('/small');
    },
  );

  // Rule 6, of handlers at work. Fails when a client's end frees the slot at once, and when nobody sees that it was answered.
  it('a handler that works on after its client has left keeps its slot until it answers', async () => {
    const { clock, copies, rig, world } = await setUp(name);
    const over = connect(rig);
    const ends = endOf(rig, '/gate/deaf', over);
    await until('the handler', () => world.atGate === 1);
    const next = ask(rig, '/small');
    await until('one in the queue', () => copies.waiting === 1);
    disconnect(over);
    expect((await ends).ended).toBe('broken');
    await turns(50);
    expect([copies.held, copies.waiting, world.ran]).toEqual([1, 1, ['/gate/deaf']]);
    world.open();
    expect(await textOf(await next)).toBe('/small');
    await until('the slot free', () => copies.held === 0);
    expect([copies.stats().ended.client_gone, copies.stats().ended.completed, clock.armed]).toEqual([1, 1, 0]);
  });

  // Fails when nobody looks at how long it works on.
  it('a handler that works on for ever keeps it for a time only', async () => {
    const { clock, copies, rig, world } = await setUp(name, { leftMsMax: 3000 });
    const over = connect(rig);
    const ends = endOf(rig, '/gate/deaf', over);
    await until('the handler', () => world.atGate === 1);
    disconnect(over);
    expect((await ends).ended).toBe('broken');
    const fromMs = clock.now();
    await passUntil('the slot free', clock, () => copies.held === 0);
    expect(clock.now() - fromMs).toBeGreaterThanOrEqual(3000);
    expect([copies.stats().ended.client_gone, clock.armed]).toEqual([1, 0]);
  });

  it.each(['/throw', '/reject'])(
    '%s reaches the error handling of the framework as it is, and frees the slot',
    async (path) => {
      vi.spyOn(console, 'error').mockReturnValue(undefined);
      const { copies, rig, world } = await setUp(name);
      const answer = await endOf(rig, path);
      // node:http has no error handling: the response is given up
      expect(answer.status).toBe(name.startsWith('node') ? undefined : 500);
      await until('the slot free', () => copies.held === 0);
      expect(world.errors.map((error) => (error as Error).message)).toEqual([
        path === '/throw' ? 'thrown' : 'rejected',
      ]);
      expect(world.errors[0] === THROWN).toBe(path === '/throw');
      expect(await textOf(await ask(rig, '/small'))).toBe('/small');
    },
  );

  // Rule 1. Fails when deliver() ends the channel of a source that broke.
  it.each(['/broken', '/deliver-broken'])('%s is never taken for a whole, and frees its slot', async (path) => {
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    const { clock, copies, rig } = await setUp(name);
    expect((await endOf(rig, path)).ended).toBe('broken');
    await passUntil('the slot free', clock, () => copies.held === 0);
    expect(copies.stats().ended.completed).toBe(0);
    expect(await textOf(await ask(rig, '/small'))).toBe('/small');
  });

  // Fails when Watched#look does not look for how long nothing was written.
  it('a handler that never answers is given up', async () => {
    const { clock, copies, rig, world } = await setUp(name, { handlerMsMax: 30_000 });
    const answer = endOf(rig, '/never');
    await until('the handler', () => world.ran.length === 1);
    clock.advance(30_000);
    await turns(10);
    expect(copies.held).toBe(1);
    await passUntil('the slot free', clock, () => copies.held === 0);
    expect((await answer).ended).toBe('broken');
    expect(world.aborted).toEqual(['/never: Cannot deliver: the handler wrote nothing for too long']);
    expect(copies.stats().ended.overdue).toBe(1);
  });

  // Fails, over HTTP/2, when the exchange waits for the 'finish' of an answer to HEAD: there is none.
  it('an answer without a body is complete, and frees its slot', async () => {
    const { copies, rig, world } = await setUp(name);
    for (const [path, method] of [
      ['/304', 'GET'],
      ['/small', 'HEAD'],
      ['/deliver', 'HEAD'],
      ['/stream', 'HEAD'],
    ] as const) {
      if (name === 'Fastify' && path === '/stream') continue;
      const answer = await ask(rig, path, { method });
      expect([path, answer.status, await answer.ended, answer.bytes]).toEqual([
        path,
        path === '/304' ? 304 : 200,
        'whole',
        0,
      ]);
      await until('the slot free', () => copies.held === 0);
    }
    const { admitted, ended } = copies.stats();
    expect([ended.completed, world.aborted]).toEqual([admitted, []]);
  });

  // Rule 8. Fails when #end does not take the copy off the watch: the connection is then cut as overdue.
  it('a connection that is used again inherits no deadline, and an idle one has none', async () => {
    const { clock, copies, rig, stack } = await setUp(name);
    let connections = 0;
    stack.server.on('connection', () => void connections++);
    const over = connect(rig);
    for (const path of ['/big', '/small', '/deliver', '/stream', '/small']) {
      const answer = await ask(rig, path, { over });
      expect([path, await answer.ended]).toEqual([path, 'whole']);
      await until('the slot free', () => copies.held === 0);
      expect(clock.armed).toBe(0);
      clock.advance(600_000);
      await turns(5);
    }
    expect(connections).toBe(1);
    disconnect(over);
  });

  // Rule 7. Fails when close() does not close the limiter.
  it('close() tells those who wait, admits nobody, and lets the rest end; drain() waits for it', async () => {
    const { copies, rig, world } = await setUp(name);
    const first = ask(rig, '/gate');
    await until('the gate', () => world.atGate === 1);
    const second = ask(rig, '/small');
    await until('one in the queue', () => copies.waiting === 1);
    copies.close();
    let drained = false;
    const drain = copies.drain().then(() => (drained = true));
    const told = await second;
    expect([told.status, await told.ended]).toEqual([503, 'whole']);
    expect(told.text).toContain('"reason":"closed"');
    expect((await ask(rig, '/small')).status).toBe(503);
    expect(drained).toBe(false);
    world.open();
    expect(await textOf(await first)).toBe('/gate');
    await drain;
    expect([copies.held, world.ran, copies.stats().closed]).toEqual([0, ['/gate'], true]);
  });

  it('drain() cuts those that outlast it', async () => {
    const { clock, copies, rig, world } = await setUp(name, { maxConcurrent: 2 });
    const never = endOf(rig, '/never');
    await until('the handler', () => world.ran.length === 1);
    const stalled = await ask(rig, '/deliver', { reads: false });
    copies.close();
    const drained = copies.drain(1000);
    clock.advance(1000);
    await drained;
    stalled.read();
    expect([(await never).ended, await stalled.ended]).toEqual(['broken', 'broken']);
    expect(world.aborted.toSorted()).toEqual(
      ['/deliver', '/never'].map((path) => `${path}: Cannot deliver: the service shuts down`),
    );
    expect([copies.stats().ended.shutdown, clock.armed]).toEqual([2, isHttp2(name) ? clock.armed : 0]);
  });

  it('tenants take turns', async () => {
    const { copies, rig, world } = await setUp(name, { maxQueued: 10 });
    const answers: Promise<Answer>[] = [ask(rig, '/gate')];
    await until('the gate', () => world.atGate === 1);
    for (const [tenant, path] of [
      ['a', '/1'],
      ['a', '/2'],
      ['a', '/3'],
      ['b', '/4'],
    ] as const) {
      answers.push(ask(rig, path, { headers: { 'x-tenant': tenant } }));
      await until('one more in the queue', () => copies.waiting === answers.length - 1);
    }
    world.open();
    for (const answer of await Promise.all(answers)) expect(await answer.ended).toBe('whole');
    expect(world.ran).toEqual(['/gate', '/1', '/4', '/2', '/3']);
  });

  // Rule 9. Fails when the watch charges time in which nothing waits for the client.
  it('time in which the handler is busy is never charged to the reader', async () => {
    const { clock, copies, rig, world } = await setUp(name);
    const answer = ask(rig, '/gate');
    await until('the gate', () => world.atGate === 1);
    for (let second = 0; second < 50; second++) {
      clock.advance(1000);
      await turns(2);
    }
    world.open();
    expect(await textOf(await answer)).toBe('/gate');
    await until('the slot free', () => copies.held === 0);
    expect(copies.stats().ended.completed).toBe(1);
  });
});

describe.each(STACKS.filter((name) => !isHttp2(name)))('pipelined requests on %s', (name) => {
  // Fails when enter() does not wait for the turn of the response: the second then holds the slot that the first is to get.
  it('take a slot only when the response before them is over', async () => {
    const { copies, world, stack, rig } = await setUp(name, { maxConcurrent: 2 });
    const socket = net.connect(stack.port, '127.0.0.1');
    let text = '';
    socket.on('data', (data: Buffer) => (text += data.toString('latin1')));
    socket.write('GET /gate HTTP/1.1\r\nHost: a\r\n\r\nGET /small HTTP/1.1\r\nHost: a\r\n\r\n');
    await until('the gate', () => world.atGate === 1);
    expect(await textOf(await ask(rig, '/other'))).toBe('/other');
    expect([copies.held, copies.waiting, world.ran]).toEqual([1, 0, ['/gate', '/other']]);
    world.open();
    await until('both answers', () => text.endsWith('/small'));
    await until('the slot free', () => copies.held === 0);
    socket.destroy();
  });

  it('are forgotten with their connection', async () => {
    const { copies, world, stack } = await setUp(name);
    const socket = net.connect(stack.port, '127.0.0.1');
    socket.write('GET /gate HTTP/1.1\r\nHost: a\r\n\r\nGET /small HTTP/1.1\r\nHost: a\r\n\r\n');
    await until('the gate', () => world.atGate === 1);
    socket.destroy();
    await until('the slot free', () => copies.held === 0);
    await until('the second forgotten', () => copies.stats().shed.aborted === 1);
    expect(world.ran).toEqual(['/gate']);
  });
});
