import { existsSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './files.ts';
import { type Line, LineProcess } from './line-process.ts';

export interface HeadgateOptions {
  /** The configuration, as it would stand in our own file; without it, the environment's variables are the configuration. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** What follows `headgate serve` and the options that name the configuration. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** The port to listen on, beside what `config` says; one that the system picks when left out. Not for variables alone. */
  readonly port?: number;
}

/** `BENCH_DIST` names another build, as for the benchmarks. */
const mainFile = (): string => `${process.env['BENCH_DIST'] ?? `${ROOT}dist`}/cli/main.js`;
const START_MS_MAX = 20_000;

/** A running `headgate serve`, as its own process. */
export class Headgate {
  readonly port: number;
  readonly url: string;
  readonly #process: LineProcess;

  constructor(process: LineProcess, port: number) {
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.#process = process;
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** The log so far. */
  get logs(): readonly Line[] {
    return this.#process.lines;
  }

  /** The first line of the log with this message, already written or to come. */
  waitForLog(message: string, msMax: number = START_MS_MAX): Promise<Line> {
    return this.#process.waitFor(`the log line "${message}"`, (line) => line['msg'] === message, { msMax });
  }

  /** Waits until the log as a whole is so: asked at each line. */
  async waitForLogs(what: string, isSo: (logs: readonly Line[]) => boolean, msMax: number): Promise<void> {
    await this.#process.waitFor(what, () => isSo(this.logs), { msMax });
  }

  /** Ends it without a word (SIGKILL), as a crash does. */
  async kill(): Promise<void> {
    await this.#process.stop('SIGKILL');
  }

  /** Asks for a graceful stop (SIGTERM) and answers with the exit code. */
  async stop(): Promise<number | null> {
    return (await this.#process.stop('SIGTERM')).code;
  }
}

/** Starts `headgate serve` from `dist` and answers when it listens. */
export async function startHeadgate(options: HeadgateOptions = {}): Promise<Headgate> {
  const main = mainFile();
  if (!existsSync(main)) throw new Error(`Cannot start Headgate: run npm run build first, got no ${main}`);
  const child = new LineProcess({
    command: process.execPath,
    args: [main, 'serve', ...(await configArgs(options)), ...(options.args ?? [])],
    // many run side by side: none may take the port that the next one wants
    env: { HEADGATE_ADMIN: '127.0.0.1:0', ...options.env },
  });
  const listening = await child.waitFor('the log line "listening"', (line) => line['msg'] === 'listening', {
    msMax: START_MS_MAX,
  });
  const port = listening['port'];
  if (typeof port !== 'number') {
    throw new Error(`Cannot start Headgate: its port is no number, got ${JSON.stringify(listening)}`);
  }
  return new Headgate(child, port);
}

async function configArgs({ config, port = 0 }: HeadgateOptions): Promise<readonly string[]> {
  if (config === undefined) return ['--from-env'];
  const server = { host: '127.0.0.1', port, ...(config['server'] as object | undefined) };
  const path = join(await mkdtemp(join(tmpdir(), 'headgate-config-')), 'headgate.yaml');
  // every JSON text is YAML
  await writeFile(path, JSON.stringify({ ...config, server }));
  return ['--config', path];
}
