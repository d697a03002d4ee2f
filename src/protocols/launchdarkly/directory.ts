import type { Clock, Timer } from '../../kernel/index.ts';
import type { EnvironmentInfo } from './credentials.ts';
import type { Environment } from './environment.ts';
import { TEXT } from './words.ts';

/** Whose credential it is: a server's SDK key, a phone's mobile key, or the client-side ID that browsers have in the URL. */
export type Audience = 'server' | 'mobile' | 'client';

/** How to refuse a request whose environment was not found. */
export interface Refusal {
  readonly status: number;
  /** Undefined: an empty body. */
  readonly text: string | undefined;
}

/** The environment of a credential, or how to refuse. */
export type Found = { readonly environment: Environment } | Refusal;

/** What a directory needs from outside. */
export interface DirectoryOptions {
  readonly clock: Clock;
  /** Makes an environment when one is new. */
  readonly make: (info: EnvironmentInfo) => Environment;
  /** A credential has expired or was taken away: streams that were opened with it are over. */
  readonly onRevoked: () => void;
}

interface Holder {
  readonly environment: Environment;
  readonly expiresMs: number;
}

/** In the protocol's own keys: what tells a mobile key from a client-side ID where both may stand. */
const MOBILE_PREFIX = 'mob-';

/**
 * Which environments there are, and whose credentials lead to them.
 *
 * ```
 *  credential ──► environment ──► (filter) ──► environment that holds the filter's data
 * ```
 *
 * While the list of environments is not complete, a credential that nobody has is asked to wait: 401 stops SDKs for good.
 */
export class Directory {
  readonly #options: DirectoryOptions;
  readonly #environments = new Map<string, Environment>();
  /** By the environment's ID and the filter's key. */
  readonly #filtered = new Map<string, Map<string, Environment>>();
  readonly #holders: Readonly<Record<Audience, Map<string, Holder>>> = {
    server: new Map(),
    mobile: new Map(),
    client: new Map(),
  };
  /** Credentials that went while a source was telling what it holds: perhaps to an environment that it has not told yet. */
  readonly #unsettled: Readonly<Record<Audience, Set<string>>> = {
    server: new Set(),
    mobile: new Set(),
    client: new Set(),
  };
  #expiryTimer: Timer | undefined;
  /** While what changed about environments is not in the index yet: a source tells a thousand of them in one turn. */
  #isStale = false;
  #complete = false;
  /** Whether a credential that nobody has is known to be none. */
  #certain = false;

  constructor(options: DirectoryOptions) {
    this.#options = options;
  }

  /** Whether the list of environments is known. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Every environment, those of filters included, in the order in which they came. */
  environments(): readonly Environment[] {
    return [...this.#environments.values()];
  }

  get(id: string): Environment | undefined {
    return this.#environments.get(id);
  }

  /**
   * From here on the list is known: a credential that no environment has is refused, not asked to wait. A list that is not
   * certain is what was known last: there is data for everybody on it, but who is not on it may have been added since.
   */
  settle(isCertain = true): void {
    this.#indexNow();
    this.#complete = true;
    this.#certain ||= isCertain;
    for (const unsettled of Object.values(this.#unsettled)) unsettled.clear();
    this.#options.onRevoked();
  }

  /** Adds an environment, or takes over what changed about it. */
  upsert(info: EnvironmentInfo): Environment {
    let environment = this.#environments.get(info.id);
    if (environment === undefined) {
      environment = this.#options.make(info);
      this.#environments.set(info.id, environment);
    }
    environment.info = info;
    this.#indexSoon();
    return environment;
  }

  /** Forgets an environment. */
  remove(id: string): Environment | undefined {
    const environment = this.#environments.get(id);
    this.#environments.delete(id);
    this.#indexSoon();
    return environment;
  }

  /** The environment that a credential and a filter lead to, or how to refuse. */
  find(audience: Audience, credential: string | undefined, filter: string | undefined): Found {
    this.#indexNow();
    const holder = credential === undefined ? undefined : this.#holders[audience].get(credential);
    if (holder !== undefined && Date.now() < holder.expiresMs) return this.#withFilter(holder.environment, filter);
    if (credential === undefined && audience !== 'client') return { status: 401, text: undefined };
    if (!this.#certain || (credential !== undefined && this.#unsettled[audience].has(credential))) {
      return { status: 503, text: TEXT.noEnvironmentsYet };
    }
    return audience === 'client'
      ? { status: 404, text: TEXT.unknownEnvironment }
      : { status: 401, text: TEXT.unknownCredential };
  }

  /** The same where a mobile key or a client-side ID may stand: the second protocol's own routes, which say 401 for both. */
  findPublic(credential: string | undefined, filter: string | undefined): Found & { readonly audience: Audience } {
    const audience = credential?.startsWith(MOBILE_PREFIX) === true ? 'mobile' : 'client';
    if (credential === undefined) return { status: 401, text: undefined, audience };
    const found = this.find(audience, credential, filter);
    const isUnknown = 'status' in found && found.text === TEXT.unknownEnvironment;
    return isUnknown ? { status: 401, text: TEXT.unknownCredential, audience } : { ...found, audience };
  }

  /** Whether a credential still leads to this environment. */
  leadsTo(environment: Environment, audience: Audience, credential: string | undefined): boolean {
    this.#indexNow();
    const holder = this.#holders[audience].get(credential ?? '');
    if (holder === undefined || holder.expiresMs <= Date.now()) return false;
    const { parentId, id } = environment.info;
    return this.#environments.get(id) === environment && holder.environment.info.id === (parentId ?? id);
  }

  #withFilter(environment: Environment, filter: string | undefined): Found {
    if (filter === undefined) return { environment };
    const filtered = this.#filtered.get(environment.info.id)?.get(filter);
    if (filtered !== undefined) return { environment: filtered };
    if (!this.#certain) return { status: 503, text: TEXT.noEnvironmentsYet };
    return { status: 404, text: TEXT.unknownFilter };
  }

  /** Ends the streams of a key when it expires, not when somebody next asks. */
  #awaitExpiry(): void {
    this.#expiryTimer?.cancel();
    const nowMs = Date.now();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const { expiresMs } of this.#holders.server.values()) {
      if (expiresMs > nowMs && expiresMs < nextMs) nextMs = expiresMs;
    }
    if (nextMs === Number.POSITIVE_INFINITY) return;
    this.#expiryTimer = this.#options.clock.after(Math.min(nextMs - nowMs, TIMER_MS_MAX), () => {
      this.#options.onRevoked();
      // who was let in a moment ago, or is in the middle of a copy, has no place among the streams yet
      for (const ms of LOOK_AGAIN_MS) this.#options.clock.after(ms, () => this.#options.onRevoked());
      this.#awaitExpiry();
    });
  }

  #indexSoon(): void {
    if (this.#isStale) return;
    this.#isStale = true;
    queueMicrotask(() => this.#indexNow());
  }

  #indexNow(): void {
    if (!this.#isStale) return;
    this.#isStale = false;
    for (const audience of AUDIENCES) {
      for (const credential of this.#holders[audience].keys()) this.#unsettled[audience].add(credential);
      this.#holders[audience].clear();
    }
    this.#filtered.clear();
    for (const environment of this.#environments.values()) {
      const { filterKey, parentId } = environment.info;
      if (filterKey === undefined || parentId === undefined) this.#indexCredentials(environment);
      else {
        const filters = this.#filtered.get(parentId) ?? new Map<string, Environment>();
        filters.set(filterKey, environment);
        this.#filtered.set(parentId, filters);
      }
    }
    this.#awaitExpiry();
  }

  #indexCredentials(environment: Environment): void {
    const { sdkKeys, mobileKey, envId } = environment.info;
    for (const { value, expiresMs } of sdkKeys) this.#lead('server', value, { environment, expiresMs });
    if (mobileKey !== undefined) this.#lead('mobile', mobileKey, { environment });
    if (envId !== undefined) this.#lead('client', envId, { environment });
  }

  #lead(
    audience: Audience,
    credential: string,
    { environment, expiresMs }: { environment: Environment; expiresMs?: number | undefined },
  ): void {
    if (credential === '') return;
    this.#unsettled[audience].delete(credential);
    this.#holders[audience].set(credential, { environment, expiresMs: expiresMs ?? Number.POSITIVE_INFINITY });
  }
}

const AUDIENCES: readonly Audience[] = ['server', 'mobile', 'client'];

const LOOK_AGAIN_MS: readonly number[] = [1000, 5000];

/** A timer that is longer fires at once (setTimeout holds 31 bits). */
const TIMER_MS_MAX = 2 ** 31 - 1;
