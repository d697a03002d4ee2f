import { afterEach, expect, it, vi } from 'vitest';
import { autoConfigRep } from '../support/autoconfig.ts';
import type { FakeUpstream } from '../support/fake-upstream.ts';
import type { Headgate } from '../support/headgate.ts';
import type { RelayClient } from '../support/relay-world-client.ts';
import { RelayWorld, relayFlag as flag } from '../support/relay-world.ts';

/*
 * An environment whose SDK key is rotated while its clients hold streams, poll and evaluate and its flags change: both keys are good
 * until the old one expires, and then nobody is told anything worse than that his stream ended.
 */

vi.setConfig({ testTimeout: 90_000 });

let world: RelayWorld;

afterEach(() => world.end());

const ID = '507f1f77bcf86cd799439011';
const OLD_KEY = 'sdk-old00000-0000-4000-8000-00000000aaaa';
const NEW_KEY = 'sdk-new00000-0000-4000-8000-00000000bbbb';
const MOBILE_KEY = 'mob-11111111-0000-4000-8000-00000000cccc';
const CONTEXT = Buffer.from('{"kind":"user","key":"k"}').toString('base64url');
const CHANGE_MS = 50;
const EXPIRES_MS = 3000;
/** Until everybody is there who is to be. */
const HOUR_MS = 3_600_000;
const PAUSE_MS = 20;
/** Of clients that were told of the new key too late. */
const STRAGGLERS = 10;

/** Changes a flag now and then, until it is stopped. */
class Changes {
  version = 1;
  readonly #timer: NodeJS.Timeout;

  constructor(change: (version: number) => void) {
    this.#timer = setInterval(() => change(++this.version), CHANGE_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

/** Asks again and again, and keeps what it was answered and when it asked. */
class Poller {
  readonly answers: { readonly askedMs: number; readonly answeredMs: number; readonly status: number }[] = [];
  readonly #over: Promise<void>;
  #stopped = false;

  constructor(ask: () => Promise<number>) {
    this.#over = (async () => {
      while (!this.#stopped) {
        const askedMs = Date.now();
        // 0: no answer
        const status = await ask().catch(() => 0);
        this.answers.push({ askedMs, answeredMs: Date.now(), status });
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    })();
  }

  /** Statuses of the answers to what was asked and answered in this time. */
  statuses(fromMs = 0, toMs = Number.POSITIVE_INFINITY): number[] {
    const within = this.answers.filter(({ askedMs, answeredMs }) => askedMs >= fromMs && answeredMs <= toMs);
    return [...new Set(within.map(({ status }) => status))];
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#over;
  }
}

/** Whether the connection of each key overlapped with that of the one before. */
function watchOverlap(upstream: FakeUpstream): () => boolean | undefined {
  let overlaps: boolean | undefined;
  upstream.onChange(() => {
    const byNew = upstream.seen('/sdk/stream').find(({ key, status }) => key === NEW_KEY && status === 200);
    if (byNew === undefined || overlaps !== undefined) return;
    overlaps = upstream.seen('/sdk/stream', true).some(({ key }) => key === OLD_KEY);
  });
  return () => overlaps;
}

function pollers(relay: Headgate): { old: Poller; others: readonly Poller[] } {
  const poll = (path: string, key?: string): Poller =>
    new Poller(async () => (await world.ask(relay, path, key === undefined ? {} : { key })).status);
  const others = [
    poll(`/msdk/evalx/contexts/${CONTEXT}`, MOBILE_KEY),
    poll(`/sdk/evalx/${ID}/contexts/${CONTEXT}`),
    poll('/sdk/flags/a', MOBILE_KEY.replace('mob', 'sdk')),
  ];
  // a key that nobody has is told so throughout: what is watched is watched by status
  return { old: poll('/sdk/latest-all', OLD_KEY), others };
}

it('no client sees an error other than the end of its stream at expiry, and a new key gets a catch-up', async () => {
  world = await RelayWorld.start();
  const { upstream } = world;
  const environment = upstream.environment(OLD_KEY, { flags: [flag('a', 1), flag('b', 1)] });
  const listed = (version: number, sdkKey: object): Record<string, unknown> =>
    autoConfigRep(ID, version, { sdkKey, mobKey: MOBILE_KEY });
  upstream.setAutoConfig({ environments: { [ID]: listed(1, { value: OLD_KEY }) } });
  const overlaps = watchOverlap(upstream);
  const relay = await world.relay({ flags: { autoConfig: { key: upstream.autoConfigKey } } });
  await world.untilStatus(relay, 'healthy', ({ status }) => status === 'healthy');

  const open = (count: number, key: string): RelayClient[] =>
    Array.from({ length: count }, (_, at) => world.client(relay, { key, protocol: at % 2 === 0 ? 'fdv2' : 'fdv1' }));
  const oldClients = open(200, OLD_KEY);
  for (const client of oldClients) await client.holds('b', 1);
  const changes = new Changes((version) => environment.patch('flags', flag('a', version)));
  const { old, others } = pollers(relay);

  // the rotation
  environment.rotate(NEW_KEY, true);
  const rotate = (version: number, timestamp: number): void => {
    const rotated = listed(version, { value: NEW_KEY, expiring: { value: OLD_KEY, timestamp } });
    upstream.tellAutoConfig('patch', { path: `/environments/${ID}`, data: rotated });
  };
  rotate(2, Date.now() + HOUR_MS);
  const during = await world.untilStatus(
    relay,
    'the expiring key',
    ({ environments }) => environments[ID]?.expiringSdkKey !== undefined,
  );
  expect(during.environments[ID]).toMatchObject({
    sdkKey: expect.stringMatching(/^sdk-\*+.*bbbb$/) as string,
    expiringSdkKey: expect.stringMatching(/^sdk-\*+.*aaaa$/) as string,
    status: 'connected',
    connectionStatus: { state: 'VALID' },
  });
  const newClients = open(100, NEW_KEY);
  for (const client of newClients) await client.holds('b', 1);
  await upstream.until('the end of the connection with the old key', () =>
    upstream.seen('/sdk/stream').some(({ key, over }) => key === OLD_KEY && over),
  );
  expect(overlaps()).toBe(true);
  const [stragglers, movers] = [oldClients.slice(0, STRAGGLERS), oldClients.slice(STRAGGLERS)];
  for (const client of movers) client.key = NEW_KEY;
  for (const client of stragglers) client.letEnd();

  // the old key expires, sooner than was said at first
  expect(oldClients.filter(({ ended, cut }) => ended + cut > 0)).toEqual([]);
  const expiresMs = Date.now() + EXPIRES_MS;
  rotate(3, expiresMs);
  for (const client of oldClients) await client.until('the end of its stream', () => client.ended === 1);
  for (const client of movers) await client.until('a stream with the new key', () => client.opened === 2);
  await world.untilAnswer(relay, '/sdk/latest-all', OLD_KEY, 401);
  changes.stop();
  await Promise.all([old, ...others].map((poller) => poller.stop()));
  for (const client of [...movers, ...newClients]) await client.holds('a', changes.version);

  for (const client of oldClients) {
    expect(client.endedMs).toBeGreaterThanOrEqual(expiresMs);
    expect(client).toMatchObject({ ended: 1, cut: 0, refusals: [] });
  }
  for (const client of newClients) expect(client).toMatchObject({ opened: 1, ended: 0, cut: 0, refusals: [] });
  for (const { model } of [...oldClients, ...newClients]) expect([model.fulls, model.violations]).toEqual([1, []]);
  // spread: so many do not come back in one and the same moment
  const ends = oldClients.map(({ endedMs }) => endedMs ?? 0);
  expect(Math.max(...ends) - Math.min(...ends)).toBeGreaterThan(200);
  expect(old.statuses(0, expiresMs - 1)).toEqual([200]);
  expect(old.statuses(expiresMs + 1)).toEqual([401]);
  const [mobile, browser, unknown] = others;
  expect([mobile!.statuses(), browser!.statuses(), unknown!.statuses()]).toEqual([[200], [200], [401]]);
  for (const poller of others) expect(poller.answers.length).toBeGreaterThan(20);

  for (const client of stragglers) client.open();
  for (const client of stragglers) await client.until('a refusal', () => client.refusals.length === 1);
  expect(new Set(stragglers.flatMap(({ refusals }) => refusals))).toEqual(new Set([401]));
  const after = await world.status(relay);
  expect(after).toMatchObject({ status: 'healthy', environments: { [ID]: { connectionStatus: { state: 'VALID' } } } });
  expect(after.environments[ID]?.expiringSdkKey).toBeUndefined();
  expect(after.environments[ID]?.connectionStatus.lastError).toBeUndefined();
});
