import { HeadgateError } from '../../kernel/index.ts';
import type { Pace } from '../pace.ts';
import type { Intake } from './intake.ts';
import type { Names } from './names.ts';
import type { Parts } from './parts.ts';
import { IDS_PER_SOURCE } from './rows.ts';
import type { Transition } from './transition.ts';

/** What became of the decisions of an intake. */
export interface Merged {
  refreshed: number;
  unchanged: number;
  /** Already over when they came, or to be removed and not there. */
  ignored: number;
}

/** Which number a text of the intake has in the ledger; -1 while it has none. */
function numbersOf(texts: readonly string[], names: Names): Int32Array {
  const numbers = Int32Array.from(texts, (text) => names.numberOf(text) ?? -1);
  const fresh = numbers.reduce((sum, number) => sum + (number < 0 ? 1 : 0), 0);
  if (fresh <= names.room) return numbers;
  throw new HeadgateError(
    'HG_SOURCE',
    `Cannot take a decision: there is room for ${names.room} more names of its kind, got ${fresh}`,
  );
}

/** Compares decisions that came with what is held, one at a time, and writes the differences into a transition. */
export class Merge {
  readonly merged: Merged = { refreshed: 0, unchanged: 0, ignored: 0 };
  readonly #parts: Parts;
  readonly #intake: Intake;
  readonly #transition: Transition;
  readonly #source: number;
  readonly #toleranceMs: number;
  readonly #origins: Int32Array;
  readonly #scenarios: Int32Array;
  readonly #scopes: Int32Array;
  readonly #types: Int32Array;
  /** By row: 1 when it came. */
  readonly #seen: Uint8Array;

  constructor(parts: Parts, transition: Transition, o: { intake: Intake; source: number; toleranceMs: number }) {
    this.#parts = parts;
    this.#transition = transition;
    this.#intake = o.intake;
    this.#source = o.source;
    this.#toleranceMs = o.toleranceMs;
    const { origins, scenarios, scopes, types } = o.intake.names;
    this.#origins = numbersOf(origins, parts.rows.origins);
    this.#scenarios = numbersOf(scenarios, parts.rows.scenarios);
    this.#scopes = numbersOf(scopes, parts.rows.scopes);
    this.#types = numbersOf(types, parts.rows.types);
    this.#seen = new Uint8Array(parts.rows.size);
  }

  /** The row of a decision of this source; -1: none. */
  find(id: number): number {
    return this.#parts.index.find(id + this.#source * IDS_PER_SOURCE);
  }

  /** A decision of this source is gone. */
  leave(id: number): void {
    const row = this.find(id);
    if (row < 0) this.merged.ignored++;
    else this.#transition.remove(row);
  }

  /** Brings the ledger to what the decision says. There must be room for a row. */
  take(at: number): void {
    const row = this.find(this.#intake.id[at] as number);
    const untilMs = this.#intake.untilMs[at] as number;
    if (untilMs <= this.#transition.nowMs) {
      this.#over(row);
    } else if (row < 0) {
      this.#insert(at);
    } else if (this.#isSame(row, at)) {
      this.#seen[row] = 1;
      this.#compareEnds(row, untilMs);
    } else {
      // another decision under the same id: readers that know the old one are told that it is gone
      this.#seen[row] = 1;
      this.#transition.remove(row);
      this.#insert(at);
    }
  }

  /** Removes what did not come; rows marked simulated only when they were asked for. */
  async removeMissing(simulatedToo: boolean, pace: Pace): Promise<void> {
    // rows that this commit made lie beyond, or have taken numbers that were free
    for (let row = 0; row < this.#seen.length; row++) {
      if (this.#isMissing(row, simulatedToo)) this.#transition.remove(row);
      if (pace.due()) await pace.pause();
    }
  }

  #isMissing(row: number, simulatedToo: boolean): boolean {
    const { rows } = this.#parts;
    const added = rows.added[row] as number;
    if (this.#seen[row] === 1 || added === 0 || added === this.#transition.offset) return false;
    if (rows.removed[row] !== 0 || rows.source[row] !== this.#source) return false;
    return simulatedToo || rows.simulated[row] === 0;
  }

  /** A decision that ended before it came. */
  #over(row: number): void {
    if (row < 0) {
      this.merged.ignored++;
      return;
    }
    this.#seen[row] = 1;
    this.#transition.remove(row);
  }

  #compareEnds(row: number, untilMs: number): void {
    const later = untilMs - (this.#parts.rows.untilMs[row] as number);
    if (later > this.#toleranceMs) {
      this.#transition.renew(row, untilMs);
      this.merged.refreshed++;
    } else if (later < -this.#toleranceMs) {
      this.#transition.shorten(row, untilMs);
      this.merged.refreshed++;
    } else {
      // both are upper bounds of the true end, so the smaller one is nearer to it
      if (later < 0) this.#transition.trim(row, untilMs);
      this.merged.unchanged++;
    }
  }

  #isSame(row: number, at: number): boolean {
    const { rows } = this.#parts;
    const intake = this.#intake;
    return (
      rows.origin[row] === this.#origins[intake.origin[at] as number] &&
      rows.scenario[row] === this.#scenarios[intake.scenario[at] as number] &&
      rows.scope[row] === this.#scopes[intake.scope[at] as number] &&
      rows.type[row] === this.#types[intake.type[at] as number] &&
      rows.simulated[row] === intake.simulated[at] &&
      rows.hasText(row, intake.textOf(at))
    );
  }

  #insert(at: number): void {
    const { rows } = this.#parts;
    const intake = this.#intake;
    const { origins, scenarios, scopes, types } = intake.names;
    const head = {
      source: this.#source,
      id: intake.id[at] as number,
      untilMs: intake.untilMs[at] as number,
      origin: take(rows.origins, origins, this.#origins, intake.origin[at] as number),
      scenario: take(rows.scenarios, scenarios, this.#scenarios, intake.scenario[at] as number),
      scope: take(rows.scopes, scopes, this.#scopes, intake.scope[at] as number),
      type: take(rows.types, types, this.#types, intake.type[at] as number),
      simulated: intake.simulated[at] as number,
    };
    this.#transition.insert(head, intake.textOf(at));
  }
}

function take(names: Names, texts: readonly string[], numbers: Int32Array, text: number): number {
  const known = numbers[text] as number;
  if (known >= 0) {
    names.use(known);
    return known;
  }
  const number = names.take(texts[text] as string);
  numbers[text] = number;
  return number;
}
