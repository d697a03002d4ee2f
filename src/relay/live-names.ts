import { maskKey } from '../config/index.ts';
import type { EnvironmentInfo } from '../protocols/launchdarkly/index.ts';
import type { Service } from './service.ts';

/** What looks like a key of an environment that nobody knows any more. */
const KEYS = /\b(?:sdk|mob|api|rel)-[\w-]{8,}|\b[0-9a-f]{24}\b/g;

/** A text without the keys of these environments: each is masked, but for its end. */
export function withoutKeys(
  text: string,
  environments: readonly Pick<EnvironmentInfo, 'envId' | 'mobileKey' | 'sdkKeys'>[],
): string {
  let hidden = text;
  for (const { envId, mobileKey, sdkKeys } of environments) {
    for (const key of [envId, mobileKey, ...sdkKeys.map(({ value }) => value)]) {
      if (key !== undefined && key !== '' && hidden.includes(key)) hidden = hidden.replaceAll(key, maskKey(key));
    }
  }
  return hidden;
}

/** A text that may be shown: without the keys of what is served, nor what looks like one. */
export function shownText(text: string, services: readonly Pick<Service, 'hide'>[]): string {
  const hidden = services.reduce((left, service) => service.hide?.(left) ?? left, text);
  return hidden.replaceAll(KEYS, (key) => maskKey(key));
}
