import net, { type Socket } from 'node:net';
import tls from 'node:tls';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { until } from '../../test/support/conditions.ts';
import { settled } from '../../test/support/receipts-rig.ts';
import { openRig, type Rig, TRANSPORTS } from '../../test/support/transports.ts';
import { FakeClock } from '../kernel/index.ts';
import { Deliveries, type Report, type Source } from './deliveries.ts';

// real sockets on a machine that may be busy; every wait inside has a bound of its own
vi.setConfig({ testTimeout: 60_000 });

const ROUND_BYTES = 200_000;
const ROUNDS = 60;
/** How much the client reads before it lets our side run full again. */
const GULP_BYTES = 1_500_000;

const rigs: Rig[] = [];
const sockets: Socket[] = [];

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await Promise.all(rigs.splice(0).map((rig) => rig.close()));
});

/** What the pieces of one round hold. */
function fill(memory: Buffer, round: number): void {
  for (let at = 0; at < memory.byteLength; at += 4) memory.writeUInt32LE((round * 0x9e37 + at) >>> 0, at);
}

function everything(): Buffer {
  const rounds = Array.from({ length: ROUNDS }, (_, round) => {
    const memory = Buffer.alloc(ROUND_BYTES);
    fill(memory, round);
    return memory;
  });
  return Buffer.concat(rounds);
}

/** Gives the same memory every time, and spoils it the moment it is asked again. */
function reusing(bytes: number | undefined): Source {
  const memory = Buffer.alloc(ROUND_BYTES);
  let round = 0;
  return {
    bytes,
    next: () => {
      memory.fill(0xee);
      if (round === ROUNDS) return undefined;
      fill(memory, round++);
      return [memory.subarray(0, 7), memory.subarray(7, 120_000), memory.subarray(120_000)];
    },
  };
}

/** A client that reads when it is told to. */
class SlowClient {
  readonly socket: Socket;
  readonly #rig: Rig;
  readonly #parts: Buffer[] = [];
  #bytes = 0;
  #pauseAt = 0;

  private constructor(rig: Rig, socket: Socket) {
    this.#rig = rig;
    this.socket = socket;
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (part: Buffer) => {
      this.#parts.push(part);
      this.#bytes += part.byteLength;
      if (this.#bytes >= this.#pauseAt) socket.pause();
    });
    socket.pause();
  }

  static async ask(rig: Rig): Promise<SlowClient> {
    const to = { port: rig.port, host: '127.0.0.1' };
    const ALPNProtocols = rig.transport === 'h2' ? ['h2'] : ['http/1.1'];
    const isTls = rig.transport === 'https1' || rig.transport === 'h2';
    const socket = isTls ? tls.connect({ ...to, rejectUnauthorized: false, ALPNProtocols }) : net.connect(to);
    const client = new SlowClient(rig, socket);
    await new Promise((resolve) => socket.once(isTls ? 'secureConnect' : 'connect', resolve));
    client.socket.write(client.#isHttp2 ? HTTP2_REQUEST : 'GET / HTTP/1.1\r\nhost: a\r\n\r\n');
    return client;
  }

  get #isHttp2(): boolean {
    return this.#rig.transport.startsWith('h2');
  }

  get bytes(): number {
    return this.#bytes;
  }

  read(bytes: number): void {
    this.#pauseAt = this.#bytes + bytes;
    this.socket.resume();
  }

  /** The body of the response, out of whatever framing it has. */
  body(): Buffer {
    const all = Buffer.concat(this.#parts);
    if (this.#isHttp2) return Buffer.concat(dataFramesOf(all));
    const head = all.indexOf('\r\n\r\n') + 4;
    const isChunked = all.subarray(0, head).includes('chunked');
    return isChunked ? Buffer.concat(chunksOf(all.subarray(head))) : all.subarray(head);
  }
}

function chunksOf(bytes: Buffer): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.byteLength; ) {
    const line = bytes.indexOf('\r\n', at);
    const size = Number.parseInt(bytes.toString('latin1', at, line), 16);
    chunks.push(bytes.subarray(line + 2, line + 2 + size));
    at = line + 4 + size;
  }
  return chunks;
}

const [DATA, HEADERS, SETTINGS, WINDOW_UPDATE] = [0, 1, 4, 8];

function frame(type: number, flags: number, stream: number, payload: readonly number[]): Buffer {
  return Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, stream, ...payload]);
}

/** Windows without end: what holds our side up is the connection, not the flow control of HTTP/2. */
const HTTP2_REQUEST = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  frame(SETTINGS, 0, 0, [0, 4, 0x7f, 0xff, 0xff, 0xff]),
  frame(WINDOW_UPDATE, 0, 0, [0x7f, 0xf0, 0, 0]),
  frame(HEADERS, 5, 1, [0x82, 0x86, 0x84, 0x01, 1, ...Buffer.from('a')]),
]);

function dataFramesOf(bytes: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = 0; at < bytes.byteLength; ) {
    const length = bytes.readUIntBE(at, 3);
    if (bytes[at + 3] === DATA) frames.push(bytes.subarray(at + 9, at + 9 + length));
    at += 9 + length;
  }
  return frames;
}

describe.each(TRANSPORTS)('the memory of pieces, over %s,', (transport) => {
  const announced = ROUNDS * ROUND_BYTES;

  // Fails when a channel calls back as soon as it has handed a write on.
  it.each([
    ['of announced length', announced, true],
    ['of unknown length, with the large buffers of the system', undefined, false],
  ])('of a copy %s may be used again as soon as the next ones are asked for', async (_, bytes, lowWater) => {
    const deliveries = new Deliveries({ clock: new FakeClock() });
    const reports: Report[] = [];
    const rig = await openRig(
      transport,
      (exchange) => {
        const channel = exchange.open(200, bytes === undefined ? {} : { 'content-length': String(bytes) });
        void deliveries.deliver({ channel, source: reusing(bytes) }).then((report) => {
          reports.push(report);
          channel.end();
        });
      },
      { lowWater },
    );
    rigs.push(rig);
    const client = await SlowClient.ask(rig);
    let stalls = 0;
    while (reports.length === 0) {
      await quiet(() => deliveries.stats().bytes);
      stalls += reports.length === 0 ? 1 : 0;
      const before = client.bytes;
      client.read(GULP_BYTES);
      await until('a gulp', () => client.bytes >= before + GULP_BYTES || reports.length > 0);
    }
    client.read(Number.POSITIVE_INFINITY);
    const expected = everything();
    await until('the end', () => client.bytes >= expected.byteLength);
    await settled();
    // once at least: when the client has read nothing yet, our kernel is full long before the end
    expect(stalls).toBeGreaterThan(0);
    expect(reports).toMatchObject([{ outcome: 'completed', bytes: expected.byteLength }]);
    expect(client.body().equals(expected)).toBe(true);
  });
});

/** Waits until nothing moves any more. */
async function quiet(measure: () => number): Promise<void> {
  for (let last = -1; last !== measure(); ) {
    last = measure();
    await settled();
  }
}
