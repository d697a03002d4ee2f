import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import type { LimiterStats, RefusalReason } from '../admission/index.ts';
import type { Outcome, Source } from '../delivery/index.ts';
import type { Clock } from '../kernel/index.ts';

/** A request of node:http, node:https, or of node:http2's compatibility API. */
export type NodeRequest = IncomingMessage | Http2ServerRequest;

/** A response of node:http, node:https, or of node:http2's compatibility API. */
export type NodeResponse = ServerResponse | Http2ServerResponse;

/** Why a request was not admitted: the queue is full, its wait is over, its client has left, or `close()` was called. */
export type ShedReason = RefusalReason;

/**
 * How a copy ended. `completed`: all of the response was taken. `client_gone`: its connection or stream ended first, whoever
 * ended it. Cut by us: `stalled`, under the floor rate; `capped`, over the most time that a reader gets; `overdue`, the
 * handler wrote nothing for `handlerMsMax`; `shutdown`, `drain` was out of patience. `error`: what `deliver` was given failed.
 */
export type Ending = Outcome | 'overdue';

/** What can be delivered: bytes or text at hand, anything that gives them one by one, or a source of the delivery room. */
export type Payload = Uint8Array | string | Iterable<Uint8Array | string> | AsyncIterable<Uint8Array | string> | Source;

/** How many copies a service hands out at a time, and what it expects of their readers. */
export interface CopiesOptions {
  /** For facts and numbers. Default `copies`. */
  readonly name?: string;
  /** Slots: copies on their way at a time. */
  readonly maxConcurrent: number;
  /** Requests that wait for a slot at a time. Default 1000; 0 sheds whoever finds none free. */
  readonly maxQueued?: number;
  /** How long a request waits for a slot. Default 5 s: stay below what clients wait for a first byte. */
  readonly waitMsMax?: number;
  /**
   * Copies sent by `deliver` whose reader takes nothing for 100 ms lend their slot to those who wait; at most so many at a
   * time, each with what it pins. Default as many as there are slots; 0 is never.
   */
  readonly maxParked?: number;
  /** The slowest steady reader that is served. Default 64 KiB/s. */
  readonly floorBytesPerSecond?: number;
  /**
   * How far a reader may fall behind that. Default 30 s, or 10 s once `attach` has found or set the low-water mark on every
   * server: without it the kernel hides for 22 s what a steady reader takes.
   */
  readonly slackMs?: number;
  /** How much of a reader's lead counts. Default half of `slackMs`. */
  readonly creditMs?: number;
  /** The most time a reader gets. Default the larger of two minutes and twice what the floor rate needs. */
  readonly capMs?: number;
  /** How long a handler may write nothing while nothing waits for its client. Default 60 s; Infinity is for ever. */
  readonly handlerMsMax?: number;
  /**
   * How long a slot is kept for a handler that works on after its client has left: until it answers or ends, at most so long.
   * One that has taken the copy's signal is told to stop, and its slot is free at once. Default 10 s; 0 frees it at once always.
   */
  readonly leftMsMax?: number;
  /** How often readers are looked at. Default 250 ms. */
  readonly sweepMs?: number;
  readonly clock?: Clock;
}

/** Who asks, for fairness: what a function of the request says. */
export interface LimitOptions<Request> {
  /** Tenants share the queue in turn. Default one for all. */
  readonly tenant?: (request: Request) => string;
  /** `server` requests go before `public` ones, 8 to 1. Default all `server`. */
  readonly class?: (request: Request) => 'server' | 'public';
}

/** Who asks for a slot. */
export interface Asker {
  readonly tenant?: string;
  readonly class?: 'server' | 'public';
}

/** What a request that is not admitted is answered. */
export interface Shed {
  readonly reason: ShedReason;
  readonly status: 503;
  readonly retryAfterSeconds: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: string;
}

/** Copies in numbers: as they stand, then counted since they were made. */
export interface CopiesStats {
  readonly name: string;
  readonly closed: boolean;
  readonly held: number;
  readonly waiting: number;
  readonly parked: number;
  readonly admitted: number;
  readonly shed: LimiterStats['refused'];
  readonly longestWaitMs: number;
  readonly ended: Readonly<Record<Ending, number>>;
  /** Bytes that were taken, of copies that have ended: see `EndedFact`. */
  readonly bytes: number;
}
