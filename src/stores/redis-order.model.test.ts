import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { flag, gone, put } from '../../test/support/flags-items.ts';
import { redisAvailable, RedisServer } from '../../test/support/redis.ts';
import { RedisReplica } from '../../test/support/redis-replica.ts';
import { type Change, DigestSum, type Item } from '../dataset/index.ts';

const KEYS = ['a', 'b', 'c', 'd'];

interface Edit {
  readonly key: string;
  readonly isGone: boolean;
  readonly by: number;
}

/**
 * What upstream does, change by change: every replica gets it in this order, in batches and at times of its own. Each change
 * counts one flag up, so that no state comes again: then the order must be right, not only harmless.
 */
class Upstream {
  readonly changes: (readonly Change[])[] = [];
  readonly #versions = new Map<string, number>();
  readonly #digests: string[] = [];
  /** The furthest that any replica has come. */
  toldMax = 0;
  /** By number of changes, what is there. */
  readonly states: Map<string, Item>[] = [new Map([['count', flag('count', 1)]])];

  constructor(edits: readonly Edit[]) {
    this.#digests.push(digestOf([flag('count', 1)]));
    for (const { key, isGone, by } of edits) {
      const state = new Map(this.states.at(-1));
      const version = (this.#versions.get(key) ?? 0) + by;
      if (isGone && !state.has(key)) continue;
      this.#versions.set(key, version);
      const count = flag('count', this.states.length + 1);
      this.changes.push([isGone ? gone('flags', key, version) : put(flag(key, version)), put(count)]);
      state.set('count', count);
      if (isGone) state.delete(key);
      else state.set(key, flag(key, version));
      this.states.push(state);
      this.#digests.push(digestOf([...state.values()]));
    }
  }

  /** The state with a digest; -1 when there is none. */
  indexOf(digest: string): number {
    return this.#digests.indexOf(digest);
  }
}

type Act = { readonly who: number; readonly what: 'take' | 'put' | 'restart' | 'forget'; readonly count: number };

const edit = (key: string, isGone: boolean, by: number): Edit => ({ key, isGone, by });
const act = (who: number, what: Act['what'], count: number): Act => ({ who, what, count });
/** An item is made and deleted again, and whoever has seen neither comes with the newest state. */
const UNSEEN: [Edit[], Act[], boolean] = [
  [edit('a', false, 1), edit('a', false, 1), edit('a', true, 3)],
  [act(0, 'forget', 1), act(2, 'take', 1), act(1, 'put', 4), act(0, 'forget', 2), act(1, 'forget', 4)],
  true,
];

/** One replica at its place in what upstream does. */
class Runner {
  readonly #url: string;
  readonly #upstream: Upstream;
  replica: RedisReplica;
  at = 0;

  constructor(url: string, upstream: Upstream) {
    this.#url = url;
    this.#upstream = upstream;
    this.replica = new RedisReplica(url);
  }

  async begin(): Promise<void> {
    this.#upstream.toldMax = Math.max(this.#upstream.toldMax, this.at);
    await this.replica.data.replace(this.#upstream.states[this.at]!.values());
  }

  async act({ what, count }: Pick<Act, 'what' | 'count'>): Promise<void> {
    const from = this.at;
    if (what === 'take') {
      this.at = Math.min(from + count, this.#upstream.changes.length);
      this.#upstream.toldMax = Math.max(this.#upstream.toldMax, this.at);
      await this.replica.data.apply(this.#upstream.changes.slice(from, this.at).flat());
    } else if (what === 'put') {
      this.at = Math.min(from + count, this.#upstream.changes.length);
      await this.begin();
    } else {
      await this.replica.close();
      this.replica = new RedisReplica(this.#url);
      if (what === 'restart') {
        await this.replica.restore();
        // what is taken for a rollback is another matter: here upstream answers with no less than what was restored
        this.at = this.#upstream.toldMax;
      }
      await this.begin();
    }
  }
}

describe.skipIf(!redisAvailable())('replicas that share a Redis', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.stop());

  const versions = async (): Promise<Map<string, number>> => {
    const held = await server.with((client) => client.hgetall('env:features'));
    return new Map(Object.entries(held).map(([key, json]) => [key, (JSON.parse(json) as { version: number }).version]));
  };

  const edits = fc.array(
    fc.record({ key: fc.constantFrom(...KEYS), isGone: fc.boolean(), by: fc.integer({ min: 1, max: 3 }) }),
    { minLength: 3, maxLength: 14 },
  );
  const acts = fc.array(
    fc.record({
      who: fc.integer({ min: 0, max: 2 }),
      what: fc.constantFrom<Act['what']>('take', 'take', 'take', 'put', 'restart', 'forget'),
      count: fc.integer({ min: 1, max: 4 }),
    }),
    { maxLength: 16 },
  );

  it('never take it back, agree on what is newer, and leave the newest data in it', { timeout: 120_000 }, async () => {
    // the assertions are in the property
    expect.hasAssertions();
    await fc.assert(
      fc.asyncProperty(edits, acts, fc.boolean(), async (done, steps, atOnce) => {
        await server.with((client) => client.flushall());
        const upstream = new Upstream(done);
        const runners = Array.from({ length: 3 }, () => new Runner(server.url, upstream));
        try {
          for (const runner of runners) await runner.begin();
          await runAll(runners, steps, atOnce);
          for (const runner of runners) await runner.act({ what: 'take', count: upstream.changes.length });
          await checkOrder(runners, upstream);
          expect(await liveTexts()).toEqual(
            Array.from(upstream.states.at(-1)!.values(), ({ text }) => text).sort(byText),
          );
        } finally {
          for (const { replica } of runners) await replica.close();
        }
      }),
      { numRuns: 60, endOnFailure: true, examples: [UNSEEN] },
    );
  });

  async function runAll(runners: readonly Runner[], steps: readonly Act[], atOnce: boolean): Promise<void> {
    let held = await versions();
    for (let at = 0; at < steps.length; at += atOnce ? 3 : 1) {
      const turn = new Map(steps.slice(at, atOnce ? at + 3 : at + 1).map((step) => [step.who, step]));
      await Promise.all(Array.from(turn.values(), (step) => runners[step.who]!.act(step)));
      const now = await versions();
      for (const [key, version] of held)
        expect([key, now.get(key)]).toEqual([key, Math.max(version, now.get(key) ?? 0)]);
      held = now;
    }
  }

  /** Each state in the order is one of upstream's, and later than the one before. */
  async function checkOrder(runners: readonly Runner[], upstream: Upstream): Promise<void> {
    const rows = await server.with((client) => client.xrange('env:headgate:order', '-', '+'));
    const digests = rows.map(([, fields]) => fields[1]);
    const indexes = digests.map((digest) => upstream.indexOf(digest ?? ''));
    expect(indexes).not.toContain(-1);
    expect(indexes).toEqual(indexes.toSorted((a, b) => a - b));
    expect(new Set(digests).size).toBe(digests.length);
    for (const { replica } of runners) expect(replica.told).toEqual([]);
  }

  async function liveTexts(): Promise<string[]> {
    const held = await server.with((client) => client.hgetall('env:features'));
    return Object.values(held)
      .filter((json) => !json.includes('"deleted":true'))
      .sort(byText);
  }
});

function byText(a: string, b: string): number {
  return a < b ? -1 : 1;
}

function digestOf(items: readonly Item[]): string {
  const sum = new DigestSum();
  for (const item of items) sum.add(item);
  return sum.toString();
}
