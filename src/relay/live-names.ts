import { maskKey } from '../config/index.ts';
import type { EnvironmentInfo } from '../protocols/launchdarkly/index.ts';
import type { Service } from './service.ts';

/** What looks like a key of an environment that nobody knows any more. */
const KEYS = /\b(?:sdk|mob|api|rel)-[\w-]{8,}|\b[0-9a-f]{24}\b/g;

type Keys = Pick<EnvironmentInfo, 'envId' | 'mobileKey' | 'sdkKeys'>;

/** A text without the keys of these environments: each is masked, but for its end. */
export function withoutKeys(text: string, environments: readonly Keys[]): string {
  const found = environments.flatMap(keysOf).filter((key) => text.includes(key));
  // one key may be a part of another, of which the rest would be left
  const longestFirst = found.toSorted((one, other) => other.length - one.length);
  return longestFirst.reduce((hidden, key) => hidden.replaceAll(key, maskKey(key)), text);
}

function keysOf({ envId, mobileKey, sdkKeys }: Keys): string[] {
  const keys = [envId, mobileKey, ...sdkKeys.map(({ value }) => value)];
  return keys.flatMap((key) => (key === undefined || key === '' ? [] : key));
}

/**
 * What environments are called in metrics and on the page, by their names in facts: as people call them, each otherwise. The
 * name of one that nobody named is its client-side ID, which is a key of browsers: it is masked.
 */
export function labelsOf(
  environments: readonly (Keys & Pick<EnvironmentInfo, 'name' | 'projName' | 'envName' | 'filterKey'>)[],
): Map<string, string> {
  const labels = new Map<string, string>();
  /** How often a label was wanted; those that were given are among them. */
  const wanted = new Map<string, number>();
  for (const info of environments) {
    const own = labelOf(info);
    let again = (wanted.get(own) ?? 0) + 1;
    let label = again === 1 ? own : `${own} ${again}`;
    // somebody may be called like that
    while (wanted.has(label)) label = `${own} ${++again}`;
    wanted.set(own, again);
    if (label !== own) wanted.set(label, 1);
    labels.set(info.name, label);
  }
  return labels;
}

function labelOf(info: Parameters<typeof labelsOf>[0][number]): string {
  const { name, projName, envName, filterKey } = info;
  const told = [projName, envName].filter((part) => part !== undefined && part !== '').join(' ');
  const given = filterKey === undefined ? name : name.slice(0, -`/${filterKey}`.length);
  const label = told === '' ? (keysOf(info).includes(given) ? maskKey(given) : given) : told;
  return filterKey === undefined ? label : `${label} ${filterKey}`;
}

/** What the service that has an environment calls it; undefined: none has it. */
export function labelIn(services: readonly Pick<Service, 'tenantOf'>[], name: string): string | undefined {
  return services.map((service) => service.tenantOf?.(name)).find((label) => label !== undefined);
}

/** A text that may be shown: without the keys of what is served, nor what looks like one. */
export function shownText(text: string, services: readonly Pick<Service, 'hide'>[]): string {
  const hidden = services.reduce((left, service) => service.hide?.(left) ?? left, text);
  return hidden.replaceAll(KEYS, (key) => maskKey(key));
}
