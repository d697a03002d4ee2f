import { HeadgateError } from '../kernel/index.ts';

/**
 * What went wrong with a local API:
 * - `unreachable`: no connection could be made;
 * - `refused`: it answered 403 to our own key;
 * - `status`: it answered another status than 200;
 * - `answer`: the answer was cut, fell silent, or is not what was asked for;
 * - `stopped`: we gave the request up ourselves.
 */
export type LapiFailure = 'unreachable' | 'refused' | 'status' | 'answer' | 'stopped';

/** HG_SOURCE, with what a retry depends on. */
export class LapiError extends HeadgateError {
  readonly failure: LapiFailure;
  /** What the local API asked for in `Retry-After`, in milliseconds; 0: nothing. */
  readonly retryAfterMs: number;

  constructor(failure: LapiFailure, message: string, options: ErrorOptions & { retryAfterMs?: number } = {}) {
    super('HG_SOURCE', message, options);
    this.failure = failure;
    this.retryAfterMs = options.retryAfterMs ?? 0;
  }
}
