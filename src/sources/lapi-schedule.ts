/** What to ask the local API for next, and when. */
export interface Next {
  readonly kind: 'full' | 'delta';
  /** By the clock that the schedule is told the time by. */
  readonly atMs: number;
  /** Why everything is asked for; '' for a delta. */
  readonly why: string;
}

/** Settings of a {@link Schedule}. */
export interface ScheduleOptions {
  readonly intervalMs: number;
  readonly resyncMs: number;
  /** From 0 to 1. */
  readonly random: () => number;
}

/** From here on a delta is a bulk import, of which the cursor of a local API may have lost a part. */
const BULK_ROWS_MIN = 1000;
/** A transaction that was under way during the first resync is over by then. */
const ONCE_MORE_MS = 60_000;
/** Unknown deletions may be ordinary, of what came and went between two polls: they ask for no pull sooner after the last. */
const UNKNOWN_PAUSE_MS = 60_000;
const RETRY_MS_MIN = 1000;
const RETRY_MS_MAX = 60_000;
/** A refused key is a matter for a person; but a local API whose database fails refuses good keys, so once soon. */
const REFUSED_MS_FIRST = 5000;
const CONFIRM_MS_MIN = 5000;
/** Without a good answer for this long, deletions may have been flushed that nobody told us of. */
const GAP_MS_MIN = 300_000;
const GAP_INTERVALS = 5;
const NEVER = Number.POSITIVE_INFINITY;

/**
 * When to ask for changes and when for everything: at first, every so often, and after each doubt that the changes
 * were all of them. Pure: it is told what happened and when, and says what is next.
 *
 * ```
 *            full ──ok──► deltas ──ok──► deltas ... ──► full (every resyncMs, jittered)
 *              ▲            │
 *              │            ├─ failed, cut, a gap ───────► full, after a growing pause
 *              │            ├─ 1,000 rows or more ───────► when they are fewer again: full, and full once more
 *              └─ doubted ◄─┴─ deletes what is unknown ──► full, once a minute at most
 * ```
 */
export class Schedule {
  readonly #options: ScheduleOptions;
  #deltaAtMs = 0;
  #fullAtMs = 0;
  #why = 'start';
  /** Nothing is asked before this: the pause after a failure. */
  #notBeforeMs = 0;
  #failures = 0;
  #doubts = 0;
  /** A second short answer confirms the first, so not sooner than this, whatever is wanted meanwhile: the same failure would. */
  #confirmAtMs = 0;
  #goodAtMs: number | undefined;
  #fullDoneAtMs = -NEVER;
  #bulk = false;
  #onceMore = false;
  /** What was demanded since the last full answer was asked for, which does not hold it. */
  #demanded: string | undefined;

  constructor(options: ScheduleOptions) {
    this.#options = options;
  }

  /** How many attempts have failed since the last good answer. */
  get failures(): number {
    return this.#failures;
  }

  /** What is next, at `nowMs` or later. */
  next(nowMs: number): Next {
    this.#noticeGap(nowMs);
    const atMs = Math.max(this.#notBeforeMs, Math.min(this.#deltaAtMs, this.#fullAtMs));
    if (this.#fullAtMs <= Math.max(atMs, nowMs)) return { kind: 'full', atMs, why: this.#why };
    return { kind: 'delta', atMs, why: '' };
  }

  /** Everything is wanted as soon as may be. */
  demand(nowMs: number, why: string): void {
    this.#demanded = why;
    this.#wantFull(nowMs, why);
  }

  /** A full answer is asked for now. */
  fullBegins(): void {
    this.#demanded = undefined;
  }

  /** A full answer was taken over. */
  fullDone(nowMs: number): void {
    this.#good(nowMs);
    this.#doubts = 0;
    this.#fullDoneAtMs = nowMs;
    this.#fullAtMs = nowMs + this.#options.resyncMs * (0.9 + 0.2 * this.#options.random());
    this.#why = 'as planned';
    if (this.#onceMore) this.#wantFull(nowMs + this.#spread(ONCE_MORE_MS), 'once more after a bulk import');
    this.#onceMore = false;
    if (this.#demanded !== undefined) this.#wantFull(nowMs, this.#demanded);
  }

  /** A delta was taken over. */
  deltaDone(nowMs: number, delta: { readonly rows: number; readonly unknown: number }): void {
    this.#good(nowMs);
    if (delta.rows >= BULK_ROWS_MIN) this.#bulk = true;
    else if (this.#bulk) this.#calmed(nowMs);
    if (delta.unknown === 0) return;
    this.#wantFull(Math.max(nowMs, this.#fullDoneAtMs + UNKNOWN_PAUSE_MS), 'a deletion of what was never told');
  }

  /** A delta was too long to be kept in memory, and given up for a full answer. */
  deltaTooLong(nowMs: number): void {
    this.#good(nowMs);
    this.#bulk = true;
    this.#wantFull(nowMs, 'a bulk import');
  }

  /** A full answer was not believed; answers how long until it is asked for again. */
  doubted(nowMs: number): number {
    this.#good(nowMs);
    this.#doubts += 1;
    const waitMs = Math.min(RETRY_MS_MAX, CONFIRM_MS_MIN * 2 ** (this.#doubts - 1)) * (1 + this.#options.random());
    this.#confirmAtMs = nowMs + waitMs;
    this.#fullAtMs = this.#confirmAtMs;
    this.#why = 'to confirm a short answer';
    return waitMs;
  }

  /** An attempt failed; answers how long until the next, which asks for everything: what the lost answer held is not told twice. */
  failed(nowMs: number, failure: { readonly refused: boolean; readonly retryAfterMs: number }): number {
    this.#failures += 1;
    let pauseMs = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** Math.min(this.#failures, 10));
    if (failure.refused) pauseMs = this.#failures === 1 ? REFUSED_MS_FIRST : RETRY_MS_MAX;
    const waitMs = Math.max(this.#spread(pauseMs), Math.min(failure.retryAfterMs, RETRY_MS_MAX));
    this.#notBeforeMs = nowMs + waitMs;
    this.#wantFull(nowMs, 'an answer was lost');
    return waitMs;
  }

  #good(nowMs: number): void {
    this.#failures = 0;
    this.#notBeforeMs = 0;
    this.#goodAtMs = nowMs;
    this.#deltaAtMs = nowMs + this.#options.intervalMs;
  }

  #calmed(nowMs: number): void {
    this.#bulk = false;
    this.#onceMore = true;
    this.#wantFull(nowMs, 'a bulk import');
  }

  #noticeGap(nowMs: number): void {
    const gapMs = Math.max(GAP_MS_MIN, GAP_INTERVALS * this.#options.intervalMs);
    if (this.#goodAtMs !== undefined && nowMs - this.#goodAtMs > gapMs) this.#wantFull(nowMs, 'a gap');
  }

  /** The earlier of two wishes counts, with its reason. */
  #wantFull(wantedAtMs: number, why: string): void {
    const atMs = Math.max(wantedAtMs, this.#confirmAtMs);
    if (atMs >= this.#fullAtMs) return;
    this.#fullAtMs = atMs;
    this.#why = why;
  }

  /** From half of it to all of it, so that replicas do not come back together. */
  #spread(ms: number): number {
    return ms * (0.5 + 0.5 * this.#options.random());
  }
}
