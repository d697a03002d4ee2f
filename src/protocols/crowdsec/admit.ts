import type { Slot } from '../../admission/index.ts';
import { Departure, type Exchange } from '../../delivery/index.ts';
import type { FrontOptions } from './deps.ts';
import { type BouncerFact, left, refused } from './facts.ts';
import { replyUnavailable } from './replies.ts';
import { TEXT } from './words.ts';

/** All bouncers are one tenant beside the environments of flags: they are served in the order in which they came. */
const TENANT = 'decisions';

/**
 * Waits for a slot, or sheds: nothing is encoded and no cursor is read before this line.
 *
 * Answers nothing when the request is over: shed, or its client has left.
 *
 * @param returning - whether it has had data before: those that have none go first.
 */
export async function admit(
  front: FrontOptions,
  exchange: Exchange,
  fact: () => BouncerFact,
  returning: boolean,
): Promise<Slot | undefined> {
  using departure = new Departure(exchange);
  const { limiter, waitMsMax } = front;
  const answer = await limiter.acquire({ tenant: TENANT, returning, waitMsMax, signal: departure.signal });
  if (answer.admitted) return answer.slot;
  const { reason, early, waitedMs } = answer;
  if (reason === 'aborted') {
    left.publish(() => ({ ...fact(), waitedMs }));
    return undefined;
  }
  const retryAfterSeconds = limiter.retryAfterSeconds();
  refused.publish(() => ({ ...fact(), reason, early, waitedMs, retryAfterSeconds }));
  replyUnavailable(exchange, reason === 'closed' ? TEXT.shuttingDown : TEXT.atLimit, retryAfterSeconds);
  return undefined;
}
