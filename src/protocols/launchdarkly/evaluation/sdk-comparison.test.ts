import * as vendor from '@launchdarkly/node-server-sdk';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import {
  beginEvaluationThread,
  dataOf,
  flagOf,
  gone,
  itemOf,
  type Json,
  put,
  segmentOf,
} from '../../../../test/support/evaluation-kit.ts';
import { systemClock } from '../../../kernel/index.ts';
import { parseContext } from './context.ts';
import { Evaluations } from './evaluations.ts';
import { evalxMembers } from './text.ts';

const RUNS = 60;

const maybe = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(arbitrary, { nil: undefined });
const record = fc.record;
const flagKey = fc.constantFrom('f0', 'f1', 'f2', 'f3', 'f4', 'f5', 'gone');
const segmentKey = fc.constantFrom('s0', 's1', 's2', 'gone');
const kind = fc.constantFrom('user', 'org', 'device');
const name = fc.constantFrom('a', 'b', 'c:d', 'e%f', 'é');
const variation = fc.integer({ min: 0, max: 3 });

const attributeClause = record({
  contextKind: maybe(kind),
  attribute: fc.constantFrom('key', 'name', 'age', '/nested/deep', 'anonymous', 'kind', '', 'tags'),
  op: fc.constantFrom('in', 'startsWith', 'contains', 'lessThan', 'matches', 'semVerEqual', 'before', 'unheardOf'),
  values: fc.array(fc.oneof(name, fc.integer({ min: 0, max: 3 }), fc.boolean(), fc.constant('1.0.0')), {
    maxLength: 3,
  }),
  negate: fc.boolean(),
});
const segmentClause = record({
  attribute: fc.constant(''),
  op: fc.constant('segmentMatch'),
  values: fc.array(segmentKey, { minLength: 1, maxLength: 2 }),
  negate: fc.boolean(),
});
const clauses = fc.array(fc.oneof(attributeClause, segmentClause), { minLength: 1, maxLength: 2 });
const rollout = record({
  kind: fc.constantFrom('rollout', 'experiment', undefined),
  contextKind: maybe(kind),
  bucketBy: fc.constantFrom('key', 'name', undefined),
  seed: maybe(fc.integer({ min: 0, max: 9 })),
  variations: fc.array(
    record({ variation, weight: fc.constantFrom(0, 30_000, 60_000), untracked: maybe(fc.boolean()) }),
    { maxLength: 3 },
  ),
});
const choice = fc.oneof(record({ variation }), record({ rollout }), fc.constant({}));
const targets = fc.array(record({ contextKind: maybe(kind), variation, values: fc.array(name, { maxLength: 3 }) }), {
  maxLength: 2,
});
const rule = fc.tuple(choice, clauses, fc.boolean(), name).map(([chosen, of, trackEvents, id]) => ({
  id,
  ...chosen,
  clauses: of,
  trackEvents,
}));

const flagMembers = record({
  version: fc.integer({ min: 1, max: 9 }),
  on: fc.oneof({ weight: 5, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
  offVariation: fc.constantFrom(0, 1, null, 9),
  variations: fc.constantFrom([false, true, null, 'é'], ['a', { n: [1] }, 3, ''], []),
  prerequisites: fc.array(record({ key: flagKey, variation }), { maxLength: 2 }),
  targets,
  contextTargets: targets,
  rules: fc.array(rule, { maxLength: 3 }),
  fallthrough: choice,
  trackEvents: fc.boolean(),
  trackEventsFallthrough: fc.boolean(),
  debugEventsUntilDate: fc.constantFrom(null, 1000, undefined),
  clientSideAvailability: maybe(record({ usingMobileKey: fc.boolean(), usingEnvironmentId: fc.boolean() })),
  clientSide: maybe(fc.boolean()),
});
const contextLists = fc.array(record({ contextKind: kind, values: fc.array(name, { maxLength: 2 }) }), {
  maxLength: 1,
});
const segmentMembers = record({
  included: fc.array(name, { maxLength: 2 }),
  excluded: fc.array(name, { maxLength: 2 }),
  includedContexts: contextLists,
  excludedContexts: contextLists,
  rules: fc.array(record({ id: name, clauses, weight: maybe(fc.integer({ min: 0, max: 100_000 })) }), { maxLength: 2 }),
});
const flags = fc.dictionary(
  flagKey.filter((key) => key !== 'gone'),
  flagMembers,
  { minKeys: 2, maxKeys: 6 },
);
const segments = fc.dictionary(
  segmentKey.filter((key) => key !== 'gone'),
  segmentMembers,
  { maxKeys: 3 },
);

const attributes = record({
  key: name,
  name: maybe(name),
  age: maybe(fc.integer({ min: 0, max: 3 })),
  anonymous: maybe(fc.boolean()),
  tags: maybe(fc.array(name, { maxLength: 2 })),
  nested: maybe(record({ deep: fc.oneof(name, fc.integer({ min: 0, max: 2 })) })),
});
const single = fc.tuple(kind, attributes).map(([of, members]) => ({ kind: of, ...members }));
const context = fc.oneof(
  single,
  fc.dictionary(kind, attributes, { minKeys: 1 }).map((kinds) => ({ kind: 'multi', ...kinds })),
  record({ key: name, name: maybe(name), custom: maybe(record({ age: fc.integer({ min: 0, max: 3 }) })) }),
);

type Members = Readonly<Record<string, unknown>>;
const flagsOf = (members: Readonly<Record<string, Members>>): Json[] =>
  Object.entries(members).map(([key, of]) => flagOf(key, of));
const segmentsOf = (members: Readonly<Record<string, Members>>): Json[] =>
  Object.entries(members).map(([key, of]) => segmentOf(key, of));

/** What the vendor's own client says, with nothing of ours in between. */
async function expected(
  data: { readonly flags: readonly Json[]; readonly segments: readonly Json[] },
  asked: { readonly context: object; readonly withReasons: boolean },
): Promise<Record<string, Members>> {
  const byKey = (items: readonly Json[]): Record<string, Json> =>
    Object.fromEntries(items.map((item) => [item.key, item]));
  const copy: Record<string, unknown> = JSON.parse(
    JSON.stringify({ flags: byKey(data.flags), segments: byKey(data.segments) }),
  );
  const held = vendor.reviveFullPayload(copy) as unknown as Record<string, Record<string, vendor.LDFeatureStoreItem>>;
  const kindOf = (of: vendor.DataKind): Record<string, vendor.LDFeatureStoreItem> =>
    held[of.namespace === 'features' ? 'flags' : 'segments']!;
  const client = vendor.init('sdk-key', {
    sendEvents: false,
    diagnosticOptOut: true,
    logger: { error() {}, warn() {}, info() {}, debug() {} },
    featureStore: {
      get: (of, key, answer) => answer(kindOf(of)[key] ?? null),
      all: (of, answer) => answer(kindOf(of)),
      initialized: (answer) => answer(true),
      init: (_data, done) => done(),
      upsert: (_kind, _item, done) => done(),
      delete: (_kind, _key, _version, done) => done(),
      close() {},
    },
    updateProcessor: (_clientContext, _updates, succeeded: () => void) => ({
      start: succeeded,
      stop() {},
      close() {},
    }),
  });
  client.on('error', () => {});
  await client.waitForInitialization({ timeout: 5 });
  const state = await client.allFlagsState(asked.context as vendor.LDContext, { withReasons: asked.withReasons });
  client.close();
  const {
    $flagsState: details,
    $valid,
    ...values
  } = state.toJSON() as unknown as Record<string, Record<string, object>>;
  expect($valid).toBe(true);
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, { value, ...details?.[key] }]));
}

let evaluations: Evaluations | undefined;
afterEach(() => evaluations?.close());

function open(): Evaluations {
  evaluations = new Evaluations({
    clock: systemClock,
    threads: 2,
    cacheBytesMax: 1e6,
    beginThread: beginEvaluationThread,
    onFailure: (error) => expect.fail(String(error)),
  });
  return evaluations;
}

describe('what threads answer', () => {
  it("is what the vendor's own client says of the same data, changed in any way", async () => {
    const pool = open();
    let run = 0;
    const property = fc.asyncProperty(
      record({ flags, segments, context, withReasons: fc.boolean(), later: flags, laterSegments: segments }),
      async ({ flags: first, segments: firstSegments, later, laterSegments, context: of, withReasons }) => {
        const environmentId = `run-${++run}`;
        const data = await dataOf(flagsOf(first), segmentsOf(firstSegments));
        pool.attach(environmentId, data);
        const parsed = parseContext(JSON.stringify(of));
        if ('error' in parsed) throw new Error(parsed.error);
        const ours = async (): Promise<Record<string, unknown>> => {
          const asked = { environmentId, audience: 'server', withReasons } as const;
          const result = await pool.evaluate({ ...asked, context: parsed.canonical });
          expect(result.digest).toBe(data.snapshot().digest);
          return Object.fromEntries(result.flags.map((flag) => [flag.key, JSON.parse(`{${evalxMembers(flag)}}`)]));
        };
        const told = { context: JSON.parse(JSON.stringify(of)), withReasons };
        expect(await ours()).toEqual(
          await expected({ flags: flagsOf(first), segments: segmentsOf(firstSegments) }, told),
        );
        // some change, some come, some go
        const kept = { ...first, ...later };
        const [removed] = Object.keys(first);
        delete kept[removed!];
        await data.apply(
          [
            ...flagsOf(later).map((flag) => put('flags', { ...flag, version: 10 })),
            ...segmentsOf(laterSegments).map((segment) => put('segments', { ...segment, version: 10 })),
            gone('flags', removed!, 11),
          ],
          'source',
        );
        const now = {
          flags: flagsOf(kept).map((flag) => (flag.key in later ? { ...flag, version: 10 } : flag)),
          segments: segmentsOf({ ...firstSegments, ...laterSegments }),
        };
        expect(await ours()).toEqual(await expected(now, told));
        // versions that fall: everybody starts anew
        await data.replace(flagsOf(first).map((flag) => itemOf('flags', { ...flag, version: 1 })));
        const anew = { flags: flagsOf(first).map((flag) => ({ ...flag, version: 1 })), segments: [] };
        expect(await ours()).toEqual(await expected(anew, told));
        pool.detach(environmentId);
      },
    );
    await fc.assert(property, { numRuns: RUNS });
  }, 60_000);
});

describe('contexts', () => {
  it("are known by the key that the vendor's SDKs sign", () => {
    fc.assert(
      fc.property(context, (of) => {
        const told = JSON.parse(JSON.stringify(of));
        const parsed = parseContext(JSON.stringify(of));
        expect('key' in parsed && parsed.key).toBe(vendor.Context.fromLDContext(told).canonicalKey);
        expect('canonical' in parsed && JSON.parse(parsed.canonical)).toEqual(told);
      }),
    );
  });
});
