import { Deadlines, type Timed } from './deadlines.ts';
import { FairQueue, type Seat, type Ticket } from './fair-queue.ts';
import { FreeRate } from './free-rate.ts';
import { checkRequest, type Limits, limitsOf } from './options.ts';
import { Places, UNLIMITED } from './places.ts';
import { retryAfter } from './retry-after.ts';
import type { AcquireRequest, Answer, LimiterOptions, LimiterStats, RefusalReason } from './types.ts';

/** Told in one turn of the event loop that their wait is over; a whole queue at once would hold up everything else. */
const EXPIRED_PER_TURN_MAX = 4096;

/**
 * A caller is refused early only when the estimate says it would wait this many times longer than it may. The first turns of
 * a herd are its slowest: everybody connects at once, on code that is not warm yet. Seen to pick up by a factor of two.
 */
const DOUBT = 3;

/** A caller in the queue. */
class Waiter implements Timed {
  readonly request: AcquireRequest;
  readonly sinceMs: number;
  readonly dueMs: number;
  readonly answer: (answer: Answer) => void;
  readonly onAbort: () => void;
  readonly ticket: Ticket<Waiter>;
  heapIndex = -1;

  constructor(
    o: Pick<Waiter, 'request' | 'sinceMs' | 'dueMs' | 'answer'>,
    queue: FairQueue<Waiter>,
    abort: (waiter: Waiter) => void,
  ) {
    this.request = { ...o.request }; // the caller's object is the caller's to change
    this.sinceMs = o.sinceMs;
    this.dueMs = o.dueMs;
    this.answer = o.answer;
    this.onAbort = () => abort(this);
    this.ticket = queue.push(this, seatOf(o.request));
  }
}

/**
 * Lets `maxConcurrent` callers work at a time, `maxQueued` wait their turn, and refuses the others before any work.
 *
 * A free slot is taken before any timer starts; order of arrival is kept within a tenant, class and lane; between
 * tenants and classes the queue is fair. A second bound weighs what is held: nobody new is admitted while the
 * pinned bytes are over `maxPinnedBytes`, and the one that is next is not overtaken by smaller ones behind it.
 *
 * Throws HG_OPTION for options out of range.
 *
 * @example
 * const limiter = new Limiter({ name: 'copies', maxConcurrent: 2, maxQueued: 100, waitMsMax: 10_000 });
 * const answer = await limiter.acquire({ tenant: 'production' });
 * if (answer.admitted) {
 *   try {
 *     console.log('deliver', limiter.held); // deliver 1
 *   } finally {
 *     answer.slot.release();
 *   }
 * }
 */
export class Limiter {
  readonly #limits: Limits;
  readonly #places: Places;
  readonly #queue: FairQueue<Waiter>;
  readonly #deadlines: Deadlines<Waiter>;
  readonly #rate: FreeRate;
  readonly #refused: Record<RefusalReason, number> = { full: 0, timeout: 0, aborted: 0, closed: 0 };
  readonly #drained: Array<() => void> = [];
  #enabled = true;
  #closed = false;
  #waiting = 0;
  #admitted = 0;
  #refusedEarly = 0;
  #longestWaitMs = 0;

  constructor(options: LimiterOptions) {
    this.#limits = limitsOf(options);
    this.#places = new Places(this.#limits, () => this.#handOver());
    this.#queue = new FairQueue(this.#limits.fairness === 'tenant');
    this.#deadlines = new Deadlines(this.#limits.clock, () => this.#expire());
    this.#rate = new FreeRate(this.#limits.maxConcurrent);
  }

  /**
   * A limiter that lets everybody in and counts only that. It still refuses a caller that has aborted, and everybody
   * once it is closed.
   *
   * @example
   * const limiter = Limiter.disabled('copies');
   * const answer = await limiter.acquire();
   * console.log(answer.admitted, limiter.held); // true 0
   */
  static disabled(name: string): Limiter {
    const limiter = new Limiter({ name, maxConcurrent: 1, maxQueued: 0, waitMsMax: 0 });
    limiter.#enabled = false;
    return limiter;
  }

  /** False for a limiter that is off. */
  get enabled(): boolean {
    return this.#enabled;
  }

  /** Slots held now. */
  get held(): number {
    return this.#places.held;
  }

  /** Callers in the queue that count against `maxQueued`. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Callers that wait outside of `maxQueued`: streams that are open already. */
  get waitingOpen(): number {
    return this.#queue.size - this.#waiting;
  }

  /** Slots parked now, those that wait to be held again included. */
  get parked(): number {
    return this.#places.parked;
  }

  /** Asks for a slot, and waits for one if need be. Rejects only if `pinBytes` or `waitMsMax` is out of range (HG_OPTION). */
  async acquire(request: AcquireRequest = {}): Promise<Answer> {
    const atOnce = this.#answerAtOnce(request);
    if (atOnce !== undefined) return atOnce;
    if (request.outsideQueueBound !== true && this.#waiting >= this.#limits.maxQueued) return this.#refuse('full');
    if (this.#waitMsMaxOf(request) <= 0) return this.#refuse('timeout');
    if (this.#isHopeless(request)) return this.#refuseEarly();
    return new Promise((answer) => this.#enqueue(request, answer));
  }

  /** Asks for a slot that is free now; what does not fit is refused as 'full'. Throws HG_OPTION like `acquire`. */
  tryAcquire(request: AcquireRequest = {}): Answer {
    return this.#answerAtOnce(request) ?? this.#refuse('full');
  }

  /** Looks again whether the next caller fits: for whoever knows that the `pinnedBytes` gauge has dropped. */
  recheck(): void {
    this.#handOver();
  }

  /** Admits nobody from now on, and tells those who wait. Slots that are held or parked go on to their end. */
  close(): void {
    this.#closed = true;
    for (let next = this.#queue.next(); next !== undefined; next = this.#queue.next()) {
      this.#turnAway(next.value, 'closed');
    }
    this.#settleDrains();
  }

  /** Resolves when nothing is held, parked or waiting: after `close()`, when the last delivery has ended. */
  async drain(): Promise<void> {
    if (!this.#places.empty) await new Promise<void>((resolve) => this.#drained.push(resolve));
  }

  /** When a refused caller should come back: whole seconds from 1 to 10, from the length of the queue and its pace. */
  retryAfterSeconds(): number {
    return retryAfter(this.#queue.size, this.#rate.perMs(this.#limits.clock.now()), this.#limits.random);
  }

  /** The numbers of now, and the counts since the limiter was made. */
  stats(): LimiterStats {
    const { held, parked, declaredBytes } = this.#places;
    return {
      name: this.#limits.name,
      enabled: this.#enabled,
      closed: this.#closed,
      held,
      waiting: this.#waiting,
      waitingOpen: this.waitingOpen,
      parked,
      declaredBytes,
      pinnedBytes: declaredBytes + this.#limits.pinnedBytes(),
      admitted: this.#admitted,
      refused: { ...this.#refused },
      refusedEarly: this.#refusedEarly,
      longestWaitMs: this.#longestWaitMs,
    };
  }

  /** The answer for a caller that need not wait: refused for good, or a slot that is free. */
  #answerAtOnce(request: AcquireRequest): Answer | undefined {
    checkRequest(request);
    this.#handOver(); // the gauge may have dropped unnoticed, and those who wait go first
    if (this.#closed) return this.#refuse('closed');
    if (request.signal?.aborted === true) return this.#refuse('aborted');
    if (!this.#enabled) return this.#admitUnlimited();
    const bytes = request.pinBytes ?? 0;
    if (this.#queue.size > 0 || !this.#places.isFree || !this.#places.canCarry(bytes)) return undefined;
    return this.#admit(0, bytes);
  }

  /** Gives every free place to whoever is next: first to those that wait to be held again, then to the queue. */
  #handOver(): void {
    while (this.#places.resumeNext() || this.#answerNext());
    this.#places.tellResumed();
    this.#settleDrains();
  }

  /**
   * Answers the next caller in the queue. False when there is none, or no room for it. The queue is asked only when
   * a place is free: one that is named as next and does not fit stays next.
   */
  #answerNext(): boolean {
    if (!this.#places.isFree) return false;
    const ticket = this.#queue.next();
    if (ticket === undefined) return false;
    const waiter = ticket.value;
    // a signal tells its listeners one by one: an earlier one may have released a slot before ours is told
    if (waiter.request.signal?.aborted === true) {
      this.#turnAway(waiter, 'aborted');
      return true;
    }
    const bytes = waiter.request.pinBytes ?? 0;
    if (!this.#places.canCarry(bytes)) return false;
    const nowMs = this.#limits.clock.now();
    this.#queue.take(ticket);
    this.#rate.handedOver(nowMs);
    this.#left(waiter);
    waiter.answer(this.#admit(nowMs - waiter.sinceMs, bytes));
    return true;
  }

  #enqueue(request: AcquireRequest, answer: (answer: Answer) => void): void {
    const sinceMs = this.#limits.clock.now();
    const dueMs = sinceMs + this.#waitMsMaxOf(request);
    const waiter = new Waiter({ request, sinceMs, dueMs, answer }, this.#queue, (aborted) => this.#giveUp(aborted));
    if (this.#queue.size === 1) this.#rate.begin(sinceMs);
    if (request.outsideQueueBound !== true) this.#waiting++;
    this.#deadlines.add(waiter);
    request.signal?.addEventListener('abort', waiter.onAbort);
  }

  /** A caller in the queue aborted. It may have been the one that was next and did not fit. */
  #giveUp(waiter: Waiter): void {
    this.#turnAway(waiter, 'aborted');
    this.#handOver();
  }

  /** Somebody's wait is over. A slot that is free wins over a deadline that has passed. */
  #expire(): void {
    this.#handOver();
    for (let told = 0; told < EXPIRED_PER_TURN_MAX; told++) {
      const waiter = this.#deadlines.takeDue();
      if (waiter === undefined) break;
      this.#turnAway(waiter, 'timeout');
    }
    this.#handOver();
  }

  #turnAway(waiter: Waiter, reason: RefusalReason): void {
    this.#queue.remove(waiter.ticket);
    this.#left(waiter);
    waiter.answer(this.#refuse(reason, this.#limits.clock.now() - waiter.sinceMs));
  }

  /** Clears what a caller that is no longer in the queue left behind. */
  #left(waiter: Waiter): void {
    if (waiter.request.outsideQueueBound !== true) this.#waiting--;
    if (this.#queue.size === 0) this.#rate.end(this.#limits.clock.now());
    this.#deadlines.remove(waiter);
    waiter.request.signal?.removeEventListener('abort', waiter.onAbort);
  }

  #admit(waitedMs: number, bytes: number): Answer {
    this.#admitted++;
    this.#longestWaitMs = Math.max(this.#longestWaitMs, waitedMs);
    return { admitted: true, slot: this.#places.take(waitedMs, bytes) };
  }

  #admitUnlimited(): Answer {
    this.#admitted++;
    return { admitted: true, slot: UNLIMITED };
  }

  #refuse(reason: RefusalReason, waitedMs = 0): Answer {
    this.#refused[reason]++;
    return { admitted: false, reason, early: false, waitedMs };
  }

  #refuseEarly(): Answer {
    this.#refused.timeout++;
    this.#refusedEarly++;
    return { admitted: false, reason: 'timeout', early: true, waitedMs: 0 };
  }

  /**
   * Whether a caller's turn cannot come within its wait, at the pace of the last handovers. Without evidence, in
   * doubt, or with fewer ahead than one turn of the slots serves, nobody is.
   */
  #isHopeless(request: AcquireRequest): boolean {
    if (!this.#limits.earlyShed) return false;
    const perMs = this.#rate.perMs(this.#limits.clock.now()) ?? Infinity;
    const ahead = this.#queue.aheadOf(seatOf(request));
    return ahead >= this.#limits.maxConcurrent && ahead > perMs * this.#waitMsMaxOf(request) * DOUBT;
  }

  #waitMsMaxOf({ outsideQueueBound, waitMsMax }: AcquireRequest): number {
    return outsideQueueBound === true ? Infinity : (waitMsMax ?? this.#limits.waitMsMax);
  }

  /** With no place held or parked the queue is empty, too: whoever is next may always be alone. */
  #settleDrains(): void {
    if (!this.#places.empty) return;
    for (const resolve of this.#drained.splice(0)) resolve();
  }
}

function seatOf({ tenant = '', klass = 'server', returning = false }: AcquireRequest): Seat {
  return { tenant, klass, returning };
}
