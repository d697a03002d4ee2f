import type { RedisOptions } from './redis-client.ts';
import { RedisLink } from './redis-link.ts';
import { type BigSegmentStore, membershipOf } from './vendor-segments.ts';

/** Settings of {@link openRedisBigSegments}. */
export interface RedisBigSegmentsOptions extends RedisOptions {
  /** What the keys of this environment begin with, `launchdarkly` with the vendor. */
  readonly prefix: string;
  /** Connections that environments share; without it there are some of its own. */
  readonly link?: RedisLink;
}

/**
 * Reads big segments from Redis, in the layout of the vendor's relay and SDKs.
 *
 * @example
 * const options = { url: 'redis://127.0.0.1:1', prefix: 'production', clock: systemClock, connectTimeoutMs: 50 };
 * const segments = openRedisBigSegments(options);
 * await segments.updatedMs().catch((error) => console.log(error.code)); // HG_STORE
 * await segments.close();
 */
export function openRedisBigSegments(options: RedisBigSegmentsOptions): BigSegmentStore {
  const link = options.link ?? new RedisLink(options);
  const { client } = link;
  const members = async (list: string, contextHash: string): Promise<string[]> => {
    const answer = await client.call('SMEMBERS', `${options.prefix}:big_segment_${list}:${contextHash}`);
    return (answer as Buffer[]).map(String);
  };
  return {
    async membership(contextHash) {
      const lists = await Promise.all([members('include', contextHash), members('exclude', contextHash)]);
      return membershipOf(...lists);
    },
    async updatedMs() {
      const answer = (await client.call('GET', `${options.prefix}:big_segments_synchronized_on`)) as Buffer | null;
      const ms = Number.parseInt(String(answer), 10);
      return Number.isNaN(ms) ? undefined : ms;
    },
    async close() {
      if (options.link === undefined) link.close();
    },
  };
}
