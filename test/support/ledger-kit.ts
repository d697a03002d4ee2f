import { type Decision, type Filter, type Ledger, matcherOf, type Rows } from '../../src/dataset/decisions/index.ts';

/** A moment to begin at. */
export const NOW_MS = 1_800_000_000_000;
export const MINUTE_MS = 60_000;
export const HOUR_MS: number = 60 * MINUTE_MS;

/** A decision that ends in four hours, unless told otherwise. */
export function ban(id: number, value: string, more: Partial<Decision> = {}): Decision {
  return {
    id,
    uuid: undefined,
    origin: 'cscli',
    scenario: 'manual ban',
    scope: 'Ip',
    type: 'ban',
    value,
    untilMs: NOW_MS + 4 * HOUR_MS,
    simulated: false,
    ...more,
  };
}

/** Everything that a source holds, at once. */
export async function load(
  ledger: Ledger,
  decisions: Iterable<Decision>,
  o: { source?: number; nowMs?: number; toleranceMs?: number; simulatedToo?: boolean } = {},
): ReturnType<Ledger['patch']> {
  const { source = 0, nowMs = NOW_MS, toleranceMs = 0, simulatedToo = false } = o;
  const read = ledger.begin(source, { toleranceMs, simulatedToo });
  for (const decision of decisions) read.add(decision);
  return read.commit(nowMs);
}

/** What a source says has changed. */
export function patch(
  ledger: Ledger,
  added: readonly Decision[],
  o: { removedIds?: readonly number[]; source?: number; nowMs?: number; toleranceMs?: number } = {},
): ReturnType<Ledger['patch']> {
  const { removedIds = [], source = 0, nowMs = NOW_MS, toleranceMs = 0 } = o;
  return ledger.patch(source, { added, removedIds }, { nowMs, toleranceMs });
}

/** Rows by the order in which readers get them, live ones only. */
export function liveRows(ledger: Ledger): number[] {
  return [...ledger.rows.order()].filter((row) => ledger.rows.visible(row, ledger.offset));
}

/** The live row of a shown id; there must be one. */
export function rowOf(ledger: Ledger, id: number): number {
  const row = liveRows(ledger).find((candidate) => ledger.rows.id[candidate] === id);
  if (row === undefined) throw new Error(`Cannot find a row: none is live with this id, got ${id}`);
  return row;
}

/** (scope, type, value), as bouncers tell decisions apart. */
export function groupName(rows: Rows, row: number): string {
  const scope = rows.scopes.textOf(rows.scope[row] as number);
  return `${scope} ${rows.types.textOf(rows.type[row] as number)} ${rows.valueOf(row)}`;
}

/** What a bouncer is told. */
export interface Telling {
  readonly fresh: readonly number[];
  readonly gone: readonly number[];
}

/** The longest of rows, of equal ones the lowest id; undefined when there is none. */
function longestOf(rows: Rows, among: readonly number[]): number | undefined {
  const better = (a: number, b: number): boolean => {
    const later = (rows.untilMs[a] as number) - (rows.untilMs[b] as number);
    return later > 0 || (later === 0 && (rows.id[a] as number) < (rows.id[b] as number));
  };
  return among.reduce<number | undefined>(
    (best, row) => (best === undefined || better(row, best) ? row : best),
    undefined,
  );
}

function rowsOfGroup(rows: Rows, group: number): number[] {
  const found: number[] = [];
  for (let row = rows.groupHead[group] as number; row >= 0; row = rows.next[row] as number) found.push(row);
  return found;
}

/** A full answer, made the plain way. */
export function fullOf({ rows, offset }: Ledger, filter: Filter, dedup: boolean): Telling {
  const matches = matcherOf(filter, rows);
  const fresh: number[] = [];
  const gone: number[] = [];
  const groups = new Set(
    [...rows.order()].filter((row) => rows.added[row] !== 0).map((row) => rows.group[row] as number),
  );
  for (const group of groups) {
    const all = rowsOfGroup(rows, group).filter(matches);
    const live = all.filter((row) => rows.visible(row, offset));
    const told = live.length > 0 ? live : all.filter((row) => (rows.removed[row] as number) !== 0);
    const best = longestOf(rows, told);
    const list = live.length > 0 ? fresh : gone;
    if (best !== undefined) list.push(...(dedup ? [best] : told));
  }
  return { fresh, gone };
}

/** The answer to a cursor, made the plain way. */
export function deltaOf(ledger: Ledger, filter: Filter, o: { dedup: boolean; from: number }): Telling {
  const { rows, offset } = ledger;
  const matches = matcherOf(filter, rows);
  const groups = new Set<number>();
  ledger.log.eachSince(o.from, (row) => groups.add(rows.group[row] as number));
  const fresh: number[] = [];
  const gone: number[] = [];
  for (const group of groups) {
    const all = rowsOfGroup(rows, group).filter(matches);
    const live = all.filter((row) => rows.visible(row, offset));
    const goneSince = all.filter((row) => {
      const removed = rows.removed[row] as number;
      return removed > o.from && removed <= offset;
    });
    const survivor = longestOf(rows, live);
    const longestGone = longestOf(rows, goneSince);
    if (survivor === undefined) {
      if (longestGone !== undefined) gone.push(...(o.dedup ? [longestGone] : goneSince));
      continue;
    }
    const outlived =
      longestGone !== undefined && (rows.untilMs[longestGone] as number) > (rows.untilMs[survivor] as number);
    const touched = live.filter((row) => (rows.touched[row] as number) > o.from || (outlived && row === survivor));
    fresh.push(...(o.dedup ? touched.filter((row) => row === survivor) : touched));
  }
  return { fresh, gone };
}
