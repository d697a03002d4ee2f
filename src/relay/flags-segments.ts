import type { Timer } from '../kernel/index.ts';
import type { BigSegmentsState, Environment } from '../protocols/launchdarkly/index.ts';
import type { BigSegmentStore } from '../stores/index.ts';
import type { Shared } from './service.ts';

/** How often a database is asked how fresh its big segments are: whoever syncs them says so every 30 s. */
const LOOK_MS = 10_000;

/** Big segments of one environment: who is in them, and how fresh that is. */
export class BigSegments {
  readonly store: BigSegmentStore;
  readonly #shared: Shared;
  #timer: Timer | undefined;
  /** When they were last known to be up to date, Unix time in milliseconds. */
  #updatedMs: number | undefined;
  #isAvailable = true;

  constructor(shared: Shared, store: BigSegmentStore) {
    this.#shared = shared;
    this.store = store;
    this.#look();
  }

  /** Undefined: nobody has ever put any there. */
  state(): BigSegmentsState | undefined {
    const updatedMs = this.#updatedMs;
    if (updatedMs === undefined) return undefined;
    const { staleThresholdMs } = this.#shared.config.flags.bigSegments;
    const isStale = Date.now() - updatedMs > staleThresholdMs;
    return { available: this.#isAvailable, potentiallyStale: isStale, lastSynchronizedOn: updatedMs };
  }

  /** Writes what is known into an environment, for its status. */
  tell(environment: Environment): void {
    environment.bigSegments = this.state();
  }

  async close(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    await this.store.close();
  }

  #look(): void {
    this.#timer = this.#shared.clock.after(LOOK_MS, () => this.#look());
    this.store.updatedMs().then(
      (updatedMs) => {
        this.#isAvailable = true;
        this.#updatedMs = updatedMs ?? this.#updatedMs;
      },
      // said elsewhere, once for the whole database
      () => (this.#isAvailable = false),
    );
  }
}
