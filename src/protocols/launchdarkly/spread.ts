import type { Clock } from '../../kernel/index.ts';

/** A second of a herd that comes back is served in tens of steps; more timers gain nothing. */
const STEP_MS = 50;
/** Streams that end together: below it their reconnects are no herd. */
const AT_ONCE = 20;
/** How many end per second beyond that, so that as many reconnects are met. */
const PER_SECOND = 500;
const OVER_MS_MAX = 30_000;

/**
 * Acts on each of them, evenly over a time that grows with their number: clients whose streams end come back at once, and
 * a fleet must not do so in one second.
 */
export function spread<T>(clock: Clock, all: readonly T[], act: (one: T) => void): void {
  const overMs = Math.min(OVER_MS_MAX, (Math.max(0, all.length - AT_ONCE) / PER_SECOND) * 1000);
  const steps = Math.max(1, Math.ceil(overMs / STEP_MS));
  let done = 0;
  const step = (number: number): void => {
    const until = Math.ceil((all.length * number) / steps);
    for (; done < until; done++) act(all[done] as T);
    if (number < steps) clock.after(STEP_MS, () => step(number + 1));
  };
  step(1);
}
