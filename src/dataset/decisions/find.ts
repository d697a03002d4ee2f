import { restOf, visitGroups } from './candidates.ts';
import { formatDuration } from './duration.ts';
import { matcherOf } from './filter.ts';
import type { Ledger } from './ledger.ts';
import type { Rows } from './rows.ts';
import { secondsLeft } from './slot.ts';
import type { Filter } from './types.ts';

/** A live answer without a decision: lua's bouncer knows no other. */
const NOTHING = 'null';

/** Answers live look-ups from the index: what they cost does not grow with the number of decisions. */
export class Finder {
  readonly #ledger: Ledger;
  readonly #groups: number[] = [];
  readonly #found: number[] = [];
  readonly #visit = (group: number): void => {
    this.#groups.push(group);
  };

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** The decisions that hold now, the one that ends first before the others: a JSON array, or `null`. */
  find(filter: Filter, nowMs: number): string {
    this.#groups.length = 0;
    visitGroups(this.#ledger, filter, this.#visit);
    if (this.#groups.length === 0) return NOTHING;
    this.#keep(matcherOf(restOf(filter), this.#ledger.rows), nowMs);
    return textOf(this.#found, this.#ledger.rows, nowMs);
  }

  #keep(matches: (row: number) => boolean, nowMs: number): void {
    const { rows, offset } = this.#ledger;
    const found = this.#found;
    found.length = 0;
    for (const group of this.#groups) {
      for (let row = rows.groupHead[group]!; row !== -1; row = rows.next[row]!) {
        if (rows.untilMs[row]! > nowMs && rows.visible(row, offset) && matches(row)) found.push(row);
      }
    }
    if (found.length > 1) found.sort((a, b) => rows.untilMs[a]! - rows.untilMs[b]! || rows.id[a]! - rows.id[b]!);
  }
}

function textOf(found: readonly number[], rows: Rows, nowMs: number): string {
  let text = '';
  for (const row of found) {
    const duration = formatDuration(secondsLeft(rows.untilMs[row]!, nowMs) * 1000);
    text += `${text === '' ? '[' : ','}{"duration":"${duration}"${rows.textLive(row)}`;
  }
  return text === '' ? NOTHING : `${text}]`;
}
