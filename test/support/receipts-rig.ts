import type { Socket } from 'node:net';
import net from 'node:net';
import tls from 'node:tls';
import {
  type Channel,
  type Exchange,
  Receipts,
  type ReceiptsOptions,
  type Transport,
} from '../../src/delivery/index.ts';
import { FakeClock } from '../../src/kernel/index.ts';
import { turns, until } from './conditions.ts';
import { openRig, type Rig } from './transports.ts';

/** More than a client's kernel takes of what nobody reads, and less than ours does. */
export const UNREAD_BYTES = 1_500_000;

/** With the kernel's word and, as on a machine without koffi, without it. */
export const KERNELS: readonly boolean[] = process.platform === 'linux' ? [true, false] : [false];

export interface ReceiptsRig {
  readonly rig: Rig;
  readonly clock: FakeClock;
  readonly receipts: Receipts;
  /** `/path true` or `/path false`, as they were told. */
  readonly told: string[];
  /** What had been told when each request was handled. */
  readonly toldBefore: Record<string, readonly string[]>;
  /** Those of `/open…`, which answer when the test says so. */
  readonly channels: Channel[];
  readonly exchanges: Exchange[];
  /** Lets sweeps go by until so many were told. */
  sweepUntilTold(count: number): Promise<void>;
}

/**
 * A server whose every exchange asks for its receipt, except under `/unheard`. `/large` answers more than is taken unread,
 * `/open` opens a channel, `/last` answers `hello` and closes the connection, anything else answers `hello`.
 */
export async function openReceiptsRig(
  transport: Transport,
  kernel: boolean,
  options: ReceiptsOptions = {},
): Promise<ReceiptsRig> {
  const clock = new FakeClock();
  const receipts = new Receipts({ clock, ...(kernel ? {} : { acknowledged: () => undefined }), ...options });
  const told: string[] = [];
  const toldBefore: Record<string, readonly string[]> = {};
  const channels: Channel[] = [];
  const exchanges: Exchange[] = [];
  const handle = (exchange: Exchange): void => {
    const { path } = exchange;
    exchanges.push(exchange);
    toldBefore[path] = [...told];
    if (!path.startsWith('/unheard')) exchange.onReceived((received) => void told.push(`${path} ${received}`));
    if (path.startsWith('/open')) channels.push(exchange.open(200, {}));
    else if (path.startsWith('/large')) exchange.reply(200, {}, Buffer.alloc(UNREAD_BYTES, 'x'));
    else exchange.reply(200, path.startsWith('/last') ? { connection: 'close' } : {}, 'hello');
  };
  const rig = await openRig(transport, handle, { clock, receipts, lowWater: false });
  return {
    rig,
    clock,
    receipts,
    told,
    toldBefore,
    channels,
    exchanges,
    sweepUntilTold: (count) =>
      until(`${count} receipts`, () => {
        clock.advance(100);
        return told.length >= count;
      }),
  };
}

/** A client of HTTP/1 that speaks bytes. */
export class RawClient {
  /** What it writes to and reads from. */
  readonly socket: Socket;
  /** The TCP socket below. */
  readonly raw: Socket;
  text = '';
  bytes = 0;
  /** The server has closed its side. */
  ended = false;
  closed = false;

  private constructor(raw: Socket, socket: Socket) {
    this.raw = raw;
    this.socket = socket;
    for (const one of new Set([raw, socket])) one.on('error', () => {});
    socket.on('end', () => (this.ended = true));
    raw.on('close', () => (this.closed = true));
  }

  /** @param reads - `false`: not a byte, until `socket.resume()`. */
  static async dial(rig: Rig, reads = true): Promise<RawClient> {
    const raw = net.connect({ port: rig.port, host: '127.0.0.1', allowHalfOpen: true });
    const isTls = rig.transport === 'https1';
    const client = new RawClient(raw, isTls ? tls.connect({ socket: raw, rejectUnauthorized: false }) : raw);
    await new Promise((resolve) => client.socket.once(isTls ? 'secureConnect' : 'connect', resolve));
    client.socket.on('data', (data: Buffer) => {
      client.bytes += data.byteLength;
      client.text = (client.text + data.toString('latin1')).slice(-1000);
    });
    if (!reads) client.socket.pause();
    return client;
  }

  ask(path: string, { version = '1.1', close = false }: { version?: string; close?: boolean } = {}): void {
    this.socket.write(`GET ${path} HTTP/${version}\r\nhost: a\r\n${close ? 'connection: close\r\n' : ''}\r\n`);
  }

  /** Asks for a small answer, and reads it. */
  async hear(path: string, how?: { version?: string; close?: boolean }): Promise<void> {
    this.text = '';
    this.ask(path, how);
    await until('hello', () => this.text.endsWith('hello'));
  }

  leave(): void {
    this.socket.destroy();
    this.raw.destroy();
  }
}

/** Lets everything that is under way between the two ends arrive. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 10; i++) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    await turns(2);
  }
}

/** What was told, once it is so many and nothing is left: no receipt, no connection that is kept, no timer. */
export async function outcomeOf({ told, receipts, clock }: ReceiptsRig, count: number): Promise<readonly string[]> {
  await until(`${count} receipts`, () => told.length >= count);
  await until('the end of connections that are kept', () => receipts.lingering === 0);
  clock.advance(100);
  if (receipts.pending + clock.armed !== 0) {
    throw new Error(`Cannot be over: expected nothing, got ${receipts.pending} receipts, ${clock.armed} timers`);
  }
  return told;
}

/** How many connections a server holds. */
export function connectionsOf(server: net.Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
  });
}

/** Waits until a server holds so many connections. */
export async function untilConnections(server: net.Server, count: number): Promise<void> {
  for (let left = 2000; left > 0; left--) {
    if ((await connectionsOf(server)) === count) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`Cannot see ${count} connections: nothing for 10 s, got ${await connectionsOf(server)}`);
}
