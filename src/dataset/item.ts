import { HeadgateError } from '../kernel/index.ts';

/**
 * One item of a data set.
 *
 * @example
 * const flag: Item = { kind: 'flags', key: 'dark-mode', version: 7, text: '{"key":"dark-mode","version":7,"on":true}' };
 */
export interface Item {
  /** One of the data set's kinds. */
  readonly kind: string;
  /** Unique within its kind. */
  readonly key: string;
  /** A non-negative safe integer that rises with every change of the item. */
  readonly version: number;
  /** The item's compact JSON as its source wrote it, unknown fields included, without a line break. */
  readonly text: string;
}

/**
 * A change of one item. `item` undefined says that it was deleted; `version` is then the deletion's own.
 *
 * @example
 * const gone: Change = { kind: 'flags', key: 'dark-mode', version: 8, item: undefined };
 */
export interface Change {
  readonly kind: string;
  readonly key: string;
  readonly version: number;
  readonly item: Item | undefined;
}

/** A version whose successors are exact: `last + 1` must stay a safe integer. */
const VERSION_MAX = Number.MAX_SAFE_INTEGER - 1;

/** UTF-8 bytes of an item's text: what it weighs in a page and in the log. */
export function textBytes(item: Item): number {
  return Buffer.byteLength(item.text);
}

/** Orders two keys by UTF-16 code units: total, and the same on every machine whatever its locale. */
export function compareKeys(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/**
 * A copy of an item that came from outside, once it is known to be one. A copy, because a snapshot must stay what
 * it is when the caller goes on using its own object.
 *
 * @throws HeadgateError HG_SOURCE when a field is not what an item needs.
 */
export function checkedItem(item: Item): Item {
  const { kind, key, version, text } = item;
  checkNames(kind, key, version);
  // the parameter's type is a promise of the caller's, and a source may break it
  if (typeof text !== 'string') throw refusal(kind, key, 'its text must be a string', typeof text);
  if (text.includes('\n') || text.includes('\r')) {
    throw refusal(kind, key, 'its text must have no line break, since a line of an event stream may not break', 'one');
  }
  return { kind, key, version, text };
}

/**
 * A copy of a change that came from outside, once it is known to be one.
 *
 * @throws HeadgateError HG_SOURCE when a field is not what a change needs, or its item is another one.
 */
export function checkedChange(change: Change): Change {
  const { kind, key, version } = change;
  checkNames(kind, key, version);
  if (change.item === undefined) return { kind, key, version, item: undefined };
  const item = checkedItem(change.item);
  if (item.kind !== kind || item.key !== key || item.version !== version) {
    throw refusal(kind, key, 'its item must be the same one', `${item.kind} ${item.key} version ${item.version}`);
  }
  return { kind, key, version, item };
}

function checkNames(kind: string, key: string, version: number): void {
  if (typeof kind !== 'string') throw refusal('?', String(key), 'its kind must be a string', typeof kind);
  if (typeof key !== 'string') throw refusal(kind, '?', 'its key must be a string', typeof key);
  if (!Number.isInteger(version) || version < 0 || version > VERSION_MAX) {
    throw refusal(kind, key, `its version must be an integer from 0 to ${VERSION_MAX}`, String(version));
  }
}

function refusal(kind: string, key: string, cause: string, got: string): HeadgateError {
  return new HeadgateError('HG_SOURCE', `Cannot take ${JSON.stringify(key)} of ${kind}: ${cause}, got ${got}`);
}
