import type { Slot } from '../admission/index.ts';
import {
  type Deliveries,
  type Exchange,
  type RawSockets,
  type Report,
  type ReplyHeaders,
  resetResponse,
} from '../delivery/index.ts';
import { type Clock, HeadgateError } from '../kernel/index.ts';
import { Http1Meter, Http2Meter, type Meter } from './meter.ts';
import { openPayload } from './payload.ts';
import type { Ending, NodeRequest, NodeResponse, Payload } from './types.ts';
import type { CutReason, Watched } from './watch.ts';

/** What a copy takes from those it is one of. */
export interface CopyContext {
  readonly clock: Clock;
  readonly rawSockets: RawSockets;
  readonly deliveries: Deliveries;
  readonly capMs: number | undefined;
  /** Whether others wait for a slot, and it may be lent. */
  readonly parking: () => boolean;
  watch(meter: Meter, cut: (reason: CutReason) => void): Watched;
  unwatch(watched: Watched): void;
  /** Told once, after the slot was released. */
  ended(copy: Copy, ending: Ending): void;
}

/** A response, and the request it answers. */
export interface Answering {
  readonly req: NodeRequest;
  readonly res: NodeResponse;
  readonly exchange: Exchange;
}

const WHY: Readonly<Record<Exclude<Ending, 'completed'>, string>> = {
  client_gone: 'the client is gone',
  stalled: 'the client takes too little',
  capped: 'the client takes too long',
  overdue: 'the handler wrote nothing for too long',
  shutdown: 'the service shuts down',
  error: 'what it is made from failed',
};

/**
 * One response that holds a slot, from before its handler runs until its last byte has left.
 *
 *   held ─► the handler writes to the response, watched ──┬─► completed                          the slot is free
 *     └───► deliver() ─► sent by the engine, guarded ─────┘   client_gone, stalled, overdue …    and so is the signal
 *
 * @example
 * async function handler(copy: Copy, makeExport: (signal: AbortSignal) => Promise<Uint8Array>): Promise<void> {
 *   await copy.deliver(await makeExport(copy.signal), { headers: { 'content-type': 'application/json' } });
 * }
 */
export class Copy {
  /** How long it waited for its slot, in milliseconds. */
  readonly waitedMs: number;
  readonly tenant: string;
  readonly #answering: Answering;
  readonly #slot: Slot;
  readonly #context: CopyContext;
  readonly #meter: Meter;
  readonly #watched: Watched;
  readonly #heldAtMs: number;
  #controller: AbortController | undefined;
  #ending: Ending | undefined;
  #endedAtMs = 0;
  #delivered = false;

  /** Made by {@link Copies}. */
  constructor(answering: Answering, slot: Slot, tenant: string, context: CopyContext) {
    const { req, res, exchange } = answering;
    this.waitedMs = slot.waitedMs;
    this.tenant = tenant;
    this.#answering = answering;
    this.#slot = slot;
    this.#context = context;
    this.#heldAtMs = context.clock.now();
    this.#meter =
      'stream' in res
        ? new Http2Meter(res.stream)
        : new Http1Meter(res, req.socket, context.rawSockets.ofSocket(req.socket));
    this.#watched = context.watch(this.#meter, (reason) => this.cut(reason));
    exchange.onClose((complete) => this.#end(complete ? 'completed' : 'client_gone'));
  }

  /** Aborts when the copy ends in any way but `completed`: stop making what nobody will get. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#ending !== undefined) this.#abort(this.#ending);
    return this.#controller.signal;
  }

  /** How it ended; undefined while its slot is held. */
  get ending(): Ending | undefined {
    return this.#ending;
  }

  /** Bytes that were taken so far, about: over HTTP/1.1 with the head, and with what TLS adds. */
  get bytes(): number {
    return this.#meter.taken();
  }

  /** How long the slot has been held, in milliseconds. */
  get ms(): number {
    return (this.#ending === undefined ? this.#context.clock.now() : this.#endedAtMs) - this.#heldAtMs;
  }

  /** The status of the response, so far as it is decided. */
  get status(): number {
    return this.#answering.res.statusCode;
  }

  /**
   * Sends all of a payload, and ends the response: piece by piece, under a deadline for its reader and the ration that all
   * copies share, so that one large copy does not hold up the loop. Status and headers that were set on the response stand.
   * Never rejects for what the client does: the report says how it ended. What the payload threw is in it, too, and the
   * response was reset then.
   *
   * @throws HeadgateError `HG_OPTION` when the response was begun before.
   */
  async deliver(payload: Payload, options: { readonly headers?: ReplyHeaders } = {}): Promise<Report> {
    const { req, res, exchange } = this.#answering;
    if (res.headersSent || this.#delivered)
      throw new HeadgateError('HG_OPTION', `Cannot deliver: the response must not have begun, got ${req.url} again`);
    this.#delivered = true;
    const { source, isReading, abandon } = openPayload(payload);
    const headers = { ...options.headers, ...lengthOf(res, options.headers, source.bytes) };
    const channel = exchange.open(res.statusCode, headers);
    this.#watched.delivering = isReading;
    const { deliveries, parking, capMs } = this.#context;
    const body = req.method === 'HEAD' ? { bytes: undefined, next: () => undefined } : source;
    const report = await deliveries.deliver({
      channel,
      source: body,
      slot: this.#slot,
      parking,
      ...(capMs === undefined ? {} : { capMs }),
      onEnd: (end) => {
        // at this very moment: what the exchange says of the same end comes later
        if (end.outcome !== 'completed') this.#end(end.outcome);
      },
    });
    this.#watched.delivering = undefined;
    if (report.outcome !== 'completed' || body !== source) abandon();
    channel.end();
    return report;
  }

  /** Gives it up: the connection (HTTP/1.1) or stream (HTTP/2) is reset, the slot freed, the signal aborted. */
  cut(reason: CutReason | 'shutdown' | 'error'): void {
    if (this.#ending !== undefined) return;
    const { req, res } = this.#answering;
    // before the release: what the kernel holds for this reader is gone when the next copy begins
    try {
      resetResponse(req, res, this.#context);
    } finally {
      this.#end(reason);
    }
  }

  /** The single exit, once. */
  #end(ending: Ending): void {
    if (this.#ending !== undefined) return;
    this.#endedAtMs = this.#context.clock.now();
    this.#ending = ending;
    this.#context.unwatch(this.#watched);
    this.#slot.release();
    this.#context.ended(this, ending);
    this.#abort(ending);
  }

  #abort(ending: Ending): void {
    if (ending === 'completed' || this.#controller === undefined || this.#controller.signal.aborted) return;
    const reason = new Error(`Cannot deliver: ${WHY[ending]}`);
    // what programs ask for when they want to know whether something was called off
    reason.name = 'AbortError';
    this.#controller.abort(reason);
  }
}

/** The length to announce: none when the response has one, or is to have none. */
function lengthOf(res: NodeResponse, given: ReplyHeaders | undefined, bytes: number | undefined): ReplyHeaders {
  const set = res.getHeader('content-length');
  const isSet = set !== undefined || given?.['content-length'] !== undefined;
  if (isSet)
    return set === undefined || given?.['content-length'] !== undefined ? {} : { 'content-length': String(set) };
  return bytes === undefined || res.hasHeader('transfer-encoding') ? {} : { 'content-length': String(bytes) };
}
