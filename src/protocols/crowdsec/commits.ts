import type { Clock } from '../../kernel/index.ts';
import type { DecisionLedger } from './deps.ts';
import { pickedUp } from './facts.ts';

/** So many of the last commits have their times kept: an hour's at one a second. 32 KiB. */
const COMMITS_MAX = 4096;

/** When the last commits of a ledger were, while somebody wants to know how long bouncers take to pick them up. */
export class Commits {
  readonly #clock: Clock;
  readonly #ledger: DecisionLedger;
  readonly #stop: () => void;
  /** By offset, modulo their number; made when it is first needed. */
  #atMs: Float64Array | undefined;
  /** Offsets in [first, last] have a time. */
  #first = 0;
  #last = -1;

  constructor(clock: Clock, ledger: DecisionLedger) {
    this.#clock = clock;
    this.#ledger = ledger;
    this.#stop = ledger.subscribe(() => this.#committed());
  }

  /** A bouncer has received what was committed after `from`. Nothing is told where that is not remembered. */
  received(from: number): void {
    const offset = from + 1;
    const times = this.#atMs;
    if (times === undefined || offset < this.#first || offset > this.#last) return;
    pickedUp.publish(() => ({ ms: this.#clock.now() - (times[offset % COMMITS_MAX] as number) }));
  }

  close(): void {
    this.#stop();
  }

  #committed(): void {
    if (!pickedUp.isHeard) return;
    const { offset } = this.#ledger;
    // sources report without a commit, too
    if (offset === this.#last) return;
    this.#atMs ??= new Float64Array(COMMITS_MAX);
    // commits that nobody listened to have no time
    if (offset !== this.#last + 1) this.#first = offset;
    this.#last = offset;
    this.#first = Math.max(this.#first, offset - COMMITS_MAX + 1);
    this.#atMs[offset % COMMITS_MAX] = this.#clock.now();
  }
}
