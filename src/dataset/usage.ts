import type { Encoding } from './leaf.ts';
import type { Shape } from './shape.ts';

interface Use {
  asked: boolean;
  /** When it was last seen to have been asked for, on the clock of whoever calls `idle`. */
  lastMs: number;
}

/**
 * Which shapes are asked for, in which encoding, so that what nobody wants any more can be let go.
 *
 * Marking must be nearly free and this room has no clock, so a mark is a flag, and time is what the caller of `idle`
 * says: a shape is as old as the first call that found it unmarked.
 */
export class Usage {
  readonly #uses: Record<Encoding, Map<Shape, Use>> = { identity: new Map(), gzip: new Map() };

  mark(shape: Shape, encoding: Encoding): void {
    const use = this.#uses[encoding].get(shape);
    if (use === undefined) this.#uses[encoding].set(shape, { asked: true, lastMs: 0 });
    else use.asked = true;
  }

  /** The shapes nobody asked for since `idleMs`. They are forgotten here too: to be named again they must be marked again. */
  idle(encoding: Encoding, nowMs: number, idleMs: number): Shape[] {
    const idle: Shape[] = [];
    for (const [shape, use] of this.#uses[encoding]) {
      if (use.asked) {
        use.asked = false;
        use.lastMs = nowMs;
      } else if (nowMs - use.lastMs >= idleMs) {
        this.#uses[encoding].delete(shape);
        idle.push(shape);
      }
    }
    return idle;
  }
}
