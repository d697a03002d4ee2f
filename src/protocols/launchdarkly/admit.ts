import type { AcquireRequest, Slot } from '../../admission/index.ts';
import { Departure, type Exchange } from '../../delivery/index.ts';
import type { FrontOptions } from './deps.ts';
import { type ClientFact, refused } from './facts.ts';
import { replyShed } from './replies.ts';

/**
 * Waits for a slot, or sheds: nothing is encoded and nothing is read from the data set before this line.
 *
 * Answers nothing when the request is over: shed, or its client has left.
 */
export async function admit(
  front: FrontOptions,
  exchange: Exchange,
  fact: () => ClientFact,
  request: Pick<AcquireRequest, 'klass' | 'pinBytes'> & { tenant: string; returning: boolean; waitMsMax: number },
): Promise<Slot | undefined> {
  using departure = new Departure(exchange);
  const answer = await front.limiter.acquire({ ...request, signal: departure.signal });
  if (answer.admitted) return answer.slot;
  if (answer.reason === 'aborted') return undefined;
  const retryAfterSeconds = front.limiter.retryAfterSeconds();
  const { reason, early, waitedMs } = answer;
  refused.publish(() => ({ ...fact(), reason, early, waitedMs, retryAfterSeconds }));
  replyShed(exchange, reason, retryAfterSeconds);
  return undefined;
}
