import { FairTime, ProgressDeadline, type ProgressDeadlineOptions } from '../delivery/index.ts';
import type { Clock, Timer } from '../kernel/index.ts';
import type { Meter } from './meter.ts';

/** Why a response is cut. */
export type CutReason = 'stalled' | 'capped' | 'overdue';

/** How a watch looks. */
export interface WatchOptions {
  readonly clock: Clock;
  readonly sweepMs: number;
  readonly handlerMsMax: number;
  readonly nextTurn: (run: () => void) => void;
}

/**
 * One response under watch.
 *
 *   look ──────── look ──────── look        each look is taken for a write of what was taken since the look before it,
 *     │ 40 KiB      │ nothing     │          which waited for the reader as long as something did at that look
 *     └ waits       └ waits       └ cut?
 */
export class Watched {
  readonly #meter: Meter;
  readonly #deadline: ProgressDeadline;
  readonly #cut: (reason: CutReason) => void;
  #lookedAtMs: number;
  #waits = false;
  #taken = 0;
  #given = 0;
  /** Since when nothing was written and nothing waits for the client; a loop that is blocked is not the handler's silence. */
  #idleSinceMs: number;

  constructor(meter: Meter, deadline: ProgressDeadlineOptions, fairMs: number, cut: (reason: CutReason) => void) {
    this.#meter = meter;
    this.#deadline = new ProgressDeadline(deadline);
    this.#lookedAtMs = fairMs;
    this.#idleSinceMs = fairMs;
    this.#cut = cut;
  }

  /** Whether somebody else guards the reader, so that only the handler is watched; and whether it is the handler's turn. */
  delivering: undefined | (() => boolean);

  /** What is to be said about it now, if anything. */
  look(fairMs: number, handlerMsMax: number): CutReason | undefined {
    const waits = this.#meter.waits();
    const given = this.#meter.given();
    const isHandlersTurn = this.delivering === undefined ? !waits : this.delivering();
    if (!isHandlersTurn || given !== this.#given) this.#idleSinceMs = fairMs;
    this.#given = given;
    if (fairMs - this.#idleSinceMs > handlerMsMax) return 'overdue';
    return this.#lookAtReader(waits, fairMs);
  }

  cut(reason: CutReason): void {
    this.#cut(reason);
  }

  #lookAtReader(waits: boolean, fairMs: number): CutReason | undefined {
    const taken = this.#meter.taken();
    const isGuarded = this.delivering !== undefined;
    if (!isGuarded) {
      this.#deadline.wrote(taken - this.#taken, this.#waits ? this.#lookedAtMs : fairMs);
      this.#deadline.took(fairMs);
    }
    this.#taken = taken;
    this.#waits = waits && !isGuarded;
    this.#lookedAtMs = fairMs;
    if (!this.#waits) return undefined;
    this.#deadline.wrote(0, fairMs);
    const verdict = this.#deadline.verdict(fairMs);
    return verdict === 'fine' ? undefined : verdict;
  }
}

/** Looks at all responses under watch, four times a second, and cuts those whose reader or handler has stopped. */
export class Watch {
  readonly #options: WatchOptions;
  readonly #time: FairTime;
  readonly #all = new Set<Watched>();
  #timer: Timer | undefined;

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#time = new FairTime(options.clock, 2 * options.sweepMs);
  }

  add(meter: Meter, deadline: ProgressDeadlineOptions, cut: (reason: CutReason) => void): Watched {
    this.#arm();
    const watched = new Watched(meter, deadline, this.#time.now(), cut);
    this.#all.add(watched);
    return watched;
  }

  remove(watched: Watched): void {
    this.#all.delete(watched);
    if (this.#all.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm(): void {
    if (this.#timer !== undefined) return;
    this.#time.tick();
    this.#timer = this.#options.clock.after(this.#options.sweepMs, () => this.#sweep());
  }

  /** Timers run before the loop polls its sockets: who seems to have stopped is looked at again after one more poll. */
  #sweep(): void {
    this.#timer = undefined;
    this.#arm();
    const suspects = [...this.#all].filter((watched) => this.#look(watched) !== undefined);
    if (suspects.length === 0) return;
    const { nextTurn } = this.#options;
    nextTurn(() => nextTurn(() => this.#judge(suspects)));
  }

  #judge(suspects: readonly Watched[]): void {
    for (const watched of suspects) {
      if (!this.#all.has(watched)) continue;
      const reason = this.#look(watched);
      if (reason !== undefined) watched.cut(reason);
    }
  }

  #look(watched: Watched): CutReason | undefined {
    return watched.look(this.#time.now(), this.#options.handlerMsMax);
  }
}
