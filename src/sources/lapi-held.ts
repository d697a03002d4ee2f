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

  /** How many live decisions have not ended by `nowMs` and are not among those `over`, and of how many scopes, types and values. */
  lasting(o: { over: ReadonlySet<number>; nowMs: number; simulatedToo: boolean }): { rows: number; values: number } {
    const { rows } = this.#ledger;
    const seen = new Uint8Array(rows.groupHead.length);
    let [count, values] = [0, 0];
    this.#eachLive((row) => {
      if (rows.simulated[row] === 1 && !o.simulatedToo) return;
      if ((rows.untilMs[row] as number) <= o.nowMs || o.over.has(this.#idOf(row))) return;
      const group = rows.group[row] as number;
      count += 1;
      values += 1 - (seen[group] as number);
      seen[group] = 1;
    });
    return { rows: count, values };
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
