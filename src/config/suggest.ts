/** Longest name compared; anything longer is no slip of the finger. */
const NAME_LENGTH_MAX = 64;

/** The number of letters to change, add, drop or swap (Damerau-Levenshtein, adjacent swaps only). */
function distance(left: string, right: string): number {
  let before: number[] = [];
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row++) {
    const current = [row];
    for (let column = 1; column <= right.length; column++) {
      const same = left[row - 1] === right[column - 1];
      const swapped =
        row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      current[column] = Math.min(
        (current[column - 1] ?? 0) + 1,
        (previous[column] ?? 0) + 1,
        (previous[column - 1] ?? 0) + (same ? 0 : 1),
        swapped ? (before[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    before = previous;
    previous = current;
  }
  return previous[right.length] ?? 0;
}

/**
 * The known name that `name` was probably meant to be, or undefined. Case, `-` and `_` do not count.
 *
 * @example
 * console.log(closest('heartbeatIntervall', ['heartbeatInterval', 'port'])); // heartbeatInterval
 */
export function closest(name: string, known: Iterable<string>): string | undefined {
  if (name.length > NAME_LENGTH_MAX) return undefined;
  const plain = (text: string): string => text.toLowerCase().replace(/[-_]/g, '');
  const wanted = plain(name);
  let best: { name: string; distance: number } | undefined;
  for (const candidate of known) {
    const apart = distance(wanted, plain(candidate));
    if (best === undefined || apart < best.distance) best = { name: candidate, distance: apart };
  }
  // A third of the letters may be wrong: more, and the suggestion would be a guess.
  return best !== undefined && best.distance <= Math.max(1, Math.floor(wanted.length / 3)) ? best.name : undefined;
}

/** ` (did you mean "x"?)`, or nothing. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const found = closest(name, known);
  return found === undefined ? '' : ` (did you mean "${found}"?)`;
}
