import type { Limiter } from '../admission/index.ts';
import type { Config, DataSize } from '../config/index.ts';
import type { Deliveries } from '../delivery/index.ts';
import type { Clock } from '../kernel/index.ts';
import type { Figures, Log } from '../observability/index.ts';
import type { Route, StatusPath } from '../server/index.ts';
import type { Store } from '../stores/index.ts';

/** What every service of one relay shares: above all the one budget. */
export interface Shared {
  /** The version of this package. */
  readonly version: string;
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly limiter: Limiter;
  readonly deliveries: Deliveries;
  /** Where what must survive a restart is kept; undefined: nowhere. */
  readonly store: Store | undefined;
}

/** What every front is told of the budget, and of how deliveries go out under it. */
export interface BudgetOptions extends Pick<Shared, 'clock' | 'limiter' | 'deliveries'> {
  /** Whether slow readers are cut. */
  readonly guarded: boolean;
  /** A fixed cap on one delivery, in milliseconds. */
  readonly capMs?: number;
  readonly parking: boolean;
}

/** The same for every front: one budget, whatever the protocol. */
export function budgetOptions({ config, clock, limiter, deliveries }: Shared): BudgetOptions {
  const { enabled, sendTimeoutMs, parking } = config.limits;
  const cap = sendTimeoutMs === undefined ? {} : { capMs: sendTimeoutMs };
  return { clock, limiter, deliveries, guarded: enabled, ...cap, parking };
}

/** One front with its sources and its store, as the relay starts and stops it. */
export interface Service {
  readonly routes: readonly Route[];
  /** Bytes that only deliveries of this front keep alive. */
  readonly pinnedBytes: number;
  /** Whether there is data for everybody who may ask. */
  readonly ready: boolean;
  /** Open streams. */
  readonly streams: number;
  /** Its members of `/status`, and whether all is well. */
  status(): { readonly healthy: boolean; readonly members: object };
  /** One part of what it serves, as `/status/…` names it. */
  statusAt?(path: StatusPath): object | 'unknown' | 'not yet';
  /** What metrics tell of it, as of now. */
  figures?(): Partial<Pick<Figures, 'environments' | 'flags' | 'decisions' | 'stores'>>;
  /** How large its data are; undefined while there are none. */
  dataSize?(): DataSize | undefined;
  /** What an environment is called in metrics, by its name in facts; undefined: it is none of this service's. */
  tenantOf?(name: string): string | undefined;
  /** A text without the keys and IDs of what it serves: by what operators call it. */
  hide?(text: string): string;
  /** Whether `/status` calls all of it well. */
  readonly healthy: boolean;
  /** Reads the sources. Resolves when each was tried once: whether all of them could be read. */
  start(): Promise<boolean>;
  /** Looks at the sources now instead of at their next interval. */
  reload(): void;
  /** From here on new clients should go elsewhere. */
  leave(): void;
  /** Closes open streams, spread over the grace period. */
  closeStreams(graceMs: number): Promise<void>;
  stop(): Promise<void>;
}
