import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const READY_SECONDS_MAX = 20;
const POLL_SECONDS = 30;
const CONTEXT = { kind: 'user', key: 'user-key', email: 'a@example.com', plan: 'pro', country: 'NL' };
const manual = (initialConnectionMode) => ({ type: 'manual', initialConnectionMode });
const MODES = {
  'fdv1-stream': { streaming: true },
  'fdv1-poll': {},
  'fdv2-stream': { dataSystem: { automaticModeSwitching: manual('streaming') } },
  'fdv2-poll': {
    dataSystem: {
      automaticModeSwitching: manual('polling'),
      connectionModes: {
        polling: { initializers: [], synchronizers: [{ type: 'polling', pollInterval: POLL_SECONDS }] },
      },
    },
  },
};

const [mode, baseUrl, envId] = process.argv.slice(2);
if (!Object.hasOwn(MODES, mode) || envId === undefined) {
  process.stderr.write(`usage: browser.mjs ${Object.keys(MODES).join('|')} BASE_URL ENV_ID\n`);
  process.exit(2);
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/**
 * What runs in the page. A listener makes the SDK open a stream, whatever else it was told: who polls has none. With FDv1 it
 * polls once for each context that it is given.
 */
async function startInPage({ baseUri, clientId, listens, pollsOnce, context, options, readySeconds }) {
  const { createClient } = await import('/sdk.js');
  const client = createClient(clientId, context, {
    baseUri,
    streamUri: baseUri,
    eventsUri: baseUri,
    sendEvents: false,
    diagnosticOptOut: true,
    fetchGoals: false,
    ...options,
  });
  globalThis.flags = async () => {
    if (pollsOnce) await client.identify(context, { waitForNetworkResults: true });
    return client.allFlags();
  };
  const { status, error } = await client.start({ timeout: readySeconds });
  if (listens) {
    client.on('change', (_context, keys) => {
      for (const key of keys) globalThis.say({ event: 'change', key, value: client.variation(key, null) });
    });
  }
  return { failed: status === 'complete' ? undefined : (error?.message ?? status), flags: client.allFlags() };
}

// the page is of another origin than the server that it asks, as pages are
const sdk = readFileSync(fileURLToPath(import.meta.resolve('@launchdarkly/js-client-sdk')));
const pages = createServer(({ url }, response) => {
  const [type, body] =
    url === '/sdk.js' ? ['text/javascript', sdk] : ['text/html', '<!doctype html><title>page</title>'];
  response.writeHead(200, { 'content-type': type }).end(body);
});
await new Promise((resolve) => pages.listen(0, '127.0.0.1', resolve));

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-proxy-server'],
});
const page = await browser.newPage();
page.on('console', (message) => process.stderr.write(`${message.text()}\n`));
await page.goto(`http://127.0.0.1:${pages.address().port}/`);
await page.exposeFunction('say', say);
const { failed, flags } = await page.evaluate(startInPage, {
  baseUri: baseUrl,
  clientId: envId,
  listens: !mode.endsWith('-poll'),
  pollsOnce: mode === 'fdv1-poll',
  context: CONTEXT,
  options: MODES[mode],
  readySeconds: READY_SECONDS_MAX,
});
if (failed !== undefined) {
  say({ event: 'failed', error: failed });
  await browser.close();
  process.exit(1);
}
say({ event: 'initialized', flags });

const asked = createInterface({ input: process.stdin });
asked.on('line', (line) => {
  if (line === 'flags') void page.evaluate('flags()').then((now) => say({ event: 'flags', flags: now }));
});
asked.on('close', () => void browser.close().finally(() => process.exit(0)));
