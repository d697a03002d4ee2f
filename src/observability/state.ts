import type { DeliveriesStats, DeliveryProgress } from '../delivery/index.ts';
import type { Behind } from './figures.ts';
import type { Totals } from './metrics-shared.ts';

/** What the log warned of: warnings and errors of one text are one. */
export interface StateTrouble {
  /** Unix time of the last of them, in milliseconds. */
  readonly atMs: number;
  readonly level: 'warn' | 'error';
  readonly text: string;
  readonly count: number;
}

/** A process at one moment: what the admin listener tells the page. Numbers that metrics have as well are the same. */
export interface State {
  /** Unix times, in milliseconds. */
  readonly atMs: number;
  readonly startedAtMs: number;
  readonly version: string;
  readonly node: string;
  readonly ready: boolean;
  readonly healthy: boolean;
  readonly stopping: boolean;
  readonly budget: {
    /** Without limits there are no maxima, and nobody waits. */
    readonly enabled: boolean;
    readonly slotsMax: number | null;
    readonly queueMax: number | null;
    readonly held: number;
    readonly parked: number;
    readonly parkedMax: number | null;
    readonly waiting: number;
    /** Open streams that wait for a slot, outside the queue. */
    readonly waitingOpen: number;
    readonly pinnedBytes: number;
    readonly pinnedBytesMax: number | null;
    readonly admitted: number;
    readonly refused: {
      readonly full: number;
      readonly timeout: number;
      readonly early: number;
      readonly aborted: number;
      readonly closed: number;
    };
    readonly longestWaitMs: number;
  };
  readonly deliveries: Pick<DeliveriesStats, 'active' | 'parked' | 'started' | 'parks' | 'ended' | 'bytes'> & {
    /** Null where the kernel cannot be asked. */
    readonly kernelHeldBytes: number | null;
    /** Of those in progress, lowest rate first. */
    readonly slowest: readonly DeliveryProgress[];
  };
  /** At most 200, those that are not well before the others. */
  readonly environments: readonly {
    /** As metrics call it. */
    readonly name: string;
    readonly ready: boolean;
    readonly connection: string;
    readonly dataStore: string;
    readonly items: number;
    /** Of a full copy, encoded; null before there was one. */
    readonly bytes: number | null;
    readonly position: string | null;
    readonly ageMs: number | null;
    readonly streams: number;
    /** The same streams, by how many changes they have yet to be sent. */
    readonly behind: Behind;
  }[];
  readonly environmentsTotal: number;
  /** Open streams, of all environments. */
  readonly streams: number;
  /** Null: no decisions are served. */
  readonly decisions: {
    readonly held: number;
    readonly tombstones: number;
    readonly bytes: number;
    readonly offset: number;
    /** By address and filter: cursors. */
    readonly bouncers: number;
    readonly behind: Behind;
    readonly sources: readonly {
      readonly name: string;
      readonly up: boolean;
      readonly ageMs: number | null;
      readonly decisions: number;
    }[];
  } | null;
  readonly sharing: Totals & {
    /** What deliveries in progress would hold, each with a copy of its own. */
    readonly copiedBytes: number;
    /** What they do hold. */
    readonly pinnedBytes: number;
  };
  readonly memory: {
    readonly rssBytes: number;
    readonly heapUsedBytes: number;
    readonly externalBytes: number;
    readonly limitBytes: number | null;
  };
  readonly loop: {
    readonly p50Ms: number;
    readonly p99Ms: number;
    readonly maxMs: number;
    /** 0 to 1, since the last state. */
    readonly utilization: number;
  };
  /** Newest first, at most 20. */
  readonly trouble: readonly StateTrouble[];
}
