import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  beginEvaluationThread,
  EVALUATION_TEST_CONFIG,
  dataOf,
  flagOf,
  type Json,
  segmentOf,
} from '../../../../test/support/evaluation-kit.ts';
import { systemClock } from '../../../kernel/index.ts';
import { Evaluations } from './evaluations.ts';
import { evalxMembers, flagEvalMembers } from './text.ts';
import type { Evaluated, EvaluationAudience } from './types.ts';

vi.setConfig(EVALUATION_TEST_CONFIG);

let evaluations: Evaluations;
afterEach(() => evaluations.close());

async function evaluate(
  data: { readonly flags: readonly Json[]; readonly segments?: readonly Json[] },
  o: { audience?: EvaluationAudience; withReasons?: boolean; context?: object } = {},
): Promise<Evaluated> {
  evaluations = new Evaluations({
    clock: systemClock,
    threads: 1,
    cacheBytesMax: 0,
    beginThread: beginEvaluationThread,
    onFailure: (error) => expect.fail(String(error)),
  });
  evaluations.attach('test', await dataOf(data.flags, data.segments));
  const context = evaluations.parseContext(JSON.stringify(o.context ?? { kind: 'user', key: 'me' }));
  if ('error' in context) throw new Error(context.error);
  const { audience = 'server', withReasons = false } = o;
  return evaluations.evaluate({ environmentId: 'test', context: context.canonical, audience, withReasons });
}

function evalx({ flags }: Evaluated): Record<string, string> {
  return Object.fromEntries(flags.map((flag) => [flag.key, `{${evalxMembers(flag)}}`]));
}

const BROWSER = { clientSideAvailability: { usingMobileKey: true, usingEnvironmentId: true } };
const NOBODY = { clientSideAvailability: { usingMobileKey: false, usingEnvironmentId: false } };

/** What the vendor's relay tests itself with. */
const GOLDEN = [
  flagOf('some-flag-key', { on: false, variations: [true], version: 2 }),
  flagOf('another-flag-key', { fallthrough: { variation: 0 }, variations: [3] }),
  flagOf('off-variation-key', { on: false, offVariation: null, variations: [true], version: 3, ...NOBODY }),
  flagOf('client-flag-key', { on: false, variations: [5], version: 2, ...BROWSER }),
  flagOf('fallthrough-experiment-flag-key', {
    fallthrough: { variation: 0 },
    variations: [3],
    trackEventsFallthrough: true,
    ...BROWSER,
  }),
  flagOf('rule-match-experiment-flag-key', {
    variations: [4],
    rules: [
      { id: 'rule-id', variation: 0, trackEvents: true, clauses: [{ attribute: 'key', op: 'in', values: ['me'] }] },
    ],
    ...NOBODY,
  }),
  flagOf('mobile-flag-key', {
    on: false,
    variations: [5],
    version: 2,
    clientSideAvailability: { usingMobileKey: true, usingEnvironmentId: false },
  }),
  flagOf('context-aware-flag-key', {
    variations: ['wrong', 'right'],
    rules: [
      {
        id: 'r',
        variation: 1,
        clauses: [{ contextKind: 'user', attribute: 'key', op: 'in', values: ['me'], negate: false }],
      },
    ],
  }),
];

describe('what the vendor knows the answers to', () => {
  it('is answered so, member by member', async () => {
    const fallthrough = '"trackEvents":true,"trackReason":true,"reason":{"kind":"FALLTHROUGH"}';
    const match =
      '"trackEvents":true,"trackReason":true,"reason":{"kind":"RULE_MATCH","ruleId":"rule-id","ruleIndex":0}';
    expect(evalx(await evaluate({ flags: GOLDEN }))).toEqual({
      'some-flag-key': '{"value":true,"variation":0,"version":2}',
      'another-flag-key': '{"value":3,"variation":0,"version":1}',
      'off-variation-key': '{"value":null,"version":3}',
      'client-flag-key': '{"value":5,"variation":0,"version":2}',
      'fallthrough-experiment-flag-key': `{"value":3,"variation":0,"version":1,${fallthrough}}`,
      'rule-match-experiment-flag-key': `{"value":4,"variation":0,"version":1,${match}}`,
      'mobile-flag-key': '{"value":5,"variation":0,"version":2}',
      'context-aware-flag-key': '{"value":"right","variation":1,"version":1}',
    });
  });

  it('is answered with reasons when they are asked for', async () => {
    const { flags } = await evaluate({ flags: GOLDEN }, { withReasons: true });
    const reasons = flags.map((flag) => [flag.key, JSON.parse(`{${evalxMembers(flag)}}`).reason]);
    expect(Object.fromEntries(reasons)).toEqual({
      'some-flag-key': { kind: 'OFF' },
      'another-flag-key': { kind: 'FALLTHROUGH' },
      'off-variation-key': { kind: 'OFF' },
      'client-flag-key': { kind: 'OFF' },
      'fallthrough-experiment-flag-key': { kind: 'FALLTHROUGH' },
      'rule-match-experiment-flag-key': { kind: 'RULE_MATCH', ruleId: 'rule-id', ruleIndex: 0 },
      'mobile-flag-key': { kind: 'OFF' },
      'context-aware-flag-key': { kind: 'RULE_MATCH', ruleId: 'r', ruleIndex: 0 },
    });
  });

  it('is seen by browsers and phones as far as the flags say so', async () => {
    expect((await evaluate({ flags: GOLDEN }, { audience: 'client' })).flags.map(({ key }) => key)).toEqual([
      'client-flag-key',
      'fallthrough-experiment-flag-key',
    ]);
    await evaluations.close();
    // phones see what says nothing
    expect((await evaluate({ flags: GOLDEN }, { audience: 'mobile' })).flags.map(({ key }) => key)).toEqual([
      'another-flag-key',
      'client-flag-key',
      'context-aware-flag-key',
      'fallthrough-experiment-flag-key',
      'mobile-flag-key',
      'some-flag-key',
    ]);
  });

  it('includes flags that only know the legacy member', async () => {
    const flags = [flagOf('old', { clientSide: true }), flagOf('older'), flagOf('no', { clientSide: true, ...NOBODY })];
    expect((await evaluate({ flags }, { audience: 'client' })).flags.map(({ key }) => key)).toEqual(['old']);
    await evaluations.close();
    expect((await evaluate({ flags }, { audience: 'mobile' })).flags.map(({ key }) => key)).toEqual(['old', 'older']);
  });
});

describe('members', () => {
  it('come in the order of the vendor, and FDv2 has its own', async () => {
    const flags = [
      flagOf('all', {
        version: 7,
        variations: ['a', { nested: [1, null, 'é'] }],
        prerequisites: [{ key: 'hidden', variation: 1 }],
        trackEvents: true,
        debugEventsUntilDate: 1234,
        samplingRatio: 2,
        excludeFromSummaries: true,
        ...BROWSER,
      }),
      flagOf('hidden', NOBODY),
    ];
    const [flag, ...others] = (await evaluate({ flags }, { withReasons: true, audience: 'client' })).flags;
    expect(others).toEqual([]);
    const value = '"value":{"nested":[1,null,"é"]},"variation":1';
    const rest =
      '"trackEvents":true,"reason":{"kind":"FALLTHROUGH"},"debugEventsUntilDate":1234,"prerequisites":["hidden"]';
    expect(evalxMembers(flag!)).toBe(`${value},"version":7,${rest}`);
    expect(flagEvalMembers(flag!)).toBe(`${value},"flagVersion":7,${rest},"samplingRatio":2`);
  });

  it('name the prerequisites that were evaluated, direct ones only', async () => {
    const flags = [
      flagOf('top', {
        prerequisites: [
          { key: 'a', variation: 1 },
          { key: 'off', variation: 1 },
          { key: 'b', variation: 1 },
        ],
      }),
      flagOf('a', { prerequisites: [{ key: 'b', variation: 1 }] }),
      flagOf('b'),
      flagOf('off', { on: false }),
    ];
    const all = evalx(await evaluate({ flags }));
    // b was not reached: off had failed
    expect(all['top']).toBe('{"value":"off","variation":0,"version":1,"prerequisites":["a","off"]}');
    expect(all['a']).toBe('{"value":"on","variation":1,"version":1,"prerequisites":["b"]}');
  });
});

describe('data that is out of the ordinary', () => {
  it('does not show flags that say of themselves that they are deleted', async () => {
    const flags = [flagOf('a', { deleted: true }), flagOf('b', { prerequisites: [{ key: 'a', variation: 1 }] })];
    const all = evalx(await evaluate({ flags }, { withReasons: true }));
    expect(Object.keys(all)).toEqual(['b']);
    expect(all['b']).toContain('"reason":{"kind":"PREREQUISITE_FAILED","prerequisiteKey":"a"}');
  });

  it('costs no other flag its value when one of them is malformed', async () => {
    const clause = { contextKind: 'user', attribute: 'key', op: 'in', values: ['nobody'] };
    const rules = Array.from({ length: 60 }, (_, id) => ({ id: `r${id}`, variation: 1, clauses: [clause] }));
    const flags = [
      flagOf('at-once', { targets: [{ variation: 0 }] }),
      flagOf('fine'),
      // beyond 50 the vendor goes on in microtasks, where nobody catches
      flagOf('later', {
        rules: [...rules, { id: 'bad', variation: 1, clauses: [{ op: 'segmentMatch', values: ['s'] }] }],
      }),
      flagOf('unknown', { variations: [], fallthrough: { variation: 3 } }),
    ];
    const segments = [segmentOf('s', { includedContexts: [{ contextKind: 'user' }] })];
    const exception = '{"value":null,"version":1,"reason":{"kind":"ERROR","errorKind":"EXCEPTION"}}';
    expect(evalx(await evaluate({ flags, segments }, { withReasons: true }))).toEqual({
      'at-once': exception,
      fine: '{"value":"on","variation":1,"version":1,"reason":{"kind":"FALLTHROUGH"}}',
      later: exception,
      unknown: '{"value":null,"version":1,"reason":{"kind":"ERROR","errorKind":"MALFORMED_FLAG"}}',
    });
  });

  it('may hold a segment with hundreds of thousands of members', async () => {
    const included = Array.from({ length: 600_000 }, (_, at) => `member-${at}`);
    const flags = [
      flagOf('in', {
        rules: [{ id: 'r', variation: 0, clauses: [{ op: 'segmentMatch', attribute: '', values: ['large'] }] }],
      }),
    ];
    const segments = [segmentOf('large', { included })];
    const all = evalx(await evaluate({ flags, segments }, { context: { kind: 'user', key: 'member-599999' } }));
    expect(all['in']).toBe('{"value":"off","variation":0,"version":1}');
  });
});
