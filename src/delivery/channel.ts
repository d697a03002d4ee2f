import type { Socket } from 'node:net';

/**
 * The bytes of one live event, in the two forms a transport may want. Both are shared by all clients: never change them.
 *
 * @example
 * const block: Block = blockOf(':');
 * console.log(JSON.stringify(Buffer.from(block.bytes).toString())); // ":"
 * console.log(JSON.stringify(Buffer.from(block.chunk).toString())); // "1\r\n:\r\n"
 */
export interface Block {
  /** The event as the client's program reads it. */
  readonly bytes: Uint8Array;
  /** The same, framed as one HTTP/1.1 chunk (RFC 9112, section 7.1). */
  readonly chunk: Uint8Array;
}

/** What carries a channel: HTTP/1.1 or HTTP/2, in the clear or over TLS. */
export type Transport = 'http1' | 'https1' | 'h2c' | 'h2';

/**
 * One response body on its way to one client, whatever the transport.
 *
 * @example
 * function stream(exchange: Exchange, pages: readonly Uint8Array[], event: Block): void {
 *   const channel: Channel = exchange.open(200, { 'content-type': 'text/event-stream' });
 *   channel.write(pages, (error) => {
 *     if (error === undefined && !channel.dead) channel.send(event);
 *   });
 * }
 */
export interface Channel {
  readonly transport: Transport;
  /** The TCP socket below; undefined where none is known. Several channels of one HTTP/2 connection have one. */
  readonly socket?: Socket | undefined;
  /** Nothing can be sent any more: the client is gone, the channel was killed, or the response is complete. */
  readonly dead: boolean;
  /**
   * Sends pieces without copying them. One write at a time.
   *
   * `done` is called once, when all of it was taken (HTTP/1.1: by the kernel; HTTP/2: as frames), or with an error. It may
   * also come without an error after the channel died (Node 20): look at `dead` first. After a death it may not come at all.
   */
  write(pieces: readonly Uint8Array[], done: (error?: Error) => void): void;
  /** Sends a live event. `true`: taken at once. `false`: some of it is still held here; `onDrain` tells when it is gone. */
  send(block: Block): boolean;
  /** The one listener that is told each time what `send` had to hold back has been taken. A second call replaces the first. */
  onDrain(listener: () => void): void;
  /**
   * Tells once when the channel is over; at once when it already is.
   * `complete`: it was ended by us and everything was taken. Otherwise the client left, or it was killed.
   */
  onClose(listener: (complete: boolean) => void): void;
  /** Takes a listener of `onClose` back. */
  offClose?(listener: (complete: boolean) => void): void;
  /** A clean end, after everything that was sent. */
  end(): void;
  /** A reset: the client sees a failure, and the kernel keeps nothing. No clean end follows, whatever was sent. */
  kill(): void;
}

type CloseListener = (complete: boolean) => void;

/** What all channels have in common: who listens, and the one way to be over. */
export abstract class BaseChannel implements Channel {
  abstract readonly transport: Transport;
  abstract readonly dead: boolean;
  protected isKilled = false;
  protected isEnded = false;
  #complete: boolean | undefined;
  #holdsBack = false;
  // one function is the common case, and ten thousand idle clients do not need ten thousand arrays
  #closeListeners: CloseListener | CloseListener[] | undefined;
  #drainListener: (() => void) | undefined;

  abstract write(pieces: readonly Uint8Array[], done: (error?: Error) => void): void;
  abstract send(block: Block): boolean;
  abstract end(): void;
  abstract kill(): void;

  onDrain(listener: () => void): void {
    this.#drainListener = listener;
  }

  onClose(listener: CloseListener): void {
    if (this.#complete !== undefined) {
      listener(this.#complete);
    } else if (this.#closeListeners === undefined) {
      this.#closeListeners = listener;
    } else if (typeof this.#closeListeners === 'function') {
      this.#closeListeners = [this.#closeListeners, listener];
    } else {
      this.#closeListeners.push(listener);
    }
  }

  offClose(listener: CloseListener): void {
    if (this.#closeListeners === listener) this.#closeListeners = undefined;
    else if (Array.isArray(this.#closeListeners)) {
      this.#closeListeners = this.#closeListeners.filter((other) => other !== listener);
    }
  }

  /** Whether the channel is over. */
  protected get isOver(): boolean {
    return this.#complete !== undefined;
  }

  /** The single exit: tells the listeners, once. */
  protected over(complete: boolean): void {
    if (this.#complete !== undefined) return;
    this.#complete = complete;
    const listeners = this.#closeListeners;
    this.#closeListeners = undefined;
    this.#drainListener = undefined;
    if (typeof listeners === 'function') listeners(complete);
    else for (const listener of listeners ?? []) listener(complete);
  }

  /** Notes that something is held back; always `false`, which is what `send` answers then. */
  protected holdBack(): false {
    this.#holdsBack = true;
    return false;
  }

  /** To be called when nothing is held back any more. Does nothing when nothing was. */
  protected drained(): void {
    if (!this.#holdsBack) return;
    this.#holdsBack = false;
    this.#drainListener?.();
  }
}

/** Bytes in all pieces together. */
export function bytesOf(pieces: readonly Uint8Array[]): number {
  let bytes = 0;
  for (const piece of pieces) bytes += piece.byteLength;
  return bytes;
}

/** Listens to 'error' events that carry no news: the close that follows each of them does. */
export const ignoreError = (): void => {};

/** A channel that was over before it began: what a second answer gets. */
export class DeadChannel extends BaseChannel {
  readonly transport: Transport;
  readonly dead = true;

  constructor(transport: Transport) {
    super();
    this.transport = transport;
    this.over(false);
  }

  write(_pieces: readonly Uint8Array[], done: (error?: Error) => void): void {
    setImmediate(done, new Error('Cannot write: the channel is dead'));
  }

  send(): boolean {
    return true;
  }

  end(): void {}

  kill(): void {}
}
