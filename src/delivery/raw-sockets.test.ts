import { EventEmitter } from 'node:events';
import type http from 'node:http';
import net, { type AddressInfo, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TLSSocket } from 'node:tls';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  ask,
  connect,
  type Connection,
  disconnect,
  openRig,
  type Rig,
  TRANSPORTS,
} from '../../test/support/transports.ts';
import { resetConnection, trackRawSockets } from './raw-sockets.ts';

// real sockets on a machine that may be busy; every wait inside has a bound of its own
vi.setConfig({ testTimeout: 20_000 });

const rigs: Rig[] = [];
const connections: Connection[] = [];

afterEach(async () => {
  for (const connection of connections.splice(0)) disconnect(connection);
  await Promise.all(rigs.splice(0).map((rig) => rig.close()));
});

const until = (condition: () => unknown): Promise<unknown> => vi.waitUntil(condition, { interval: 2, timeout: 5000 });

describe.each(TRANSPORTS)('over %s', (transport) => {
  it('finds the TCP socket of each connection, and forgets it when it closes', async () => {
    const rig = await openRig(transport, (exchange) => exchange.reply(200, {}, 'ok'));
    rigs.push(rig);
    const raws: Socket[] = [];
    const found: (Socket | undefined)[] = [];
    rig.server.on('connection', (socket: Socket) => void raws.push(socket));
    rig.server.on('request', (req: http.IncomingMessage & { stream?: { session: never } }) => {
      found.push(
        req.stream === undefined ? rig.rawSockets.ofSocket(req.socket) : rig.rawSockets.ofSession(req.stream.session),
      );
    });
    for (let i = 0; i < 3; i++) {
      const over = connect(rig);
      connections.push(over);
      expect(await (await ask(rig, '/', { over })).ended).toBe('whole');
    }
    expect(found).toEqual(raws);
    expect(rig.rawSockets.size).toBe(transport === 'http1' ? 0 : 3);
    for (const connection of connections) disconnect(connection);
    await until(() => rig.rawSockets.size === 0);
  });
});

/** As much of a socket as is looked at. */
function fakeSocket(endpoints: Partial<Socket>, tlsSocket = false): Socket {
  const socket = Object.assign(new EventEmitter(), endpoints) as unknown as Socket;
  if (tlsSocket)
    Object.setPrototypeOf(socket, Object.create(TLSSocket.prototype, Object.getOwnPropertyDescriptors(endpoints)));
  return socket;
}

describe('the registry', () => {
  const endpoints = { remoteAddress: '10.0.0.1', remotePort: 4000, localAddress: '10.0.0.2', localPort: 443 };

  // Fails when the socket is looked up by its endpoints at the moment of the kill.
  it('never takes a later connection with the same endpoints for an earlier one', () => {
    const server = new EventEmitter() as unknown as Server;
    const sockets = trackRawSockets(server);
    const [early, late] = [fakeSocket(endpoints), fakeSocket(endpoints)];
    const overEarly = fakeSocket(endpoints, true);
    server.emit('connection', early);
    server.emit('secureConnection', overEarly);
    server.emit('connection', late);
    expect(sockets.ofSocket(overEarly)).toBe(early);
    // the earlier one's close must not drop the later one
    early.emit('close');
    expect(sockets.size).toBe(1);
    const overLate = fakeSocket(endpoints, true);
    server.emit('secureConnection', overLate);
    expect(sockets.ofSocket(overLate)).toBe(late);
    late.emit('close');
    expect(sockets.size).toBe(0);
  });

  it('keeps connections apart that differ in one part of their names', () => {
    const server = new EventEmitter() as unknown as Server;
    const sockets = trackRawSockets(server);
    const others = [
      {},
      { remotePort: 4001 },
      { remoteAddress: '10.0.0.3' },
      { localPort: 444 },
      { localAddress: '10.0.0.4' },
    ];
    const raws = others.map((other) => fakeSocket({ ...endpoints, ...other }));
    for (const raw of raws) server.emit('connection', raw);
    expect(sockets.size).toBe(others.length);
    for (const [i, other] of others.entries()) {
      const over = fakeSocket({ ...endpoints, ...other }, true);
      server.emit('secureConnection', over);
      expect(sockets.ofSocket(over)).toBe(raws[i]);
    }
  });

  it('keeps nothing for a socket without endpoints, and takes an error that nobody else listens to', () => {
    const server = new EventEmitter() as unknown as Server;
    const sockets = trackRawSockets(server);
    server.emit('connection', fakeSocket({}));
    const over = fakeSocket({}, true);
    server.emit('secureConnection', over);
    expect([sockets.size, sockets.ofSocket(over)]).toEqual([0, undefined]);
    const raw = fakeSocket(endpoints);
    server.emit('connection', raw);
    expect(() => raw.emit('error', new Error('ECONNRESET'))).not.toThrow();
  });
});

describe('a reset', () => {
  it('reaches the client as one', async () => {
    const server = net.createServer((socket) => resetConnection(socket));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const client = net.connect((server.address() as AddressInfo).port, '127.0.0.1');
    const error = await new Promise<NodeJS.ErrnoException>((resolve) => client.once('error', resolve));
    expect(error.code).toBe('ECONNRESET');
    server.close();
  });

  it('of a Unix socket, which has none, closes it', async () => {
    const path = join(tmpdir(), `headgate-reset-${process.pid}.sock`);
    const accepted: Socket[] = [];
    const server = net.createServer((socket) => {
      accepted.push(socket);
      resetConnection(socket);
      resetConnection(socket);
    });
    await new Promise<void>((resolve) => server.listen(path, resolve));
    const client = net.connect(path);
    client.on('error', () => {});
    client.resume();
    await new Promise((resolve) => client.once('close', resolve));
    expect(accepted[0]?.destroyed).toBe(true);
    server.close();
  });
});
