import type { Clock, Timer } from '../kernel/index.ts';

/** Settings of a {@link Line}. */
export interface LineOptions {
  /** How many may be at it at a time. */
  readonly places: number;
  readonly clock: Clock;
}

/** How one joins a {@link Line}. */
export interface Joining {
  /** How long one counts for; it may go on, but keeps nobody waiting any more. */
  readonly msMax: number;
  /** Before all who are not. */
  readonly isAhead?: boolean;
}

/** One who waits, or has a place. */
export interface Place {
  /** Resolves when it is there, and when it was left before. Never rejects. */
  readonly turn: Promise<void>;
  /** Gives it back, or stops waiting for it. Doing that again does nothing. */
  leave(): void;
}

/** Lets some at a time in, in the order of arrival; those who are ahead before all others. */
export class Line {
  readonly #options: LineOptions;
  readonly #ahead = new Set<() => void>();
  readonly #others = new Set<() => void>();
  #taken = 0;

  constructor(options: LineOptions) {
    this.#options = options;
  }

  join({ msMax, isAhead = false }: Joining): Place {
    const { clock } = this.#options;
    const waiting = isAhead ? this.#ahead : this.#others;
    let timer: Timer | undefined;
    let enter: () => void = () => {};
    const turn = new Promise<void>((resolve) => (enter = resolve));
    const leave = (): void => {
      if (waiting.delete(admit)) enter();
      if (timer === undefined) return;
      timer.cancel();
      timer = undefined;
      this.#taken -= 1;
      this.#next();
    };
    const admit = (): void => {
      timer = clock.after(msMax, leave);
      enter();
    };
    waiting.add(admit);
    this.#next();
    return { turn, leave };
  }

  #next(): void {
    for (const waiting of [this.#ahead, this.#others]) {
      for (const admit of waiting) {
        if (this.#taken >= this.#options.places) return;
        waiting.delete(admit);
        this.#taken += 1;
        admit();
      }
    }
  }
}
