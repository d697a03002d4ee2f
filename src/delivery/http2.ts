import { constants, type Http2Session, type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { type Clock, systemClock } from '../kernel/index.ts';
import { BaseChannel, type Block, bytesOf, ignoreError, type Transport } from './channel.ts';
import { type RawSockets, resetConnection } from './raw-sockets.ts';

/** How long a connection has to answer a PING before it counts as stalled: two of the worst round trips, and change. */
const PROBE_MS = 2000;

/** What a channel over HTTP/2 needs besides its stream. */
export interface Http2ChannelOptions {
  readonly rawSockets: RawSockets;
  /** What Content-Length says; undefined when there is none. */
  readonly bodyBytes?: number | undefined;
  readonly bodyless?: boolean;
  readonly clock?: Clock;
}

/** A response on one HTTP/2 stream, in the clear or over TLS. The other streams of its connection are never touched. */
export class Http2Channel extends BaseChannel {
  readonly transport: Transport;
  readonly #stream: ServerHttp2Stream;
  readonly #session: Http2Session | undefined;
  readonly #rawSockets: RawSockets;
  readonly #clock: Clock;
  readonly #bodyBytes: number | undefined;
  readonly #bodyless: boolean;
  #bytes = 0;
  #finished = false;
  #onTaken: (() => void) | undefined;

  /** @param stream - its headers must have been sent. */
  constructor(stream: ServerHttp2Stream, options: Http2ChannelOptions) {
    super();
    this.#stream = stream;
    // kept, because a destroyed stream has forgotten its session, and the probe comes after the destruction
    this.#session = stream.session;
    this.#rawSockets = options.rawSockets;
    this.#clock = options.clock ?? systemClock;
    this.#bodyBytes = options.bodyBytes;
    this.#bodyless = options.bodyless ?? false;
    this.transport = this.#session?.encrypted === true ? 'h2' : 'h2c';
    stream.on('error', ignoreError);
    // Node emits 'finish' also after the connection was reset; what the stream says of itself at that moment is the truth
    stream.prependOnceListener('finish', () => {
      this.#finished = !stream.aborted && !stream.destroyed && stream.rstCode === constants.NGHTTP2_NO_ERROR;
    });
    stream.once('close', () => {
      const clean = !stream.aborted && stream.rstCode === constants.NGHTTP2_NO_ERROR;
      this.over(this.isEnded && this.#finished && clean && !this.isKilled);
    });
    if (stream.closed || stream.destroyed) this.over(false);
  }

  get socket(): Socket | undefined {
    return this.#session === undefined ? undefined : this.#rawSockets.ofSession(this.#session);
  }

  get dead(): boolean {
    const stream = this.#stream;
    return this.isKilled || this.isOver || stream.destroyed || stream.closed || stream.aborted;
  }

  write(pieces: readonly Uint8Array[], done: (error?: Error) => void): void {
    const bytes = bytesOf(pieces);
    if (this.dead || this.isEnded) {
      setImmediate(done, new Error('Cannot write: the channel is dead'));
    } else if (this.#bodyless || bytes === 0) {
      setImmediate(done);
    } else if (this.#overflows(bytes)) {
      setImmediate(done, new Error(`Cannot write: the body has ${this.#bodyBytes} bytes, got ${this.#bytes + bytes}`));
    } else {
      this.#writeBody(pieces, done);
    }
  }

  send(block: Block): boolean {
    if (this.dead || this.isEnded || this.#bodyless) return true;
    if (this.#overflows(block.bytes.byteLength)) {
      this.kill();
      return true;
    }
    this.#onTaken ??= () => {
      if (this.#stream.writableLength === 0) this.drained();
    };
    this.#stream.write(block.bytes, this.#onTaken);
    return this.#stream.writableLength === 0 || this.holdBack();
  }

  end(): void {
    if (this.isEnded || this.isKilled || this.isOver) return;
    // RFC 9113, section 8.1.1: a body that contradicts Content-Length is malformed; say so with a reset
    if (!this.#bodyless && this.#bodyBytes !== undefined && this.#bytes !== this.#bodyBytes) return this.kill();
    this.isEnded = true;
    this.#stream.end();
  }

  /**
   * Resets this stream, then finds out whether its whole connection is stalled, and resets that too if it is.
   *
   * `close` alone waits for the connection; `destroy` alone says NO_ERROR, which a client takes for a whole reply.
   */
  kill(): void {
    if (this.isKilled || this.isOver) return;
    this.isKilled = true;
    const stream = this.#stream;
    if (!stream.closed) stream.close(constants.NGHTTP2_CANCEL);
    stream.destroy();
    if (this.#session !== undefined) probe(this.#session, this.#rawSockets.ofSession(this.#session), this.#clock);
  }

  #overflows(bytes: number): boolean {
    if (this.#bodyBytes !== undefined && this.#bytes + bytes > this.#bodyBytes) return true;
    this.#bytes += bytes;
    return false;
  }

  #writeBody(pieces: readonly Uint8Array[], done: (error?: Error) => void): void {
    const stream = this.#stream;
    const last = pieces.length - 1;
    stream.cork();
    for (let i = 0; i < last; i++) stream.write(pieces[i]);
    stream.write(pieces[last], (error) => done(error ?? undefined));
    stream.uncork();
  }
}

/** Sessions with a PING on its way: a thousand streams killed together ask once. */
const probing = new WeakSet<Http2Session>();

/** A PING that the client's HTTP/2 answers even while it reads no stream; silence means that nobody reads the connection. */
export function probe(session: Http2Session, raw: Socket | undefined, clock: Clock): void {
  if (raw === undefined || session.destroyed || probing.has(session)) return;
  probing.add(session);
  const timer = clock.after(PROBE_MS, () => {
    probing.delete(session);
    resetConnection(raw);
  });
  const sent = pingOf(session, () => {
    probing.delete(session);
    timer.cancel();
  });
  if (sent) return;
  probing.delete(session);
  timer.cancel();
}

/**
 * Sends a PING. False when the session refuses: it is on its way out, or has too many PINGs open.
 *
 * @param answered - gets an error when the session ends first.
 */
export function pingOf(session: Http2Session, answered: (error: Error | null) => void): boolean {
  try {
    return session.ping(answered);
  } catch {
    // destroyed between the check and the call: its socket is closing already
    return false;
  }
}
