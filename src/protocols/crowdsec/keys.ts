import { Limiter } from '../../admission/index.ts';
import type { Clock } from '../../kernel/index.ts';
import { type Bouncer, KeyDigest, nameOf } from './credentials.ts';
import type { BouncerKey, SmallStore, Upstream } from './deps.ts';

/** `refused`: not a key of ours. `unchecked`: nobody can say now. */
export type KeyAnswer = Bouncer | 'refused' | 'unchecked';

/** How keys are judged. */
export interface KeysOptions {
  readonly clock: Clock;
  readonly wallNow: () => number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly configured: readonly BouncerKey[];
  /** Who is asked about keys that are not configured; none: nobody. */
  readonly upstreams: readonly Pick<Upstream, 'checkKey'>[];
  readonly store?: SmallStore;
  /** How long one answer is waited for, in milliseconds. */
  readonly waitMsMax: number;
  readonly onLearned: (bouncer: Bouncer) => void;
  readonly onDropped: (bouncer: Bouncer) => void;
}

/** The upstream answers 403 also when its database fails, so one refusal of a good key is no more than a doubt. */
const DOUBT_MS = 60_000;
/** How often a key that is in use is checked again. */
const RECHECK_MS = 600_000;
/** A refusal is not asked about again for so long: a bouncer that is set up now need not wait long for its key. */
const REFUSED_MS = 5000;
/** Refusals remembered, and good keys: the oldest makes room. Both are a few dozen bytes each. */
const REFUSED_MAX = 4096;
const GOOD_MAX = 50_000;
/** A key that the upstream vouched for and nobody has used since is asked about anew. */
const UNUSED_MS_MAX = 30 * 86_400_000;
/** A stored key says when it was last good, to the day. */
const SAVED_STALE_MS = 86_400_000;
/** Questions to the upstreams: at a time, waiting, at once after a start, and per second in the long run. */
const CHECKS_MAX = 8;
const CHECKS_WAITING_MAX = 2048;
const CHECKS_BURST = 2048;
const CHECKS_PER_SECOND = 20;

/** A key that an upstream has vouched for. */
interface GoodKey {
  readonly digest: KeyDigest;
  readonly bouncer: Bouncer;
  recheckAtMs: number;
  rechecking: boolean;
  /** When it was refused since it was last good. */
  doubtedMs: number | undefined;
  savedMs: number;
}

/**
 * Which keys may ask: those that are configured, and those that an upstream takes for good.
 *
 * Only digests are kept. A key that nobody has asked with yet costs the upstream one question, however many ask with it at
 * once; how many such questions there are is bounded, so a flood of made-up keys is refused here.
 */
export class Keys {
  readonly #options: KeysOptions;
  readonly #configured = new Map<string, { readonly digest: KeyDigest; readonly bouncer: Bouncer }>();
  readonly #good = new Map<string, GoodKey>();
  /** Until when, by prefix. */
  readonly #refused = new Map<string, number>();
  readonly #asking = new Map<string, Promise<KeyAnswer>>();
  readonly #checks: Limiter;
  #tokens = CHECKS_BURST;
  #tokensAtMs: number;

  constructor(options: KeysOptions) {
    this.#options = options;
    this.#tokensAtMs = options.clock.now();
    this.#checks = new Limiter({
      name: 'key checks',
      maxConcurrent: CHECKS_MAX,
      maxQueued: CHECKS_WAITING_MAX,
      waitMsMax: options.waitMsMax,
      earlyShed: false,
      clock: options.clock,
    });
    this.configure(options.configured);
    this.#restore();
  }

  /** Takes over the keys that are configured from here on. */
  configure(keys: readonly BouncerKey[]): void {
    this.#configured.clear();
    for (const { name, sha512 } of keys) {
      const digest = KeyDigest.parse(sha512);
      if (digest !== undefined) this.#configured.set(digest.prefix, { digest, bouncer: { id: digest.hex, name } });
    }
  }

  /** For `/status`. */
  get counts(): { configured: number; vouched: number; refusedLately: number; beingChecked: number } {
    return {
      configured: this.#configured.size,
      vouched: this.#good.size,
      refusedLately: this.#refused.size,
      beingChecked: this.#asking.size,
    };
  }

  /** What logs call the bouncer of this id. */
  nameOf(id: string): string {
    const digest = KeyDigest.parse(id);
    if (digest === undefined) return id;
    return this.#configured.get(digest.prefix)?.bouncer.name ?? nameOf(digest);
  }

  /** Whose key this is. */
  check(key: string): KeyAnswer | Promise<KeyAnswer> {
    if (key === '') return 'refused';
    const digest = KeyDigest.of(key);
    const { prefix } = digest;
    const configured = this.#configured.get(prefix);
    if (configured?.digest.equals(digest) === true) return configured.bouncer;
    if (this.#options.upstreams.length === 0) return 'refused';
    const good = this.#good.get(prefix);
    if (good?.digest.equals(digest) === true) {
      if (this.#options.clock.now() >= good.recheckAtMs && !good.rechecking) void this.#recheck(good, key);
      return good.bouncer;
    }
    if ((this.#refused.get(prefix) ?? 0) > this.#options.clock.now()) return 'refused';
    return this.#asking.get(prefix) ?? this.#ask(digest, key);
  }

  #ask(digest: KeyDigest, key: string): KeyAnswer | Promise<KeyAnswer> {
    if (!this.#takeToken()) return 'unchecked';
    const { prefix } = digest;
    const asking = this.#learn(digest, key).finally(() => this.#asking.delete(prefix));
    this.#asking.set(prefix, asking);
    return asking;
  }

  async #learn(digest: KeyDigest, key: string): Promise<KeyAnswer> {
    const verdict = await this.#askUpstreams(key);
    if (verdict === 'unreachable') return 'unchecked';
    if (verdict === 'refused') {
      this.#refuse(digest);
      return 'refused';
    }
    const good = this.#remember(digest, verdict.upstream);
    this.#save(good);
    this.#options.onLearned(good.bouncer);
    return good.bouncer;
  }

  /** In the background: whoever asks meanwhile is answered as before. */
  async #recheck(good: GoodKey, key: string): Promise<void> {
    good.rechecking = true;
    const verdict = await this.#askUpstreams(key);
    good.rechecking = false;
    const nowMs = this.#options.clock.now();
    if (verdict === 'unreachable') {
      good.recheckAtMs = nowMs + this.#spread(DOUBT_MS);
    } else if (verdict === 'refused') {
      good.recheckAtMs = nowMs + DOUBT_MS;
      if (good.doubtedMs === undefined) good.doubtedMs = nowMs;
      else if (nowMs - good.doubtedMs >= DOUBT_MS) this.#drop(good);
    } else {
      good.doubtedMs = undefined;
      good.recheckAtMs = nowMs + this.#spread(RECHECK_MS);
      if (this.#options.wallNow() - good.savedMs > SAVED_STALE_MS) this.#save(good);
    }
  }

  #drop(good: GoodKey): void {
    this.#forget(good);
    this.#refuse(good.digest);
    this.#options.onDropped(good.bouncer);
  }

  #forget(good: GoodKey): void {
    if (this.#good.get(good.digest.prefix) === good) this.#good.delete(good.digest.prefix);
    this.#options.store?.delete(good.digest.hex);
  }

  /** Good when one of them says so; refused only when all do. */
  async #askUpstreams(key: string): Promise<{ upstream: number } | 'refused' | 'unreachable'> {
    const answer = await this.#checks.acquire();
    if (!answer.admitted) return 'unreachable';
    using _slot = answer.slot;
    const verdicts = await Promise.all(this.#options.upstreams.map((upstream) => this.#askOne(upstream, key)));
    const upstream = verdicts.indexOf('good');
    if (upstream >= 0) return { upstream };
    return verdicts.every((verdict) => verdict === 'refused') ? 'refused' : 'unreachable';
  }

  #askOne(upstream: Pick<Upstream, 'checkKey'>, key: string): Promise<'good' | 'refused' | 'unreachable'> {
    return new Promise((resolve) => {
      const timer = this.#options.clock.after(this.#options.waitMsMax, () => resolve('unreachable'));
      const settle = (verdict: 'good' | 'refused' | 'unreachable'): void => {
        timer.cancel();
        resolve(verdict);
      };
      upstream.checkKey(key).then(settle, () => settle('unreachable'));
    });
  }

  #takeToken(): boolean {
    const nowMs = this.#options.clock.now();
    const earned = ((nowMs - this.#tokensAtMs) / 1000) * CHECKS_PER_SECOND;
    this.#tokens = Math.min(CHECKS_BURST, this.#tokens + earned);
    this.#tokensAtMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }

  #refuse({ prefix }: KeyDigest): void {
    const nowMs = this.#options.clock.now();
    for (const [other, untilMs] of this.#refused) {
      if (untilMs > nowMs && this.#refused.size < REFUSED_MAX) break;
      this.#refused.delete(other);
    }
    this.#refused.delete(prefix);
    this.#refused.set(prefix, nowMs + REFUSED_MS);
  }

  #remember(digest: KeyDigest, upstream: number): GoodKey {
    const oldest = this.#good.size >= GOOD_MAX ? this.#good.values().next().value : undefined;
    if (oldest !== undefined) this.#forget(oldest);
    const good: GoodKey = {
      digest,
      bouncer: { id: digest.hex, name: nameOf(digest), upstream },
      recheckAtMs: this.#options.clock.now() + this.#spread(RECHECK_MS),
      rechecking: false,
      doubtedMs: undefined,
      savedMs: 0,
    };
    this.#good.set(digest.prefix, good);
    return good;
  }

  /** So that bouncers that came together are not all checked together again. */
  #spread(ms: number): number {
    return ms * (0.75 + 0.5 * this.#options.random());
  }

  #save(good: GoodKey): void {
    good.savedMs = this.#options.wallNow();
    const value = JSON.stringify({ goodMs: good.savedMs, upstream: good.bouncer.upstream });
    this.#options.store?.set(good.digest.hex, Buffer.from(value));
  }

  #restore(): void {
    const { store, upstreams, wallNow, clock, random } = this.#options;
    if (store === undefined) return;
    const useless: string[] = [];
    for (const [key, value] of store.entries()) {
      const digest = KeyDigest.parse(key);
      const saved = savedOf(value);
      const isUseful = saved !== undefined && wallNow() - saved.goodMs <= UNUSED_MS_MAX;
      if (digest === undefined || !isUseful) {
        useless.push(key);
        continue;
      }
      const good = this.#remember(digest, Math.min(saved.upstream, Math.max(0, upstreams.length - 1)));
      good.savedMs = saved.goodMs;
      good.recheckAtMs = clock.now() + random() * RECHECK_MS;
    }
    for (const key of useless) store.delete(key);
  }
}

function savedOf(value: Uint8Array): { goodMs: number; upstream: number } | undefined {
  try {
    const { goodMs, upstream } = JSON.parse(Buffer.from(value).toString()) as Record<string, unknown>;
    return typeof goodMs === 'number' && Number.isSafeInteger(upstream) && (upstream as number) >= 0
      ? { goodMs, upstream: upstream as number }
      : undefined;
  } catch {
    // written by something else: the key is asked about anew
    return undefined;
  }
}
