import { type Clock, HeadgateError, messageOf, type Timer } from '../kernel/index.ts';
import { Seal } from './autoconfig-seal.ts';

/** Where the cache is kept. */
export interface AutoConfigCacheOptions {
  /** Undefined when nothing was saved yet. */
  load(): Promise<Uint8Array | undefined>;
  /** In place of what was there, as a whole or not at all. */
  save(bytes: Uint8Array): Promise<void>;
  /** What the cache is encrypted with; any text that is not empty. */
  readonly encryptionKey: string;
}

/** Settings of an {@link AutoConfigCache}. */
interface CacheOptions {
  readonly store: AutoConfigCacheOptions;
  readonly clock: Clock;
  /** The cache cannot be read, or not be written; told once for as long as it lasts. */
  readonly failed: (error: HeadgateError) => void;
}

/** A change seldom comes alone. */
const SAVE_AFTER_MS = 1000;
const RETRY_AFTER_MS = 30_000;
/** How long a stop may wait for the store. */
const FLUSH_MS_MAX = 2000;

/** Keeps a text encrypted in a store: the latest one, soon after it came, one write at a time. */
export class AutoConfigCache {
  readonly #store: AutoConfigCacheOptions;
  readonly #clock: Clock;
  readonly #failed: (error: HeadgateError) => void;
  readonly #seal: Seal;
  #text: (() => string) | undefined;
  #saved: string | undefined;
  #timer: Timer | undefined;
  #saving: Promise<void> | undefined;
  #isFailing = false;
  #isStopped = false;

  constructor({ store, clock, failed }: CacheOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#failed = failed;
    this.#seal = new Seal(store.encryptionKey);
  }

  /** What was saved; undefined when there is nothing, or it cannot be used, which is told. Never rejects. */
  async load(): Promise<string | undefined> {
    try {
      const bytes = await this.#store.load();
      if (bytes === undefined) return undefined;
      const text = await this.#seal.open(bytes);
      this.#saved ??= text;
      return text;
    } catch (thrown) {
      if (!this.#isStopped) this.#failed(storeError('read', thrown));
      return undefined;
    }
  }

  /** Saves soon what `text` gives by then. */
  save(text: () => string): void {
    this.#text = text;
    this.#arm(SAVE_AFTER_MS);
  }

  /** Saves what waits, for no longer than a moment, and nothing more. Never rejects. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    let given: Timer | undefined;
    const over = new Promise<void>((resolve) => {
      given = this.#clock.after(FLUSH_MS_MAX, resolve);
    });
    await Promise.race([this.#flush(), over]);
    given?.cancel();
  }

  async #flush(): Promise<void> {
    await this.#saving;
    await this.#write();
  }

  #arm(afterMs: number): void {
    if (this.#timer !== undefined || this.#saving !== undefined || this.#isStopped) return;
    this.#timer = this.#clock.after(afterMs, () => {
      this.#timer = undefined;
      this.#saving = this.#write().then(() => {
        this.#saving = undefined;
        // something came meanwhile, or it failed
        if (this.#text !== undefined) this.#arm(this.#isFailing ? RETRY_AFTER_MS : SAVE_AFTER_MS);
      });
    });
  }

  async #write(): Promise<void> {
    const text = this.#text;
    if (text === undefined) return;
    this.#text = undefined;
    const now = text();
    if (now === this.#saved) return;
    try {
      await this.#store.save(await this.#seal.close(now));
      this.#saved = now;
      this.#isFailing = false;
    } catch (thrown) {
      // what is there now is not known
      this.#saved = undefined;
      this.#text ??= text;
      if (!this.#isFailing && !this.#isStopped) this.#failed(storeError('write', thrown));
      this.#isFailing = true;
    }
  }
}

function storeError(act: 'read' | 'write', thrown: unknown): HeadgateError {
  if (thrown instanceof HeadgateError) return thrown;
  return new HeadgateError('HG_STORE', `Cannot ${act} the cache of the automatic configuration: ${messageOf(thrown)}`, {
    cause: thrown,
  });
}
