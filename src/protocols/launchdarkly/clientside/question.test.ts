import { expect, it } from 'vitest';
import { ContextIntake } from './question.ts';

it('large contexts are read one in a turn of the event loop, in order, and too many are refused', async () => {
  const intake = new ContextIntake(0);
  const large = 'x'.repeat(5000);
  let turn = 0;
  let isOver = false;
  const count = (): void => {
    turn++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const reads = Array.from({ length: 202 }, () => intake.parse(large, () => turn));
  expect(await intake.parse('small', (json) => json)).toBe('small');
  const turns = await Promise.all(reads);
  isOver = true;
  expect(turns.pop()).toBeUndefined();
  expect(new Set(turns).size).toBe(201);
  expect(turns).toEqual(turns.toSorted((one, other) => Number(one) - Number(other)));
});
