import { containsRange, parseAddress } from './addresses.ts';
import { jsonText } from './json-text.ts';
import type { Names } from './names.ts';
import type { Rows } from './rows.ts';
import type { AddressRange, Filter } from './types.ts';

const SCOPES: Readonly<Record<string, string>> = { ip: 'Ip', range: 'Range', country: 'Country', as: 'AS' };

/**
 * A scope as it is held: `ip`, `range`, `country` and `as` in any case have one spelling, every other stands for itself.
 *
 * @example
 * console.log(canonicalScope('RANGE'), canonicalScope('user')); // Range user
 */
export function canonicalScope(scope: string): string {
  const lower = scope.toLowerCase();
  return Object.hasOwn(SCOPES, lower) ? (SCOPES[lower] as string) : scope;
}

/** What a bouncer gets that asks for nothing in particular: addresses and ranges, nothing that is only recorded. */
export const ENFORCED: Filter = {
  scopes: ['Ip', 'Range'],
  origins: undefined,
  scenariosContaining: [],
  scenariosNotContaining: [],
  type: undefined,
  value: undefined,
  addresses: undefined,
  contains: true,
  simulated: false,
};

function canonicalList(list: readonly string[] | undefined): string[] | null {
  return list === undefined ? null : [...new Set(list)].toSorted();
}

function rangeKey({ family, words, prefix }: AddressRange): (number | string)[] {
  return [family, ...words, prefix];
}

/**
 * A text that is the same for filters that let the same rows through.
 *
 * @example
 * const twice = { ...ENFORCED, scopes: ['Range', 'Ip', 'Ip'] };
 * console.log(filterKey(twice) === filterKey(ENFORCED)); // true
 */
export function filterKey(filter: Filter): string {
  const { addresses } = filter;
  return JSON.stringify([
    canonicalList(filter.scopes),
    canonicalList(filter.origins),
    canonicalList(filter.scenariosContaining),
    canonicalList(filter.scenariosNotContaining),
    filter.type ?? null,
    filter.value ?? null,
    addresses === undefined ? null : [...rangeKey(addresses), filter.contains],
    filter.simulated,
  ]);
}

const UNKNOWN = 0;
const YES = 1;
const NO = 2;

/** Whether a name passes, asked once for each number; asked again when numbers have gone to other texts. */
class Verdicts {
  readonly #names: Names;
  readonly #passes: (text: string) => boolean;
  #verdicts = new Uint8Array(16);
  #recycled: number;

  constructor(names: Names, passes: (text: string) => boolean) {
    this.#names = names;
    this.#passes = passes;
    this.#recycled = names.recycled;
  }

  of(number: number): boolean {
    if (this.#recycled !== this.#names.recycled) {
      this.#recycled = this.#names.recycled;
      this.#verdicts.fill(UNKNOWN);
    }
    const known = this.#verdicts[number];
    if (known !== undefined && known !== UNKNOWN) return known === YES;
    return this.#ask(number);
  }

  #ask(number: number): boolean {
    if (number >= this.#verdicts.length) {
      const grown = new Uint8Array(Math.max(this.#names.size, number + 1) * 2);
      grown.set(this.#verdicts);
      this.#verdicts = grown;
    }
    const passes = this.#passes(this.#names.textOf(number));
    this.#verdicts[number] = passes ? YES : NO;
    return passes;
  }
}

function amongOf(list: readonly string[]): (text: string) => boolean {
  const set = new Set(list);
  return (text) => set.has(text);
}

function scenarioTest({ scenariosContaining, scenariosNotContaining }: Filter): (text: string) => boolean {
  return (text) => {
    const lower = text.toLowerCase();
    if (scenariosContaining.length > 0 && !scenariosContaining.some((part) => lower.includes(part))) return false;
    return !scenariosNotContaining.some((part) => lower.includes(part));
  };
}

type Test = (row: number) => boolean;

function addressTest(filter: Filter, range: AddressRange, rows: Rows): Test {
  // only these two scopes have addresses, as in the local API: a user may be called 10.0.0.1
  const scopes = new Verdicts(rows.scopes, amongOf(['Ip', 'Range']));
  return (row) => {
    if (!scopes.of(rows.scope[row] as number)) return false;
    const own = parseAddress(rows.valueOf(row));
    if (own === undefined) return false;
    return filter.contains ? containsRange(own, range) : containsRange(range, own);
  };
}

function testsOf(filter: Filter, rows: Rows): Test[] {
  const tests: Test[] = [];
  if (!filter.simulated) tests.push((row) => rows.simulated[row] === 0);
  if (filter.scopes !== undefined) {
    const scopes = new Verdicts(rows.scopes, amongOf(filter.scopes));
    tests.push((row) => scopes.of(rows.scope[row] as number));
  }
  if (filter.origins !== undefined) {
    const origins = new Verdicts(rows.origins, amongOf(filter.origins));
    tests.push((row) => origins.of(rows.origin[row] as number));
  }
  if (filter.type !== undefined) {
    const types = new Verdicts(rows.types, amongOf([filter.type]));
    tests.push((row) => types.of(rows.type[row] as number));
  }
  if (filter.scenariosContaining.length > 0 || filter.scenariosNotContaining.length > 0) {
    const scenarios = new Verdicts(rows.scenarios, scenarioTest(filter));
    tests.push((row) => scenarios.of(rows.scenario[row] as number));
  }
  if (filter.value !== undefined) {
    const value = Buffer.from(jsonText(filter.value));
    tests.push((row) => rows.hasValue(row, value, 0, value.length));
  }
  if (filter.addresses !== undefined) tests.push(addressTest(filter, filter.addresses, rows));
  return tests;
}

/**
 * Whether a filter lets a row through, all of its conditions; whether the row is live is not asked. The answer may be
 * kept as long as the ledger lives, and used for rows that come later.
 */
export function matcherOf(filter: Filter, rows: Rows): (row: number) => boolean {
  const [first, second, third, ...more] = testsOf(filter, rows);
  if (first === undefined) return () => true;
  if (second === undefined) return first;
  if (third === undefined) return (row) => first(row) && second(row);
  if (more.length === 0) return (row) => first(row) && second(row) && third(row);
  return (row) => first(row) && second(row) && third(row) && more.every((test) => test(row));
}
