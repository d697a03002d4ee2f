import { init, type LDContext, type LDEvaluationDetail } from '@launchdarkly/node-server-sdk';
import { TestData } from '@launchdarkly/node-server-sdk/integrations';
import { expect, it } from 'vitest';
import { oldPostOf, startForwarder } from '../../test/support/events-kit.ts';
import { FakeUpstream } from '../../test/support/fake-upstream.ts';

type Json = Record<string, unknown>;

const CONTEXTS: readonly LDContext[] = [
  { kind: 'user', key: 'ann', country: 'fr' },
  { kind: 'org', key: 'acme', size: 3 },
  { kind: 'multi', user: { key: 'ann' }, org: { key: 'acme' } },
  { kind: 'user', key: 'bob', anonymous: true },
];
const FLAGS = ['plain', 'tracked', 'ruled', 'debugged', 'missing'];
const FALLBACK = 'fallback';

/** Without what differs from one run to the next, in one order. */
function comparable(events: readonly Json[]): readonly Json[] {
  return events
    .map((event) => Object.fromEntries(Object.entries(event).filter(([name]) => !name.endsWith('Date'))) as Json)
    .map((event) =>
      event['kind'] === 'summary' ? { ...event, features: sortedFeatures(event['features'] as Json) } : event,
    )
    .toSorted((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
}

function sortedFeatures(features: Json): Json {
  const entries = Object.entries(features as Record<string, { counters: Json[]; contextKinds: string[] }>);
  return Object.fromEntries(
    entries.map(([key, { counters, contextKinds, ...rest }]) => [
      key,
      {
        ...rest,
        contextKinds: contextKinds.toSorted(),
        counters: counters.toSorted((one, other) => Number(one['variation'] ?? -1) - Number(other['variation'] ?? -1)),
      },
    ]),
  );
}

/** Members in one order: the two write them in different ones. */
function ordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(entries.map(([name, member]) => [name, ordered(member)]));
}

/** What an SDK without summaries would have sent of it. */
function oldEvaluation(
  { key, context, debugUntilMs }: { key: string; context: LDContext; debugUntilMs: number },
  detail: LDEvaluationDetail,
): Json {
  const version = key === 'missing' ? undefined : key === 'tracked' || key === 'debugged' ? 5 : 1;
  return {
    kind: 'feature',
    creationDate: Date.now(),
    key,
    context,
    value: detail.value as unknown,
    variation: detail.variationIndex ?? undefined,
    version,
    default: FALLBACK,
    reason: detail.reason,
    trackEvents: key === 'tracked',
    ...(key === 'debugged' ? { debugEventsUntilDate: debugUntilMs } : {}),
  };
}

it('evaluations are summarized as the SDK that makes them summarizes them', async () => {
  const service = await FakeUpstream.start();
  const data = new TestData();
  const debugUntilMs = Date.now() + 3_600_000;
  await data.update(data.flag('plain').variations('a', 'b').fallthroughVariation(1));
  await data.update(
    data
      .flag('ruled')
      .variations('a', 'b', { x: [1] })
      .ifMatch('user', 'country', 'fr')
      .thenReturn(2),
  );
  // TestData takes a flag as it is, too
  for (const [key, more] of [
    ['tracked', { trackEvents: true }],
    ['debugged', { debugEventsUntilDate: debugUntilMs }],
  ] as const) {
    await data.usePreconfiguredFlag({
      key,
      version: 5,
      on: true,
      variations: ['a', 'b'],
      fallthrough: { variation: 0 },
      ...more,
    });
  }
  const client = init('sdk-1', {
    updateProcessor: data.getFactory(),
    eventsUri: service.url,
    diagnosticOptOut: true,
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  });
  await client.waitForInitialization({ timeout: 10 });
  const evaluations: Json[] = [];
  for (const context of CONTEXTS) {
    for (const key of [...FLAGS, ...FLAGS]) {
      const detail = await client.variationDetail(key, context, FALLBACK);
      evaluations.push(oldEvaluation({ key, context, debugUntilMs }, detail));
    }
  }
  client.track('bought', CONTEXTS[0] as LDContext, { price: 1 }, 2.5);
  await client.flush();
  client.close();
  await service.until('events', () => service.requests.length > 0);
  const bySdk = service.requests.flatMap(({ body }) => JSON.parse(body) as Json[]);
  await service.stop();

  const { upstream, forwarder } = startForwarder({ inlineUsers: true });
  const custom = { kind: 'custom', key: 'bought', context: CONTEXTS[0], data: { price: 1 }, metricValue: 2.5 };
  forwarder.accept(oldPostOf([...evaluations, { ...custom, creationDate: Date.now() }]));
  await forwarder.flush();
  const byUs = upstream.posts.flatMap(({ events }) => events);
  expect(bySdk.map(({ kind }) => kind)).toEqual(
    expect.arrayContaining(['index', 'feature', 'debug', 'custom', 'summary']),
  );
  expect(comparable(byUs.map((event) => ordered(event) as Json))).toEqual(
    comparable(bySdk.map((event) => ordered(event) as Json)),
  );
});
