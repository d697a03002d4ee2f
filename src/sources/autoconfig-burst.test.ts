import { afterEach, expect, it } from 'vitest';
import { autoConfigRep } from '../../test/support/autoconfig.ts';
import { AutoConfigRig, autoConfigState } from '../../test/support/autoconfig-rig.ts';

afterEach(() => AutoConfigRig.closeAll());

const ENVIRONMENTS = 500;
const PATCHES = 500;

it('hundreds of changes in one piece leave the event loop free in between', async () => {
  const ids = Array.from({ length: ENVIRONMENTS }, (_, at) => `e${at}`);
  const rig = await AutoConfigRig.open(autoConfigState(...ids.map((id) => [id, 1] as const)));
  await rig.load();
  rig.ear.take();
  let turn = 0;
  let counting = true;
  const next = (): void => {
    turn += 1;
    if (counting) setImmediate(next);
  };
  next();
  const turns = new Set<number>();
  const ear = rig.ear.upsert.bind(rig.ear);
  rig.ear.upsert = (environment) => {
    turns.add(turn);
    ear(environment);
  };
  const patches = Array.from({ length: PATCHES }, (_, at) => {
    const data = { path: `/environments/e${at}`, data: autoConfigRep(`e${at}`, 2) };
    return `event: patch\ndata: ${JSON.stringify(data)}\n\n`;
  });
  rig.upstream.raw(patches.join(''), 'autoconfig');
  await rig.ear.heard(`e${PATCHES - 1} v2`);
  counting = false;
  // the socket alone gives two or three pieces
  expect(turns.size).toBeGreaterThan(10);
});

it.each(['sdk 1', 'sdk-1\n', 'sdk-ü'])(
  'a key that cannot be sent, as %j, keeps no other environment back',
  async (value) => {
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1], ['e2', 1]));
    await rig.load();
    rig.ear.take();
    rig.upstream.setAutoConfig(autoConfigState(['e1', 2, { sdkKey: { value } }], ['e2', 2]));
    await rig.ear.heard('all from upstream');
    expect(rig.ear.take()).toEqual(['e2 v2', 'failed HG_UPSTREAM', 'all from upstream']);
    expect(rig.ear.environments.get('e1')?.sdkKey).toBe('sdk-e1');
    expect(rig.ear.failures[0]?.error.message).toMatch(
      /e1.sdkKey.value: must be printable ASCII without spaces, got e1$/,
    );
  },
);
