import { Fact } from '../kernel/index.ts';
import type { Ending, ShedReason } from './types.ts';

/** A request that was turned away: `headgate:middleware.shed` on `node:diagnostics_channel`. */
export interface ShedFact {
  /** The name of the {@link Copies}. */
  readonly name: string;
  readonly reason: ShedReason;
  readonly tenant: string;
  readonly waitedMs: number;
  /** What it was told; undefined when it had left, and nobody was there to be told. */
  readonly retryAfterSeconds: number | undefined;
}

/** A copy that ended, however it did: `headgate:middleware.ended` on `node:diagnostics_channel`. */
export interface EndedFact {
  /** The name of the {@link Copies}. */
  readonly name: string;
  readonly ending: Ending;
  readonly tenant: string;
  readonly status: number;
  /** Bytes of the response that were taken, about: with its head over HTTP/1.1, and with what TLS adds. */
  readonly bytes: number;
  /** How long it waited for its slot. */
  readonly waitedMs: number;
  /** How long it held it. */
  readonly ms: number;
}

export const shedFact: Fact<ShedFact> = new Fact<ShedFact>('headgate:middleware.shed');
export const endedFact: Fact<EndedFact> = new Fact<EndedFact>('headgate:middleware.ended');
