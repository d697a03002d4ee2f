/** What a full answer holds against what we held. */
export interface Shrink {
  /** How many decisions we held. */
  readonly held: number;
  /** How many the answer has. */
  readonly got: number;
  /** How many of those held are gone for a reason that we know: they ended, or the answer names them as deleted. Asked only when it matters. */
  explained(): number;
}

/** Below this many, half of them may well be gone in earnest. */
const HELD_MIN = 100;
/** Two answers that differ by no more than this are about the same. */
const SAME_SHARE = 0.1;
const SAME_MIN = 10;

/**
 * Believes a full answer, unless it has less than half of what we held, or nothing: a local API whose database fails in
 * the middle of an answer ends it properly, so that it looks like a whole one. The second answer of about the same size is believed.
 */
export class ShrinkGuard {
  #doubted: number | undefined;

  /** Whether the last answer was not believed. */
  get doubts(): boolean {
    return this.#doubted !== undefined;
  }

  /** Whether to take the answer over. */
  believes(shrink: Shrink): boolean {
    const { got } = shrink;
    const confirmed = this.#doubted !== undefined && aboutTheSame(this.#doubted, got);
    const believed = !this.#isShort(shrink) || confirmed;
    this.#doubted = believed ? undefined : got;
    return believed;
  }

  #isShort(shrink: Shrink): boolean {
    const looksShort = (held: number): boolean =>
      held > 0 && (shrink.got === 0 || (held >= HELD_MIN && shrink.got < held / 2));
    return looksShort(shrink.held) && looksShort(shrink.held - shrink.explained());
  }
}

function aboutTheSame(one: number, other: number): boolean {
  return Math.abs(one - other) <= Math.max(SAME_MIN, SAME_SHARE * Math.max(one, other));
}
