import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { KeptChannel } from '../../../test/support/flags-fakes.ts';
import { FakeClock } from '../../kernel/index.ts';
import { CompressedStream } from './compressed.ts';
import { Environment, type StreamClient } from './environment.ts';
import { quirksOf } from './quirks.ts';

// Fails when Environment.wait() does not send the header: heartbeats, or a trailer, would come before it.
it('a compressed stream that waits for its first data is one member: heartbeats first, then its end', async () => {
  const clock = new FakeClock();
  const options = { clock, heartbeatMs: 1000, logBatchesMax: 10, logBytesMax: 1e6, onPinnedDropped: () => {} };
  const info = { id: 'test', name: 'test', sdkKeys: [{ value: 'sdk-test' }], ttlMs: 0 };
  const environment = new Environment(info, options, { refresh: () => {}, catchUp: () => {} });
  const channel = new KeptChannel();
  const client: StreamClient = {
    environment,
    feed: environment.all,
    route: '/all',
    info: { remoteAddress: '', quirks: quirksOf('GoClient/7') },
    channel,
    credential: 'sdk-test',
    openedMs: 0,
    compressed: new CompressedStream(),
    live: undefined,
  };
  environment.wait(client, true);
  clock.advance(1000);
  await new Promise((resolve) => setImmediate(resolve));
  clock.advance(1000);
  await new Promise((resolve) => setImmediate(resolve));
  environment.close();
  await new Promise((resolve) => setImmediate(resolve));
  expect(gunzipSync(Buffer.concat(channel.pieces)).toString()).toBe(':\n:\n');
  expect(channel.over).toBe('ended');
});
