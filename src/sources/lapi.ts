import type { Ledger } from '../dataset/decisions/index.ts';
import { canonicalScope } from '../dataset/decisions/index.ts';
import { type Clock, HeadgateError } from '../kernel/index.ts';
import { LapiClient, type LapiTls } from './lapi-client.ts';
import { FORWARD_SOCKETS_MAX, Forwarder, type ForwardReply, type ForwardRequest } from './lapi-forward.ts';
import { KEY_SOCKETS_MAX, KeyChecks, type KeyVerdict } from './lapi-keys.ts';
import { type LapiListener, type LapiState, Loop } from './lapi-loop.ts';
import { Puller } from './lapi-pull.ts';

/** Settings of {@link openLapi}. */
export interface LapiOptions {
  /** What logs and the status call it. */
  readonly name: string;
  /** Its number among the sources of the ledger, from 0. */
  readonly source: number;
  /** `http://` or `https://`, with the path that comes before `/v1`, if any. */
  readonly url: string;
  /** Our bouncer key there; '' when a client certificate says who we are. */
  readonly key: string;
  readonly tls?: LapiTls;
  /** How often changes are asked for, in milliseconds, at least 1,000. */
  readonly intervalMs: number;
  /** How often everything is asked for and compared, in milliseconds. */
  readonly resyncMs: number;
  /** What is held apart from Ip, Range, Country and AS. */
  readonly scopes: readonly string[];
  readonly ledger: Ledger;
  readonly clock: Clock;
  /** Unix time in milliseconds. */
  readonly wallNow: () => number;
  /** From 0 to 1. */
  readonly random?: () => number;
  /** `name/version`, which the local API lists bouncers by. */
  readonly userAgent: string;
  readonly listener: LapiListener;
}

/** How it is with a source. */
export interface LapiStatus {
  readonly name: string;
  readonly url: string;
  readonly state: LapiState;
  /** How long ago the last good answer came, in milliseconds. */
  readonly ageMs: number | undefined;
  /** How many decisions of it are held. */
  readonly decisions: number;
  readonly lastError: string | undefined;
  /** The scopes that are asked for. */
  readonly scopes: readonly string[];
}

/** A local API that decisions are pulled from. */
export interface LapiSource {
  /** Begins to pull. */
  start(): void;
  /** Ends what is under way. Nothing is told or committed once the promise has resolved. */
  stop(): Promise<void>;
  /** Resolves when the first full copy is held; never rejects. */
  readonly loaded: Promise<void>;
  status(): LapiStatus;
  /** True: everything of these scopes is held. Else resolves with true once it is; with false when it cannot be, or when `signal` aborts first. */
  hold(scopes: readonly string[], signal?: AbortSignal): true | Promise<boolean>;
  /** The same for simulated decisions and those of every scope. */
  holdWide(): true | Promise<boolean>;
  /** Asks for everything as soon as may be, and compares it with what is held. */
  resync(why: string): void;
  /** Asks whether a key of a bouncer is good. Never rejects. */
  checkKey(key: string): Promise<KeyVerdict>;
  /** Passes a request on as it is. Rejects with HG_SOURCE when there is no answer. */
  forward(request: ForwardRequest): Promise<ForwardReply>;
}

const INTERVAL_MS_MIN = 1000;
/** One that pulls, and one beside it for a connection that is being closed. */
const PULL_SOCKETS_MAX = 2;

/**
 * Follows a CrowdSec local API, to which it is one bouncer: a full pull at start, then changes, and a full one again every
 * so often and after each doubt, compared with what is held. What was held stays when the local API fails.
 *
 * Throws HG_OPTION on settings that cannot be used.
 *
 * @example
 * ```ts no-run
 * async function follow(ledger: LapiOptions['ledger']): Promise<LapiSource> {
 *   const lapi = openLapi({
 *     name: 'local', source: 0, url: 'http://127.0.0.1:8080', key: 'the key of our bouncer there', scopes: ['username'],
 *     intervalMs: 10_000, resyncMs: 3_600_000, ledger, clock: systemClock, wallNow: Date.now, userAgent: 'headgate/1.0.0',
 *     listener: { loaded() {}, resynced() {}, recovered() {}, doubtful() {}, failed: ({ message }) => console.log(message) },
 *   });
 *   lapi.start();
 *   await lapi.loaded;
 *   console.log(lapi.status().state); // current
 *   return lapi;
 * }
 * ```
 */
export function openLapi(options: LapiOptions): LapiSource {
  check(options);
  const { name, url, tls, clock, key, userAgent } = options;
  const clientOf = (socketsMax: number): LapiClient => new LapiClient({ name, url, tls, clock, socketsMax });
  const clients = {
    pull: clientOf(PULL_SOCKETS_MAX),
    keys: clientOf(KEY_SOCKETS_MAX),
    forward: clientOf(FORWARD_SOCKETS_MAX),
  };
  const ours = { 'user-agent': userAgent, 'accept-encoding': 'gzip', ...(key === '' ? {} : { 'x-api-key': key }) };
  const puller = new Puller({ ...options, client: clients.pull, headers: ours });
  const loop = new Loop({ ...options, puller, random: options.random ?? Math.random });
  const keys = new KeyChecks(clients.keys, userAgent);
  const forwarder = new Forwarder(clients.forward);
  return {
    start: () => loop.start(),
    stop: () => {
      const stopped = loop.stop();
      for (const client of Object.values(clients)) client.close();
      return stopped;
    },
    loaded: loop.loaded,
    status: () => ({
      name,
      url: clients.pull.url,
      state: loop.state,
      ageMs: loop.ageMs,
      decisions: options.ledger.sourceCount(options.source),
      lastError: loop.lastError,
      scopes: loop.scopes,
    }),
    hold: (scopes, signal) => loop.hold(scopes.map(canonicalScope), signal),
    holdWide: () => loop.holdWide(),
    resync: (why) => loop.resync(why),
    checkKey: (candidate) => keys.check(candidate),
    forward: (request) => forwarder.forward(request),
  };
}

/** What a header may hold (RFC 9110 section 5.5). */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

function check({ name, intervalMs, resyncMs, key }: LapiOptions): void {
  const refuse = (cause: string): never => {
    throw new HeadgateError('HG_OPTION', `Cannot use the local API ${name}: ${cause}`);
  };
  if (!(intervalMs >= INTERVAL_MS_MIN && intervalMs < Number.POSITIVE_INFINITY)) {
    refuse(`intervalMs must be at least ${INTERVAL_MS_MIN}, got ${intervalMs}`);
  }
  if (!(resyncMs >= intervalMs && resyncMs < Number.POSITIVE_INFINITY)) {
    refuse(`resyncMs must be at least intervalMs, got ${resyncMs}`);
  }
  // the key itself is not shown: messages end up in logs
  if (!FIELD_VALUE.test(key)) refuse(`its key must be one line of Latin characters, got one of ${key.length}`);
}
