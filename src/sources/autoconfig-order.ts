import { isDeepStrictEqual } from 'node:util';
import type { AutoConfigEnvironment } from './autoconfig-state.ts';

/** One call of the listener. */
export type Step =
  | { readonly kind: 'remove'; readonly envId: string }
  | { readonly kind: 'upsert'; readonly environment: AutoConfigEnvironment };

type Environments = ReadonlyMap<string, AutoConfigEnvironment>;
/** By key: who had it and has not any more. */
type Losers = ReadonlyMap<string, ReadonlySet<string>>;

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
  const changed = [...now.values()].filter((environment) => {
    const before = told.get(environment.envId);
    return before !== environment && !isDeepStrictEqual(before, environment);
  });
  const losers = new Map<string, Set<string>>();
  for (const envId of [...removed, ...changed.map((environment) => environment.envId)]) {
    const kept = new Set(keysOf(now.get(envId)));
    for (const key of keysOf(told.get(envId))) {
      if (!kept.has(key)) losers.set(key, (losers.get(key) ?? new Set()).add(envId));
    }
  }
  const upserts = losers.size === 0 ? changed : sort([...changed, ...heirsOf(losers, changed, now)], losers);
  return [
    ...removed.map((envId): Step => ({ kind: 'remove', envId })),
    ...upserts.map((environment): Step => ({ kind: 'upsert', environment })),
  ];
}

/** Those who did not change, and hold a key that another one let go. */
function heirsOf(
  losers: Losers,
  changed: readonly AutoConfigEnvironment[],
  now: Environments,
): AutoConfigEnvironment[] {
  const others = new Map(now);
  for (const { envId } of changed) others.delete(envId);
  return [...others.values()].filter((heir) => keysOf(heir).some((key) => losers.has(key)));
}

/** Those who lost a key before those who hold it; in a circle, one of it first and then again. */
function sort(environments: readonly AutoConfigEnvironment[], losers: Losers): AutoConfigEnvironment[] {
  const waiting = new Map(environments.map((environment) => [environment.envId, environment]));
  const sorted: AutoConfigEnvironment[] = [];
  const again: AutoConfigEnvironment[] = [];
  /** Those who are behind somebody that waits for them. */
  const open = new Set<string>();
  const tell = (environment: AutoConfigEnvironment): void => {
    open.add(environment.envId);
    const before = keysOf(environment).flatMap((key) => [...(losers.get(key) ?? [])]);
    let isEarly = false;
    for (const envId of before) {
      const loser = envId === environment.envId ? undefined : waiting.get(envId);
      if (loser !== undefined && open.has(envId)) isEarly = true;
      else if (loser !== undefined) tell(loser);
    }
    waiting.delete(environment.envId);
    sorted.push(environment);
    if (isEarly) again.push(environment);
  };
  for (const environment of environments) if (waiting.has(environment.envId)) tell(environment);
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
