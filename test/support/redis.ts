import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { isThereOrSkipped } from './missing.ts';

const PORTS_TRIED_MAX = 5;
const READY = 'Ready to accept connections';

/**
 * Whether a real Redis can be run here. In CI it must be there: a missing one is an error, never a skipped test.
 */
export function redisAvailable(): boolean {
  const problem = 'Cannot run a Redis: redis-server must be on the PATH, got none';
  return isThereOrSkipped(spawnSync('redis-server', ['--version']).status === 0, problem);
}

/** A real Redis on loopback that keeps nothing on disk. */
export class RedisServer {
  readonly port: number;
  readonly url: string;
  readonly #folder: string;
  readonly #settings: readonly string[];
  #child: ChildProcess;

  private constructor(port: number, folder: string, settings: readonly string[], child: ChildProcess) {
    this.port = port;
    this.url = `redis://127.0.0.1:${port}`;
    this.#folder = folder;
    this.#settings = settings;
    this.#child = child;
  }

  /** Starts one that is empty, and answers when it serves. */
  static async start(...settings: readonly string[]): Promise<RedisServer> {
    const folder = await mkdtemp(join(tmpdir(), 'headgate-redis-'));
    for (let tried = 1; ; tried++) {
      const port = await freePort();
      const child = await served(port, folder, settings);
      if (child !== undefined) return new RedisServer(port, folder, settings, child);
      if (tried === PORTS_TRIED_MAX) throw new Error('Cannot start redis-server: no port was free');
    }
  }

  /** A client of its own, without any patience. */
  client(): Redis {
    const client = new Redis(this.port, '127.0.0.1', { retryStrategy: () => null });
    client.on('error', () => {});
    return client;
  }

  /** Lets `run` use a client. */
  async with<T>(run: (client: Redis) => Promise<T>): Promise<T> {
    const client = this.client();
    try {
      return await run(client);
    } finally {
      client.disconnect();
    }
  }

  /** Ends it at once: what it held is gone. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exit = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exit;
  }

  /** Starts it again, empty, on the same port. */
  async restart(): Promise<void> {
    await this.kill();
    const child = await served(this.port, this.#folder, this.#settings);
    if (child === undefined) throw new Error(`Cannot start redis-server again: port ${this.port} was taken`);
    this.#child = child;
  }

  /** It answers nothing until it is thawed; connections to it stay. */
  freeze(): void {
    this.#child.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child.kill('SIGCONT');
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** The process once it serves; undefined when it has ended before, since the port was taken. */
async function served(port: number, folder: string, settings: readonly string[]): Promise<ChildProcess | undefined> {
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no'];
  const child = spawn('redis-server', [...options, ...settings], { stdio: ['ignore', 'pipe', 'ignore'] });
  let text = '';
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', () => resolve(undefined));
    child.stdout?.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
      if (!text.includes(READY)) return;
      child.removeAllListeners('exit');
      resolve(child);
    });
  });
}

/** One that is free now: another program can take it before the server does, so the caller tries again. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('Cannot find a free port');
  return address.port;
}
