import type { Shed, ShedReason } from './types.ts';

const MESSAGE: Readonly<Record<Exclude<ShedReason, 'aborted'>, string>> = {
  full: 'Too many requests wait for a copy',
  timeout: 'No copy could be begun in time',
  closed: 'The service shuts down',
};

/** The answer to a request that is not admitted. Browsers may read when to come back only if told so. */
export function shedOf(reason: Exclude<ShedReason, 'aborted'>, retryAfterSeconds: number): Shed {
  const body = JSON.stringify({ message: MESSAGE[reason], reason, retryAfterSeconds });
  return {
    reason,
    status: 503,
    retryAfterSeconds,
    headers: {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      'retry-after': String(retryAfterSeconds),
      'access-control-expose-headers': 'Retry-After',
    },
    body,
  };
}
