import { DataSet, type Position } from '../../src/dataset/index.ts';
import { type Clock, systemClock } from '../../src/kernel/index.ts';
import { type KeptFlags, openRedisFlags, type RedisFlags } from '../../src/stores/index.ts';
import { until } from './conditions.ts';

/** A data set as one replica has it, kept in Redis under the prefix `env`. */
export class RedisReplica {
  readonly clock: Clock;
  readonly keep: RedisFlags;
  readonly data: DataSet;
  /** What was told of failures, in order. */
  readonly told: string[] = [];

  constructor(url: string, more: { readonly readTimeoutMs?: number; readonly clock?: Clock } = {}) {
    this.clock = more.clock ?? systemClock;
    this.keep = openRedisFlags({
      url,
      prefix: 'env',
      clock: this.clock,
      onFailure: (error) => this.told.push(error.code),
      onRecovery: () => this.told.push('back'),
      ...more,
    });
    this.data = new DataSet({
      name: 'env',
      kinds: ['flags', 'segments'],
      beforeCommit: (write) => this.keep.prepare(write),
    });
  }

  async restore(): Promise<KeptFlags | undefined> {
    const kept = await this.keep.restore();
    if (kept !== undefined) await this.data.restore(kept);
    return kept;
  }

  position(): Position {
    const { digest, clock } = this.data.snapshot();
    return { digest, clock, view: 'test' };
  }

  until(what: string, holds: () => boolean): Promise<void> {
    return until(what, holds);
  }

  close(): Promise<void> {
    return this.keep.close();
  }
}
