import type { Change, Item } from './item.ts';
import type { KeptBatch, PendingWrite } from './kept.ts';
import type { ChangeLog, Prepared } from './log.ts';
import type { Resolved } from './resolve.ts';
import type { Snapshot } from './snapshot.ts';
import type { Tombstone, Tombstones } from './tombstones.ts';

/** A write that is drafted, and what it is drafted on. */
export interface Drafted {
  readonly result: PendingWrite['result'];
  readonly isWhole: boolean;
  readonly before: Snapshot;
  readonly snapshot: Snapshot;
  readonly resolved: Resolved;
  /** The batch, for 'changed'. */
  readonly prepared: Prepared | undefined;
}

/** A drafted write as a store sees it. */
export function pendingWrite(drafted: Drafted, log: ChangeLog, tombstones: Tombstones): PendingWrite {
  const { result, isWhole, before, snapshot, resolved, prepared } = drafted;
  const { offset, digest, clock } = snapshot;
  const { changes, graves } = resolved;
  const begins = result === 'loaded' || result === 'reset';
  const logFirst = begins ? offset : prepared === undefined ? log.reach : log.reachAfter(prepared);
  const newest = { offset: offset - 1, digest, clock };
  return {
    result,
    isWhole,
    offset,
    digest,
    clock,
    before: { offset: before.offset, digest: before.digest, clock: before.clock },
    changes,
    graves,
    logFirst,
    items: () => ({ [Symbol.iterator]: () => allItems(snapshot) }),
    tombstones: () => {
      const held = [...tombstones];
      return { [Symbol.iterator]: () => tombstonesAfter(held, [changes, graves], snapshot) };
    },
    log: (): KeptBatch[] => {
      if (begins) return [{ ...newest, keys: [] }];
      const kept = log.kept(logFirst);
      return prepared === undefined ? kept : [...kept, { ...newest, keys: prepared.entries }];
    },
  };
}

function* allItems(snapshot: Snapshot): Generator<Item> {
  for (const kind of snapshot.kinds) yield* snapshot.items(kind);
}

/** A key that was buried again comes twice, and the last counts. */
function* tombstonesAfter(
  before: readonly Tombstone[],
  lists: readonly (readonly Change[])[],
  snapshot: Snapshot,
): Generator<Tombstone> {
  for (const grave of before) if (snapshot.get(grave.kind, grave.key) === undefined) yield grave;
  for (const list of lists) {
    for (const { kind, key, version, item } of list) if (item === undefined) yield { kind, key, version };
  }
}
