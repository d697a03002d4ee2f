import { isDeepStrictEqual } from 'node:util';
import type { AutoConfigEnvironment } from './autoconfig-state.ts';

/** One call of the listener. */
export type Step =
  | { readonly kind: 'remove'; readonly envId: string }
  | { readonly kind: 'upsert'; readonly environment: AutoConfigEnvironment };

type Environments = ReadonlyMap<string, AutoConfigEnvironment>;

/**
 * What to tell, and in which order, so that one who heard of `told` knows of `now`.
 *
 * Removals come first, then every environment that lost a key, then those that hold a key which another one had: whoever
 * forgets an environment's old keys before it learns the new ones never drops a key that has another owner by then. That
 * includes an environment that did not change itself, where two had the same key and the other one let it go: it is told
 * again. Where keys go round in a circle, one of it must be told before its key is free; it is told once more at the end.
 *
 * A key has no owner between the step that frees it and the one that gives it away. So all steps must be told in one
 * turn of the event loop: then no client comes in between.
 */
export function stepsBetween(told: Environments, now: Environments): Step[] {
  const removed = [...told.keys()].filter((envId) => !now.has(envId));
  const changed = [...now.values()].filter(
    (environment) => !isDeepStrictEqual(told.get(environment.envId), environment),
  );
  /** By key: who had it and has not any more. */
  const losers = new Map<string, Set<string>>();
  for (const envId of [...removed, ...changed.map((environment) => environment.envId)]) {
    const kept = new Set(keysOf(now.get(envId)));
    for (const key of keysOf(told.get(envId))) {
      if (!kept.has(key)) losers.set(key, (losers.get(key) ?? new Set()).add(envId));
    }
  }
  const isChanged = new Set(changed.map((environment) => environment.envId));
  const heirs = [...now.values()].filter((heir) => {
    return !isChanged.has(heir.envId) && keysOf(heir).some((key) => losers.has(key));
  });
  const upserts = sort([...changed, ...heirs], losers);
  return [
    ...removed.map((envId): Step => ({ kind: 'remove', envId })),
    ...upserts.map((environment): Step => ({ kind: 'upsert', environment })),
  ];
}

/** Those who lost a key before those who hold it; in a circle, one of it first and then again. */
function sort(
  environments: readonly AutoConfigEnvironment[],
  losers: ReadonlyMap<string, Set<string>>,
): AutoConfigEnvironment[] {
  const waiting = new Map(environments.map((environment) => [environment.envId, environment]));
  const sorted: AutoConfigEnvironment[] = [];
  const again: AutoConfigEnvironment[] = [];
  const isFree = (environment: AutoConfigEnvironment): boolean => {
    return keysOf(environment).every((key) => {
      return ![...(losers.get(key) ?? [])].some((envId) => envId !== environment.envId && waiting.has(envId));
    });
  };
  const tell = (environment: AutoConfigEnvironment): void => {
    waiting.delete(environment.envId);
    sorted.push(environment);
  };
  while (waiting.size > 0) {
    const free = [...waiting.values()].filter(isFree);
    for (const environment of free) tell(environment);
    const [first] = waiting.values();
    if (free.length > 0 || first === undefined) continue;
    tell(first);
    again.push(first);
  }
  return [...sorted, ...again];
}

/** A mobile key is no SDK key, even if it reads the same. */
function keysOf(environment: AutoConfigEnvironment | undefined): string[] {
  if (environment === undefined) return [];
  const { sdkKey, expiringSdkKey, mobileKey } = environment;
  const keys = [`sdk ${sdkKey}`];
  if (expiringSdkKey !== undefined) keys.push(`sdk ${expiringSdkKey.value}`);
  if (mobileKey !== undefined) keys.push(`mobile ${mobileKey}`);
  return keys;
}
