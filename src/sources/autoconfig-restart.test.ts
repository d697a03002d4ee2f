import { afterEach, describe, expect, it } from 'vitest';
import { autoConfigRep } from '../../test/support/autoconfig.ts';
import { AutoConfigRecord } from '../../test/support/autoconfig-cache.ts';
import { type AutoConfigPart, AutoConfigRig, autoConfigState } from '../../test/support/autoconfig-rig.ts';
import { turns } from '../../test/support/conditions.ts';
import { Seal } from './autoconfig-seal.ts';

afterEach(() => AutoConfigRig.closeAll());

/** A record in which an earlier life left this state. */
async function left(...list: readonly AutoConfigPart[]): Promise<AutoConfigRecord> {
  const record = new AutoConfigRecord();
  const rig = await AutoConfigRig.open({ ...autoConfigState(...list), filters: {} }, { record });
  await rig.load();
  await rig.close();
  return record;
}

/** Takes as long as whoever began before to open it, and then some. */
async function opened({ bytes = new Uint8Array() }: AutoConfigRecord): Promise<void> {
  for (let time = 0; time < 3; time++) await new Seal('secret').open(bytes);
}

/** A key takes a tenth of a second of one core to derive, on purpose. */
const SLOW_MS = 30_000;

describe('the cache of an automatic configuration', { timeout: SLOW_MS }, () => {
  it('is told at once when upstream is down, and compared with what upstream says later', async () => {
    const record = await left(['e1', 1], ['e2', 1], ['e3', 1]);
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1], ['e3', 2], ['e4', 1]), { record });
    rig.upstream.refuse(503);
    await rig.config.start();
    expect(rig.ear.take()).toEqual(['e1 v1', 'e2 v1', 'e3 v1', 'all from cache']);
    await rig.ear.heard('failed HG_UPSTREAM');
    expect(rig.ear.state).toBe('INITIALIZING');
    expect(rig.ear.take()).toEqual(['failed HG_UPSTREAM']);
    rig.upstream.accept();
    await rig.pass(1000);
    await rig.ear.heard('all from upstream');
    expect(rig.ear.take()).toEqual(['e2 gone', 'e3 v2', 'e4 v1', 'all from upstream']);
  });

  it('keeps an environment through a refused key at start', async () => {
    const record = await left(['e1', 1]);
    const rig = await AutoConfigRig.open({}, { record });
    rig.upstream.refuse(401);
    await rig.config.start();
    await rig.ear.heard('fatal HG_UPSTREAM');
    expect(rig.ear.take()).toEqual(['e1 v1', 'all from cache', 'fatal HG_UPSTREAM']);
    const { bytes } = record;
    await rig.close();
    expect(record.bytes).toBe(bytes);
  });

  it('remembers what was deleted and at which version', async () => {
    const record = new AutoConfigRecord();
    const before = await AutoConfigRig.open(autoConfigState(['e1', 3], ['e2', 3]), { record });
    await before.load();
    before.upstream.tellAutoConfig('delete', { path: '/environments/e1', version: 5 });
    await before.ear.heard('e1 gone');
    await before.close();
    // a replica of upstream that is behind
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 4], ['e2', 2, { envName: 'old' }]), { record });
    await rig.load();
    expect(rig.ear.take()).toEqual(['e2 v3', 'all from cache', 'all from upstream']);
    rig.upstream.tellAutoConfig('patch', { path: '/environments/e1', data: autoConfigRep('e1', 6) });
    await rig.ear.heard('e1 v6');
  });

  it('shows nothing of itself, and is saved a second after a change', async () => {
    const record = new AutoConfigRecord();
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1]), { record });
    await rig.load();
    await turns(3);
    expect(record.saves).toBe(0);
    rig.upstream.setAutoConfig(autoConfigState(['e1', 1], ['e2', 1]));
    await rig.ear.heard('e2 v1');
    rig.clock.advance(1000);
    await record.until('what was saved', () => record.bytes !== undefined);
    const text = Buffer.from(record.bytes ?? []).toString('latin1');
    for (const word of ['sdk-', 'mob-', 'envID', 'default', 'Name of', 'version', 'secret', 'rel-']) {
      expect(text).not.toContain(word);
    }
    rig.upstream.setAutoConfig(autoConfigState(['e1', 1], ['e2', 1]));
    await rig.ear.heard('all from upstream', 3);
    await rig.close();
    expect(record.saves).toBe(1);
  });

  it.each(['another key', 'damage', 'another form'])(
    'that cannot be used is told once and stays until upstream has told: %s',
    async (what) => {
      const record = await left(['e1', 1]);
      const secret = what === 'another key' ? 'another' : 'secret';
      if (what === 'damage') record.bytes = record.bytes?.map((byte, at) => (at === 60 ? byte ^ 1 : byte));
      if (what === 'another form') record.bytes = Buffer.from('{"environments":{}}');
      const { bytes } = record;
      const rig = await AutoConfigRig.open(autoConfigState(['e2', 1]), { record, secret });
      rig.upstream.refuse(503);
      await rig.config.start();
      expect(rig.ear.take()).toEqual(['failed HG_STORE', 'failed HG_UPSTREAM']);
      expect(record.bytes).toBe(bytes);
      rig.upstream.accept();
      await rig.pass(1000);
      await rig.ear.heard('all from upstream');
      expect(rig.ear.take()).toEqual(['e2 v1', 'all from upstream']);
      await rig.close();
      expect(record.bytes).not.toBe(bytes);
      const next = await AutoConfigRig.open({}, { record, secret });
      next.upstream.refuse(503);
      await next.config.start();
      expect(next.ear.take()).toEqual(['e2 v1', 'all from cache']);
    },
  );

  it('is not replaced by a patch alone', async () => {
    const record = await left(['e1', 1]);
    const { bytes } = record;
    const rig = await AutoConfigRig.open({}, { record, secret: 'another' });
    const patch = JSON.stringify({ path: '/environments/e2', data: autoConfigRep('e2', 1) });
    rig.upstream.fault({ kind: 'text', text: `event: patch\ndata: ${patch}\n\n` });
    await Promise.race([rig.config.start(), rig.ear.heard('e2 v1')]);
    await rig.ear.heard('e2 v1');
    await rig.close();
    expect(record.bytes).toBe(bytes);
  });

  it('does not keep us from upstream when it is slow, and counts when it comes before upstream', async () => {
    const record = await left(['e1', 1]);
    record.hold();
    const rig = await AutoConfigRig.open(autoConfigState(['e2', 1]), { record });
    rig.upstream.refuse(503);
    const started = rig.config.start();
    expect(rig.upstream.requests).toEqual([]);
    rig.clock.advance(2000);
    await started;
    record.release();
    await rig.ear.heard('all from cache');
    rig.upstream.accept();
    await rig.pass(1000);
    await rig.ear.heard('all from upstream');
    const told = ['failed HG_UPSTREAM', 'e1 v1', 'all from cache', 'e1 gone', 'e2 v1', 'all from upstream'];
    expect(rig.ear.take()).toEqual(told);
  });

  it('counts for nothing when it comes after upstream', async () => {
    const record = await left(['e1', 1]);
    const loads = record.loads;
    record.hold();
    const rig = await AutoConfigRig.open(autoConfigState(['e2', 1]), { record });
    const started = rig.config.start();
    await record.until('a load', () => record.loads > loads);
    rig.clock.advance(2000);
    await started;
    record.release();
    await opened(record);
    expect(rig.ear.take()).toEqual(['e2 v1', 'all from upstream']);
  });

  it('does not hold a stop up', async () => {
    const record = await left(['e1', 1]);
    record.hold();
    const rig = await AutoConfigRig.open({}, { record });
    void rig.config.start();
    await rig.config.stop();
    record.release();
    await opened(record);
    expect(rig.ear.take()).toEqual([]);
    expect(rig.upstream.requests).toEqual([]);
  });

  it('that cannot be read is told, and upstream is asked', async () => {
    const record = new AutoConfigRecord();
    record.failure = new Error('no such table');
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1]), { record });
    await rig.load();
    expect(rig.ear.take()).toEqual(['failed HG_STORE', 'e1 v1', 'all from upstream']);
    expect(rig.ear.failures[0]?.error.message).toContain('no such table');
  });

  it('is asked for no more when a listener throws at it: upstream tells it again', async () => {
    const record = await left(['e1', 1]);
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1]), { record });
    const upsert = rig.ear.upsert.bind(rig.ear);
    let throws = 1;
    rig.ear.upsert = (environment) => {
      if (throws-- > 0) throw new Error('not now');
      upsert(environment);
    };
    await rig.load();
    expect(rig.ear.take()).toEqual(['failed HG_STORE', 'e1 v1', 'all from upstream']);
  });
});
