import { afterEach, describe, expect, it } from 'vitest';
import { redisAvailable } from '../support/redis.ts';
import { balancerAvailable } from '../support/replicas-balancer.ts';
import type { ReplicaClient } from '../support/replicas-clients.ts';
import { pause, ReplicasWorld } from '../support/replicas-world.ts';

const KINDS = ['fdv1', 'fdv1-full', 'fdv2', 'fdv2-poll', 'fdv1-poll'] as const;
const MS_MAX = 120_000;

const canRun = [redisAvailable(), balancerAvailable()].every(Boolean);

describe.runIf(canRun)('three replicas behind a balancer', () => {
  let world: ReplicasWorld | undefined;

  afterEach(async () => {
    await world?.stop();
    world = undefined;
  });

  it('that share a Redis bring every client to the same position and never take one back', { timeout: MS_MAX }, async () => {
    world = await ReplicasWorld.start({ store: 'redis', flags: 60 });
    await world.connect(KINDS, 6, { pollMs: 400, stayMsMax: 2000 });
    const changing = world.changes(50, 10);
    await pause(1500);
    await world.killReplica(0);
    world.paths[1]?.holdBack(3000);
    await pause(3000);
    await world.startReplica(0);
    await pause(1500);
    await world.stopReplica(2);
    await world.startReplica(2);
    world.paths[1]?.holdBack(0);
    await changing;
    await world.settled();
    console.log(world.clients.map(summaryOf).join('\n'));
    console.log([...world.clients].flatMap((c) => c.view.firstStep === undefined ? [] : [`${c.kind}: ${c.view.firstStep}`]));
    console.log(world.logged('flags.stepped-back'));
    expect(world.clients.flatMap(({ view }) => view.differing)).toEqual([]);
    expect(new Set(world.clients.map(({ digest }) => digest)).size).toBe(1);
    expect(world.clients.flatMap(({ view }) => view.firstStep ?? [])).toEqual([]);
  });
});

function summaryOf({ kind, bytes, fulls, connects, breaks, statuses, view }: ReplicaClient): string {
  return JSON.stringify({ kind, bytes, fulls, connects, breaks, statuses: [...statuses], stepsBack: view.stepsBack });
}
