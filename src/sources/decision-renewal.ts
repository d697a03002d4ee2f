import { type Decision, IDS_PER_SOURCE, type Ledger } from '../dataset/decisions/index.ts';
import { Slices } from '../kernel/index.ts';
import { isIdOf, isLeased } from './decision-ids.ts';

/** How many decisions are renewed in one commit: some megabytes of objects at a time. */
const AT_ONCE = 5000;

/**
 * Renews the decisions of a source that last as long as they are listed. They are taken from the ledger and not from the
 * files: so they are renewed too while a file cannot be read, which is no reason to lift a ban.
 */
export async function renewLeased(
  ledger: Ledger,
  source: number,
  { untilMs, wallNow }: { readonly untilMs: number; readonly wallNow: () => number },
): Promise<void> {
  const slices = new Slices();
  let decisions: Decision[] = [];
  const renew = async (): Promise<void> => {
    const added = decisions;
    decisions = [];
    await ledger.patch(source, { added, removedIds: [] }, { nowMs: wallNow(), toleranceMs: 0 });
  };
  // The columns are replaced when they grow, which may be during a pause.
  for (let row = 0; row < ledger.rows.size; row++) {
    const decision = leasedAt(ledger, row, source);
    if (decision !== undefined && decision.untilMs < untilMs) decisions.push({ ...decision, untilMs });
    if (decisions.length >= AT_ONCE) await renew();
    if (slices.due()) await slices.pause();
  }
  if (decisions.length > 0) await renew();
}

/**
 * The live decision of this source in a row, if it is leased. One whose number is not its own is of another source, which
 * had the number of this one in an earlier life.
 */
function leasedAt({ rows }: Ledger, row: number, source: number): Decision | undefined {
  if (rows.source[row] !== source || rows.added[row] === 0 || rows.removed[row] !== 0) return undefined;
  const id = (rows.id[row] as number) - source * IDS_PER_SOURCE;
  if (!isLeased(id)) return undefined;
  const identity = {
    leased: true,
    origin: rows.origins.textOf(rows.origin[row] as number),
    scenario: rows.scenarios.textOf(rows.scenario[row] as number),
    scope: rows.scopes.textOf(rows.scope[row] as number),
    type: rows.types.textOf(rows.type[row] as number),
    value: rows.valueOf(row),
  };
  if (!isIdOf(id, identity)) return undefined;
  const { leased: _, ...rest } = identity;
  return { id, uuid: undefined, ...rest, untilMs: rows.untilMs[row] as number, simulated: rows.simulated[row] === 1 };
}
