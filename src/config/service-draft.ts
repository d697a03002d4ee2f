import type { Config, Mutable } from './types.ts';

/**
 * Where each thing about the service stands, for messages: `environment production`, `autoConfig`, `cache`, `redis`,
 * `dynamoDb`, `proxy`, `events`, `eventsUri`, `streamUri`, `archive`.
 */
export type ServicePlaces = Map<string, string>;

/** Whether flags come from the service, and not from files alone. */
export function hasUpstream({ environments, autoConfig }: Mutable<Config> | Config): boolean {
  return environments.length > 0 || autoConfig !== undefined;
}
