import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer, type Server, type Socket } from 'node:net';
import type * as Koffi from 'koffi';
import { messageOf } from '../kernel/index.ts';

/** Whether the kernel tells us soon enough what a reader has taken. */
export interface LowWater {
  /** `set`: by us, on the listening socket. `system`: it was so already. `none`: it is not. */
  readonly mode: 'set' | 'system' | 'none';
  /** The mark, when there is one. */
  readonly bytes?: number;
  /** One sentence for the log. */
  readonly reason: string;
}

/** How to set the low-water mark. */
export interface LowWaterOptions {
  /** `false` touches nothing. Default true. */
  readonly enabled?: boolean;
  /** Default 64 KiB. */
  readonly bytes?: number;
}

/** What the kernel says about one connection (Linux `struct tcp_info`). Acknowledged: the peer's kernel has it. */
export interface TcpInfo {
  readonly bytesAcked: number;
  readonly bytesReceived: number;
  /** Packets sent and not yet acknowledged. */
  readonly unacked: number;
  /** Bytes in the send queue that have not been sent once. */
  readonly notSentBytes: number;
  readonly roundTripMs: number;
}

/** What this file needs from the system; tests stand in for it. */
export interface SocketOptions {
  /** Contents of the system's own setting; throws where there is none. */
  systemMark(): string;
  /** Loads the two functions; throws where that is not possible. */
  load(): SocketFunctions;
}

/** libc's own, on a buffer. */
export interface SocketFunctions {
  /** Answers 0 on success. */
  set(fd: number, level: number, option: number, value: Buffer): number;
  /** Answers how many bytes of `value` were filled; negative when it failed. */
  get(fd: number, level: number, option: number, value: Buffer): number;
  errno(): number;
}

// Linux, include/uapi/linux/tcp.h
const IPPROTO_TCP = 6;
const TCP_INFO = 11;
const TCP_NOTSENT_LOWAT = 25;
const TCP_INFO_BYTES = 256;
const OFFSET_UNACKED = 24;
const OFFSET_RTT = 68;
const OFFSET_BYTES_ACKED = 120;
const OFFSET_BYTES_RECEIVED = 128;
const OFFSET_NOTSENT = 144;
const OFFSET_BYTES_SENT = 200;
const OFFSET_BYTES_RETRANSMITTED = 208;
const TCP_INFO_BYTES_MIN = 148;
const TCP_INFO_BYTES_RETRANSMITTED = OFFSET_BYTES_RETRANSMITTED + 8;
const TCP_INFO_BYTES_ACKED = OFFSET_BYTES_ACKED + 8;

/** A system's mark above this hides as much as none: a steady reader at 64 KiB/s then shows gaps above 8 s. */
const SYSTEM_MARK_BYTES_MAX = 512 * 1024;

const SLACK_MS = { set: 10_000, system: 10_000, none: 30_000 } as const;

const linux: SocketOptions = {
  systemMark: () => readFileSync('/proc/sys/net/ipv4/tcp_notsent_lowat', 'latin1'),
  load: loadLibc,
};

let loaded: SocketFunctions | Error | undefined;

/** Loaded on first need: koffi is an optional dependency, and brings native code into the process. */
function loadLibc(): SocketFunctions {
  // a package that is missing is looked for once, not on every connection
  if (loaded instanceof Error) throw loaded;
  if (loaded !== undefined) return loaded;
  try {
    loaded = openLibc();
  } catch (error) {
    loaded = error instanceof Error ? error : new Error(messageOf(error));
    throw loaded;
  }
  return loaded;
}

function openLibc(): SocketFunctions {
  if (process.platform !== 'linux') throw new Error(`Cannot set socket options: needs Linux, got ${process.platform}`);
  const koffi = createRequire(import.meta.url)('koffi') as typeof Koffi;
  const libc = koffi.load('libc.so.6');
  const set = libc.func('int setsockopt(int, int, int, const void *, uint32_t)');
  const get = libc.func('int getsockopt(int, int, int, _Out_ void *, _Inout_ uint32_t *)');
  return {
    set: (fd, level, option, value) => set(fd, level, option, value, value.byteLength) as number,
    get: (fd, level, option, value) => {
      const length = Uint32Array.of(value.byteLength);
      return get(fd, level, option, value, length) === 0 ? (length[0] ?? -1) : -1;
    },
    errno: () => koffi.errno(),
  };
}

/**
 * Makes the kernel report progress in small steps: TCP_NOTSENT_LOWAT on the listening socket, which every accepted socket
 * inherits. Without it a steady reader at 64 KiB/s shows no progress for 22 s; with it for 2 s. Call it once the server
 * listens. Never throws; where it cannot be done the answer says why.
 *
 * @example
 * import http from 'node:http';
 *
 * const server = http.createServer();
 * await new Promise<void>((resolve) => server.listen(0, resolve));
 * const lowWater = setLowWater(server, { bytes: 64 * 1024 });
 * console.log(['set', 'system', 'none'].includes(lowWater.mode)); // true
 * server.close();
 */
export function setLowWater(server: Server, options: LowWaterOptions = {}, system: SocketOptions = linux): LowWater {
  const bytes = options.bytes ?? 64 * 1024;
  const has = systemMark(system);
  if (has !== undefined && has <= Math.max(bytes, SYSTEM_MARK_BYTES_MAX)) {
    return { mode: 'system', bytes: has, reason: `The system sets the low-water mark to ${has} bytes` };
  }
  if (options.enabled === false) return none('it is switched off');
  if (!Number.isSafeInteger(bytes) || bytes < 1 || bytes > 0x7fff_ffff)
    return none(`bytes must be positive, got ${bytes}`);
  const fd = fdOf(server);
  if (fd === undefined) return none('the server does not listen on a socket of its own');
  try {
    return setMark(system.load(), fd, bytes);
  } catch (error) {
    return none(messageOf(error));
  }
}

/**
 * Whether a low-water mark can be set on this machine, or is there already: tried on a socket of its own, on loopback.
 *
 * @example
 * console.log(typeof (await probeLowWater())); // boolean
 */
export function probeLowWater(): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(0, '127.0.0.1', () => {
      const { mode } = setLowWater(server);
      server.close(() => resolve(mode !== 'none'));
    });
  });
}

/**
 * How far a reader may fall behind before it is cut, in milliseconds: what the kernel hides, and some.
 *
 * @example
 * console.log(slackMsFor('set'), slackMsFor('none')); // 10000 30000
 */
export function slackMsFor(mode: LowWater['mode']): number {
  return SLACK_MS[mode];
}

/**
 * What the kernel says about a connection; undefined where it cannot be asked. Takes about a microsecond.
 *
 * @param socket - the TCP socket, not the TLS socket above it.
 * @example
 * import net from 'node:net';
 *
 * net.createServer((socket) => {
 *   const info = tcpInfo(socket);
 *   if (info !== undefined) socket.end(`${info.bytesAcked} bytes so far`);
 * });
 */
export function tcpInfo(socket: Socket, system: SocketOptions = linux): TcpInfo | undefined {
  const fd = fdOf(socket);
  if (fd === undefined) return undefined;
  const info = Buffer.alloc(TCP_INFO_BYTES);
  try {
    // an older kernel fills less: what it did not fill must not read as zero
    if (system.load().get(fd, IPPROTO_TCP, TCP_INFO, info) < TCP_INFO_BYTES_MIN) return undefined;
  } catch {
    // no way to ask on this system; setLowWater has said why
    return undefined;
  }
  return {
    bytesAcked: Number(info.readBigUInt64LE(OFFSET_BYTES_ACKED)),
    bytesReceived: Number(info.readBigUInt64LE(OFFSET_BYTES_RECEIVED)),
    unacked: info.readUInt32LE(OFFSET_UNACKED),
    notSentBytes: info.readUInt32LE(OFFSET_NOTSENT),
    roundTripMs: info.readUInt32LE(OFFSET_RTT) / 1000,
  };
}

/** One for all calls: this is asked for every reply that somebody wants to know the fate of. */
const ackedInfo = Buffer.alloc(TCP_INFO_BYTES_ACKED);

/**
 * How many bytes of a connection the peer's kernel has acknowledged; undefined where it cannot be asked. Takes half a
 * microsecond.
 *
 * Compare it with the socket's `bytesWritten`. Once a FIN of ours was acknowledged it is one more than was written.
 *
 * @param socket - the TCP socket, not the TLS socket above it.
 * @example
 * import net from 'node:net';
 *
 * net.createServer((socket) => {
 *   const isReceived = (bytesAcked(socket) ?? -1) >= socket.bytesWritten;
 *   socket.end(isReceived ? 'nothing is on its way' : 'something is, or nobody knows');
 * });
 */
export function bytesAcked(socket: Socket, system: SocketOptions = linux): number | undefined {
  const fd = fdOf(socket);
  if (fd === undefined) return undefined;
  try {
    if (system.load().get(fd, IPPROTO_TCP, TCP_INFO, ackedInfo) < TCP_INFO_BYTES_ACKED) return undefined;
  } catch {
    // no way to ask on this system; setLowWater has said why
    return undefined;
  }
  return ackedInfo.readUInt32LE(OFFSET_BYTES_ACKED) + ackedInfo.readUInt32LE(OFFSET_BYTES_ACKED + 4) * 2 ** 32;
}

/** One for all calls: this is asked for many sockets in a row. */
const heldInfo = Buffer.alloc(TCP_INFO_BYTES_RETRANSMITTED);

/**
 * How many bytes the kernel holds of what was written to a connection: not sent yet, or sent and not acknowledged. Payload
 * only: what it takes in memory is up to twice as much. Undefined where it cannot be asked (before Linux 4.19, too).
 *
 * @param socket - the TCP socket, not the TLS socket above it.
 * @example
 * import net from 'node:net';
 *
 * net.createServer((socket) => {
 *   socket.write('hello', () => console.log(kernelHeldBytes(socket)));
 * });
 */
export function kernelHeldBytes(socket: Socket, system: SocketOptions = linux): number | undefined {
  const fd = fdOf(socket);
  if (fd === undefined) return undefined;
  try {
    if (system.load().get(fd, IPPROTO_TCP, TCP_INFO, heldInfo) < TCP_INFO_BYTES_RETRANSMITTED) return undefined;
  } catch {
    // no way to ask on this system; setLowWater has said why
    return undefined;
  }
  const at = (offset: number): number => Number(heldInfo.readBigUInt64LE(offset));
  const onTheWay = at(OFFSET_BYTES_SENT) - at(OFFSET_BYTES_RETRANSMITTED) - at(OFFSET_BYTES_ACKED);
  // an acknowledged FIN counts as a byte, too
  return heldInfo.readUInt32LE(OFFSET_NOTSENT) + Math.max(0, onTheWay);
}

/**
 * The mark of one socket as the kernel has it; undefined where it cannot be asked. 0 or 4294967295 mean none.
 *
 * @example
 * import net from 'node:net';
 *
 * console.log(lowWaterOf(net.createServer())); // undefined
 */
export function lowWaterOf(socket: Server | Socket, system: SocketOptions = linux): number | undefined {
  const fd = fdOf(socket);
  if (fd === undefined) return undefined;
  try {
    return readMark(system.load(), fd);
  } catch {
    return undefined;
  }
}

function setMark(functions: SocketFunctions, fd: number, bytes: number): LowWater {
  const value = Buffer.alloc(4);
  value.writeUInt32LE(bytes);
  if (functions.set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, value) !== 0) {
    return none(`the kernel refused, errno ${functions.errno()}`);
  }
  const read = readMark(functions, fd);
  if (read !== bytes) return none(`the kernel kept ${read} instead of ${bytes}`);
  return { mode: 'set', bytes, reason: `Set the low-water mark to ${bytes} bytes on the listening socket` };
}

function readMark(functions: SocketFunctions, fd: number): number | undefined {
  const value = Buffer.alloc(4);
  return functions.get(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, value) !== 4 ? undefined : value.readUInt32LE(0);
}

function systemMark(system: SocketOptions): number | undefined {
  try {
    const mark = Number.parseInt(system.systemMark(), 10);
    return mark > 0 ? mark : undefined;
  } catch {
    // not Linux, or /proc is hidden: then there is no setting to find
    return undefined;
  }
}

/** Asked each time: a descriptor kept beyond its socket belongs to somebody else. */
function fdOf(owner: Server | Socket): number | undefined {
  const handle = (owner as unknown as { _handle?: { fd?: number } | null })._handle;
  const fd = handle?.fd;
  return fd === undefined || fd < 0 ? undefined : fd;
}

function none(cause: string): LowWater {
  return { mode: 'none', reason: `Cannot set the low-water mark: ${cause}` };
}
