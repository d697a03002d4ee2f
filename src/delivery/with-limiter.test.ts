import { expect, it } from 'vitest';
import { FakeChannel, pages, Turns } from '../../test/support/delivery-fakes.ts';
import { Limiter } from '../admission/index.ts';
import { FakeClock } from '../kernel/index.ts';
import { Deliveries, type Report } from './deliveries.ts';

const microtasks = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

// Slots held by stalled readers would make each healthy one wait for a deadline: with two slots and six stalled readers,
// half a minute. Fails when parking is left out of the options.
it('healthy readers do not wait for stalled ones, and every count comes back to zero', async () => {
  const clock = new FakeClock();
  const turns = new Turns();
  const limiter = new Limiter({
    name: 'copies',
    maxConcurrent: 2,
    maxQueued: 100,
    waitMsMax: 60_000,
    maxParked: 10,
    clock,
    earlyShed: false,
  });
  const engine = new Deliveries({ clock, nextTurn: turns.nextTurn, slackMs: 10_000, creditMs: 5_000 });
  const done: string[] = [];
  const reports: Report[] = [];
  const serve = async (name: string): Promise<void> => {
    const answer = await limiter.acquire();
    if (!answer.admitted) throw new Error('Refused');
    const channel = new FakeChannel();
    channel.open = name !== 'stalled';
    const parking = (): boolean => limiter.waiting > 0;
    const report = await engine.deliver({ channel, source: pages(10), slot: answer.slot, parking });
    reports.push(report);
    done.push(name);
  };
  const all = [
    'stalled',
    'healthy',
    'stalled',
    'stalled',
    'healthy',
    'stalled',
    'stalled',
    'healthy',
    'stalled',
    'healthy',
  ];
  const served = Promise.all(all.map((name) => serve(name)));
  for (let ms = 0; ms < 2000; ms += 50) {
    await microtasks();
    turns.settle();
    expect(limiter.held).toBeLessThanOrEqual(2);
    clock.advance(50);
    turns.settle();
  }
  await microtasks();
  expect(done).toEqual(['healthy', 'healthy', 'healthy', 'healthy']);
  for (let ms = 0; ms < 20_000; ms += 250) {
    clock.advance(250);
    turns.settle();
    await microtasks();
  }
  await served;
  const outcomes = reports.map(({ outcome }) => outcome).toSorted();
  expect(outcomes).toEqual([
    ...Array.from({ length: 4 }, () => 'completed'),
    ...Array.from({ length: 6 }, () => 'stalled'),
  ]);
  expect([limiter.held, limiter.waiting, limiter.parked, engine.active, clock.armed]).toEqual([0, 0, 0, 0, 0]);
});
