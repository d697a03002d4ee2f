import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { FakeClock } from '../../kernel/index.ts';
import type { SmallStore } from './deps.ts';
import { type KeyAnswer, Keys, type KeysOptions } from './keys.ts';

type Verdict = 'good' | 'refused' | 'unreachable';

const sha512 = (key: string): string => createHash('sha512').update(key).digest('hex');
const MINUTE_MS = 60_000;

/** An upstream that says what the test says, and counts. */
class Upstream {
  readonly asked: string[] = [];
  says: Verdict | 'nothing' | 'error' = 'good';
  #waiting: ((verdict: Verdict) => void)[] = [];

  checkKey(key: string): Promise<Verdict> {
    this.asked.push(key);
    const { says } = this;
    if (says === 'error') return Promise.reject(new Error('broken'));
    if (says !== 'nothing') return Promise.resolve(says);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Answers those that wait. */
  answer(verdict: Verdict): void {
    for (const resolve of this.#waiting.splice(0)) resolve(verdict);
  }
}

function kit(more: Partial<KeysOptions> = {}, upstreams: Upstream[] = [new Upstream()]) {
  const clock = new FakeClock();
  const told: string[] = [];
  const values = new Map<string, Uint8Array>();
  const store: SmallStore = {
    entries: () => [...values],
    set: (key, value) => void values.set(key, value),
    delete: (key) => void values.delete(key),
  };
  const options: KeysOptions = {
    clock,
    wallNow: () => 1_800_000_000_000 + clock.now(),
    random: () => 0.5,
    configured: [],
    upstreams,
    store,
    waitMsMax: 10_000,
    onLearned: ({ name }) => told.push(`learned ${name}`),
    onDropped: ({ name }) => told.push(`dropped ${name}`),
    ...more,
  };
  return { clock, told, values, options, upstream: upstreams[0] as Upstream, keys: new Keys(options) };
}

const nameIn = (answer: KeyAnswer): string => (typeof answer === 'string' ? answer : answer.name);

/** Lets what was answered in the background settle. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a configured key', () => {
  it('is known by its digest, without a question to anybody', () => {
    const { keys, upstream } = kit({ configured: [{ name: 'nginx', sha512: sha512('secret').toUpperCase() }] });
    expect(keys.check('secret')).toEqual({ id: sha512('secret'), name: 'nginx' });
    expect(upstream.asked).toEqual([]);
  });

  it('is the only one where nobody else may say', () => {
    const { keys } = kit({ configured: [{ name: 'nginx', sha512: sha512('secret') }] }, []);
    expect([keys.check('Secret'), keys.check(''), keys.check('secret ')]).toEqual(['refused', 'refused', 'refused']);
  });

  it('has bytes, whatever letters they stand for', () => {
    const { keys } = kit({ configured: [{ name: 'é', sha512: createHash('sha512').update('é').digest('hex') }] }, []);
    // the two bytes of é in UTF-8, as a header's value shows them
    expect(nameIn(keys.check('Ã©') as KeyAnswer)).toBe('é');
  });

  it('goes with the configuration', () => {
    const { keys } = kit({ configured: [{ name: 'old', sha512: sha512('old') }] }, []);
    keys.configure([{ name: 'new', sha512: sha512('new') }]);
    expect(keys.check('old')).toBe('refused');
    expect(nameIn(keys.check('new') as KeyAnswer)).toBe('new');
  });
});

describe('a key that an upstream knows', () => {
  it('is asked about once, and known from then on by the end of its digest', async () => {
    const { keys, upstream, told } = kit();
    const name = `key ending …${sha512('good').slice(-4)}`;
    expect(await keys.check('good')).toEqual({ id: sha512('good'), name, upstream: 0 });
    expect(nameIn(keys.check('good') as KeyAnswer)).toBe(name);
    expect(upstream.asked).toEqual(['good']);
    expect(told).toEqual([`learned ${name}`]);
    expect(keys.nameOf(sha512('good'))).toBe(name);
  });

  // fails when #asking is not looked at in check()
  it('is asked about once, however many come with it', async () => {
    const { keys, upstream } = kit();
    upstream.says = 'nothing';
    const answers = Array.from({ length: 100 }, async () => keys.check('good'));
    await settled();
    upstream.answer('good');
    expect(new Set((await Promise.all(answers)).map(nameIn)).size).toBe(1);
    expect(upstream.asked).toEqual(['good']);
  });

  it('is good when one of several upstreams says so, and refused only when all do', async () => {
    const upstreams = [new Upstream(), new Upstream(), new Upstream()] as const;
    const { keys } = kit({}, [...upstreams]);
    upstreams[0].says = 'refused';
    upstreams[1].says = 'error';
    expect(await keys.check('a')).toMatchObject({ upstream: 2 });
    upstreams[2].says = 'refused';
    expect(await keys.check('b')).toBe('unchecked');
    upstreams[1].says = 'refused';
    expect(await keys.check('c')).toBe('refused');
  });

  it('survives a restart, and an upstream that is down', async () => {
    const { keys, options, values, upstream } = kit();
    await keys.check('good');
    expect([...values.keys()]).toEqual([sha512('good')]);
    upstream.says = 'unreachable';
    const again = new Keys(options);
    expect(nameIn(again.check('good') as KeyAnswer)).toMatch(/^key ending …/);
    expect(again.counts.vouched).toBe(1);
  });

  it('is asked about anew when nobody has used it for a month, or what was stored cannot be read', () => {
    const { options, values } = kit();
    values.set(sha512('old'), Buffer.from(JSON.stringify({ goodMs: 1_700_000_000_000, upstream: 0 })));
    values.set(sha512('ill'), Buffer.from('{'));
    values.set('ill', Buffer.from(JSON.stringify({ goodMs: 1_800_000_000_000, upstream: 0 })));
    expect(new Keys(options).counts.vouched).toBe(0);
    expect(values.size).toBe(0);
  });
});

describe('a key that was good', () => {
  /** Learns a key, then lets ten minutes pass: the next use of it asks again. */
  async function learned() {
    const all = kit();
    await all.keys.check('good');
    all.clock.advance(10 * MINUTE_MS);
    return all;
  }

  const use = async (keys: Keys): Promise<string> => {
    const answer = keys.check('good');
    await settled();
    return nameIn(await answer);
  };

  it('is checked again behind the back of whoever uses it, one question at a time', async () => {
    const { keys, upstream, clock } = await learned();
    upstream.says = 'nothing';
    expect(nameIn(keys.check('good') as KeyAnswer)).toMatch(/^key/);
    expect(nameIn(keys.check('good') as KeyAnswer)).toMatch(/^key/);
    await settled();
    expect(upstream.asked).toHaveLength(2);
    upstream.answer('good');
    await settled();
    clock.advance(7 * MINUTE_MS);
    await use(keys);
    expect(upstream.asked).toHaveLength(2);
  });

  // fails when the first refusal drops it
  it('is still good after one refusal, and after two within a minute', async () => {
    const { keys, upstream, clock, told } = await learned();
    upstream.says = 'refused';
    expect(await use(keys)).toMatch(/^key/);
    clock.advance(MINUTE_MS - 1);
    expect(await use(keys)).toMatch(/^key/);
    expect(upstream.asked).toHaveLength(2);
    expect(told).toHaveLength(1);
  });

  // fails when #drop is never called, or leaves the key in the store
  it('is dropped after two, a minute apart', async () => {
    const { keys, upstream, clock, told, values } = await learned();
    upstream.says = 'refused';
    await use(keys);
    clock.advance(MINUTE_MS);
    await use(keys);
    expect(await use(keys)).toBe('refused');
    expect(told.at(-1)).toMatch(/^dropped key ending …/);
    expect(values.size).toBe(0);
  });

  // fails when `doubtedMs` is not taken back
  it('is beyond doubt again once the upstream says so', async () => {
    const { keys, upstream, clock } = await learned();
    upstream.says = 'refused';
    await use(keys);
    upstream.says = 'good';
    clock.advance(MINUTE_MS);
    await use(keys);
    clock.advance(13 * MINUTE_MS);
    upstream.says = 'refused';
    await use(keys);
    expect(await use(keys)).toMatch(/^key/);
  });

  // fails when 'unreachable' counts as a refusal
  it('stays good for as long as the upstream is down', async () => {
    const { keys, upstream, clock } = await learned();
    upstream.says = 'unreachable';
    for (let hour = 0; hour < 24; hour++) {
      clock.advance(60 * MINUTE_MS);
      expect(await use(keys)).toMatch(/^key/);
    }
    expect(upstream.asked.length).toBeGreaterThan(20);
  });
});

describe('a key that nobody knows', () => {
  // fails when refusals are not remembered
  it('is refused, and not asked about again for 5 s', async () => {
    const { keys, upstream, clock } = kit();
    upstream.says = 'refused';
    expect(await keys.check('bad')).toBe('refused');
    clock.advance(4999);
    expect(keys.check('bad')).toBe('refused');
    clock.advance(1);
    upstream.says = 'good';
    expect(nameIn(await keys.check('bad'))).toMatch(/^key/);
  });

  it('is neither good nor refused while nobody can say, and asked about at the next try', async () => {
    const { keys, upstream } = kit();
    upstream.says = 'unreachable';
    expect(await keys.check('new')).toBe('unchecked');
    upstream.says = 'error';
    expect(await keys.check('new')).toBe('unchecked');
    upstream.says = 'good';
    expect(nameIn(await keys.check('new'))).toMatch(/^key/);
  });

  it('is not waited for without end', async () => {
    const { keys, upstream, clock } = kit();
    upstream.says = 'nothing';
    const answer = keys.check('new');
    await settled();
    clock.advance(10_000);
    expect(await answer).toBe('unchecked');
  });

  // fails when #takeToken always answers true
  it('is one of a bounded number that is asked about, and what is remembered is bounded', async () => {
    const { keys, upstream, clock } = kit();
    upstream.says = 'refused';
    const flood = async (from: number, count: number): Promise<KeyAnswer[]> => {
      const answers: KeyAnswer[] = [];
      for (let key = from; key < from + count; key++) answers.push(await keys.check(`made up ${key}`));
      return answers;
    };
    const first = await flood(0, 10_000);
    expect(first.filter((answer) => answer === 'unchecked').length).toBe(10_000 - upstream.asked.length);
    expect(upstream.asked.length).toBeLessThanOrEqual(2048);
    clock.advance(10_000);
    upstream.asked.length = 0;
    await flood(10_000, 10_000);
    expect(upstream.asked.length).toBeLessThanOrEqual(200);
    // those of the first flood are no longer remembered
    expect(keys.counts.refusedLately).toBeLessThanOrEqual(200);
  });

  // fails when CHECKS_MAX is not what bounds the checks
  it('is one of few that are asked about at a time', async () => {
    const { keys, upstream } = kit();
    upstream.says = 'nothing';
    for (let key = 0; key < 100; key++) void keys.check(`made up ${key}`);
    await settled();
    expect(upstream.asked).toHaveLength(8);
    expect(keys.counts.beingChecked).toBe(100);
  });

  it('does not keep a good one from being served', async () => {
    const { keys, upstream } = kit();
    await keys.check('good');
    upstream.says = 'refused';
    for (let key = 0; key < 5000; key++) await keys.check(`made up ${key}`);
    expect(nameIn(keys.check('good') as KeyAnswer)).toMatch(/^key/);
  });
});
