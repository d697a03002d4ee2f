import { describe, expect, it } from 'vitest';
import { until } from '../../../test/support/conditions.ts';
import { FakeExchange, fakeFront } from '../../../test/support/flags-fakes.ts';
import { flag, flagsOf, infoOf, put, segment } from '../../../test/support/flags-items.ts';
import { formatPosition } from '../../dataset/index.ts';
import type { FrontOptions } from './deps.ts';
import { Environment } from './environment.ts';
import { caughtUp, delivered } from './facts.ts';
import { answerItem, Polls } from './polls.ts';
import { ALL_POLL, FLAGS_POLL, OBJECTS_POLL, type PollView } from './views.ts';

interface Setting {
  readonly front: FrontOptions;
  readonly environment: Environment;
  readonly poll: (view: PollView, headers?: Record<string, string>, query?: string) => Promise<FakeExchange>;
}

async function setUp(front: FrontOptions = fakeFront(), ttlMs = 0): Promise<Setting> {
  const follow = { refresh: () => undefined, catchUp: () => undefined };
  const environment = new Environment(infoOf('test', { ttlMs }), front, follow);
  await environment.load([...flagsOf(200_000), segment('s', 1)], 'source');
  const polls = new Polls(front);
  const poll = async (view: PollView, headers = {}, query = ''): Promise<FakeExchange> => {
    const exchange = new FakeExchange(`/poll${query}`, headers);
    await polls.answer(exchange, environment, view, '/poll');
    return exchange;
  };
  return { front, environment, poll };
}

const GZIP = { 'accept-encoding': 'gzip' };

describe('a poll', () => {
  // fails when a payload copies its pages for each delivery
  it('is sent the same bytes, not the like, as every other one', async () => {
    const { poll } = await setUp();
    const [one, two] = await Promise.all([poll(ALL_POLL), poll(ALL_POLL)]);
    const large = one.channel.pieces.filter((piece) => piece.length > 1000);
    expect(large.length).toBeGreaterThan(2);
    for (const piece of large) expect(two.channel.pieces).toContain(piece);
    const [zipped, again] = [await poll(ALL_POLL, GZIP), await poll(ALL_POLL, GZIP)];
    expect(zipped.channel.pieces.filter((piece) => again.channel.pieces.includes(piece)).length).toBeGreaterThan(2);
  });

  it('tells how long it would be without compression', async () => {
    const { poll } = await setUp();
    const plainBytes: (number | undefined)[] = [];
    const stop = delivered.listen((fact) => plainBytes.push(fact.plainBytes));
    await poll(ALL_POLL, GZIP);
    const plain = await poll(ALL_POLL);
    stop();
    expect(plainBytes).toEqual([plain.text.length, undefined]);
  });

  it('shares its pages with the other polls of the same shape', async () => {
    const { poll } = await setUp();
    const [all, flags] = [await poll(ALL_POLL), await poll(FLAGS_POLL)];
    for (const piece of flags.channel.pieces.filter(({ length }) => length > 1000)) {
      expect(all.channel.pieces).toContain(piece);
    }
  });

  it('reads and encodes nothing before it has a slot', async () => {
    const { front, environment, poll } = await setUp(fakeFront({ maxConcurrent: 1 }));
    const held = front.limiter.tryAcquire();
    const waiting = poll(ALL_POLL);
    await until('a queue', () => front.limiter.waiting === 1);
    await environment.data.apply([put(flag('flag-0', 2))]);
    expect(environment.data.pinnedBytes).toBe(0);
    if (held.admitted) held.slot.release();
    expect(JSON.parse((await waiting).text)).toMatchObject({ flags: { 'flag-0': { version: 2 } } });
  });

  it('gives its slot and its pin back when its client leaves while it waits, or is encoded', async () => {
    const { front, environment, poll } = await setUp(fakeFront({ maxConcurrent: 1 }));
    const polls = new Polls(front);
    const held = front.limiter.tryAcquire();
    const leaving = new FakeExchange('/poll');
    const answered = polls.answer(leaving, environment, ALL_POLL, '/poll');
    await until('a queue', () => front.limiter.waiting === 1);
    leaving.channel.leave();
    await answered;
    expect(leaving.answered).toBe(false);
    if (held.admitted) held.slot.release();
    const zipping = new FakeExchange('/poll', GZIP);
    const zipped = polls.answer(zipping, environment, ALL_POLL, '/poll');
    await until('its slot', () => front.limiter.held === 1);
    zipping.channel.leave();
    await zipped;
    expect(zipping.answered).toBe(false);
    expect(front.limiter.held).toBe(0);
    expect((await poll(ALL_POLL)).status).toBe(200);
  });

  it('says what caches may do with it', async () => {
    const { poll } = await setUp(fakeFront(), 60_000);
    expect((await poll(ALL_POLL)).headers).toMatchObject({
      vary: 'Authorization, Accept-Encoding',
      // it outranks Expires, so it says the same
      'cache-control': 'max-age=60, stale-if-error=86400',
    });
    const tag = (await poll(ALL_POLL)).headers['etag'] ?? '';
    const same = await poll(ALL_POLL, { 'if-none-match': tag });
    expect(same.status).toBe(304);
    // a 304 says what the 200 would have said (RFC 9110, section 15.4.5)
    expect(Object.keys(same.headers).toSorted()).toEqual(['cache-control', 'etag', 'expires', 'vary']);
    expect(same.headers).toMatchObject({
      etag: tag,
      vary: 'Authorization, Accept-Encoding',
      'cache-control': 'max-age=60, stale-if-error=86400',
    });
  });

  it('of what is up to date, or nearly, makes known how much it was', async () => {
    const { environment, poll } = await setUp();
    const { digest, clock } = environment.data.snapshot();
    const basis = `?basis=${formatPosition({ digest, clock, view: 'all' })}`;
    const facts: object[] = [];
    const stop = caughtUp.listen(({ changes }) => facts.push({ changes }));
    await poll(OBJECTS_POLL, {}, basis);
    await environment.data.apply([put(flag('new', 1)), put(flag('newer', 1))]);
    await poll(OBJECTS_POLL, {}, basis);
    stop();
    expect(facts).toEqual([{ changes: 0 }, { changes: 2 }]);
  });
});

describe('one item', () => {
  // Fails when the tag is the version alone: a file's versions start over with the process, with another text.
  it('has the tag of its version and text', async () => {
    const { environment } = await setUp();
    const ask = (kind: string, key: string, headers = {}): FakeExchange => {
      const exchange = new FakeExchange('/item', headers);
      answerItem(exchange, environment, kind, key);
      return exchange;
    };
    expect(ask('segments', 's')).toMatchObject({
      status: 200,
      text: segment('s', 1).text,
      headers: { etag: expect.stringMatching(/^relay-1-[0-9a-z]+$/) },
    });
    const tag = ask('segments', 's').headers['etag'] ?? '';
    expect(ask('segments', 's', { 'if-none-match': tag })).toMatchObject({ status: 304, text: '' });
    expect(ask('flags', 's')).toMatchObject({ status: 404, text: '' });
    await environment.data.apply([put(segment('s', 2))]);
    expect(ask('segments', 's', { 'if-none-match': tag }).status).toBe(200);
    const sameVersion = { ...segment('s', 2), text: segment('s', 2).text.replace('}', ',"x":1}') };
    const tagBefore = ask('segments', 's').headers['etag'];
    await environment.data.apply([put(sameVersion)]);
    expect(ask('segments', 's').headers['etag']).not.toBe(tagBefore);
  });
});
