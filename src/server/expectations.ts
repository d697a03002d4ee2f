/** What became of one clause. */
interface Verdict {
  readonly expr: string;
  readonly expected?: string;
  readonly actual?: string;
  /** Why it could not be looked at. */
  readonly problem?: string;
  readonly ok: boolean;
}

/** What a status is asked to be, and whether it is. */
export interface Judgement {
  /** 200: every clause holds. 412: one does not. 422: one names what no status has. 400: one cannot be read. */
  readonly status: 200 | 400 | 412 | 422;
  readonly body: { readonly satisfied: boolean; readonly results: readonly Verdict[] };
}

type Outcome = Judgement['status'];

/** Whether a member of this name can stand in a status at all, below a member of that name. */
type Known = (name: string, parent: string | undefined) => boolean;

type Step = string | number | { readonly field: string; readonly value: string };

/** The request is unauthenticated and costs work for each clause. */
const CLAUSES_MAX = 32;
const CLAUSE_LENGTH_MAX = 512;

/**
 * Looks whether a status is as a probe expects it, so that a script can branch on the answer's status: each clause is
 * `path=value` or `path!=value`, as in `connectionStatus.state=VALID`; a path goes through members (`a.b`, `a["b.c"]`),
 * elements (`a[0]`) and the first element with a field of some value (`a[key=x]`). A clause that cannot be looked at never
 * counts as one that holds.
 *
 * @param known - a member that is only absent now does not hold; one that can never be there is a slip of whoever asks
 * @example
 * console.log(judge({ status: 'healthy' }, ['status=healthy'], () => true).status); // 200
 * console.log(judge({ status: 'degraded' }, ['status=healthy'], () => true).status); // 412
 */
export function judge(document: object, clauses: readonly string[], known: Known): Judgement {
  let status: Outcome = 200;
  const results: Verdict[] = [];
  for (const expr of clauses.slice(0, CLAUSES_MAX)) {
    const { outcome, ...verdict } = judgeOne(document, expr, known);
    if (RANK[outcome] > RANK[status]) status = outcome;
    results.push({ expr, ...verdict, ok: outcome === 200 });
  }
  if (clauses.length > CLAUSES_MAX) {
    status = 400;
    const problem = `there may be ${CLAUSES_MAX} clauses, got ${clauses.length}`;
    results.push({ expr: clauses[CLAUSES_MAX] ?? '', problem, ok: false });
  }
  return { status, body: { satisfied: status === 200, results } };
}

/** What cannot be read is worse than what cannot be looked at, and that is worse than what does not hold. */
const RANK: Readonly<Record<Outcome, number>> = { 200: 0, 412: 1, 422: 2, 400: 3 };

interface Finding {
  readonly outcome: Outcome;
  readonly problem?: string;
  readonly expected?: string;
  readonly actual?: string;
}

function judgeOne(document: object, expr: string, known: Known): Finding {
  if (expr.length > CLAUSE_LENGTH_MAX) {
    return { outcome: 400, problem: `a clause may have ${CLAUSE_LENGTH_MAX} characters, got ${expr.length}` };
  }
  // operators inside brackets belong to the path
  const parts = /^((?:\[[^\]]*\]|[^[=!<>~])+)([=!<>~]+)([\s\S]*)$/.exec(expr);
  if (parts === null) return { outcome: 400, problem: 'expected path=value or path!=value' };
  const [, path = '', operator = '', expected = ''] = parts;
  if (operator !== '=' && operator !== '!=') {
    return { outcome: 422, problem: `expected the operator = or !=, got ${operator}` };
  }
  const steps = stepsOf(path);
  if (steps === undefined) return { outcome: 400, problem: `expected a path as in a.b or a["b.c"], got ${path}` };
  const found = walk(document, steps);
  if (found === undefined) {
    const strange = steps.find((step, at) => typeof step === 'string' && !known(step, nameAt(steps, at - 1)));
    if (strange !== undefined) return { outcome: 422, problem: `no status has a member ${JSON.stringify(strange)}` };
    return { outcome: 412, expected, actual: '' };
  }
  if (typeof found === 'object') return { outcome: 422, problem: `${path} is no single value` };
  const actual = typeof found === 'string' ? found : JSON.stringify(found);
  return { outcome: (actual === expected) === (operator === '=') ? 200 : 412, expected, actual };
}

function nameAt(steps: readonly Step[], at: number): string | undefined {
  const step = steps[at];
  return typeof step === 'string' ? step : undefined;
}

const STEP = /\.?([^.[\]]+)|\[(?:"([^"\]]*)"|'([^'\]]*)'|(\d+)|([^=\]]+)=([^\]]*))\]/y;

function stepsOf(path: string): readonly Step[] | undefined {
  const steps: Step[] = [];
  STEP.lastIndex = 0;
  while (STEP.lastIndex < path.length) {
    const match = STEP.exec(path);
    if (match === null) return undefined;
    const [, name, quoted, single, index, field, value] = match;
    const key = name ?? quoted ?? single;
    if (key !== undefined) steps.push(key);
    else if (index !== undefined) steps.push(Number(index));
    else if (field !== undefined) steps.push({ field, value: (value ?? '').replace(/^(["'])(.*)\1$/, '$2') });
  }
  return steps.length === 0 ? undefined : steps;
}

function walk(document: object, steps: readonly Step[]): unknown {
  let here: unknown = document;
  for (const step of steps) {
    if (typeof here !== 'object' || here === null) return undefined;
    if (typeof step === 'object') {
      const elements: readonly unknown[] = Array.isArray(here) ? here : [];
      here = elements.find((element) => String(memberOf(element, step.field)) === step.value);
    } else here = memberOf(here, String(step));
  }
  return here ?? undefined;
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
}
