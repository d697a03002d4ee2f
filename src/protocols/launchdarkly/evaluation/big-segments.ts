import { createHash } from 'node:crypto';
import type { Clock } from '../../../kernel/index.ts';
import type { BigSegmentStore, KnownMembership, KnownMemberships } from './types.ts';

/** The vendor's SDKs ask again after as long. */
const KNOWN_MS = 5000;
const MEMBERSHIPS_MAX = 10_000;
/** A store that does not answer must not hold up evaluations for longer. */
const ANSWER_MS_MAX = 5000;

/** What memberships need from outside. */
export interface MembershipsOptions {
  readonly store: BigSegmentStore;
  readonly clock: Clock;
  readonly staleMs: number;
  readonly unixNow: () => number;
  /** Told when the store begins to fail, once until it works again. */
  readonly onFailure: (error: unknown) => void;
}

type Membership = Readonly<Record<string, boolean>> | undefined;

/** Something that was asked for, and when; undefined within says that the store failed. */
interface Asked<T> {
  readonly atMs: number;
  readonly answer: Promise<{ readonly value: T } | undefined>;
}

/** What one environment's store of big segments says, remembered for five seconds, failures included. */
export class Memberships {
  readonly #options: MembershipsOptions;
  readonly #asked = new Map<string, Asked<Membership>>();
  #updated: Asked<number | undefined> | undefined;
  #failing = false;

  constructor(options: MembershipsOptions) {
    this.#options = options;
  }

  /** What is known of contexts by their keys. Never rejects: a store that fails is a status. */
  async of(contextKeys: readonly string[]): Promise<KnownMemberships> {
    if (contextKeys.length === 0) return new Map();
    const { staleMs, unixNow } = this.#options;
    const known = contextKeys.map(async (key): Promise<[string, KnownMembership]> => {
      const [membership, updated] = await Promise.all([this.#membership(key), this.#updatedMs()]);
      if (membership === undefined) return [key, { membership: null, status: 'STORE_ERROR' }];
      if (updated === undefined) return [key, { membership: membership.value ?? null, status: 'STORE_ERROR' }];
      const stale = updated.value === undefined || unixNow() - updated.value >= staleMs;
      return [key, { membership: membership.value ?? null, status: stale ? 'STALE' : 'HEALTHY' }];
    });
    return new Map(await Promise.all(known));
  }

  #membership(contextKey: string): Asked<Membership>['answer'] {
    const asked = this.#asked.get(contextKey);
    if (asked !== undefined && this.#isFresh(asked)) return asked.answer;
    const hash = createHash('sha256').update(contextKey).digest('base64');
    const fresh = this.#ask(() => this.#options.store.membership(hash));
    // a key that is set again moves to the end, so that the first one is the oldest
    this.#asked.delete(contextKey);
    this.#asked.set(contextKey, fresh);
    const oldest = this.#asked.keys().next();
    if (this.#asked.size > MEMBERSHIPS_MAX && oldest.done !== true) this.#asked.delete(oldest.value);
    return fresh.answer;
  }

  #updatedMs(): Asked<number | undefined>['answer'] {
    if (this.#updated === undefined || !this.#isFresh(this.#updated)) {
      this.#updated = this.#ask(() => this.#options.store.updatedMs());
    }
    return this.#updated.answer;
  }

  #isFresh({ atMs }: { readonly atMs: number }): boolean {
    return this.#options.clock.now() - atMs < KNOWN_MS;
  }

  #ask<T>(ask: () => Promise<T>): Asked<T> {
    return { atMs: this.#options.clock.now(), answer: this.#guarded(ask) };
  }

  async #guarded<T>(ask: () => Promise<T>): Promise<{ readonly value: T } | undefined> {
    try {
      const value = await this.#inTime(ask());
      this.#failing = false;
      return { value };
    } catch (thrown) {
      if (!this.#failing) this.#options.onFailure(thrown);
      this.#failing = true;
      return undefined;
    }
  }

  #inTime<T>(answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const late = (): void => reject(new Error(`the store of big segments gave no answer for ${ANSWER_MS_MAX} ms`));
      const timer = this.#options.clock.after(ANSWER_MS_MAX, late);
      void answer.then(resolve, reject).finally(() => timer.cancel());
    });
  }
}

/** A short text that is the same as long as nothing changes of these contexts; empty when there are none. */
export function revisionOf(memberships: KnownMemberships, contextKeys: readonly string[]): string {
  if (contextKeys.length === 0) return '';
  const known = contextKeys.toSorted().map((key) => {
    const { status, membership } = memberships.get(key)!;
    return [key, status, Object.entries(membership ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1))];
  });
  return createHash('sha256').update(JSON.stringify(known)).digest('hex').slice(0, 16);
}
