import type { LapiClient } from './lapi-client.ts';

/** What a local API says of a key. */
export type KeyVerdict = 'good' | 'refused' | 'unreachable';

/** How many keys are asked about at once, each over a connection of its own. */
export const KEY_SOCKETS_MAX = 4;
/** How many more wait. Keys that are asked about come from anybody who can reach us. */
const WAITING_MAX = 64;
/** A client that comes with a new key waits for this. */
const ANSWER_MS_MAX = 10_000;

/**
 * Asks the local API about keys that clients came with, through a pool of its own. A HEAD tells of the key alone: it
 * moves no cursor and makes no bouncer known.
 */
export class KeyChecks {
  readonly #client: LapiClient;
  readonly #userAgent: string;
  /** By key: several clients that come with one key at once share the question. */
  readonly #pending = new Map<string, Promise<KeyVerdict>>();

  constructor(client: LapiClient, userAgent: string) {
    this.#client = client;
    this.#userAgent = userAgent;
  }

  /** Never rejects. `unreachable`: there is no telling now. */
  check(key: string): Promise<KeyVerdict> {
    const pending = this.#pending.get(key);
    if (pending !== undefined) return pending;
    if (this.#pending.size >= KEY_SOCKETS_MAX + WAITING_MAX) return Promise.resolve('unreachable');
    const verdict = this.#ask(key).finally(() => this.#pending.delete(key));
    this.#pending.set(key, verdict);
    return verdict;
  }

  async #ask(key: string): Promise<KeyVerdict> {
    try {
      const { status, body } = await this.#client.request({
        method: 'HEAD',
        target: '/v1/decisions/stream',
        headers: { 'user-agent': this.#userAgent, 'x-api-key': key },
        decode: false,
        totalMsMax: ANSWER_MS_MAX,
      });
      for await (const _ of body);
      return status === 200 ? 'good' : status === 403 ? 'refused' : 'unreachable';
    } catch {
      return 'unreachable';
    }
  }
}
