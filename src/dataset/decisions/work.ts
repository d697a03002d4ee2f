import { Slices } from '../../kernel/index.ts';
import { pagesEncoded } from '../encoded.ts';
import type { Meter } from './held.ts';

/**
 * Work that can be stopped after each step: done at once when it is short, in slices when it is long.
 *
 * @example
 * function* count(): Work<number> {
 *   for (let n = 0; n < 3; n++) yield;
 *   return 3;
 * }
 * console.log(doNow(count()), await doInSlices(count())); // 3 3
 */
export type Work<T> = Generator<void, T, void>;

/** So many rows take some tens of microseconds, far less than a slice. */
export const ROWS_PER_STEP = 256;

export function doNow<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

/** A slice is four milliseconds. */
export async function doInSlices<T>(work: Work<T>): Promise<T> {
  const slices = new Slices();
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
    if (slices.due()) await slices.pause();
  }
}

/** The same work, which makes known what pages it built, and for how long it had the loop. */
export function told<T>(work: Work<T>, meter: Meter): Work<T> {
  return pagesEncoded.isHeard ? timed(work, meter) : work;
}

function* timed<T>(work: Work<T>, meter: Meter): Work<T> {
  let ms = 0;
  let bytes = 0;
  for (;;) {
    const beganMs = performance.now();
    const before = meter.builtBytes ?? 0;
    const step = work.next();
    ms += performance.now() - beganMs;
    // other work may build pages between two steps
    bytes += (meter.builtBytes ?? 0) - before;
    if (step.done === true) {
      if (bytes > 0) pagesEncoded.publish(() => ({ data: 'decisions', encoding: 'identity', bytes, ms }));
      return step.value;
    }
    yield;
  }
}
