import { hideKey } from './credentials.ts';
import type { Environment } from './environment.ts';
import type { ConnectionState } from './states.ts';

/** What decides whether an environment is called well. */
export interface StatusOptions {
  /** Unix time in milliseconds. */
  readonly nowMs: number;
  /** How long a source may be away before its environment is called disconnected, in milliseconds. */
  readonly disconnectedMs: number;
  /** Whether big segments that are stale count as an environment that is not well. */
  readonly staleAsDegraded: boolean;
}

/** The environments as the vendor's `/status` lists them. Members that an environment does not have are left out. */
export function statusOf(
  environments: readonly Environment[],
  complete: boolean,
  options: StatusOptions,
): { environments: Record<string, object>; healthy: boolean } {
  const listed = Object.create(null) as Record<string, object>;
  for (const environment of environments) listed[environment.info.name] = environmentStatus(environment, options);
  return { environments: listed, healthy: complete && environments.every((each) => isWell(each, options)) };
}

/** Whether nothing of an environment makes the whole degraded. */
export function isWell(environment: Environment, options: StatusOptions): boolean {
  const isStale = options.staleAsDegraded && environment.bigSegments?.potentiallyStale === true;
  return isConnected(environment, options) && environment.dataStore?.state !== 'INTERRUPTED' && !isStale;
}

/** One environment as `/status` lists it. */
export function environmentStatus(environment: Environment, options: StatusOptions): object {
  const { info, stateSinceMs, dataStore } = environment;
  const current = info.sdkKeys.find(({ expiresMs }) => expiresMs === undefined);
  const expiring = info.sdkKeys.find(({ expiresMs }) => expiresMs !== undefined && options.nowMs < expiresMs);
  const hidden = (key: string | undefined): string | undefined => (key === undefined ? undefined : hideKey(key));
  const { state, sinceMs, lastError } = connectionOf(environment);
  const { sinceMs: storeSinceMs = stateSinceMs, state: storeState = 'VALID', ...database } = dataStore ?? {};
  return JSON.parse(
    JSON.stringify({
      sdkKey: hidden(current?.value),
      envId: info.envId,
      envKey: info.envKey,
      envName: info.envName,
      projKey: info.projKey,
      projName: info.projName,
      filterKey: info.filterKey,
      mobileKey: hidden(info.mobileKey),
      expiringSdkKey: hidden(expiring?.value),
      status: isConnected(environment, options) ? 'connected' : 'disconnected',
      connectionStatus: {
        state,
        stateSince: sinceMs,
        lastError:
          lastError === undefined
            ? undefined
            : { kind: lastError.kind, statusCode: lastError.statusCode, time: lastError.timeMs },
      },
      dataStoreStatus: { state: storeState, stateSince: storeSinceMs, ...database },
      bigSegmentStatus: environment.bigSegments,
    }),
  ) as object;
}

/** A file has no connection: its data are there or not. */
function connectionOf({ connection, data, stateSinceMs }: Environment): ConnectionState {
  return connection ?? { state: data.ready ? 'VALID' : 'INITIALIZING', sinceMs: stateSinceMs };
}

/** A source that is away for a moment is not called so: whoever is paged by this page wants to know of outages. */
export function isConnected(environment: Environment, { nowMs, disconnectedMs }: StatusOptions): boolean {
  const { state, sinceMs } = connectionOf(environment);
  if (!environment.data.ready) return false;
  return state === 'VALID' || (state !== 'OFF' && nowMs - sinceMs < disconnectedMs);
}
