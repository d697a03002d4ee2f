import type { FlagRecord, Holdings } from './holdings.ts';
import { Packer } from './packed.ts';
import type { Queries, Reason, RevivedFlag, Vendor, Verdict } from './sdk.ts';
import type { EvaluateMessage, KnownMemberships, PackedFlags } from './types.ts';

/** What came of an evaluation. */
export interface EvaluationOutcome {
  readonly packed: PackedFlags;
  /** Keys of contexts whose memberships had a say. */
  readonly consulted: readonly string[];
  /** Those of them of which nothing is known. */
  readonly unknown: readonly string[];
}

/** What a flag gets whose evaluation went wrong, so that one malformed flag costs no other its value. */
const EXCEPTION: Verdict = { detail: { value: null, reason: { kind: 'ERROR', errorKind: 'EXCEPTION' } as Reason } };

/** Evaluates flags of one state, which must not change until this has resolved. */
export async function evaluateFlags(
  vendor: Vendor,
  holdings: Holdings,
  { context: json, audience, withReasons, keys, memberships }: EvaluateMessage,
): Promise<EvaluationOutcome> {
  const context = vendor.context(json);
  const records = holdings.visible(audience, keys);
  const queries = new HeldQueries(holdings, memberships);
  const evaluator = vendor.evaluator(queries);
  const verdicts: (Verdict | undefined)[] = Array.from<undefined>({ length: records.length });
  let waiting = 0;
  for (const [at, { flag }] of records.entries()) {
    let answered = false;
    try {
      evaluator.evaluateCb(flag, context, (verdict) => {
        if (!answered && verdicts[at] === undefined) verdicts[at] = verdict;
        answered = true;
      });
    } catch {
      verdicts[at] = EXCEPTION;
    }
    if (verdicts[at] === undefined) waiting++;
  }
  // long lists and big segments are gone through in microtasks: after a turn of the loop all are done, or have thrown
  if (waiting > 0) await new Promise<void>((resolve) => setImmediate(resolve));
  const packer = new Packer();
  for (const [at, record] of records.entries()) {
    packer.add(record.key, record.version, textsOf(record, verdicts[at] ?? EXCEPTION, withReasons));
  }
  return {
    packed: packer.pack(),
    consulted: [...queries.consulted].toSorted(),
    unknown: [...queries.unknown].toSorted(),
  };
}

/** Answers from what one thread holds, and notes whose memberships are asked for. */
class HeldQueries implements Queries {
  readonly consulted = new Set<string>();
  readonly unknown = new Set<string>();
  readonly #holdings: Holdings;
  readonly #memberships: KnownMemberships | undefined;

  constructor(holdings: Holdings, memberships: KnownMemberships | undefined) {
    this.#holdings = holdings;
    this.#memberships = memberships;
  }

  getFlag(key: string, answer: (flag: RevivedFlag | undefined) => void): void {
    answer(this.#holdings.flag(key)?.flag);
  }

  getSegment(key: string, answer: Parameters<Queries['getSegment']>[1]): void {
    answer(this.#holdings.segment(key));
  }

  getBigSegmentsMembership(contextKey: string): ReturnType<Queries['getBigSegmentsMembership']> {
    if (this.#memberships === undefined) return Promise.resolve(undefined);
    this.consulted.add(contextKey);
    const known = this.#memberships.get(contextKey);
    if (known === undefined) this.unknown.add(contextKey);
    return Promise.resolve([known?.membership ?? null, known?.status ?? 'HEALTHY']);
  }
}

/** The members in the order in which the vendor's relay writes them; the version goes between the first and the second. */
function textsOf(
  { flag, values }: FlagRecord,
  { detail, prerequisites }: Verdict,
  withReasons: boolean,
): [head: string, tail: string, extra: string] {
  const variation = detail.variationIndex ?? undefined;
  const head = `"value":${valueOf(values, variation, detail.value)}${variation === undefined ? '' : `,"variation":${variation}`}`;
  const experiment = isExperiment(flag, detail.reason);
  let tail = '';
  if (experiment || flag.trackEvents === true) tail += ',"trackEvents":true';
  if (experiment) tail += ',"trackReason":true';
  if (experiment || withReasons) tail += `,"reason":${JSON.stringify(detail.reason)}`;
  if (flag.debugEventsUntilDate !== undefined)
    tail += `,"debugEventsUntilDate":${JSON.stringify(flag.debugEventsUntilDate)}`;
  if (prerequisites !== undefined && prerequisites.length > 0)
    tail += `,"prerequisites":${JSON.stringify(prerequisites)}`;
  const extra = flag.samplingRatio === undefined ? '' : `,"samplingRatio":${JSON.stringify(flag.samplingRatio)}`;
  return [head, tail, extra];
}

/** A flag has few values, which many contexts get. */
function valueOf(values: Map<number, string>, variation: number | undefined, value: unknown): string {
  if (variation === undefined) return JSON.stringify(value ?? null);
  let text = values.get(variation);
  if (text === undefined) values.set(variation, (text = JSON.stringify(value ?? null)));
  return text;
}

/** Whether the vendor wants events of this evaluation with all details, whatever the client asked for. */
function isExperiment(flag: RevivedFlag, { kind, ruleIndex, inExperiment }: Reason): boolean {
  if (inExperiment === true) return true;
  if (kind === 'RULE_MATCH') return flag.rules?.[ruleIndex ?? -1]?.trackEvents === true;
  return kind === 'FALLTHROUGH' && flag.trackEventsFallthrough === true;
}
