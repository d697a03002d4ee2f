import { RedisClient, type RedisOptions } from './redis-client.ts';

/**
 * The connections to one Redis that all environments of a process share: one for commands, one for what is published.
 *
 * @example
 * const options = { url: 'redis://127.0.0.1:1', clock: systemClock };
 * const link = new RedisLink(options);
 * const production = openRedisFlags({ ...options, link, prefix: 'production' });
 * const testing = openRedisFlags({ ...options, link, prefix: 'testing' });
 * console.log(production.status.dbServer === testing.status.dbServer); // true
 * await Promise.all([production.close(), testing.close()]);
 * link.close();
 */
export class RedisLink {
  readonly client: RedisClient;
  readonly #subscriber: RedisClient;
  readonly #listeners = new Map<string, Set<(message?: string) => void>>();

  /** @throws HeadgateError HG_OPTION for a URL that is none of Redis, HG_TLS for a file that cannot be read. */
  constructor(options: RedisOptions) {
    this.client = new RedisClient(options);
    this.#subscriber = new RedisClient(options);
    this.#subscriber.subscribe(
      () => this.#listeners.keys(),
      (channel, message) => {
        for (const listener of Array.from(this.#listeners.get(channel) ?? [])) listener(message);
      },
    );
    // what was published in between is lost: everybody looks again
    this.#subscriber.onChange((isReady) => {
      if (!isReady) return;
      for (const listeners of this.#listeners.values()) for (const listener of Array.from(listeners)) listener();
    });
  }

  /** Calls `listener` with what was published on a channel; without, when something may have been. The answer ends it. */
  watch(channel: string, listener: (message?: string) => void): () => void {
    const listeners = this.#listeners.get(channel) ?? new Set();
    this.#listeners.set(channel, listeners.add(listener));
    this.#subscriber.resubscribe();
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0 || this.#listeners.get(channel) !== listeners) return;
      this.#listeners.delete(channel);
      this.#subscriber.unsubscribe(channel);
    };
  }

  /** Lets go at once. Idempotent. */
  close(): void {
    this.client.close();
    this.#subscriber.close();
  }
}
