import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ReadyQueue } from './ready-queue.ts';

it('answers in the order of arrival, also when it empties and fills again', () => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.integer(), { nil: undefined }), { maxLength: 500 }), (steps) => {
      const queue = new ReadyQueue<number>();
      const model: number[] = [];
      for (const step of steps) {
        const isShift = step === undefined;
        expect(isShift ? queue.shift() : queue.push(step)).toBe(isShift ? model.shift() : undefined);
        if (!isShift) model.push(step);
        expect(queue.size).toBe(model.length);
      }
    }),
  );
});

it('stays in order when its front is cut off', () => {
  const queue = new ReadyQueue<number>();
  let pushed = 0;
  let shifted = 0;
  for (let i = 0; i < 3000; i++) queue.push(pushed++);
  for (let i = 0; i < 2500; i++) {
    expect(queue.shift()).toBe(shifted++);
    if (i % 2 === 0) queue.push(pushed++);
  }
  while (queue.size > 0) expect(queue.shift()).toBe(shifted++);
  expect(shifted).toBe(pushed);
  expect(queue.shift()).toBeUndefined();
});
