import { HeadgateError, messageOf } from '../kernel/index.ts';
import type { UpstreamError } from './upstream-types.ts';

/** An answer whose status is none of success. */
export class StatusError extends HeadgateError {
  readonly status: number;

  constructor(name: string, address: string, status: number) {
    const cause =
      status === 401 || status === 403
        ? 'the SDK key must be one that is known there'
        : 'it must answer with what it was asked for';
    super('HG_UPSTREAM', `Cannot follow ${name} at ${address}: ${cause}, got status ${status}`);
    this.status = status;
  }

  /** Whether the key is what is wrong. */
  get isRefusal(): boolean {
    return this.status === 401 || this.status === 403;
  }
}

/** What a failure is in the words of the vendor's status. */
export function errorOf(thrown: unknown): UpstreamError {
  const timeMs = Date.now();
  if (thrown instanceof StatusError) return { kind: 'ERROR_RESPONSE', timeMs, statusCode: thrown.status };
  const code = thrown instanceof HeadgateError ? thrown.code : undefined;
  return { kind: (code === undefined ? undefined : KINDS.get(code)) ?? 'UNKNOWN', timeMs };
}

const KINDS: ReadonlyMap<string, UpstreamError['kind']> = new Map([
  ['HG_UPSTREAM', 'NETWORK_ERROR'],
  ['HG_SOURCE', 'INVALID_DATA'],
  ['HG_POSITION', 'INVALID_DATA'],
  ['HG_STORE', 'STORE_ERROR'],
] as const);

/** A failure as an error with a code. */
export function coded(name: string, thrown: unknown): HeadgateError {
  if (thrown instanceof HeadgateError) return thrown;
  return new HeadgateError('HG_UPSTREAM', `Cannot follow ${name}: ${messageOf(thrown)}`, { cause: thrown });
}
