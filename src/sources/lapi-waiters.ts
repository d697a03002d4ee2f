/** What somebody waits for. */
export interface Wish {
  /** Scopes that are to be held. */
  readonly scopes: readonly string[];
  /** Whether simulated decisions and every scope are to be held. */
  readonly wide: boolean;
}

interface Waiter extends Wish {
  settle(granted: boolean): void;
}

/** Each is a request of a client; a fleet that starts at once may all ask for one scope. */
const WAITERS_MAX = 16_384;

/** Those who wait until something more is held. */
export class Waiters {
  readonly #waiting = new Set<Waiter>();

  get size(): number {
    return this.#waiting.size;
  }

  /** Resolves with true once the wish is granted; with false when it is refused, when `signal` aborts, or when too many wait. */
  add(wish: Wish, signal?: AbortSignal): Promise<boolean> {
    if (signal?.aborted === true || this.#waiting.size >= WAITERS_MAX) return Promise.resolve(false);
    return new Promise((resolve) => {
      const onAbort = (): void => waiter.settle(false);
      const waiter: Waiter = {
        ...wish,
        settle: (granted) => {
          this.#waiting.delete(waiter);
          signal?.removeEventListener('abort', onAbort);
          resolve(granted);
        },
      };
      this.#waiting.add(waiter);
      signal?.addEventListener('abort', onAbort);
    });
  }

  /** Tells all whose wish `fits` that it is granted, or refused. */
  settle(granted: boolean, fits: (wish: Wish) => boolean): void {
    for (const waiter of Array.from(this.#waiting)) {
      if (fits(waiter)) waiter.settle(granted);
    }
  }
}
