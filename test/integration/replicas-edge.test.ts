import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Headgate, startHeadgate } from '../support/headgate.ts';
import { replicaPort } from '../support/replicas-balancer.ts';
import { DelayedPath } from '../support/replicas-delay.ts';
import { REPLICAS_KEY, ReplicasWorld } from '../support/replicas-world.ts';

const MS_MAX = 90_000;
const FLAGS = 200;
const PADDING = 2000;
/** Less than a tenth of a full copy. */
const CATCH_UP_BYTES_MAX = (FLAGS * PADDING) / 10;

describe('an edge that hangs on a core', () => {
  let world: ReplicasWorld;
  let path: DelayedPath;
  let folder: string;
  let edge: Headgate;
  let port: number;

  const startEdge = (): Promise<Headgate> =>
    startHeadgate({
      port,
      config: {
        server: { drainDelay: '0s', grace: '1s' },
        flags: {
          upstream: { streamUri: path.url, baseUri: path.url, protocol: 'fdv2' },
          environments: { production: { sdkKey: REPLICAS_KEY } },
        },
        store: { type: 'lmdb', path: join(folder, 'edge') },
      },
    });

  beforeEach(async () => {
    world = await ReplicasWorld.start({ store: 'own', flags: FLAGS, padding: PADDING, replicas: 1, isBalanced: false });
    folder = await mkdtemp(join(tmpdir(), 'headgate-edge-'));
    path = await DelayedPath.open(world.replicas[0]?.port ?? 0);
    port = await replicaPort();
    edge = await startEdge();
  }, MS_MAX);

  afterEach(async () => {
    await edge.kill();
    await world.stop();
    await path.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** Changes at the root; bytes from the core to the edge until every client of the edge has them. */
  async function costOf(changes: number): Promise<number> {
    const before = path.bytes;
    for (let made = 0; made < changes; made++) world.change();
    expect(await world.settled()).toBe(true);
    return path.bytes - before;
  }

  it('tells its clients what changes at the root, and nobody is sent the world again when one restarts', {
    timeout: MS_MAX,
  }, async () => {
    await world.connect(['fdv1', 'fdv2'], 2, { url: edge.url, stayMsMax: MS_MAX });
    expect(path.bytes).toBeGreaterThan(FLAGS * PADDING);
    expect(await costOf(10)).toBeLessThan(CATCH_UP_BYTES_MAX);

    await edge.stop();
    world.change();
    edge = await startEdge();
    expect(await costOf(5)).toBeLessThan(CATCH_UP_BYTES_MAX);

    await world.killReplica(0);
    world.change();
    await world.startReplica(0);
    expect(await costOf(5)).toBeLessThan(CATCH_UP_BYTES_MAX);

    expect(world.clients.map(({ fulls }) => fulls)).toEqual([1, 1, 1, 1]);
    expect(world.clients.flatMap(({ view }) => view.firstStep ?? [])).toEqual([]);
  });
});
