import { afterEach, describe, expect, it } from 'vitest';
import { autoConfigRep } from '../../test/support/autoconfig.ts';
import { AUTO_CONFIG_KEY, AutoConfigRig, autoConfigState } from '../../test/support/autoconfig-rig.ts';
import { turns, until } from '../../test/support/conditions.ts';
import { autoConfigTold, openAutoConfig } from './autoconfig.ts';

const WALL_MS = 1_800_000_000_000;
const FILTER = { projKey: 'default', key: 'web', version: 1 };

afterEach(() => AutoConfigRig.closeAll());

describe('openAutoConfig', () => {
  it('asks as the protocol wants it, and tells every member of an environment', async () => {
    const expiring = { value: 'sdk-old', timestamp: 1_795_992_557_163 };
    const rep = { sdkKey: { value: 'sdk-new', expiring }, defaultTtl: 5, secureMode: true };
    const rig = await AutoConfigRig.open(
      { ...autoConfigState(['e1', 7, rep]), filters: { f1: FILTER } },
      { fake: { prefix: '/team' } },
    );
    await rig.load();
    const [request] = rig.upstream.requests;
    expect(request?.target).toBe('/relay_auto_config?rpacProtocolVersion=2');
    expect(request?.key).toBe(AUTO_CONFIG_KEY);
    expect(request?.headers).toMatchObject({ accept: 'text/event-stream', 'user-agent': 'headgate/1.2.3' });
    expect(rig.ear.environments.get('e1')).toEqual({
      envId: 'e1',
      sdkKey: 'sdk-new',
      expiringSdkKey: { value: 'sdk-old', timestampMs: 1_795_992_557_163 },
      mobileKey: 'mob-e1',
      envKey: 'key-e1',
      envName: 'Name of e1',
      projKey: 'default',
      projName: 'Default Project',
      ttlMs: 300_000,
      secureMode: true,
      version: 7,
      filterKeys: ['web'],
    });
    expect(rig.ear.take()).toEqual(['e1 v7 [web]', 'all from upstream']);
    expect(rig.ear.statuses).toEqual([
      { state: 'INITIALIZING', sinceMs: WALL_MS },
      { state: 'VALID', sinceMs: WALL_MS },
    ]);
  });

  it('takes patches and deletions whose version rises, and ignores what it does not know', async () => {
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 2]), { fake: { gzip: true } });
    await rig.load();
    rig.ear.take();
    const { upstream, ear } = rig;
    upstream.tellAutoConfig('patch', { path: '/environments/e1', data: autoConfigRep('e1', 2, { envName: 'late' }) });
    upstream.tellAutoConfig('patch', { path: '/environments/e1', data: autoConfigRep('e1', 3) });
    upstream.tellAutoConfig('patch', { path: '/teams/t1', data: {} });
    upstream.tellAutoConfig('somersault', { any: 'thing' });
    upstream.tellAutoConfig('put', { path: '/teams', data: {} });
    upstream.tellAutoConfig('patch', { path: '/filters/f1', data: FILTER });
    upstream.tellAutoConfig('patch', { path: '/filters/f2', data: { ...FILTER, projKey: 'other' } });
    upstream.tellAutoConfig('patch', { path: '/filters/f3', data: { ...FILTER, key: 'app' } });
    upstream.tellAutoConfig('delete', { path: '/filters/f1', version: 1 });
    upstream.tellAutoConfig('delete', { path: '/filters/f1', version: 2 });
    upstream.tellAutoConfig('delete', { path: '/environments/e2', version: 9 });
    upstream.tellAutoConfig('patch', { path: '/environments/e2', data: autoConfigRep('e2', 9) });
    upstream.tellAutoConfig('delete', { path: '/environments/e1', version: 4 });
    upstream.tellAutoConfig('patch', { path: '/environments/e1', data: autoConfigRep('e1', 4) });
    upstream.tellAutoConfig('patch', { path: '/environments/e1', data: autoConfigRep('e1', 5) });
    await ear.heard('e1 v5 [app]');
    expect(ear.take()).toEqual(['e1 v3', 'e1 v3 [web]', 'e1 v3 [app web]', 'e1 v3 [app]', 'e1 gone', 'e1 v5 [app]']);
    expect(ear.failures).toEqual([]);
  });

  it('tells of a second put only what is different', async () => {
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1], ['e2', 1], ['e3', 1]));
    await rig.load();
    rig.ear.take();
    rig.upstream.setAutoConfig(autoConfigState(['e1', 1], ['e3', 2], ['e4', 1]));
    await rig.ear.heard('all from upstream');
    expect(rig.ear.take()).toEqual(['e2 gone', 'e3 v2', 'e4 v1', 'all from upstream']);
  });

  it('keeps what it knows of a description that cannot be read, tells where, once, and takes the others', async () => {
    const rig = await AutoConfigRig.open({ ...autoConfigState(['e1', 1], ['e2', 1]), filters: { f1: FILTER } });
    await rig.load();
    rig.ear.take();
    const broken = {
      environments: {
        e1: autoConfigRep('e1', 2, { sdkKey: { value: 7 } }),
        e2: autoConfigRep('e2', 2),
        e3: autoConfigRep('e1', 1),
        e4: null,
      },
      filters: { f1: { projKey: 'default', version: 2 } },
    };
    rig.upstream.setAutoConfig(broken);
    rig.upstream.setAutoConfig(broken);
    await rig.ear.heard('all from upstream', 2);
    const failed = 'failed HG_UPSTREAM';
    expect(rig.ear.take()).toEqual([
      'e2 v2 [web]',
      failed,
      failed,
      failed,
      failed,
      'all from upstream',
      'all from upstream',
    ]);
    expect([...rig.ear.environments.keys()]).toEqual(['e1', 'e2']);
    const messages = rig.ear.failures.map(({ error }) => error.message.replace(/^.* stays: /, ''));
    expect(messages).toEqual([
      'data.environments.e1.sdkKey.value: Invalid input: expected string, received number, got e1',
      'data.environments.e3.envID: must be the ID in its path, got e3',
      'data.environments.e4: Invalid input: expected object, received null, got e4',
      'data.filters.f1.key: Invalid input: expected string, received undefined, got f1',
    ]);
    expect(rig.ear.state).toBe('VALID');
    rig.upstream.tellAutoConfig('patch', { path: '/environments/e1', data: autoConfigRep('e1', 2) });
    await rig.ear.heard('e1 v2 [web]');
    // it could be read in between, so that it cannot is news
    const again = autoConfigRep('e1', 3, { sdkKey: { value: 7 } });
    rig.upstream.tellAutoConfig('patch', { path: '/environments/e1', data: again });
    rig.upstream.tellAutoConfig('patch', { path: '/environments/e1', data: again });
    rig.upstream.tellAutoConfig('patch', { path: '/environments/e2', data: autoConfigRep('e2', 3) });
    await rig.ear.heard('e2 v3 [web]');
    expect(rig.ear.take()).toEqual(['e1 v2 [web]', failed, 'e2 v3 [web]']);
  });

  it.each([
    ['no JSON', 'event: put\ndata: {"path":"/","data":{"environments":{"sdk-secret\n\n'],
    ['no environments', 'event: put\ndata: {"path":"/","data":{"filters":{}}}\n\n'],
    ['environments of another type', 'event: put\ndata: {"path":"/","data":{"environments":[]}}\n\n'],
    ['no path', 'event: patch\ndata: {"data":{}}\n\n'],
    ['a version that is none', 'event: delete\ndata: {"path":"/environments/e1","version":"2"}\n\n'],
  ])('connects anew after an event that cannot be read: %s', async (_what, text) => {
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1]));
    await rig.load();
    rig.ear.take();
    rig.upstream.raw(text, 'autoconfig');
    await rig.ear.heard('failed HG_UPSTREAM');
    expect(rig.ear.environments.has('e1')).toBe(true);
    expect(rig.ear.statuses.at(-1)?.lastError).toEqual({ kind: 'INVALID_DATA', timeMs: WALL_MS });
    expect(rig.ear.failures[0]?.error.message).not.toContain('secret');
    await rig.pass(1000);
    await rig.ear.heard('all from upstream');
    expect(rig.ear.state).toBe('VALID');
    expect(rig.ear.take()).toEqual(['failed HG_UPSTREAM', 'all from upstream']);
  });

  it('takes null for no environments at all', async () => {
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1]));
    await rig.load();
    rig.upstream.tellAutoConfig('put', { path: '/', data: { environments: null } });
    await rig.ear.heard('all from upstream', 2);
    expect(rig.ear.take()).toEqual(['e1 v1', 'all from upstream', 'e1 gone', 'all from upstream']);
  });

  it('connects anew when upstream asks for it, and that is no failure', async () => {
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1]));
    await rig.load();
    rig.upstream.tellAutoConfig('reconnect', {});
    await rig.pass(1000);
    await rig.ear.heard('all from upstream', 2);
    await rig.upstream.until('one stream', () => rig.upstream.streams('autoconfig') === 1);
    expect(rig.ear.take()).toEqual(['e1 v1', 'all from upstream', 'all from upstream']);
    expect(rig.ear.statuses).toHaveLength(2);
  });

  it('comes back after waits that grow, tells an outage once, and begins anew after a minute of health', async () => {
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1]));
    await rig.load();
    rig.upstream.refuse(503);
    rig.upstream.drop('reset');
    await rig.ear.heard('failed HG_UPSTREAM');
    expect(rig.ear.state).toBe('INTERRUPTED');
    for (const ms of [1000, 2000, 4000, 8000, 16_000, 30_000]) await rig.pass(ms);
    await rig.connected(7);
    expect(rig.ear.failures).toHaveLength(2);
    expect(rig.ear.failures[1]?.error.message).toContain('the answer must have status 200, got 503');
    expect(rig.ear.statuses.at(-1)).toMatchObject({ lastError: { kind: 'ERROR_RESPONSE', statusCode: 503 } });
    rig.upstream.accept();
    await rig.pass(30_000);
    await rig.ear.heard('all from upstream', 2);
    rig.upstream.drop();
    await rig.pass(30_000);
    await rig.ear.heard('all from upstream', 3);
    rig.clock.advance(60_000);
    rig.upstream.drop();
    await rig.pass(1000);
    await rig.ear.heard('all from upstream', 4);
    expect([...rig.ear.environments.keys()]).toEqual(['e1']);
  });

  it('ends a connection on which nothing came for five minutes', async () => {
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1]));
    await rig.load();
    rig.wire.advance(299_000);
    rig.upstream.raw(':\n', 'autoconfig');
    await until('another wait for bytes', () => rig.wire.setMs.filter((ms) => ms === 300_000).length >= 3);
    rig.wire.advance(299_999);
    await turns(5);
    expect(rig.ear.failures).toEqual([]);
    rig.wire.advance(1);
    await rig.ear.heard('failed HG_UPSTREAM');
    expect(rig.ear.failures[0]?.error.message).toContain('nothing came for 300 s');
    await rig.pass(1000);
    await rig.ear.heard('all from upstream', 2);
  });

  it.each([401, 403])(
    'keeps what it knows when its key is refused with %i, and asks again, but rarely',
    async (status) => {
      const rig = await AutoConfigRig.open(autoConfigState(['e1', 1]));
      await rig.load();
      rig.upstream.refuse(status);
      rig.upstream.drop();
      await rig.pass(1000);
      await rig.ear.heard('fatal HG_UPSTREAM');
      expect(rig.ear.statuses.at(-1)).toMatchObject({ state: 'OFF', lastError: { statusCode: status } });
      for (const ms of [60_000, 120_000, 240_000]) await rig.pass(ms);
      await rig.connected(5);
      expect(rig.ear.failures).toHaveLength(2);
      expect(rig.ear.failures[1]?.error.message).not.toContain('rel-');
      expect([...rig.ear.environments.keys()]).toEqual(['e1']);
      rig.upstream.accept();
      await until('a wait', () => rig.clock.setMs.includes(480_000));
      rig.config.reconnect();
      await rig.ear.heard('all from upstream', 2);
      expect(rig.ear.state).toBe('VALID');
      rig.upstream.refuse(status);
      rig.config.reconnect();
      await rig.pass(60_000);
      await rig.ear.heard('fatal HG_UPSTREAM', 2);
    },
  );

  it('does not take a page for a stream', async () => {
    const rig = await AutoConfigRig.open({});
    rig.upstream.refuse({ status: 200, headers: { 'content-type': 'text/html' }, body: '<h1>Log in</h1>' });
    await rig.config.start();
    expect(rig.ear.take()).toEqual(['failed HG_UPSTREAM']);
    expect(rig.ear.failures[0]?.error.message).toContain('the answer must be text/event-stream, got "text/html"');
    expect(rig.ear.state).toBe('INITIALIZING');
  });

  it('connects anew when told to, whatever it is doing', async () => {
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1]));
    rig.upstream.fault({ kind: 'stall' });
    const started = rig.config.start();
    await rig.connected(1);
    rig.config.reconnect();
    await started;
    await rig.connected(2);
    rig.config.reconnect();
    await rig.ear.heard('all from upstream', 2);
    await rig.upstream.until('one stream', () => rig.upstream.streams('autoconfig') === 1);
    expect(rig.ear.failures).toEqual([]);
  });

  it('goes on when a listener throws, and tells it again', async () => {
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1], ['e2', 1]));
    const upsert = rig.ear.upsert.bind(rig.ear);
    let throws = 1;
    rig.ear.upsert = (environment) => {
      if (environment.envId === 'e1' && throws-- > 0) throw new Error('not now');
      upsert(environment);
    };
    await rig.config.start();
    expect(rig.ear.statuses.at(-1)).toMatchObject({ lastError: { kind: 'UNKNOWN' } });
    await rig.pass(1000);
    await rig.ear.heard('all from upstream');
    expect([...rig.ear.environments.keys()].toSorted((a, b) => a.localeCompare(b))).toEqual(['e1', 'e2']);
  });

  it('makes known how much it told', async () => {
    const facts: object[] = [];
    const stop = autoConfigTold.listen((fact) => facts.push(fact));
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1], ['e2', 1]));
    await rig.load();
    rig.upstream.setAutoConfig(autoConfigState(['e2', 2]));
    await rig.ear.heard('e2 v2');
    stop();
    expect(facts).toEqual([
      { from: 'upstream', upserts: 2, removes: 0, malformed: 0 },
      { from: 'upstream', upserts: 1, removes: 1, malformed: 0 },
    ]);
  });

  it('tells nothing once it has stopped, and can be stopped at any time', async () => {
    const rig = await AutoConfigRig.open(autoConfigState(['e1', 1]));
    rig.upstream.fault({ kind: 'hold', bytes: 40 });
    void rig.config.start();
    await rig.connected(1);
    await rig.config.stop();
    rig.upstream.release();
    await turns(3);
    expect(rig.ear.take()).toEqual([]);
    expect(rig.ear.state).toBe('OFF');
    expect(rig.clock.armed).toBe(0);
    await rig.config.stop();
    await rig.config.start();
  });

  it('takes nothing of what came with the event at which it was stopped', async () => {
    const rig = await AutoConfigRig.open({});
    const put = JSON.stringify({ path: '/', data: autoConfigState(['e1', 1]) });
    const patch = JSON.stringify({ path: '/environments/e1', data: autoConfigRep('e1', 2) });
    rig.upstream.fault({ kind: 'text', text: `event: put\ndata: ${put}\n\nevent: patch\ndata: ${patch}\n\n` });
    const complete = rig.ear.complete.bind(rig.ear);
    let stopped: Promise<void> | undefined;
    rig.ear.complete = (from) => {
      complete(from);
      stopped = rig.config.stop();
    };
    await rig.config.start();
    await stopped;
    expect(rig.ear.take()).toEqual(['e1 v1', 'all from upstream']);
  });

  it.each([
    [{ streamUri: 'stream.example' }, 'must be an http or https URL'],
    [{ key: 'two words' }, 'got one of 9 characters'],
    [{ key: '' }, 'got one of 0 characters'],
  ])('refuses %j', async (wrong, cause) => {
    const rig = await AutoConfigRig.open({});
    const good = {
      streamUri: rig.upstream.url,
      key: AUTO_CONFIG_KEY,
      outbound: rig.outbound,
      clock: rig.clock,
      listener: rig.ear,
    };
    expect(() => openAutoConfig({ ...good, ...wrong })).toThrow(cause);
  });
});
