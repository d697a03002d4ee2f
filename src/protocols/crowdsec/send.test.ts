import { expect, it } from 'vitest';
import { BouncerExchange } from '../../../test/support/decisions-fakes.ts';
import { Limiter } from '../../admission/index.ts';
import type { Copy } from '../../dataset/decisions/index.ts';
import { Deliveries, Stages } from '../../delivery/index.ts';
import { FakeClock } from '../../kernel/index.ts';
import { sendCharged } from './send.ts';

const PINNED_MAX = 1000;

// Fails when sendCharged does not tell the limiter: it looked when the slot was freed, and the pages were pinned then.
it('who waits for pinned bytes is admitted when a copy lets its pages go', async () => {
  const clock = new FakeClock();
  let pinned = 0;
  const limiter = new Limiter({
    name: 'copies',
    maxConcurrent: 3,
    maxQueued: 1,
    waitMsMax: 2000,
    maxPinnedBytes: PINNED_MAX,
    pinnedBytes: () => pinned,
    earlyShed: false,
    clock,
  });
  const first = await limiter.acquire();
  if (!first.admitted) throw new Error(first.reason);
  // alone, nobody would have to wait for bytes
  expect((await limiter.acquire()).admitted).toBe(true);
  pinned = PINNED_MAX + 1;
  const waiting = limiter.acquire();
  const copy: Copy = {
    offset: 1,
    added: 0,
    deleted: 0,
    bytes: 0,
    payload: () => ({ bytes: 0, next: () => undefined, release: () => {} }),
    release: () => void (pinned = 0),
  };
  const fact = { bouncer: 'one', agent: 'test', route: '/', remoteAddress: '192.0.2.1' };
  await sendCharged(
    { limiter, deliveries: new Deliveries(), guarded: false, parking: false },
    {
      exchange: new BouncerExchange('/'),
      copy,
      slot: first.slot,
      what: 'full',
      contentType: 'application/json',
      fact: () => fact,
      stages: new Stages(clock),
    },
  );
  expect(limiter.held).toBe(2);
  clock.advance(2000);
  expect((await waiting).admitted).toBe(true);
});
