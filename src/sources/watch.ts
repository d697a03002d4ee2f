import { type BigIntStats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { type Clock, HeadgateError, messageOf, type Timer } from '../kernel/index.ts';

/** Below this, looking at the files costs more than it tells; the vendor's relay has the same bound. */
export const INTERVAL_MS_MIN = 100;
/** A load that failed is tried again at growing intervals, up to this: the file may be readable again without looking changed. */
const RETRY_MS_MAX = 60_000;

/** What a watched load needs. */
export interface WatchOptions {
  readonly paths: readonly string[];
  readonly intervalMs: number;
  readonly clock: Clock;
  /** Whether a change is loaded only once the files look the same in two polls: for formats of which a part is valid too. */
  readonly settle: boolean;
  /** Loads; throws when it cannot. `forced` when asked for by hand. */
  load(forced: boolean): Promise<void>;
  /** Told after each load that did not fail. */
  loaded(): void;
  failed(error: HeadgateError): void;
}

/**
 * Runs a load whenever files look changed, one at a time, and again when it failed.
 *
 * Looking changed is a new modification time, size or inode: so a file that was replaced by rename is seen, and one that
 * keeps its time and size (unlikely at nanoseconds) is not.
 *
 * @example
 * import { readFile } from 'node:fs/promises';
 *
 * const watch = new Watch({
 *   paths: ['package.json'],
 *   intervalMs: 1000,
 *   clock: systemClock,
 *   settle: true,
 *   load: async () => console.log((await readFile('package.json')).length > 0), // true
 *   loaded: () => {},
 *   failed: ({ message }) => console.error(message),
 * });
 * await watch.start();
 * await watch.stop();
 */
export class Watch {
  readonly #options: WatchOptions;
  #timer: Timer | undefined;
  #stopped = false;
  /** The last of the turns; each begins when the one before has ended, so loads never overlap. */
  #turns: Promise<void> = Promise.resolve();
  /** How the files looked when they were last loaded or tried. */
  #tried: string | undefined;
  #lookedLast: string | undefined;
  #failure: string | undefined;
  #retryAtMs = 0;
  #retryMs = 0;

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#retryMs = options.intervalMs;
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /** Loads, then looks every `intervalMs`. Does nothing when called again. */
  start(): Promise<void> {
    return this.#turn(async () => {
      if (this.#timer !== undefined) return;
      await this.#attempt(await this.#look(), false);
      this.#arm();
    });
  }

  /** Looks no more; resolves when a load in progress has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#turns;
  }

  /** Loads now. */
  reload(): Promise<void> {
    return this.#turn(async () => this.#attempt(await this.#look(), true));
  }

  #turn(run: () => Promise<void>): Promise<void> {
    this.#turns = this.#turns.then(async () => {
      if (!this.#stopped) await run();
    });
    return this.#turns;
  }

  #arm(): void {
    if (this.#stopped) return;
    this.#timer = this.#options.clock.after(this.#options.intervalMs, () => {
      void this.#turn(async () => {
        await this.#poll();
        this.#arm();
      });
    });
  }

  async #poll(): Promise<void> {
    const looks = await this.#look();
    const settled = !this.#options.settle || looks === this.#lookedLast;
    this.#lookedLast = looks;
    const changed = looks !== this.#tried;
    const retry = this.#failure !== undefined && this.#options.clock.now() >= this.#retryAtMs;
    if ((changed && settled) || retry) await this.#attempt(looks, false);
  }

  async #attempt(looks: string, forced: boolean): Promise<void> {
    if (looks !== this.#tried) this.#retryMs = this.#options.intervalMs;
    this.#tried = looks;
    this.#lookedLast = looks;
    try {
      await this.#options.load(forced);
      this.#failure = undefined;
      if (!this.#stopped) this.#options.loaded();
    } catch (thrown) {
      this.#retryAtMs = this.#options.clock.now() + this.#retryMs;
      this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX);
      this.#tell(thrown);
    }
  }

  #tell(thrown: unknown): void {
    const error =
      thrown instanceof HeadgateError
        ? thrown
        : new HeadgateError('HG_SOURCE', `Cannot load ${this.#options.paths.join(', ')}: ${messageOf(thrown)}`, {
            cause: thrown,
          });
    const known = error.message === this.#failure;
    this.#failure = error.message;
    if (!known && !this.#stopped) this.#options.failed(error);
  }

  async #look(): Promise<string> {
    const looks = await Promise.all(
      this.#options.paths.map(async (path) => {
        const stats = await stat(path, { bigint: true }).catch(() => undefined);
        return stats === undefined ? 'missing' : looksOf(stats);
      }),
    );
    return looks.join('|');
  }
}

/** What changes about a file when its content does. */
export function looksOf(stats: BigIntStats): string {
  return `${stats.mtimeNs}:${stats.size}:${stats.ino}`;
}
