import type { LimiterStats } from '../admission/index.ts';
import type { DeliveriesStats } from '../delivery/index.ts';
import type { Lags } from '../kernel/index.ts';

/** How many clients miss how much. */
export type Behind = Readonly<Pick<Lags, 'current' | 'few' | 'many'>>;

/** Open streams of one SDK. */
export interface StreamCount {
  /** Whose credential came: a server's, a phone's, or the public one of browsers. */
  readonly audience: 'server' | 'mobile' | 'client';
  readonly sdk: string;
  readonly count: number;
}

/** An environment in numbers. */
export interface EnvironmentFigures {
  /** As in the facts about its clients. */
  readonly name: string;
  readonly ready: boolean;
  readonly items: number;
  /** Since data last came from its source, in milliseconds; undefined before the first. */
  readonly ageMs: number | undefined;
  /** Of the data as they are now, as clients are given it; undefined before the first. */
  readonly position: string | undefined;
  /** Bytes of a full copy, before compression, as it was last sent; undefined before the first. */
  readonly bytes: number | undefined;
  /** Open streams, by SDK. */
  readonly streams: readonly StreamCount[];
  /** The same streams, by how many changes they have yet to be sent. */
  readonly behind: Behind;
  /** Whether `/status` calls it connected. */
  readonly connected: boolean;
  /** How it is with its source and its database: VALID, INITIALIZING, INTERRUPTED or OFF. */
  readonly connection: string;
  readonly dataStore: string;
  /** Whether a key that was replaced is still accepted. */
  readonly hasExpiringKey: boolean;
}

/** A tally of events. */
export interface EventsTally {
  readonly payloads: number;
  readonly events: number;
  readonly bytes: number;
}

/** Events of one environment in numbers. */
export interface EventFigures {
  /** As in the facts about its clients. */
  readonly name: string;
  readonly received: EventsTally;
  readonly sent: EventsTally;
  /** By cause. */
  readonly failed: Readonly<Record<string, EventsTally>>;
  readonly dropped: Readonly<Record<string, EventsTally>>;
}

/** What a relay of flags does besides delivering, in numbers. */
export interface FlagFigures {
  /** Whether `/status` calls the whole healthy. */
  readonly healthy: boolean;
  /** Its files. Absent: none. */
  readonly sources?: readonly Pick<SourceFigures, 'name' | 'up'>[];
  readonly evaluations: {
    readonly queued: number;
    readonly running: number;
    readonly evaluations: number;
    readonly cacheHits: number;
    readonly cacheMisses: number;
    readonly cacheBytes: number;
    readonly threads: number;
    readonly threadFailures: number;
    readonly itemFailures: number;
  };
  /** Absent: events are not forwarded. */
  readonly events?: {
    readonly heldBytes: number;
    readonly heldEvents: number;
    readonly environments: readonly EventFigures[];
  };
}

/** A source of decisions in numbers. */
export interface SourceFigures {
  readonly name: string;
  readonly up: boolean;
  /** Since it last answered, in milliseconds; undefined before the first answer. */
  readonly ageMs: number | undefined;
  readonly decisions: number;
}

/** Decisions in numbers. */
export interface DecisionFigures {
  readonly tombstones: number;
  readonly bytes: number;
  readonly offset: number;
  /** Bouncers, by address and filter, of which it is known where they stand. */
  readonly cursors: number;
  /** The same, by how many changes they have yet to ask for. */
  readonly behind: Behind;
  readonly counts: readonly { readonly origin: string; readonly type: string; readonly count: number }[];
  readonly sources: readonly SourceFigures[];
}

/** What keeps data for the next start, in a store of our own, in numbers. */
export interface StoreFigures {
  /** What it keeps. */
  readonly name: 'flags' | 'decisions';
  /** Whether something could not be written, and is still missing. */
  readonly failing: boolean;
}

/** What is known elsewhere, and asked for whenever metrics are read. */
export interface Figures {
  readonly admission: LimiterStats;
  /** Infinity: no limit. */
  readonly slotsMax: number;
  readonly pinnedBytesMax: number;
  /** Readers that may have given up their slot at a time; absent: none may. */
  readonly parkedMax?: number;
  /** Callers that may wait; absent: nobody said. */
  readonly queueMax?: number;
  /** Memory that the process may use; absent: nobody said. */
  readonly memoryLimitBytes?: number;
  readonly deliveries: DeliveriesStats;
  /** Bytes that the kernel holds for deliveries in progress; undefined where it cannot be asked. */
  readonly kernelHeldBytes: number | undefined;
  readonly activeRequests: number;
  /** Whether `/health/ready` says so; absent: nobody said. */
  readonly ready?: boolean;
  /** Absent: nothing is kept, or in a database of the vendor's layout alone. */
  readonly stores?: readonly StoreFigures[];
  readonly environments: readonly EnvironmentFigures[];
  /** Absent: this relay serves no flags. */
  readonly flags?: FlagFigures;
  /** Absent: this relay serves no decisions. */
  readonly decisions?: DecisionFigures;
}
