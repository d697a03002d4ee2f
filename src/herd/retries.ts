import { Backoff } from '../outbound/index.ts';
import type { Profile } from './profiles.ts';

const MINUTE_MS = 60_000;
/** The longest that Python's HTTP library sleeps because it was told to. */
const RETRY_AFTER_MS_MAX = 6 * 60 * MINUTE_MS;
/** The statuses at which it does. */
const RETRY_AFTER_STATUSES = new Set([413, 429, 503]);

/** How an attempt failed. */
export interface Failure {
  /** Of an answer that refuses; undefined when there was none, or when it was cut. */
  readonly status?: number;
  /** What the answer said to wait. */
  readonly retryAfterMs?: number;
  /** How long what ended now had been well. */
  readonly healthyMs?: number;
}

/** When one client comes again: the waits of its SDK. */
export class Retries {
  readonly #profile: Profile;
  readonly #random: () => number;
  readonly #everyMs: number;
  #backoff: Backoff;
  /** The waits of one that is refused for want of a good key and comes back all the same. */
  readonly #unauthorized: Backoff;
  #hasObeyed = false;

  /** @param everyMs - from one poll to the next, where it is not the SDK's own. */
  constructor(profile: Profile, random: () => number, everyMs: number = profile.everyMs) {
    this.#profile = profile;
    this.#random = random;
    this.#everyMs = everyMs;
    this.#backoff = new Backoff({ random });
    this.#unauthorized = new Backoff({ firstMs: 5 * MINUTE_MS, maxMs: 60 * MINUTE_MS, random });
  }

  /** The server said how long the first wait is to be. */
  told(retryMs: number): void {
    if (!this.#profile.obeysRetryLine) return;
    this.#backoff = new Backoff({ firstMs: Math.min(retryMs, 30_000), random: this.#random });
  }

  /** A poll was answered; how long until the next one is asked. */
  served(): number {
    this.#hasObeyed = false;
    this.#backoff.reset();
    return this.#everyMs;
  }

  /** An attempt failed; how long until the next one, or undefined when there is none. */
  failed({ status, retryAfterMs, healthyMs = 0 }: Failure): number | undefined {
    const { finalStatuses, afterUnauthorized, afterFailure } = this.#profile;
    if (status !== undefined && finalStatuses.has(status)) return undefined;
    // an address that moved: nobody follows it here
    if (status !== undefined && status >= 300 && status < 400) return undefined;
    if (afterUnauthorized === 'minutes' && (status === 401 || status === 403 || status === 404)) {
      return this.#unauthorized.failed();
    }
    if (status !== undefined && retryAfterMs !== undefined && this.#obeys(status)) {
      this.#hasObeyed = true;
      return Math.min(retryAfterMs, RETRY_AFTER_MS_MAX);
    }
    this.#hasObeyed = false;
    if (afterFailure === 'next-poll') return this.#everyMs;
    this.#backoff.healthyFor(healthyMs);
    return this.#backoff.failed();
  }

  /** Once in a poll, not twice. */
  #obeys(status: number): boolean {
    return this.#profile.obeysRetryAfter && !this.#hasObeyed && RETRY_AFTER_STATUSES.has(status);
  }
}
