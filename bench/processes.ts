import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { Order } from './bare.ts';
import type { LoopBlocks } from './loop-probe.ts';
import type { Counters } from './probe.ts';
import type { UpstreamAnswer, UpstreamOrder } from './upstream.ts';

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = join(HERE, '..', '..');
const DIST = process.env['BENCH_DIST'] ?? join(ROOT, 'dist');
const LOAD = join(ROOT, '.bench', 'load');
const START_MS_MAX = 60_000;
const STOP_MS_MAX = 5000;

/** Has servers that are started from now on watch their event loop. */
export function loopProbed(): void {
  const flags = process.env['BENCH_NODE_FLAGS'] ?? '';
  process.env['BENCH_NODE_FLAGS'] = `${flags} --import ${join(HERE, 'loop-probe.js')}`;
}

/** Compiles the load client. */
export function buildLoad(): void {
  if (!existsSync(join(DIST, 'cli', 'main.js'))) {
    throw new Error(`Cannot run: ${DIST} has no cli/main.js, run npm run build first`);
  }
  execFileSync('go', ['build', '-o', LOAD, '.'], { cwd: join(ROOT, 'bench', 'load'), stdio: 'inherit' });
}

/**
 * Runs this program again in a network namespace of its own, where that is possible. Answers its exit code.
 *
 * @param first - before other programs of the machine, too.
 */
export function isolated(first: boolean): number | undefined {
  if (process.env['BENCH_ISOLATED'] !== undefined || process.getuid?.() !== 0) return undefined;
  if (spawnSync(LOAD, ['isolate', 'true']).status !== 0) return undefined;
  const command = [
    'isolate',
    ...(first ? ['-first'] : []),
    process.execPath,
    ...process.execArgv,
    ...process.argv.slice(1),
  ];
  const env = { ...process.env, BENCH_ISOLATED: '1' };
  return spawnSync(LOAD, command, { stdio: 'inherit', env }).status ?? 1;
}

/** A process that serves, and that is measured. */
export interface Served {
  readonly pid: number;
  readonly port: number;
  stop(): Promise<void>;
}

function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => child.once('exit', () => resolve()));
}

async function stop(child: ChildProcess): Promise<void> {
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS_MAX);
  await ended(child);
  clearTimeout(timer);
}

/** Asks a child over its channel, and waits for the next thing that it says. */
function ask<T>(child: ChildProcess, question: unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    child.once('message', (answer) => resolve(answer as T));
    child.send(question as never, (error) => error !== null && reject(error));
  });
}

/** The program under measurement, as a user starts it, and a probe inside that counts. */
export class Headgate implements Served {
  readonly pid: number;
  readonly port: number;
  /** How it explained its limits when it started. */
  readonly limits: string;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number, limits: string) {
    this.#child = child;
    this.pid = child.pid ?? 0;
    this.port = port;
    this.limits = limits;
  }

  /**
   * Starts it, and waits until its data are loaded.
   *
   * @param configPath - where its configuration is written; JSON is YAML as well.
   * @param until - the log line that says so; `listening` for the caller to find out by asking.
   */
  static start(configPath: string, config: object, until = 'environment loaded'): Promise<Headgate> {
    writeFileSync(configPath, JSON.stringify(config));
    const flags = (process.env['BENCH_NODE_FLAGS'] ?? '').split(' ').filter((flag) => flag !== '');
    const probe = ['--import', join(HERE, 'probe.js')];
    const command = [...flags, ...probe, join(DIST, 'cli', 'main.js'), 'serve', '--config', configPath];
    const env = { ...process.env, BENCH_DIST: DIST };
    const child = spawn(process.execPath, command, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'], env });
    return new Promise((resolve, reject) => {
      let port = 0;
      let limits = '';
      const failed = (): void => reject(new Error(`Cannot start the server: it ended with ${child.exitCode}`));
      child.once('exit', failed);
      const timer = setTimeout(() => child.kill('SIGKILL'), START_MS_MAX);
      createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
        const { msg, port: listening, slots, level } = JSON.parse(line) as Record<string, unknown>;
        if (msg === 'listening') port = Number(listening);
        else if (slots !== undefined) limits = String(msg);
        else if (Number(level) >= 40) console.error(`server: ${line}`);
        if (msg !== until) return;
        clearTimeout(timer);
        child.off('exit', failed);
        resolve(new Headgate(child, port, limits));
      });
    });
  }

  /** The same without a log to read: it is ready when it says so to whoever asks. Its stdout goes nowhere. */
  static async startUnlogged(configPath: string, port: number, config: object): Promise<Headgate> {
    writeFileSync(configPath, JSON.stringify(config));
    const command = ['--import', join(HERE, 'probe.js'), join(DIST, 'cli', 'main.js'), 'serve', '--config', configPath];
    const env = { ...process.env, BENCH_DIST: DIST };
    const child = spawn(process.execPath, command, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'], env });
    const untilMs = performance.now() + START_MS_MAX;
    const isReady = (): Promise<boolean> =>
      fetch(`http://127.0.0.1:${port}/health/ready`).then(
        ({ ok }) => ok,
        () => false,
      );
    while (!(await isReady())) {
      if (child.exitCode !== null || performance.now() > untilMs) {
        child.kill('SIGKILL');
        throw new Error(`Cannot start the server: it is not ready, exit code ${child.exitCode}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return new Headgate(child, port, '');
  }

  counters(): Promise<Counters> {
    return ask<Counters>(this.#child, 'counters');
  }

  /** How long its event loop was blocked since this was asked last; wants `loopProbed`. */
  blocks(): Promise<LoopBlocks> {
    return ask<LoopBlocks>(this.#child, 'loop');
  }

  /** Ends it at once, as a machine that fails does. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await ended(this.#child);
  }

  stop(): Promise<void> {
    return stop(this.#child);
  }
}

/** The bare server beside it. */
export class Bare implements Served {
  readonly pid: number;
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.pid = child.pid ?? 0;
    this.port = port;
  }

  static async start(): Promise<Bare> {
    const child = spawn(process.execPath, [join(HERE, 'bare.js')], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const { port } = await new Promise<{ port: number }>((resolve, reject) => {
      child.once('message', (message) => resolve(message as { port: number }));
      child.once('exit', () => reject(new Error('Cannot start the bare server: it ended')));
    });
    return new Bare(child, port);
  }

  /** Answers when it was done, as Unix time. */
  async order(order: Order): Promise<number> {
    return (await ask<{ unixMs: number }>(this.#child, order)).unixMs;
  }

  stop(): Promise<void> {
    return stop(this.#child);
  }
}

/** The local API that Headgate pulls decisions from. */
export class Upstream {
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  static async start(): Promise<Upstream> {
    const stdio = ['ignore', 'inherit', 'inherit', 'ipc'] as const;
    const child = spawn(process.execPath, [join(HERE, 'upstream.js')], { stdio: [...stdio] });
    const { port } = await new Promise<UpstreamAnswer>((resolve, reject) => {
      child.once('message', (message) => resolve(message as UpstreamAnswer));
      child.once('exit', () => reject(new Error('Cannot start the local API: it ended')));
    });
    return new Upstream(child, port);
  }

  /** Answers when it was done. */
  order(order: UpstreamOrder): Promise<UpstreamAnswer> {
    return ask<UpstreamAnswer>(this.#child, order);
  }

  stop(): Promise<void> {
    return stop(this.#child);
  }
}

/** A distribution as the load client tells it. */
export interface Spread {
  readonly count: number;
  readonly min: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

/** What the load client saw of the server and of the machine. MiB and seconds. */
export interface Measured {
  readonly rssBeforeMib: number;
  readonly rssPeakMib: number;
  readonly rssAfterMib: number;
  readonly cpuSeconds: number;
  readonly serverSocketsPeakMib: number;
  readonly clientSocketsPeakMib: number;
  readonly rssAndServerSocketsPeakMib: number;
  readonly rssAndAllSocketsPeakMib: number;
  readonly serverSocketsAfterMib: number;
  readonly machineTcpPeakMib: number;
  readonly clientCpuSeconds: number;
  readonly otherCpuSeconds: number;
  readonly seconds: number;
}

export interface HerdResult {
  readonly clients: number;
  readonly complete: number;
  readonly expected: number;
  readonly doneSeconds: Spread | null;
  readonly tookSeconds: Spread | null;
  readonly firstByteSeconds: Spread | null;
  readonly longestGapSeconds: Spread | null;
  readonly bytesMin: number;
  readonly bytesMax: number;
  readonly stalled: number;
  readonly cutByServer: number;
  readonly cutSeconds: Spread | null;
  readonly healthySeconds: number;
  readonly cpuSecondsUntilHealthy: number;
  readonly statuses: Readonly<Record<string, number>>;
  readonly failures: Readonly<Record<string, number>>;
  readonly server: Measured;
}

export interface PollResult {
  readonly requests: number;
  readonly bytes: number;
  readonly requestsPerSecond: number;
  readonly latencyMs: Spread | null;
  readonly statuses: Readonly<Record<string, number>>;
  readonly failures: Readonly<Record<string, number>>;
  readonly server: Measured;
}

export interface StreamsResult {
  readonly open: number;
  readonly rssBytesPerStream: number;
  readonly serverSocketBytesPerStream: number;
  readonly got: number;
  readonly afterChangeMs: Spread | null;
  readonly afterFirstMs: Spread | null;
  readonly lastUnixMs: number;
  readonly changeCpuSeconds: number;
  readonly failures: Readonly<Record<string, number>>;
  readonly server: Measured;
}

/** One run of the load client. */
export interface LoadRun<T> {
  readonly result: Promise<T>;
  /** Ends a run that goes on until it is told (`-until-eof`). */
  end(): void;
}

/**
 * Runs the load client.
 *
 * @param options - names without the dash; `H` may be a list.
 * @param onLine - called for each line before the result.
 */
export function load<T>(
  mode: 'herd' | 'poll' | 'streams',
  options: Readonly<Record<string, string | number | boolean | readonly string[]>>,
  onLine: (line: string) => void = () => {},
): LoadRun<T> {
  const words = Object.entries(options).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => `-${name}=${String(each)}`),
  );
  const child = spawn(LOAD, [mode, ...words], { stdio: ['pipe', 'pipe', 'pipe'] });
  const errors = text(child.stderr);
  let last = '';
  createInterface({ input: child.stdout }).on('line', (line) => {
    last = line;
    if (!line.startsWith('{')) onLine(line);
  });
  const result = new Promise<T>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve(JSON.parse(last) as T);
      else void errors.then((said) => reject(new Error(`Cannot measure: the load client ended with ${code}: ${said}`)));
    });
  });
  return { result, end: () => child.stdin.end() };
}
