import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FakeEnvironment, FakeUpstream } from './fake-upstream.ts';
import { type Headgate, startHeadgate } from './headgate.ts';
import { RedisServer } from './redis.ts';
import { Balancer, replicaPort } from './replicas-balancer.ts';
import { ReplicaClient, type ReplicaClientKind, type ReplicaClientOptions } from './replicas-clients.ts';
import { DelayedPath } from './replicas-delay.ts';
import { ReplicasHistory } from './replicas-history.ts';

export const REPLICAS_KEY = 'sdk-aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee';

export interface ReplicasOptions {
  /** `redis`: one that all share. `own`: a store for each. `none`: nothing is kept. */
  readonly store: 'redis' | 'own' | 'none';
  readonly flags: number;
  /** Characters that pad each item. */
  readonly padding?: number;
  readonly replicas?: number;
  /** Whether there is a balancer before them. */
  readonly isBalanced?: boolean;
  readonly protocol?: 'fdv1' | 'fdv2';
  /** More of the configuration's `flags`. */
  readonly config?: object;
}

const WAIT_MS_MAX = 30_000;

/** An upstream, replicas that each have a path of their own to it, what they share, and a balancer before them. */
export class ReplicasWorld {
  readonly history: ReplicasHistory = new ReplicasHistory();
  readonly clients: ReplicaClient[] = [];
  readonly upstream: FakeUpstream;
  readonly environment: FakeEnvironment;
  readonly paths: DelayedPath[] = [];
  readonly replicas: (Headgate | undefined)[] = [];
  readonly #options: ReplicasOptions;
  readonly #ports: number[] = [];
  readonly #padding: string;
  readonly #keys: string[] = [];
  /** The upstream's versions rise through all keys together. */
  #version = 1;
  #born = 0;
  #redis: RedisServer | undefined;
  #balancer: Balancer | undefined;
  #folder = '';

  private constructor(options: ReplicasOptions, upstream: FakeUpstream) {
    this.#options = options;
    this.#padding = 'x'.repeat(options.padding ?? 100);
    this.upstream = upstream;
    for (let at = 0; at < options.flags; at++) this.#keys.push(`flag-${at}`);
    const flags = this.#keys.map((key) => this.#item(key, 1));
    const segments = [this.#item('segment-0', 1)];
    this.environment = upstream.environment(REPLICAS_KEY, { flags, segments });
    for (const { key } of flags) this.history.take({ id: `flags/${key}`, version: 1, deleted: false });
    this.history.take({ id: 'segments/segment-0', version: 1, deleted: false });
  }

  static async start(options: ReplicasOptions): Promise<ReplicasWorld> {
    const upstream = await FakeUpstream.start(options.protocol === undefined ? {} : { protocols: options.protocol });
    const world = new ReplicasWorld(options, upstream);
    world.#folder = await mkdtemp(join(tmpdir(), 'headgate-replicas-'));
    if (options.store === 'redis') world.#redis = await RedisServer.start();
    for (let at = 0; at < (options.replicas ?? 3); at++) {
      world.#ports.push(await replicaPort());
      world.paths.push(await DelayedPath.open(upstream.port));
      world.replicas.push(undefined);
    }
    await Promise.all(world.replicas.map((_none, at) => world.startReplica(at)));
    if (options.isBalanced !== false) world.#balancer = await Balancer.start(world.#ports);
    return world;
  }

  get redis(): RedisServer {
    if (this.#redis === undefined) throw new Error('Cannot use a Redis: this world has none');
    return this.#redis;
  }

  get balancer(): Balancer {
    if (this.#balancer === undefined) throw new Error('Cannot use the balancer: it has not started');
    return this.#balancer;
  }

  /** Starts a replica that is not running, and waits until it has data. */
  async startReplica(at: number): Promise<Headgate> {
    const headgate = await startHeadgate({ config: this.#config(at), port: this.#ports[at] ?? 0 });
    this.replicas[at] = headgate;
    await waitUntil(`data of replica ${at}`, async () => (await fetch(`${headgate.url}/health/ready`)).ok);
    return headgate;
  }

  /** Ends a replica without a word. */
  async killReplica(at: number): Promise<void> {
    const replica = this.replicas[at];
    this.replicas[at] = undefined;
    await replica?.kill();
  }

  /** Asks a replica to stop, and waits. */
  async stopReplica(at: number): Promise<void> {
    const replica = this.replicas[at];
    this.replicas[at] = undefined;
    await replica?.stop();
  }

  /** Clients of the balancer, or of one replica. */
  async connect(
    kinds: readonly ReplicaClientKind[],
    count: number,
    more: Partial<ReplicaClientOptions> = {},
  ): Promise<void> {
    const url = more.url ?? this.balancer.url;
    const options = { key: REPLICAS_KEY, history: this.history, pollMs: 1000, stayMsMax: 4000, ...more, url };
    for (let at = 0; at < count; at++) {
      for (const kind of kinds) this.clients.push(new ReplicaClient({ ...options, kind }));
    }
    for (const client of this.clients.slice(-count * kinds.length)) client.start();
    await waitUntil('data at every client', () => this.clients.every(({ fulls }) => fulls > 0));
  }

  /** One change: an edit mostly, now and then a new item, or the deletion of one, or that it is made again. */
  change(): void {
    this.#version += 1;
    const version = this.#version;
    const turn = version % 10;
    // deleted at once: a digest comes back
    if (turn === 1) this.#put('flags', 'fleeting', version);
    else if (turn === 2) this.#remove('fleeting', version);
    else if (turn === 3) this.#put('flags', `new-${++this.#born}`, version);
    else if (turn === 6) this.#remove(`new-${this.#born}`, version);
    else if (turn === 8) this.#put('flags', `new-${this.#born}`, version);
    else if (turn === 9) this.#put('segments', 'segment-0', version);
    else this.#put('flags', this.#keys[(version * 7) % this.#keys.length] ?? '', version);
  }

  /** Changes at an even rate until the time is over, whatever else happens. */
  async changes(perSecond: number, seconds: number): Promise<number> {
    const beganMs = performance.now();
    let made = 0;
    while (performance.now() - beganMs < seconds * 1000) {
      const due = Math.floor(((performance.now() - beganMs) / 1000) * perSecond);
      for (; made < due; made++) this.change();
      await pause(5);
    }
    return made;
  }

  /** Nobody leaves by himself any more; waits until everybody has everything, and answers whether that came. */
  async settled(msMax: number = WAIT_MS_MAX): Promise<boolean> {
    for (const client of this.clients) client.settle();
    const byMs = performance.now() + msMax;
    while (!this.clients.every(({ view }) => view.differing.length === 0)) {
      if (performance.now() > byMs) return false;
      await pause(50);
    }
    return true;
  }

  /** What replicas that run now have logged, by message. */
  logged(message: string): number {
    return this.replicas.reduce(
      (sum, replica) => sum + (replica?.logs.filter(({ msg }) => msg === message).length ?? 0),
      0,
    );
  }

  async stop(): Promise<void> {
    for (const client of this.clients) client.close();
    for (const replica of this.replicas) await replica?.kill();
    await this.#balancer?.stop();
    for (const path of this.paths) await path.close();
    await this.upstream.stop();
    await this.#redis?.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }

  #item(key: string, version: number): { key: string; version: number; [member: string]: unknown } {
    return { key, version, on: true, variations: [this.#padding], salt: 's', included: [] };
  }

  #put(kind: 'flags' | 'segments', key: string, version: number): void {
    this.history.take({ id: `${kind}/${key}`, version, deleted: false });
    this.environment.patch(kind, this.#item(key, version));
  }

  #remove(key: string, version: number): void {
    this.history.take({ id: `flags/${key}`, version, deleted: true });
    this.environment.remove('flags', key, version);
  }

  #config(at: number): Record<string, unknown> {
    const { store, protocol, config } = this.#options;
    const url = this.paths[at]?.url;
    return {
      server: { drainDelay: '300ms', grace: '1s' },
      flags: {
        upstream: { streamUri: url, baseUri: url, ...(protocol === undefined ? {} : { protocol }) },
        environments: { production: { sdkKey: REPLICAS_KEY } },
        ...config,
      },
      ...(store === 'redis' ? { store: { type: 'redis', url: this.#redis?.url } } : {}),
      ...(store === 'own' ? { store: { type: 'lmdb', path: join(this.#folder, `replica-${at}`) } } : {}),
    };
  }
}

/** Asks until it holds. */
async function waitUntil(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const byMs = performance.now() + WAIT_MS_MAX;
  for (;;) {
    try {
      if (await holds()) return;
    } catch {
      // not yet
    }
    if (performance.now() > byMs) throw new Error(`Cannot see ${what}: nothing for ${WAIT_MS_MAX} ms`);
    await pause(10);
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
