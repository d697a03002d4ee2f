import type { HerdKind } from './words.ts';

/** What is known about one SDK in one kind: what it sends, how long it waits, and when it comes again. */
export interface Profile {
  readonly kind: HerdKind;
  readonly sdk: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether it is a stream, which stays open; else it asks again and again. */
  readonly isStream: boolean;
  /** How long it gives one answer from request to last byte. */
  readonly answerMsMax: number;
  /** How long it waits for the next byte. */
  readonly silenceMsMax: number;
  /** From one poll to the next. */
  readonly everyMs: number;
  readonly keepsConnection: boolean;
  /** Statuses after which it never comes again. */
  readonly finalStatuses: ReadonlySet<number>;
  /** What it does after a failure: waits that double, or the next regular poll. */
  readonly afterFailure: 'backoff' | 'next-poll';
  /** Whether it waits as long as Retry-After says and asks once more, before its next regular poll. */
  readonly obeysRetryAfter: boolean;
  /** Whether `retry:` on a stream sets its first wait. */
  readonly obeysRetryLine: boolean;
  /** Refused for good elsewhere; this one comes again after minutes. */
  readonly afterUnauthorized: 'never' | 'minutes';
  /** Whether its URL says what it holds. */
  readonly namesBasis: boolean;
  /** When an answer that is an error makes it forget its ETag. */
  readonly forgetsTag: 'never' | 'unless-stale-if-error';
  /** When a bouncer asks for everything again: until it has it, or after any failure as well. */
  readonly startsOver: 'until-served' | 'after-failure';
}

const MINUTE_MS = 60_000;
const UNAUTHORIZED: ReadonlySet<number> = new Set([401, 403, 404]);
const NONE: ReadonlySet<number> = new Set();

const STREAM = {
  isStream: true,
  answerMsMax: Number.POSITIVE_INFINITY,
  silenceMsMax: 5 * MINUTE_MS,
  everyMs: Number.POSITIVE_INFINITY,
  keepsConnection: false,
  finalStatuses: UNAUTHORIZED,
  afterFailure: 'backoff',
  obeysRetryAfter: false,
  obeysRetryLine: true,
  afterUnauthorized: 'never',
  namesBasis: true,
  forgetsTag: 'never',
  startsOver: 'until-served',
} as const;

const POLL = {
  ...STREAM,
  isStream: false,
  everyMs: 30_000,
  keepsConnection: true,
  afterFailure: 'next-poll',
  obeysRetryLine: false,
} as const;

/** What differs from the ordinary, by SDK: on streams, and on polls. */
const FLAG_SDKS: Readonly<Record<string, { agent: string; stream: Partial<Profile>; poll: Partial<Profile> }>> = {
  go: {
    agent: 'GoClient/7.14.6',
    stream: {},
    poll: { answerMsMax: 3000, forgetsTag: 'unless-stale-if-error' },
  },
  node: {
    agent: 'NodeJSClient/9.13.7',
    stream: { namesBasis: false },
    poll: { answerMsMax: 10_000 },
  },
  python: {
    agent: 'PythonClient/9.20.0',
    stream: { obeysRetryLine: false, finalStatuses: NONE, afterUnauthorized: 'minutes' },
    poll: { silenceMsMax: MINUTE_MS, obeysRetryAfter: true },
  },
};

/** Of the SDKs only Go's asks for compressed streams; all three ask for compressed polls. */
const streamEncoding: Readonly<Record<string, string>> = { go: 'gzip', python: 'identity' };

function flagsProfile(kind: HerdKind, sdk: string): Profile {
  const { agent, stream, poll } = FLAG_SDKS[sdk]!;
  const isStream = kind === 'fdv1' || kind === 'fdv2';
  const encoding = isStream ? streamEncoding[sdk] : 'gzip';
  return {
    ...(isStream ? { ...STREAM, ...stream } : { ...POLL, ...poll }),
    ...(kind === 'fdv2-poll' && sdk === 'node' ? { afterFailure: 'backoff' } : {}),
    kind,
    sdk,
    headers: {
      'user-agent': agent,
      ...(isStream ? { accept: 'text/event-stream', 'cache-control': 'no-cache' } : {}),
      ...(encoding === undefined ? {} : { 'accept-encoding': encoding }),
    },
  };
}

/** PHP holds nothing from one request of a page to the next: a connection and a look-up each time. */
function phpProfile(): Profile {
  return {
    ...POLL,
    kind: 'php',
    sdk: 'php',
    headers: { 'user-agent': 'PHPClient/6.4.0' },
    answerMsMax: 3000,
    everyMs: 1000,
    keepsConnection: false,
    finalStatuses: NONE,
    forgetsTag: 'unless-stale-if-error',
  };
}

interface Bouncer {
  readonly agent: string;
  readonly encoding?: string;
  readonly everyMs: number;
  readonly rest?: Partial<Profile>;
}

const BOUNCERS: Readonly<Record<string, Bouncer>> = {
  go: { agent: 'crowdsec-firewall-bouncer/v0.0.34', encoding: 'gzip', everyMs: 10_000 },
  lua: {
    agent: 'crowdsec-nginx-bouncer/v1.1.3',
    everyMs: 10_000,
    rest: { silenceMsMax: 3000, keepsConnection: false },
  },
  python: { agent: 'pycrowdsec/0.0.5', encoding: 'gzip, deflate', everyMs: 15_000 },
  node: {
    agent: 'nodejs-bouncer/v0.2.0',
    encoding: 'gzip, deflate',
    everyMs: 10_000,
    rest: { silenceMsMax: 5 * MINUTE_MS },
  },
  php: {
    agent: 'php-bouncer/v4.0.0',
    encoding: 'deflate, gzip',
    everyMs: 10_000,
    rest: { answerMsMax: 2 * MINUTE_MS, keepsConnection: false },
  },
  traefik: {
    agent: 'Crowdsec-Bouncer-Traefik-Plugin/1.X.X',
    encoding: 'gzip',
    everyMs: MINUTE_MS,
    rest: { answerMsMax: 10_000, startsOver: 'after-failure' },
  },
};

function bouncerProfile(sdk: string): Profile {
  const { agent, encoding, everyMs, rest } = BOUNCERS[sdk]!;
  return {
    ...POLL,
    silenceMsMax: Number.POSITIVE_INFINITY,
    ...rest,
    kind: 'bouncer',
    sdk,
    everyMs,
    finalStatuses: NONE,
    headers: { 'user-agent': agent, ...(encoding === undefined ? {} : { 'accept-encoding': encoding }) },
  };
}

/** How this SDK behaves in this kind. Both are of the lists in `words.ts`. */
export function profileOf(kind: HerdKind, sdk: string): Profile {
  if (kind === 'bouncer') return bouncerProfile(sdk);
  return kind === 'php' ? phpProfile() : flagsProfile(kind, sdk);
}
