import type { Clock } from '../kernel/index.ts';

/** How many kinds of line are summed at once; more than this in one interval are logged as they come. */
const KINDS_MAX = 1000;

interface Counted {
  count: number;
  last: Record<string, unknown>;
}

/**
 * Log lines that come in floods: the first of a kind at once, the others as one line per interval that says how many.
 *
 * A herd that is refused writes a handful of lines, not ten thousand.
 */
export class Repeated {
  readonly #write: (fields: Record<string, unknown>) => void;
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #counted = new Map<string, Counted>();

  /** @param intervalMs - how long lines of one kind are held together, in milliseconds. */
  constructor(write: (fields: Record<string, unknown>) => void, clock: Clock, intervalMs = 10_000) {
    this.#write = write;
    this.#clock = clock;
    this.#intervalMs = intervalMs;
  }

  /** One line of a kind. Lines of one kind differ only in fields that need not all be seen. */
  add(kind: string, fields: Record<string, unknown>): void {
    const counted = this.#counted.get(kind);
    if (counted !== undefined) {
      counted.count++;
      counted.last = fields;
      return;
    }
    this.#write(fields);
    if (this.#counted.size >= KINDS_MAX) return;
    this.#counted.set(kind, { count: 0, last: fields });
    this.#clock.after(this.#intervalMs, () => this.#flush(kind));
  }

  /** Writes what is held back now. */
  flush(): void {
    for (const kind of this.#counted.keys()) this.#flush(kind);
  }

  #flush(kind: string): void {
    const counted = this.#counted.get(kind);
    if (counted === undefined) return;
    this.#counted.delete(kind);
    if (counted.count > 0) this.#write({ ...counted.last, repeated: counted.count, withinMs: this.#intervalMs });
  }
}
