import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { FakeEnvironment } from '../support/fake-upstream.ts';
import { RelayWorldProxy, tlsInFront } from '../support/relay-world-proxy.ts';
import { RelayWorld, relayFlag as flag } from '../support/relay-world.ts';
import { selfSigned } from '../support/tls.ts';

/* Keys that the service does not know, processes that end for it, and a service behind a proxy. */

vi.setConfig({ testTimeout: 60_000 });

let world: RelayWorld;
let good: FakeEnvironment;
let bad: FakeEnvironment;

beforeEach(async () => {
  world = await RelayWorld.start();
  good = world.upstream.environment('sdk-good', { flags: [flag('a', 1)] });
  bad = world.upstream.environment('sdk-bad', { flags: [flag('b', 1)] });
});

afterEach(() => world.end());

const ALL = '/sdk/latest-all';
const GOOD = { good: { sdkKey: 'sdk-good' } };
const BOTH = { ...GOOD, bad: { sdkKey: 'sdk-bad' } };

describe('a key that the service refuses', () => {
  it('its environment is served what was kept of it, the others notice nothing', async () => {
    const store = { type: 'lmdb', path: world.storePath };
    const first = await world.relay({ flags: { environments: BOTH }, store });
    await world.untilStatus(first, 'healthy', ({ status }) => status === 'healthy');
    await first.stop();

    bad.rotate('sdk-of-somebody-else');
    const relay = await world.relay({ flags: { environments: BOTH }, store });
    const line = await relay.waitForLog(
      'upstream does not know the key of this environment; what it told before stays served',
    );
    expect(line).toMatchObject({ environment: 'bad', status: 401 });
    const clients = (['fdv1', 'fdv2'] as const).map((protocol) => world.client(relay, { key: 'sdk-bad', protocol }));
    for (const client of clients) await client.holds('b', 1);
    expect((await world.ask(relay, ALL, { key: 'sdk-bad' })).json()).toMatchObject({ flags: { b: { version: 1 } } });
    const other = world.client(relay, { key: 'sdk-good', protocol: 'fdv2' });
    await other.holds('a', 1);
    good.patch('flags', flag('a', 2));
    await other.holds('a', 2);
    const status = await world.untilStatus(
      relay,
      'OFF',
      ({ environments }) => environments['bad']?.connectionStatus.state === 'OFF',
    );
    expect(status).toMatchObject({
      status: 'degraded',
      environments: {
        good: { status: 'connected', connectionStatus: { state: 'VALID' } },
        bad: {
          status: 'disconnected',
          connectionStatus: { state: 'OFF', lastError: { kind: 'ERROR_RESPONSE', statusCode: 401 } },
        },
      },
    });
    for (const { ended, cut } of [...clients, other]) expect([ended, cut]).toEqual([0, 0]);

    // it is let in again: a signal asks anew, which would be minutes later by itself
    bad.rotate('sdk-bad');
    bad.patch('flags', flag('b', 2));
    process.kill(relay.pid!, 'SIGHUP');
    for (const client of clients) await client.holds('b', 2);
    for (const { model } of clients) expect([model.fulls, model.violations]).toEqual([1, []]);
    await world.untilStatus(relay, 'healthy', ({ status: said }) => said === 'healthy');
  });

  it('without anything kept of it its clients wait, and are never told that their key is unknown', async () => {
    bad.rotate('sdk-of-somebody-else');
    const relay = await world.relay({ flags: { environments: BOTH, initTimeout: '200ms' } });
    await relay.waitForLog('upstream does not know the key of this environment; what it told before stays served');
    const client = world.client(relay, { key: 'sdk-bad', protocol: 'fdv2' });
    await client.until('heartbeats', () => client.comments >= 2);
    expect((await world.ask(relay, ALL, { key: 'sdk-bad' })).status).toBe(503);
    expect((await world.ask(relay, ALL, { key: 'sdk-good' })).status).toBe(200);
    expect(client.refusals).toEqual([]);
  });
});

describe('a process that is to end when something is wrong at start', () => {
  const exit = { onError: true };

  it('ends at once when a key is refused', async () => {
    bad.rotate('sdk-of-somebody-else');
    const { code, lines, ms } = await world.run({ flags: { environments: BOTH, initTimeout: '20s' }, exit });
    expect(code).toBe(1);
    expect(ms).toBeLessThan(15_000);
    expect(lines.map(({ msg }) => msg)).toContain('a source could not be read');
  });

  // Fails when the first failed attempt counts as the end of the start.
  it('gives upstream until the time is over', async () => {
    await world.upstream.stop();
    const flags = { environments: GOOD, initTimeout: '2s' };
    const { code, lines } = await world.run({ flags, exit });
    expect(code).toBe(1);
    const timeOf = (message: string): number => Number(lines.find(({ msg }) => msg === message)?.['time']);
    expect(timeOf('a source could not be read') - timeOf('listening')).toBeGreaterThan(1500);
  });

  // Fails when no environments count as environments that all have data.
  it.each([
    ['its list does not come in time', 'rel-fake', true],
    ['the key of its list is refused', 'rel-of-somebody-else', false],
  ])('ends when %s', async (_what, key, isAway) => {
    if (isAway) await world.upstream.stop();
    const initTimeout = isAway ? '1s' : '20s';
    const { code, lines, ms } = await world.run({ flags: { autoConfig: { key }, initTimeout }, exit });
    expect(code).toBe(1);
    expect(ms).toBeLessThan(15_000);
    expect(lines.map(({ msg }) => msg)).toContain('a source could not be read');
  });

  it('does not end when upstream comes within that time', async () => {
    await world.upstream.stop();
    const relay = await world.relay({ flags: { environments: GOOD, initTimeout: '30s' }, exit });
    const client = world.client(relay, { key: 'sdk-good', protocol: 'fdv2' });
    await client.until('heartbeats', () => client.comments >= 2);
    await world.upstream.restart();
    await client.holds('a', 1);
    expect(await relay.stop()).toBe(0);
  });

  // Fails when signals are listened to only once the sources are there.
  it('hears signals while it waits', async () => {
    await world.upstream.stop();
    const relay = await world.relay({ flags: { environments: GOOD, initTimeout: '30s' }, exit });
    await world.untilAnswer(relay, '/status', '', 200);
    process.kill(relay.pid!, 'SIGHUP');
    await world.untilStatus(
      relay,
      'the failure',
      ({ environments }) => environments['good']?.connectionStatus.lastError !== undefined,
    );
    expect(await relay.stop()).toBe(0);
    expect(relay.logs.map(({ msg }) => msg)).not.toContain('a source could not be read');
  });

  it('does not end when that is to be ignored', async () => {
    await world.upstream.stop();
    const flags = { environments: GOOD, initTimeout: '200ms' };
    const relay = await world.relay({ flags, exit: { ...exit, ignoreConnectionErrors: true } });
    const client = world.client(relay, { key: 'sdk-good', protocol: 'fdv2' });
    await world.untilAnswer(relay, ALL, 'sdk-good', 503);
    await client.until('heartbeats', () => client.comments >= 5);
    await world.upstream.restart();
    await client.holds('a', 1);
    expect(client).toMatchObject({ opened: 1, cut: 0 });
  });
});

describe('a service behind a proxy, with a certificate that nobody else knows', () => {
  it('is reached with credentials and that certificate, events too', async () => {
    const pair = selfSigned();
    const secure = await tlsInFront(pair, world.upstream.port);
    const proxy = await RelayWorldProxy.start('head', 'g@te:1');
    world.onEnd(() => Promise.all([secure.stop(), proxy.stop()]));
    const caPath = join(world.folder, 'ca.pem');
    writeFileSync(caPath, pair.cert);
    const url = `https://127.0.0.1:${secure.port}`;
    const relay = await world.relay({
      url,
      flags: { environments: GOOD, events: { send: true, uri: url, flushInterval: '100ms' } },
      outbound: { proxy: { url: proxy.url, user: 'head', password: 'g@te:1' }, caFiles: [caPath] },
    });
    const client = world.client(relay, { key: 'sdk-good', protocol: 'fdv2' });
    await client.holds('a', 1);
    good.patch('flags', flag('a', 2));
    await client.holds('a', 2);
    const body = '[{"kind":"identify","creationDate":1,"context":{"kind":"user","key":"u"}}]';
    const headers = { 'content-type': 'application/json', 'x-launchdarkly-event-schema': '4' };
    expect((await world.ask(relay, '/bulk', { method: 'POST', key: 'sdk-good', headers, body })).status).toBe(202);
    await world.upstream.until('events', () => world.upstream.seen('/bulk').length === 1);
    expect(proxy.refused).toEqual([]);
    expect(new Set(proxy.tunnels)).toEqual(new Set([`127.0.0.1:${secure.port}`]));
    // nothing went past it
    expect(world.upstream.requests.every(({ headers: sent }) => sent.host === `127.0.0.1:${secure.port}`)).toBe(true);
  });

  it.each([
    ['other credentials', { password: 'gate' }, true],
    ['no such certificate', { password: 'g@te:1' }, false],
  ])('is not reached with %s: clients wait', async (_what, { password }, isTrusted) => {
    const pair = selfSigned();
    const secure = await tlsInFront(pair, world.upstream.port);
    const proxy = await RelayWorldProxy.start('head', 'g@te:1');
    world.onEnd(() => Promise.all([secure.stop(), proxy.stop()]));
    const caPath = join(world.folder, 'ca.pem');
    writeFileSync(caPath, pair.cert);
    const relay = await world.relay({
      url: `https://127.0.0.1:${secure.port}`,
      flags: { environments: GOOD, initTimeout: '100ms' },
      outbound: { proxy: { url: proxy.url, user: 'head', password }, caFiles: isTrusted ? [caPath] : [] },
    });
    await world.untilStatus(
      relay,
      'the failure',
      ({ environments }) => environments['good']?.connectionStatus.lastError?.kind === 'NETWORK_ERROR',
    );
    expect((await world.ask(relay, ALL, { key: 'sdk-good' })).status).toBe(503);
    expect(isTrusted ? proxy.refused.length : proxy.tunnels.length).toBeGreaterThan(0);
    expect(world.upstream.requests).toEqual([]);
  });
});
