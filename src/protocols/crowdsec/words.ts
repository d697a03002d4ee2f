/** The words of the protocol: what bouncers send and expect, each once. */

export const PATH = {
  stream: '/v1/decisions/stream',
  decisions: '/v1/decisions',
  usageMetrics: '/v1/usage-metrics',
  health: '/health',
  others: '/v1/*',
} as const;

/** A stream's body has one type, everything else another: as the local API sends them. */
export const STREAM_TYPE = 'application/json';
export const JSON_TYPE = 'application/json; charset=utf-8';
export const TEXT_TYPE = 'text/plain; charset=utf-8';

export const HEADER = { key: 'x-api-key' } as const;

/** What a live look-up without a hit gets: lua takes `[]` and `null\n` for errors of its own. */
export const NO_DECISION = 'null';

export const TEXT = {
  forbidden: 'access forbidden',
  atLimit: 'Headgate is at the limit of full copies in progress; retry shortly',
  shuttingDown: 'Headgate is shutting down; retry shortly',
  noDataYet: 'Headgate has no decisions yet; retry shortly',
  scopeNotHeld: 'Headgate could not get these decisions from its upstream yet; retry shortly',
  keyNotChecked: 'Headgate cannot check this key with its upstream now; retry shortly',
  noUpstream: 'Headgate cannot reach its upstream; retry shortly',
  missingComponent: 'Missing remediation component data',
  manyComponents: 'Payload has more than one remediation component',
  manyProcessors: 'Payload has more than one log processor',
  bodyTooLarge: 'http: request body too large',
} as const;

/** The scopes that a stream has unless it names others. */
export const ENFORCED_SCOPES: readonly string[] = ['Ip', 'Range'];
