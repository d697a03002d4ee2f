import type { Clock, Timer } from './clock.ts';

interface Pending {
  readonly dueMs: number;
  readonly run: () => void;
}

/**
 * A clock that stands still until it is told to move.
 *
 * @example
 * const clock = new FakeClock();
 * let fired = false;
 * clock.after(50, () => { fired = true; });
 * clock.advance(49);
 * console.log(fired); // false
 * clock.advance(1);
 * console.log(fired); // true
 */
export class FakeClock implements Clock {
  #nowMs: number;
  readonly #pending = new Set<Pending>();

  /** @param startMs - what `now()` says at first, in milliseconds. */
  constructor(startMs = 0) {
    this.#nowMs = startMs;
  }

  now(): number {
    return this.#nowMs;
  }

  after(delayMs: number, run: () => void): Timer {
    const pending: Pending = { dueMs: this.#nowMs + Math.max(0, delayMs), run };
    this.#pending.add(pending);
    return { cancel: () => this.#pending.delete(pending) };
  }

  /** How many timers are armed. */
  get armed(): number {
    return this.#pending.size;
  }

  /** Moves time forward by `byMs` milliseconds and fires what falls due, each timer at its own moment, in order. */
  advance(byMs: number): void {
    const untilMs = this.#nowMs + byMs;
    for (let next = this.#firstDue(untilMs); next !== undefined; next = this.#firstDue(untilMs)) {
      this.#pending.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      next.run();
    }
    this.#nowMs = untilMs;
  }

  #firstDue(untilMs: number): Pending | undefined {
    let first: Pending | undefined;
    for (const pending of this.#pending) {
      if (pending.dueMs > untilMs) continue;
      // a set keeps the order of insertion: of two that fall due together the older fires first
      if (first === undefined || pending.dueMs < first.dueMs) first = pending;
    }
    return first;
  }
}
