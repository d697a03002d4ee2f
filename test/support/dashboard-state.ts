import type { Bucket, DeliveryProgress, Environment, State, Timeline } from '../../dashboard/src/contract.ts';

const NOW_MS = Date.UTC(2026, 10, 30, 3, 0, 0);

/** A process that has nothing to do. */
export const QUIET: State = {
  atMs: NOW_MS,
  startedAtMs: NOW_MS - 3 * 3_600_000,
  version: '0.1.0',
  node: 'v20.19.0',
  ready: true,
  healthy: true,
  stopping: false,
  budget: {
    enabled: true,
    slotsMax: 32,
    queueMax: 4096,
    held: 0,
    parkedMax: 16,
    parked: 0,
    waiting: 0,
    waitingOpen: 0,
    pinnedBytes: 0,
    pinnedBytesMax: 64 * 1024 * 1024,
    admitted: 0,
    refused: { full: 0, timeout: 0, early: 0, aborted: 0, closed: 0 },
    longestWaitMs: 0,
  },
  deliveries: {
    active: 0,
    parked: 0,
    started: 0,
    parks: 0,
    ended: { completed: 0, client_gone: 0, stalled: 0, capped: 0, error: 0, shutdown: 0 },
    bytes: 0,
    kernelHeldBytes: null,
    slowest: [],
  },
  environments: [],
  environmentsTotal: 0,
  streams: 0,
  decisions: null,
  sharing: {
    savedBytes: 0,
    compressedAwayBytes: 0,
    sentBytes: { identity: 0, gzip: 0 },
    full: 0,
    catchUps: 0,
    current: 0,
    copiedBytes: 0,
    pinnedBytes: 0,
  },
  memory: { rssBytes: 90e6, heapUsedBytes: 30e6, externalBytes: 10e6, limitBytes: 512 * 1024 * 1024 },
  loop: { p50Ms: 0.1, p99Ms: 1.2, maxMs: 3, utilization: 0.02 },
  trouble: [],
};

/** A bucket in which nothing happened. */
export function emptyBucket(atMs: number): Bucket {
  const nothing = { held: 0, waiting: 0, parked: 0, admitted: 0, completed: 0, cut: 0, gone: 0, refused: 0 };
  return { atMs, ...nothing, bytes: 0, streams: 0, loopMaxMs: 0, rssBytes: 0 };
}

/** Buckets as a timeline. */
export function timelineOf(buckets: readonly Bucket[]): Timeline {
  const keys = Object.keys(emptyBucket(0)) as (keyof Bucket)[];
  const columns = Object.fromEntries(keys.map((key) => [key, buckets.map((bucket) => bucket[key])]));
  return { everyMs: 2000, ...(columns as Record<keyof Bucket, number[]>) };
}

/** An environment that is well. */
export function environment(name: string, differing: Partial<Environment> = {}): Environment {
  return {
    name,
    ready: true,
    connection: 'VALID',
    dataStore: 'VALID',
    items: 100,
    bytes: 70_000,
    position: 'k3Jx9f2mQpL0aZ.17231.server',
    ageMs: 1000,
    streams: 0,
    behind: { current: 0, few: 0, many: 0 },
    ...differing,
  };
}

/** A source of decisions. */
export function source(name: string, up: boolean): NonNullable<State['decisions']>['sources'][number] {
  return { name, up, ageMs: 800, decisions: 12 };
}

/** A delivery under way. */
export function delivery(differing: Partial<DeliveryProgress> = {}): DeliveryProgress {
  return {
    front: 'flags',
    name: 'Shop',
    route: '/sdk/stream',
    address: '10.0.0.1',
    bytes: 65_536,
    totalBytes: 1_000_000,
    ageMs: 12_000,
    bytesPerSecond: 65_536,
    parked: false,
    ...differing,
  };
}
