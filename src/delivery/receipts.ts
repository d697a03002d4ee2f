import type { Http2Session } from 'node:http2';
import type { Socket } from 'node:net';
import { type Clock, systemClock, type Timer } from '../kernel/index.ts';
import { pingOf } from './http2.ts';
import { bytesAcked } from './kernel-socket.ts';

/** How receipts are looked for. Times in milliseconds. */
export interface ReceiptsOptions {
  readonly clock?: Clock;
  /**
   * Bytes of a TCP connection that the peer's kernel has acknowledged; undefined where that cannot be asked. Default: asks
   * our kernel (`bytesAcked`). `() => undefined` leaves native code alone.
   */
  readonly acknowledged?: (raw: Socket) => number | undefined;
  /** How often those that wait are looked at. Default 100: a client may delay an acknowledgement by 40. */
  readonly sweepMs?: number;
  /** How long a connection that would be closed is kept for its receipt. Default 5000. */
  readonly lingerMsMax?: number;
  /** How many are kept at once; those beyond are closed as ever. Default 4096. */
  readonly lingeringMax?: number;
}

/** A receipt that somebody asked for. It is told once. */
export class Receipt {
  /** Our side of the connection, in bytes, up to the end of the response; infinite while not all of it was handed on. */
  mark: number = Number.POSITIVE_INFINITY;
  #received: boolean | undefined;
  readonly #listeners: ((received: boolean) => void)[] = [];

  get isTold(): boolean {
    return this.#received !== undefined;
  }

  onTold(listener: (received: boolean) => void): void {
    if (this.#received === undefined) this.#listeners.push(listener);
    else listener(this.#received);
  }

  tell(received: boolean): void {
    if (this.#received !== undefined) return;
    this.#received = received;
    for (const listener of this.#listeners.splice(0)) listener(received);
  }
}

/** One connection with responses that were sent and not received, as far as we know. */
interface Connection {
  readonly socket: Socket;
  /** The TCP socket below; undefined where it was not found. */
  readonly raw: Socket | undefined;
  /** Over HTTP/2. */
  readonly session: Http2Session | undefined;
  /** Whether the kernel tells what was acknowledged. */
  readonly asksKernel: boolean;
  /** In the order in which they were sent. */
  readonly waiting: Receipt[];
  isPinging: boolean;
  /** Over HTTP/2: notes at the next turn how far the connection has to be acknowledged. */
  marking: NodeJS.Immediate | undefined;
  /** The client was seen to wait for a response before it sent its next request. */
  waitsForUs: boolean;
  /** Over HTTP/2: what the session writes to. */
  readonly handle: { readonly writeQueueSize?: number } | undefined;
  lingersUntilMs: number | undefined;
}

/** Looks in one sweep: half a millisecond. With more connections than that each waits for its turn. */
const LOOKS_MAX = 1000;

/** Receipts that one connection may wait for; a client that acknowledges nothing must not cost memory. */
const WAITING_MAX = 1024;

/** More than any connection has written. */
const EVERYTHING = Number.MAX_VALUE;
const NOTHING = -1;

/**
 * Finds out which responses were received, for those who want to know.
 *
 *   response sent ─► waiting ─┬─ kernel: acknowledged up to its last byte ─┐
 *                             ├─ HTTP/1.1: the next request                ├─► true
 *                             ├─ the client's FIN after our last byte      │
 *                             ├─ HTTP/2: the answer to a PING ─────────────┘
 *                             └─ the connection is gone, cut, or 5 s are over ─► false
 *
 * Where the kernel can be asked it has the last word on a FIN, which carries an acknowledgement of all that the client's
 * kernel had when it left: a client that closes while our bytes are on their way is not taken for one that has them. Of
 * requests it is asked on the first one that follows another on its connection, and from then on where that one, or any later
 * one, shows that the client pipelines: asking takes two microseconds, a tenth of a small reply. Where it cannot be asked,
 * both count as they come, except requests of those who pipeline.
 *
 * Over HTTP/2 the answer to a PING is asked for first: it comes from the client's HTTP/2, which has read all frames before
 * it, and needs no kernel. The PING waits for the next sweep, because a client that leaves after its one response would else
 * find it unread in its buffer, and reset the connection instead of closing it. The kernel is asked only where no PING
 * can answer: the client leaves, or comes again before that.
 *
 * @example
 * import http from 'node:http';
 *
 * const server = http.createServer();
 * const context = { rawSockets: trackRawSockets(server), receipts: new Receipts() };
 * server.on('request', (req, res) => {
 *   const exchange = exchangeOf(req, res, context);
 *   exchange.onReceived((received) => console.log(received ? 'go on from here' : 'send it again'));
 *   exchange.reply(200, {}, 'news');
 * });
 * console.log(context.receipts.pending, context.receipts.lingering); // 0 0
 */
export class Receipts {
  readonly #clock: Clock;
  readonly #acknowledged: (raw: Socket) => number | undefined;
  readonly #sweepMs: number;
  readonly #lingerMsMax: number;
  readonly #lingeringMax: number;
  readonly #connections = new WeakMap<object, Connection>();
  /** Where a request came before the response to the one before it was received: such requests prove nothing. */
  readonly #pipelining = new WeakSet<object>();
  /** Those that the next sweep looks at, the one looked at last at the end. It lets go of those that wait no more. */
  readonly #watched = new Set<Connection>();
  /** Half-closed ones, oldest first. */
  readonly #lingering = new Set<Connection>();
  #pending = 0;
  #timer: Timer | undefined;
  #closed = false;

  constructor(options: ReceiptsOptions = {}) {
    this.#clock = options.clock ?? systemClock;
    this.#acknowledged = options.acknowledged ?? ((raw) => bytesAcked(raw));
    this.#sweepMs = options.sweepMs ?? 100;
    this.#lingerMsMax = options.lingerMsMax ?? 5000;
    this.#lingeringMax = options.lingeringMax ?? 4096;
  }

  /** Responses that were sent and neither received nor lost so far. */
  get pending(): number {
    return this.#pending;
  }

  /** Connections that were closed for writing and are kept for their receipt. */
  get lingering(): number {
    return this.#lingering.size;
  }

  /** To be called at the end of a response over HTTP/1, when all of it was taken and before the connection is closed. */
  sentOverHttp1(receipt: Receipt, socket: Socket, raw: Socket | undefined): void {
    const connection = this.#connections.get(socket) ?? this.#followHttp1(socket, raw);
    receipt.mark = raw?.bytesWritten ?? 0;
    this.#wait(connection, receipt);
    // without the kernel only the client's next step tells, and that needs no sweep
    if (connection.asksKernel) this.#watch(connection);
  }

  /** To be called when a stream over HTTP/2 is closed and was complete: its last frame is in the session, at least. */
  sentOverHttp2(receipt: Receipt, session: Http2Session, raw: Socket | undefined): void {
    if (session.destroyed) return receipt.tell(false);
    const connection = this.#connections.get(session) ?? this.#followHttp2(session, raw);
    this.#wait(connection, receipt);
    this.#watch(connection);
    // the stream may be closed from within the very call that writes its last frame
    connection.marking ??= setImmediate(() => {
      connection.marking = undefined;
      markThoseHandedOn(connection);
    });
  }

  /**
   * To be called for every request before it is handled: it may prove that the response before it was received.
   *
   * @param connection - the socket of HTTP/1, the session of HTTP/2.
   * @param isPipelined - whether the response before it is still being sent.
   */
  requested(connection: object, isPipelined: boolean): void {
    if (isPipelined) this.#pipelining.add(connection);
    const known = this.#connections.get(connection);
    if (known === undefined || known.waiting.length === 0) return;
    if (known.lingersUntilMs !== undefined) {
      this.#look(known, false);
      // sent before our FIN came: it cannot be answered any more
      known.socket.destroy();
    } else if (known.session !== undefined || this.#pipelining.has(connection)) {
      this.#look(known, false);
    } else if (known.waitsForUs) {
      this.#tellFirst(known, known.waiting.length, true);
    } else {
      this.#look(known, true);
      if (known.waiting.length === 0) known.waitsForUs = true;
      else this.#pipelining.add(connection);
    }
  }

  /** Looks at all that wait, now: connections are about to be closed. */
  settle(): void {
    for (const connection of this.#watched) this.#look(connection, false);
  }

  /** Ends the connections that are kept, and keeps none from now on. */
  close(): void {
    this.#closed = true;
    this.settle();
    for (const { socket } of this.#lingering) socket.destroy();
  }

  #followHttp1(socket: Socket, raw: Socket | undefined): Connection {
    const connection = this.#follow(socket, raw, undefined);
    this.#connections.set(socket, connection);
    // node:http calls it on this one socket after the last response, in place of end() and destroy()
    const destroySoon = socket.destroySoon.bind(socket);
    socket.destroySoon = () => this.#linger(connection, destroySoon);
    socket.once('close', () => this.#lose(connection));
    return connection;
  }

  #followHttp2(session: Http2Session, raw: Socket | undefined): Connection {
    const connection = this.#follow(session.socket, raw, session);
    this.#connections.set(session, connection);
    session.once('close', () => this.#lose(connection));
    return connection;
  }

  #follow(socket: Socket, raw: Socket | undefined, session: Http2Session | undefined): Connection {
    const asksKernel = raw !== undefined && this.#acknowledged(raw) !== undefined;
    const connection: Connection = {
      socket,
      raw,
      session,
      asksKernel,
      waiting: [],
      isPinging: false,
      marking: undefined,
      waitsForUs: false,
      handle: session === undefined ? undefined : handleOf(socket),
      lingersUntilMs: undefined,
    };
    // before node:http's own, which closes the connection
    socket.prependOnceListener('end', () => this.#look(connection, true));
    return connection;
  }

  #wait(connection: Connection, receipt: Receipt): void {
    connection.waiting.push(receipt);
    this.#pending++;
    if (connection.waiting.length > WAITING_MAX) this.#tellFirst(connection, 1, false);
  }

  #watch(connection: Connection): void {
    this.#watched.add(connection);
    this.#arm();
  }

  /**
   * Settles what was received, as the kernel says.
   *
   * @param proves - whether what just happened proves receipt of everything sent, where the kernel cannot be asked.
   */
  #look(connection: Connection, proves: boolean): void {
    if (connection.waiting.length === 0) return;
    if (connection.session !== undefined && connection.marking === undefined) markThoseHandedOn(connection);
    const upTo = this.#provenUpTo(connection, proves);
    let received = 0;
    for (const { mark } of connection.waiting) {
      if (mark > upTo) break;
      received++;
    }
    if (received > 0) this.#tellFirst(connection, received, true);
  }

  #provenUpTo({ asksKernel, raw }: Connection, proves: boolean): number {
    if (asksKernel && raw !== undefined) return this.#acknowledged(raw) ?? NOTHING;
    return proves ? EVERYTHING : NOTHING;
  }

  #tellFirst(connection: Connection, count: number, received: boolean): void {
    const told = connection.waiting.splice(0, count);
    this.#pending -= told.length;
    // its receipt was all that it was kept for
    if (connection.waiting.length === 0 && connection.lingersUntilMs !== undefined) connection.socket.destroy();
    for (const receipt of told) receipt.tell(received);
  }

  /** The connection is gone. */
  #lose(connection: Connection): void {
    this.#lingering.delete(connection);
    this.#watched.delete(connection);
    this.#tellFirst(connection, connection.waiting.length, false);
  }

  /** In place of destroySoon(): closes our side only, while somebody waits for a receipt. */
  #linger(connection: Connection, destroySoon: () => void): void {
    const { socket } = connection;
    this.#look(connection, false);
    const isOver = connection.waiting.length === 0 || this.#closed;
    if (isOver || this.#lingering.size >= this.#lingeringMax) return destroySoon();
    connection.lingersUntilMs = this.#clock.now() + this.#lingerMsMax;
    this.#lingering.add(connection);
    this.#arm();
    socket.end();
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#watched.size + this.#lingering.size === 0) return;
    this.#timer = this.#clock.after(this.#sweepMs, () => this.#sweep());
  }

  #sweep(): void {
    this.#timer = undefined;
    let left = this.#watched.size;
    let looks = 0;
    for (const connection of this.#watched) {
      if (left-- === 0 || looks === LOOKS_MAX) break;
      this.#watched.delete(connection);
      if (connection.waiting.length === 0) continue;
      looks++;
      if (connection.session === undefined) this.#look(connection, false);
      else this.#ping(connection, connection.session);
      // to the end of the line
      if (connection.waiting.length > 0) this.#watched.add(connection);
    }
    const nowMs = this.#clock.now();
    for (const { lingersUntilMs = 0, socket } of this.#lingering) {
      if (lingersUntilMs > nowMs) break;
      socket.destroy();
    }
    this.#arm();
  }

  /** One at a time; it speaks for the responses that ended before it. */
  #ping(connection: Connection, session: Http2Session): void {
    if (connection.isPinging) return;
    const last = connection.waiting.at(-1);
    connection.isPinging = pingOf(session, (error) => {
      connection.isPinging = false;
      // a session that ends calls its PINGs off
      if (error !== null || last === undefined) return;
      this.#tellFirst(connection, connection.waiting.indexOf(last) + 1, true);
    });
  }
}

/**
 * Notes how far the connection has to be acknowledged for the responses that have ended. Over TLS what the session wrote may
 * still be on its way through OpenSSL, uncounted: then the next look notes it.
 */
function markThoseHandedOn({ waiting, raw, handle }: Connection): void {
  if (raw === undefined || handle?.writeQueueSize !== 0) return;
  for (const receipt of waiting) if (receipt.mark === Number.POSITIVE_INFINITY) receipt.mark = raw.bytesWritten;
}

function handleOf(socket: Socket): Connection['handle'] {
  return (socket as unknown as { _handle?: Connection['handle'] | null })._handle ?? undefined;
}
