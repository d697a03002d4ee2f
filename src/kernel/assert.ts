/**
 * States what must be true here. A failure is a fault of ours, never of a caller's input.
 *
 * @example
 * const held = 3;
 * assert(held >= 0, 'held slots are never negative', held);
 * console.log(held); // 3
 */
export function assert(condition: boolean, rule: string, got?: string | number | boolean): asserts condition {
  if (!condition) throw new Error(`Broken invariant: ${rule}${got === undefined ? '' : `, got ${got}`}`);
}
