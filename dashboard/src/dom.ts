/** Everything that comes from the server goes onto the page through here: as text, never as markup. */

/** The element with this id. One that is missing is a mistake in index.html. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`Cannot show anything: expected an element #${id}, got none`);
  return found as T;
}

/** Characters that turn the writing direction of what stands after them, which may be of somebody else. */
const TURNS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Writes a text where it differs: an element that is not touched is not laid out again. */
export function say(element: Element, text: string): void {
  const plain = text.replace(TURNS, '\ufffd');
  if (element.textContent !== plain) element.textContent = plain;
}

/** Sets an attribute where it differs; undefined takes it away. */
export function mark(element: Element, name: string, value: string | undefined): void {
  if (value === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== value) {
    element.setAttribute(name, value);
  }
}

export function show(element: HTMLElement, isShown: boolean): void {
  if (element.hidden === isShown) element.hidden = !isShown;
}

/** An element with a class and a text. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className: string = '',
  text: string = '',
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (className !== '') element.className = className;
  if (text !== '') element.textContent = text;
  return element;
}

/** How far a bar is filled. Styles are set one by one, which a strict policy for content allows. */
export function fill(bar: HTMLElement, share: number): void {
  const width = `${(share * 100).toFixed(2)}%`;
  if (bar.style.width !== width) bar.style.width = width;
}

/** A list on the page that has as many elements as it needs, each made once and written anew. */
export class Rows<Item> {
  readonly #parent: HTMLElement;
  readonly #make: () => { readonly element: HTMLElement; readonly write: (item: Item) => void };
  readonly #rows: { readonly element: HTMLElement; readonly write: (item: Item) => void }[] = [];

  constructor(
    parent: HTMLElement,
    makeRow: () => { readonly element: HTMLElement; readonly write: (item: Item) => void },
  ) {
    this.#parent = parent;
    this.#make = makeRow;
  }

  write(items: readonly Item[]): void {
    for (const row of this.#rows.splice(items.length)) row.element.remove();
    for (const [at, item] of items.entries()) {
      let row = this.#rows[at];
      if (row === undefined) {
        row = this.#make();
        this.#rows.push(row);
        this.#parent.append(row.element);
      }
      row.write(item);
    }
  }
}
