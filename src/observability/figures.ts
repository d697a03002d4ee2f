import type { LimiterStats } from '../admission/index.ts';
import type { DeliveriesStats } from '../delivery/index.ts';

/** An environment in numbers. */
export interface EnvironmentFigures {
  /** As in the facts about its clients. */
  readonly name: string;
  readonly ready: boolean;
  readonly items: number;
  /** Since data last came from its source, in milliseconds; undefined before the first. */
  readonly ageMs: number | undefined;
  /** Open streams, by SDK. */
  readonly streams: ReadonlyMap<string, number>;
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
  readonly counts: readonly { readonly origin: string; readonly type: string; readonly count: number }[];
  readonly sources: readonly SourceFigures[];
}

/** What is known elsewhere, and asked for whenever metrics are read. */
export interface Figures {
  readonly admission: LimiterStats;
  /** Infinity: no limit. */
  readonly slotsMax: number;
  readonly pinnedBytesMax: number;
  readonly deliveries: DeliveriesStats;
  readonly activeRequests: number;
  readonly environments: readonly EnvironmentFigures[];
  /** Absent: this relay serves no decisions. */
  readonly decisions?: DecisionFigures;
}
