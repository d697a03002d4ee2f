/** What can be in a list: it carries its own links, so that leaving costs nothing but two assignments. */
export interface Linked<T> {
  previous: T | undefined;
  next: T | undefined;
}

/** Looking at the clock for each item would cost as much as the item. */
const ITEMS_PER_LOOK = 32;

/** A walk through a list, from the head to the tail, in as many slices as it takes. */
export interface Walk {
  /**
   * Visits items until `isDue` says so (asked every 32 items), or `itemsMax` were visited, or none is left.
   * Answers whether the walk is over.
   */
  slice(isDue: () => boolean, itemsMax: number): boolean;
}

/**
 * A doubly linked list that can be walked while it changes.
 *
 *   head ⇄ a ⇄ b ⇄ c ⇄ d ⇄ tail
 *                  ▲ walk.at       when c leaves, the walk moves on to d; what joins at the tail before the end is visited
 */
export class ClientList<T extends Linked<T>> {
  readonly #walks = new Set<{ at: T | undefined }>();
  #head: T | undefined;
  #tail: T | undefined;
  #size = 0;

  get head(): T | undefined {
    return this.#head;
  }

  get size(): number {
    return this.#size;
  }

  /** Adds an item at the tail. It must not be in a list. */
  append(item: T): void {
    item.previous = this.#tail;
    if (this.#tail === undefined) this.#head = item;
    else this.#tail.next = item;
    this.#tail = item;
    this.#size++;
  }

  /** Takes an item out. It must be in this list. */
  remove(item: T): void {
    for (const walk of this.#walks) if (walk.at === item) walk.at = item.next;
    if (item.previous === undefined) this.#head = item.next;
    else item.previous.next = item.next;
    if (item.next === undefined) this.#tail = item.previous;
    else item.next.previous = item.previous;
    item.previous = undefined;
    item.next = undefined;
    this.#size--;
  }

  walk(visit: (item: T) => void): Walk {
    const walk = { at: this.#head };
    this.#walks.add(walk);
    return {
      slice: (isDue, itemsMax) => {
        for (let visited = 0; walk.at !== undefined; ) {
          const item = walk.at;
          walk.at = item.next;
          visit(item);
          visited++;
          if (visited >= itemsMax || (visited % ITEMS_PER_LOOK === 0 && isDue())) break;
        }
        if (walk.at !== undefined) return false;
        this.#walks.delete(walk);
        return true;
      },
    };
  }
}
