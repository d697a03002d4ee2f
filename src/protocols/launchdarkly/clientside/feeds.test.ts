import { afterEach, describe, expect, it } from 'vitest';
import { CLIENT_INFO, valued } from '../../../../test/support/clientside-rig.ts';
import { fakeFront } from '../../../../test/support/flags-fakes.ts';
import { gone, put } from '../../../../test/support/flags-items.ts';
import { Environment } from '../environment.ts';
import type { ClientSideOptions } from './deps.ts';
import { ClientFeeds } from './feeds.ts';

let environment: Environment | undefined;
afterEach(() => environment?.close());

/** One environment that holds the flag `a`, with a log of so many batches, and who follows it. */
async function setUp(logBatchesMax = 100): Promise<{ feeds: ClientFeeds; data: Environment['data'] }> {
  const front = fakeFront();
  environment = new Environment(CLIENT_INFO, { ...front, logBatchesMax }, { refresh() {}, catchUp() {} });
  await environment.load([valued('a', 1, { value: 'one' })], 'source');
  const options = { front, pingJitterMs: 0 } as ClientSideOptions;
  return { feeds: new ClientFeeds(environment, options, () => {}), data: environment.data };
}

const FLAG = { version: 1, fields: '"value":1', versionAt: 9, extra: '' };

describe('which flags a client may have', () => {
  it('includes those that came after what was evaluated', async () => {
    const { feeds, data } = await setUp();
    const { offset, digest, clock } = data.snapshot();
    await data.apply([put(valued('late', 1, { value: 'x' }))]);
    const evaluated = { offset, digest, clock, bigSegmentsRevision: '', absent: [] };
    feeds.evaluated('client', { ...evaluated, flags: [{ key: 'a', ...FLAG }] }, 100);
    const { visible } = feeds.of('client');
    const held = data.snapshot().offset;
    await data.apply([gone('flags', 'late', 2)]);
    expect([visible.isKnown, visible.mayBeKnown('late', held), visible.mayBeKnown('never', held)]).toEqual([
      true,
      true,
      false,
    ]);
  });

  it('is not known from what was evaluated so long ago that the log does not reach back', async () => {
    const { feeds, data } = await setUp(2);
    const { offset, digest, clock } = data.snapshot();
    for (let version = 1; version <= 8; version++) await data.apply([put(valued('late', version, { value: 'x' }))]);
    expect(data.log.first).toBeGreaterThan(offset);
    const evaluated = { offset, digest, clock, bigSegmentsRevision: '', absent: [] };
    feeds.evaluated('client', { ...evaluated, flags: [{ key: 'a', ...FLAG }] }, 100);
    const { visible } = feeds.of('client');
    expect([visible.isKnown, visible.mayBeKnown('late', data.snapshot().offset)]).toEqual([false, true]);
  });
});
