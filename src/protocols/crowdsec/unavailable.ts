import type { Exchange } from '../../delivery/index.ts';
import type { FrontOptions } from './deps.ts';
import { type BouncerFact, unavailable } from './facts.ts';
import { replyUnavailable } from './replies.ts';
import { TEXT } from './words.ts';

type Reason = 'no data' | 'not held' | 'key not checked';

const MESSAGE: Readonly<Record<Reason, string>> = {
  'no data': TEXT.noDataYet,
  'not held': TEXT.scopeNotHeld,
  'key not checked': TEXT.keyNotChecked,
};

/** Says that there is no answer yet: never an empty one, which a bouncer would take for the truth. */
export function replyNotYet(
  { limiter }: Pick<FrontOptions, 'limiter'>,
  exchange: Exchange,
  fact: Omit<BouncerFact, 'bouncer'> & { bouncer?: string | undefined },
  reason: Reason,
): void {
  unavailable.publish(() => ({ bouncer: undefined, ...fact, reason }));
  replyUnavailable(exchange, MESSAGE[reason], limiter.retryAfterSeconds());
}
