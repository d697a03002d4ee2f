/** The words of the protocol: what clients send and expect, each once. */

/** The kinds of item in a data set of flags, by the names that FDv1's paths and maps have for them. */
export const KIND_FLAG = 'flags';
export const KIND_SEGMENT = 'segments';
export const KINDS: readonly string[] = [KIND_FLAG, KIND_SEGMENT];

/** What FDv2 calls them. */
export const OBJECT_KIND: Readonly<Record<string, string>> = { [KIND_FLAG]: 'flag', [KIND_SEGMENT]: 'segment' };

export const EVENT = {
  put: 'put',
  patch: 'patch',
  delete: 'delete',
  serverIntent: 'server-intent',
  putObject: 'put-object',
  deleteObject: 'delete-object',
  payloadTransferred: 'payload-transferred',
  goodbye: 'goodbye',
} as const;

export const INTENT = { none: 'none', full: 'xfer-full', changes: 'xfer-changes' } as const;
export const REASON = {
  upToDate: 'up-to-date',
  stale: 'stale',
  cantCatchUp: 'cant-catchup',
  missing: 'payload-missing',
} as const;

/** FDv2's `target` and `version` are 32-bit signed in some SDKs; a clock beyond that starts over. */
export const PAYLOAD_VERSION_MAX: number = 2 ** 31 - 1;

export const STREAM_HEADERS: Readonly<Record<string, string>> = {
  'access-control-allow-origin': '*',
  'cache-control': 'no-cache, no-store, must-revalidate',
  'content-type': 'text/event-stream; charset=utf-8',
  'x-accel-buffering': 'no',
};

/**
 * On a full poll. Go's HTTP cache forgets its ETag at any answer but 200 and 304, so one refusal would cost a full
 * copy; `stale-if-error` makes it keep the tag (seen with Go 7.14.6 on FDv1 and FDv2).
 */
export const POLL_CACHE_CONTROL = 'stale-if-error=86400';

export const TEXT = {
  unknownCredential: 'Relay Proxy does not recognize the client credential (missing or invalid Authorization header)',
  unknownFilter: 'Relay Proxy recognizes the provided credential, but the payload filter was not found',
  unknownEnvironment: 'URL did not contain an environment ID',
  noEnvironmentsYet: 'Relay Proxy is not yet fully initialized, does not have list of environments yet',
  notInitialized: 'client was not initialized',
  atLimit: 'at the limit of full copies in progress; retry shortly',
  behind: 'behind the data that this client has seen; retry shortly',
  shuttingDown: 'shutting down; retry shortly',
} as const;
