import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { turns, until } from '../../test/support/conditions.ts';
import { postOf, startForwarder } from '../../test/support/events-kit.ts';
import { type EventForwarder, type EventTally, failed, stopped } from './index.ts';

const custom = (key: string): object => ({ kind: 'custom', creationDate: 1, key });
const held = (forwarder: EventForwarder) => forwarder.stats().environments['env'];
const tally = (payloads: number, events: number): Partial<EventTally> => ({ payloads, events });

/** Lets what was accepted be read: nothing of it waits for the clock. */
async function read(forwarder: EventForwarder, events: number): Promise<void> {
  await until(`${events} events`, () => forwarder.stats().heldEvents === events);
}

describe('events of newer SDKs', () => {
  it('go on as they are, those with the same headers together, when the interval is over', async () => {
    const { clock, upstream, forwarder } = startForwarder();
    const tagged = { 'x-launchdarkly-event-schema': '4', 'x-launchdarkly-tags': 'application-id/x' };
    forwarder.accept(postOf(' [ {"kind":"custom", "n":1e2} , {"a":[]} ] '));
    forwarder.accept(postOf([custom('b')]));
    forwarder.accept(postOf([custom('c')], { headers: tagged }));
    forwarder.accept(postOf([custom('d')], { headers: { 'x-launchdarkly-event-schema': '3' } }));
    forwarder.accept(postOf([]));
    await read(forwarder, 5);
    clock.advance(4999);
    await turns(5);
    expect(upstream.posts).toEqual([]);
    clock.advance(1);
    await upstream.until('three posts', () => upstream.posts.length === 3);
    const byHeaders = Object.fromEntries(
      upstream.posts.map(({ headers, text }) => [
        `${headers['x-launchdarkly-event-schema']} ${headers['x-launchdarkly-tags']}`,
        text,
      ]),
    );
    expect(byHeaders).toEqual({
      '4 undefined': '[{"kind":"custom", "n":1e2} , {"a":[]},{"kind":"custom","creationDate":1,"key":"b"}]',
      '4 application-id/x': JSON.stringify([custom('c')]),
      '3 undefined': JSON.stringify([custom('d')]),
    });
    const ids = upstream.posts.map(({ headers }) => headers['x-launchdarkly-payload-id']);
    expect(new Set(ids).size).toBe(3);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    await until('nothing held', () => forwarder.stats().heldBytes === 0);
    expect(held(forwarder)).toMatchObject({ received: tally(5, 5), sent: tally(3, 5) });
    expect(clock.armed).toBe(0);
  });

  it('of several environments and audiences go apart, and browsers have no key', async () => {
    const { upstream, forwarder } = startForwarder();
    forwarder.accept(postOf([custom('a')]));
    forwarder.accept(postOf([custom('b')], { environmentId: 'other', sdkKey: 'sdk-2' }));
    forwarder.accept(postOf([custom('c')], { audience: 'mobile', sdkKey: 'mob-1', path: '/mobile' }));
    forwarder.accept(postOf([custom('d')], { audience: 'client', sdkKey: 'id-1', path: '/events/bulk/id-1' }));
    await forwarder.flush();
    const sent = upstream.posts.map(({ path, headers, events }) => [
      path,
      headers['authorization'],
      events[0]?.['key'],
    ]);
    expect(sent.toSorted(([, , one], [, , other]) => (String(one) < String(other) ? -1 : 1))).toEqual([
      ['/bulk', 'sdk-1', 'a'],
      ['/bulk', 'sdk-2', 'b'],
      ['/mobile', 'mob-1', 'c'],
      ['/events/bulk/id-1', undefined, 'd'],
    ]);
  });

  it('are dropped when they are no array, and cost the others nothing', async () => {
    const { upstream, forwarder } = startForwarder();
    for (const body of ['{"kind":"custom"}', '[{"kind":}]', 'nonsense', '[1,2', '[{},]']) {
      expect(forwarder.accept(postOf(body))).toBe('accepted');
    }
    forwarder.accept(postOf([custom('good')]));
    await forwarder.flush();
    expect(upstream.posts.map(({ events }) => events)).toEqual([[custom('good')]]);
    expect(held(forwarder)?.dropped.invalid).toMatchObject(tally(5, 0));
    expect(forwarder.stats().heldBytes).toBe(0);
  });

  it('go at once when there are as many as may wait', async () => {
    const { upstream, forwarder } = startForwarder({ capacity: 3 });
    forwarder.accept(postOf([custom('a'), custom('b')]));
    await read(forwarder, 2);
    expect(upstream.posts).toEqual([]);
    forwarder.accept(postOf([custom('c'), custom('d'), custom('e')]));
    await upstream.until('a post', () => upstream.posts.length === 1);
    expect(upstream.posts[0]?.events).toEqual([custom('a'), custom('b'), custom('c')]);
    expect(held(forwarder)?.dropped.full).toMatchObject(tally(0, 2));
  });
});

describe('an events service that is slow or gone', () => {
  it('costs events, but neither time nor memory', async () => {
    const { upstream, forwarder } = startForwarder({ capacity: 10, bytesMax: 100_000 });
    upstream.usual = 'waits';
    const ten = Array.from({ length: 10 }, (_, at) => custom(String(at)));
    let accepted = 0;
    for (let post = 0; post < 300; post++) {
      if (forwarder.accept(postOf(ten)) === 'accepted') accepted++;
      if (post % 10 === 0) await turns(3);
      expect(forwarder.stats().heldBytes).toBeLessThanOrEqual(100_000);
      expect(forwarder.stats().heldEvents).toBeLessThanOrEqual(10);
    }
    await until('everything to be read', () => held(forwarder)?.received.events === 10 * accepted);
    await upstream.until('four posts', () => upstream.waiting === 4);
    expect(forwarder.stats().heldEvents).toBe(10);
    expect(accepted).toBeGreaterThan(50);
    const before = held(forwarder);
    expect((before?.dropped.full.events ?? 0) + 50 + 10 * (before?.dropped.full.payloads ?? 0)).toBe(3000);
    upstream.usual = 202;
    upstream.release();
    await forwarder.flush();
    expect(held(forwarder)?.sent).toMatchObject(tally(5, 50));
    expect(forwarder.stats()).toMatchObject({ heldBytes: 0, heldEvents: 0, posting: 0 });
  });

  it('leaves one environment no more than half of the room', async () => {
    const { upstream, forwarder } = startForwarder({ bytesMax: 20_000, capacity: 1_000_000 });
    upstream.usual = 'waits';
    const noise = (environmentId: string): string =>
      forwarder.accept(postOf([randomBytes(1500).toString('hex')], { environmentId }));
    expect([noise('loud'), noise('loud'), noise('loud'), noise('loud')]).toEqual([
      'accepted',
      'accepted',
      'accepted',
      'dropped',
    ]);
    expect(noise('quiet')).toBe('accepted');
  });

  it('leaves all environments together no more than all of the room', () => {
    const { upstream, forwarder } = startForwarder({ bytesMax: 20_000 });
    upstream.usual = 'waits';
    const answers = Array.from({ length: 20 }, (_, at) =>
      forwarder.accept(postOf([randomBytes(1500).toString('hex')], { environmentId: `env-${at}` })),
    );
    expect(answers.filter((answer) => answer === 'accepted').length).toBe(6);
    expect(forwarder.stats().heldBytes).toBeLessThanOrEqual(20_000);
  });

  it('is asked again after 1 s, then with a growing wait, five times, always with the same payload', async () => {
    const { clock, upstream, forwarder } = startForwarder();
    upstream.answers.push('fails', 503, 429, 500, 'fails', 202);
    const fates: unknown[] = [];
    const stop = failed.listen(({ tries, cause, status, final }) => fates.push([tries, cause, status, final]));
    forwarder.accept(postOf([custom('a')]));
    const flushed = forwarder.flush();
    const waits = [1000, 2000, 4000, 8000];
    for (const [at, waitMs] of waits.entries()) {
      await upstream.until('a try', () => upstream.posts.length === at + 1);
      await until('a wait', () => fates.length === at + 1);
      await turns(2);
      clock.advance(waitMs - 1);
      await turns(3);
      expect(upstream.posts.length).toBe(at + 1);
      clock.advance(1);
    }
    await flushed;
    stop();
    expect(fates).toEqual([
      [1, 'network', undefined, false],
      [2, 'status', 503, false],
      [3, 'status', 429, false],
      [4, 'status', 500, false],
      [5, 'network', undefined, true],
    ]);
    expect(new Set(upstream.posts.map(({ headers, text }) => headers['x-launchdarkly-payload-id'] + text)).size).toBe(
      1,
    );
    expect(held(forwarder)).toMatchObject({ failed: { network: tally(1, 1), status: tally(0, 0) }, sent: tally(0, 0) });
    expect(forwarder.stats().heldBytes).toBe(0);
  });

  it('may say when to come back', async () => {
    const { clock, upstream, forwarder } = startForwarder();
    upstream.answers.push(429);
    upstream.replyHeaders = { 'retry-after': '7' };
    forwarder.accept(postOf([custom('a')]));
    const flushed = forwarder.flush();
    await upstream.until('a try', () => upstream.posts.length === 1);
    await turns(3);
    clock.advance(6999);
    await turns(3);
    expect(upstream.posts.length).toBe(1);
    clock.advance(1);
    await flushed;
    expect(held(forwarder)?.sent).toMatchObject(tally(1, 1));
  });

  it.each([
    [400, 2],
    [405, 1],
    [413, 1],
    [302, 1],
  ])('that answers %i is asked %i times, and goes on getting what comes', async (status, tries) => {
    const { clock, upstream, forwarder } = startForwarder();
    upstream.answers.push(status, status);
    forwarder.accept(postOf([custom('a')]));
    const flushed = forwarder.flush();
    await upstream.until('a try', () => upstream.posts.length === 1);
    await turns(3);
    clock.advance(1000);
    await flushed;
    expect(upstream.posts.length).toBe(tries);
    expect(held(forwarder)?.failed.status).toMatchObject(tally(1, 1));
    upstream.answers.length = 0;
    expect(forwarder.accept(postOf([custom('b')]))).toBe('accepted');
    await forwarder.flush();
    expect(held(forwarder)?.sent).toMatchObject(tally(1, 1));
  });
});

describe('many environments', () => {
  const all = Array.from({ length: 40 }, (_, at) => ({ environmentId: `env-${at}`, sdkKey: `sdk-${at}` }));

  it('share a bounded number of requests', async () => {
    const { upstream, forwarder } = startForwarder();
    upstream.usual = 'waits';
    for (const from of all) forwarder.accept(postOf([custom('a')], from));
    const flushed = forwarder.flush();
    await upstream.until('requests', () => upstream.waiting === 32);
    await turns(20);
    expect(upstream.waiting).toBe(32);
    upstream.usual = 202;
    upstream.release();
    await flushed;
    expect(upstream.posts.length).toBe(40);
  });

  // Fails when a place is kept while its holder waits to try again.
  it('do not wait for those whose requests failed', async () => {
    const { upstream, forwarder } = startForwarder();
    upstream.usual = 503;
    for (const from of all) forwarder.accept(postOf([custom('a')], from));
    void forwarder.flush();
    await upstream.until('everybody to have tried', () => upstream.posts.length === 40);
    expect(new Set(upstream.posts.map(({ headers }) => headers['authorization'])).size).toBe(40);
  });
});

describe('a key that upstream refuses', () => {
  it.each([401, 403, 404])('with %i is not used any more, until there is another', async (status) => {
    const { upstream, forwarder } = startForwarder({ capacity: 2 });
    const stops: unknown[] = [];
    const stop = stopped.listen(({ environment, status: said }) => stops.push([environment, said]));
    upstream.answers.push(status);
    forwarder.accept(postOf([custom('a')]));
    await forwarder.flush();
    expect(forwarder.accept(postOf([custom('b')]))).toBe('dropped');
    expect(forwarder.accept(postOf([custom('c')], { audience: 'mobile', sdkKey: 'mob-1' }))).toBe('accepted');
    expect(forwarder.accept(postOf([custom('d')], { sdkKey: 'sdk-2' }))).toBe('accepted');
    await forwarder.flush();
    stop();
    expect(stops).toEqual([['env', status]]);
    // phones have a lane of their own, beside which nobody waits
    const keys = upstream.posts.map(({ headers }) => String(headers['authorization']));
    expect(keys[0]).toBe('sdk-1');
    expect(new Set(keys)).toEqual(new Set(['sdk-1', 'sdk-2', 'mob-1']));
    expect(held(forwarder)).toMatchObject({ failed: { refused: tally(1, 1) }, dropped: { refused: tally(1, 0) } });
    expect(forwarder.stats().heldBytes).toBe(0);
  });

  it('takes along what waits for its flush, or for another try', async () => {
    const { clock, upstream, forwarder } = startForwarder({ capacity: 1 });
    upstream.answers.push(503, 401);
    forwarder.accept(postOf([custom('a')]));
    await upstream.until('a try', () => upstream.posts.length === 1);
    forwarder.accept(postOf([custom('b')]));
    await upstream.until('another', () => upstream.posts.length === 2);
    await turns(3);
    clock.advance(1000);
    await forwarder.flush();
    expect(upstream.posts.length).toBe(2);
    expect(held(forwarder)?.failed.refused).toMatchObject(tally(2, 2));
  });

  it('that was replaced is not used for what waited', async () => {
    const { upstream, forwarder } = startForwarder();
    forwarder.accept(postOf([custom('a')]));
    forwarder.accept(postOf([custom('b')], { sdkKey: 'sdk-2' }));
    await forwarder.flush();
    expect(upstream.posts.map(({ headers, events }) => [headers['authorization'], events.length])).toEqual([
      ['sdk-2', 2],
    ]);
  });
});

describe('diagnostic events', () => {
  const headers = { accept: '*/*', 'user-agent': 'curl/7.88.1' };
  const diagnostic = (kind: string) => postOf({ kind }, { what: 'diagnostic', path: '/diagnostic', headers });

  it('go one by one, at once, with the headers of their caller', async () => {
    const { upstream, forwarder } = startForwarder();
    forwarder.accept(diagnostic('diagnostic-init'));
    forwarder.accept(diagnostic('diagnostic'));
    await upstream.until('both', () => upstream.posts.length === 2);
    // each on its own, so that neither waits for the other
    expect(upstream.posts.map(({ text }) => text).toSorted()).toEqual([
      '{"kind":"diagnostic"}',
      '{"kind":"diagnostic-init"}',
    ]);
    for (const post of upstream.posts) {
      expect(post).toMatchObject({
        path: '/diagnostic',
        headers: { ...headers, authorization: 'sdk-1', 'content-encoding': 'gzip', 'content-type': 'application/json' },
      });
    }
    await forwarder.flush();
    expect(forwarder.stats().heldBytes).toBe(0);
  });

  it('are tried twice, stop nothing, and are dropped when too many are on their way', async () => {
    const { clock, upstream, forwarder } = startForwarder();
    upstream.answers.push(503, 503, 404);
    forwarder.accept(diagnostic('a'));
    await upstream.until('a try', () => upstream.posts.length === 1);
    await turns(3);
    clock.advance(1000);
    await forwarder.flush();
    expect(upstream.posts.length).toBe(2);
    forwarder.accept(diagnostic('b'));
    await forwarder.flush();
    expect(held(forwarder)?.failed).toMatchObject({ status: tally(1, 1), refused: tally(1, 1) });
    upstream.usual = 'waits';
    const taken = Array.from({ length: 20 }, () => forwarder.accept(diagnostic('c')));
    expect(taken.filter((one) => one === 'accepted').length).toBe(16);
    expect(forwarder.accept(postOf([custom('a')]))).toBe('accepted');
  });
});

describe('the end', () => {
  it('sends what is held, and takes no more', async () => {
    const { upstream, forwarder } = startForwarder();
    forwarder.accept(postOf([custom('a')]));
    await forwarder.close(1000);
    expect(upstream.posts[0]?.events).toEqual([custom('a')]);
    expect(forwarder.accept(postOf([custom('b')]))).toBe('dropped');
    expect(held(forwarder)).toMatchObject({ sent: tally(1, 1), dropped: { closed: tally(1, 0) } });
  });

  it('waits no longer than it may, and counts what is lost', async () => {
    const { clock, upstream, forwarder } = startForwarder({ capacity: 1 });
    upstream.usual = 'waits';
    for (let post = 1; post <= 5; post++) {
      forwarder.accept(postOf([custom('a')]));
      await until('a post on its way, or behind four', () => {
        return forwarder.stats().heldEvents + upstream.waiting === post;
      });
    }
    const closed = forwarder.close(1000);
    await turns(5);
    clock.advance(1000);
    await closed;
    expect(held(forwarder)).toMatchObject({ failed: { network: tally(4, 4) }, dropped: { closed: tally(0, 1) } });
    expect(forwarder.stats()).toMatchObject({ heldBytes: 0, heldEvents: 0, posting: 0 });
    expect(clock.armed).toBe(0);
  });

  it('does not wait for the next try of what failed', async () => {
    const { clock, upstream, forwarder } = startForwarder();
    upstream.usual = 'fails';
    forwarder.accept(postOf([custom('a')]));
    const closed = forwarder.close(500);
    await upstream.until('a try', () => upstream.posts.length === 1);
    await turns(3);
    clock.advance(500);
    await closed;
    expect(held(forwarder)?.failed.network).toMatchObject(tally(1, 1));
  });
});

it('an environment that is forgotten leaves nothing behind', async () => {
  const { upstream, forwarder } = startForwarder();
  forwarder.accept(postOf([custom('a')]));
  await read(forwarder, 1);
  // this one is not read yet
  forwarder.accept(postOf([custom('b')]));
  forwarder.forget('env');
  await forwarder.flush();
  expect(upstream.posts).toEqual([]);
  expect(forwarder.stats()).toMatchObject({ heldBytes: 0, heldEvents: 0, posting: 0 });
});

it('a batch is not larger than the events service takes, and one large post goes alone', async () => {
  const { upstream, forwarder } = startForwarder({ bytesMax: 100_000_000 });
  const large = (key: string, length: number): object => ({ kind: 'custom', key, data: 'x'.repeat(length) });
  for (const [key, length] of [
    ['a', 3e6],
    ['b', 3e6],
    ['c', 5e6],
    ['d', 10],
  ] as const) {
    forwarder.accept(postOf([large(key, length)]));
  }
  await forwarder.flush();
  expect(upstream.posts.map(({ events }) => events.map(({ key }) => key).join()).toSorted()).toEqual([
    'a',
    'b',
    'c',
    'd',
  ]);
});

it('many different headers cannot make any number of requests', async () => {
  const { upstream, forwarder } = startForwarder();
  for (let tag = 0; tag < 100; tag++) {
    const headers = { 'x-launchdarkly-event-schema': '4', 'x-launchdarkly-tags': `application-id/${tag}` };
    forwarder.accept(postOf([custom('a')], { headers }));
  }
  await forwarder.flush();
  expect(upstream.posts.length).toBe(64);
  expect(held(forwarder)?.dropped.full).toMatchObject(tally(0, 36));
});
