/** Fewer handovers than this are no evidence, however small the limiter. */
const SAMPLES_MIN = 20;

/**
 * Slots that were taken together come free together. Two turns of all of them must have been seen before the rate
 * is believed, and about four are remembered, so that the middle of a wave is not taken for a change of pace.
 */
const TURNS_BELIEVED = 2;
const TURNS_REMEMBERED = 4;

/** What the herd of half a minute ago met says nothing about this one. */
const STALE_MS = 30_000;

/**
 * How fast callers leave the queue with a slot: an exponentially weighted mean over the last handovers.
 *
 * Only time during which somebody waits is measured. When nobody waits, slots come free as slowly as callers
 * arrive, and that rate would condemn the first herd after a quiet night.
 *
 * ```
 *   waiting  ──────────────┐         ┌────────────       rate = Σ weight · 1
 *   handover   |   |  |    |         |   | | |  |               ───────────────
 *   measured ══════════════            ══════════               Σ weight · interval
 * ```
 */
export class FreeRate {
  readonly #samplesMin: number;
  readonly #keep: number;
  #samples = 0;
  #weight = 0;
  #weightMs = 0;
  /** Time waited since the last handover, without the stretch that is still running. */
  #openMs = 0;
  #waitingSinceMs: number | undefined;
  #lastMs = 0;

  /** @param slots - how many slots there are: one turn. */
  constructor(slots: number) {
    this.#samplesMin = Math.max(SAMPLES_MIN, TURNS_BELIEVED * slots);
    this.#keep = 1 - 1 / Math.max(SAMPLES_MIN, TURNS_REMEMBERED * slots);
  }

  /** Somebody waits from now on. */
  begin(nowMs: number): void {
    this.#waitingSinceMs = nowMs;
  }

  /** Nobody waits any more. */
  end(nowMs: number): void {
    this.#openMs = this.#openUntil(nowMs);
    this.#waitingSinceMs = undefined;
  }

  /** One of those who wait was given a slot. */
  handedOver(nowMs: number): void {
    if (nowMs - this.#lastMs > STALE_MS) this.#samples = this.#weight = this.#weightMs = 0;
    this.#samples++;
    this.#weight = this.#weight * this.#keep + 1;
    this.#weightMs = this.#weightMs * this.#keep + this.#openUntil(nowMs);
    this.#openMs = 0;
    this.#waitingSinceMs = nowMs;
    this.#lastMs = nowMs;
  }

  /** Handovers per millisecond, or undefined when too little or nothing recent is known. A standstill counts. */
  perMs(nowMs: number): number | undefined {
    if (this.#samples < this.#samplesMin || nowMs - this.#lastMs > STALE_MS) return undefined;
    return this.#weight / (this.#weightMs + this.#openUntil(nowMs));
  }

  #openUntil(nowMs: number): number {
    return this.#openMs + (this.#waitingSinceMs === undefined ? 0 : nowMs - this.#waitingSinceMs);
  }
}
