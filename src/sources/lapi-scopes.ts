import { canonicalScope } from '../dataset/decisions/index.ts';

/** What a local API has names for. */
export const USUAL: readonly string[] = ['Ip', 'Range', 'Country', 'AS'];
/** Scopes come in requests of clients: each one that is held costs the local API a filter, and us a full pull. */
const EXTRA_MAX = 32;
const CHARACTERS_MAX = 64;

/**
 * The scopes that are asked for: the usual ones, those of the configuration, and those that clients asked for, which are bounded.
 */
export class Scopes {
  readonly #held: Set<string>;
  #extra = 0;

  constructor(configured: readonly string[]) {
    this.#held = new Set([...USUAL, ...configured.map(canonicalScope)]);
  }

  /** In the order in which they came, as {@link canonicalScope} writes them. */
  get list(): readonly string[] {
    return Array.from(this.#held);
  }

  /** Whether every one of them is held now; false when there are too many, or one is too long to be a scope. All or none. */
  add(scopes: readonly string[]): boolean {
    const missing = new Set(scopes.filter((scope) => !this.#held.has(scope)));
    if (this.#extra + missing.size > EXTRA_MAX) return false;
    for (const scope of missing) {
      if (!isScope(scope)) return false;
    }
    for (const scope of missing) this.#held.add(scope);
    this.#extra += missing.size;
    return true;
  }
}

/** Scopes as the query parameter wants them. */
export function scopeQuery(scopes: Iterable<string>): string {
  const names = Array.from(scopes, (scope) => (USUAL.includes(scope) ? scope.toLowerCase() : scope));
  return names.map(encodeURIComponent).join(',');
}

/** A comma separates scopes in a query, so none can hold one. */
function isScope(text: string): boolean {
  return text !== '' && text.length <= CHARACTERS_MAX && !text.includes(',');
}
