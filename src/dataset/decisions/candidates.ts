import type { Ledger } from './ledger.ts';
import type { Filter } from './types.ts';

/** Whether a filter names a value or addresses, so that the index finds what it lets through. */
export function isBound(filter: Filter): boolean {
  return filter.value !== undefined || filter.addresses !== undefined;
}

/** Whether what it can let through is a handful: the groups of one value, or of the networks that hold one address. */
export function isNarrow(filter: Filter): boolean {
  return filter.value !== undefined || (filter.addresses !== undefined && filter.contains);
}

/** The groups that a bound filter can let through, by the index. */
export function visitGroups(ledger: Ledger, filter: Filter, visit: (group: number) => void): void {
  if (filter.value !== undefined) ledger.lookupValue(filter.value, visit);
  else if (filter.addresses !== undefined) ledger.lookup(filter.addresses, filter.contains, visit);
}

/** What of a bound filter the index does not answer: what is left to ask of each row. */
export function restOf(filter: Filter): Filter {
  if (filter.value === undefined) return { ...filter, addresses: undefined };
  return { ...filter, value: undefined };
}
