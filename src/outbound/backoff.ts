/** Settings of a {@link Backoff}. */
export interface BackoffOptions {
  /** The first wait before jitter, in milliseconds; 1,000 when not given. */
  readonly firstMs?: number;
  /** The longest wait before jitter, in milliseconds; 30,000 when not given. */
  readonly maxMs?: number;
  /** How long things must have been well for the waits to begin anew, in milliseconds; 60,000 when not given. */
  readonly healthyMs?: number;
  /** From 0 to below 1; `Math.random` when not given. */
  readonly random?: () => number;
}

/**
 * How long to wait before the next attempt: each wait twice the last, and of each up to half is taken away by chance, so that a
 * fleet that failed together does not come back together. The vendor's SDKs wait alike.
 *
 * @example
 * const backoff = new Backoff({ random: () => 0 });
 * console.log(backoff.failed(), backoff.failed()); // 1000 2000
 * backoff.healthyFor(60_000);
 * console.log(backoff.failed()); // 1000
 */
export class Backoff {
  readonly #firstMs: number;
  readonly #maxMs: number;
  readonly #healthyMs: number;
  readonly #random: () => number;
  #nextMs: number;

  constructor(options: BackoffOptions = {}) {
    this.#firstMs = options.firstMs ?? 1000;
    this.#maxMs = options.maxMs ?? 30_000;
    this.#healthyMs = options.healthyMs ?? 60_000;
    this.#random = options.random ?? Math.random;
    this.#nextMs = this.#firstMs;
  }

  /** Another attempt failed; how long to wait before the next one, in milliseconds. */
  failed(): number {
    const fullMs = this.#nextMs;
    this.#nextMs = Math.min(fullMs * 2, this.#maxMs);
    return fullMs * (1 - this.#random() / 2);
  }

  /** What ended now had been well for `ms`: when that is long enough, the waits begin anew. */
  healthyFor(ms: number): void {
    if (ms >= this.#healthyMs) this.reset();
  }

  /** The waits begin anew. */
  reset(): void {
    this.#nextMs = this.#firstMs;
  }
}
