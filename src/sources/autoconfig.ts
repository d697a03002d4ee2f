import { type Clock, HeadgateError, messageOf, type Timer } from '../kernel/index.ts';
import { type Outbound, urlUnder } from '../outbound/index.ts';
import { AutoConfigCache, type AutoConfigCacheOptions } from './autoconfig-cache.ts';
import { Loop } from './autoconfig-loop.ts';
import type { AutoConfigEnvironment } from './autoconfig-state.ts';
import type { UpstreamStatus } from './upstream-types.ts';
import { type AutoConfigOrigin, Teller } from './autoconfig-teller.ts';

export type { AutoConfigCacheOptions } from './autoconfig-cache.ts';
export type { AutoConfigEnvironment } from './autoconfig-state.ts';
export { autoConfigTold, type AutoConfigOrigin } from './autoconfig-teller.ts';

/**
 * What an automatic configuration tells.
 *
 * What one message of upstream changes is told in one turn of the event loop: removals first, then each environment that lost
 * a key before the one that has it now. So a listener that takes each call over at once never drops a key that
 * has another owner by then, and no client comes in between, when a key has none. An environment may be told without
 * being changed: when another one let a key go that both had, or when keys went round in a circle and it had to be told before
 * its key was free.
 */
export interface AutoConfigListener {
  /** An environment is new, or its description or the filters of its project changed. */
  upsert(environment: AutoConfigEnvironment): void;
  /** An environment is gone. Only upstream's word does that, never the cache. */
  remove(envId: string): void;
  /** All that there is has been told: from the cache at most once, from upstream each time that it says so. */
  complete(from: AutoConfigOrigin): void;
  /**
   * Something went wrong; what was told before stays. Told once for as long as the cause stays the same.
   *
   * HG_UPSTREAM: the connection, or a description that cannot be read; HG_STORE: the cache. Fatal: upstream refuses the key
   * (401, 403); it is asked again, but rarely.
   */
  failed(error: HeadgateError, fatal: boolean): void;
  status(status: UpstreamStatus): void;
}

/** Settings of {@link openAutoConfig}. */
export interface AutoConfigOptions {
  /** `http://` or `https://`, with the path that comes before `/relay_auto_config`, if any. */
  readonly streamUri: string;
  readonly key: string;
  readonly outbound: Outbound;
  readonly clock: Clock;
  /** From 0 to below 1. */
  readonly random?: () => number;
  /** Unix time in milliseconds. */
  readonly wallNow?: () => number;
  /** Where the configuration is kept for a start without upstream; not given: nowhere. */
  readonly cache?: AutoConfigCacheOptions;
  readonly listener: AutoConfigListener;
}

/** An automatic configuration that is followed. */
export interface AutoConfig {
  /** Begins. Resolves when a configuration was told, from wherever, or the first attempt to get one failed; never rejects. */
  start(): Promise<void>;
  /** Ends what is under way and saves what waits to be saved. The listener is not called any more once the promise has resolved. */
  stop(): Promise<void>;
  /** Connects anew, now, be the key refused or not. */
  reconnect(): void;
}

/** A store that is slower than this must not keep us from asking upstream. */
const CACHE_MS_MAX = 2000;
/** What a header may hold (RFC 9110 section 5.5). */
const FIELD_VALUE = /^[\x21-\x7e]+$/;

/**
 * Follows the automatic configuration of a relay: which environments there are, their keys, and the payload filters of their
 * projects, as upstream tells them on a stream.
 *
 * With a cache, what was known last is told at once, and then compared with what upstream says. The cache
 * holds keys, so it is encrypted; one that cannot be used is told, ignored, and replaced only once upstream has told everything.
 * It is saved about a second after a change.
 *
 * A lost connection comes back after 1 s, then after twice the last wait, up to 30 s, each shortened by chance; one whose
 * key is refused after 1 min up to 1 h.
 *
 * Throws HG_OPTION on settings that cannot be used.
 *
 * @example
 * ```ts no-run
 * async function follow(outbound: AutoConfigOptions['outbound']): Promise<AutoConfig> {
 *   const autoConfig = openAutoConfig({
 *     streamUri: 'https://stream.example', key: 'rel-the-key', outbound, clock: systemClock,
 *     listener: {
 *       upsert: ({ envId, filterKeys }) => console.log('there', envId, filterKeys),
 *       remove: (envId) => console.log('gone', envId),
 *       complete: (from) => console.log('all of it, from', from),
 *       failed: ({ message }) => console.log(message),
 *       status: ({ state }) => console.log(state),
 *     },
 *   });
 *   await autoConfig.start();
 *   return autoConfig;
 * }
 * ```
 */
export function openAutoConfig(options: AutoConfigOptions): AutoConfig {
  return new FollowedConfig(options);
}

class FollowedConfig implements AutoConfig {
  readonly #clock: Clock;
  readonly #listener: AutoConfigListener;
  readonly #cache: AutoConfigCache | undefined;
  readonly #teller: Teller;
  readonly #loop: Loop;
  readonly #settled: Promise<void>;
  #settle: () => void = () => {};
  readonly #stopping: Promise<void>;
  #stop: () => void = () => {};
  #isStarted = false;
  #isStopped = false;

  constructor(options: AutoConfigOptions) {
    const { clock, listener, cache } = options;
    const url = checked(options);
    this.#clock = clock;
    this.#listener = listener;
    this.#settled = new Promise((resolve) => (this.#settle = resolve));
    this.#stopping = new Promise((resolve) => (this.#stop = resolve));
    const failed = (error: HeadgateError): void => this.#failed(error, false);
    this.#cache = cache === undefined ? undefined : new AutoConfigCache({ store: cache, clock, failed });
    this.#teller = new Teller({
      upsert: (environment) => listener.upsert(environment),
      remove: (envId) => listener.remove(envId),
      complete: (from) => {
        listener.complete(from);
        this.#settle();
      },
      failed,
      save: (text) => this.#cache?.save(text),
    });
    this.#loop = new Loop({
      url,
      key: options.key,
      outbound: options.outbound,
      clock,
      wallNow: options.wallNow ?? Date.now,
      random: options.random ?? Math.random,
      take: (message) => this.#teller.take(message),
      failed: (error, fatal) => {
        this.#failed(error, fatal);
        this.#settle();
      },
      status: (status) => listener.status(status),
    });
  }

  start(): Promise<void> {
    if (!this.#isStarted && !this.#isStopped) this.#loop.start(this.#restore());
    this.#isStarted = true;
    return this.#settled;
  }

  async stop(): Promise<void> {
    const stopped = this.#loop.stop();
    this.#isStopped = true;
    this.#stop();
    await stopped;
    await this.#cache?.stop();
    this.#settle();
  }

  reconnect(): void {
    this.#loop.reconnect();
  }

  /** Resolves when the cache was told, there is nothing to tell, or it takes too long: then it is told when it comes. */
  async #restore(): Promise<void> {
    if (this.#cache === undefined) return;
    const loaded = this.#tellCached(this.#cache);
    let timer: Timer | undefined;
    const late = new Promise<void>((resolve) => {
      timer = this.#clock.after(CACHE_MS_MAX, resolve);
    });
    await Promise.race([loaded, late, this.#stopping]);
    timer?.cancel();
  }

  async #tellCached(cache: AutoConfigCache): Promise<void> {
    const text = await cache.load();
    if (text === undefined || this.#isStopped) return;
    try {
      this.#teller.restore(text);
    } catch (thrown) {
      // a listener that fails must not keep us from asking upstream, which tells it again
      const message = `Cannot take over the cache of the automatic configuration: ${messageOf(thrown)}`;
      this.#failed(new HeadgateError('HG_STORE', message, { cause: thrown }), false);
    }
  }

  #failed(error: HeadgateError, fatal: boolean): void {
    if (!this.#isStopped) this.#listener.failed(error, fatal);
  }
}

function checked({ streamUri, key, cache }: AutoConfigOptions): URL {
  const refuse = (cause: string): never => {
    throw new HeadgateError('HG_OPTION', `Cannot follow the automatic configuration: ${cause}`);
  };
  // the key itself is not shown: messages end up in logs
  if (!FIELD_VALUE.test(key))
    refuse(`its key must be printable ASCII without spaces, got one of ${key.length} characters`);
  if (cache?.encryptionKey === '') refuse('the encryption key of its cache must be a text, got an empty one');
  return urlUnder(streamUri, '/relay_auto_config?rpacProtocolVersion=2');
}
