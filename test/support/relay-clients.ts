import { SDK_MODES, SDKS, type SdkFlags, type SdkMode, type SdkName } from './sdk.ts';
import type { FakeItem } from './fake-upstream-environment.ts';

/** The keys of the environment that all clients belong to. */
export const RELAY_KEYS = {
  sdk: 'sdk-6f1d2c3b-0000-4000-8000-000000000001',
  mobile: 'mob-6f1d2c3b-0000-4000-8000-000000000001',
  envId: '507f1f77bcf86cd799439011',
} as const;

export interface RelayClient {
  readonly sdk: SdkName;
  readonly mode: SdkMode;
  readonly name: string;
}

const MODES: Readonly<Record<Exclude<SdkName, (typeof SDKS)[number]>, readonly SdkMode[]>> = {
  openfeature: ['fdv1-stream', 'fdv2'],
  browser: ['fdv1-stream', 'fdv1-poll', 'fdv2-stream', 'fdv2-poll'],
  phone: ['fdv1-stream', 'fdv1-poll', 'fdv2-stream', 'fdv2-poll'],
};

/** Every kind of client, in every mode that it has. */
export const RELAY_CLIENTS: readonly RelayClient[] = [
  ...SDKS.flatMap((sdk) => SDK_MODES.map((mode) => ({ sdk, mode }))),
  ...Object.entries(MODES).flatMap(([sdk, modes]) => modes.map((mode) => ({ sdk: sdk as SdkName, mode }))),
].map(({ sdk, mode }) => ({ sdk, mode, name: `${sdk} ${mode}` }));

/** What a client shows to say which environment it belongs to. */
export function keyOf(sdk: SdkName): string {
  if (sdk === 'browser') return RELAY_KEYS.envId;
  return sdk === 'phone' ? RELAY_KEYS.mobile : RELAY_KEYS.sdk;
}

export const isStream = ({ mode }: Pick<RelayClient, 'mode'>): boolean => !mode.endsWith('-poll');

/** How a stream of this client comes back to a Headgate that has what it had: the line of the log that tells of it. */
export interface Return {
  readonly route: string;
  /** The `User-Agent` up to its slash, as the log has it. */
  readonly agent: string;
  readonly how: 'caught up' | 'full copy';
}

const AGENTS: Readonly<Record<SdkName, string>> = {
  node: 'NodeJSClient',
  openfeature: 'NodeJSClient',
  go: 'GoClient',
  python: 'PythonClient',
  browser: 'Mozilla',
  phone: 'AndroidClient',
};

/** Undefined: of pings, and of polls, there is nothing to tell. */
export function returnOf({ sdk, mode }: RelayClient): Return | undefined {
  if (!isStream({ mode })) return undefined;
  const agent = AGENTS[sdk];
  const ofServers = sdk !== 'browser' && sdk !== 'phone';
  if (mode !== 'fdv1-stream') {
    return { route: ofServers ? '/sdk/stream' : '/sdk/stream/eval/:context', agent, how: 'caught up' };
  }
  if (!ofServers) return undefined;
  // Go may have come back for a put, and Python says that it is well after a put only: they get one though they say where they are
  return { route: '/all', agent, how: agent === 'NodeJSClient' ? 'caught up' : 'full copy' };
}

interface FlagOptions {
  readonly version?: number;
  readonly fallthrough?: number;
  readonly [member: string]: unknown;
}

function flag(key: string, variations: readonly unknown[], options: FlagOptions = {}): FakeItem {
  const { version = 1, fallthrough = 0, ...more } = options;
  return {
    key,
    version,
    on: true,
    variations,
    fallthrough: { variation: fallthrough },
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
    ...visible({ browsers: true, phones: true }),
    ...more,
  };
}

function visible({ browsers, phones }: { browsers: boolean; phones: boolean }): FlagOptions {
  return {
    clientSide: browsers,
    clientSideAvailability: { usingEnvironmentId: browsers, usingMobileKey: phones },
  };
}

function rule(variation: number, attribute: string, op: string, values: readonly unknown[]): object {
  const clause = { contextKind: 'user', attribute, op, values, negate: false };
  return { id: `rule ${op}`, variation, trackEvents: false, clauses: [clause] };
}

const THEMES = ['dark', 'light', 'sepia', 'contrast', 'none'] as const;
type Theme = (typeof THEMES)[number];

/** The flag that changes: its version rises with the place of its value. */
export function themed(theme: Theme): FakeItem {
  const fallthrough = THEMES.indexOf(theme);
  return flag('theme', THEMES, { version: fallthrough + 1, fallthrough });
}

export const SEGMENT: FakeItem = {
  key: 'professionals',
  version: 4,
  included: [],
  excluded: [],
  salt: 'salt of professionals',
  rules: [
    { id: 'plan', clauses: [{ contextKind: 'user', attribute: 'plan', op: 'in', values: ['pro'], negate: false }] },
  ],
  deleted: false,
};

/** The segment as it is once whoever the programs ask for is no longer part of it. */
export const SEGMENT_WITHOUT: FakeItem = { ...SEGMENT, version: 5, rules: [] };

const TEXT = 'line one\nline two, “quoted”, a \u2028 and a tab\t';
const JSON_VALUE = { list: [1, 2.5, null], nested: { ok: true } };

/** Everything at first. Each flag shows that one part of the data, or of who may see it, reached its reader. */
export const FLAGS: readonly FakeItem[] = [
  themed('dark'),
  flag('first-to-go', ['there']),
  flag('last-to-go', ['there']),
  flag('by-country', [0, 31], { rules: [rule(1, 'country', 'in', ['BE', 'NL'])] }),
  flag('by-segment', ['out', 'in'], { rules: [rule(1, '', 'segmentMatch', ['professionals'])] }),
  flag('by-prerequisite', ['met', 'not met'], {
    offVariation: 1,
    prerequisites: [{ key: 'by-country', variation: 1 }],
  }),
  flag('of-text', [TEXT]),
  flag('of-json', [JSON_VALUE]),
  flag('of-servers', [true, false], visible({ browsers: false, phones: false })),
  flag('of-browsers', [true, false], visible({ browsers: true, phones: false })),
  flag('of-phones', [true, false], visible({ browsers: false, phones: true })),
];

/** What a client has to have. */
export interface Expected {
  readonly theme: Theme;
  readonly segment?: 'in' | 'out';
  /** Which of the flags that go are there still. */
  readonly still: readonly ('first-to-go' | 'last-to-go')[];
}

/** The values of a client, by what it may see. */
export function valuesFor(sdk: SdkName, { theme, segment = 'in', still }: Expected): SdkFlags {
  return {
    theme,
    'by-country': 31,
    'by-segment': segment,
    'by-prerequisite': 'met',
    'of-text': TEXT,
    'of-json': JSON_VALUE,
    ...Object.fromEntries(still.map((key) => [key, 'there'])),
    ...(sdk === 'browser' || sdk === 'phone' ? {} : { 'of-servers': true }),
    ...(sdk === 'phone' ? {} : { 'of-browsers': true }),
    ...(sdk === 'browser' ? {} : { 'of-phones': true }),
  };
}
