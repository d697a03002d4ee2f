import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

// not among this project's packages: setup.sh installs them beside the other programs
const load = createRequire(new URL('../.build/node-bouncer/', import.meta.url));
const { OpenFeature } = load('@openfeature/server-sdk');
const { LaunchDarklyProvider } = load('@launchdarkly/openfeature-node-server');

const READY_SECONDS_MAX = 20;
const CONTEXT = {
  targetingKey: 'user-key',
  kind: 'user',
  email: 'a@example.com',
  plan: 'pro',
  country: 'NL',
};
const MODES = {
  'fdv1-stream': {},
  fdv2: { dataSystem: { dataSource: { dataSourceOptionsType: 'standard' } } },
};

const [mode, baseUrl, sdkKey] = process.argv.slice(2);
if (!Object.hasOwn(MODES, mode) || sdkKey === undefined) {
  process.stderr.write(`usage: openfeature.mjs ${Object.keys(MODES).join('|')} BASE_URL SDK_KEY\n`);
  process.exit(2);
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const provider = new LaunchDarklyProvider(
  sdkKey,
  {
    baseUri: baseUrl,
    streamUri: baseUrl,
    eventsUri: baseUrl,
    sendEvents: false,
    diagnosticOptOut: true,
    ...MODES[mode],
  },
  READY_SECONDS_MAX,
);
const client = OpenFeature.getClient();

/** What an application is answered that asks for a flag by the type of its value. */
function valueOf(key, sample) {
  if (typeof sample === 'boolean') return client.getBooleanValue(key, !sample, CONTEXT);
  if (typeof sample === 'number') return client.getNumberValue(key, -1, CONTEXT);
  if (typeof sample === 'string') return client.getStringValue(key, 'no value', CONTEXT);
  return client.getObjectValue(key, {}, CONTEXT);
}

/** OpenFeature has no list of flags: which there are, and of what type, is asked of the SDK inside the provider. */
async function samples() {
  return (await provider.getClient().allFlagsState({ ...CONTEXT, key: CONTEXT.targetingKey })).allValues();
}

async function sayFlags(event) {
  const values = Object.entries(await samples()).map(async ([key, sample]) => [key, await valueOf(key, sample)]);
  say({ event, flags: Object.fromEntries(await Promise.all(values)) });
}

try {
  await OpenFeature.setProviderAndWait(provider);
} catch (error) {
  say({ event: 'failed', error: error.message });
  process.exit(1);
}
await sayFlags('initialized');
client.addHandler('PROVIDER_CONFIGURATION_CHANGED', async ({ flagsChanged }) => {
  const known = await samples();
  for (const key of flagsChanged ?? []) {
    say({ event: 'change', key, value: Object.hasOwn(known, key) ? await valueOf(key, known[key]) : null });
  }
});

const asked = createInterface({ input: process.stdin });
asked.on('line', (line) => {
  if (line === 'flags') void sayFlags('flags');
});
asked.on('close', () => void OpenFeature.close().finally(() => process.exit(0)));
