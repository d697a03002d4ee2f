/*
 * What the browser keeps for the page. A browser that is told to keep nothing throws at every question for it: then it is
 * kept for as long as the page is open.
 */

/** Something of one name, in the storage of the browser or of the tab. */
export class Kept {
  readonly #name: string;
  readonly #storage: () => Storage;
  #here: string | undefined;

  constructor(name: string, storage: () => Storage) {
    this.#name = name;
    this.#storage = storage;
  }

  get value(): string | undefined {
    try {
      return this.#storage().getItem(this.#name) ?? this.#here;
    } catch {
      return this.#here;
    }
  }

  set value(value: string) {
    this.#here = value;
    try {
      this.#storage().setItem(this.#name, value);
    } catch {
      // kept here
    }
  }
}
