import { writeFileSync } from 'node:fs';

/** Contexts that are in turn of one of these countries and plans: some match a rule, some none. */
const COUNTRIES = ['NL', 'FR', 'DE', 'US', 'JP'];
const PLANS = ['pro', 'team', 'free'];

/** A flag with three rules, one of which asks for a segment; every second is for browsers as well. */
function flagOf(at: number, segments: number): object {
  const rules = [
    { variation: 0, clauses: [clauseOf('email', 'endsWith', ['@internal.example'])] },
    { variation: 1, clauses: [clauseOf('', 'segmentMatch', [`segment-${at % segments}`])] },
    { rollout: rolloutOf(50_000), clauses: [clauseOf('plan', 'in', ['pro', 'team'])] },
  ];
  return {
    key: `flag-${at}`,
    version: 1,
    on: at % 7 !== 6,
    deleted: false,
    salt: `salt-${at}`,
    offVariation: 0,
    variations: variationsOf(at),
    prerequisites: at % 10 === 9 ? [{ key: `flag-${at - 1}`, variation: 1 }] : [],
    targets: [{ variation: 1, values: ['somebody', `target-${at}`] }],
    contextTargets: [{ contextKind: 'user', variation: 1, values: [] }],
    rules: rules.map((rule, index) => ({ id: `rule-${at}-${index}`, trackEvents: false, ...rule })),
    fallthrough: at % 4 === 0 ? { rollout: rolloutOf(30_000) } : { variation: at % 2 },
    clientSideAvailability: { usingMobileKey: true, usingEnvironmentId: true },
    clientSide: true,
    trackEvents: at % 50 === 0,
    trackEventsFallthrough: false,
    debugEventsUntilDate: null,
  };
}

function variationsOf(at: number): readonly unknown[] {
  if (at % 3 === 0) return [false, true];
  if (at % 3 === 1) return ['a', 'b', 'c'];
  return [
    { number: at, size: 'big' },
    { number: at, size: 'small' },
  ];
}

function clauseOf(attribute: string, op: string, values: readonly string[]): object {
  return { contextKind: 'user', attribute, op, values, negate: false };
}

function rolloutOf(weight: number): object {
  const variations = [
    { variation: 0, weight },
    { variation: 1, weight: 100_000 - weight },
  ];
  return { kind: 'rollout', contextKind: 'user', bucketBy: 'key', variations };
}

function segmentOf(at: number): object {
  return {
    key: `segment-${at}`,
    version: 1,
    deleted: false,
    salt: `segment-salt-${at}`,
    included: [`browser-${at}`, `member-${at}`],
    excluded: [],
    includedContexts: [],
    excludedContexts: [],
    rules: [{ id: `segment-rule-${at}`, clauses: [clauseOf('country', 'in', ['NL', 'FR'])] }],
  };
}

/** Writes one environment as a file source reads it. */
export function writeFlags(path: string, { flags, segments }: { flags: number; segments: number }): void {
  const keyed = (kind: string, count: number, of: (at: number) => object): object =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`${kind}-${at}`, of(at)]));
  const data = {
    flags: keyed('flag', flags, (at) => flagOf(at, segments)),
    segments: keyed('segment', segments, segmentOf),
  };
  writeFileSync(path, JSON.stringify(data));
}

/** A context as it stands in a path. */
export function contextOf(number: number): string {
  const context = {
    kind: 'user',
    key: `browser-${number}`,
    country: COUNTRIES[number % COUNTRIES.length],
    plan: PLANS[number % PLANS.length],
    email: `browser-${number}@example.com`,
  };
  return Buffer.from(JSON.stringify(context)).toString('base64url');
}
