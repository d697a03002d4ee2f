import { EventEmitter } from 'node:events';
import http2 from 'node:http2';
import net from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { until } from '../../test/support/conditions.ts';
import { KERNELS, openReceiptsRig, outcomeOf, type ReceiptsRig, settled } from '../../test/support/receipts-rig.ts';
import { connect, type Rig } from '../../test/support/transports.ts';
import { FakeClock } from '../kernel/index.ts';
import { Receipt, Receipts, type ReceiptsOptions } from './receipts.ts';

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

  it('and answers no PING has received nothing', async () => {
    const set = await setUp();
    const client = await FrameClient.ask(set.rig, '/1');
    await client.untilPinged(set.clock, 1);
    for (let i = 0; i < 10; i++) {
      set.clock.advance(60_000);
      await settled();
    }
    expect([set.told, set.receipts.pending]).toEqual([[], 1]);
    client.socket.resetAndDestroy();
    expect(await outcomeOf(set, 1)).toEqual(['/1 false']);
  });

  // Fails when the error that a PING is called off with is taken for its answer.
  it('and answers no PING has received nothing, although a session that ends calls the PING off', async () => {
    const set = await setUp();
    const client = await FrameClient.ask(set.rig, '/1');
    await client.untilPinged(set.clock, 1);
    closeSession(set);
    await settled();
    expect(set.told).toEqual([]);
    client.socket.resetAndDestroy();
    expect(await outcomeOf(set, 1)).toEqual(['/1 false']);
  });

  // Fails when an answer speaks for all that wait when it comes, or when a PING is sent while another is out.
  it('has received, by the answer to a PING, what ended before the PING was sent', async () => {
    const set = await setUp();
    const client = await FrameClient.ask(set.rig, '/1');
    await client.untilPinged(set.clock, 1);
    client.get('/2', 3);
    await until('the end on our side', () => set.receipts.pending === 2);
    set.clock.advance(1000);
    await settled();
    expect(client.pings).toHaveLength(1);
    client.answer();
    await until('a receipt', () => set.told.length > 0);
    await settled();
    expect(set.told).toEqual(['/1 true']);
    await client.untilPinged(set.clock, 2);
    client.answer();
    expect(await outcomeOf(set, 2)).toEqual(['/1 true', '/2 true']);
  });

  // Fails when answers go out by the compatibility API: the end is then a frame of its own, and a client that has read what
  // was announced leaves it unread.
  it('gets an answer that was at hand in one frame, with its end', async () => {
    const set = await setUp();
    const client = await FrameClient.ask(set.rig, '/1');
    await client.untilPinged(set.clock, 1);
    expect(client.data).toEqual(['hello, end']);
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

/** As a server does that stops. */
function closeSession({ exchanges }: ReceiptsRig): void {
  for (const { connection } of exchanges) (connection as http2.Http2Session).close();
}

describe('a session that is gone when its last stream is', () => {
  // Fails without the look at `destroyed`: it has forgotten its socket, and throws when it is asked.
  it('has no receipt for it', () => {
    const session = {
      destroyed: true,
      get socket(): never {
        throw new Error('ERR_HTTP2_SOCKET_UNBOUND');
      },
    };
    const receipts = new Receipts({ clock: new FakeClock() });
    const told: boolean[] = [];
    const receipt = new Receipt();
    receipt.onTold((received) => void told.push(received));
    receipts.sentOverHttp2(receipt, session as unknown as http2.Http2Session, undefined);
    expect([told, receipts.pending]).toEqual([[false], 0]);
  });
});

describe('what an HTTP/2 session has handed on', () => {
  // Fails when writeQueueSize is not looked at: bytesWritten does not count yet what is still on its way through OpenSSL.
  it('is known once nothing is on its way through OpenSSL any more', async () => {
    const handle = { writeQueueSize: 5 };
    const session = Object.assign(new EventEmitter(), {
      socket: Object.assign(new EventEmitter(), { _handle: handle }),
    });
    const raw = { bytesWritten: 100 };
    const receipts = new Receipts({ clock: new FakeClock(), acknowledged: () => 100 });
    const receipt = new Receipt();
    receipts.sentOverHttp2(receipt, session as unknown as http2.Http2Session, raw as net.Socket);
    await settled();
    receipts.requested(session, false);
    expect(receipt.isTold).toBe(false);
    handle.writeQueueSize = 0;
    raw.bytesWritten = 101;
    receipts.requested(session, false);
    expect([receipt.isTold, receipt.mark]).toEqual([false, 101]);
  });
});

const [DATA, HEADERS, RST_STREAM, SETTINGS, PING] = [0, 1, 3, 4, 6];
const END_STREAM_AND_HEADERS = 5;
const ACK = 1;

/** A client in the clear that answers nothing by itself, no frame and no FIN. */
class FrameClient {
  readonly socket: net.Socket;
  bytes = 0;
  /** What came with the PINGs that were not answered, and those that were. */
  readonly pings: (readonly number[])[] = [];
  /** What came in frames of data. */
  readonly data: string[] = [];
  #unread: Buffer = Buffer.alloc(0);

  private constructor(socket: net.Socket) {
    this.socket = socket;
    socket.on('error', () => {});
    socket.on('data', (data) => {
      this.bytes += data.byteLength;
      this.#unread = Buffer.concat([this.#unread, data]);
      this.#read();
    });
  }

  static async ask(rig: Rig, path: string): Promise<FrameClient> {
    const socket = net.connect({ port: rig.port, host: '127.0.0.1', allowHalfOpen: true });
    sockets.push(socket);
    const client = new FrameClient(socket);
    await new Promise((resolve) => socket.once('connect', resolve));
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    client.send(SETTINGS, 0, 0, []);
    client.get(path, 1);
    return client;
  }

  get(path: string, stream: number): void {
    const [getHttp, authority] = [
      [0x82, 0x86],
      [0x01, 1, ...Buffer.from('a')],
    ];
    const block = [...getHttp, 0x04, path.length, ...Buffer.from(path), ...authority];
    this.send(HEADERS, END_STREAM_AND_HEADERS, stream, block);
  }

  send(type: number, flags: number, stream: number, payload: readonly number[]): void {
    this.socket.write(Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, stream, ...payload]));
  }

  /** Lets sweeps go by until so many PINGs have come. */
  async untilPinged(clock: FakeClock, count: number): Promise<void> {
    await until(`${count} PINGs`, () => {
      if (this.pings.length < count) clock.advance(100);
      return this.pings.length >= count;
    });
  }

  /** Answers the last PING. */
  answer(): void {
    this.send(PING, ACK, 0, this.pings.at(-1) ?? []);
  }

  #read(): void {
    for (let size = this.#frameBytes(); this.#unread.byteLength >= size; size = this.#frameBytes()) {
      const [type, flags] = [this.#unread[3], this.#unread[4] ?? 0];
      const payload = this.#unread.subarray(9, size);
      if (type === PING) this.pings.push([...payload]);
      if (type === DATA) this.data.push(`${payload.toString('latin1')}${(flags & 1) === 1 ? ', end' : ''}`);
      this.#unread = this.#unread.subarray(size);
    }
  }

  #frameBytes(): number {
    return this.#unread.byteLength < 9 ? 9 : 9 + this.#unread.readUIntBE(0, 3);
  }
}
