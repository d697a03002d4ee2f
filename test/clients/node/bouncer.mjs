import { createInterface } from 'node:readline';

const PART = 1000;
const NO_REMEDIATION = 'bypass';

// its own log would stand between our lines: it writes to standard output
process.env.LOG_LEVEL = 'silent';
// not among this project's packages: setup.sh installs it beside the other programs
const { CrowdSecBouncer } = await import(
  new URL('../.build/node-bouncer/node_modules/@crowdsec/nodejs-bouncer/dist/index.js', import.meta.url).href
);

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** Where the library keeps what it knows, so that we can look into it. */
class Cache {
  items = new Map();

  getItem(key) {
    return Promise.resolve(this.items.get(key) ?? null);
  }

  setItem(item) {
    this.items.set(item.key, item);
    return Promise.resolve(item);
  }

  deleteItem(key) {
    return Promise.resolve(this.items.delete(key));
  }

  clear() {
    this.items.clear();
    return Promise.resolve(true);
  }

  /** What it would act on now: value and type. Its index of ranges holds other things under other keys. */
  decisions() {
    const found = [];
    for (const { key, content } of this.items.values()) {
      const scope = /^(ip|range)_(?!bucket_)/.exec(key)?.[1];
      if (scope === undefined || !Array.isArray(content)) continue;
      for (const { id, origin, value: type, expiresAt } of content) {
        if (expiresAt >= Date.now()) found.push([id.slice(`${origin}-${type}-${scope}-`.length), type]);
      }
    }
    return found;
  }
}

async function pull(bouncer) {
  try {
    const { new: stored, deleted } = await bouncer.refreshDecisions();
    say({ event: 'pull', new: stored.length, deleted: deleted.length });
  } catch (error) {
    say({ event: 'failed', error: `${error.message} ${error.cause?.code ?? ''}` });
  }
}

async function stream(url, key, seconds) {
  const cache = new Cache();
  const bouncer = new CrowdSecBouncer({ url, bouncerApiToken: key, streamMode: true, cacheAdapter: cache });
  let ended = false;
  const orders = createInterface({ input: process.stdin });
  orders.on('line', (order) => {
    if (order !== 'set') return;
    const decisions = cache.decisions();
    for (let at = 0; at < decisions.length; at += PART) {
      say({ event: 'part', decisions: decisions.slice(at, at + PART) });
    }
    say({ event: 'set', count: decisions.length });
  });
  orders.on('close', () => {
    ended = true;
  });
  while (!ended) {
    await pull(bouncer);
    await new Promise((resolve) => setTimeout(resolve, Number(seconds) * 1000));
  }
}

async function live(url, key) {
  const bouncer = new CrowdSecBouncer({ url, bouncerApiToken: key, streamMode: false, cacheAdapter: new Cache() });
  for await (const line of createInterface({ input: process.stdin })) {
    for (const address of line.split(' ')) {
      try {
        const { remediation } = await bouncer.getIpRemediation(address);
        say({ event: 'answer', address, types: remediation === NO_REMEDIATION ? [] : [remediation] });
      } catch (error) {
        say({ event: 'answer', address, error: `${error.message} ${error.cause?.code ?? ''}` });
      }
    }
  }
}

const [mode, ...rest] = process.argv.slice(2);
if (mode === 'stream' && rest.length === 3) {
  await stream(...rest);
} else if (mode === 'live' && rest.length === 2) {
  await live(...rest);
} else {
  process.stderr.write('usage: bouncer.mjs stream BASE_URL KEY SECONDS | live BASE_URL KEY\n');
  process.exit(2);
}
process.exit(0);
