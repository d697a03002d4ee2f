import type { Summarizer } from './summarizer.ts';
import type { Summary } from './summary.ts';
import type { EventAudience, InboundEvents } from './types.ts';

/** One batch, in bytes before compression; a single post that is larger goes alone. */
const BATCH_BYTES_MAX = 4 * 1024 * 1024;

/** Different headers that events of one lane may come with at once: each costs a request for itself. */
const QUEUES_MAX = 64;

/** What keeping anything costs besides its bytes, about. */
export const OVERHEAD_BYTES = 256;

/** Events as they will be sent: one, or several with the commas between them. */
interface Piece {
  readonly bytes: Uint8Array;
  readonly events: number;
}

/** What goes upstream in one request. */
export interface Batch {
  readonly pieces: readonly Uint8Array[];
  readonly summary: Summary | undefined;
  readonly events: number;
  /** What is to be given back to the room when it is gone. */
  readonly heldBytes: number;
}

/** Events with the same headers, which wait for their flush. */
export class EventQueue {
  readonly schema: number;
  readonly tags: string;
  /** For events that need one. */
  readonly summarizer: Summarizer | undefined;
  usedMs = 0;
  /** When the summarizer last forgot whom it has told. */
  forgotMs: number;
  #pieces: Piece[] = [];
  #summaryBytes = 0;

  constructor(options: { schema: number; tags: string; summarizer: Summarizer | undefined; nowMs: number }) {
    this.schema = options.schema;
    this.tags = options.tags;
    this.summarizer = options.summarizer;
    this.forgotMs = options.nowMs;
  }

  get isEmpty(): boolean {
    return this.#pieces.length === 0 && this.summarizer?.isEmpty !== false;
  }

  push(piece: Piece): void {
    this.#pieces.push(piece);
  }

  /** Notes what the summary has taken of the room. */
  grown(bytes: number): void {
    this.#summaryBytes += bytes;
  }

  /** The next batch; the summary comes with the last. */
  take(): Batch {
    let bytes = 0;
    let count = 0;
    for (const piece of this.#pieces) {
      if (count > 0 && bytes + piece.bytes.length > BATCH_BYTES_MAX) break;
      bytes += piece.bytes.length;
      count++;
    }
    const taken = this.#pieces.splice(0, count);
    const summary = this.#pieces.length === 0 ? this.summarizer?.take() : undefined;
    let heldBytes = bytes + count * OVERHEAD_BYTES;
    if (summary !== undefined) {
      heldBytes += this.#summaryBytes;
      this.#summaryBytes = 0;
    }
    return {
      pieces: taken.map((piece) => piece.bytes),
      summary,
      events: taken.reduce((sum, { events }) => sum + events, 0),
      heldBytes,
    };
  }
}

/** Everything of one environment and audience. */
export class Lane {
  readonly environment: string;
  readonly audience: EventAudience;
  /** The latest that callers came with: a key that was replaced is not used any more. */
  sdkKey = '';
  path = '';
  readonly queues: Map<string, EventQueue> = new Map();
  /** Events that wait. */
  events = 0;
  /** Bytes that are held, on their way included. */
  bytes = 0;
  /** Requests on their way, or to be tried again. */
  posting = 0;
  postingDiagnostics = 0;
  /** More waits than could be sent at the last flush. */
  isBehind = false;
  /** Its environment is no more. */
  isForgotten = false;
  /** The key that upstream refused. */
  refusedKey: string | undefined;
  /** Unix time in milliseconds, as the events service last said. */
  upstreamMs = 0;

  constructor({ environmentId, audience }: InboundEvents) {
    this.environment = environmentId;
    this.audience = audience;
  }

  get isRefused(): boolean {
    return this.refusedKey !== undefined && this.refusedKey === this.sdkKey;
  }

  get isIdle(): boolean {
    return this.queues.size === 0 && this.posting === 0 && this.postingDiagnostics === 0 && this.bytes === 0;
  }

  /** The queue for events with these headers; undefined: there are too many of them already. */
  queue(name: string, make: () => EventQueue): EventQueue | undefined {
    const known = this.queues.get(name);
    if (known !== undefined) return known;
    if (this.queues.size >= QUEUES_MAX && !this.#forgetEmpty()) return undefined;
    const queue = make();
    this.queues.set(name, queue);
    return queue;
  }

  #forgetEmpty(): boolean {
    for (const [name, queue] of this.queues) {
      if (queue.isEmpty) return this.queues.delete(name);
    }
    return false;
  }
}

/** The memory that all lanes share. */
export class Room {
  readonly #bytesMax: number;
  #bytes = 0;
  /** What of it came with keys that anybody can read in a page or an app. */
  #publicBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Takes room for a lane, if there is; one lane has at most half of it, and so have all browsers and phones together. */
  take(lane: Lane, bytes: number): boolean {
    const ofPublic = lane.audience === 'server' ? 0 : bytes;
    const half = this.#bytesMax / 2;
    if (this.#bytes + bytes > this.#bytesMax || lane.bytes + bytes > half) return false;
    if (ofPublic > 0 && this.#publicBytes + bytes > half) return false;
    this.#bytes += bytes;
    this.#publicBytes += ofPublic;
    lane.bytes += bytes;
    return true;
  }

  give(lane: Lane, bytes: number): void {
    this.#bytes -= bytes;
    if (lane.audience !== 'server') this.#publicBytes -= bytes;
    lane.bytes -= bytes;
  }
}
