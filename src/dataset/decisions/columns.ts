/** The arrays that columns are made of. */
export type Column = Float64Array | Uint32Array | Int32Array | Uint16Array | Uint8Array;

/** The same column with room for more. */
export function enlarged<T extends Column>(column: T, length: number): T {
  const grown = new (column.constructor as new (length: number) => T)(length);
  grown.set(column);
  return grown;
}

const LIST_BEGIN = 64;

/** Whole numbers of 32 bits in a row, as many as come. */
export class IntList {
  #items: Int32Array = new Int32Array(LIST_BEGIN);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  at(index: number): number {
    return this.#items[index] as number;
  }

  push(item: number): void {
    if (this.#size === this.#items.length) this.#items = enlarged(this.#items, this.#size * 2);
    this.#items[this.#size++] = item;
  }

  /** A copy that does not grow. */
  toArray(): Int32Array {
    return this.#items.slice(0, this.#size);
  }
}

/** Numbers in a row, as many as come. */
export class NumberList {
  #items: Float64Array = new Float64Array(LIST_BEGIN);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  at(index: number): number {
    return this.#items[index] as number;
  }

  push(item: number): void {
    if (this.#size === this.#items.length) this.#items = enlarged(this.#items, this.#size * 2);
    this.#items[this.#size++] = item;
  }
}
