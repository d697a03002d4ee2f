import { expect, it } from 'vitest';
import { FakeClock } from '../kernel/index.ts';
import { FairTime } from './fair-time.ts';

it('passes as the clock does while ticks come in time', () => {
  const clock = new FakeClock(1000);
  const time = new FairTime(clock, 500);
  const began = time.now();
  for (let i = 0; i < 8; i++) {
    clock.advance(250);
    time.tick();
  }
  clock.advance(100);
  expect(time.now() - began).toBe(2100);
});

// Rule 9. Fails when now() is not bounded by #stepMsMax.
it('stands still while the loop is blocked', () => {
  const clock = new FakeClock();
  const time = new FairTime(clock, 500);
  const began = time.now();
  clock.advance(3500);
  expect(time.now() - began).toBe(500);
  time.tick();
  expect(time.now() - began).toBe(500);
  clock.advance(250);
  expect(time.now() - began).toBe(750);
});
