import net, { type AddressInfo, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  bytesAcked,
  kernelHeldBytes,
  lowWaterOf,
  probeLowWater,
  setLowWater,
  slackMsFor,
  type SocketFunctions,
  type SocketOptions,
  tcpInfo,
} from './kernel-socket.ts';

// real sockets on a machine that may be busy; every wait inside has a bound of its own
vi.setConfig({ testTimeout: 20_000 });

const open: (Server | Socket)[] = [];

afterEach(() => {
  for (const handle of open.splice(0)) {
    if (handle instanceof net.Server) handle.close();
    else handle.destroy();
  }
});

const until = (condition: () => unknown): Promise<unknown> => vi.waitUntil(condition, { interval: 2, timeout: 8000 });

async function listen(accept: (socket: Socket) => void = () => {}): Promise<Server> {
  const server = net.createServer((socket) => {
    open.push(socket);
    socket.on('error', () => {});
    accept(socket);
  });
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

async function dial(server: Server, reads = false): Promise<Socket> {
  const socket = net.connect((server.address() as AddressInfo).port, '127.0.0.1');
  open.push(socket);
  socket.on('error', () => {});
  if (!reads) socket.pause();
  await new Promise((resolve) => socket.once('connect', resolve));
  return socket;
}

/** Options of sockets as another system would have them. */
function systemOf(given: {
  mark?: string;
  functions?: Partial<SocketFunctions>;
  load?: () => SocketFunctions;
}): SocketOptions {
  const kept = new Map<number, number>();
  const functions: SocketFunctions = {
    set: (_fd, _level, option, value) => {
      kept.set(option, value.readUInt32LE(0));
      return 0;
    },
    get: (_fd, _level, option, value) => value.writeUInt32LE(kept.get(option) ?? 0),
    errno: () => 1,
    ...given.functions,
  };
  return {
    systemMark: () => {
      if (given.mark === undefined) throw new Error('ENOENT');
      return given.mark;
    },
    load: given.load ?? (() => functions),
  };
}

const isLinux = process.platform === 'linux';

describe.runIf(isLinux)('the low-water mark on this machine', () => {
  it('is set on the listening socket, and every accepted socket inherits it', async () => {
    const accepted: Socket[] = [];
    const server = await listen((socket) => void accepted.push(socket));
    const mark = setLowWater(server, { bytes: 32_768 });
    expect(mark.mode).not.toBe('none');
    await dial(server);
    await until(() => accepted.length === 1);
    expect(lowWaterOf(server)).toBe(mark.bytes);
    expect(lowWaterOf(accepted[0] as Socket)).toBe(mark.bytes);
  });

  // Fails when the mark is set with another option, or on another socket.
  it('holds back what a stalled reader would hide: little is sent that has not left', async () => {
    const held = new Map<boolean, number>();
    for (const enabled of [false, true]) {
      let taken = 0;
      const server = await listen((socket) => {
        const page = Buffer.alloc(65_536);
        const write = (): void => {
          socket.write(page, (error) => {
            if (error) return;
            taken += page.byteLength;
            write();
          });
        };
        write();
      });
      setLowWater(server, { enabled });
      await dial(server);
      let last = -1;
      let still = 0;
      await until(() => {
        still = taken === last ? still + 1 : 0;
        last = taken;
        return still > 50;
      });
      held.set(enabled, taken);
    }
    expect(held.get(true)).toBeLessThan((held.get(false) ?? 0) / 2);
  });

  it('can be tried beforehand', async () => {
    expect(await probeLowWater()).toBe(true);
  });

  it('is not touched when it is switched off', async () => {
    const server = await listen();
    const before = lowWaterOf(server);
    const mark = setLowWater(server, { enabled: false });
    expect([mark.mode === 'set', lowWaterOf(server)]).toEqual([false, before]);
  });
});

describe.runIf(isLinux)('what the kernel says of a connection', () => {
  it('is what was acknowledged, and what was not sent yet', async () => {
    const accepted: Socket[] = [];
    const server = await listen((socket) => void accepted.push(socket));
    const client = await dial(server, true);
    let got = 0;
    client.on('data', (data) => (got += data.byteLength));
    await until(() => accepted.length === 1);
    const socket = accepted[0] as Socket;
    // not one byte for the handshake: a response could else count as received that lacks its last byte
    expect(bytesAcked(socket)).toBe(0);
    socket.write(Buffer.alloc(100_000));
    await until(() => got === 100_000);
    await until(() => tcpInfo(socket)?.unacked === 0);
    expect(tcpInfo(socket)).toMatchObject({ bytesAcked: 100_000, bytesReceived: 0, notSentBytes: 0 });
    expect(bytesAcked(socket)).toBe(socket.bytesWritten);
    expect(tcpInfo(socket)?.roundTripMs).toBeGreaterThan(0);
    client.write(Buffer.alloc(1234));
    await until(() => tcpInfo(socket)?.bytesReceived === 1234);
  });

  // Fails when kernelHeldBytes() leaves out what was not sent.
  it('is how much it holds: what was handed to it, less what was acknowledged', async () => {
    let socket: Socket | undefined;
    const server = await listen((accepted) => (socket = accepted));
    await dial(server);
    const sender = await until(() => socket).then(() => socket as Socket);
    expect(kernelHeldBytes(sender)).toBe(0);
    sender.write(Buffer.alloc(32 * 1024 * 1024));
    const inNode = (): number => (sender as unknown as { _handle: { writeQueueSize: number } })._handle.writeQueueSize;
    // once the reader's own kernel is full nothing moves any more
    await until(() => (kernelHeldBytes(sender) ?? 0) > 0 && tcpInfo(sender)?.unacked === 0);
    const held = kernelHeldBytes(sender) ?? 0;
    expect(held).toBeGreaterThan(0);
    expect(held + (bytesAcked(sender) ?? 0)).toBe(sender.bytesWritten - inNode());
  });

  it('is nothing once the socket is closed', async () => {
    const server = await listen();
    const client = await dial(server);
    expect(tcpInfo(client)).toBeDefined();
    client.destroy();
    await until(() => client.closed);
    const asked = [tcpInfo(client), lowWaterOf(client), bytesAcked(client), kernelHeldBytes(client)];
    expect(asked).toEqual([undefined, undefined, undefined, undefined]);
  });
});

describe('where the mark cannot be set', () => {
  const reasonOf = async (system: SocketOptions, options = {}): Promise<string> => {
    const mark = setLowWater(await listen(), options, system);
    expect([mark.mode, mark.bytes]).toEqual(['none', undefined]);
    return mark.reason;
  };

  it('the answer says why', async () => {
    const notLoaded = systemOf({
      load: () => {
        throw new Error("Cannot find module 'koffi'");
      },
    });
    expect(await reasonOf(notLoaded)).toBe("Cannot set the low-water mark: Cannot find module 'koffi'");
    const denied = systemOf({ functions: { set: () => -1 } });
    expect(await reasonOf(denied)).toBe('Cannot set the low-water mark: the kernel refused, errno 1');
    const changed = systemOf({ functions: { get: (_fd, _level, _option, value) => value.writeUInt32LE(77) } });
    expect(await reasonOf(changed)).toBe('Cannot set the low-water mark: the kernel kept 77 instead of 65536');
    const short = systemOf({ functions: { get: () => 2 } });
    expect(await reasonOf(short)).toBe('Cannot set the low-water mark: the kernel kept undefined instead of 65536');
    expect(await reasonOf(systemOf({}), { enabled: false })).toBe('Cannot set the low-water mark: it is switched off');
  });

  it.each([0, -1, 1.5, 2 ** 31])('a mark of %d bytes is not tried', async (bytes) => {
    expect(await reasonOf(systemOf({}), { bytes })).toBe(
      `Cannot set the low-water mark: bytes must be positive, got ${bytes}`,
    );
  });

  it('a server that does not listen has no socket to set it on', () => {
    const mark = setLowWater(net.createServer(), {}, systemOf({}));
    expect(mark).toEqual({
      mode: 'none',
      reason: 'Cannot set the low-water mark: the server does not listen on a socket of its own',
    });
  });

  it('nothing is known of a connection, and nothing is made up', async () => {
    const client = await dial(await listen());
    const fails = systemOf({ functions: { get: () => -1 } });
    const old = systemOf({ functions: { get: () => 104 } });
    const absent = systemOf({
      load: () => {
        throw new Error('no koffi');
      },
    });
    for (const system of [fails, old, absent]) {
      const asked = [tcpInfo, lowWaterOf, bytesAcked, kernelHeldBytes].map((ask) => ask(client, system));
      expect(asked).toEqual([undefined, undefined, undefined, undefined]);
    }
  });
});

it('more than four gigabytes that were acknowledged are counted as they are', async () => {
  const get: SocketFunctions['get'] = (_fd, _level, _option, value) => {
    value.writeBigUInt64LE(5_000_000_001n, 120);
    return value.byteLength;
  };
  expect(bytesAcked(await dial(await listen()), systemOf({ functions: { get } }))).toBe(5_000_000_001);
});

// Fails when kernelHeldBytes() leaves out what is on the way, or counts what was sent twice, or an acknowledged FIN.
it('what is on the way is held, and what was sent again is not held twice', async () => {
  const client = await dial(await listen());
  const heldOf = (sent: bigint, again: bigint, acked: bigint): number | undefined => {
    const get: SocketFunctions['get'] = (_fd, _level, _option, value) => {
      value.writeUInt32LE(100, 144);
      value.writeBigUInt64LE(sent, 200);
      value.writeBigUInt64LE(again, 208);
      value.writeBigUInt64LE(acked, 120);
      return value.byteLength;
    };
    return kernelHeldBytes(client, systemOf({ functions: { get } }));
  };
  expect(heldOf(1000n, 0n, 700n)).toBe(400);
  expect(heldOf(1000n, 50n, 700n)).toBe(350);
  expect(heldOf(1000n, 0n, 1001n)).toBe(100);
});

describe("the system's own setting", () => {
  it('is enough when it is low, also when ours is switched off', async () => {
    const never = (): never => {
      throw new Error('touched');
    };
    for (const options of [{}, { enabled: false }]) {
      const mark = setLowWater(await listen(), options, systemOf({ mark: '131072\n', load: never }));
      expect(mark).toEqual({
        mode: 'system',
        bytes: 131_072,
        reason: 'The system sets the low-water mark to 131072 bytes',
      });
    }
  });

  it.each(['4294967295\n', '0\n', '-1\n', '1048576\n', 'nonsense'])('counts as none when it is %j', async (mark) => {
    expect(setLowWater(await listen(), {}, systemOf({ mark }))).toMatchObject({ mode: 'set', bytes: 65_536 });
  });
});

it('slack is ten seconds with a mark, whoever set it, and thirty without', () => {
  expect([slackMsFor('set'), slackMsFor('system'), slackMsFor('none')]).toEqual([10_000, 10_000, 30_000]);
});
