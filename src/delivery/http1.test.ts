import net from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { FakeSlot, pages } from '../../test/support/delivery-fakes.ts';
import { openRig, type Rig, type RigOptions } from '../../test/support/transports.ts';
import { FakeClock } from '../kernel/index.ts';
import type { Channel } from './channel.ts';
import { Deliveries, type Report } from './deliveries.ts';
import type { Exchange } from './exchange.ts';
import { blockOf } from './sse.ts';

// real sockets on a machine that may be busy; every wait inside has a bound of its own
vi.setConfig({ testTimeout: 20_000 });

const SSE = { 'content-type': 'text/event-stream' };
const rigs: Rig[] = [];
const sockets: net.Socket[] = [];

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await Promise.all(rigs.splice(0).map((rig) => rig.close()));
});

async function rigOf(handle: (exchange: Exchange) => void, options?: RigOptions): Promise<Rig> {
  const rig = await openRig('http1', handle, options);
  rigs.push(rig);
  return rig;
}

/** A client that speaks bytes, so that what is on the wire can be seen. */
function dial(rig: Rig, text: string) {
  const socket = net.connect(rig.port, '127.0.0.1');
  sockets.push(socket);
  const parts: string[] = [];
  let closed = false;
  socket.on('error', () => {});
  socket.on('data', (data: Buffer) => void parts.push(data.toString('latin1')));
  socket.on('close', () => (closed = true));
  socket.write(text);
  return {
    socket,
    text: () => parts.join(''),
    /** What follows the head of the last response. */
    body: () => parts.join('').split('\r\n\r\n').slice(1).join('\r\n\r\n'),
    closed: () => closed,
  };
}

const until = (condition: () => unknown): Promise<unknown> => vi.waitUntil(condition, { interval: 2, timeout: 8000 });
const request = (path: string, version = '1.1', method = 'GET'): string =>
  `${method} ${path} HTTP/${version}\r\nhost: a\r\n\r\n`;

describe('a chunked response', () => {
  it('sends a write as one chunk, an event as its own, and ends with the last chunk', async () => {
    const rig = await rigOf((exchange) => {
      const channel = exchange.open(200, SSE);
      channel.write([Buffer.from('ab'), Buffer.from('c')], () => {
        channel.send(blockOf('event'));
        channel.send(blockOf(''));
        channel.write([Buffer.from('again')], () => channel.end());
      });
    });
    const client = dial(rig, request('/'));
    await until(() => client.text().endsWith('0\r\n\r\n'));
    expect(client.body()).toBe('3\r\nabc\r\n5\r\nevent\r\n5\r\nagain\r\n0\r\n\r\n');
    expect(client.text()).toContain('Transfer-Encoding: chunked');
  });

  // Fails when drained() does not ask whether anything was held back.
  it('tells of no drain when an event was taken at once', async () => {
    const channels: Channel[] = [];
    let drains = 0;
    const rig = await rigOf((exchange) => {
      const channel = exchange.open(200, SSE);
      channel.onDrain(() => void drains++);
      channels.push(channel);
    });
    const client = dial(rig, request('/'));
    await until(() => channels.length === 1);
    expect(channels[0]?.send(blockOf('event'))).toBe(true);
    await until(() => client.text().endsWith('event\r\n'));
    expect(drains).toBe(0);
  });

  it('sends its head before there is anything to say', async () => {
    const rig = await rigOf((exchange) => void exchange.open(200, SSE));
    const client = dial(rig, request('/'));
    await until(() => client.text().endsWith('\r\n\r\n'));
    expect(client.text()).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  });

  it('leaves its connection fit for the next request', async () => {
    const rig = await rigOf((exchange) => {
      const channel = exchange.open(200, SSE);
      channel.send(blockOf('x'));
      channel.end();
    });
    const client = dial(rig, request('/'));
    await until(() => client.text().endsWith('0\r\n\r\n'));
    client.socket.write(request('/'));
    await until(() => client.text().split('0\r\n\r\n').length === 3);
    expect(client.body().startsWith('1\r\nx\r\n0\r\n\r\nHTTP/1.1 200 OK')).toBe(true);
  });
});

describe('a body of known length', () => {
  // Fails when write() does not end it: a client that counts leaves at the last byte, before anybody has a turn to end it.
  it('is complete with its last byte', async () => {
    const told: boolean[] = [];
    const rig = await rigOf((exchange) => {
      exchange.onClose((complete) => void told.push(complete));
      const channel = exchange.open(200, { 'content-length': '6' });
      channel.write([Buffer.from('abc')], () => channel.write([Buffer.from('def')], () => {}));
    });
    const client = dial(rig, request('/'));
    await until(() => client.body().endsWith('abcdef'));
    client.socket.destroy();
    await until(() => told.length === 1);
    expect(told).toEqual([true]);
  });
});

describe('HTTP/1.0', () => {
  it('gets the bytes as they are, ended by the end of the connection', async () => {
    const rig = await rigOf((exchange) => {
      expect(exchange.httpVersion).toBe('1.0');
      const channel = exchange.open(200, SSE);
      channel.write([Buffer.from('ab'), Buffer.from('c')], () => {
        expect(channel.send(blockOf('event'))).toBe(true);
        channel.end();
      });
    });
    const client = dial(rig, request('/', '1.0'));
    await until(() => client.closed());
    expect(client.body()).toBe('abcevent');
  });

  it('sees a reset when a copy is given up, because an end would make it whole', async () => {
    const channels: Channel[] = [];
    const rig = await rigOf((exchange) => {
      const channel = exchange.open(200, SSE);
      channels.push(channel);
      channel.write([Buffer.from('half')], () => {});
    });
    const client = dial(rig, request('/', '1.0'));
    let code: string | undefined;
    client.socket.on('error', (error: NodeJS.ErrnoException) => (code = error.code));
    await until(() => client.body() === 'half');
    channels[0]?.kill();
    await until(() => client.closed());
    expect(code).toBe('ECONNRESET');
  });
});

describe('pipelined requests', () => {
  function setUp() {
    const clock = new FakeClock();
    const engine = new Deliveries({ clock, slackMs: 1000, creditMs: 500 });
    const channels: Channel[] = [];
    const reports: Report[] = [];
    const slots: FakeSlot[] = [];
    const rig = rigOf((exchange) => {
      // a slot is taken, and a deadline runs, only from the moment at which the response has the connection to itself
      exchange.onTurn(() => {
        const channel = exchange.open(200, SSE);
        const slot = new FakeSlot();
        channels.push(channel);
        slots.push(slot);
        void engine.deliver({ channel, slot, source: pages(2) }).then((report) => void reports.push(report));
      });
    });
    return { clock, engine, channels, reports, slots, rig };
  }

  // Fails when onTurn calls at once: the second delivery then waits for the first one's end, and is cut as stalled.
  it('take their slots one after the other, and none is charged for its wait', async () => {
    const { clock, engine, channels, reports, slots, rig: opening } = setUp();
    const rig = await opening;
    const client = dial(rig, request('/1') + request('/2') + request('/3'));
    for (let i = 1; i <= 3; i++) {
      await until(() => reports.length === i);
      expect([slots.length, channels.length, engine.active]).toEqual([i, i, 0]);
      clock.advance(60_000);
      channels[i - 1]?.end();
    }
    await until(() => client.text().length > 6 * 65_536);
    expect(reports.map(({ outcome }) => outcome)).toEqual(['completed', 'completed', 'completed']);
    expect(slots.map(({ releases }) => releases)).toEqual([1, 1, 1]);
  });

  // Node emits 'close' only on the response whose turn it is. Fails when whenLostBeforeTurn does nothing.
  it('never have their turn when their client leaves before, and are told so', async () => {
    const turns: string[] = [];
    const told: string[] = [];
    const rig = await rigOf((exchange) => {
      exchange.onTurn(() => void turns.push(exchange.path));
      exchange.onClose((complete) => void told.push(`${exchange.path} ${complete}`));
      if (exchange.path === '/3') exchange.open(200, SSE).onClose((complete) => void told.push(`channel ${complete}`));
    });
    const client = dial(rig, request('/1') + request('/2') + request('/3'));
    await until(() => turns.length === 1);
    await new Promise((resolve) => setImmediate(resolve));
    client.socket.destroy();
    await until(() => told.length === 4);
    expect(told.toSorted()).toEqual(['/1 false', '/2 false', '/3 false', 'channel false']);
    expect(turns).toEqual(['/1']);
  });

  it('of any number share one listener on their connection', async () => {
    const exchanges: Exchange[] = [];
    const sockets: net.Socket[] = [];
    const rig = await rigOf((exchange) => void exchanges.push(exchange));
    rig.server.on('request', (req: { socket: net.Socket }) => void sockets.push(req.socket));
    const client = dial(rig, request('/'));
    await until(() => sockets.length === 1);
    const before = sockets[0]?.listenerCount('close') ?? 0;
    client.socket.write(request('/').repeat(30));
    await until(() => exchanges.length === 31);
    expect(sockets[30]?.listenerCount('close')).toBe(before + 1);
    for (const exchange of exchanges) exchange.reply(200, {}, 'x');
    await until(() => client.text().split('HTTP/1.1 200').length === 32);
  });

  it('that are opened before their turn are kept in order', async () => {
    const first: Channel[] = [];
    const rig = await rigOf((exchange) => {
      const channel = exchange.open(200, SSE);
      if (exchange.path === '/1') {
        first.push(channel);
        return;
      }
      channel.send(blockOf('second'));
      channel.write([Buffer.from('third')], () => channel.end());
    });
    const client = dial(rig, request('/1') + request('/2'));
    await until(() => client.text().includes('200 OK'));
    first[0]?.send(blockOf('first'));
    first[0]?.end();
    await until(() => client.text().endsWith('5\r\nthird\r\n0\r\n\r\n'));
    expect(client.body()).toMatch(
      /^5\r\nfirst\r\n0\r\n\r\nHTTP\/1\.1 200 OK[^]*\r\n\r\n6\r\nsecond\r\n5\r\nthird\r\n0\r\n\r\n$/,
    );
  });
});

it('a channel opened on a connection that is gone is dead at once', async () => {
  const told: boolean[] = [];
  const rig = await rigOf((exchange) => {
    exchange.onClose(() => {
      const channel = exchange.open(200, SSE);
      channel.onClose((complete) => void told.push(complete));
      expect(channel.dead).toBe(true);
    });
  });
  const client = dial(rig, request('/'));
  await until(() => client.socket.readyState === 'open');
  client.socket.destroy();
  await until(() => told.length === 1);
  expect(told).toEqual([false]);
});
