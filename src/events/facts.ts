import { Fact } from '../kernel/index.ts';
import type { DropCause, EventAudience, EventsKind, EventTally, FailureCause } from './types.ts';

/** Whose events a fact is about. */
export interface EventsFact {
  /** The environment's ID. */
  readonly environment: string;
  readonly audience: EventAudience;
  readonly what: EventsKind;
}

/** A caller posted events: a frequent fact. `events` is 0 while they were not counted, which is before they are read. */
export const received: Fact<EventsFact & EventTally> = new Fact('headgate:events.received');

/** A payload arrived upstream. `bytes` before compression; `tries` begins at 1. */
export const sent: Fact<EventsFact & EventTally & { tries: number; tookMs: number }> = new Fact('headgate:events.sent');

/** A try did not succeed. `final`: the payload is given up. */
export const failed: Fact<
  EventsFact &
    EventTally & { cause: FailureCause; status: number | undefined; error: unknown; tries: number; final: boolean }
> = new Fact('headgate:events.failed');

/** Events were given up before they were sent. */
export const dropped: Fact<EventsFact & EventTally & { cause: DropCause }> = new Fact('headgate:events.dropped');

/** Upstream does not take events under this key: nothing more is sent under it. */
export const stopped: Fact<EventsFact & { status: number }> = new Fact('headgate:events.stopped');
