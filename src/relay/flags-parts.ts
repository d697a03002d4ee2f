import { availableParallelism } from 'node:os';
import type { Config } from '../config/index.ts';
import { EventForwarder } from '../events/index.ts';
import { messageOf } from '../kernel/index.ts';
import { type Outbound, urlUnder } from '../outbound/index.ts';
import { Evaluations } from '../protocols/launchdarkly/index.ts';
import type { FlagKeeping } from './flags-keep.ts';
import type { Shared } from './service.ts';

/** The evaluator of browsers and phones. Its threads start when one of them first asks. */
export function evaluationsOf({ config, clock, log }: Shared, keeping: FlagKeeping): Evaluations {
  const { threads, cacheBytesMax } = config.flags.evaluation;
  return new Evaluations({
    clock,
    // one core is the server's own
    threads: threads === 'auto' ? Math.max(1, availableParallelism() - 1) : threads,
    cacheBytesMax,
    bigSegments: (environmentId) => keeping.bigSegments(environmentId),
    bigSegmentsStaleMs: config.flags.bigSegments.staleThresholdMs,
    onFailure: (error) => log.error({ err: error }, messageOf(error)),
  });
}

/** Who forwards events; undefined: they are off. */
export function eventsOf(
  { config, clock }: Shared,
  outbound: Outbound,
  flagText: (environmentId: string, key: string) => string | undefined,
): EventForwarder | undefined {
  const { send, uri, flushIntervalMs, capacity, inlineUsers, heldBytesMax } = config.events;
  if (!send) return undefined;
  return new EventForwarder({
    outbound,
    uri,
    flushIntervalMs,
    capacity,
    inlineUsers,
    bytesMax: heldBytesMax,
    clock,
    flagText,
  });
}

/** Whether nothing that is served has an upstream: then SDKs are not told that their events go nowhere. */
export function isOffline({ environments, autoConfig }: Config): boolean {
  return environments.length === 0 && autoConfig === undefined;
}

interface Goals {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** Goals are a page's affair with the vendor's service; a page asks for them once. */
const GOALS_MS_MAX = 10_000;
const GOALS_BYTES_MAX = 4 * 1024 * 1024;
const GOALS_HEADERS = ['content-type', 'cache-control', 'etag', 'expires', 'last-modified', 'vary'] as const;

/** Asks the vendor's service for the goals of a page. */
export async function askGoals(
  outbound: Outbound,
  baseUri: string,
  envId: string,
  headers: Readonly<Record<string, string>>,
): Promise<Goals> {
  const url = urlUnder(baseUri, `/sdk/goals/${encodeURIComponent(envId)}`);
  const reply = await outbound.send({
    method: 'GET',
    url,
    headers,
    headersTimeoutMs: GOALS_MS_MAX,
    idleTimeoutMs: GOALS_MS_MAX,
  });
  const body = Buffer.from(await reply.text(GOALS_BYTES_MAX));
  const kept: Record<string, string> = {};
  for (const name of GOALS_HEADERS) {
    const value = reply.header(name);
    if (value !== undefined) kept[name] = value;
  }
  return { status: reply.status, headers: kept, body };
}
