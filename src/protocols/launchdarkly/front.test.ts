import { afterEach, describe, expect, it, vi } from 'vitest';
import { FakeExchange, fakeFront } from '../../../test/support/flags-fakes.ts';
import { flag, infoOf } from '../../../test/support/flags-items.ts';
import { FakeClock } from '../../kernel/index.ts';
import { FlagsFront } from './front.ts';

afterEach(() => {
  vi.useRealTimers();
});

/** Asks the route whose path fits. */
async function ask(front: FlagsFront, target: string, authorization = 'sdk-test'): Promise<FakeExchange> {
  const exchange = new FakeExchange(target, { authorization });
  const route = front.routes().find(({ path }) => path === exchange.path) ?? keyed(front, exchange.path);
  await route.handle(exchange, { key: exchange.path.split('/').at(-1) ?? '' });
  return exchange;
}

function keyed(front: FlagsFront, path: string): ReturnType<FlagsFront['routes']>[number] {
  const route = front.routes().find((one) => one.path.endsWith('/:key') && path.startsWith(one.path.slice(0, -4)));
  if (route === undefined) throw new Error(`Cannot find a route: got ${path}`);
  return route;
}

async function start(): Promise<FlagsFront> {
  const front = new FlagsFront(fakeFront());
  await front.load(infoOf('test'), [flag('a', 1)], 'source');
  front.environmentsKnown();
  return front;
}

describe('who asks', () => {
  it('is known by any of its keys, as long as the key lasts', async () => {
    vi.useFakeTimers({ now: 1000, toFake: ['Date'] });
    const front = await start();
    front.upsert(infoOf('test', { sdkKeys: [{ value: 'sdk-new' }, { value: 'sdk-old', expiresMs: 2000 }] }));
    front.environmentsKnown();
    const statuses = async (): Promise<number[]> => {
      const keys = ['sdk-new', 'sdk-old', 'sdk-test', 'api_key sdk-new'];
      return (await Promise.all(keys.map((key) => ask(front, '/sdk/flags/a', key)))).map(({ status }) => status);
    };
    expect(await statuses()).toEqual([200, 200, 401, 200]);
    vi.setSystemTime(2000);
    expect(await statuses()).toEqual([200, 401, 401, 200]);
  });

  it('is asked to wait while environments may still come, and refused once they are known', async () => {
    const front = new FlagsFront(fakeFront());
    expect((await ask(front, '/sdk/flags')).status).toBe(503);
    expect((await ask(front, '/sdk/flags', '')).status).toBe(401);
    await front.load(infoOf('test'), [], 'source');
    expect((await ask(front, '/sdk/flags')).status).toBe(200);
    expect((await ask(front, '/sdk/flags', 'sdk-other')).status).toBe(503);
    front.environmentsKnown();
    expect((await ask(front, '/sdk/flags', 'sdk-other')).status).toBe(401);
  });

  it('is told of a filter only with a credential that is known', async () => {
    const front = await start();
    expect((await ask(front, '/all?filter=x')).status).toBe(404);
    expect((await ask(front, '/all?filter=x', 'sdk-other')).status).toBe(401);
  });

  it('is not let in any more when its environment is gone', async () => {
    const front = await start();
    front.remove('test');
    front.remove('never-there');
    // perhaps its key comes back with another environment that the source is about to tell: 401 would stop SDKs for good
    expect((await ask(front, '/sdk/flags')).status).toBe(503);
    front.environmentsKnown();
    expect((await ask(front, '/sdk/flags')).status).toBe(401);
    expect(front.environments()).toEqual([]);
  });
});

describe('a stream', () => {
  // Fails when environmentsKnown() does not end what is revoked, or #awaitExpiry() is not called.
  it('ends with its key: when the key goes to another environment, and when it expires', async () => {
    vi.useFakeTimers({ now: 1000, toFake: ['Date'] });
    const clock = new FakeClock();
    const front = new FlagsFront({ ...fakeFront(), clock });
    const item = [{ kind: 'flags', key: 'a', version: 1, text: '{"key":"a","version":1}' }];
    const keys = [{ value: 'sdk-kept' }, { value: 'sdk-moved' }, { value: 'sdk-expiring', expiresMs: 3000 }];
    await front.load(infoOf('one', { sdkKeys: keys }), item, 'source');
    front.environmentsKnown();
    const streams = await Promise.all(keys.map(({ value }) => ask(front, '/all', value)));
    const ended = (): readonly boolean[] => streams.map(({ channel }) => channel.over === 'ended');
    expect(ended()).toEqual([false, false, false]);

    front.upsert(infoOf('one', { sdkKeys: [{ value: 'sdk-kept' }, { value: 'sdk-expiring', expiresMs: 3000 }] }));
    expect(ended()).toEqual([false, false, false]);
    await front.load(infoOf('two', { sdkKeys: [{ value: 'sdk-moved' }] }), item, 'source');
    front.environmentsKnown();
    expect(ended()).toEqual([false, true, false]);

    vi.setSystemTime(3000);
    clock.advance(2000);
    expect(ended()).toEqual([false, true, true]);
    front.remove('one');
    front.remove('two');
  });
});

describe('being ready', () => {
  it('takes the list of environments, and data in each', async () => {
    const front = new FlagsFront(fakeFront());
    await front.load(infoOf('a'), [], 'source');
    expect(front.ready).toBe(false);
    front.environmentsKnown();
    expect(front.ready).toBe(true);
    front.leave();
    expect(front.ready).toBe(false);
  });

  it('is not lost when an environment is added later: its data come in a moment, and all others have theirs', async () => {
    // fails when `every` is asked again once it was so
    const front = new FlagsFront(fakeFront());
    await front.load(infoOf('a'), [], 'source');
    front.environmentsKnown();
    expect(front.ready).toBe(true);
    front.upsert(infoOf('b'));
    expect(front.ready).toBe(true);
  });

  it('is waited for no longer than told, and then takes some data at least', async () => {
    const front = new FlagsFront(fakeFront());
    front.upsert(infoOf('a'));
    front.upsert(infoOf('b'));
    front.environmentsKnown();
    front.waitNoLonger();
    expect(front.ready).toBe(false);
    await front.load(infoOf('b'), [], 'source');
    expect(front.ready).toBe(true);
  });
});

describe('bytes that only deliveries keep alive', () => {
  it('are those of every environment', async () => {
    const front = await start();
    await front.load(infoOf('other'), [flag('b', 1, 1000)], 'source');
    const pins = front.environments().map(({ data }) => data.pin());
    expect(front.pinnedBytes).toBe(0);
    await front.load(infoOf('test'), [flag('a', 2)], 'source');
    const one = front.pinnedBytes;
    await front.load(infoOf('other'), [flag('b', 2)], 'source');
    expect(front.pinnedBytes).toBeGreaterThan(one + 1000);
    for (const pin of pins) pin.release();
    expect(front.pinnedBytes).toBe(0);
  });
});

describe('a source that fails in the middle', () => {
  it('leaves everything as it was, and no environment with half of its data', async () => {
    const front = await start();
    function* broken(): Iterable<ReturnType<typeof flag>> {
      yield flag('a', 9);
      throw new Error('the file ends here');
    }
    await expect(front.load(infoOf('test'), broken(), 'source')).rejects.toThrow('the file ends here');
    await expect(front.load(infoOf('new'), broken(), 'source')).rejects.toThrow('the file ends here');
    expect(JSON.parse((await ask(front, '/sdk/flags/a')).text)).toMatchObject({ version: 1 });
    expect(front.environments().map(({ data }) => data.ready)).toEqual([true, false]);
  });
});
