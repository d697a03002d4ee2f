import type { SmallAnswer } from './small.ts';

/** What all of them may take together. */
const BYTES_MAX = 8 * 1024 * 1024;
const ENTRIES_MAX = 4096;

/** Small answers of the offset that is now: with the next one none of them is right any more. */
export class Memo {
  readonly #answers = new Map<string, SmallAnswer>();
  #offset = -1;
  #bytes = 0;

  get(key: string, offset: number): SmallAnswer | undefined {
    return offset === this.#offset ? this.#answers.get(key) : undefined;
  }

  put(key: string, answer: SmallAnswer): void {
    const isFull = this.#bytes + answer.heldBytes > BYTES_MAX || this.#answers.size >= ENTRIES_MAX;
    if (answer.offset !== this.#offset || isFull) {
      this.#answers.clear();
      this.#bytes = 0;
      this.#offset = answer.offset;
    }
    this.#answers.set(key, answer);
    this.#bytes += answer.heldBytes;
  }
}
