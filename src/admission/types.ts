import type { Clock } from '../kernel/index.ts';

/**
 * Why a caller was not admitted: the queue is full; its wait is over, or would be before its turn; its signal
 * aborted; the limiter is closed.
 *
 * @example
 * const limiter = new Limiter({ name: 'copies', maxConcurrent: 1, maxQueued: 0, waitMsMax: 1000 });
 * limiter.tryAcquire();
 * const answer = limiter.tryAcquire();
 * console.log(answer.admitted ? 'a slot' : answer.reason); // full
 */
export type RefusalReason = 'full' | 'timeout' | 'aborted' | 'closed';

/**
 * Who asks for a slot, and on what terms.
 *
 * @example
 * const limiter = new Limiter({ name: 'copies', maxConcurrent: 1, maxQueued: 10, waitMsMax: 1000 });
 * const answer = await limiter.acquire({ tenant: 'production', klass: 'public', pinBytes: 65536 });
 * console.log(answer.admitted, limiter.stats().declaredBytes); // true 65536
 */
export interface AcquireRequest {
  /** Tenants share the queue in turn. Default ''. */
  readonly tenant?: string;
  /** Server credentials go before public ones, 8 to 1. Default 'server'. */
  readonly klass?: 'server' | 'public';
  /** A client that was here before: first-time clients of its tenant go before it, 7 to 1. */
  readonly returning?: boolean;
  /** Bytes that the delivery will keep in memory, as far as known. Default 0. */
  readonly pinBytes?: number;
  /** Overrides the limiter's own. */
  readonly waitMsMax?: number;
  readonly signal?: AbortSignal;
  /**
   * For a client that is connected already and only needs a new copy: waits outside `maxQueued`, never times out,
   * is never refused early. Their number is bounded by the open connections.
   */
  readonly outsideQueueBound?: boolean;
}

/**
 * One place among `maxConcurrent`, from before the payload is encoded until its last byte has left.
 *
 * @example
 * const limiter = new Limiter({ name: 'copies', maxConcurrent: 1, maxQueued: 10, waitMsMax: 1000, maxParked: 4 });
 * const answer = await limiter.acquire();
 * if (!answer.admitted) throw new Error(answer.reason);
 * const { slot } = answer;
 * console.log(slot.state, limiter.held); // held 1
 * slot.park(); // its reader takes nothing: let the next one have the place
 * console.log(slot.state, limiter.held); // parked 0
 * slot.resume(() => console.log('held again')); // held again
 * slot.release(); // or `using slot = answer.slot`
 * console.log(slot.state, limiter.held); // released 0
 */
export interface Slot extends Disposable {
  /** How long the caller waited for it, in milliseconds. */
  readonly waitedMs: number;
  /** A slot that waits to be held again is still parked. */
  readonly state: 'held' | 'parked' | 'released';
  /** States how many bytes this delivery keeps in memory; replaces what was stated before. */
  pin(bytes: number): void;
  /**
   * Gives the place to whoever is next; the pinned bytes stay charged.
   *
   * @returns false, and nothing happens, when `maxParked` are parked already or the slot is not held.
   */
  park(): boolean;
  /**
   * Takes the next free place, before anyone in the queue; after those that asked earlier.
   *
   * @param onHeld - called once when the slot is held, at once if it can be. Asked again while waiting, the later
   * callback counts and the place in line stays. Never called on a slot that is released.
   */
  resume(onHeld: () => void): void;
  /** Frees the place and the bytes, from any state. Only the first call counts. */
  release(): void;
}

/**
 * What a caller is told. Refusals are answers, not exceptions.
 *
 * @example
 * const limiter = new Limiter({ name: 'copies', maxConcurrent: 1, maxQueued: 10, waitMsMax: 1000 });
 * limiter.close();
 * const answer = await limiter.acquire();
 * console.log(answer.admitted ? 'go on' : `503: ${answer.reason}`); // 503: closed
 */
export type Answer =
  | { readonly admitted: true; readonly slot: Slot }
  | {
      readonly admitted: false;
      readonly reason: RefusalReason;
      /** Refused on arrival because its turn could not come within its wait. Its reason is 'timeout'. */
      readonly early: boolean;
      readonly waitedMs: number;
    };

/**
 * How much a {@link Limiter} lets in, and how it makes the others wait.
 *
 * @example
 * const options = { name: 'copies', maxConcurrent: 128, maxQueued: 10_000, waitMsMax: 10_000, maxParked: 128 };
 * console.log(new Limiter(options).enabled); // true
 */
export interface LimiterOptions {
  readonly name: string;
  /** Slots held at a time, at least 1. */
  readonly maxConcurrent: number;
  /** Callers that wait at a time; 0 refuses whoever finds no free slot. */
  readonly maxQueued: number;
  /** How long a caller waits, in milliseconds; 0 is not at all, Infinity for as long as it takes. */
  readonly waitMsMax: number;
  /** Slots parked at a time: each is a client that reads nothing and pins what it was given. Default 0, no parking. */
  readonly maxParked?: number;
  /** Bytes that deliveries may keep in memory before newcomers wait. Default Infinity. */
  readonly maxPinnedBytes?: number;
  /** Bytes pinned beyond what slots declare; asked whenever somebody could be admitted. Must not throw. */
  readonly pinnedBytes?: () => number;
  /** 'off' is one line in order of arrival. Default 'tenant'. */
  readonly fairness?: 'tenant' | 'off';
  readonly clock?: Clock;
  /** Uniform in [0, 1); spreads `retryAfterSeconds`. Default Math.random. */
  readonly random?: () => number;
  /** Whether to refuse at once whoever cannot be served within its wait. Default true. */
  readonly earlyShed?: boolean;
}

/**
 * A limiter in numbers: first as it stands, then counted since it was made.
 *
 * @example
 * const limiter = new Limiter({ name: 'copies', maxConcurrent: 1, maxQueued: 0, waitMsMax: 1000 });
 * limiter.tryAcquire();
 * limiter.tryAcquire();
 * const { held, admitted, refused } = limiter.stats();
 * console.log(held, admitted, refused.full); // 1 1 1
 */
export interface LimiterStats {
  readonly name: string;
  readonly enabled: boolean;
  readonly closed: boolean;
  readonly held: number;
  /** Callers in the queue that count against `maxQueued`. */
  readonly waiting: number;
  /** Callers in the queue that do not: `outsideQueueBound`. */
  readonly waitingOpen: number;
  /** Parked slots, those that wait to be held again included. */
  readonly parked: number;
  /** Bytes that slots declare. */
  readonly declaredBytes: number;
  /** Bytes that slots declare, and what the gauge says beyond. */
  readonly pinnedBytes: number;
  readonly admitted: number;
  readonly refused: Readonly<Record<RefusalReason, number>>;
  /** Those among `refused.timeout` that did not wait at all. */
  readonly refusedEarly: number;
  /** The longest that anybody who was admitted has waited, in milliseconds. */
  readonly longestWaitMs: number;
}
