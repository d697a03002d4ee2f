import type { Channel } from './channel.ts';
import type { ProgressDeadline } from './deadline.ts';

/** How a delivery ended. */
export type Outcome = 'completed' | 'client_gone' | 'stalled' | 'capped' | 'error' | 'shutdown';

/** What became of a delivery. */
export interface Report {
  readonly outcome: Outcome;
  /** Bytes that were taken; those of a write cut halfway are not counted. */
  readonly bytes: number;
  readonly ms: number;
  /** Of these, how long it had given up its place. */
  readonly parkedMs: number;
  /** What was thrown, when the outcome is `error`; what the transport said, when it said something. */
  readonly error?: unknown;
}

/** A place in a limiter, as far as a delivery is concerned. */
export interface HeldSlot {
  readonly state: string;
  /** Gives the place to the next; false when that is not possible now. */
  park(): boolean;
  /** Asks for a place again, before anyone in the queue. */
  resume(onHeld: () => void): void;
  /** Idempotent, from any state. */
  release(): void;
  pin(bytes: number): void;
}

/** What is delivered: pieces in order, made when they are asked for. */
export interface Source {
  /** All pieces together, on the wire, in bytes; undefined when it is not known beforehand. */
  readonly bytes: number | undefined;
  /**
   * The next pieces; undefined after the last. They are sent as they are, without a copy, and must not change until `next` is
   * asked again or the delivery is over: by then the kernel has them (HTTP/1.1 and HTTP/2 in the clear), or OpenSSL has
   * encrypted them. Of a delivery that did not complete the kernel may still send some, on a stream that was reset.
   * About `bytesWanted` go out in one write: a source that can give as many at once saves calls.
   */
  next(bytesWanted?: number): readonly Uint8Array[] | Promise<readonly Uint8Array[] | undefined> | undefined;
}

/** Whom a delivery is for, as an operator calls it: never a key. */
export interface DeliveryAbout {
  readonly front: 'flags' | 'decisions';
  /** The environment or the bouncer. */
  readonly name: string;
  readonly route: string;
  /** Of the client. */
  readonly address: string;
}

/** A delivery in progress, in numbers. */
export interface DeliveryProgress extends DeliveryAbout {
  /** Bytes that were taken. */
  readonly bytes: number;
  /** Of all that is sent; null while it is not known. */
  readonly totalBytes: number | null;
  /** Since its first byte could have been sent, in milliseconds. */
  readonly ageMs: number;
  /** Over its whole age. */
  readonly bytesPerSecond: number;
  /** Whether it has given up its place. */
  readonly parked: boolean;
}

/** What a delivery needs. */
export interface DeliverOptions {
  readonly channel: Channel;
  readonly source: Source;
  /** Released exactly once, before the promise resolves, however it ends. */
  readonly slot?: HeldSlot;
  /** `false`: no deadline at all; the ration and the end on close remain. */
  readonly guarded?: boolean;
  /** The most time the reader gets, in milliseconds; may be Infinity. Undefined: grows with the size. */
  readonly capMs?: number;
  /** Whether others wait for a place. With it, and a slot, a reader that takes nothing gives its place up. */
  readonly parking?: () => boolean;
  /** Called once, at the moment it ends, after the slot was released. */
  readonly onEnd?: (report: Report) => void;
  /** Whom it is for. Asked only when somebody looks at the deliveries in progress; without it, it is not among those. */
  readonly about?: () => DeliveryAbout;
}

/**
 *   queued ─► (reading ─►) writing ─► queued ─► … ─► over
 *     ▲                       │
 *     └──── resuming ◄────────┘ parked meanwhile: waits for a place before it goes on
 */
export type Phase = 'queued' | 'reading' | 'writing' | 'resuming' | 'over';

/** A delivery on its way. It knows what is to be written next; when, is for the engine to say. */
export class Delivery {
  readonly channel: Channel;
  readonly slot: HeldSlot | undefined;
  readonly deadline: ProgressDeadline | undefined;
  readonly onEnd: ((report: Report) => void) | undefined;
  readonly about: (() => DeliveryAbout) | undefined;
  readonly startedAtMs: number;
  parking: (() => boolean) | undefined;
  /** Undefined once it is over: an open stream must not keep the pages of its first copy. */
  source: Source | undefined;
  phase: Phase = 'queued';
  /** Bytes taken. */
  bytes = 0;
  /** Bytes of the write that is out. */
  outstanding = 0;
  /** How many bytes its next write has, about. */
  writeBytes: number;
  /** When the write that is out went out, in fair time. */
  wroteAtMs = 0;
  /** When it gave up its place; undefined while it has one. */
  parkedAtMs: number | undefined;
  parkedMs = 0;
  settle: ((report: Report) => void) | undefined;
  onClose: (() => void) | undefined;
  onTaken: ((error?: Error) => void) | undefined;
  #pieces: readonly Uint8Array[] = [];
  #index = 0;
  #offset = 0;

  constructor(
    options: DeliverOptions,
    deadline: ProgressDeadline | undefined,
    at: { readonly nowMs: number; readonly writeBytes: number },
  ) {
    this.channel = options.channel;
    this.source = options.source;
    this.slot = options.slot;
    this.parking = options.slot === undefined ? undefined : options.parking;
    this.onEnd = options.onEnd;
    this.about = options.about;
    this.deadline = deadline;
    this.startedAtMs = at.nowMs;
    this.writeBytes = at.writeBytes;
  }

  /** Whether everything it announced was taken: who knows the length may leave at the last byte, before we say so. */
  get isWhole(): boolean {
    return this.source?.bytes !== undefined && this.bytes >= this.source.bytes;
  }

  /** Whether pieces that were read are still to be written. */
  get hasPieces(): boolean {
    return this.#index < this.#pieces.length;
  }

  /** Only when it has none. */
  give(pieces: readonly Uint8Array[]): void {
    this.#pieces = pieces;
    this.#index = 0;
    this.#offset = 0;
  }

  /** Takes about `bytes` bytes off the front: all that is left, or between one and one and a half times as many. */
  cut(bytes: number): Uint8Array[] {
    const group: Uint8Array[] = [];
    let size = 0;
    while (size < bytes && this.#index < this.#pieces.length) {
      const piece = this.#pieces[this.#index] as Uint8Array;
      const left = piece.byteLength - this.#offset;
      const room = bytes - size;
      // a tail of less than half a write goes along: it is not worth a write of its own
      const take = left <= room + bytes / 2 ? left : room;
      if (take > 0) group.push(take === piece.byteLength ? piece : piece.subarray(this.#offset, this.#offset + take));
      size += take;
      this.#offset += take;
      if (take < left) break;
      this.#index++;
      this.#offset = 0;
    }
    return group;
  }

  /** Lets go of all that is large. */
  drop(): void {
    this.source = undefined;
    this.parking = undefined;
    this.onTaken = undefined;
    this.onClose = undefined;
    this.settle = undefined;
    this.#pieces = [];
  }
}
