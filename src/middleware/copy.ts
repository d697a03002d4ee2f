import type { Slot } from '../admission/index.ts';
import {
  type Deliveries,
  type Exchange,
  type RawSockets,
  type Report,
  type ReplyHeaders,
  resetResponse,
  type Source,
} from '../delivery/index.ts';
import { type Clock, HeadgateError } from '../kernel/index.ts';
import { Http1Meter, Http2Meter, type Meter } from './meter.ts';
import { openPayload } from './payload.ts';
import { isWrapped, writeThrough } from './through.ts';
import type { Ending, NodeRequest, NodeResponse, Payload } from './types.ts';
import type { CutReason, Watched } from './watch.ts';

/** What a copy takes from those it is one of. */
export interface CopyContext {
  readonly clock: Clock;
  readonly rawSockets: RawSockets;
  readonly deliveries: Deliveries;
  readonly capMs: number | undefined;
  readonly leftMsMax: number;
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
  /** The handler has taken the signal: it stops when it is told to. */
  #isTold = false;
  /** The handler has ended, where that is known. */
  #isHandled = false;
  /** The client has left, and the handler works on. Ends that. */
  #stopLingering: (() => void) | undefined;

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
    exchange.onClose((complete) => {
      if (complete) this.#end('completed');
      else this.#left();
    });
  }

  /** Aborts when the copy ends in any way but `completed`: stop making what nobody will get. */
  get signal(): AbortSignal {
    this.#isTold = true;
    this.#controller ??= new AbortController();
    this.#lingered();
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
    const { source, isReading, abandon } = openPayload(payload);
    this.#delivered = true;
    this.#lingered();
    const given = inLowerCase(options.headers);
    const headers = { ...given, ...lengthOf(res, given, source.bytes) };
    const isBodyless = req.method === 'HEAD' || res.statusCode === 204 || res.statusCode === 304;
    const body = isBodyless ? { bytes: undefined, next: () => undefined } : source;
    if (isWrapped(res)) {
      const report = await this.#deliverThrough(body, headers, isBodyless ? undefined : headers['content-length']);
      if (report.outcome !== 'completed' || body !== source) abandon();
      return report;
    }
    const channel = exchange.open(res.statusCode, headers);
    this.#watched.delivering = isReading;
    const { deliveries, parking, capMs } = this.#context;
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

  /** Through what has wrapped the response, and so under watch, as if the handler wrote it. */
  async #deliverThrough(source: Source, headers: ReplyHeaders, announced: string | undefined): Promise<Report> {
    const { res, exchange } = this.#answering;
    const fromMs = this.ms;
    const passage = { bytes: 0, over: false };
    const ended = new Promise<void>((resolve) => {
      exchange.onClose(() => {
        passage.over = true;
        resolve();
      });
    });
    let failed: { readonly error: unknown } | undefined;
    try {
      for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
      // whoever waits for the next piece does not see that the client has left
      await Promise.race([writeThrough(res, source, passage), ended]);
      const isWhole = announced === undefined || Number(announced) === passage.bytes;
      if (!isWhole && !passage.over)
        throw new Error(`Cannot deliver: the body has ${announced} bytes, got ${passage.bytes}`);
      res.end();
    } catch (error) {
      failed = { error };
      this.cut('error');
    }
    await ended;
    const ending = this.#ending ?? 'client_gone';
    const outcome = ending === 'overdue' ? 'client_gone' : ending;
    return { outcome, bytes: passage.bytes, ms: this.ms - fromMs, parkedMs: 0, ...failed };
  }

  /** The handler has ended: for adapters that see it. */
  handled(): void {
    this.#isHandled = true;
    this.#lingered();
  }

  /** The client is gone. What is still being made for it takes up as much as it did before. */
  #left(): void {
    const { res } = this.#answering;
    const { clock, leftMsMax } = this.#context;
    const isOver = this.#isTold || this.#isHandled || this.#delivered || res.headersSent || leftMsMax === 0;
    if (isOver || this.#ending !== undefined) return this.#end('client_gone');
    this.#context.unwatch(this.#watched);
    const timer = clock.after(leftMsMax, () => this.#lingered());
    const leaveAlone = whenTouched(res, () => this.#lingered());
    this.#stopLingering = () => {
      timer.cancel();
      leaveAlone();
    };
  }

  /** If it waited for its handler, it does so no longer. */
  #lingered(): void {
    if (this.#stopLingering !== undefined) this.#end('client_gone');
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
    this.#stopLingering?.();
    this.#stopLingering = undefined;
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

type Method = (...args: unknown[]) => unknown;

/** Tells when a response to which nothing can be sent any more is written to. Answers what undoes it. */
function whenTouched(res: NodeResponse, touched: () => void): () => void {
  const methods = res as unknown as Record<string, Method>;
  const undo = ['writeHead', 'write', 'end'].map((name) => {
    const own = Object.getOwnPropertyDescriptor(res, name);
    const method = methods[name];
    methods[name] = function (this: unknown, ...args: unknown[]) {
      touched();
      return method?.apply(this, args);
    };
    return () => {
      if (own === undefined) delete methods[name];
      else Object.defineProperty(res, name, own);
    };
  });
  return () => {
    for (const each of undo) each();
  };
}

/** A name that is given twice in two spellings would be sent twice. */
function inLowerCase(headers: ReplyHeaders = {}): ReplyHeaders {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** The length to announce: none when there is to be none, and what was set before stands. */
function lengthOf(res: NodeResponse, given: ReplyHeaders, bytes: number | undefined): ReplyHeaders {
  if (given['content-length'] !== undefined) return {};
  const set = res.getHeader('content-length');
  if (set !== undefined) return { 'content-length': String(set) };
  // RFC 9110, section 8.6: never with a 204
  const isNone =
    res.statusCode === 204 || given['transfer-encoding'] !== undefined || res.hasHeader('transfer-encoding');
  return bytes === undefined || isNone ? {} : { 'content-length': String(bytes) };
}
