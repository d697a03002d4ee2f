import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FakeUpstream } from '../support/fake-upstream.ts';
import { eventText, type FakeEnvironment } from '../support/fake-upstream-environment.ts';
import { type Headgate, startHeadgate } from '../support/headgate.ts';
import {
  type Expected,
  FLAGS,
  isStream,
  keyOf,
  RELAY_CLIENTS,
  RELAY_KEYS,
  type Return,
  returnOf,
  SEGMENT,
  SEGMENT_WITHOUT,
  themed,
  valuesFor,
} from '../support/relay-clients.ts';
import { type Sdk, sdkAvailable, startSdk } from '../support/sdk.ts';

/** Two dozen programs start at once. */
const START_MS_MAX = 120_000;
/** An SDK tries again after 1, 2, 4 … seconds, each with jitter; a poll is 30 seconds after the last. */
const STEP_MS_MAX = 120_000;
const RETURN_MS_MAX = 60_000;

const STREAM_ROUTES: ReadonlySet<unknown> = new Set(['/all', '/sdk/stream', '/sdk/stream/eval/:context']);

const textOf = ({ route, agent, how }: Return): string => `${how}: ${agent} on ${route}`;

/** How streams were begun, as the log tells it, from one of its lines on. */
function beginnings(headgate: Headgate, from = 0): readonly string[] {
  return headgate.logs.slice(from).flatMap(({ msg, route, sdk, copy }) => {
    if (!STREAM_ROUTES.has(route)) return [];
    const agent = String(sdk);
    if (msg === 'caught up') return [textOf({ route: String(route), agent, how: 'caught up' })];
    return msg === 'delivery completed' && copy === 'full'
      ? [textOf({ route: String(route), agent, how: 'full copy' })]
      : [];
  });
}

/** How often each text is there. */
function counts(texts: readonly string[]): Readonly<Record<string, number>> {
  const counted: Record<string, number> = {};
  for (const text of texts.toSorted()) counted[text] = (counted[text] ?? 0) + 1;
  return counted;
}

// One relay, one upstream, and one start of each client for all tests: they follow one another as a day would.
describe('real clients behind a relay', () => {
  const available = new Set([...new Set(RELAY_CLIENTS.map(({ sdk }) => sdk))].filter((sdk) => sdkAvailable(sdk)));
  const rows = RELAY_CLIENTS.filter(({ sdk }) => available.has(sdk));
  const streams = rows.filter(isStream);
  const returns = streams.flatMap((row) => returnOf(row) ?? []).map(textOf);
  const clients = new Map<string, Sdk>();
  let folder = '';
  let upstream: FakeUpstream;
  let environment: FakeEnvironment;
  let headgate: Headgate;

  const clientOf = (name: string): Sdk => {
    const client = clients.get(name);
    if (client === undefined) throw new Error(`Cannot find a client: none was started, got ${name}`);
    return client;
  };
  const serve = (port?: number): Promise<Headgate> =>
    startHeadgate({
      ...(port === undefined ? {} : { port }),
      config: {
        server: { drainDelay: 0, grace: '1s' },
        log: { level: 'debug' },
        store: { type: 'lmdb', path: join(folder, 'data') },
        flags: {
          upstream: { streamUri: upstream.url, baseUri: upstream.url, clientSideBaseUri: upstream.url },
          environments: {
            production: { sdkKey: RELAY_KEYS.sdk, mobileKey: RELAY_KEYS.mobile, envId: RELAY_KEYS.envId },
          },
        },
      },
    });
  /** Ends Headgate in order, and starts it again at the same address. */
  const restart = async (): Promise<void> => {
    const { port } = headgate;
    expect(await headgate.stop()).toBe(0);
    headgate = await serve(port);
  };
  /** Waits until these clients have the values that they are to have; answers what is wrong with those that never do. */
  const lacking = async (which: typeof rows, expected: Expected): Promise<readonly string[]> => {
    const waits = which.map(({ name, sdk }) => clientOf(name).waitForFlags(valuesFor(sdk, expected)));
    const ended = await Promise.allSettled(waits);
    return ended.flatMap((wait) => (wait.status === 'rejected' ? [String(wait.reason)] : []));
  };
  /** Waits until every stream that is told of in the log has begun again; one may have come back more than once. */
  const begunAgain = async (): Promise<readonly string[]> => {
    const expected = Object.entries(counts(returns));
    const areBack = (): boolean => {
      const begun = counts(beginnings(headgate));
      return expected.every(([text, count]) => (begun[text] ?? 0) >= count);
    };
    await headgate.waitForLogs('every stream again', areBack, RETURN_MS_MAX);
    return Object.keys(counts(beginnings(headgate)));
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'headgate-relay-clients-'));
    upstream = await FakeUpstream.start();
    environment = upstream.environment(RELAY_KEYS.sdk, { flags: FLAGS, segments: [SEGMENT] });
    headgate = await serve();
    await headgate.waitForLog('environment loaded');
    // a browser takes longer to start than an SDK waits for its data: first those, then all others
    const isBrowser = ({ sdk }: { sdk: string }): boolean => sdk === 'browser';
    for (const wave of [rows.filter(isBrowser), rows.filter((row) => !isBrowser(row))]) {
      for (const { sdk, mode, name } of wave) {
        clients.set(name, startSdk({ sdk, mode, baseUrl: headgate.url, sdkKey: keyOf(sdk) }));
      }
      await Promise.all(wave.map(({ name }) => clientOf(name).initialized));
    }
  }, START_MS_MAX);

  afterAll(async () => {
    await Promise.all([...clients.values()].map((client) => client.stop()));
    await headgate?.stop();
    await upstream?.stop();
    await rm(folder, { recursive: true, force: true });
  }, START_MS_MAX);

  it.each(rows)('get every value that they may see: $name', { timeout: START_MS_MAX }, async ({ name, sdk }) => {
    expect(await clientOf(name).initialized).toEqual(
      valuesFor(sdk, { theme: 'dark', still: ['first-to-go', 'last-to-go'] }),
    );
  });

  it('are told of a change and of a deletion', { timeout: STEP_MS_MAX }, async () => {
    environment.patch('flags', themed('light'));
    environment.remove('flags', 'first-to-go');
    expect(await lacking(streams, { theme: 'light', still: ['last-to-go'] })).toEqual([]);
  });

  it('are told nothing when the upstream begins anew in another order', { timeout: STEP_MS_MAX }, async () => {
    const said = new Map(streams.map(({ name }) => [name, clientOf(name).lines.length]));
    const logged = headgate.logs.length;
    await upstream.stop();
    const [intent, ...objects] = environment.full(() => true);
    const transferred = objects.pop();
    const backwards = [intent, ...objects.toReversed(), transferred].map((event) => (event ? eventText(event) : ''));
    upstream.fault({ kind: 'text', text: backwards.join('') });
    const { length: asked } = upstream.requests;
    await upstream.restart();
    await upstream.until('the relay again', () => upstream.requests.length > asked);
    // what comes after it shows that it was taken
    environment.patch('flags', themed('sepia'));
    expect(await lacking(streams, { theme: 'sepia', still: ['last-to-go'] })).toEqual([]);
    const changed = streams.flatMap(({ name }) =>
      clientOf(name)
        .lines.slice(said.get(name))
        .filter(({ event }) => event === 'change')
        .map(({ key }) => `${name}: ${String(key)}`),
    );
    expect(changed.filter((text) => !text.endsWith(': theme'))).toEqual([]);
    expect(beginnings(headgate, logged)).toEqual([]);
  });

  it('come back to a relay that was restarted, without a second copy', { timeout: STEP_MS_MAX }, async () => {
    await restart();
    expect(await begunAgain()).toEqual(Object.keys(counts(returns)));
    environment.patch('segments', SEGMENT_WITHOUT);
    environment.patch('flags', themed('contrast'));
    expect(await lacking(streams, { theme: 'contrast', segment: 'out', still: ['last-to-go'] })).toEqual([]);
  });

  it('come back to a relay whose upstream is away', { timeout: STEP_MS_MAX }, async () => {
    await upstream.stop();
    await restart();
    expect(await begunAgain()).toEqual(Object.keys(counts(returns)));
    const expected: Expected = { theme: 'contrast', segment: 'out', still: ['last-to-go'] };
    expect(await lacking(streams, expected)).toEqual([]);
    const late = startSdk({ sdk: 'node', mode: 'fdv1-stream', baseUrl: headgate.url, sdkKey: RELAY_KEYS.sdk });
    expect(await late.initialized).toEqual(valuesFor('node', expected));
    await late.stop();
  });

  it('have the right values at the end, those that poll too', { timeout: STEP_MS_MAX }, async () => {
    environment.patch('flags', themed('none'));
    environment.remove('flags', 'last-to-go');
    await upstream.restart();
    expect(await lacking(rows, { theme: 'none', segment: 'out', still: [] })).toEqual([]);
  });
});
