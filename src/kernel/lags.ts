/** Beyond so many changes a client is not just about to get them. */
const FEW_MAX = 10;

/**
 * How many clients miss how much: nothing, a few changes, or more.
 *
 * @example
 * const lags = new Lags();
 * for (const missed of [0, 0, 3, 200]) lags.add(missed);
 * console.log(lags.current, lags.few, lags.many); // 2 1 1
 */
export class Lags {
  /** They have everything. */
  current = 0;
  /** They miss 1 to 10 changes. */
  few = 0;
  /** They miss more, or all. */
  many = 0;

  /** Counts a client that misses so many changes; Infinity: all there is. */
  add(missed: number): void {
    if (missed <= 0) this.current++;
    else if (missed <= FEW_MAX) this.few++;
    else this.many++;
  }
}
