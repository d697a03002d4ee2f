/** A timer that can be called off. */
export interface Timer {
  /** Calls the timer off. Does nothing when it has fired or was called off before. */
  cancel(): void;
}

/**
 * Monotonic time and timers, as an argument.
 *
 * Rooms that must be pure take a clock instead of reading the machine's, so a test can drive an hour in a
 * microsecond and a timer never fires between two lines of a test.
 */
export interface Clock {
  /** Milliseconds since an arbitrary origin; never goes back, has fractions. */
  now(): number;
  /** Calls `run` once, `delayMs` milliseconds from now at the earliest. Does not keep the process alive. */
  after(delayMs: number, run: () => void): Timer;
}

/** Node caps a timer at 2^31-1 ms and fires anything longer at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * The machine's monotonic clock.
 *
 * @example
 * const begin = systemClock.now();
 * const timer = systemClock.after(1000, () => console.log('a second later'));
 * timer.cancel();
 * console.log(systemClock.now() >= begin); // true
 */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(delayMs, run) {
    const timer = setTimeout(run, Math.min(delayMs, TIMER_MS_MAX));
    timer.unref();
    return { cancel: () => clearTimeout(timer) };
  },
};
