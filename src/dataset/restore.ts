import { HeadgateError, messageOf, type Slices } from '../kernel/index.ts';
import { draftPart, type Edit, emptyPart } from './draft.ts';
import { type Incoming, takeItems } from './intake.ts';
import { checkedChange } from './item.ts';
import type { KeptData } from './kept.ts';
import type { Meter } from './leaf.ts';
import type { LogParts } from './log.ts';
import { takeLog } from './log-restore.ts';
import { Pace } from './pace.ts';
import { type Part, Snapshot } from './snapshot.ts';
import { type Tombstone, Tombstones } from './tombstones.ts';
import type { Usage } from './usage.ts';

const KEYS_PER_LOOK = 64;

/** Where kept data goes. */
export interface RestoreTarget {
  readonly name: string;
  readonly kinds: readonly string[];
  readonly meter: Meter;
  readonly usage: Usage;
  readonly tombstonesMax: number;
}

/** Kept data, ready to become the present. */
export interface Restored {
  readonly snapshot: Snapshot;
  readonly tombstones: Tombstones;
  readonly log: LogParts;
}

/**
 * Makes a data set of what was kept of it, in slices. Changes nothing.
 *
 * @throws HeadgateError HG_STORE when it is not whole, or no data set.
 */
export async function takeKept(kept: KeptData, target: RestoreTarget, slices: Slices): Promise<Restored> {
  const { offset, clock } = kept;
  for (const [what, value] of Object.entries({ offset, clock })) {
    if (!Number.isSafeInteger(value) || value < 0) throw refusal(target, `its ${what} must be an integer`, value);
  }
  const incoming = await taken(target, () => takeItems(target.kinds, kept.items, slices));
  const parts = new Map<string, Part>();
  for (const kind of target.kinds) {
    const edits = await editsOf(incoming, kind, slices);
    const { part } = await draftPart(emptyPart(kind), edits, target.meter, slices);
    parts.set(kind, part);
  }
  const snapshot = new Snapshot({ parts, offset, clock, usage: target.usage });
  if (snapshot.digest !== kept.digest) {
    throw refusal(target, `its items must add up to ${kept.digest}`, `${snapshot.digest} of ${snapshot.count}`);
  }
  const tombstones = await taken(target, () => tombstonesOf(kept.tombstones, snapshot, target, slices));
  return { snapshot, tombstones, log: await takeLog(kept.log, snapshot, slices) };
}

/** Of a key that comes twice the last counts; what was kept of it says whether that is right. */
async function editsOf(incoming: Incoming, kind: string, slices: Slices): Promise<Edit[]> {
  const pace = new Pace(slices, KEYS_PER_LOOK);
  const edits: Edit[] = [];
  for (const { key, item } of incoming.get(kind) ?? []) {
    if (edits.at(-1)?.key === key) edits.pop();
    edits.push({ key, before: undefined, after: item });
    if (pace.due()) await pace.pause();
  }
  return edits;
}

async function tombstonesOf(
  kept: Iterable<Tombstone>,
  snapshot: Snapshot,
  { kinds, tombstonesMax }: RestoreTarget,
  slices: Slices,
): Promise<Tombstones> {
  const pace = new Pace(slices, KEYS_PER_LOOK);
  const tombstones = new Tombstones(tombstonesMax);
  for (const grave of kept) {
    const { kind, key, version } = checkedChange({ ...grave, item: undefined });
    if (kinds.includes(kind) && snapshot.get(kind, key) === undefined) tombstones.bury(kind, key, version);
    if (pace.due()) await pace.pause();
  }
  return tombstones;
}

/** What comes from a store and cannot be used is the store's failure, whoever finds out. */
async function taken<T>({ name }: RestoreTarget, take: () => Promise<T>): Promise<T> {
  try {
    return await take();
  } catch (thrown) {
    if (thrown instanceof HeadgateError && thrown.code === 'HG_STORE') throw thrown;
    throw new HeadgateError('HG_STORE', `Cannot restore ${name}: ${messageOf(thrown)}`, { cause: thrown });
  }
}

function refusal({ name }: RestoreTarget, cause: string, got: unknown): HeadgateError {
  return new HeadgateError('HG_STORE', `Cannot restore ${name}: ${cause}, got ${String(got)}`);
}
