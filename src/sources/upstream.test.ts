import { describe, expect, it } from 'vitest';
import { until } from '../../test/support/conditions.ts';
import { FakeUpstream } from '../../test/support/fake-upstream.ts';
import { UpstreamRig } from '../../test/support/fake-upstream-listener.ts';
import { FakeClock, HeadgateError } from '../kernel/index.ts';
import { openUpstream } from './upstream.ts';

const flag = (key: string, version: number, more: object = {}) => ({ key, version, ...more });
const TWO = { flags: [flag('a', 1)], segments: [flag('s', 1)] };

describe.each(['fdv1', 'fdv2'] as const)('an upstream that speaks %s', (protocol) => {
  const path = protocol === 'fdv1' ? '/all' : '/sdk/stream';
  const state = (at: number): string | undefined => (protocol === 'fdv1' ? undefined : `(p:fake:${at})`);

  it('is asked by its key and filter, and tells all, then what changes', async () => {
    await using rig = await UpstreamRig.open({ protocol, filterKey: 'only-a' }, { gzip: true, prefix: '/deep' });
    const { cloud, kept, upstream } = rig;
    const environment = cloud.environment('sdk-fake', {
      flags: [flag('a', 1, { nobody: [1.0, 'knows'] }), flag('b', 1)],
    });
    environment.filters.set('only-a', (_, { key }) => key !== 'b');
    environment.envId = '507f';
    await upstream.start();
    expect(kept.calls).toEqual(['replace a']);
    expect(kept.text('flags/a')).toBe('{"key":"a","version":1,"nobody":[1,"knows"]}');
    expect([kept.state, kept.now, upstream.envId]).toEqual([state(2), 'VALID', '507f']);
    environment.patch('flags', flag('a', 2));
    await kept.until('a change', () => kept.calls.length === 2);
    environment.patch('segments', flag('s', 1));
    await kept.until('another', () => kept.calls.length === 3);
    environment.remove('flags', 'a');
    await kept.until('a third', () => kept.calls.length === 4);
    expect(kept.calls.slice(1)).toEqual(['apply flags/a@2', 'apply segments/s@1', 'apply -flags/a@3']);
    expect(kept.state).toBe(state(5));
    expect(cloud.seen(path)).toMatchObject([
      { key: 'sdk-fake', headers: { accept: 'text/event-stream', 'user-agent': 'Headgate/test' } },
    ]);
    expect(cloud.seen(path)[0]?.query.get('filter')).toBe('only-a');
    expect(kept.overlaps).toBe(0);
  });

  it('is asked again after a cut, and what was cut counts for nothing', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream, clock } = rig;
    cloud.environment('sdk-fake', TWO);
    cloud.fault({ kind: 'cut', bytes: 100 }, { kind: 'truncate', bytes: 100 });
    await upstream.start();
    expect([kept.calls, kept.now]).toEqual([[], 'INITIALIZING']);
    expect(kept.statuses.at(-1)?.lastError?.kind).toBe('NETWORK_ERROR');
    await rig.afterWait(999);
    expect(clock.armed).toBe(1);
    clock.advance(1);
    await kept.until('another failure', () => kept.errors.length === 2);
    await rig.afterWait(2000);
    await kept.until('the data', () => kept.now === 'VALID');
    expect(kept.calls).toEqual(['replace a s']);
    cloud.drop('reset');
    await kept.until('the loss', () => kept.now === 'INTERRUPTED');
    expect([...kept.held.keys()]).toEqual(['flags/a', 'segments/s']);
  });

  it('waits twice as long each time, and begins anew after a minute of health', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream, clock } = rig;
    cloud.environment('sdk-fake', TWO);
    cloud.refuse({ status: 503, times: 3 });
    await upstream.start();
    for (const [at, ms] of [1000, 2000].entries()) {
      await rig.afterWait(ms - 1);
      expect(clock.armed).toBe(1);
      clock.advance(1);
      await kept.until('another refusal', () => kept.errors.length === at + 2);
    }
    expect(kept.statuses.at(-1)).toMatchObject({
      state: 'INITIALIZING',
      lastError: { kind: 'ERROR_RESPONSE', statusCode: 503 },
    });
    await rig.afterWait(4000);
    await kept.until('data', () => kept.now === 'VALID');
    clock.advance(59_999);
    cloud.drop();
    await kept.until('the loss', () => kept.now === 'INTERRUPTED');
    await rig.afterWait(7999);
    expect(clock.armed).toBe(1);
    clock.advance(1);
    await kept.until('data', () => kept.now === 'VALID');
    clock.advance(60_000);
    cloud.drop();
    await kept.until('the loss', () => kept.now === 'INTERRUPTED');
    await rig.afterWait(1000);
    await kept.until('data', () => kept.now === 'VALID');
  });

  it('that refuses the key is asked rarely, and at once with another key', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream, clock } = rig;
    cloud.environment('sdk-new', TWO);
    await upstream.start();
    expect([kept.now, kept.refusals]).toEqual(['OFF', [401]]);
    await rig.afterWait(5 * 60_000 - 1);
    expect(clock.armed).toBe(1);
    clock.advance(1);
    await kept.until('a second refusal', () => kept.refusals.length === 2);
    await rig.afterWait(5 * 60_000);
    expect([clock.armed, cloud.seen(path).length]).toEqual([1, 2]);
    upstream.setKey('sdk-new');
    await kept.until('data', () => kept.now === 'VALID');
    expect(kept.calls).toEqual(['replace a s']);
  });

  it('is asked again for what could not be stored', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream } = rig;
    const environment = cloud.environment('sdk-fake', TWO);
    kept.rejections.push(new HeadgateError('HG_STORE', 'Cannot write: disk full'));
    await upstream.start();
    expect(kept.statuses.at(-1)?.lastError?.kind).toBe('STORE_ERROR');
    await rig.afterWait(1000);
    await kept.until('the data', () => kept.now === 'VALID');
    kept.rejections.push(new Error('strange'));
    environment.patch('flags', flag('a', 2));
    await kept.until('the failure', () => kept.now === 'INTERRUPTED');
    expect(kept.statuses.at(-1)?.lastError?.kind).toBe('UNKNOWN');
    expect(kept.text('flags/a')).toBe('{"key":"a","version":1}');
    await rig.afterWait(2000);
    await kept.until('the data', () => kept.now === 'VALID');
    expect(kept.text('flags/a')).toBe('{"key":"a","version":2}');
  });

  it('that sends what cannot be read is left, and what is held stays', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream } = rig;
    cloud.environment('sdk-fake', TWO);
    await upstream.start();
    cloud.raw(`event: ${protocol === 'fdv1' ? 'put' : 'server-intent'}\ndata: {"path":"/","data":{"flags":{x\n\n`);
    await kept.until('the loss', () => kept.now === 'INTERRUPTED');
    expect(kept.statuses.at(-1)?.lastError?.kind).toBe('INVALID_DATA');
    expect(kept.errors[0]).toMatchObject({
      code: 'HG_SOURCE',
      message: expect.stringMatching(/^Cannot read the .* of test:/),
    });
    expect(kept.held.size).toBe(2);
    cloud.refuse({ status: 200, headers: { 'content-type': 'text/html' }, body: '<html>' });
    await rig.afterWait(1000);
    await kept.until('another failure', () => kept.errors.length === 2);
    expect(kept.errors[1]?.message).toMatch(/must answer with text\/event-stream, got text\/html$/);
  });

  it('that says nothing for five minutes is left', async () => {
    const clock = new FakeClock();
    await using rig = await UpstreamRig.open({ protocol }, {}, clock);
    const { cloud, kept, upstream } = rig;
    cloud.environment('sdk-fake', TWO);
    await upstream.start();
    await until('the wait for a byte', () => clock.armed === 1);
    clock.advance(4 * 60_000);
    cloud.raw(':\n');
    await until('the heartbeat', () => clock.armed === 1);
    clock.advance(60_000);
    cloud.environment('other');
    expect(cloud.streams()).toBe(1);
    clock.advance(5 * 60_000);
    await kept.until('the loss', () => kept.now === 'INTERRUPTED');
  });

  it('tells nothing once it has been stopped, not even what was under way', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream } = rig;
    cloud.environment('sdk-fake', TWO);
    cloud.fault({ kind: 'hold', bytes: 100 });
    const started = upstream.start();
    await cloud.until('a stream', () => cloud.streams() === 1);
    await upstream.stop();
    await started;
    cloud.release();
    expect([kept.calls, kept.statuses.length]).toEqual([[], 1]);
    upstream.reconnect();
    expect(cloud.requests).toHaveLength(1);
  });
});

describe('a protocol', () => {
  it('is FDv1 where the other is not known, for good', async () => {
    await using rig = await UpstreamRig.open({}, { protocols: 'fdv1' });
    const { cloud, kept, upstream } = rig;
    cloud.environment('sdk-fake', TWO);
    await upstream.start();
    expect([kept.now, upstream.speaks, kept.errors.length]).toEqual(['VALID', 'fdv1', 0]);
    cloud.protocols = 'both';
    cloud.drop();
    await rig.afterWait(1000);
    await cloud.until('another stream', () => cloud.seen('/all').length === 2);
    await kept.until('data', () => kept.now === 'VALID');
    cloud.refuse({ status: 404, path: '/all' });
    cloud.drop();
    await rig.afterWait(2000);
    await kept.until('a refusal', () => kept.statuses.at(-1)?.lastError?.statusCode === 404);
    await rig.afterWait(4000);
    await cloud.until('another attempt', () => cloud.seen('/all').length === 4);
    expect(cloud.seen('/sdk/stream')).toHaveLength(1);
  });

  it('is FDv1 where upstream says so, whatever else it answers', async () => {
    await using rig = await UpstreamRig.open({});
    const { cloud, kept, upstream } = rig;
    cloud.environment('sdk-fake', TWO);
    cloud.refuse({ status: 503, headers: { 'x-ld-fd-fallback': 'true' }, path: '/sdk/stream' });
    await upstream.start();
    expect([kept.now, upstream.speaks]).toEqual(['VALID', 'fdv1']);
  });

  it('may become FDv1 later, which is told nothing of what is held', async () => {
    await using rig = await UpstreamRig.open({});
    const { cloud, kept, upstream } = rig;
    cloud.environment('sdk-fake', TWO).ids = true;
    await upstream.start();
    cloud.drop();
    await kept.until('the loss', () => kept.now === 'INTERRUPTED');
    cloud.protocols = 'fdv1';
    await rig.afterWait(1000);
    await kept.until('data', () => kept.now === 'VALID');
    expect(cloud.seen('/sdk/stream')[1]?.headers['last-event-id']).toBe('(p:fake:2)');
    expect(cloud.seen('/all')[0]?.headers['last-event-id']).toBeUndefined();
  });

  it('is not settled by two answers of 404, as for a filter that is not there yet', async () => {
    await using rig = await UpstreamRig.open({ filterKey: 'later' });
    const { cloud, kept, upstream } = rig;
    const environment = cloud.environment('sdk-fake', TWO);
    await upstream.start();
    expect(kept.statuses.at(-1)).toMatchObject({ state: 'INITIALIZING', lastError: { statusCode: 404 } });
    environment.filters.set('later', () => true);
    await rig.afterWait(1000);
    await kept.until('data', () => kept.now === 'VALID');
    expect(upstream.speaks).toBe('fdv2');
  });

  it('is FDv1 where an address that is not known takes whatever comes', async () => {
    await using rig = await UpstreamRig.open({});
    const { cloud, kept, upstream } = rig;
    cloud.environment('sdk-fake', TWO);
    cloud.refuse({ status: 202, path: '/sdk/stream' });
    await upstream.start();
    expect([kept.now, upstream.speaks]).toEqual(['VALID', 'fdv1']);
  });

  it('that is asked for by name is the only one', async () => {
    await using rig = await UpstreamRig.open({ protocol: 'fdv2' }, { protocols: 'fdv1' });
    rig.cloud.environment('sdk-fake', TWO);
    await rig.upstream.start();
    expect(rig.kept.statuses.at(-1)?.lastError?.statusCode).toBe(404);
    expect(rig.cloud.seen('/all')).toEqual([]);
  });
});

describe('what is held', () => {
  it('is named to FDv2, so that only changes come, also after a restart', async () => {
    const cloud = await FakeUpstream.start();
    const environment = cloud.environment('sdk-fake', TWO);
    await using rig = await UpstreamRig.open({ state: environment.state }, cloud);
    const { kept, upstream } = rig;
    await upstream.start();
    expect([kept.calls, kept.now]).toEqual([['current'], 'VALID']);
    environment.patch('flags', flag('a', 2));
    await kept.until('the change', () => kept.calls.length === 2);
    cloud.drop();
    await kept.until('the loss', () => kept.now === 'INTERRUPTED');
    environment.patch('flags', flag('b', 1));
    await rig.afterWait(1000);
    await kept.until('the data', () => kept.now === 'VALID');
    expect(kept.calls.slice(1)).toEqual(['apply flags/a@2', 'apply flags/b@1']);
    expect(cloud.seen('/sdk/stream').map(({ query }) => query.get('basis'))).toEqual(['(p:fake:2)', '(p:fake:3)']);
    upstream.reconnect();
    await kept.until('all of it', () => kept.calls.length === 4);
    expect(kept.calls[3]).toBe('replace a s b');
  });

  it('is named by the last id where events have one, and an FDv1 change may follow it', async () => {
    await using rig = await UpstreamRig.open({ protocol: 'fdv1' });
    const { cloud, kept, upstream } = rig;
    const environment = cloud.environment('sdk-fake', TWO);
    environment.ids = true;
    await upstream.start();
    cloud.drop();
    await kept.until('the loss', () => kept.now === 'INTERRUPTED');
    const patch = (version: number): string =>
      `event: patch\ndata: ${JSON.stringify({ path: '/flags/a', data: { version } })}\nid: x\n\n`;
    cloud.fault({ kind: 'text', text: patch(1) + patch(2) });
    await rig.afterWait(1000);
    await kept.until('the change', () => kept.calls.length === 2);
    expect(kept.calls[1]).toBe('apply flags/a@2');
    upstream.reconnect();
    await kept.until('all of it', () => kept.calls.length === 3);
    expect(cloud.seen('/all').map(({ headers }) => headers['last-event-id'])).toEqual([
      undefined,
      '(p:fake:2)',
      undefined,
    ]);
  });

  it('is not lowered by FDv1, and is by FDv2, which says what counts', async () => {
    for (const protocol of ['fdv1', 'fdv2'] as const) {
      await using rig = await UpstreamRig.open({ protocol });
      const { cloud, kept, upstream } = rig;
      const environment = cloud.environment('sdk-fake', { flags: [flag('a', 5)] });
      await upstream.start();
      environment.patch('flags', flag('a', 5));
      environment.remove('flags', 'a', 4);
      environment.patch('flags', flag('b', 1));
      await kept.until('the last change', () => kept.held.has('flags/b'));
      expect(kept.versionOf('flags', 'a')).toBe(protocol === 'fdv1' ? 5 : 4);
    }
  });
});

describe('a full copy in FDv1', () => {
  it('is handed over while it comes, each item as soon as it is there', async () => {
    const seen: string[] = [];
    await using rig = await UpstreamRig.open({ protocol: 'fdv1' });
    const { cloud, kept, upstream } = rig;
    kept.onItem = (item) => seen.push(item.key);
    cloud.environment('sdk-fake', { flags: [flag('a', 1), flag('b', 1), flag('c', 1)] });
    cloud.fault({ kind: 'hold', bytes: 90 });
    const started = upstream.start();
    await until('the first items', () => seen.length > 0);
    expect(seen).toEqual(['a']);
    expect(kept.calls).toEqual([]);
    cloud.release();
    await started;
    expect(kept.calls).toEqual(['replace a b c']);
  });

  it('that was cut is none, even where the listener takes what there is of it', async () => {
    await using rig = await UpstreamRig.open({ protocol: 'fdv1' });
    const { cloud, kept, upstream } = rig;
    kept.takesParts = true;
    cloud.environment('sdk-fake', TWO);
    cloud.fault({ kind: 'truncate', bytes: 100 });
    await upstream.start();
    expect([kept.now, kept.statuses.at(-1)?.lastError?.kind]).toEqual(['INITIALIZING', 'NETWORK_ERROR']);
  });
});

describe('settings', () => {
  it('that cannot be used are refused', async () => {
    await using rig = await UpstreamRig.open({});
    const { kept, clock, upstream } = rig;
    const outbound = {} as Parameters<typeof openUpstream>[0]['outbound'];
    const good = {
      name: 'x',
      streamUri: 'http://x',
      baseUri: 'http://x',
      sdkKey: 'k',
      protocol: 'auto',
      outbound,
      clock,
      listener: kept,
    } as const;
    for (const bad of [{ streamUri: 'x' }, { baseUri: 'ftp://x' }, { sdkKey: '' }, { sdkKey: 'a\r\nb' }]) {
      expect(() => openUpstream({ ...good, ...bad })).toThrow(expect.objectContaining({ code: 'HG_OPTION' }));
    }
    expect(() => upstream.setKey('a b')).toThrow(expect.objectContaining({ code: 'HG_OPTION' }));
  });
});
