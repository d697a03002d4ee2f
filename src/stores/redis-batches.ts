import type { Change, Item } from '../dataset/index.ts';
import type { Arg, Command } from './redis-client.ts';
import { APPEND, GATE, PUT, SHUT, SWEEP } from './redis-scripts.ts';
import { namespaceOf, vendorText } from './vendor-items.ts';

/** The names of one environment's keys. */
export interface FlagKeys {
  readonly order: string;
  readonly epoch: string;
  readonly gate: string;
  readonly state: string;
  readonly inited: string;
  /** Where items of a kind are. */
  hash(kind: string): string;
}

export function flagKeys(prefix: string): FlagKeys {
  return {
    order: `${prefix}:headgate:order`,
    epoch: `${prefix}:headgate:epoch`,
    gate: `${prefix}:headgate:gate`,
    state: `${prefix}:headgate:state`,
    inited: `${prefix}:$inited`,
    hash: (kind) => `${prefix}:${namespaceOf(kind)}`,
  };
}

/** What the order must be for a transaction to be carried out. */
export interface Expected {
  readonly epoch: string;
  readonly place: number;
  /** At that place: after a failover another writer may have come to it first. */
  readonly digest: string;
}

/** What is appended to the order, as `APPEND` takes it. */
export interface Append {
  readonly epoch: string;
  readonly place: number;
  readonly digest: string;
  readonly clock: number;
  readonly before: string;
  readonly isReset: boolean;
  /** JSON: `[kind, key, version, deleted]` of each. */
  readonly keys: string;
  readonly lengthMax: number;
  /** Redis holds a whole data set from now on. */
  readonly isWhole: boolean;
}

/** Redis carries one script out at a time, and serves nobody else meanwhile. */
const PUT_ENTRIES_MAX = 500;
const PUT_BYTES_MAX = 1024 * 1024;
const SWEEP_ENTRIES_MAX = 1000;

export function gate(keys: FlagKeys, { epoch, place, digest }: Expected): Command {
  return ['EVAL', GATE, 3, keys.order, keys.epoch, keys.gate, epoch, `${place}-0`, digest];
}

export function shut(keys: FlagKeys): Command {
  return ['EVAL', SHUT, 1, keys.gate];
}

export function append(keys: FlagKeys, entry: Append): Command {
  const names = [keys.gate, keys.order, keys.epoch, keys.inited];
  const { epoch, place, digest, clock, before, isReset, lengthMax, isWhole } = entry;
  const flags = [Number(isReset), entry.keys, lengthMax, Number(isWhole)];
  return ['EVAL', APPEND, names.length, ...names, epoch, `${place}-0`, digest, clock, before, ...flags];
}

/** Writes items and deletions, in commands of bounded size. */
export function* puts(
  keys: FlagKeys,
  how: 'newer' | 'higher' | 'all',
  changes: Iterable<Change | Item>,
): Generator<Command> {
  const open = new Map<string, { args: Arg[]; bytes: number }>();
  const command = (kind: string, args: readonly Arg[]): Command => {
    return ['EVAL', PUT, 2, keys.gate, keys.hash(kind), how, ...args];
  };
  for (const each of changes) {
    const { kind, key, version } = each;
    const text = 'text' in each ? each.text : vendorText(each);
    const list = open.get(kind) ?? { args: [], bytes: 0 };
    open.set(kind, list);
    const bytes = text.length + key.length;
    if (list.args.length > 0 && (list.args.length >= 3 * PUT_ENTRIES_MAX || list.bytes + bytes > PUT_BYTES_MAX)) {
      yield command(kind, list.args);
      list.args = [];
      list.bytes = 0;
    }
    list.args.push(key, version, text);
    list.bytes += bytes;
  }
  for (const [kind, { args }] of open) if (args.length > 0) yield command(kind, args);
}

/**
 * Deletes what is still at the version at which it was seen. A grave of that version stays: a replica that lags has the
 * item at no higher one, and with nothing there it would pass for something new.
 */
export function* sweeps(
  keys: FlagKeys,
  kind: string,
  rows: readonly { readonly key: string; readonly version: number }[],
): Generator<Command> {
  for (let at = 0; at < rows.length; at += SWEEP_ENTRIES_MAX) {
    const args = rows.slice(at, at + SWEEP_ENTRIES_MAX).flatMap(({ key, version }) => {
      return [key, version, version < 0 ? '' : vendorText({ kind, key, version, item: undefined })];
    });
    yield ['EVAL', SWEEP, 2, keys.gate, keys.hash(kind), ...args];
  }
}

/** Deletes all items of a kind. */
export function clear(keys: FlagKeys, kind: string): Command {
  return ['EVAL', SWEEP, 2, keys.gate, keys.hash(kind)];
}
