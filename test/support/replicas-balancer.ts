import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isThereOrSkipped } from './missing.ts';

const READY_MS_MAX = 15_000;

/** Whether a real balancer can be run here. In CI it must be there: a missing one is an error, never a skipped test. */
export function balancerAvailable(): boolean {
  const problem = 'Cannot run a balancer: haproxy must be on the PATH, got none';
  return isThereOrSkipped(spawnSync('haproxy', ['-v']).status === 0, problem);
}

/** A port of loopback that is free now: for what must keep its port through restarts. */
export async function replicaPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** haproxy, each connection to the next replica that says it is ready, whoever the client was with before. */
export class Balancer {
  readonly url: string;
  readonly #folder: string;
  readonly #child: ChildProcess;

  private constructor(port: number, folder: string, child: ChildProcess) {
    this.url = `http://127.0.0.1:${port}`;
    this.#folder = folder;
    this.#child = child;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** @param ports - of the replicas, on loopback. */
  static async start(ports: readonly number[]): Promise<Balancer> {
    const folder = await mkdtemp(join(tmpdir(), 'headgate-balancer-'));
    const port = await replicaPort();
    const path = join(folder, 'haproxy.cfg');
    await writeFile(path, configText(port, ports));
    const child = spawn('haproxy', ['-db', '-q', '-f', path], { stdio: ['ignore', 'ignore', 'ignore'] });
    const balancer = new Balancer(port, folder, child);
    await balancer.ready();
    return balancer;
  }

  /** Resolves when it sends clients to a replica. */
  async ready(): Promise<void> {
    const byMs = performance.now() + READY_MS_MAX;
    for (;;) {
      const isReady = await fetch(`${this.url}/health/ready`).then(
        ({ ok }) => ok,
        () => false,
      );
      if (isReady) return;
      if (performance.now() > byMs) throw new Error(`Cannot use the balancer: no replica answers at ${this.url}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exit = once(this.#child, 'exit');
      this.#child.kill('SIGKILL');
      await exit;
    }
    await rm(this.#folder, { recursive: true, force: true });
  }
}

function configText(port: number, ports: readonly number[]): string {
  return `
global
  maxconn 8000

defaults
  mode http
  timeout connect 1s
  timeout client 1h
  timeout server 1h
  option http-no-delay
  option redispatch 1
  retries 3

frontend clients
  bind 127.0.0.1:${port}
  default_backend replicas

backend replicas
  balance roundrobin
  option httpchk GET /health/ready
  http-check expect status 200
  default-server check inter 200ms fall 2 rise 1 on-marked-down shutdown-sessions
${ports.map((each, at) => `  server replica${at + 1} 127.0.0.1:${each}`).join('\n')}
`;
}
