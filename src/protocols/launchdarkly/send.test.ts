import { describe, expect, it } from 'vitest';
import { turns } from '../../../test/support/conditions.ts';
import { fakeFront, KeptChannel } from '../../../test/support/flags-fakes.ts';
import type { Slot } from '../../admission/index.ts';
import type { FakeClock } from '../../kernel/index.ts';
import { bytesSource } from './catch-up.ts';
import type { FrontOptions } from './deps.ts';
import { delivered } from './facts.ts';
import { sendCharged } from './send.ts';

const FACT = { environment: 'test', route: '/all', sdk: 'GoClient', remoteAddress: '192.0.2.1' };

function send(front: FrontOptions, channel: KeptChannel): { slot: Slot; report: ReturnType<typeof sendCharged> } {
  const answer = front.limiter.tryAcquire();
  if (!answer.admitted) throw new Error('Cannot take a slot');
  const { slot } = answer;
  const source = bytesSource(Buffer.alloc(1000));
  return {
    slot,
    report: sendCharged(front, { channel, source, slot, what: 'full', encoding: 'identity', fact: () => FACT }),
  };
}

/** Lets time pass as the sweeps of deliveries see it. */
async function pass(front: FrontOptions, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 250) {
    (front.clock as FakeClock).advance(250);
    await turns(3);
  }
}

describe('a charged delivery', () => {
  it('holds its slot until its last byte was taken, and says how it ended', async () => {
    const front = fakeFront();
    const channel = new KeptChannel();
    channel.takes = false;
    const facts: object[] = [];
    const stop = delivered.listen((fact) => facts.push(fact));
    const { slot, report } = send(front, channel);
    await turns(5);
    expect(slot.state).toBe('held');
    expect(facts).toEqual([]);
    channel.take();
    expect(await report).toMatchObject({ outcome: 'completed', bytes: 1000 });
    expect(slot.state).toBe('released');
    expect(facts).toEqual([{ ...FACT, what: 'full', encoding: 'identity', waitedMs: 0, ...(await report) }]);
    stop();
  });

  it('is cut when its reader takes nothing, and not where limits are off', async () => {
    for (const [guarded, outcome] of [
      [true, 'stalled'],
      [false, undefined],
    ] as const) {
      const front = fakeFront({}, { guarded });
      const channel = new KeptChannel();
      channel.takes = false;
      const { report } = send(front, channel);
      let ended: string | undefined;
      void report.then((how) => {
        ended = how.outcome;
      });
      await turns(3);
      await pass(front, 120_000);
      expect(ended).toBe(outcome);
      expect(front.limiter.held).toBe(outcome === undefined ? 1 : 0);
      channel.leave();
    }
  });

  it('is cut at a fixed cap where one is set', async () => {
    const front = fakeFront({}, { capMs: 2000 });
    const channel = new KeptChannel();
    channel.takes = false;
    const { report } = send(front, channel);
    await turns(3);
    await pass(front, 3000);
    expect((await report).outcome).toBe('capped');
    expect(channel.over).toBe('killed');
  });

  it('gives its place up only where parking is on, and only while somebody waits', async () => {
    for (const [parking, waits, state] of [
      [true, true, 'parked'],
      [true, false, 'held'],
      [false, true, 'held'],
    ] as const) {
      const front = fakeFront({ maxConcurrent: 1, maxParked: 1, waitMsMax: 100_000 }, { parking });
      const channel = new KeptChannel();
      channel.takes = false;
      const { slot, report } = send(front, channel);
      if (waits) void front.limiter.acquire();
      await turns(3);
      await pass(front, 1000);
      expect(slot.state).toBe(state);
      channel.leave();
      expect((await report).outcome).toBe('client_gone');
      expect(slot.state).toBe('released');
    }
  });
});
