import { connect as connectTcp, type OnReadOpts, type Socket, type TcpNetConnectOpts } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import type { Target } from './target.ts';

const READ_BYTES = 65_536;

/** How fast a connection is read. */
export type Pace =
  | { readonly kind: 'steady' }
  /** So many bytes, and then nothing. */
  | { readonly kind: 'stalled'; readonly afterBytes: number }
  | { readonly kind: 'slow'; readonly bytesPerSecond: number };

/** Who is told what becomes of a connection. */
export interface WireSink {
  /** What came; it is overwritten after the call. */
  onPiece(piece: Buffer): void;
  /** Over, and not by us; `cause` is the system's code, or `end` when the other side closed in order. */
  onClose(cause: string): void;
}

/** How a connection is made. */
export interface WireOptions {
  readonly target: Target;
  readonly pace: Pace;
  readonly localAddress: string | undefined;
  readonly isInsecure: boolean;
  readonly nowMs: number;
}

/** All connections are read into one buffer, one after the other; where the system fills it behind our back, each has its own. */
const shared = process.platform === 'win32' ? undefined : Buffer.allocUnsafeSlow(READ_BYTES);

/**
 * One connection, read at a pace. What is read is passed on at once and not held, so that thousands cost little; one that
 * stands still reads nothing at all, and is asked now and then whether it was cut.
 */
export class Wire {
  readonly #sink: WireSink;
  readonly #pace: Pace;
  readonly #socket: Socket;
  /** What TLS stands on; the same where there is none. */
  readonly #tcp: Socket;
  readonly #buffer: Buffer;
  readonly #openedAtMs: number;
  /** Bytes that came, heads and framing included. */
  bytes = 0;
  #cause: string | undefined;
  #isOver = false;
  #isHeldBack = false;

  constructor(sink: WireSink, { target, pace, localAddress, isInsecure, nowMs }: WireOptions) {
    this.#sink = sink;
    this.#pace = pace;
    this.#openedAtMs = nowMs;
    this.#buffer = shared ?? Buffer.allocUnsafeSlow(READ_BYTES);
    const { address, port, serverName } = target;
    const to = { host: address, port, ...(localAddress === undefined ? {} : { localAddress }) };
    // the name goes into the certificate's check; the address was checked before
    const secured = { servername: serverName, rejectUnauthorized: !isInsecure };
    const onread: OnReadOpts = { buffer: () => this.#room(), callback: (length, buffer) => this.#read(length, buffer) };
    if (!target.isTls) {
      this.#socket = connectTcp({ ...to, onread });
      this.#tcp = this.#socket;
    } else if (pace.kind === 'stalled') {
      [this.#socket, this.#tcp] = this.#connectBelow(to, secured);
    } else {
      const options = { ...to, ...secured, onread };
      this.#socket = connectTls(options);
      this.#tcp = this.#socket;
    }
    this.#socket.setNoDelay(true);
    this.#socket.on('error', (error: NodeJS.ErrnoException) => this.#failed(error));
    this.#socket.on('end', () => {
      this.#cause ??= 'end';
    });
    this.#socket.on('close', () => this.#close());
  }

  /** Whether it stands still as it was told to. */
  get isStanding(): boolean {
    return this.#pace.kind === 'stalled' && this.bytes >= this.#pace.afterBytes;
  }

  send(text: string): void {
    this.#socket.write(text, 'latin1');
  }

  /** Reads what the pace allows by now, and asks whether one that stands still was cut. To be called now and then. */
  look(nowMs: number): void {
    if (this.#isOver) return;
    // nothing is sent, and yet the kernel says whether the other side has reset the connection; TLS would keep it to itself
    if (this.isStanding) this.#tcp.write('');
    if (this.#pace.kind !== 'slow' || this.#isHeldBack) return;
    if (this.bytes <= this.#allowedBytes(this.#pace.bytesPerSecond, nowMs)) this.#socket.resume();
  }

  /** Reads nothing until {@link goOn}: what came before has to be worked off first. */
  holdBack(): void {
    this.#isHeldBack = true;
    this.#socket.pause();
  }

  goOn(): void {
    this.#isHeldBack = false;
    if (!this.#isOver && this.#pace.kind !== 'slow' && !this.isStanding) this.#socket.resume();
  }

  /** Closes it from this side; nobody is told. */
  leave(): void {
    this.#isOver = true;
    this.#socket.destroy();
  }

  /** A connection whose TCP is in our hands, under TLS. What TLS reads ahead, at most some records, is not handed on. */
  #connectBelow(to: TcpNetConnectOpts, secured: ConnectionOptions): [Socket, Socket] {
    const tcp = connectTcp(to);
    tcp.on('error', (error) => this.#failed(error));
    const socket = connectTls({ ...secured, socket: tcp });
    socket.on('data', (piece: Buffer) => {
      if (!this.#read(piece.length, piece)) socket.pause();
    });
    return [socket, tcp];
  }

  #failed({ code }: NodeJS.ErrnoException): void {
    this.#cause ??= code ?? 'error';
  }

  #allowedBytes(bytesPerSecond: number, nowMs: number): number {
    return ((nowMs - this.#openedAtMs) / 1000) * bytesPerSecond;
  }

  /** Where the next bytes are read to: as much as may be read at once. */
  #room(): Buffer {
    const pace = this.#pace;
    if (pace.kind === 'stalled') {
      return this.#buffer.subarray(0, Math.min(READ_BYTES, Math.max(1, pace.afterBytes - this.bytes)));
    }
    if (pace.kind === 'slow') {
      return this.#buffer.subarray(0, Math.min(READ_BYTES, Math.max(1024, Math.ceil(pace.bytesPerSecond / 10))));
    }
    return this.#buffer;
  }

  /** Answers whether to read on. */
  #read(length: number, buffer: Uint8Array): boolean {
    if (this.#isOver) return false;
    this.bytes += length;
    this.#sink.onPiece(buffer.subarray(0, length) as Buffer);
    return !this.#isHeldBack && this.#pace.kind !== 'slow' && !this.isStanding;
  }

  #close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#sink.onClose(this.#cause ?? 'end');
  }
}

const UNREACHABLE = new Set([
  'ECONNREFUSED',
  'EADDRNOTAVAIL',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ETIMEDOUT',
  'EMFILE',
  'ENFILE',
]);

/** Whether a connection could not even be made. */
export function isUnreachable(code: string): boolean {
  return UNREACHABLE.has(code);
}
