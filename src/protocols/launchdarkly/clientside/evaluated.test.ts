import { afterEach, describe, expect, it } from 'vitest';
import {
  type ClientSideRig,
  ENV_ID,
  encoded,
  MOBILE_KEY,
  startClientSide,
} from '../../../../test/support/clientside-rig.ts';
import { put } from '../../../../test/support/flags-items.ts';
import type { Item } from '../../../dataset/index.ts';
import { systemClock } from '../../../kernel/index.ts';
import { Evaluations } from '../evaluation/index.ts';

const IN = { segmentMatch: [{ attribute: '', op: 'segmentMatch', values: ['beta'], negate: false }] };

function flag(key: string, version: number, more: object): Item {
  const base = { key, version, on: true, offVariation: 0, fallthrough: { variation: 0 }, variations: ['no', 'yes'] };
  const clientSideAvailability = { usingMobileKey: true, usingEnvironmentId: true };
  const text = JSON.stringify({ ...base, salt: 's', clientSideAvailability, ...more });
  return { kind: 'flags', key, version, text };
}

function beta(version: number, included: readonly string[]): Item {
  const text = JSON.stringify({ key: 'beta', version, included, excluded: [], rules: [], salt: 's' });
  return { kind: 'segments', key: 'beta', version, text };
}

let rig: ClientSideRig | undefined;
let evaluations: Evaluations | undefined;
afterEach(async () => {
  await rig?.stop();
  await evaluations?.close();
});

describe('with the evaluator of the vendor', () => {
  it('a page follows what an edit of a segment does to flags, and to those that have them as prerequisites', async () => {
    evaluations = new Evaluations({ clock: systemClock, threads: 1, cacheBytesMax: 1e6, onFailure: () => undefined });
    rig = await startClientSide({ side: { evaluations } });
    await rig.load([
      flag('direct', 1, { rules: [{ id: 'r', variation: 1, clauses: IN.segmentMatch, trackEvents: false }] }),
      flag('by-prerequisite', 1, { prerequisites: [{ key: 'direct', variation: 1 }], fallthrough: { variation: 1 } }),
      flag('other', 1, {}),
      flag('of-servers', 1, { clientSideAvailability: { usingMobileKey: false, usingEnvironmentId: false } }),
      beta(1, []),
    ]);
    evaluations.attach(ENV_ID, rig.environment.data);
    const me = encoded({ kind: 'user', key: 'me' });
    const stream = await rig.stream(`/sdk/stream/eval/${me}?auth=${ENV_ID}`);
    const { id = '' } = await stream.event(5);
    expect(stream.events.slice(1, 4).map(({ data }) => (JSON.parse(data) as { key: string }).key)).toEqual([
      'by-prerequisite',
      'direct',
      'other',
    ]);
    await rig.apply(put(beta(2, ['me'])));
    const changed = [(await stream.event(6)).json, (await stream.event(7)).json];
    expect(changed).toMatchObject([
      { key: 'by-prerequisite', object: { value: 'yes', variation: 1, flagVersion: 1 } },
      { key: 'direct', object: { value: 'yes', variation: 1, flagVersion: 1 } },
    ]);
    const latest = await stream.event(8);
    const back = await rig.stream(`/sdk/stream/eval/${me}?auth=${ENV_ID}`, { 'last-event-id': id });
    expect((await back.event(4)).id).toBe(latest.id);
    expect(back.names).toEqual(['server-intent', 'put-object', 'put-object', 'payload-transferred']);
    const evalx = await rig.get(`/msdk/evalx/contexts/${me}`, { authorization: MOBILE_KEY });
    expect(evalx.json()).toMatchObject({ direct: { value: 'yes', variation: 1, version: 1 } });
    await rig.apply(
      put(flag('other', 2, { clientSideAvailability: { usingMobileKey: true, usingEnvironmentId: false } })),
    );
    expect(await stream.event(9)).toMatchObject({
      event: 'delete-object',
      json: { version: 2, kind: 'flag-eval', key: 'other' },
    });
    await stream.event(10);
  });
});
