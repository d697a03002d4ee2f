import { expect, it } from 'vitest';
import { FakeClock } from '../kernel/index.ts';
import { Stages } from './stages.ts';

// Fails when the time until a promise is settled is left out, or the time between two pieces counts.
it('encoding is what the source took for its pieces, now or later, and not what sending took', async () => {
  const clock = new FakeClock();
  const stages = new Stages(clock);
  clock.advance(2);
  stages.pinned();
  clock.advance(3);
  const settle: (() => void)[] = [];
  let asked = 0;
  const source = stages.source({
    bytes: 10,
    next: () => {
      asked++;
      if (asked === 1) {
        clock.advance(7);
        return [Buffer.from('one')];
      }
      if (asked === 2) return new Promise((resolve) => settle.push(() => resolve([Buffer.from('two')])));
      return undefined;
    },
  });
  expect(source.bytes).toBe(10);
  expect(source.next()).toHaveLength(1);
  clock.advance(1000);
  const later = source.next();
  clock.advance(11);
  settle[0]?.();
  expect(await later).toHaveLength(1);
  clock.advance(1000);
  expect(source.next()).toBeUndefined();
  expect(stages.times()).toEqual({ pinMs: 2, prepareMs: 3, encodeMs: 21 });
});

it('a source that fails took its time as well', async () => {
  const clock = new FakeClock();
  const stages = new Stages(clock);
  const source = stages.source({ bytes: undefined, next: () => Promise.reject(new Error('broken')) });
  const failing = source.next();
  clock.advance(5);
  await expect(failing).rejects.toThrow('broken');
  expect(stages.times().encodeMs).toBe(5);
});
