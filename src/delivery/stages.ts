import type { Clock } from '../kernel/index.ts';
import type { Source } from './delivery.ts';

/** How long a delivery took to get under way, and to be encoded, in milliseconds. */
export interface StageTimes {
  /** From the slot to the data: found, and held for this delivery. */
  readonly pinMs: number;
  /** From there to the first byte that could be sent: what had to be encoded before. */
  readonly prepareMs: number;
  /** All encoding, what was done while it was sent among it. Work that others did for the same pages costs nothing. */
  readonly encodeMs: number;
}

/**
 * The stages of one delivery under a slot, for whoever draws them.
 *
 *   slot ─► pin ─► prepare ─► send ………………………… last byte
 *                  └ encode ┘  └ encode ┘ └ encode ┘     page by page, while it is sent
 *
 * @example
 * const clock = new FakeClock();
 * const stages = new Stages(clock);
 * clock.advance(2);
 * stages.pinned();
 * clock.advance(5);
 * stages.source({ bytes: 0, next: () => undefined }).next();
 * console.log(stages.times()); // { pinMs: 2, prepareMs: 5, encodeMs: 5 }
 */
export class Stages {
  readonly #clock: Clock;
  readonly #slotAtMs: number;
  #pinnedAtMs: number | undefined;
  #sentFromMs: number | undefined;
  #encodedMs = 0;

  /** The slot has just been won. */
  constructor(clock: Clock) {
    this.#clock = clock;
    this.#slotAtMs = clock.now();
  }

  /** What is to be sent is held. */
  pinned(): void {
    this.#pinnedAtMs = this.#clock.now();
  }

  /** The same source, watched: sending begins now. */
  source(source: Source): Source {
    this.#sentFromMs = this.#clock.now();
    const clock = this.#clock;
    const done = (beganMs: number): void => {
      this.#encodedMs += clock.now() - beganMs;
    };
    return {
      get bytes() {
        return source.bytes;
      },
      next(bytesWanted) {
        const beganMs = clock.now();
        const pieces = source.next(bytesWanted);
        if (pieces === undefined || !('then' in pieces)) {
          done(beganMs);
          return pieces;
        }
        return pieces.finally(() => done(beganMs));
      },
    };
  }

  times(): StageTimes {
    const pinnedAtMs = this.#pinnedAtMs ?? this.#slotAtMs;
    const prepareMs = (this.#sentFromMs ?? pinnedAtMs) - pinnedAtMs;
    return { pinMs: pinnedAtMs - this.#slotAtMs, prepareMs, encodeMs: prepareMs + this.#encodedMs };
  }
}
