import { expect, it } from 'vitest';
import { postOf } from '../../test/support/events-kit.ts';
import { Lane, Room } from './lane.ts';

const laneOf = (environmentId: string, audience: 'server' | 'mobile' | 'client'): Lane =>
  new Lane(postOf([], { environmentId, audience }));

it('browsers and phones together leave servers half of the room, however many environments they name', () => {
  const room = new Room(1000);
  const lanes = [laneOf('a', 'client'), laneOf('a', 'mobile'), laneOf('b', 'client')] as const;
  expect(lanes.map((lane) => room.take(lane, 250))).toEqual([true, true, false]);
  const server = laneOf('a', 'server');
  expect([room.take(server, 500), room.take(laneOf('b', 'server'), 1)]).toEqual([true, false]);
  room.give(server, 500);
  room.give(lanes[0], 250);
  expect([room.take(lanes[2], 251), room.take(lanes[2], 250)]).toEqual([false, true]);
  room.give(lanes[1], 250);
  room.give(lanes[2], 250);
  expect(room.bytes).toBe(0);
  expect(room.take(lanes[2], 500)).toBe(true);
});
