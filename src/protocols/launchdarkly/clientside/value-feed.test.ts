import { describe, expect, it } from 'vitest';
import { CLIENT_INFO } from '../../../../test/support/clientside-rig.ts';
import { fakeFront, KeptChannel } from '../../../../test/support/flags-fakes.ts';
import { FakeClock } from '../../../kernel/index.ts';
import { Environment } from '../environment.ts';
import { quirksOf } from '../quirks.ts';
import { FingerprintIndex, Fingerprints } from './fingerprints.ts';
import { Turns } from './turns.ts';
import { ValueFeed, type ValueStream } from './value-feed.ts';

/** Counts how often it was ended: what is written behind an end would be a reset. */
class CountedChannel extends KeptChannel {
  ends = 0;

  override end(): void {
    this.ends++;
  }
}

function setUp(index: FingerprintIndex = new FingerprintIndex(0)): {
  feed: ValueFeed;
  stream: ValueStream;
  channel: CountedChannel;
} {
  const channel = new CountedChannel();
  const options = { clock: new FakeClock(), heartbeatMs: 0, logBatchesMax: 1, logBytesMax: 1, onPinnedDropped() {} };
  const environment = new Environment(CLIENT_INFO, options, { refresh() {}, catchUp() {} });
  environment.close();
  const stream: ValueStream = {
    environment,
    audience: 'client',
    credential: undefined,
    route: '/sdk/stream/eval',
    info: { remoteAddress: '192.0.2.1', quirks: quirksOf(undefined) },
    channel,
    openedMs: 0,
    question: { context: '{}', withReasons: false, name: 'x' },
    prints: new Fingerprints(index),
    cursor: 0,
    revision: '',
    running: true,
    resting: false,
    over: false,
  };
  const feed = new ValueFeed(fakeFront(), new Turns(1), () => {});
  feed.opened(stream);
  return { feed, stream, channel };
}

describe('a stream that is to end', () => {
  it('between its head and its first data ends there, and is not left open without a word', () => {
    const { feed, stream, channel } = setUp();
    feed.end(stream);
    expect([channel.ends, feed.take(stream)]).toEqual([0, false]);
    expect(channel.ends).toBe(1);
  });

  it('is ended once, whoever wants to send to it afterwards', () => {
    const { feed, stream, channel } = setUp();
    feed.rest(stream);
    feed.end(stream);
    expect([channel.ends, feed.take(stream), feed.take(stream)]).toEqual([1, false, false]);
    expect(channel.ends).toBe(1);
  });

  it('while it is sent to ends behind what it is sent', () => {
    const { feed, stream, channel } = setUp();
    expect(feed.take(stream)).toBe(true);
    feed.end(stream);
    expect(channel.ends).toBe(0);
    feed.rest(stream);
    expect(channel.ends).toBe(1);
  });
});

it('a stream whose client leaves gives the memory back in which it was known what it has', () => {
  const index = new FingerprintIndex(8);
  const { stream, channel } = setUp(index);
  stream.prints.replace([{ key: 'a', version: 1, fields: '"value":1', versionAt: 9, extra: '' }]);
  expect(index.take(8)).toBe(false);
  channel.leave();
  expect(index.take(8)).toBe(true);
});
