import { HeadgateError } from '../kernel/index.ts';
import type { Item } from './item.ts';

/**
 * How the items of a kind become text in one protocol.
 *
 * Encoded pages are cached by the shape object itself, not by its name: two shapes that differ can never share a page
 * by accident. So make each shape once and keep it; one made anew for every request is encoded anew for every request.
 *
 * @example
 * const fdv1: Shape = { name: 'fdv1', entry: (item) => `${JSON.stringify(item.key)}:${item.text}`, separator: ',' };
 */
export interface Shape {
  /** For people who read logs and errors. */
  readonly name: string;
  /**
   * The text of one entry, decided by the item alone; undefined leaves the item out of this view (a filter).
   * May throw: the delivery that asked fails, and nothing is cached.
   */
  entry(item: Item): string | undefined;
  /** What stands between two entries; may be empty. */
  readonly separator: string;
}

/** A part of a plan: text as it is, or all entries of a kind in a shape. */
export type Piece = string | { readonly kind: string; readonly shape: Shape };

/** The order in which texts and kinds make up one view of a data set. */
export interface Plan {
  readonly pieces: readonly Piece[];
}

/** Where a piece names a kind or a shape that cannot be used. */
function wrong(cause: string, got: unknown): HeadgateError {
  return new HeadgateError('HG_OPTION', `Cannot make a plan: ${cause}, got ${String(got)}`);
}

/**
 * A plan of these pieces.
 *
 * Plans are cheap and may be made for each snapshot (a frame often holds the position); the shapes in them are what
 * is shared.
 *
 * @throws HeadgateError HG_OPTION when a piece is neither text nor a kind in a shape.
 * @example
 * const shape: Shape = { name: 'list', entry: (item) => item.text, separator: ',' };
 * console.log(planOf('[', { kind: 'flags', shape }, ']').pieces.length); // 3
 */
export function planOf(...pieces: Piece[]): Plan {
  for (const piece of pieces) {
    if (typeof piece === 'string') continue;
    if (typeof piece?.kind !== 'string') throw wrong('a piece must be text or name a kind', piece);
    const shape: Partial<Shape> | undefined = piece.shape;
    if (typeof shape?.entry !== 'function')
      throw wrong(`the shape of ${piece.kind} must have an entry function`, shape?.entry);
    if (typeof shape.separator !== 'string')
      throw wrong(`the shape of ${piece.kind} must have a separator`, shape.separator);
  }
  return { pieces };
}
