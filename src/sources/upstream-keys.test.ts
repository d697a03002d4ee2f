import { describe, expect, it } from 'vitest';
import { turns, until } from '../../test/support/conditions.ts';
import { UpstreamRig } from '../../test/support/fake-upstream-listener.ts';

const flag = (key: string, version: number) => ({ key, version });
const TWO = { flags: [flag('a', 1)], segments: [flag('s', 1)] };
const MINUTE = 60_000;

describe.each(['fdv1', 'fdv2'] as const)('another key in %s', (protocol) => {
  const path = protocol === 'fdv1' ? '/all' : '/sdk/stream';

  it('takes the place of the old one once it has delivered, without a gap', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream } = rig;
    const environment = cloud.environment('sdk-fake', TWO);
    await upstream.start();
    environment.rotate('sdk-new', true);
    cloud.fault({ kind: 'hold', bytes: 60 });
    upstream.reconnect();
    upstream.setKey('sdk-new');
    await cloud.until('both', () => cloud.seen(path, true).some(({ key }) => key === 'sdk-new'));
    expect(cloud.seen(path, true).some(({ key }) => key === 'sdk-fake')).toBe(true);
    expect(kept.now).toBe('VALID');
    cloud.release();
    await cloud.until('the new one alone', () => cloud.streams() === 1);
    expect(cloud.seen(path, true).map(({ key }) => key)).toEqual(['sdk-new']);
    environment.patch('flags', flag('a', 2));
    await kept.until('the change', () => kept.versionOf('flags', 'a') === 2);
    expect(new Set(kept.statuses.map(({ state }) => state))).toEqual(new Set(['INITIALIZING', 'VALID']));
    expect(kept.overlaps).toBe(0);
  });

  // Without the turn that begins before the request, the old connection's change is told first and then taken back by the older full copy.
  it('takes back nothing that was told: the old one waits while the new one is asked', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream } = rig;
    const environment = cloud.environment('sdk-fake', TWO);
    await upstream.start();
    environment.rotate('sdk-new', true);
    cloud.fault({ kind: 'hold', bytes: 0 });
    upstream.reconnect();
    await cloud.until('the second request', () => cloud.seen(path).length === 2);
    environment.patch('flags', flag('a', 2));
    await turns(20);
    expect(kept.calls).toEqual(['replace a s']);
    cloud.release();
    await kept.until('the second copy', () => kept.calls.length >= 2);
    expect(kept.calls[1]).toBe('replace a s');
    await kept.until('the change', () => kept.versionOf('flags', 'a') === 2);
    expect(kept.calls).toHaveLength(3);
  });

  it('that is answered, and then told nothing, keeps changes back for half a minute at most', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream } = rig;
    const environment = cloud.environment('sdk-fake', TWO);
    await upstream.start();
    environment.rotate('sdk-new', true);
    cloud.fault({ kind: 'hold', bytes: 0 });
    upstream.setKey('sdk-new');
    await cloud.until('the second request', () => cloud.seen(path).length === 2);
    // life, as of a relay that has no data yet
    cloud.raw(':\n\n');
    environment.patch('flags', flag('a', 2));
    await turns(20);
    expect(kept.versionOf('flags', 'a')).toBe(1);
    rig.clock.advance(30_000);
    await kept.until('the change', () => kept.versionOf('flags', 'a') === 2);
    expect(kept.now).toBe('VALID');
    await rig.afterWait(1000);
    const open = (): string =>
      cloud
        .seen(path, true)
        .map(({ key }) => key)
        .join();
    await cloud.until('the new one alone', () => cloud.seen(path).length === 3 && open() === 'sdk-new');
    environment.patch('flags', flag('a', 3));
    await kept.until('the next change', () => kept.versionOf('flags', 'a') === 3);
    await upstream.stop();
    expect(rig.clock.armed).toBe(0);
  });

  it('that is refused leaves the old one in its place, until that breaks', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream } = rig;
    const environment = cloud.environment('sdk-fake', TWO);
    await upstream.start();
    upstream.setKey('sdk-wrong');
    await kept.until('the refusal', () => kept.refusals.length === 1);
    expect(kept.statuses.at(-1)).toMatchObject({ state: 'VALID', lastError: { statusCode: 401 } });
    environment.patch('flags', flag('a', 2));
    await kept.until('the change', () => kept.versionOf('flags', 'a') === 2);
    cloud.drop();
    await kept.until('the end of it', () => kept.now === 'OFF');
    await until('a wait', () => rig.clock.armed === 1);
    expect(cloud.streams()).toBe(0);
    upstream.setKey('sdk-fake');
    await kept.until('data', () => kept.now === 'VALID');
  });

  it('that is the same one changes nothing while it delivers', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    rig.cloud.environment('sdk-fake', TWO);
    await rig.upstream.start();
    rig.upstream.setKey('sdk-fake');
    await turns(20);
    expect(rig.cloud.requests).toHaveLength(1);
  });

  it('is used at once when the old one is not connected', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream } = rig;
    const environment = cloud.environment('sdk-fake', TWO);
    cloud.fault({ kind: 'stall' });
    const started = upstream.start();
    await cloud.until('a request', () => cloud.requests.length === 1);
    environment.rotate('sdk-new');
    upstream.setKey('sdk-new');
    await started;
    await kept.until('data', () => kept.now === 'VALID');
    expect(kept.calls).toEqual(['replace a s']);
  });
});

describe.each(['fdv1', 'fdv2'] as const)('polls in %s', (protocol) => {
  const path = protocol === 'fdv1' ? '/all' : '/sdk/stream';
  const pollPath = protocol === 'fdv1' ? '/sdk/latest-all' : '/sdk/poll';

  /** An upstream whose stream has been refused for two minutes and more, and that was polled once. */
  async function polled(): Promise<UpstreamRig> {
    const rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream } = rig;
    cloud.environment('sdk-fake', TWO);
    cloud.refuse({ status: 503, path });
    await upstream.start();
    await rig.afterWait(2 * MINUTE - 1);
    await kept.until('another refusal', () => kept.errors.length === 2);
    await until('a wait', () => rig.clock.armed === 1);
    expect(cloud.seen(pollPath)).toEqual([]);
    await rig.afterWait(2000);
    await kept.until('data', () => kept.now === 'VALID');
    return rig;
  }

  it('stand in for a stream that is away for two minutes, and the stream comes back', async () => {
    await using rig = await polled();
    const { cloud, kept, clock } = rig;
    expect(kept.calls).toEqual(['replace a s']);
    cloud.environment('other');
    await rig.afterWait(29_999);
    await kept.until('another refusal', () => kept.errors.length === 4);
    await until('a wait', () => clock.armed === 1);
    expect(cloud.seen(pollPath)).toHaveLength(1);
    expect(kept.statuses.at(-1)).toMatchObject({ state: 'VALID', lastError: { statusCode: 503 } });
    await rig.afterWait(30_000);
    await kept.until('an answer that nothing changed', () => kept.calls.at(-1) === 'current');
    const [, again] = cloud.seen(pollPath);
    const asked = [again?.status, again?.headers['if-none-match'], again?.query.get('basis')];
    expect(asked).toEqual(protocol === 'fdv1' ? [304, '"(p:fake:2)"', null] : [200, undefined, '(p:fake:2)']);
    cloud.accept();
    await rig.afterWait(30_000);
    await cloud.until('a stream', () => cloud.streams() === 1);
    await kept.until('it told', () => kept.calls.length === 3);
    expect(kept.calls[2]).toBe(protocol === 'fdv1' ? 'replace a s' : 'current');
    cloud.drop();
    await kept.until('the loss', () => kept.now === 'INTERRUPTED');
    expect(cloud.seen(pollPath)).toHaveLength(2);
    // what the stream told is not what the tag of the last poll stands for
    cloud.refuse({ status: 503, path });
    await rig.afterWait(2 * MINUTE);
    await kept.until('data', () => kept.now === 'VALID');
    expect(cloud.seen(pollPath)[2]?.headers['if-none-match']).toBeUndefined();
  });

  it('that fail too leave what is held', async () => {
    await using rig = await polled();
    const { cloud, kept } = rig;
    cloud.fault({ kind: 'truncate', bytes: 40 });
    await rig.afterWait(30_000);
    await kept.until('the loss', () => kept.now === 'INTERRUPTED');
    expect([kept.calls, kept.held.size]).toEqual([['replace a s'], 2]);
    expect(kept.errors.at(-1)).toMatchObject({ code: 'HG_SOURCE' });
    cloud.fault({ kind: 'text', text: protocol === 'fdv1' ? '[]' : '{"events":[]}' });
    const failures = kept.errors.length;
    await rig.afterWait(30_000);
    await kept.until('two more failures', () => kept.errors.length === failures + 2);
    expect(kept.errors.at(-1)).toMatchObject({ code: 'HG_SOURCE' });
    expect(kept.held.size).toBe(2);
  });

  it('are newer than the last id of a stream, which is not sent any more', async () => {
    await using rig = await UpstreamRig.open({ protocol });
    const { cloud, kept, upstream } = rig;
    cloud.environment('sdk-fake', TWO).ids = true;
    await upstream.start();
    cloud.refuse({ status: 503, path });
    cloud.drop();
    await kept.until('the loss', () => kept.now === 'INTERRUPTED');
    await rig.afterWait(2 * MINUTE);
    await kept.until('data', () => kept.now === 'VALID');
    cloud.accept();
    await rig.afterWait(2000);
    await cloud.until('a stream', () => cloud.streams() === 1);
    expect(cloud.seen(path).map(({ headers }) => headers['last-event-id'])).toEqual([
      undefined,
      '(p:fake:2)',
      undefined,
    ]);
  });

  it('that refuse the key turn it off', async () => {
    await using rig = await polled();
    rig.cloud.refuse({ status: 403, path: pollPath });
    await rig.afterWait(30_000);
    await rig.kept.until('the refusal', () => rig.kept.now === 'OFF');
    expect(rig.kept.refusals).toEqual([403]);
  });
});
