import type { Slot } from '../../admission/index.ts';
import type { Channel, Report, Source, Stages } from '../../delivery/index.ts';
import type { FrontOptions } from './deps.ts';
import { aboutOf, type ClientFact, delivered } from './facts.ts';

/** One charged delivery. */
export interface Charged {
  readonly channel: Channel;
  readonly source: Source;
  readonly slot: Slot;
  readonly what: 'full' | 'catch-up';
  readonly encoding: 'identity' | 'gzip';
  readonly fact: () => ClientFact;
  /** How far it has got; absent: nobody has noted it. */
  readonly stages?: Stages;
  /** How long a source that was sent to its end is before compression. */
  readonly plainBytes?: () => number;
}

/** Sends under a slot, as the limits say, and makes known how it ended. The slot is free when it has. */
export async function sendCharged(front: FrontOptions, charged: Charged): Promise<Report> {
  const { channel, source, slot, what, encoding, fact, stages, plainBytes } = charged;
  const { limiter, deliveries, guarded, parking, capMs } = front;
  const { waitedMs } = slot;
  const report = await deliveries.deliver({
    channel,
    source: delivered.isHeard && stages !== undefined ? stages.source(source) : source,
    slot,
    guarded,
    about: () => aboutOf(fact()),
    ...(capMs === undefined ? {} : { capMs }),
    ...(parking ? { parking: () => limiter.waiting + limiter.waitingOpen > 0 } : {}),
  });
  delivered.publish(() => ({
    ...fact(),
    what,
    encoding,
    waitedMs,
    ...report,
    ...(stages && { stages: stages.times() }),
    ...(encoding === 'gzip' && plainBytes && { plainBytes: plainBytes() }),
  }));
  return report;
}
