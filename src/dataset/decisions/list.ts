import { itemBytes, PageBuilder, type BuildOptions } from './page-builder.ts';
import { Edition } from './edition.ts';
import { buildOptions, type Making } from './full.ts';
import type { Rows } from './rows.ts';
import { SmallAnswer } from './small.ts';
import { ROWS_PER_STEP, type Work } from './work.ts';

/** A part of a live answer. */
export interface Part {
  readonly limit?: number;
  /** How many to leave out at the beginning. */
  readonly offset?: number;
  /** Only ids above it. */
  readonly idGt?: number;
}

/** Digits of eleven bits: 2,048 counters fit in a core's first cache. */
const DIGIT_BITS = 11;
const DIGIT: number = 2 ** DIGIT_BITS;

/**
 * All decisions that hold now, the one that ends first before the others, as a live answer: `[…]`, or `null`.
 *
 * @param order - the rows to look at, by id
 */
export function* makeList(
  making: Making,
  order: ArrayLike<number>,
  part: Part & { readonly smallBytesMax: number },
): Work<Edition | SmallAnswer> {
  const { groups, nowMs, rules } = making;
  const { rows, offset } = groups;
  const found: number[] = [];
  const idGt = part.idGt ?? Number.NEGATIVE_INFINITY;
  for (let at = 0; at < order.length; at++) {
    const row = order[at]!;
    if (rows.untilMs[row]! > nowMs && rows.id[row]! > idGt && groups.isLive(row)) found.push(row);
    if (at % ROWS_PER_STEP === 0) yield;
  }
  const begin = part.offset ?? 0;
  const sorted = (yield* byEnd(found, rows)).subarray(begin, begin + (part.limit ?? found.length));
  const options: BuildOptions = { ...buildOptions(making, 'new'), live: true };
  let bytes = 0;
  let steps = 0;
  for (const row of sorted) {
    bytes += itemBytes(row, options);
    if (++steps % ROWS_PER_STEP === 0) yield;
  }
  const isSmall = bytes < part.smallBytesMax;
  const whole = { fullBytes: bytes + 1, fullItems: Number.POSITIVE_INFINITY };
  const builder = new PageBuilder(isSmall ? { ...options, ...whole } : options, rules);
  for (const row of sorted) {
    builder.add(row);
    if (++steps % ROWS_PER_STEP === 0) yield;
  }
  const pages = builder.finish();
  if (isSmall) return new SmallAnswer({ offset, fresh: pages[0], gone: undefined, list: true });
  return new Edition({ offset, fresh: pages, gone: undefined, builtAtMs: nowMs });
}

/**
 * Rows by end; of equal ends in the order in which they came. By digits, lowest first: a comparison sort of 500,000 blocks for
 * a third of a second, each of these passes for a few milliseconds.
 */
function* byEnd(found: readonly number[], rows: Rows): Work<Uint32Array> {
  const { least, most } = boundsOf(found, rows);
  let from = { rows: Uint32Array.from(found), keys: new Float64Array(found.length) };
  let into = { rows: new Uint32Array(found.length), keys: new Float64Array(found.length) };
  yield;
  for (let at = 0; at < found.length; at++) from.keys[at] = rows.untilMs[found[at]!]! - least;
  for (let shift = 0; most - least >= 2 ** shift; shift += DIGIT_BITS) {
    yield;
    const unit = 2 ** shift;
    const starts = new Uint32Array(DIGIT + 1);
    for (const key of from.keys) starts[((key / unit) & (DIGIT - 1)) + 1]!++;
    for (let digit = 1; digit <= DIGIT; digit++) starts[digit]! += starts[digit - 1]!;
    for (let at = 0; at < found.length; at++) {
      const key = from.keys[at]!;
      const to = starts[(key / unit) & (DIGIT - 1)]!++;
      into.keys[to] = key;
      into.rows[to] = from.rows[at]!;
    }
    [from, into] = [into, from];
  }
  return from.rows;
}

function boundsOf(found: readonly number[], { untilMs }: Rows): { readonly least: number; readonly most: number } {
  let least = Number.POSITIVE_INFINITY;
  let most = 0;
  for (const row of found) {
    least = Math.min(least, untilMs[row]!);
    most = Math.max(most, untilMs[row]!);
  }
  return { least, most };
}
