import type { Caller } from './callers.ts';

/**
 * For how long after two bouncers were seen on one cursor it is taken for shared, and at least for how long the position
 * of one whose connection is gone is kept for it: longer than bouncers pause between two polls.
 */
export const SHARED_MS = 600_000;

/** What a cursor needs, and whom it tells. */
export interface CursorEvents {
  /** Milliseconds; never goes back. */
  now(): number;
  /** A second bouncer was seen on it, after none for a while. */
  shared(): void;
  /** There may be something new to save. */
  change(): void;
}

/**
 * Where the bouncers of one key, one address and one filter stand: nearly always one bouncer, at one offset.
 *
 *   connection A ──► 12 ┐
 *   connection B ──► 10 ┼── oldest: 9. A connection that was not here before is answered from there,
 *   gone             9 ┘    A and B from where they are
 *
 * Every bouncer behind it holds everything up to its own position at least, so an answer from the oldest is right for
 * each of them, and may repeat something for some. While one bouncer is all there is, a new connection is the same bouncer
 * again and takes over what the old one left; once several were seen, what is left stays for those that may come back.
 */
export class Cursor {
  readonly #here = new Map<Caller, number>();
  /** The oldest position among those that were left lately, and among those left before. */
  #left: number | undefined;
  #leftBefore: number | undefined;
  #leftSinceMs: number;
  #sharedMs = Number.NEGATIVE_INFINITY;
  readonly #on: CursorEvents;

  constructor(on: CursorEvents, saved?: { readonly offset: number; readonly shared: boolean }) {
    this.#on = on;
    this.#leftSinceMs = on.now();
    this.#left = saved?.offset;
    if (saved?.shared === true) this.#sharedMs = on.now();
  }

  /** Whether several bouncers were seen on it lately. */
  get isShared(): boolean {
    return this.#on.now() - this.#sharedMs < SHARED_MS;
  }

  /** The position that is right for every bouncer behind it; undefined: none is. */
  get oldest(): number | undefined {
    let oldest = older(this.#left, this.#leftBefore);
    for (const offset of this.#here.values()) oldest = older(oldest, offset);
    return oldest;
  }

  /** Where a request is answered from; undefined: it needs everything. Its connection is known from now on. */
  enter(caller: Caller | undefined): number | undefined {
    if (caller === undefined) return this.oldest;
    const own = this.#here.get(caller);
    if (own !== undefined) return own;
    const from = this.oldest;
    if (from !== undefined) this.#stand(caller, from);
    return from;
  }

  /** A reply that tells everything up to `offset` was received. */
  moved(caller: Caller | undefined, offset: number): void {
    if (caller === undefined) this.#pass(offset);
    else if (this.#here.has(caller)) this.#here.set(caller, offset);
    else if (!caller.isGone) this.#stand(caller, offset);
    // told after the end of its connection. Whoever has come since may be the same bouncer: it was answered from before
    else if (this.#here.size === 0) this.#pass(offset);
    this.#on.change();
  }

  #stand(caller: Caller, offset: number): void {
    if (this.#here.size > 0) this.#seenSeveral();
    if (!this.isShared) {
      this.#left = undefined;
      this.#leftBefore = undefined;
    }
    this.#here.set(caller, offset);
    caller.onGone(() => this.#gone(caller));
  }

  #gone(caller: Caller): void {
    const offset = this.#here.get(caller);
    if (offset === undefined) return;
    if (this.#here.size > 1) this.#seenSeveral();
    this.#here.delete(caller);
    this.#leave(offset);
    this.#on.change();
  }

  /** Nobody tells who this was: the one bouncer there is, or one of several. */
  #pass(offset: number): void {
    if (this.#here.size > 0) this.#seenSeveral();
    if (this.isShared) return this.#leave(offset);
    this.#left = offset;
    this.#leftBefore = undefined;
  }

  #leave(offset: number): void {
    if (this.isShared && this.#on.now() - this.#leftSinceMs >= SHARED_MS) {
      // whoever left something two turns ago has come back since, or will not
      this.#leftBefore = this.#left;
      this.#left = offset;
      this.#leftSinceMs = this.#on.now();
    } else {
      this.#left = older(this.#left, offset);
    }
  }

  #seenSeveral(): void {
    const isNew = !this.isShared;
    this.#sharedMs = this.#on.now();
    if (isNew) this.#on.shared();
  }
}

function older(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}
