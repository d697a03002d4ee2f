import type { Slices } from '../kernel/index.ts';
import { type Edit, itemsOf, sameItem } from './draft.ts';
import { type Change, compareKeys, type Item } from './item.ts';
import { Pace } from './pace.ts';
import type { Part, Snapshot } from './snapshot.ts';
import type { Tombstones } from './tombstones.ts';
import { withVersion } from './version-text.ts';

/**
 * Whose versions count. 'source': the items' own, and one that does not rise breaks the log. 'effective': the source
 * may leave a version as it was, or lower it, when it changes a text (files do); versions are raised to fit.
 */
export type Versions = 'source' | 'effective';

/** What is known of one key: its item, and the version that it has or was deleted at. */
interface Known {
  readonly item: Item | undefined;
  readonly version: number | undefined;
  /** Whether the version rose with every change that clients can see. */
  readonly rose: boolean;
}

/** What a write comes to. */
export interface Resolved {
  /** By kind, in key order: what becomes of the items. */
  readonly edits: Map<string, Edit[]>;
  /** The same as clients are to see it, in (kind, key) order. */
  readonly changes: Change[];
  /** Deletions of what was not there: nothing to send, but their versions count from now on. */
  readonly graves: Change[];
  /** By how much the clock rises. */
  rise: bigint;
  /** A version did not rise: none of this may be sent as a change. */
  broken: boolean;
}

/** Looking at the clock costs as much as a key that stayed as it was. */
const KEYS_PER_LOOK = 64;

/**
 * Finds out what incoming changes mean for what is held. Changes nothing.
 *
 * @param incoming - by kind, in key order, and in order of arrival within a key
 * @param how - `whole`: keys that did not come are deleted, and of a key that came twice the last counts
 */
export async function resolve(
  incoming: ReadonlyMap<string, readonly Change[]>,
  held: { readonly snapshot: Snapshot; readonly tombstones: Tombstones },
  how: { readonly versions: Versions; readonly whole: boolean },
  slices: Slices,
): Promise<Resolved> {
  const resolved: Resolved = { edits: new Map(), changes: [], graves: [], rise: 0n, broken: false };
  for (const part of held.snapshot.parts.values()) {
    const resolver = new Resolver(part.kind, held.tombstones, how.versions, resolved);
    const changes = incoming.get(part.kind) ?? [];
    if (how.whole) await replaceAll(part, changes, resolver, slices);
    else await applyEach(held.snapshot, changes, resolver, slices);
  }
  return resolved;
}

async function applyEach(
  snapshot: Snapshot,
  changes: readonly Change[],
  resolver: Resolver,
  slices: Slices,
): Promise<void> {
  const pace = new Pace(slices, KEYS_PER_LOOK);
  for (let at = 0; at < changes.length; ) {
    const { kind, key } = changes[at]!;
    const end = endOfKey(changes, at);
    resolver.settle(key, snapshot.get(kind, key), changes.slice(at, end));
    at = end;
    if (pace.due()) await pace.pause();
  }
}

async function replaceAll(part: Part, changes: readonly Change[], resolver: Resolver, slices: Slices): Promise<void> {
  const held = itemsOf(part.leaves);
  let live = held.next().value;
  let at = 0;
  const pace = new Pace(slices, KEYS_PER_LOOK);
  while (live !== undefined || at < changes.length) {
    const next = changes[at];
    const order = live === undefined ? 1 : next === undefined ? -1 : compareKeys(live.key, next.key);
    const item = order <= 0 ? live : undefined;
    if (order < 0) resolver.settle(live!.key, item, [unseen(live!)]);
    else {
      const end = endOfKey(changes, at);
      resolver.settle(next!.key, item, [changes[end - 1]!]);
      at = end;
    }
    if (order <= 0) live = held.next().value;
    if (pace.due()) await pace.pause();
  }
}

/** Nobody said at which version it went: the one after its last is the lowest that rises. */
function unseen({ kind, key, version }: Item): Change {
  return { kind, key, version: version + 1, item: undefined };
}

function endOfKey(changes: readonly Change[], from: number): number {
  const key = changes[from]!.key;
  let end = from + 1;
  while (changes[end]?.key === key) end++;
  return end;
}

/** Settles key after key of one kind, in order. */
class Resolver {
  readonly #kind: string;
  readonly #tombstones: Tombstones;
  readonly #step: (known: Known, change: Change) => Known;
  readonly #resolved: Resolved;
  readonly #edits: Edit[] = [];

  constructor(kind: string, tombstones: Tombstones, versions: Versions, resolved: Resolved) {
    this.#kind = kind;
    this.#tombstones = tombstones;
    this.#step = versions === 'source' ? sourceStep : effectiveStep;
    this.#resolved = resolved;
    resolved.edits.set(kind, this.#edits);
  }

  settle(key: string, live: Item | undefined, changes: readonly Change[]): void {
    const before = live?.version ?? this.#tombstones.versionOf(this.#kind, key);
    let known: Known = { item: live, version: before, rose: true };
    for (const change of changes) {
      const nothing = known.item === undefined && change.item === undefined;
      known = nothing ? buryAgain(known, change) : this.#step(known, change);
    }
    const { item, version = 0, rose } = known;
    if (version > (before ?? 0)) this.#resolved.rise += BigInt(version - (before ?? 0));
    if (item === live) {
      if (item === undefined) this.#resolved.graves.push({ kind: this.#kind, key, version, item });
      return;
    }
    if (!rose) this.#resolved.broken = true;
    this.#edits.push({ key, before: live, after: item });
    this.#resolved.changes.push({ kind: this.#kind, key, version, item });
  }
}

function sourceStep({ item, version, rose }: Known, change: Change): Known {
  if (item !== undefined && change.item !== undefined && sameItem(item, change.item)) return { item, version, rose };
  const rises = version === undefined || change.version > version;
  // what counts is the highest that clients may have seen, whatever the source says: no tombstone falls below it
  const next = Math.max(version ?? 0, change.version);
  return { item: change.item, version: next, rose: rose && rises };
}

function effectiveStep({ item, version, rose }: Known, change: Change): Known {
  const next = version === undefined ? change.version : Math.max(change.version, version + 1);
  if (change.item === undefined) return { item: undefined, version: next, rose };
  // only the number is older: for whoever reads it, nothing changed
  if (item !== undefined && change.version <= item.version && isText(item, change.item.text))
    return { item, version, rose };
  const text = withVersion(change.item.text, next);
  return { item: { kind: change.kind, key: change.key, version: next, text }, version: next, rose };
}

/** Deleting what is not there shows nobody anything, so its version cannot fail to rise; but the highest one counts. */
function buryAgain({ item, version, rose }: Known, change: Change): Known {
  return { item, version: Math.max(version ?? 0, change.version), rose };
}

/** Whether a text differs from an item's in the number of its version at most. */
function isText(item: Item, text: string): boolean {
  return text === item.text || withVersion(text, item.version) === item.text;
}
