import type { Exchange } from '../../delivery/index.ts';
import type { FrontOptions } from './deps.ts';
import { type BouncerFact, unavailable } from './facts.ts';
import { replyUnavailable } from './replies.ts';
import { TEXT } from './words.ts';

const MESSAGE = {
  'no data': TEXT.noDataYet,
  'not held': TEXT.scopeNotHeld,
  'key not checked': TEXT.keyNotChecked,
} as const;

/** Says that there is no answer yet: never an empty one, which a bouncer would take for the truth. */
export function replyNotYet(
  { limiter }: Pick<FrontOptions, 'limiter'>,
  exchange: Exchange,
  fact: Omit<BouncerFact, 'bouncer'> & { bouncer?: string | undefined },
  reason: keyof typeof MESSAGE,
): void {
  unavailable.publish(() => ({ bouncer: undefined, ...fact, reason }));
  replyUnavailable(exchange, MESSAGE[reason], limiter.retryAfterSeconds());
}
