import { afterEach, describe, expect, it } from 'vitest';
import { redisAvailable } from '../support/redis.ts';
import { balancerAvailable } from '../support/replicas-balancer.ts';
import { replicasStorm } from '../support/replicas-storm.ts';
import { ReplicasWorld } from '../support/replicas-world.ts';

const KINDS = ['fdv1', 'fdv1-full', 'fdv2', 'fdv2-poll', 'fdv1-poll'] as const;
const MS_MAX = 120_000;
const STORM = { perSecond: 50, seconds: 10 };
const CLIENTS = { pollMs: 400, stayMsMax: 2000 };

const canRun = [redisAvailable(), balancerAvailable()].every(Boolean);

describe.runIf(canRun)('three replicas behind a balancer, one killed, one held back, one restarted', () => {
  let world: ReplicasWorld;

  afterEach(() => world.stop());

  const atOnePosition = async (): Promise<void> => {
    expect(await world.settled()).toBe(true);
    expect(new Set(world.clients.map(({ digest }) => digest)).size).toBe(1);
  };

  it('bring every client to the same position and never take one back, where they share a Redis', {
    timeout: MS_MAX,
  }, async () => {
    world = await ReplicasWorld.start({ store: 'redis', flags: 60 });
    await world.connect(KINDS, 6, CLIENTS);
    expect(await replicasStorm(world, STORM.perSecond, STORM.seconds)).toBeGreaterThan(300);
    await atOnePosition();
    expect(world.clients.flatMap(({ view }) => view.firstStep ?? [])).toEqual([]);
    expect(world.clients.every(({ connects }) => connects > 2)).toBe(true);
    const catchingUp = world.clients.filter(({ kind }) => kind === 'fdv1' || kind.startsWith('fdv2'));
    // one that was away while everybody else was restarted may get another copy
    expect(catchingUp.reduce((sum, { fulls }) => sum + fulls, 0)).toBeLessThanOrEqual(2 * catchingUp.length);
  });

  it('bring every client to the same position where they share nothing, but take some back on the way', {
    timeout: MS_MAX,
  }, async () => {
    world = await ReplicasWorld.start({ store: 'none', flags: 60 });
    await world.connect(KINDS, 6, CLIENTS);
    await replicasStorm(world, STORM.perSecond, STORM.seconds);
    await atOnePosition();
    // polls cannot wait for a replica that is three seconds behind
    expect(world.clients.filter(({ view }) => view.stepsBack > 0).length).toBeGreaterThan(0);
  });
});
