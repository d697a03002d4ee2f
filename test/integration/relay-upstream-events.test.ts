import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { autoConfigRep } from '../support/autoconfig.ts';
import type { UpstreamRequest } from '../support/fake-upstream.ts';
import type { Headgate } from '../support/headgate.ts';
import { RelayWorld, relayFlag as flag, type Settings } from '../support/relay-world.ts';

/* Events of all kinds of clients, from their request to the service, through a whole process. */

vi.setConfig({ testTimeout: 60_000 });

let world: RelayWorld;

const SDK_KEY = 'sdk-production';
const MOBILE_KEY = 'mob-production';
const ID = '507f1f77bcf86cd799439011';
const PRODUCTION = { production: { sdkKey: SDK_KEY, mobileKey: MOBILE_KEY, envId: ID } };

beforeEach(async () => {
  world = await RelayWorld.start();
  world.upstream.environment(SDK_KEY, { flags: [flag('a', 1)] });
});

afterEach(() => world.end());

async function relayOf(events: Settings, more: Settings = { environments: PRODUCTION }): Promise<Headgate> {
  const { url } = world.upstream;
  const relay = await world.relay({ flags: { ...more, events: { send: true, uri: url, ...events } } });
  await world.untilStatus(relay, 'healthy', ({ status }) => status === 'healthy');
  return relay;
}

function eventOf(key: string): object {
  return { kind: 'custom', key, creationDate: 1, context: { kind: 'user', key: 'u' } };
}

/** Posts one event; answers the status. */
async function post(relay: Headgate, path: string, key: string | undefined, name: string): Promise<number> {
  const headers = { 'content-type': 'application/json', 'x-launchdarkly-event-schema': '4' };
  const body = JSON.stringify([eventOf(name)]);
  return (await world.ask(relay, path, { method: 'POST', headers, body, ...(key === undefined ? {} : { key }) }))
    .status;
}

/** Names of the events that arrived at a path, by requests that the service took. */
function arrived(path: string): string[] {
  const taken = world.upstream.seen(path).filter(({ status }) => status === 202);
  return taken.flatMap(({ body }) => (JSON.parse(body) as { key: string }[]).map(({ key }) => key));
}

/** What metrics say of a series of this name, all of its labels together. */
async function measured(relay: Headgate, name: string): Promise<number> {
  const { port } = await relay.waitForLog('admin listening');
  const text = await (await fetch(`http://127.0.0.1:${String(port)}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line.startsWith(name));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

/** Waits until metrics say so: they are counted a moment after the service has answered. */
async function untilMeasured(relay: Headgate, name: string, value: number): Promise<void> {
  await vi.waitFor(async () => expect(await measured(relay, name)).toBe(value), { timeout: 10_000, interval: 50 });
}

const SENT = 'launchdarkly_relay_events_sent_total';
const FAILED = 'launchdarkly_relay_events_failed_total';
const DROPPED = 'launchdarkly_relay_events_dropped_total';

describe('events', () => {
  it('of servers, phones and pages arrive compressed, each with the key that the service knows', async () => {
    const relay = await relayOf({ flushInterval: '100ms' });
    const statuses = [
      await post(relay, '/bulk', SDK_KEY, 'server'),
      await post(relay, '/mobile', MOBILE_KEY, 'phone'),
      await post(relay, `/events/bulk/${ID}`, undefined, 'page'),
      await post(relay, '/bulk', 'sdk-nobody', 'nobody'),
    ];
    expect(statuses).toEqual([202, 202, 202, 401]);
    const page = `/events/bulk/${ID}`;
    const { upstream } = world;
    await upstream.until('all of them', () => ['/bulk', '/mobile', page].every((path) => arrived(path).length === 1));
    expect([arrived('/bulk'), arrived('/mobile'), arrived(page)]).toEqual([['server'], ['phone'], ['page']]);
    const [server, phone, browser] = ['/bulk', '/mobile', page].map(
      (path) => upstream.seen(path)[0] as UpstreamRequest,
    );
    expect([server?.key, phone?.key, browser?.key]).toEqual([SDK_KEY, MOBILE_KEY, undefined]);
    for (const request of [server, phone, browser]) {
      expect(request?.headers).toMatchObject({ 'content-encoding': 'gzip', 'x-launchdarkly-event-schema': '4' });
    }
    await untilMeasured(relay, SENT, 3);
    expect([await measured(relay, FAILED), await measured(relay, DROPPED)]).toEqual([0, 0]);
  });

  it('survive a service that refuses for a moment, and are counted when it goes on', async () => {
    const relay = await relayOf({ flushInterval: '100ms' });
    const { upstream } = world;
    upstream.eventStatus = 503;
    expect(await post(relay, '/bulk', SDK_KEY, 'first')).toBe(202);
    await upstream.until('a refusal', () => upstream.seen('/bulk').length === 1);
    upstream.eventStatus = 202;
    await upstream.until('another try', () => arrived('/bulk').length === 1);
    expect(arrived('/bulk')).toEqual(['first']);
    const [refused, taken] = upstream.seen('/bulk');
    // one payload, so that the service can tell that it has it already
    expect(taken?.headers['x-launchdarkly-payload-id']).toBe(refused?.headers['x-launchdarkly-payload-id']);
    expect(taken?.headers['x-launchdarkly-payload-id']).toBeTypeOf('string');
    await untilMeasured(relay, SENT, 1);
    expect(await measured(relay, FAILED)).toBe(0);
  });

  it('that wait are sent when the process is told to end', async () => {
    const relay = await relayOf({ flushInterval: '1h' });
    for (const name of ['a', 'b', 'c']) await post(relay, '/bulk', SDK_KEY, name);
    await post(relay, '/mobile', MOBILE_KEY, 'd');
    expect(world.upstream.requests.filter(({ method }) => method === 'POST')).toEqual([]);
    expect(await relay.stop()).toBe(0);
    expect(arrived('/bulk')).toEqual(['a', 'b', 'c']);
    expect(arrived('/mobile')).toEqual(['d']);
  });

  it('that came with a key which is about to expire go on with the one that replaces it', async () => {
    const { upstream } = world;
    const sdkKey = { value: SDK_KEY, expiring: { value: 'sdk-old', timestamp: Date.now() + 3_600_000 } };
    upstream.setAutoConfig({ environments: { [ID]: autoConfigRep(ID, 1, { sdkKey }) } });
    const relay = await relayOf({ flushInterval: '100ms' }, { autoConfig: { key: upstream.autoConfigKey } });
    expect(await post(relay, '/bulk', 'sdk-old', 'old')).toBe(202);
    await upstream.until('it', () => arrived('/bulk').length === 1);
    expect(upstream.seen('/bulk')[0]?.key).toBe(SDK_KEY);
    // of an environment that is gone nothing is held, and nothing is taken any more
    upstream.tellAutoConfig('delete', { path: `/environments/${ID}`, version: 2 });
    await vi.waitFor(async () => expect(await post(relay, '/bulk', 'sdk-old', 'late')).toBe(401), { timeout: 10_000 });
    expect(arrived('/bulk')).toEqual(['old']);
  });
});
