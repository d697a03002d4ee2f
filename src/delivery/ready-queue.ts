/** Below this a queue is not worth compacting. */
const COMPACT_AT = 1024;

/**
 * First in, first out, in constant time.
 *
 *      taken ─────┐ head
 *   [ · · · · · · │ d e f g ]   the front is cut off when it is longer than what waits, so the array stays below twice
 *                               what waits (or COMPACT_AT)
 */
export class ReadyQueue<T> {
  readonly #items: (T | undefined)[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** The first one, or undefined when there is none. */
  shift(): T | undefined {
    if (this.#head === this.#items.length) return undefined;
    const item = this.#items[this.#head];
    // let go at once: what was served must not live until the next compaction
    this.#items[this.#head++] = undefined;
    if (this.#head === this.#items.length) {
      this.#items.length = 0;
      this.#head = 0;
    } else if (this.#head >= COMPACT_AT && this.#head * 2 >= this.#items.length) {
      this.#items.splice(0, this.#head);
      this.#head = 0;
    }
    return item;
  }
}
