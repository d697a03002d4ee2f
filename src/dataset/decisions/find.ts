import { restOf, visitGroups } from './candidates.ts';
import { enlarged } from './columns.ts';
import { matcherOf } from './filter.ts';
import type { Ledger } from './ledger.ts';
import { ITEM_HEAD } from './page.ts';
import { secondsLeft, writeDuration } from './slot.ts';
import type { Matches } from './survivors.ts';
import type { Filter } from './types.ts';

/** A live answer without a decision: lua's bouncer knows no other. */
const NOTHING = 'null';

const OPEN = 0x5b;
const CLOSE = 0x5d;
const COMMA = 0x2c;
const QUOTE = 0x22;

/** The longest duration, its quote, a comma and the brackets. */
const FRAME_BYTES_MAX = 32;
/** Kept for the next look-up; a larger answer has memory of its own. */
const SCRATCH_BYTES = 64 * 1024;
/** How many ways to filter are remembered. Clients have one or two. */
const MATCHERS_MAX = 64;

/** Answers live look-ups from the index: what they cost does not grow with the number of decisions. */
export class Finder {
  readonly #ledger: Ledger;
  readonly #matchers = new Map<string, Matches>();
  readonly #groups: number[] = [];
  readonly #found: number[] = [];
  readonly #scratch = new Uint8Array(SCRATCH_BYTES);
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
    this.#keep(this.#matcherOf(filter), nowMs);
    return this.#found.length === 0 ? NOTHING : this.#write(nowMs);
  }

  #keep(matches: Matches, nowMs: number): void {
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

  #write(nowMs: number): string {
    const { rows } = this.#ledger;
    let into = this.#scratch;
    let end = 0;
    for (const row of this.#found) {
      const needed = end + FRAME_BYTES_MAX + ITEM_HEAD.length + rows.textBytesLive(row);
      if (needed > into.length) into = enlarged(into, 2 * needed);
      into[end] = end === 0 ? OPEN : COMMA;
      end++;
      for (let byte = 0; byte < ITEM_HEAD.length; byte++) into[end++] = ITEM_HEAD[byte]!;
      end = writeDuration(into, end, secondsLeft(rows.untilMs[row]!, nowMs));
      into[end++] = QUOTE;
      end = rows.copyTextLive(row, into, end);
    }
    into[end++] = CLOSE;
    return Buffer.from(into.buffer, into.byteOffset, end).toString();
  }

  /** What of the filter the index does not answer. Apart from address and value, most look-ups of a client are the same. */
  #matcherOf(filter: Filter): Matches {
    const { scopes, origins, scenariosContaining, scenariosNotContaining, type, simulated, value, addresses } = filter;
    if (value !== undefined && addresses !== undefined) return matcherOf(restOf(filter), this.#ledger.rows);
    const key = JSON.stringify([scopes, origins, scenariosContaining, scenariosNotContaining, type, simulated]);
    const known = this.#matchers.get(key);
    if (known !== undefined) return known;
    if (this.#matchers.size >= MATCHERS_MAX) this.#matchers.clear();
    const matches = matcherOf(restOf(filter), this.#ledger.rows);
    this.#matchers.set(key, matches);
    return matches;
  }
}
