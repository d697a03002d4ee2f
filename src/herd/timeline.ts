/** What is counted over time. */
export const SERIES = ['arrived', 'whole', 'refused', 'cut', 'bytes'] as const;

/** One of {@link SERIES}. */
export type Series = (typeof SERIES)[number];

/** What happened in each stretch of time, from the start. */
export interface TimelineReport extends Readonly<Record<Series, readonly number[]>> {
  /** How long each stretch is. */
  readonly everyMs: number;
}

const EVERY_MS = 100;
/** A plot has no more points across; when there are more, each two become one. */
const STRETCHES_MAX = 600;

/** Counts over time, in as many stretches as a plot shows, however long it goes on. */
export class Timeline {
  #everyMs = EVERY_MS;
  readonly #counts: Record<Series, number[]> = { arrived: [], whole: [], refused: [], cut: [], bytes: [] };

  /** @param atMs - since the start. */
  add(series: Series, atMs: number, count = 1): void {
    while (atMs >= this.#everyMs * STRETCHES_MAX) this.#fold();
    const counts = this.#counts[series];
    const at = Math.max(0, Math.floor(atMs / this.#everyMs));
    counts[at] = (counts[at] ?? 0) + count;
  }

  /** All series, as long as the time that has passed. */
  report(untilMs: number): TimelineReport {
    while (untilMs >= this.#everyMs * STRETCHES_MAX) this.#fold();
    const length = Math.max(1, Math.floor(untilMs / this.#everyMs) + 1);
    const filled = (counts: readonly number[]): readonly number[] =>
      Array.from({ length: Math.max(length, counts.length) }, (_, at) => counts[at] ?? 0);
    const { arrived, whole, refused, cut, bytes } = this.#counts;
    return {
      everyMs: this.#everyMs,
      arrived: filled(arrived),
      whole: filled(whole),
      refused: filled(refused),
      cut: filled(cut),
      bytes: filled(bytes),
    };
  }

  #fold(): void {
    this.#everyMs *= 2;
    for (const series of SERIES) {
      const counts = this.#counts[series];
      this.#counts[series] = Array.from(
        { length: Math.ceil(counts.length / 2) },
        (_, at) => (counts[2 * at] ?? 0) + (counts[2 * at + 1] ?? 0),
      );
    }
  }
}
