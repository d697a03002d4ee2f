/*
 * What the admin API tells, as the page reads it. The server's own words for the same are in src/observability; a test
 * has the compiler compare the two.
 */

/** Everything as of now: `GET /api/state`, and each `state` of the stream. Times are Unix time in ms. */
export interface State {
  readonly atMs: number;
  readonly startedAtMs: number;
  readonly version: string;
  readonly node: string;
  readonly ready: boolean;
  readonly healthy: boolean;
  readonly stopping: boolean;
  readonly budget: Budget;
  readonly deliveries: Deliveries;
  readonly environments: readonly Environment[];
  readonly environmentsTotal: number;
  readonly streams: number;
  readonly decisions: Decisions | null;
  readonly sharing: Sharing;
  readonly memory: Memory;
  readonly loop: {
    readonly p50Ms: number;
    readonly p99Ms: number;
    readonly maxMs: number;
    readonly utilization: number;
  };
  readonly trouble: readonly Trouble[];
}

interface Budget {
  readonly enabled: boolean;
  readonly slotsMax: number | null;
  readonly queueMax: number | null;
  readonly held: number;
  readonly parked: number;
  readonly parkedMax: number | null;
  readonly waiting: number;
  readonly waitingOpen: number;
  readonly pinnedBytes: number;
  readonly pinnedBytesMax: number | null;
  readonly admitted: number;
  readonly refused: Readonly<Record<RefusalCause, number>>;
  readonly longestWaitMs: number;
}

export type RefusalCause = 'full' | 'timeout' | 'early' | 'aborted' | 'closed';
export type Outcome = 'completed' | 'client_gone' | 'stalled' | 'capped' | 'error' | 'shutdown';

interface Deliveries {
  readonly active: number;
  readonly parked: number;
  readonly started: number;
  readonly parks: number;
  readonly ended: Readonly<Record<Outcome, number>>;
  readonly bytes: number;
  /** Null: the kernel cannot be asked here. */
  readonly kernelHeldBytes: number | null;
  readonly slowest: readonly DeliveryProgress[];
}

export interface DeliveryProgress {
  readonly front: 'flags' | 'decisions';
  /** The environment or the bouncer. */
  readonly name: string;
  readonly route: string;
  readonly address: string;
  readonly bytes: number;
  readonly totalBytes: number | null;
  readonly ageMs: number;
  readonly bytesPerSecond: number;
  readonly parked: boolean;
}

/** Clients by how far behind they are: not at all, 1 to 10 changes, more. */
export interface Behind {
  readonly current: number;
  readonly few: number;
  readonly many: number;
}

export interface Environment {
  readonly name: string;
  readonly ready: boolean;
  readonly connection: string;
  readonly dataStore: string;
  readonly items: number;
  readonly bytes: number | null;
  readonly position: string | null;
  readonly ageMs: number | null;
  readonly streams: number;
  readonly behind: Behind;
}

interface Decisions {
  readonly held: number;
  readonly tombstones: number;
  readonly bytes: number;
  readonly offset: number;
  readonly bouncers: number;
  readonly behind: Behind;
  readonly sources: readonly DecisionSource[];
}

interface DecisionSource {
  readonly name: string;
  readonly up: boolean;
  readonly ageMs: number | null;
  readonly decisions: number;
}

interface Sharing {
  readonly savedBytes: number;
  readonly compressedAwayBytes: number;
  readonly sentBytes: { readonly identity: number; readonly gzip: number };
  readonly full: number;
  readonly catchUps: number;
  readonly current: number;
  readonly copiedBytes: number;
  readonly pinnedBytes: number;
}

interface Memory {
  readonly rssBytes: number;
  readonly heapUsedBytes: number;
  readonly externalBytes: number;
  readonly limitBytes: number | null;
}

interface Trouble {
  readonly atMs: number;
  readonly level: 'warn' | 'error';
  readonly text: string;
  readonly count: number;
}

/** What happened in one step of the timeline, which ends at `atMs`; of gauges the largest value that was seen. */
export interface Bucket {
  readonly atMs: number;
  readonly held: number;
  readonly waiting: number;
  readonly parked: number;
  readonly admitted: number;
  readonly completed: number;
  readonly cut: number;
  readonly gone: number;
  readonly refused: number;
  readonly bytes: number;
  readonly streams: number;
  readonly loopMaxMs: number;
  readonly rssBytes: number;
}

/** The last hour, oldest first: an array for each member of a bucket. */
export type Timeline = { readonly everyMs: number } & { readonly [Key in keyof Bucket]: readonly number[] };
