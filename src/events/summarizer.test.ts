import { describe, expect, it } from 'vitest';
import { turns, until } from '../../test/support/conditions.ts';
import { oldPostOf, startForwarder } from '../../test/support/events-kit.ts';
import type { EventForwarderOptions } from './index.ts';

type Json = Readonly<Record<string, unknown>>;

const me = { key: 'userkey' };
const evaluation = {
  kind: 'feature',
  creationDate: 1000,
  key: 'flagkey',
  user: me,
  value: 'b',
  default: 'c',
  version: 11,
  variation: 1,
};
const index = { kind: 'index', creationDate: 1000, context: me };
const summaryOf = (counters: readonly Json[], more: Json = {}): Json => ({
  kind: 'summary',
  startDate: 1000,
  endDate: 1000,
  features: { flagkey: { default: 'c', contextKinds: ['user'], counters, ...more } },
});
const summary = summaryOf([{ variation: 1, version: 11, value: 'b', count: 1 }]);
const full = {
  kind: 'feature',
  creationDate: 1000,
  key: 'flagkey',
  version: 11,
  context: me,
  variation: 1,
  value: 'b',
  default: 'c',
};

interface Case {
  readonly events: readonly Json[];
  readonly schema?: number;
  readonly options?: Partial<EventForwarderOptions>;
}

/** What goes upstream in place of these events. */
async function summarized({ events, schema = 2, options = {} }: Case): Promise<readonly Json[]> {
  const { upstream, forwarder } = startForwarder(options);
  forwarder.accept(oldPostOf(events, schema));
  await forwarder.flush();
  expect(forwarder.stats().heldBytes).toBe(0);
  for (const { headers } of upstream.posts) expect(headers['x-launchdarkly-event-schema']).toBe('4');
  return upstream.posts.flatMap((post) => post.events);
}

const flagOf = (flag: Json): Partial<EventForwarderOptions> => ({
  flagText: (environmentId, key) => (`${environmentId}/${key}` === 'env/flagkey' ? JSON.stringify(flag) : undefined),
});
const known = { key: 'flagkey', version: 22, variations: ['a', 'b', { x: [1] }] };

// The cases are those of the vendor's relay, whose answers they have.
describe('an evaluation by an SDK without summaries', () => {
  it.each<[string, Case, readonly Json[]]>([
    ['is counted', { events: [{ ...evaluation, trackEvents: false }] }, [index, summary]],
    [
      'is counted once for many',
      { events: [evaluation, evaluation, evaluation] },
      [index, summaryOf([{ variation: 1, version: 11, value: 'b', count: 3 }])],
    ],
    ['may be excluded from summaries', { events: [{ ...evaluation, excludeFromSummaries: true }] }, [index]],
    [
      'goes along in full when it is tracked',
      { events: [{ ...evaluation, trackEvents: true, samplingRatio: 0 }] },
      [index, { ...full, samplingRatio: 0 }, summary],
    ],
    [
      'goes along with its reason and what it was a prerequisite of',
      { events: [{ ...evaluation, trackEvents: true, samplingRatio: 1, reason: { kind: 'OFF' }, prereqOf: 'x' }] },
      [index, { ...full, reason: { kind: 'OFF' }, prereqOf: 'x' }, summary],
    ],
    [
      'is of no flag when it has no version',
      { events: [{ ...evaluation, version: null, value: 'c' }] },
      [index, summaryOf([{ unknown: true, value: 'c', count: 1 }])],
    ],
    [
      'is debugged until its date',
      { events: [{ ...evaluation, debugEventsUntilDate: 9000 }], options: { unixMs: () => 8999 } },
      [index, { ...full, kind: 'debug' }, summary],
    ],
    [
      'is not debugged after it',
      { events: [{ ...evaluation, debugEventsUntilDate: 9000 }], options: { unixMs: () => 9000 } },
      [index, summary],
    ],
    [
      'of the oldest SDKs has the variation that the flag says',
      { events: [{ ...evaluation, variation: undefined }], schema: 1, options: flagOf(known) },
      [index, summary],
    ],
    [
      'of later ones has none when it failed',
      { events: [{ ...evaluation, variation: undefined }], options: flagOf(known) },
      [index, summaryOf([{ version: 11, value: 'b', count: 1 }])],
    ],
    [
      'is tracked when the flag says so and the SDK does not',
      { events: [evaluation], options: flagOf({ ...known, trackEvents: true }) },
      [index, full, summary],
    ],
    [
      'is tracked as its SDK says',
      { events: [{ ...evaluation, trackEvents: false }], options: flagOf({ ...known, trackEvents: true }) },
      [index, summary],
    ],
  ])('%s', async (_, given, expected) => {
    expect(await summarized(given)).toEqual(expected);
  });

  it('is counted by flag, variation and version, between the first and the last', async () => {
    const events = [
      { ...evaluation, creationDate: 500 },
      { ...evaluation, version: 12 },
      {
        ...evaluation,
        variation: 0,
        value: 'a',
        creationDate: 2000,
        user: undefined,
        context: { kind: 'org', key: 'o' },
      },
      { ...evaluation, key: 'other', default: { x: 1 }, context: { kind: 'multi', user: me, device: { key: 'd' } } },
    ];
    const out = await summarized({ events });
    expect(out.at(-1)).toEqual({
      kind: 'summary',
      startDate: 500,
      endDate: 2000,
      features: {
        flagkey: {
          default: 'c',
          contextKinds: ['user', 'org'],
          counters: [
            { variation: 1, version: 11, value: 'b', count: 1 },
            { variation: 1, version: 12, value: 'b', count: 1 },
            { variation: 0, version: 11, value: 'a', count: 1 },
          ],
        },
        other: {
          default: { x: 1 },
          contextKinds: ['user', 'device'],
          counters: [{ variation: 1, version: 11, value: 'b', count: 1 }],
        },
      },
    });
  });
});

describe('other events of old SDKs', () => {
  const custom = { kind: 'custom', creationDate: 1000, key: 'e', user: { ...me, name: 'n' } };
  const named = { ...index, context: { ...me, name: 'n' } };

  it.each<[string, Case, readonly Json[]]>([
    [
      'custom ones name whom they are about',
      { events: [{ ...custom, data: null }] },
      [named, { kind: 'custom', creationDate: 1000, key: 'e', contextKeys: { user: 'userkey' } }],
    ],
    [
      'custom ones keep everything about them where that is asked for',
      { events: [{ ...custom, data: [1], metricValue: 2.5 }], options: { inlineUsers: true } },
      [
        named,
        { kind: 'custom', creationDate: 1000, key: 'e', data: [1], context: { ...me, name: 'n' }, metricValue: 2.5 },
      ],
    ],
    [
      'identify stands for the index event',
      { events: [{ kind: 'identify', creationDate: 1000, key: 'userkey', user: me }, evaluation] },
      [{ kind: 'identify', creationDate: 1000, context: me }, summary],
    ],
    [
      'those of other kinds go as they are',
      { events: [{ kind: 'alias', previousKey: 'x', n: 1e3 }] },
      [{ kind: 'alias', previousKey: 'x', n: 1000 }],
    ],
  ])('%s', async (_, given, expected) => {
    expect(await summarized(given)).toEqual(expected);
  });

  it('that are none are dropped, one by one', async () => {
    const { upstream, forwarder } = startForwarder();
    const bad = [
      { ...evaluation, creationDate: 'not a number' },
      { kind: 'identify', creationDate: 'x', user: me },
      { ...custom, creationDate: -1 },
      { kind: false },
      1,
      { ...evaluation, user: undefined },
      { ...evaluation, user: { key: 1 } },
      { ...evaluation, key: 1 },
      { ...evaluation, version: '1' },
      { ...evaluation, context: { kind: 'multi' } },
      { ...evaluation, context: { kind: 'multi', user: {} } },
    ];
    forwarder.accept(oldPostOf([...bad, { kind: 'identify', creationDate: 1, user: me }]));
    await forwarder.flush();
    expect(upstream.posts.map(({ events }) => events)).toEqual([[{ kind: 'identify', creationDate: 1, context: me }]]);
    expect(forwarder.stats().environments['env']?.dropped.invalid).toMatchObject({ payloads: 0, events: bad.length });
  });

  it('that are unsummarized though their schema is new are summarized all the same', async () => {
    const { upstream, forwarder } = startForwarder();
    const headers = {
      'x-launchdarkly-event-schema': '4',
      'x-launchdarkly-unsummarized': 'true',
      'x-launchdarkly-tags': 't',
    };
    forwarder.accept(oldPostOf([evaluation], 4, { headers }));
    await forwarder.flush();
    expect(upstream.posts[0]?.events).toEqual([index, summary]);
    expect(upstream.posts[0]?.headers['x-launchdarkly-tags']).toBe('t');
  });
});

describe('whom events are about', () => {
  it('is told once in five minutes, and told apart by kind and key', async () => {
    const { clock, upstream, forwarder } = startForwarder();
    const of = (context: Json): Json => ({ ...evaluation, user: undefined, context });
    const indexes = (): readonly unknown[] =>
      upstream.posts
        .at(-1)
        ?.events.filter(({ kind }) => kind === 'index')
        .map(({ context }) => context) ?? [];
    const [user, org] = [
      { kind: 'user', key: 'a' },
      { kind: 'org', key: 'a' },
    ];
    const both = { kind: 'multi', user: { key: 'a' }, org: { key: 'a' } };
    forwarder.accept(
      oldPostOf([
        of(user),
        of({ key: 'a' }),
        of(org),
        of(both),
        of({ kind: 'multi', org: { key: 'a' }, user: { key: 'a' } }),
      ]),
    );
    await forwarder.flush();
    expect(indexes()).toEqual([user, org, both]);
    clock.advance(5 * 60_000 - 1);
    forwarder.accept(oldPostOf([of(user)]));
    await forwarder.flush();
    expect(indexes()).toEqual([]);
    clock.advance(1);
    forwarder.accept(oldPostOf([of(user)]));
    await forwarder.flush();
    expect(indexes()).toEqual([user]);
  });

  it('is forgotten when it was not seen for longest, when there are too many', async () => {
    const { upstream, forwarder } = startForwarder({ capacity: 10_000 });
    const of = (key: string): Json => ({ ...evaluation, user: { key } });
    const many = Array.from({ length: 999 }, (_, at) => of(String(at)));
    forwarder.accept(oldPostOf([of('first'), of('second'), ...many.slice(1), of('first'), of('one more')]));
    forwarder.accept(oldPostOf([of('first'), of('second')]));
    await forwarder.flush();
    const told = upstream.posts.flatMap(({ events }) => events).filter(({ kind }) => kind === 'index');
    const keys = told.map(({ context }) => (context as { key: string }).key);
    expect(keys.filter((key) => key === 'first').length).toBe(1);
    expect(keys.filter((key) => key === 'second').length).toBe(2);
  });
});

describe('summaries', () => {
  it('are bounded: what has no room is dropped and counted', async () => {
    const { upstream, forwarder } = startForwarder({ bytesMax: 100_000 });
    const stats = () => forwarder.stats().environments['env'];
    let taken = 0;
    for (let post = 1; post <= 100; post++) {
      const events = Array.from({ length: 20 }, (_, at) => ({ ...evaluation, key: `flag-${post}-${at}` }));
      if (forwarder.accept(oldPostOf(events)) === 'accepted') taken += 20;
      await until('the post to be read', () => stats()?.received.events === taken);
      await turns();
      expect(forwarder.stats().heldBytes).toBeLessThanOrEqual(50_000);
    }
    await forwarder.flush();
    const counted = upstream.posts.flatMap(({ events }) => Object.keys((events.at(-1)?.['features'] ?? {}) as object));
    expect(counted.length).toBeGreaterThan(50);
    expect(counted.length).toBeLessThan(150);
    expect(stats()?.dropped.full).toMatchObject({ payloads: (2000 - taken) / 20, events: taken - counted.length });
    expect(forwarder.stats().heldBytes).toBe(0);
  });

  it('are given back when the key is refused', async () => {
    const { upstream, forwarder } = startForwarder({ capacity: 1 });
    upstream.answers.push('waits');
    forwarder.accept(oldPostOf([evaluation]));
    await upstream.until('a post', () => upstream.waiting === 1);
    forwarder.accept(oldPostOf([{ ...evaluation, key: 'x' }]));
    forwarder.forget('env');
    upstream.release();
    await forwarder.flush();
    expect(forwarder.stats()).toMatchObject({ heldBytes: 0, heldEvents: 0, posting: 0 });
  });

  it('leave out one event that is too large to be looked at', async () => {
    const { upstream, forwarder } = startForwarder();
    forwarder.accept(oldPostOf([{ ...evaluation, data: 'x'.repeat(140_000) }, evaluation]));
    await forwarder.flush();
    expect(upstream.posts[0]?.events).toEqual([index, summary]);
    expect(forwarder.stats().environments['env']?.dropped['too-large']).toMatchObject({ events: 1 });
  });
});
