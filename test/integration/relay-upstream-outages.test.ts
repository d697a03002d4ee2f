import { afterEach, describe, expect, it, vi } from 'vitest';
import type { FakeEnvironment } from '../support/fake-upstream.ts';
import { RelayWorld, relayFlag as flag } from '../support/relay-world.ts';

/*
 * A relay whose upstream is not there, goes away and comes back: what is held stays served, whoever waits gets it, and
 * nobody is sent again what he has.
 */

vi.setConfig({ testTimeout: 60_000 });

let world: RelayWorld;

afterEach(() => world.end());

const PRODUCTION = { sdkKey: 'sdk-production', mobileKey: 'mob-production', envId: 'id-production' };
const FLAGS = { environments: { production: PRODUCTION } };
const NAME = 'production';

function production(): FakeEnvironment {
  return world.upstream.environment(PRODUCTION.sdkKey, { flags: [flag('a', 1), flag('b', 1)] });
}

describe.each(['fdv1', 'fdv2'] as const)('an upstream of %s', (protocol) => {
  it('that is not there at start: streams wait with heartbeats, polls are asked to come back, then all get data', async () => {
    world = await RelayWorld.start({ protocols: protocol });
    production();
    await world.upstream.stop();
    const relay = await world.relay({ flags: { ...FLAGS, initTimeout: '300ms' } });
    const clients = (['fdv1', 'fdv2'] as const).map((spoken) =>
      world.client(relay, { key: PRODUCTION.sdkKey, protocol: spoken }),
    );
    for (const client of clients) await client.until('heartbeats', () => client.comments >= 2);
    const paths = ['/sdk/latest-all', '/sdk/flags', '/sdk/poll'];
    const polls = await Promise.all(paths.map((path) => world.ask(relay, path, { key: PRODUCTION.sdkKey })));
    expect(polls.map(({ status }) => status)).toEqual([503, 503, 503]);
    const other = await world.ask(relay, '/sdk/latest-all', { key: 'sdk-nobody' });
    expect(other.status).toBe(401);
    const before = await world.untilStatus(
      relay,
      'the failure',
      ({ environments }) => environments[NAME]?.connectionStatus.lastError !== undefined,
    );
    expect(before).toMatchObject({
      status: 'degraded',
      environments: {
        [NAME]: {
          status: 'disconnected',
          connectionStatus: { state: 'INITIALIZING', lastError: { kind: 'NETWORK_ERROR' } },
        },
      },
    });
    await world.upstream.restart();
    for (const client of clients) await client.holds('b', 1);
    for (const { model, refusals, opened } of clients) {
      expect({ fulls: model.fulls, violations: model.violations, refusals, opened }).toEqual({
        fulls: 1,
        violations: [],
        refusals: [],
        opened: 1,
      });
    }
    await world.untilStatus(relay, 'healthy', ({ status }) => status === 'healthy');
    expect((await world.ask(relay, '/sdk/latest-all', { key: PRODUCTION.sdkKey })).status).toBe(200);
  });

  it('that is lost later: data stay served, /status says so after a while, then come the changes only', async () => {
    world = await RelayWorld.start({ protocols: protocol });
    const environment = production();
    const upstream = { disconnectedAfter: '500ms' };
    const relay = await world.relay({ flags: { ...FLAGS, upstream } });
    const clients = (['fdv1', 'fdv2'] as const).map((spoken) =>
      world.client(relay, { key: PRODUCTION.sdkKey, protocol: spoken }),
    );
    for (const client of clients) await client.holds('b', 1);
    const valid = await world.status(relay);
    expect(valid).toMatchObject({
      status: 'healthy',
      environments: { [NAME]: { status: 'connected', connectionStatus: { state: 'VALID' } } },
    });

    await world.upstream.stop();
    const lost = await world.untilStatus(
      relay,
      'INTERRUPTED',
      ({ environments }) => environments[NAME]?.connectionStatus.state === 'INTERRUPTED',
    );
    const sinceMs = lost.environments[NAME]?.connectionStatus.stateSince ?? 0;
    const gone = await world.untilStatus(relay, 'disconnected', ({ status }) => status === 'degraded');
    expect(Date.now() - sinceMs).toBeGreaterThanOrEqual(500);
    expect(gone.environments[NAME]).toMatchObject({
      status: 'disconnected',
      connectionStatus: { state: 'INTERRUPTED', stateSince: sinceMs, lastError: { kind: 'NETWORK_ERROR' } },
    });
    expect((await world.ask(relay, '/sdk/latest-all', { key: PRODUCTION.sdkKey })).status).toBe(200);
    const late = world.client(relay, { key: PRODUCTION.sdkKey, protocol: 'fdv2' });
    await late.holds('a', 1);

    environment.patch('flags', flag('a', 2));
    environment.remove('flags', 'b');
    environment.patch('flags', flag('c', 1));
    await world.upstream.restart();
    for (const client of [...clients, late]) {
      await client.holds('a', 2);
      await client.holds('b', undefined);
      await client.holds('c', 1);
      const { model, opened, refusals } = client;
      expect({ fulls: model.fulls, violations: model.violations, opened, refusals }).toEqual({
        fulls: 1,
        violations: [],
        opened: 1,
        refusals: [],
      });
    }
    await world.untilStatus(relay, 'healthy', ({ status }) => status === 'healthy');
    // a position from before the outage is known still
    late.open();
    environment.patch('flags', flag('a', 3));
    await late.holds('a', 3);
    expect([late.model.fulls, late.model.violations]).toEqual([1, []]);
  });

  it('that is asked anew by SIGHUP: no client notices', async () => {
    world = await RelayWorld.start({ protocols: protocol });
    const environment = production();
    const relay = await world.relay({ flags: FLAGS });
    const client = world.client(relay, { key: PRODUCTION.sdkKey, protocol: 'fdv2' });
    await client.holds('b', 1);
    const path = protocol === 'fdv1' ? '/all' : '/sdk/stream';
    const [first] = world.upstream.seen(path);
    process.kill(relay.pid!, 'SIGHUP');
    await world.upstream.until('another connection', () => world.upstream.seen(path).length === 2);
    await world.upstream.until('the end of the first', () => first!.over);
    environment.patch('flags', flag('a', 2));
    await client.holds('a', 2);
    expect(client).toMatchObject({ opened: 1, ended: 0, cut: 0, refusals: [] });
    expect([client.model.fulls, client.model.violations]).toEqual([1, []]);
    const { environments } = await world.status(relay);
    expect(environments[NAME]?.connectionStatus).toMatchObject({ state: 'VALID' });
    expect(environments[NAME]?.connectionStatus.lastError).toBeUndefined();
  });
});

describe('a relay with a store', () => {
  it('serves its last good data while upstream is away, says how old they are, and takes the changes later', async () => {
    world = await RelayWorld.start();
    const environment = production();
    const store = { type: 'lmdb', path: world.storePath };
    const first = await world.relay({ flags: FLAGS, store });
    const client = world.client(first, { key: PRODUCTION.sdkKey, protocol: 'fdv2' });
    await client.holds('b', 1);
    environment.patch('flags', flag('a', 2));
    await client.holds('a', 2);
    expect(await first.stop()).toBe(0);
    await world.upstream.stop();

    const relay = await world.relay({ flags: { ...FLAGS, upstream: { disconnectedAfter: '500ms' } }, store });
    const restored = await relay.waitForLog(
      'environment restored: its last good data are served until its source has told newer ones',
    );
    expect(restored).toMatchObject({ environment: NAME, items: 2, ageSeconds: expect.any(Number) as number });
    expect(restored['ageSeconds']).toBeLessThan(60);
    const poll = await world.ask(relay, '/sdk/latest-all', { key: PRODUCTION.sdkKey });
    expect(poll.json()).toMatchObject({ flags: { a: { version: 2 }, b: { version: 1 } } });
    const evaluated = await world.ask(relay, '/msdk/evalx/contexts/eyJraW5kIjoidXNlciIsImtleSI6ImsifQ', {
      key: PRODUCTION.mobileKey,
    });
    expect(evaluated.json()).toMatchObject({ a: { value: true, version: 2 } });
    const away = await world.untilStatus(relay, 'disconnected', ({ status }) => status === 'degraded');
    expect(away.environments[NAME]).toMatchObject({
      status: 'disconnected',
      connectionStatus: { state: 'INITIALIZING', lastError: { kind: 'NETWORK_ERROR' } },
    });

    // it comes back with the position that another life gave it
    const back = world.client(relay, { key: PRODUCTION.sdkKey, protocol: 'fdv2' });
    await back.holds('a', 2);
    environment.patch('flags', flag('b', 2));
    await world.upstream.restart();
    await back.holds('b', 2);
    expect([back.model.fulls, back.model.violations]).toEqual([1, []]);
    await world.untilStatus(relay, 'healthy', ({ status }) => status === 'healthy');
    // upstream was asked for what changed since, not for everything
    const asked = world.upstream.seen('/sdk/stream').at(-1);
    expect(asked?.query.get('basis')).toMatch(/^\(p:fake:/);
  });

  it('goes on from the positions of its earlier life', async () => {
    world = await RelayWorld.start();
    const environment = production();
    const store = { type: 'lmdb', path: world.storePath };
    const first = await world.relay({ flags: FLAGS, store });
    const client = world.client(first, { key: PRODUCTION.sdkKey, protocol: 'fdv2' });
    await client.holds('b', 1);
    client.letEnd();
    await first.stop();
    const relay = await world.relay({ flags: FLAGS, store });
    await world.untilStatus(relay, 'healthy', ({ status }) => status === 'healthy');
    environment.patch('flags', flag('a', 2));
    client.moveTo(relay.port);
    client.open();
    await client.holds('a', 2);
    expect([client.model.fulls, client.model.violations]).toEqual([1, []]);
  });
});
