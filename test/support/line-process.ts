import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';

/** One line of a program's standard output, read as a JSON object. */
export type Line = Readonly<Record<string, unknown>>;

export interface LineProcessOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

interface Waiter {
  readonly matches: (line: Line) => boolean;
  readonly resolve: (line: Line) => void;
  readonly reject: (error: Error) => void;
}

const STDERR_CHARACTERS_MAX = 20_000;
const STOP_MS_MAX = 10_000;

/** A child process that says what it does in lines of JSON. Waiting for a line looks at those already said first. */
export class LineProcess {
  readonly lines: Line[] = [];
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #name: string;
  readonly #waiters = new Set<Waiter>();
  readonly #closed: Promise<unknown>;
  #stderr = '';
  #begun = '';
  #ended = false;

  constructor(options: LineProcessOptions) {
    this.#name = [options.command, ...options.args].join(' ');
    this.#child = spawn(options.command, options.args, { env: { ...process.env, ...options.env } });
    this.#closed = once(this.#child, 'close').catch(() => undefined);
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_CHARACTERS_MAX);
    });
    // a program that has ended no longer takes input: its end is told by 'close'
    this.#child.stdin.on('error', () => {});
    // not node:readline: from Node 24 on it ends a line at U+2028 too, which stands unescaped in JSON
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => this.#split(text));
    this.#child.on('error', (error) => this.#end(error.message));
    this.#child.on('close', (code, signal) => this.#end(signal ?? `exit code ${code}`));
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** What the program wrote to standard error, the last part of it. */
  get stderr(): string {
    return this.#stderr;
  }

  /** The first line that matches, among those from `from` on and those to come. Rejects when the program ends first. */
  waitFor(what: string, matches: (line: Line) => boolean, options: { msMax: number; from?: number }): Promise<Line> {
    const found = this.lines.slice(options.from ?? 0).find(matches);
    if (found !== undefined) return Promise.resolve(found);
    if (this.#ended) return Promise.reject(this.#error(what, 'it has ended'));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => waiter.reject(this.#error(what, `nothing in ${options.msMax} ms`)), options.msMax);
      const settle = (): void => {
        clearTimeout(timer);
        this.#waiters.delete(waiter);
      };
      const waiter: Waiter = {
        matches,
        resolve: (line) => {
          settle();
          resolve(line);
        },
        reject: (error) => {
          settle();
          reject(error);
        },
      };
      this.#waiters.add(waiter);
    });
  }

  /** Writes a line to the program's standard input. */
  tell(line: string): void {
    this.#child.stdin.write(`${line}\n`);
  }

  /** Asks the program to end, by its standard input or by a signal, and answers when it has; one that does not is killed. */
  async stop(how: 'stdin' | 'SIGTERM' | 'SIGKILL'): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    if (how === 'stdin') this.#child.stdin.end();
    else this.#child.kill(how);
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MS_MAX);
    await this.#closed;
    clearTimeout(timer);
    return { code: this.#child.exitCode, signal: this.#child.signalCode };
  }

  #split(text: string): void {
    const lines = (this.#begun + text).split('\n');
    this.#begun = lines.pop() ?? '';
    for (const line of lines) this.#take(line);
  }

  #take(text: string): void {
    const line = this.#parse(text);
    this.lines.push(line);
    for (const waiter of this.#waiters) {
      if (waiter.matches(line)) waiter.resolve(line);
    }
  }

  /** A line that is no JSON object is kept all the same, so that it shows where a wait fails. */
  #parse(text: string): Line {
    try {
      const value: unknown = JSON.parse(text);
      if (typeof value === 'object' && value !== null) return value as Line;
      return { text };
    } catch (error) {
      return { text, error: String(error) };
    }
  }

  #end(how: string): void {
    this.#ended = true;
    for (const waiter of this.#waiters) waiter.reject(this.#error('a line', `it ended with ${how}`));
  }

  #error(what: string, cause: string): Error {
    const said = this.lines.slice(-20).map((line) => JSON.stringify(line));
    return new Error(
      `Cannot get ${what} from ${this.#name}: ${cause}, got\n${said.join('\n')}\nand on standard error\n${this.#stderr}`,
    );
  }
}
