import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ArchiveEnvironment, writeArchive } from '../support/archive.ts';
import { type Headgate, startHeadgate } from '../support/headgate.ts';
import { SDK_MODES, SDKS, type Sdk, sdkAvailable, startSdk } from '../support/sdk.ts';

const START_MS_MAX = 60_000;
/** An SDK tries again after 1, 2, 4 … seconds, each with jitter. */
const RECONNECT_MS_MAX = 60_000;

const SDK_KEY = 'sdk-6f1d2c3b-0000-4000-8000-000000000001';

interface FlagState {
  readonly version: number;
  /** The variation that everyone gets to whom no rule applies. */
  readonly fallthrough: number;
}

function flagOf(key: string, variations: readonly unknown[], state: FlagState, more: object = {}): object {
  return {
    key,
    version: state.version,
    on: true,
    variations,
    fallthrough: { variation: state.fallthrough },
    offVariation: 0,
    salt: `salt of ${key}`,
    prerequisites: [],
    targets: [],
    contextTargets: [],
    rules: [],
    trackEvents: false,
    trackEventsFallthrough: false,
    debugEventsUntilDate: null,
    deleted: false,
    clientSide: true,
    clientSideAvailability: { usingEnvironmentId: true, usingMobileKey: true },
    ...more,
  };
}

function rule(variation: number, attribute: string, op: string, values: readonly unknown[]): object {
  const clause = { contextKind: 'user', attribute, op, values, negate: false };
  return { id: `rule ${op}`, variation, trackEvents: false, clauses: [clause] };
}

const THEME = ['dark', 'light', 'sepia'];

/** Each flag shows that one part of the data reached the SDK whole: rules, segments, prerequisites, targets, text. */
function environment(theme: FlagState): ArchiveEnvironment {
  const still = { version: 3, fallthrough: 0 };
  const text = 'line one\nline two, “quoted”, a \u2028 and a tab\t';
  return {
    envId: '507f1f77bcf86cd799439011',
    sdkKey: SDK_KEY,
    dataId: `theme ${theme.version}`,
    flags: {
      'on-for-all': flagOf('on-for-all', [true, false], still),
      'switched-off': flagOf('switched-off', ['off value', 'on value'], { version: 2, fallthrough: 1 }, { on: false }),
      'by-country': flagOf('by-country', [0, 31], still, { rules: [rule(1, 'country', 'in', ['BE', 'NL'])] }),
      'by-segment': flagOf('by-segment', ['out', 'in'], still, {
        rules: [rule(1, '', 'segmentMatch', ['professionals'])],
      }),
      'by-target': flagOf('by-target', ['others', 'targeted'], still, {
        targets: [{ variation: 1, values: ['user-key'] }],
      }),
      'by-prerequisite': flagOf('by-prerequisite', ['met', 'not met'], still, {
        offVariation: 1,
        prerequisites: [{ key: 'by-country', variation: 1 }],
      }),
      'of-text': flagOf('of-text', [text], still),
      'of-json': flagOf('of-json', [{ list: [1, 2.5, null], nested: { ok: true } }], still),
      theme: flagOf('theme', THEME, theme),
    },
    segments: {
      professionals: {
        key: 'professionals',
        version: 4,
        included: [],
        excluded: [],
        salt: 'salt of professionals',
        rules: [
          {
            id: 'plan',
            clauses: [{ contextKind: 'user', attribute: 'plan', op: 'in', values: ['pro'], negate: false }],
          },
        ],
        deleted: false,
      },
    },
  };
}

const VALUES = {
  'on-for-all': true,
  'switched-off': 'off value',
  'by-country': 31,
  'by-segment': 'in',
  'by-target': 'targeted',
  'by-prerequisite': 'met',
  'of-text': 'line one\nline two, “quoted”, a \u2028 and a tab\t',
  'of-json': { list: [1, 2.5, null], nested: { ok: true } },
  theme: 'dark',
};

const rows = SDKS.flatMap((sdk) => SDK_MODES.map((mode) => ({ sdk, mode, name: `${sdk} ${mode}` })));
const isStream = (name: string): boolean => !name.endsWith('-poll');

// One server and one start of each SDK for all tests: they follow one another as a day would, and each needs the last.
describe('real SDKs', () => {
  const available = rows.filter(({ sdk }) => sdkAvailable(sdk));
  const streams = available.filter(({ name }) => isStream(name));
  const clients = new Map<string, Sdk>();
  let folder = '';
  let headgate: Headgate;

  const clientOf = (name: string): Sdk => {
    const client = clients.get(name);
    if (client === undefined) throw new Error(`Cannot find a client: none was started, got ${name}`);
    return client;
  };
  // polls wait a second for data and are refused then: the SDKs come when the archive has been read
  const serve = async (port?: number): Promise<Headgate> => {
    const started = await startHeadgate({
      ...(port === undefined ? {} : { port }),
      config: {
        server: { drainDelay: 0, grace: '1s' },
        flags: { sources: [{ type: 'archive', path: join(folder, 'flags.tar.gz'), interval: '100ms' }] },
      },
    });
    await started.waitForLog('environment loaded');
    return started;
  };
  const replaceWith = (theme: FlagState): Promise<void> =>
    writeArchive(join(folder, 'flags.tar.gz'), [environment(theme)]);

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'headgate-sdks-'));
    await replaceWith({ version: 1, fallthrough: 0 });
    headgate = await serve();
    for (const { sdk, mode, name } of available) {
      clients.set(name, startSdk({ sdk, mode, baseUrl: headgate.url, sdkKey: SDK_KEY }));
    }
  }, START_MS_MAX);

  afterAll(async () => {
    await Promise.all([...clients.values()].map((client) => client.stop()));
    await headgate?.stop();
    await rm(folder, { recursive: true, force: true });
  }, START_MS_MAX);

  it.each(available)('get every value: $name', { timeout: START_MS_MAX }, async ({ name }) => {
    expect(await clientOf(name).initialized).toEqual(VALUES);
  });

  describe('when the archive is replaced by one in which one flag changed', () => {
    beforeAll(() => replaceWith({ version: 2, fallthrough: 1 }));

    it.each(streams)('are told: $name', { timeout: START_MS_MAX }, async ({ name }) => {
      expect(await clientOf(name).waitForChange('theme')).toBe('light');
    });

    it('are told of nothing else', () => {
      const keys = streams.flatMap(({ name }) => clientOf(name).lines.filter((line) => line['event'] === 'change'));
      expect(new Set(keys.map((line) => line['key']))).toEqual(new Set(streams.length === 0 ? [] : ['theme']));
    });
  });

  describe('when Headgate comes back at the same address with newer data', () => {
    let exitCode: number | null = null;
    beforeAll(async () => {
      const { port } = headgate;
      exitCode = await headgate.stop();
      await replaceWith({ version: 3, fallthrough: 2 });
      headgate = await serve(port);
    }, START_MS_MAX);

    it('had stopped in order, with streams open', () => {
      expect(exitCode).toBe(0);
    });

    it.each(streams)('come back and are told: $name', { timeout: RECONNECT_MS_MAX }, async ({ name }) => {
      expect(await clientOf(name).waitForChange('theme', { value: 'sepia' })).toBe('sepia');
    });
  });

  it('are refused with another key: node fdv1-stream', { timeout: START_MS_MAX }, async () => {
    const stranger = startSdk({ sdk: 'node', mode: 'fdv1-stream', baseUrl: headgate.url, sdkKey: 'sdk-unknown' });
    await expect(stranger.initialized).rejects.toThrow(/401/);
    await stranger.stop();
  });
});
