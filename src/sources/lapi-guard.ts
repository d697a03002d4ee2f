/** What a full answer holds against what we held. */
export interface Shrink {
  /** How many decisions we held. */
  readonly held: number;
  /** How many the answer has. */
  readonly got: number;
  /** What of those held should be there: what has neither ended nor is named as deleted. Asked only when it matters. */
  readonly lasting: () => Lasting;
}

/** Decisions that nothing we know of has ended. */
export interface Lasting {
  readonly rows: number;
  /** How many different ones by scope, type and value: a list that is imported anew is held twice until it is compared. */
  readonly values: number;
}

/** Below this many, half of them may well be gone in earnest. */
const HELD_MIN = 100;
const ROWS_KEPT_MIN = 0.5;
/**
 * A page of a local API has 10,000 or 30,000 decisions, so an answer that ends with the first one may well have more than
 * half of them.
 */
const VALUES_KEPT_MIN = 0.9;
/** Two answers that differ by no more than this are about the same. */
const SAME_SHARE = 0.1;
const SAME_MIN = 10;

/**
 * Believes a full answer, unless much of what we held is missing in it for no reason, or all: a local API whose database
 * fails in the middle of an answer ends it properly, so that it looks like a whole one. The second answer of about the same
 * size is believed.
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

  #isShort({ held, got, lasting }: Shrink): boolean {
    if (!isFewer(got, held, VALUES_KEPT_MIN)) return false;
    const { rows, values } = lasting();
    return isFewer(got, rows, ROWS_KEPT_MIN) || isFewer(got, values, VALUES_KEPT_MIN);
  }
}

/** Whether less than a share of them is there, or nothing. */
function isFewer(got: number, of: number, share: number): boolean {
  return of > 0 && (got === 0 || (of >= HELD_MIN && got < of * share));
}

function aboutTheSame(one: number, other: number): boolean {
  return Math.abs(one - other) <= Math.max(SAME_MIN, SAME_SHARE * Math.max(one, other));
}
