import { createInterface } from 'node:readline';
import ld from '@launchdarkly/node-server-sdk';

const READY_SECONDS_MAX = 20;
const POLL_SECONDS = 30;
const CONTEXT = { kind: 'user', key: 'user-key', email: 'a@example.com', plan: 'pro', country: 'NL' };
const MODES = {
  'fdv1-stream': {},
  'fdv1-poll': { stream: false, pollInterval: POLL_SECONDS },
  fdv2: { dataSystem: { dataSource: { dataSourceOptionsType: 'standard', pollInterval: POLL_SECONDS } } },
  'fdv2-stream': { dataSystem: { dataSource: { dataSourceOptionsType: 'streamingOnly' } } },
  'fdv2-poll': { dataSystem: { dataSource: { dataSourceOptionsType: 'pollingOnly', pollInterval: POLL_SECONDS } } },
};

const [mode, baseUrl, sdkKey] = process.argv.slice(2);
if (!Object.hasOwn(MODES, mode) || sdkKey === undefined) {
  process.stderr.write(`usage: driver.mjs ${Object.keys(MODES).join('|')} BASE_URL SDK_KEY\n`);
  process.exit(2);
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const client = ld.init(sdkKey, {
  baseUri: baseUrl,
  streamUri: baseUrl,
  eventsUri: baseUrl,
  sendEvents: false,
  diagnosticOptOut: true,
  logger: ld.basicLogger({ level: 'info', destination: (line) => process.stderr.write(`${line}\n`) }),
  ...MODES[mode],
});

// the listener stands before the first data, so no change between the two is missed
const changes = [];
let ready = false;
const report = async (key) => say({ event: 'change', key, value: await client.variation(key, CONTEXT, null) });
client.on('update', ({ key }) => {
  if (ready) void report(key);
  else changes.push(key);
});

try {
  await client.waitForInitialization({ timeout: READY_SECONDS_MAX });
} catch (error) {
  say({ event: 'failed', error: error.message });
  process.exit(1);
}
changes.length = 0;
const sayFlags = async (event) => say({ event, flags: (await client.allFlagsState(CONTEXT)).allValues() });
await sayFlags('initialized');
ready = true;
for (const key of changes) await report(key);

const asked = createInterface({ input: process.stdin });
asked.on('line', (line) => {
  if (line === 'flags') void sayFlags('flags');
});
asked.on('close', () => {
  client.close();
  process.exit(0);
});
