import type { Rows } from './rows.ts';

const TYPES_MAX = 65_536;

/** Live rows by origin and type and by source, and how many were removed. */
export class Tally {
  readonly #pairs = new Map<number, number>();
  readonly #bySource = new Map<number, { all: number; simulated: number }>();
  #count = 0;
  #tombstones = 0;

  get count(): number {
    return this.#count;
  }

  /** Removed rows that are remembered. */
  get tombstones(): number {
    return this.#tombstones;
  }

  /** Live rows of a source; and of these, how many are simulated. */
  ofSource(source: number): { readonly all: number; readonly simulated: number } {
    return this.#bySource.get(source) ?? { all: 0, simulated: 0 };
  }

  /** Counts a row as live (1), or as removed (-1). */
  countRow(rows: Rows, row: number, change: 1 | -1): void {
    this.#change((rows.origin[row] as number) * TYPES_MAX + (rows.type[row] as number), change);
    this.#changeSource(rows.source[row] as number, change, rows.simulated[row] === 0 ? 0 : change);
    this.#count += change;
    if (change === -1) this.#tombstones++;
  }

  /** A removed row is not remembered any more. */
  forget(): void {
    this.#tombstones--;
  }

  /** Takes over the differences that another has counted. */
  merge(other: Tally): void {
    for (const [pair, change] of other.#pairs) this.#change(pair, change);
    for (const [source, { all, simulated }] of other.#bySource) this.#changeSource(source, all, simulated);
    this.#count += other.#count;
    this.#tombstones += other.#tombstones;
  }

  pairs(rows: Rows): { origin: string; type: string; count: number }[] {
    return [...this.#pairs].map(([pair, count]) => ({
      origin: rows.origins.textOf(Math.floor(pair / TYPES_MAX)),
      type: rows.types.textOf(pair % TYPES_MAX),
      count,
    }));
  }

  #change(pair: number, change: number): void {
    const count = (this.#pairs.get(pair) ?? 0) + change;
    if (count === 0) this.#pairs.delete(pair);
    else this.#pairs.set(pair, count);
  }

  #changeSource(source: number, all: number, simulated: number): void {
    const counts = this.#bySource.get(source);
    if (counts === undefined) this.#bySource.set(source, { all, simulated });
    else {
      counts.all += all;
      counts.simulated += simulated;
    }
  }
}
