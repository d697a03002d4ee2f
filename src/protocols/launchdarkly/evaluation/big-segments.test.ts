import { createHash } from 'node:crypto';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { turns } from '../../../../test/support/conditions.ts';
import {
  beginEvaluationThread,
  dataOf,
  EVALUATION_TEST_CONFIG,
  flagOf,
  segmentOf,
} from '../../../../test/support/evaluation-kit.ts';
import { FakeClock } from '../../../kernel/index.ts';
import { Memberships, revisionOf } from './big-segments.ts';
import { Evaluations } from './evaluations.ts';
import type { BigSegmentStore, Evaluated } from './types.ts';

vi.setConfig(EVALUATION_TEST_CONFIG);

const NOW_MS = 1_700_000_000_000;
const hashOf = (key: string): string => createHash('sha256').update(key).digest('base64');

class FakeStore implements BigSegmentStore {
  readonly members = new Map<string, Record<string, boolean>>();
  readonly asked: string[] = [];
  updated: number | undefined = NOW_MS;
  failing = false;
  hanging = false;

  async membership(contextHash: string): Promise<Readonly<Record<string, boolean>> | undefined> {
    this.asked.push(contextHash);
    if (this.hanging) await new Promise(() => {});
    if (this.failing) throw new Error('the store is away');
    return this.members.get(contextHash);
  }

  async updatedMs(): Promise<number | undefined> {
    if (this.failing) throw new Error('the store is away');
    return this.updated;
  }
}

const closing: Evaluations[] = [];
afterEach(() => Promise.all(closing.splice(0).map((evaluations) => evaluations.close())));

interface Setting {
  readonly store: FakeStore;
  readonly clock: FakeClock;
  readonly failures: string[];
  readonly evaluations: Evaluations;
  readonly ask: (context?: object) => Promise<Evaluated>;
}

const useOf = (key: string): Record<string, unknown> => ({
  rules: [{ id: 'r', variation: 0, clauses: [{ attribute: '', op: 'segmentMatch', values: [key] }] }],
});

async function setUp(withStore = true): Promise<Setting> {
  const [store, clock, failures] = [new FakeStore(), new FakeClock(), [] as string[]];
  const evaluations = new Evaluations({
    clock,
    threads: 1,
    cacheBytesMax: 1e6,
    onFailure: (error) => failures.push(String(error)),
    beginThread: beginEvaluationThread,
    bigSegments: () => (withStore ? store : undefined),
    unixNow: () => NOW_MS,
  });
  closing.push(evaluations);
  const flags = [flagOf('big', useOf('large')), flagOf('plain'), flagOf('team', useOf('teams'))];
  const segments = [
    segmentOf('large', { unbounded: true, generation: 3 }),
    segmentOf('teams', { unbounded: true, unboundedContextKind: 'org', generation: 1 }),
  ];
  evaluations.attach('a', await dataOf(flags, segments));
  const ask = (context: object = { key: 'me', kind: 'user' }): Promise<Evaluated> =>
    evaluations.evaluate({
      environmentId: 'a',
      context: JSON.stringify(context),
      audience: 'server',
      withReasons: true,
    });
  return { store, clock, failures, evaluations, ask };
}

function told({ flags }: Evaluated): Record<string, string> {
  const outcomes = flags.map(({ key, fields }) => {
    const { value, reason } = JSON.parse(`{${fields}}`) as { value: string; reason: Record<string, string> };
    return [key, `${value} ${reason['kind']} ${reason['bigSegmentsStatus'] ?? '-'}`];
  });
  return Object.fromEntries(outcomes) as Record<string, string>;
}

describe('a flag that uses big segments', () => {
  it('is evaluated with what the store says of the context, and of each of its kinds', async () => {
    const { store, ask } = await setUp();
    store.members.set(hashOf('me'), { 'large.g3': true });
    store.members.set(hashOf('team'), { 'teams.g1': true });
    const both = { kind: 'multi', user: { key: 'me' }, org: { key: 'team' } };
    expect(told(await ask(both))).toEqual({
      big: 'off RULE_MATCH HEALTHY',
      plain: 'on FALLTHROUGH -',
      team: 'off RULE_MATCH HEALTHY',
    });
    expect(store.asked.toSorted()).toEqual([hashOf('me'), hashOf('team')].toSorted());
    // of one kind the other segment is not asked for
    expect(told(await ask({ key: 'you', kind: 'user' }))).toEqual({
      big: 'on FALLTHROUGH HEALTHY',
      plain: 'on FALLTHROUGH -',
      team: 'on FALLTHROUGH -',
    });
  });

  it('says that nothing is configured where there is no store', async () => {
    const { ask } = await setUp(false);
    const answer = await ask();
    expect(told(answer)['big']).toBe('on FALLTHROUGH NOT_CONFIGURED');
    expect(answer.bigSegmentsRevision).toBe('');
  });

  it('is evaluated anew when the store says something else, and only then', async () => {
    const { store, clock, evaluations, ask } = await setUp();
    const first = await ask();
    expect(told(first)['big']).toBe('on FALLTHROUGH HEALTHY');
    clock.advance(5000);
    expect((await ask()).bigSegmentsRevision).toBe(first.bigSegmentsRevision);
    expect(evaluations.stats().cacheHits).toBe(1);
    store.members.set(hashOf('me'), { 'large.g3': true });
    expect(told(await ask())['big']).toBe('on FALLTHROUGH HEALTHY');
    clock.advance(5000);
    const second = await ask();
    expect(told(second)['big']).toBe('off RULE_MATCH HEALTHY');
    expect(second.bigSegmentsRevision).not.toBe(first.bigSegmentsRevision);
    expect(second.digest).toBe(first.digest);
  });

  it('says how good the answers are', async () => {
    const { store, clock, failures, ask } = await setUp();
    store.updated = NOW_MS - 5 * 60 * 1000;
    expect(told(await ask())['big']).toBe('on FALLTHROUGH STALE');
    clock.advance(5000);
    store.updated++;
    expect(told(await ask())['big']).toBe('on FALLTHROUGH HEALTHY');
    clock.advance(5000);
    store.failing = true;
    expect(told(await ask())['big']).toBe('on FALLTHROUGH STORE_ERROR');
    expect(failures).toEqual(['Error: the store is away']);
  });
});

describe('memberships', () => {
  const open = (): { store: FakeStore; clock: FakeClock; failures: unknown[]; memberships: Memberships } => {
    const [store, clock, failures] = [new FakeStore(), new FakeClock(), [] as unknown[]];
    const onFailure = (error: unknown): void => void failures.push(error);
    const memberships = new Memberships({ store, clock, staleMs: 1000, unixNow: () => NOW_MS, onFailure });
    return { store, clock, failures, memberships };
  };

  it('are asked for once in five seconds, also when the store fails', async () => {
    const { store, clock, failures, memberships } = open();
    await Promise.all([memberships.of(['a']), memberships.of(['a', 'b'])]);
    expect(store.asked).toHaveLength(2);
    clock.advance(4999);
    await memberships.of(['a', 'b']);
    expect(store.asked).toHaveLength(2);
    store.failing = true;
    clock.advance(1);
    expect((await memberships.of(['a'])).get('a')).toEqual({ membership: null, status: 'STORE_ERROR' });
    await memberships.of(['a']);
    expect(store.asked).toHaveLength(3);
    expect(failures).toHaveLength(1);
  });

  it('are given up on when the store does not answer', async () => {
    const { store, clock, memberships } = open();
    store.hanging = true;
    const known = memberships.of(['a']);
    await turns();
    clock.advance(5000);
    expect((await known).get('a')?.status).toBe('STORE_ERROR');
  });

  it('are known by a revision that only says what is in them', () => {
    const of = (membership: Record<string, boolean>): string =>
      revisionOf(new Map([['a', { status: 'HEALTHY', membership }]]), ['a']);
    expect(of({ x: true, y: false })).toBe(of({ y: false, x: true }));
    expect(of({ x: true, y: false })).not.toBe(of({ x: false, y: true }));
    expect(revisionOf(new Map(), [])).toBe('');
  });
});
