/** Go's longest Duration, in whole seconds: what is longer its parser refuses. */
const SECONDS_MAX = 9_223_372_036;

const HOUR_S = 3600;
const MINUTE_S = 60;
/** What stands behind the hours in the longest form: `h59m59s`. */
const BEHIND_HOURS_BYTES = 7;
/** A decision that was deleted counts on below zero: `-99h59m59s` is four days, and a tombstone lasts an hour. */
const HOURS_BELOW_ZERO_BYTES = 2;

/** The longest duration with so many digits of hours. */
const LONGEST_S: readonly number[] = Array.from({ length: 10 }, (_, digits) => 10 ** digits * HOUR_S - 1);

const ZERO = 0x30;
const MINUS = 0x2d;
const LETTER_H = 0x68;
const LETTER_M = 0x6d;
const LETTER_S = 0x73;
const QUOTE = 0x22;
const SPACE = 0x20;

/**
 * What a decision in `new` has left, in whole seconds, rounded up, since a ban may end late and never early.
 *
 * At least one: bouncers take a duration of zero for one without an end (an ipset entry with `timeout 0`, a key of lua's
 * shared dictionary), and refuse one below. One that ended just now leaves with the next tick.
 *
 * @example
 * console.log(secondsLeft(1_500, 0), secondsLeft(1_500, 9_000)); // 2 1
 */
export function secondsLeft(untilMs: number, nowMs: number): number {
  return Math.min(SECONDS_MAX, Math.max(1, Math.ceil((untilMs - nowMs) / 1000)));
}

/**
 * The same of a decision in `deleted`: never above zero, since it is over, whenever it was to end.
 *
 * @example
 * console.log(secondsSince(60_000, 0), secondsSince(0, 17_500)); // 0 -17
 */
export function secondsSince(untilMs: number, nowMs: number): number {
  // not -0: it would be written with a sign
  return Math.max(-SECONDS_MAX, Math.min(0, Math.ceil((untilMs - nowMs) / 1000))) + 0;
}

/**
 * How many bytes to keep for a duration that goes down from here, the sign included.
 *
 * An hour more than it needs: when the wall clock is set back, it goes up.
 *
 * @example
 * console.log(slotBytes(4 * 3600)); // 8
 */
export function slotBytes(seconds: number): number {
  const digits = digitsOf(Math.floor(Math.abs(seconds) / HOUR_S) + 1);
  return seconds > 0 ? digits + BEHIND_HOURS_BYTES : Math.max(digits, HOURS_BELOW_ZERO_BYTES) + BEHIND_HOURS_BYTES + 1;
}

/**
 * Writes a duration as Go does, its closing quote, and JSON white space up to the width kept for it.
 *
 * ```
 *  "duration":"4h0m0s"  ,"id":1…
 *              |------|              `width` bytes and the quote, always the same number
 * ```
 *
 * One that does not fit is written as the longest that does.
 *
 * @example
 * const bytes = Buffer.alloc(9);
 * writeSlot(bytes, 0, 8, 3599);
 * console.log(bytes.toString().replaceAll(' ', '_')); // 59m59s"__
 */
export function writeSlot(into: Uint8Array, at: number, width: number, seconds: number): void {
  let end = writeDuration(into, at, fitted(seconds, width));
  into[end++] = QUOTE;
  while (end <= at + width) into[end++] = SPACE;
}

/**
 * Writes a whole number of seconds as Go's `Duration.String`, and answers the end.
 *
 * @example
 * const bytes = Buffer.alloc(8);
 * console.log(bytes.toString('latin1', 0, writeDuration(bytes, 0, -68))); // -1m8s
 */
export function writeDuration(into: Uint8Array, at: number, seconds: number): number {
  let end = at;
  let rest = seconds;
  if (rest < 0) {
    into[end++] = MINUS;
    rest = -rest;
  }
  if (rest >= MINUTE_S) {
    if (rest >= HOUR_S) {
      const hours = Math.floor(rest / HOUR_S);
      end = writeNumber(into, end, hours);
      into[end++] = LETTER_H;
      rest -= hours * HOUR_S;
    }
    const minutes = (rest / MINUTE_S) | 0;
    end = writeTwo(into, end, minutes);
    into[end++] = LETTER_M;
    rest -= minutes * MINUTE_S;
  }
  end = writeTwo(into, end, rest);
  into[end++] = LETTER_S;
  return end;
}

function fitted(seconds: number, width: number): number {
  if (seconds >= 0) return Math.min(seconds, LONGEST_S[width - BEHIND_HOURS_BYTES]!);
  return Math.max(seconds, -LONGEST_S[width - BEHIND_HOURS_BYTES - 1]!);
}

/** A whole number. */
function writeNumber(into: Uint8Array, at: number, value: number): number {
  if (value < 100) return writeTwo(into, at, value);
  const hundreds = Math.floor(value / 100);
  const end = writeNumber(into, at, hundreds);
  const rest = value - hundreds * 100;
  const tens = tensOf(rest);
  into[end] = ZERO + tens;
  into[end + 1] = ZERO + rest - tens * 10;
  return end + 2;
}

/** A whole number below a hundred. */
function writeTwo(into: Uint8Array, at: number, value: number): number {
  if (value < 10) {
    into[at] = ZERO + value;
    return at + 1;
  }
  const tens = tensOf(value);
  into[at] = ZERO + tens;
  into[at + 1] = ZERO + value - tens * 10;
  return at + 2;
}

/** Divided by ten, of a whole number below a hundred: a multiplication instead of a division. */
function tensOf(value: number): number {
  return (value * 103) >> 10;
}

function digitsOf(value: number): number {
  let digits = 1;
  for (let bound = 10; value >= bound; bound *= 10) digits++;
  return digits;
}
