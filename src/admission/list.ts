/** A value's place in a {@link List}; what `remove` takes, so that leaving from the middle costs no search. */
export interface Link<T> {
  readonly value: T;
  before: Link<T> | undefined;
  after: Link<T> | undefined;
}

/**
 * A doubly linked list: joins at the end, leaves from anywhere, both at once however long it is.
 *
 * ```
 *  first ─► link ⇄ link ⇄ link ◄─ last
 *             │      │      │
 *           value  value  value
 * ```
 */
export class List<T> {
  #first: Link<T> | undefined;
  #last: Link<T> | undefined;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  get first(): T | undefined {
    return this.#first?.value;
  }

  push(value: T): Link<T> {
    const link: Link<T> = { value, before: this.#last, after: undefined };
    if (this.#last === undefined) this.#first = link;
    else this.#last.after = link;
    this.#last = link;
    this.#length++;
    return link;
  }

  /** Takes out a link that this list gave and that is still in it. */
  remove(link: Link<T>): void {
    if (link.before === undefined) this.#first = link.after;
    else link.before.after = link.after;
    if (link.after === undefined) this.#last = link.before;
    else link.after.before = link.before;
    this.#length--;
  }

  *[Symbol.iterator](): Generator<T, void, undefined> {
    for (let link = this.#first; link !== undefined; link = link.after) yield link.value;
  }
}
