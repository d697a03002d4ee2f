import { hideKey } from './credentials.ts';
import type { Environment } from './environment.ts';

/** The environments as the vendor's `/status` lists them. Members that an environment does not have are left out. */
export function statusOf(
  environments: readonly Environment[],
  complete: boolean,
): { environments: Record<string, object>; healthy: boolean } {
  const listed = Object.create(null) as Record<string, object>;
  let healthy = complete;
  for (const environment of environments) {
    listed[environment.info.name] = environmentStatus(environment);
    healthy &&= environment.data.ready;
  }
  return { environments: listed, healthy };
}

function environmentStatus(environment: Environment): object {
  const { info, data, stateSinceMs } = environment;
  const current = info.sdkKeys.find(({ expiresMs }) => expiresMs === undefined);
  const expiring = info.sdkKeys.find(({ expiresMs }) => expiresMs !== undefined && Date.now() < expiresMs);
  const hidden = (key: string | undefined): string | undefined => (key === undefined ? undefined : hideKey(key));
  return JSON.parse(
    JSON.stringify({
      sdkKey: hidden(current?.value),
      envId: info.envId,
      envKey: info.envKey,
      envName: info.envName,
      projKey: info.projKey,
      projName: info.projName,
      mobileKey: hidden(info.mobileKey),
      expiringSdkKey: hidden(expiring?.value),
      status: data.ready ? 'connected' : 'disconnected',
      connectionStatus: { state: data.ready ? 'VALID' : 'INITIALIZING', stateSince: stateSinceMs },
      dataStoreStatus: { state: 'VALID', stateSince: stateSinceMs },
    }),
  ) as object;
}
