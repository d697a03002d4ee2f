import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Bouncer,
  differenceOf,
  durationMs,
  GoBouncer,
  LuaBouncer,
  nameOf,
  RacePoller,
  toldName,
} from '../support/bouncers.ts';
import { decisionsOf, halfHits } from '../support/decision-data.ts';
import { type Headgate, startHeadgate } from '../support/headgate.ts';
import { Lapi, lapiAvailable, type Told } from '../support/lapi.ts';
import {
  heldName,
  LiveBouncer,
  REAL_BOUNCERS,
  type RealBouncerName,
  realBouncerAvailable,
  StreamingBouncer,
} from '../support/real-bouncer.ts';

/** More can be asked for: `HEADGATE_BOUNCERS_DECISIONS=100000 npx vitest run --project integration bouncers`. */
const COUNT = Number(process.env['HEADGATE_BOUNCERS_DECISIONS'] ?? 20_000);
/** What all of this takes grows with the number of decisions. */
const MS_MAX = 60_000 + 6 * COUNT;
/** A pull of everything keeps the local API busy for seconds. */
const RESYNC_SECONDS = Math.max(5, Math.ceil(COUNT / 2000));
/** Of each kind of address. */
const LOOKED_UP = 100;
const NO_DIFFERENCE = { missed: 0, kept: 0, examples: [] };

const first = decisionsOf({ count: COUNT, seed: 1 });
const second = decisionsOf({ count: COUNT, seed: 2 });
const longer = first.map((decision) => ({ ...decision, duration: '200h' }));

const available = lapiAvailable();
const bouncers = REAL_BOUNCERS.filter(realBouncerAvailable);
const KEYS = ['upstream', 'watcher', 'poller', 'go', 'lua', ...REAL_BOUNCERS, ...REAL_BOUNCERS.map((n) => `${n}-live`)];
const keyOf = (name: string): string => `the-key-of-${name}`;

const namesOf = (told: Told): Set<string> => new Set((told.new ?? []).map(nameOf));
const heldNamesOf = (told: Told): Set<string> =>
  new Set((told.new ?? []).map(({ type, value }) => heldName(type, value)));

async function startLapi(): Promise<Lapi> {
  const lapi = await Lapi.start();
  for (const name of KEYS) await lapi.addBouncer(name, keyOf(name));
  return lapi;
}

/** A full pull, of a server with the local API's interface. */
async function wholeOf(url: string, key: string): Promise<Told> {
  const response = await fetch(`${url}/v1/decisions/stream?startup=true`, { headers: { 'x-api-key': key } });
  expect(response.status).toBe(200);
  return (await response.json()) as Told;
}

/** Answers when Headgate knows that a key is good. */
async function accepted(url: string, key: string): Promise<void> {
  const byMs = performance.now() + MS_MAX;
  for (;;) {
    const { status } = await fetch(`${url}/v1/decisions/stream`, { method: 'HEAD', headers: { 'x-api-key': key } });
    if (status === 200) return;
    if (performance.now() > byMs) throw new Error(`Cannot see a key accepted: status ${status}`);
  }
}

/** The types that an address has to be answered with: those of decisions on it, and on networks around it. */
function expectedTypes(whole: Told): (address: string) => readonly string[] {
  const types = new Map<string, Set<string>>();
  for (const { value, type } of whole.new ?? []) types.set(value, (types.get(value) ?? new Set()).add(type));
  return (address) => {
    const network = `${address.slice(0, address.lastIndexOf('.'))}.0/24`;
    return [...(types.get(address) ?? []), ...(types.get(network) ?? [])].sort();
  };
}

/** Addresses of all kinds that are in `whole`, addresses inside of its networks, and as many that are not. */
function addressesFor(whole: Told): string[] {
  const values = (whole.new ?? []).map(({ value }) => value);
  const some = (matches: (value: string) => boolean): string[] => {
    const found = values.filter(matches);
    return found.filter((_, at) => at % Math.ceil(found.length / LOOKED_UP) === 0);
  };
  const inside = some((value) => value.endsWith('.0/24')).map((value) => value.replace('.0/24', '.77'));
  const v6 = some((value) => value.includes(':'));
  const v4 = some((value) => !value.includes('/') && !value.includes(':'));
  return [...new Set([...v4, ...v6, ...inside, ...halfHits({ count: COUNT, of: 2 * LOOKED_UP })])];
}

describe.runIf(available)('real bouncers at a real local API', () => {
  let lapi: Lapi;

  beforeAll(async () => {
    lapi = await startLapi();
    await lapi.import(first);
  }, MS_MAX);
  afterAll(() => lapi?.stop());

  it.each(bouncers)('hold what a full pull brings: %s', { timeout: MS_MAX }, async (name) => {
    const bouncer = new StreamingBouncer({ name, url: lapi.url, key: keyOf(name) });
    await bouncer.pulled();
    const difference = differenceOf(await bouncer.set(), heldNamesOf(await lapi.pull(keyOf('watcher'))));
    await bouncer.stop();
    expect(difference).toEqual(NO_DIFFERENCE);
  });
});

describe.runIf(available)('at Headgate in front of a real local API', () => {
  const streaming = new Map<RealBouncerName, StreamingBouncer>();
  let lapi: Lapi;
  let headgate: Headgate;
  let go: GoBouncer;
  let lua: LuaBouncer;
  let poller: RacePoller;

  const streamingOf = (name: RealBouncerName): StreamingBouncer => {
    const bouncer = streaming.get(name);
    if (bouncer === undefined) throw new Error(`Cannot find a bouncer: none was started, got ${name}`);
    return bouncer;
  };
  const whole = (): Promise<Told> => wholeOf(headgate.url, keyOf('watcher'));
  /** Answers when Headgate has what the local API has. */
  const level = async (): Promise<void> => {
    const wanted = namesOf(await lapi.pull(keyOf('watcher')));
    const byMs = performance.now() + MS_MAX;
    for (;;) {
      const difference = differenceOf(namesOf(await whole()), wanted);
      if (difference.missed + difference.kept === 0) return;
      if (performance.now() > byMs) throw new Error(`Cannot see Headgate level: ${JSON.stringify(difference)}`);
    }
  };
  const heldBy = async (bouncer: Bouncer): Promise<Set<string>> => {
    await bouncer.pull();
    return new Set(bouncer.held().keys());
  };

  beforeAll(async () => {
    lapi = await startLapi();
    await lapi.import(first);
    headgate = await startHeadgate({
      config: {
        server: { drainDelay: 0, grace: '1s' },
        decisions: {
          sources: [
            { type: 'lapi', url: lapi.url, key: keyOf('upstream'), interval: '1s', resync: `${RESYNC_SECONDS}s` },
          ],
        },
        store: 'none',
      },
    });
    await level();
    // a local API that is busy with 100,000 decisions takes longer for a key than a starting bouncer may have to wait
    for (const name of KEYS) await accepted(headgate.url, keyOf(name));
    go = new GoBouncer(headgate.url, keyOf('go'));
    lua = new LuaBouncer(headgate.url, keyOf('lua'));
    poller = new RacePoller(headgate.url, keyOf('poller'));
    for (const name of bouncers) {
      streaming.set(name, new StreamingBouncer({ name, url: headgate.url, key: keyOf(name) }));
    }
  }, MS_MAX);

  afterAll(async () => {
    await Promise.all([...streaming.values()].map((bouncer) => bouncer.stop()));
    go?.close();
    await headgate?.stop();
    await lapi?.stop();
  }, MS_MAX);

  it('a full pull tells every decision of the local API', { timeout: MS_MAX }, async () => {
    expect(differenceOf(namesOf(await whole()), new Set(first.map(toldName)))).toEqual(NO_DIFFERENCE);
  });

  it('no ban ends before it ends at the local API', { timeout: MS_MAX }, async () => {
    await go.pull();
    const askedMs = Date.now();
    const { new: told } = await lapi.pull(keyOf('watcher'));
    const held = go.held();
    const early = (told ?? []).filter((decision) => {
      // it was computed after it was asked for: it ends at this moment at the soonest
      const endsMs = askedMs + (durationMs(decision.duration) ?? 0);
      return (held.get(nameOf(decision))?.endsMs ?? 0) < endsMs;
    });
    expect(early).toEqual([]);
  });

  it.each(bouncers)('a streaming bouncer holds what a full pull brings: %s', { timeout: MS_MAX }, async (name) => {
    await streamingOf(name).pulled();
    expect(differenceOf(await streamingOf(name).set(), heldNamesOf(await whole()))).toEqual(NO_DIFFERENCE);
  });

  it.each(bouncers)('a live bouncer is answered as the full pull says: %s', { timeout: MS_MAX }, async (name) => {
    const told = await whole();
    const addresses = addressesFor(told);
    const live = new LiveBouncer({ name, url: headgate.url, key: keyOf(`${name}-live`) });
    const found = await live.find(addresses);
    await live.stop();
    const expected = expectedTypes(told);
    const wrong = addresses.filter((address) => {
      const types = expected(address);
      // Node's tells the strictest only: a ban before a captcha
      const wanted = name === 'node' ? types.slice(0, 1) : types;
      return JSON.stringify(found.get(address)) !== JSON.stringify([...new Set(wanted)]);
    });
    expect(wrong).toEqual([]);
    expect(addresses.filter((address) => expected(address).length === 0).length).toBeGreaterThan(LOOKED_UP / 2);
  });

  it('stand-ins hold and are answered the same', { timeout: MS_MAX }, async () => {
    const told = await whole();
    expect(differenceOf(await heldBy(go), namesOf(told))).toEqual(NO_DIFFERENCE);
    expect(differenceOf(await heldBy(lua), namesOf(told))).toEqual(NO_DIFFERENCE);
    const expected = expectedTypes(told);
    for (const address of addressesFor(told).slice(0, 50)) {
      expect((await go.find(address)).map(({ type }) => type).sort()).toEqual(expected(address));
      expect((await lua.find(address)).map(({ type }) => type).sort()).toEqual(expected(address));
    }
  });

  describe('while decisions are imported, deleted and imported again', () => {
    beforeAll(async () => {
      await poller.start();
      await lapi.import(second);
      await lapi.delete('--type', 'captcha');
      await lapi.delete('--all');
      await lapi.import(first);
      // the same ones once more with a later end, as a blocklist is renewed
      await lapi.import(longer);
      await lapi.delete('--ip', first[0]?.value ?? '');
      await lapi.import(second);
      await level();
      await poller.stop();
    }, MS_MAX);

    it('a poller in a race with it misses nothing and keeps nothing', async () => {
      const { bouncer, pulls, brought } = poller;
      const told = await whole();
      console.log(
        `${COUNT} decisions: ${pulls} pulls in a race with six changes, ${brought.length} with anything in it, ` +
          `${brought.reduce((sum, count) => sum + count, 0)} decisions, at once at most ${Math.max(...brought)}`,
      );
      expect(differenceOf(new Set(bouncer.held().keys()), namesOf(told))).toEqual(NO_DIFFERENCE);
      expect(bouncer.faults).toEqual([]);
    });

    it.each(bouncers)('a streaming bouncer holds what a full pull brings: %s', { timeout: MS_MAX }, async (name) => {
      await streamingOf(name).pulled();
      expect(differenceOf(await streamingOf(name).set(), heldNamesOf(await whole()))).toEqual(NO_DIFFERENCE);
      expect(streamingOf(name).failures).toEqual([]);
    });

    it('stand-ins that slept through it hold the same', { timeout: MS_MAX }, async () => {
      for (const bouncer of [go, lua]) {
        expect(differenceOf(await heldBy(bouncer), namesOf(await whole()))).toEqual(NO_DIFFERENCE);
        expect(bouncer.faults).toEqual([]);
      }
      expect(lua.died).toBeUndefined();
    });
  });
});
