import { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Line, LineProcess } from './line-process.ts';
import { ROOT } from './files.ts';

const START_MS_MAX = 30_000;

/**
 * The examples in a folder of their own, beside the package as it was built: there a test may change their files, and what
 * they import from `headgate` is the build that `BENCH_DIST` names, else `dist`.
 */
export class Examples implements Disposable {
  readonly folder: string;

  constructor() {
    const dist = process.env['BENCH_DIST'] ?? `${ROOT}dist`;
    if (!existsSync(`${dist}/index.js`)) {
      throw new Error(`Cannot run the examples: run npm run build first, got no ${dist}/index.js`);
    }
    this.folder = mkdtempSync(join(tmpdir(), 'headgate-examples-'));
    cpSync(`${ROOT}package.json`, join(this.folder, 'package.json'));
    cpSync(`${ROOT}examples`, join(this.folder, 'examples'), { recursive: true });
    symlinkSync(dist, join(this.folder, 'dist'));
    symlinkSync(`${ROOT}node_modules`, join(this.folder, 'node_modules'));
  }

  /** Where a file of an example is. */
  path(file: string): string {
    return join(this.folder, 'examples', file);
  }

  /** Runs a program of an example, as outside of tests: Express logs no errors where NODE_ENV says that it is tested. */
  run(file: string, args: readonly string[] = []): LineProcess {
    return new LineProcess({
      command: process.execPath,
      args: [this.path(file), ...args],
      env: { PORT: '0', NODE_ENV: '' },
    });
  }

  /** Runs a server, and answers when it says on which port it listens. */
  async serve(file: string): Promise<ExampleServer> {
    const child = this.run(file);
    const line = await child.waitFor('its port', ({ port }) => typeof port === 'number', { msMax: START_MS_MAX });
    return new ExampleServer(child, Number(line['port']));
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The server of an example. */
export class ExampleServer {
  readonly port: number;
  readonly url: string;
  readonly #process: LineProcess;

  constructor(process: LineProcess, port: number) {
    this.#process = process;
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  /** What it wrote to standard error, the last part of it. */
  get stderr(): string {
    return this.#process.stderr;
  }

  /** What it answers at a path, as JSON. */
  async json(path: string): Promise<Line> {
    return (await (await fetch(this.url + path)).json()) as Line;
  }

  /** Ends it at once. */
  async kill(): Promise<void> {
    await this.#process.stop('SIGKILL');
  }

  /** Asks it to stop, and answers with the exit code; null when it had to be killed. */
  async stop(): Promise<number | null> {
    return (await this.#process.stop('SIGTERM')).code;
  }
}
