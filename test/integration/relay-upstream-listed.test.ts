import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { autoConfigRep } from '../support/autoconfig.ts';
import type { FakeEnvironment } from '../support/fake-upstream.ts';
import type { Headgate } from '../support/headgate.ts';
import { RelayWorld, type RelaySettings, relayFlag as flag } from '../support/relay-world.ts';

/* Environments that the service lists, while it is there and while it is not. */

vi.setConfig({ testTimeout: 60_000 });

let world: RelayWorld;
let settings: RelaySettings;
let a: FakeEnvironment;
let b: FakeEnvironment;

const SHOP = { projKey: 'shop' };
const FILTER = { projKey: 'shop', key: 'checkout', version: 1 };

beforeEach(async () => {
  world = await RelayWorld.start();
  const { upstream } = world;
  a = upstream.environment('sdk-a', { flags: [flag('a', 1), flag('b', 1)] });
  b = upstream.environment('sdk-b', { flags: [flag('b', 7)] });
  a.filters.set('checkout', (_kind, { key }) => key === 'a');
  upstream.setAutoConfig({
    environments: { a: autoConfigRep('a', 1, SHOP), b: autoConfigRep('b', 1) },
    filters: { f: FILTER },
  });
  settings = {
    flags: { autoConfig: { key: upstream.autoConfigKey, cacheEncryptionKey: 'a-long-text-of-the-test' } },
    store: { type: 'lmdb', path: world.storePath },
  };
});

afterEach(() => world.end());

function isHealthy({ status }: { status: string }): boolean {
  return status === 'healthy';
}

/** A relay that has heard everything and kept it, and has ended. */
async function earlierLife(): Promise<void> {
  const relay = await world.relay(settings);
  await world.untilStatus(relay, 'healthy', isHealthy);
  expect(await relay.stop()).toBe(0);
}

async function statusesOf(relay: Headgate, asked: readonly (readonly [string, string])[]): Promise<number[]> {
  return Promise.all(asked.map(async ([path, key]) => (await world.ask(relay, path, { key })).status));
}

const ALL = '/sdk/latest-all';
const CHECKOUT = '/sdk/latest-all?filter=checkout';

describe('the cloud is not there at start', () => {
  it('every environment is served from the cache and the store, then the list is brought up to date', async () => {
    await earlierLife();
    const { upstream } = world;
    await upstream.stop();

    const relay = await world.relay(settings);
    await relay.waitForLog('list of environments is known');
    for (const key of ['sdk-a', 'sdk-b']) await world.untilAnswer(relay, ALL, key, 200);
    const filtered = await world.untilAnswer(relay, CHECKOUT, 'sdk-a', 200);
    expect(Object.keys((filtered.json() as { flags: object }).flags)).toEqual(['a']);
    // the list is an old one: whoever is not on it may have been added since, and 401 stops an SDK for good
    expect(await statusesOf(relay, [[ALL, 'sdk-c']])).toEqual([503]);

    const ofA = world.client(relay, { key: 'sdk-a', protocol: 'fdv2' });
    const ofB = world.client(relay, { key: 'sdk-b', protocol: 'fdv2' });
    const ofCheckout = world.client(relay, { key: 'sdk-a', protocol: 'fdv2', filter: 'checkout' });
    await ofA.holds('b', 1);
    await ofB.holds('b', 7);
    await ofCheckout.holds('a', 1);
    ofB.letEnd();
    ofCheckout.letEnd();

    upstream.environment('sdk-c', { flags: [flag('c', 1)] });
    a.filters.set('search', (_kind, { key }) => key === 'b');
    upstream.holdAutoConfig({
      environments: { a: autoConfigRep('a', 1, SHOP), c: autoConfigRep('c', 1) },
      filters: { g: { ...FILTER, key: 'search' } },
    });
    await upstream.restart();
    await ofB.until('the end of its stream', () => ofB.ended === 1);
    await ofCheckout.until('the end of its stream', () => ofCheckout.ended === 1);
    await world.untilAnswer(relay, ALL, 'sdk-c', 200);
    await world.untilAnswer(relay, '/sdk/latest-all?filter=search', 'sdk-a', 200);
    const gone = [
      [ALL, 'sdk-b'],
      [CHECKOUT, 'sdk-a'],
      [ALL, 'sdk-nobody'],
    ] as const;
    expect(await statusesOf(relay, gone)).toEqual([401, 404, 401]);
    a.patch('flags', flag('a', 2));
    await ofA.holds('a', 2);
    expect(ofA).toMatchObject({ opened: 1, refusals: [] });
    expect([ofA.model.fulls, ofA.model.violations]).toEqual([1, []]);
    expect(Object.keys((await world.untilStatus(relay, 'healthy', isHealthy)).environments).sort()).toEqual([
      'a',
      'a/search',
      'c',
    ]);
  });

  it('the cache does not show what is in it, and another encryption key cannot read it', async () => {
    await earlierLife();
    await world.upstream.stop();
    const autoConfig = { key: world.upstream.autoConfigKey, cacheEncryptionKey: 'another-text' };
    const relay = await world.relay({ ...settings, flags: { autoConfig } });
    const failed = await relay.waitForLog(
      'Cannot use the cache of the automatic configuration: it was made with another encryption key, or is damaged; the environments that are known stay served',
    );
    expect(failed).toMatchObject({ code: 'HG_STORE' });
    expect(await statusesOf(relay, [[ALL, 'sdk-a']])).toEqual([503]);
    await world.upstream.restart();
    await world.untilAnswer(relay, ALL, 'sdk-a', 200);
  });
});

describe('the list changes', () => {
  it('an environment that goes and comes back at once is kept from then on', async () => {
    const { upstream } = world;
    const relay = await world.relay(settings);
    await world.untilStatus(relay, 'healthy', isHealthy);
    const first = world.client(relay, { key: 'sdk-b', protocol: 'fdv2' });
    await first.holds('b', 7);
    upstream.tellAutoConfig('delete', { path: '/environments/b', version: 2 });
    upstream.tellAutoConfig('patch', { path: '/environments/b', data: autoConfigRep('b', 3) });
    await first.until('another stream', () => first.opened === 2);
    await first.holds('b', 7);
    b.patch('flags', flag('b', 8));
    await first.holds('b', 8);
    upstream.holdAutoConfig({
      environments: { a: autoConfigRep('a', 1, SHOP), b: autoConfigRep('b', 3) },
      filters: { f: FILTER },
    });
    first.letEnd();
    expect(await relay.stop()).toBe(0);
    await upstream.stop();

    const next = await world.relay(settings);
    const kept = await world.untilAnswer(next, ALL, 'sdk-b', 200);
    expect(kept.json()).toMatchObject({ flags: { b: { version: 8 } } });
  });

  it('a key that moves to another environment is never unknown meanwhile', async () => {
    const { upstream } = world;
    const relay = await world.relay(settings);
    await world.untilStatus(relay, 'healthy', isHealthy);
    const statuses = new Set<number>();
    let isOver = false;
    const polling = (async () => {
      while (!isOver) statuses.add((await world.ask(relay, ALL, { key: 'sdk-a' })).status);
    })();
    const client = world.client(relay, { key: 'sdk-a', protocol: 'fdv2' });
    await client.holds('a', 1);
    // upstream knows the key as that of b from here on, and a by a new one
    a.rotate('sdk-a2');
    b.rotate('sdk-a');
    upstream.setAutoConfig({
      environments: {
        a: autoConfigRep('a', 2, { ...SHOP, sdkKey: { value: 'sdk-a2' } }),
        b: autoConfigRep('b', 2, { sdkKey: { value: 'sdk-a' } }),
      },
      filters: { f: FILTER },
    });
    // its stream is of the other environment now: it is ended, and comes back
    await client.holds('b', 7);
    isOver = true;
    await polling;
    expect([...statuses]).toEqual([200]);
    expect(client.refusals).toEqual([]);
    expect(client.model.contents.size).toBe(1);
    expect(await statusesOf(relay, [[ALL, 'sdk-b']])).toEqual([401]);
    await world.untilAnswer(relay, ALL, 'sdk-a2', 200);
  });

  it('upstream asks for another connection, or a signal does: no client notices', async () => {
    const { upstream } = world;
    const relay = await world.relay(settings);
    await world.untilStatus(relay, 'healthy', isHealthy);
    const client = world.client(relay, { key: 'sdk-a', protocol: 'fdv1' });
    await client.holds('a', 1);
    const asked = (): number => upstream.seen('/relay_auto_config').length;
    expect(asked()).toBe(1);
    upstream.tellAutoConfig('reconnect', {});
    await upstream.until('another connection', () => asked() === 2);
    process.kill(relay.pid!, 'SIGHUP');
    await upstream.until('one more', () => asked() === 3);
    a.patch('flags', flag('a', 2));
    await client.holds('a', 2);
    expect(client).toMatchObject({ opened: 1, ended: 0, refusals: [] });
    expect([client.model.fulls, client.model.violations]).toEqual([1, []]);
  });
});
