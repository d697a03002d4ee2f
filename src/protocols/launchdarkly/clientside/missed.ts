import type { CatchUp, Change } from '../../../dataset/index.ts';
import type { Evaluated } from '../evaluation/types.ts';
import { KIND_FLAG } from '../words.ts';
import type { Evaluating } from './deps.ts';
import type { ClientFeeds } from './feeds.ts';
import type { Fingerprints } from './fingerprints.ts';
import type { Asked, Question } from './question.ts';
import type { ValueChange } from './values.ts';

/** Who asks, and what. */
export type Asker = Pick<Asked, 'environment' | 'audience'> & { readonly question: Question };

/** Values that may have changed since an offset, as they are now, and the state to which they lead. */
export interface Missed {
  readonly from: number;
  readonly to: { readonly offset: number; readonly digest: string; readonly clock: number };
  readonly evaluated: Evaluated;
  /** The flags among what changed, by key. */
  readonly direct: ReadonlyMap<string, Change>;
}

/**
 * Which flags may have another value after these changes. Found out once for all who miss the same, unless that fails: what
 * is remembered stays until the next change, and a thread that ended is no reason to send everybody away until then.
 */
export async function affectedBy(
  evaluations: Evaluating,
  environmentId: string,
  changes: CatchUp,
): Promise<readonly string[]> {
  const known = changes.memo('eval/affected', (): { keys?: ReturnType<Evaluating['affected']> } => ({}));
  try {
    return await (known.keys ??= evaluations.affected(environmentId, changes.keys));
  } catch (error) {
    delete known.keys;
    throw error;
  }
}

/**
 * Evaluates for one context what may have changed for it since an offset. Undefined: the log does not reach back so far.
 * `'nothing'`: no value can have changed; `'later'`: the evaluator has not got that far.
 *
 * The evaluator has a copy of the data that goes its own way: the values may be newer than the changes that they were
 * evaluated for, or older. What they lead to is the older of the two states; whatever is newer is sent again.
 */
export async function evaluateMissed(
  evaluations: Evaluating,
  { environment, audience, question }: Asker,
  from: number,
  signal?: AbortSignal,
): Promise<Missed | 'nothing' | 'later' | undefined> {
  const changes = environment.data.sinceOffset(from);
  if (changes === undefined) return undefined;
  const keys = await affectedBy(evaluations, environment.info.id, changes);
  if (keys.length === 0) return 'nothing';
  const evaluated = await evaluations.evaluate({
    environmentId: environment.info.id,
    context: question.context,
    withReasons: question.withReasons,
    audience,
    keys,
    ...(signal === undefined ? {} : { signal }),
  });
  if (evaluated.offset < changes.to && evaluated.offset <= from) return 'later';
  const to = evaluated.offset < changes.to ? evaluated : { ...pick(changes), offset: changes.to };
  return { from, to, evaluated, direct: changes.memo('eval/direct', () => directOf(changes)) };
}

function pick({ digest, clock }: CatchUp): { digest: string; clock: number } {
  return { digest, clock };
}

function directOf({ keys }: CatchUp): ReadonlyMap<string, Change> {
  return new Map(keys.filter(({ kind }) => kind === KIND_FLAG).map((change) => [change.key, change]));
}

/**
 * What a client is sent of it. A deletion is told only where the client has the flag, or may have it.
 *
 * @param prints - what it was sent; absent: unknown
 */
export function changesOf(
  { from, evaluated, direct }: Missed,
  feeds: ClientFeeds,
  { audience }: Pick<Asked, 'audience'>,
  prints?: Fingerprints,
): ValueChange[] {
  const { visible } = feeds.of(audience);
  const changes: ValueChange[] = [];
  for (const flag of evaluated.flags) {
    if (prints === undefined || prints.isNews(flag)) changes.push({ key: flag.key, version: flag.version, flag });
  }
  for (const key of evaluated.absent) {
    const change = direct.get(key);
    if (change === undefined) continue;
    if (prints?.had(key) ?? visible.mayBeKnown(key, from)) {
      changes.push({ key, version: change.version, flag: undefined });
    }
  }
  return changes;
}

/** Two things that were known of big segments, as one. Whoever names what is not empty is evaluated anew. */
export function revisionsOf(before: string, now: string): string {
  return before === now || now === '' ? before : `${before}\n${now}`;
}
