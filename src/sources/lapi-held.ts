import { IDS_PER_SOURCE, type Ledger } from '../dataset/decisions/index.ts';

/** What the ledger holds of one source, looked at from outside: each call is a walk over all rows. */
export class HeldRows {
  readonly #ledger: Ledger;
  readonly #source: number;

  constructor(ledger: Ledger, source: number) {
    this.#ledger = ledger;
    this.#source = source;
  }

  /** The scopes that live decisions have. */
  scopes(): readonly string[] {
    const { rows } = this.#ledger;
    const found = new Set<number>();
    this.#eachLive((row) => found.add(rows.scope[row] as number));
    return Array.from(found, (scope) => rows.scopes.textOf(scope));
  }

  /** The ids of live decisions that are enforced. */
  enforcedIds(): ReadonlySet<number> {
    const { rows } = this.#ledger;
    const ids = new Set<number>();
    this.#eachLive((row) => {
      if (rows.simulated[row] === 0) ids.add(this.#idOf(row));
    });
    return ids;
  }

  /** How many live decisions have ended by `nowMs` or are among these. */
  countOver(ids: ReadonlySet<number>, nowMs: number): number {
    const { rows } = this.#ledger;
    let count = 0;
    this.#eachLive((row) => {
      if ((rows.untilMs[row] as number) <= nowMs || ids.has(this.#idOf(row))) count += 1;
    });
    return count;
  }

  #eachLive(visit: (row: number) => void): void {
    const { rows } = this.#ledger;
    for (let row = 0; row < rows.size; row += 1) {
      if (rows.source[row] === this.#source && rows.added[row] !== 0 && rows.removed[row] === 0) visit(row);
    }
  }

  #idOf(row: number): number {
    return (this.#ledger.rows.id[row] as number) - this.#source * IDS_PER_SOURCE;
  }
}
