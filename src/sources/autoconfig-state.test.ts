import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AutoConfigModel, type ModelEvent, NaiveDirectory } from '../../test/support/autoconfig-model.ts';
import { stepsBetween } from './autoconfig-order.ts';
import { parseMessage } from './autoconfig-reps.ts';
import { type AutoConfigEnvironment, AutoConfigState } from './autoconfig-state.ts';

interface Body {
  readonly sdkKey?: string;
  readonly expiring?: string;
  readonly mobKey?: string;
  readonly projKey: string;
  readonly key?: string;
}

function repOf(of: 'environments' | 'filters', id: string, version: number, body: Body): object {
  if (of === 'filters') return { projKey: body.projKey, key: body.key, version };
  const { sdkKey, expiring, mobKey, projKey } = body;
  const old = expiring === undefined ? {} : { expiring: { value: expiring, timestamp: 1000 } };
  return { envID: id, sdkKey: { value: sdkKey, ...old }, mobKey, projKey, version };
}

async function send(state: AutoConfigState, event: ModelEvent): Promise<boolean> {
  return state.apply(await parseMessage(event.kind, textOf(event)));
}

function textOf(event: ModelEvent): string {
  const { kind, of, id, version, body } = event;
  if (kind === 'delete') return JSON.stringify({ path: `/${of}/${id}`, version });
  if (kind === 'patch') return JSON.stringify({ path: `/${of}/${id}`, data: repOf(of, id, version, body as Body) });
  const data: Record<'environments' | 'filters', Record<string, object>> = { environments: {}, filters: {} };
  for (const one of event.all) data[one.of][one.id] = repOf(one.of, one.id, one.version, one.body as Body);
  return JSON.stringify({ path: '/', data });
}

const sdkKeys = fc.constantFrom('a', 'b', 'c', 'd');
const optionalKeys = fc.option(sdkKeys, { nil: undefined, freq: 3 });
const projKeys = fc.constantFrom('p', 'q');
const versions = fc.integer({ min: 0, max: 6 });
const environments = fc.record({
  of: fc.constant('environments' as const),
  id: fc.constantFrom('e1', 'e2', 'e3', 'e4'),
  version: versions,
  body: fc.record({ sdkKey: sdkKeys, expiring: optionalKeys, mobKey: optionalKeys, projKey: projKeys }),
});
const filters = fc.record({
  of: fc.constant('filters' as const),
  id: fc.constantFrom('f1', 'f2', 'f3'),
  version: versions,
  body: fc.record({ projKey: projKeys, key: fc.constantFrom('x', 'y') }),
});
const ones = fc.oneof(environments, filters);
const events: fc.Arbitrary<ModelEvent> = fc.oneof(
  { weight: 4, arbitrary: ones.map((one) => ({ kind: 'patch' as const, ...one, all: [] })) },
  { weight: 2, arbitrary: ones.map((one) => ({ kind: 'delete' as const, ...one, all: [] })) },
  {
    weight: 1,
    arbitrary: fc
      .uniqueArray(ones, { selector: ({ of, id }) => `${of}/${id}` })
      .map((all) => ({ kind: 'put' as const, of: 'environments' as const, id: '', version: 0, body: {}, all })),
  },
);

function expected(model: AutoConfigModel): Map<string, object> {
  const filterBodies = [...model.live('filters').values()] as Body[];
  return new Map(
    [...model.live('environments')].map(([id, body]) => {
      const { sdkKey, expiring, mobKey, projKey } = body as Body;
      const filterKeys = ['x', 'y'].filter((name) => filterBodies.some((f) => f.projKey === projKey && f.key === name));
      return [id, { sdkKey, expiring, mobKey, projKey, filterKeys }];
    }),
  );
}

function shown(state: AutoConfigState): Map<string, object> {
  return new Map(
    [...state.environments()].map(([id, environment]) => {
      const { sdkKey, expiringSdkKey, mobileKey, projKey, filterKeys } = environment;
      return [id, { sdkKey, expiring: expiringSdkKey?.value, mobKey: mobileKey, projKey, filterKeys }];
    }),
  );
}

describe('AutoConfigState', () => {
  it('knows what the model knows after any events, with or without a cache in between', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(events, fc.boolean()), { maxLength: 30 }), async (steps) => {
        let state = new AutoConfigState();
        const model = new AutoConfigModel();
        for (const [event, throughCache] of steps) {
          const before = state.save();
          const changed = await send(state, event);
          model.take(event);
          expect(shown(state)).toEqual(expected(model));
          expect(changed || state.save() === before).toBe(true);
          if (!throughCache) continue;
          const restored = new AutoConfigState();
          expect(restored.restore(state.save())).toEqual([]);
          expect(restored.save()).toBe(state.save());
          state = restored;
        }
      }),
      { numRuns: 300 },
    );
  });

  it('tells in an order that leaves no key without its owner, however keys move', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(events, { maxLength: 30 }), async (list) => {
        const state = new AutoConfigState();
        const directory = new NaiveDirectory();
        const told = new Map<string, AutoConfigEnvironment>();
        for (const event of list) {
          await send(state, event);
          const now = state.environments();
          let unknown = 0;
          for (const step of stepsBetween(told, now)) {
            if (step.kind === 'remove') {
              unknown += told.delete(step.envId) ? 0 : 1;
              directory.remove(step.envId);
            } else {
              told.set(step.environment.envId, step.environment);
              directory.upsert(step.environment);
            }
          }
          expect(told).toEqual(now);
          expect(unknown).toBe(0);
          expect({ orphans: directory.orphans(), strays: directory.strays() }).toEqual({ orphans: [], strays: [] });
        }
      }),
      { numRuns: 500 },
    );
  });

  it('forgets the oldest deletions first', async () => {
    const state = new AutoConfigState(2);
    const put = { path: '/', data: { environments: {} } };
    state.apply(await parseMessage('put', JSON.stringify(put)));
    for (const id of ['e1', 'e2', 'e1', 'e3']) {
      const version = id === 'e1' ? 5 + state.save().length : 5;
      state.apply(await parseMessage('delete', JSON.stringify({ path: `/environments/${id}`, version })));
    }
    // e1 was deleted again after e2, so e2 is the oldest
    expect(JSON.parse(state.save()).tombstones.environments.map(([id]: [string]) => id)).toEqual(['e1', 'e3']);
    const late = { path: '/environments/e3', data: { sdkKey: { value: 'k' }, version: 5 } };
    expect(state.apply(await parseMessage('patch', JSON.stringify(late)))).toBe(false);
    const forgotten = { path: '/environments/e2', data: { sdkKey: { value: 'k' }, version: 5 } };
    expect(state.apply(await parseMessage('patch', JSON.stringify(forgotten)))).toBe(true);
  });

  it('keeps members that it does not know', async () => {
    const state = new AutoConfigState();
    const rep = { envID: 'e1', sdkKey: { value: 'k' }, sdkKeys: [{ key: 'default', value: 'k' }], version: 1 };
    state.apply(await parseMessage('put', JSON.stringify({ path: '/', data: { environments: { e1: rep } } })));
    expect(JSON.parse(state.save()).environments).toEqual([['e1', rep]]);
  });

  it('takes nothing of a cache that has another form', async () => {
    const state = new AutoConfigState();
    await send(state, {
      kind: 'patch',
      of: 'environments',
      id: 'e1',
      version: 1,
      body: { sdkKey: 'a', projKey: 'p' },
      all: [],
    });
    const before = state.save();
    for (const other of ['{"environments":{}}', '[]', 'no JSON', '']) expect(state.restore(other)).toBeUndefined();
    expect(state.save()).toBe(before);
  });
});

describe('stepsBetween', () => {
  const environment = (envId: string, sdkKey: string, more: object = {}): AutoConfigEnvironment => {
    return { envId, sdkKey, ttlMs: 0, secureMode: false, version: 1, filterKeys: [], ...more };
  };
  const byId = (...list: AutoConfigEnvironment[]): Map<string, AutoConfigEnvironment> => {
    return new Map(list.map((one) => [one.envId, one]));
  };
  const order = (before: AutoConfigEnvironment[], after: AutoConfigEnvironment[]): string[] => {
    return stepsBetween(byId(...before), byId(...after)).map((step) => {
      return step.kind === 'remove' ? `remove ${step.envId}` : `${step.environment.envId} ${step.environment.sdkKey}`;
    });
  };

  it('tells who takes a key over after who lost it', () => {
    const before = [environment('e1', 'new'), environment('e2', 'k')];
    expect(order(before, [environment('e1', 'k'), environment('e2', 'other')])).toEqual(['e2 other', 'e1 k']);
  });

  it('tells removals first', () => {
    expect(order([environment('e1', 'a'), environment('e2', 'k')], [environment('e1', 'k')])).toEqual([
      'remove e2',
      'e1 k',
    ]);
  });

  it('tells one of two that swap their keys twice', () => {
    const before = [environment('e1', 'a'), environment('e2', 'b')];
    expect(order(before, [environment('e1', 'b'), environment('e2', 'a')])).toEqual(['e2 a', 'e1 b', 'e2 a']);
  });

  it('tells an heir again that did not change itself', () => {
    const before = [environment('e1', 'k'), environment('e2', 'k')];
    expect(order(before, [environment('e1', 'k')])).toEqual(['remove e2', 'e1 k']);
  });

  it('tells nothing of what is as before', () => {
    const before = [environment('e1', 'k', { expiringSdkKey: { value: 'o', timestampMs: 5 } })];
    expect(order(before, structuredClone(before))).toEqual([]);
    expect(order(before, [environment('e1', 'k', { expiringSdkKey: { value: 'o', timestampMs: 6 } })])).toHaveLength(1);
  });

  it('holds a mobile key apart from an SDK key', () => {
    const before = [environment('e1', 'a', { mobileKey: 'k' }), environment('e2', 'k')];
    expect(order(before, [environment('e1', 'a'), environment('e2', 'k')])).toEqual(['e1 a']);
  });
});
