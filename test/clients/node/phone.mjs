// A phone's requests, as the mobile SDKs make them: those SDKs themselves need a phone to run on.
import { createInterface } from 'node:readline';
import { createParser } from 'eventsource-parser';

const POLL_MS = 30_000;
const RETRY_MS = 500;
const CONTEXT = { kind: 'user', key: 'user-key', email: 'a@example.com', plan: 'pro', country: 'NL' };
const PATH = Buffer.from(JSON.stringify(CONTEXT)).toString('base64url');
const MODES = { 'fdv1-stream': pinged, 'fdv1-poll': evaluated, 'fdv2-stream': streamed, 'fdv2-poll': polled };

const [mode, baseUrl, mobileKey] = process.argv.slice(2);
if (!Object.hasOwn(MODES, mode) || mobileKey === undefined) {
  process.stderr.write(`usage: phone.mjs ${Object.keys(MODES).join('|')} BASE_URL MOBILE_KEY\n`);
  process.exit(2);
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** Key to value and version, as they are now. */
let flags = new Map();
let known = false;
/** FDv2: where we are. */
let basis;
/** FDv2: what has come of a payload that is not complete yet. */
let draft;
/** FDv1: of the last reply. */
let etag;

const values = () => Object.fromEntries([...flags].map(([key, { value }]) => [key, value]));

function take(next) {
  const changed = [...new Set([...flags.keys(), ...next.keys()])].filter(
    (key) => JSON.stringify(flags.get(key)) !== JSON.stringify(next.get(key)),
  );
  flags = next;
  if (known) for (const key of changed) say({ event: 'change', key, value: flags.get(key)?.value ?? null });
  else say({ event: 'initialized', flags: values() });
  known = true;
}

async function ask(path, options = {}) {
  const headers = { authorization: mobileKey, 'user-agent': 'AndroidClient/0', ...options.headers };
  const reply = await fetch(`${baseUrl}${path}`, { ...options, headers });
  // 304 is an answer too
  if (!reply.ok && reply.status !== 304) throw new Error(`Cannot read ${path}: got status ${reply.status}`);
  return reply;
}

const named = (path) => (basis === undefined ? path : `${path}?basis=${encodeURIComponent(basis)}`);

/** One event of FDv2, of a stream or a poll. */
function receive(event, data) {
  if (event === 'server-intent') {
    const { intentCode } = data.payloads[0];
    draft = intentCode === 'xfer-full' ? new Map() : new Map(flags);
  } else if (event === 'put-object' && data.kind === 'flag-eval') {
    draft.set(data.key, { ...data.object, version: data.version });
  } else if (event === 'delete-object') draft.delete(data.key);
  else if (event === 'payload-transferred') {
    basis = data.state;
    take(new Map(draft));
  }
}

async function evaluated() {
  const reply = await ask(`/msdk/evalx/contexts/${PATH}`, {
    headers: etag === undefined ? {} : { 'if-none-match': etag },
  });
  if (reply.status === 304) return;
  etag = reply.headers.get('etag') ?? undefined;
  take(new Map(Object.entries(await reply.json())));
}

async function polled() {
  const body = JSON.stringify(CONTEXT);
  const reply = await ask(named('/sdk/poll/eval'), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  if (reply.status === 304) return;
  for (const { event, data } of (await reply.json()).events) receive(event, data);
}

async function follow(path, onEvent) {
  const reply = await ask(path);
  const parser = createParser({ onEvent });
  const decoder = new TextDecoder();
  for await (const part of reply.body) parser.feed(decoder.decode(part, { stream: true }));
}

/** A ping says that there is something to fetch; pings that come while we fetch are worth one more. */
async function pinged() {
  let fetching = Promise.resolve();
  await follow(`/meval/${PATH}`, ({ event }) => {
    if (event === 'ping') fetching = fetching.then(evaluated).catch((error) => process.stderr.write(`${error}\n`));
  });
}

async function streamed() {
  await follow(named(`/sdk/stream/eval/${PATH}`), ({ event, data }) => receive(event, JSON.parse(data)));
}

async function run() {
  for (;;) {
    try {
      await MODES[mode]();
    } catch (error) {
      process.stderr.write(`${error.cause ?? error}\n`);
    }
    const ms = mode.endsWith('-poll') && known ? POLL_MS : RETRY_MS;
    await new Promise((resolve) => setTimeout(resolve, ms));
  }
}

const asked = createInterface({ input: process.stdin });
asked.on('line', (line) => {
  if (line === 'flags') say({ event: 'flags', flags: values() });
});
asked.on('close', () => process.exit(0));
await run();
