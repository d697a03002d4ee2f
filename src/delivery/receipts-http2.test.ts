import http2 from 'node:http2';
import net from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { until } from '../../test/support/conditions.ts';
import { KERNELS, openReceiptsRig, outcomeOf, type ReceiptsRig, settled } from '../../test/support/receipts-rig.ts';
import { connect, type Rig } from '../../test/support/transports.ts';
import type { ReceiptsOptions } from './receipts.ts';

// real sockets on a machine that may be busy; every wait inside has a bound of its own
vi.setConfig({ testTimeout: 30_000 });

const rigs: Rig[] = [];
const sessions: http2.ClientHttp2Session[] = [];
const sockets: net.Socket[] = [];

afterEach(async () => {
  for (const session of sessions.splice(0)) session.destroy();
  for (const socket of sockets.splice(0)) socket.destroy();
  await Promise.all(rigs.splice(0).map((rig) => rig.close()));
});

const withKernel = KERNELS.includes(true);

/** A client, and the PINGs that it has answered. */
function connectTo(rig: Rig): { session: http2.ClientHttp2Session; pings: () => number } {
  const session = connect(rig) as http2.ClientHttp2Session;
  sessions.push(session);
  let count = 0;
  session.on('ping', () => void count++);
  return { session, pings: () => count };
}

/** Asks, and reads the answer to its end. */
async function hear(session: http2.ClientHttp2Session, path: string): Promise<void> {
  const stream = session.request({ ':path': path });
  stream.resume();
  await new Promise((resolve) => stream.once('close', resolve));
}

describe.each(['h2c', 'h2'] as const)('over %s', (transport) => {
  async function setUp(kernel: boolean, options?: ReceiptsOptions): Promise<ReceiptsRig> {
    const made = await openReceiptsRig(transport, kernel, options);
    rigs.push(made.rig);
    return made;
  }

  describe.each(KERNELS)('(the kernel can be asked: %s)', (kernel) => {
    // Fails when a receipt is told without the answer, or no PING is sent.
    it('the answer to a PING proves receipt of what ended before it, with one PING for all', async () => {
      const set = await setUp(kernel, { acknowledged: () => (kernel ? 0 : undefined) });
      const { session, pings } = connectTo(set.rig);
      await Promise.all(['/1', '/2', '/3'].map((path) => hear(session, path)));
      await until('the end on our side', () => set.receipts.pending === 3);
      await settled();
      expect([set.told, pings()]).toEqual([[], 0]);
      set.clock.advance(100);
      expect((await outcomeOf(set, 3)).toSorted()).toEqual(['/1 true', '/2 true', '/3 true']);
      expect(pings()).toBe(1);
    });

    // Fails when a PING counts for all that wait when it is answered.
    it('what ended after a PING was sent needs the next one', async () => {
      const set = await setUp(kernel, { acknowledged: () => (kernel ? 0 : undefined) });
      const { session, pings } = connectTo(set.rig);
      await hear(session, '/1');
      await until('the end on our side', () => set.receipts.pending === 1);
      // the answer to the PING comes behind the next request
      const second = hear(session, '/2');
      set.clock.advance(100);
      await second;
      await until('the first receipt', () => set.told.length === 1);
      await until('the end on our side', () => set.receipts.pending === 1);
      expect(set.told).toEqual(['/1 true']);
      set.clock.advance(100);
      expect(await outcomeOf(set, 2)).toEqual(['/1 true', '/2 true']);
      expect(pings()).toBe(2);
    });

    // Fails when 'end' is not listened to, or when the end of a body is sent apart from it.
    it('a client that leaves after its one answer has received it', async () => {
      const set = await setUp(kernel);
      for (let i = 1; i <= 5; i++) {
        const { session } = connectTo(set.rig);
        await hear(session, `/${i}`);
        session.close();
        await until('the receipt', () => set.told.length === i);
      }
      expect(await outcomeOf(set, 5)).toEqual(['/1 true', '/2 true', '/3 true', '/4 true', '/5 true']);
    });

    it.each(['leaves', 'is killed'])('a response whose client %s in the middle was not received', async (how) => {
      const set = await setUp(kernel);
      const { session } = connectTo(set.rig);
      const stream = session.request({ ':path': '/open' });
      stream.on('error', () => {});
      await until('the channel', () => set.channels.length === 1);
      set.channels[0]?.write([Buffer.alloc(1000)], () => {});
      if (how === 'leaves') stream.close(http2.constants.NGHTTP2_CANCEL);
      else set.channels[0]?.kill();
      await until('the receipt', () => set.told.length === 1);
      expect(set.told).toEqual(['/open false']);
    });
  });

  // Fails when requested() does not look.
  it.runIf(withKernel)(
    'the next request tells what the kernel has acknowledged by then, before it is handled',
    async () => {
      const set = await setUp(true);
      const { session } = connectTo(set.rig);
      await hear(session, '/1');
      await until('the end on our side', () => set.receipts.pending === 1);
      await settled();
      await hear(session, '/2');
      expect(set.toldBefore['/2']).toEqual(['/1 true']);
    },
  );

  it('the next request proves nothing by itself: it may have been sent before', async () => {
    const set = await setUp(false);
    const { session } = connectTo(set.rig);
    await hear(session, '/1');
    await until('the end on our side', () => set.receipts.pending === 1);
    await hear(session, '/2');
    expect(set.toldBefore['/2']).toEqual([]);
  });
});

describe.each(KERNELS)('a client that speaks frames (the kernel can be asked: %s)', (kernel) => {
  async function setUp(): Promise<ReceiptsRig> {
    const made = await openReceiptsRig('h2c', kernel, { acknowledged: () => (kernel ? 0 : undefined) });
    rigs.push(made.rig);
    return made;
  }

  // Fails when the error of a PING that was called off is ignored.
  it('and answers no PING has received nothing: a connection that ends calls the PING off', async () => {
    const set = await setUp();
    const client = await FrameClient.ask(set.rig, '/1');
    await until('the end on our side', () => set.receipts.pending === 1);
    set.clock.advance(100);
    await settled();
    set.clock.advance(60_000);
    expect([set.told, set.receipts.pending]).toEqual([[], 1]);
    client.socket.resetAndDestroy();
    expect(await outcomeOf(set, 1)).toEqual(['/1 false']);
  });

  // Node tells nothing of such a stream until its connection ends, and then 'finish' and no error. Fails when those are
  // believed.
  it('and resets a stream without an error, before it has all of it, has not received it', async () => {
    const set = await setUp();
    const client = await FrameClient.ask(set.rig, '/large');
    await until('a window full', () => client.bytes > 65_535);
    client.send(RST_STREAM, 0, 1, [0, 0, 0, 0]);
    await settled();
    set.clock.advance(100);
    await settled();
    expect([set.told, set.receipts.pending]).toEqual([[], 0]);
    client.socket.destroy();
    expect(await outcomeOf(set, 1)).toEqual(['/large false']);
  });
});

const [HEADERS, RST_STREAM, SETTINGS] = [1, 3, 4];
const END_STREAM_AND_HEADERS = 5;

/** A client in the clear that answers no frame by itself. */
class FrameClient {
  readonly socket: net.Socket;
  bytes = 0;

  private constructor(socket: net.Socket) {
    this.socket = socket;
    socket.on('error', () => {});
    socket.on('data', (data) => (this.bytes += data.byteLength));
  }

  static async ask(rig: Rig, path: string): Promise<FrameClient> {
    const socket = net.connect({ port: rig.port, host: '127.0.0.1' });
    sockets.push(socket);
    const client = new FrameClient(socket);
    await new Promise((resolve) => socket.once('connect', resolve));
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    client.send(SETTINGS, 0, 0, []);
    const [getHttp, authority] = [
      [0x82, 0x86],
      [0x01, 1, ...Buffer.from('a')],
    ];
    client.send(HEADERS, END_STREAM_AND_HEADERS, 1, [
      ...getHttp,
      0x04,
      path.length,
      ...Buffer.from(path),
      ...authority,
    ]);
    return client;
  }

  send(type: number, flags: number, stream: number, payload: readonly number[]): void {
    this.socket.write(Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, stream, ...payload]));
  }
}
