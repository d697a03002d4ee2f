/** What a {@link List} needs of its items: that they carry their own links. An item is in one list at a time. */
export interface Linked<T> {
  before: T | undefined;
  after: T | undefined;
}

/**
 * A doubly linked list: items join at the end and leave from anywhere, at the same cost however long it is.
 *
 * ```
 *  first ─► item ⇄ item ⇄ item ◄─ last
 * ```
 */
export class List<T extends Linked<T>> {
  #first: T | undefined;
  #last: T | undefined;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  get first(): T | undefined {
    return this.#first;
  }

  push(item: T): void {
    item.before = this.#last;
    if (this.#last === undefined) this.#first = item;
    else this.#last.after = item;
    this.#last = item;
    this.#length++;
  }

  /** Takes out an item that is in. */
  remove(item: T): void {
    if (item.before === undefined) this.#first = item.after;
    else item.before.after = item.after;
    if (item.after === undefined) this.#last = item.before;
    else item.after.before = item.before;
    item.before = undefined;
    item.after = undefined;
    this.#length--;
  }

  *[Symbol.iterator](): Generator<T, void, undefined> {
    for (let item = this.#first; item !== undefined; item = item.after) yield item;
  }
}
