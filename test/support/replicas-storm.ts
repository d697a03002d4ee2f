import { pause, type ReplicasWorld } from './replicas-world.ts';

/** How long the one that is held back is behind. */
const HELD_BACK_MS = 3000;

/**
 * Changes at an even rate, and meanwhile one replica is killed and comes back, one is held back by three seconds, and one is
 * restarted. Answers how many changes there were.
 */
export async function replicasStorm(world: ReplicasWorld, perSecond: number, seconds: number): Promise<number> {
  const stepMs = (seconds * 1000) / 6;
  const changing = world.changes(perSecond, seconds);
  await pause(stepMs);
  await world.killReplica(0);
  world.paths[1]?.holdBack(HELD_BACK_MS);
  await pause(2 * stepMs);
  await world.startReplica(0);
  await pause(stepMs);
  await world.stopReplica(2);
  await world.startReplica(2);
  world.paths[1]?.holdBack(0);
  return changing;
}
