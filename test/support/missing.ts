/**
 * Whether a real part that tests need is there. One that is missing is said aloud where its tests are skipped, and is an
 * error in CI.
 *
 * @param problem - what is missing, and what to do about it.
 */
export function isThereOrSkipped(isThere: boolean, problem: string): boolean {
  if (isThere) return true;
  if (process.env['CI'] === 'true') throw new Error(problem);
  process.stderr.write(`${problem}; its tests are skipped\n`);
  return false;
}
