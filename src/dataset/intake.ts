import { HeadgateError, type Slices } from '../kernel/index.ts';
import { type Change, checkedChange, checkedItem, type Item } from './item.ts';
import { Pace } from './pace.ts';
import { sortByKey } from './sort.ts';

/** Checking and copying an item takes a third of a microsecond. */
const ITEMS_PER_LOOK = 64;

/** Incoming changes by kind, in key order, and in order of arrival within a key. */
export type Incoming = ReadonlyMap<string, readonly Change[]>;

/**
 * Takes changes in: checked, copied and sorted.
 *
 * @throws HeadgateError HG_SOURCE for a change that is none or of an unknown kind.
 */
export async function takeChanges(
  kinds: readonly string[],
  changes: readonly Change[],
  slices: Slices,
): Promise<Incoming> {
  const intake = new Intake(kinds);
  const pace = new Pace(slices, ITEMS_PER_LOOK);
  for (const change of changes) {
    intake.take(checkedChange(change));
    if (pace.due()) await pace.pause();
  }
  return intake.sorted(slices);
}

/**
 * Takes a whole data set in. What the iterable throws is thrown on.
 *
 * @throws HeadgateError HG_SOURCE for an item that is none or of an unknown kind.
 */
export async function takeItems(
  kinds: readonly string[],
  items: Iterable<Item> | AsyncIterable<Item>,
  slices: Slices,
): Promise<Incoming> {
  const intake = new Intake(kinds);
  const pace = new Pace(slices, ITEMS_PER_LOOK);
  const take = (item: Item): boolean => {
    const checked = checkedItem(item);
    intake.take({ kind: checked.kind, key: checked.key, version: checked.version, item: checked });
    return pace.due();
  };
  if (Symbol.asyncIterator in items) {
    for await (const item of items) if (take(item)) await pace.pause();
  } else {
    for (const item of items) if (take(item)) await pace.pause();
  }
  return intake.sorted(slices);
}

class Intake {
  readonly #byKind: Map<string, Change[]>;

  constructor(kinds: readonly string[]) {
    this.#byKind = new Map(kinds.map((kind) => [kind, []]));
  }

  take(change: Change): void {
    const changes = this.#byKind.get(change.kind);
    if (changes === undefined) {
      const known = [...this.#byKind.keys()].join(', ');
      throw new HeadgateError(
        'HG_SOURCE',
        `Cannot take ${JSON.stringify(change.key)}: its kind must be one of ${known}, got ${change.kind}`,
      );
    }
    changes.push(change);
  }

  async sorted(slices: Slices): Promise<Incoming> {
    const sorted = new Map<string, readonly Change[]>();
    for (const [kind, changes] of this.#byKind) sorted.set(kind, await sortByKey(changes, slices));
    return sorted;
  }
}
