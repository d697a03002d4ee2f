import { existsSync } from 'node:fs';
import { ROOT } from './files.ts';
import { type Line, LineProcess } from './line-process.ts';
import { isThereOrSkipped } from './missing.ts';

/** The bouncers that a registry has; `test/clients` has a program around each. */
export const REAL_BOUNCERS = ['node', 'python'] as const;
export type RealBouncerName = (typeof REAL_BOUNCERS)[number];

export interface RealBouncerOptions {
  readonly name: RealBouncerName;
  readonly url: string;
  readonly key: string;
}

const CLIENTS = `${ROOT}test/clients/`;
const COMMANDS: Readonly<Record<RealBouncerName, readonly string[]>> = {
  node: [process.execPath, `${CLIENTS}node/bouncer.mjs`],
  python: [`${CLIENTS}.build/python/bin/python`, `${CLIENTS}python/bouncer.py`],
};
const NEEDED: Readonly<Record<RealBouncerName, string>> = {
  node: `${CLIENTS}.build/node-bouncer/node_modules/@crowdsec/nodejs-bouncer/package.json`,
  python: `${CLIENTS}.build/python/bin/python`,
};
const PULL_SECONDS = 0.2;
const WAIT_MS_MAX = 60_000;

/**
 * Whether this bouncer can be run here. `test/clients/setup.sh test/clients/.build` makes it so.
 * In CI every one must be there: a missing one is an error, never a skipped test.
 */
export function realBouncerAvailable(name: RealBouncerName): boolean {
  const problem = `Cannot run the ${name} bouncer: run test/clients/setup.sh test/clients/.build first, got no ${NEEDED[name]}`;
  return isThereOrSkipped(existsSync(NEEDED[name]), problem);
}

function start({ name, url, key }: RealBouncerOptions, mode: 'stream' | 'live'): LineProcess {
  const [command = '', ...args] = COMMANDS[name];
  const rest = mode === 'stream' ? [String(PULL_SECONDS)] : [];
  return new LineProcess({ command, args: [...args, mode, url, key, ...rest] });
}

/** A real bouncer that keeps a set of its own by pulling changes, five times a second. */
export class StreamingBouncer {
  readonly name: RealBouncerName;
  readonly #process: LineProcess;

  constructor(options: RealBouncerOptions) {
    this.name = options.name;
    this.#process = start(options, 'stream');
  }

  /** Pulls that it was content with. */
  get pulls(): number {
    return this.#process.lines.filter((line) => line['event'] === 'pull').length;
  }

  /** What went wrong for it. */
  get failures(): readonly Line[] {
    return this.#process.lines.filter((line) => line['event'] === 'failed');
  }

  /** Answers after a pull that began after this call. */
  async pulled(): Promise<void> {
    const from = this.#process.lines.length;
    const seen = new Set<Line>();
    // the first may have begun before
    await this.#wait('two pulls', (line) => line['event'] === 'pull' && seen.add(line).size === 2, from);
  }

  /** Everything it holds: type and value of each. Its libraries keep no scope. */
  async set(): Promise<ReadonlySet<string>> {
    const from = this.#process.lines.length;
    this.#process.tell('set');
    const total = await this.#wait('its set', (line) => line['event'] === 'set', from);
    const parts = this.#process.lines.slice(from).filter((line) => line['event'] === 'part');
    const names = new Set<string>();
    for (const part of parts) {
      for (const [value, type] of part['decisions'] as readonly [string, string][]) names.add(heldName(type, value));
    }
    if (names.size !== total['count']) {
      throw new Error(`Cannot read a set: names are not unique, got ${names.size} of ${String(total['count'])}`);
    }
    return names;
  }

  async stop(): Promise<void> {
    await this.#process.stop('stdin');
  }

  #wait(what: string, matches: (line: Line) => boolean, from: number): Promise<Line> {
    return this.#process.waitFor(`${what} (${this.name})`, matches, { msMax: WAIT_MS_MAX, from });
  }
}

/** A real bouncer that asks about each address. */
export class LiveBouncer {
  readonly name: RealBouncerName;
  readonly #process: LineProcess;

  constructor(options: RealBouncerOptions) {
    this.name = options.name;
    this.#process = start(options, 'live');
  }

  /** The types of the decisions on each address, as it understood the answers; Node's names the strictest only. */
  async find(addresses: readonly string[]): Promise<ReadonlyMap<string, readonly string[]>> {
    const from = this.#process.lines.length;
    const last = addresses.at(-1);
    this.#process.tell(addresses.join(' '));
    const isLast = (line: Line): boolean => line['event'] === 'answer' && line['address'] === last;
    await this.#process.waitFor(`answers (${this.name})`, isLast, { msMax: WAIT_MS_MAX, from });
    const found = new Map<string, readonly string[]>();
    for (const { event, address, types, error } of this.#process.lines.slice(from) as Iterable<Line & Answer>) {
      if (event !== 'answer') continue;
      if (types === undefined) throw new Error(`Cannot look up ${address} (${this.name}): ${error}`);
      found.set(address, types);
    }
    return found;
  }

  async stop(): Promise<void> {
    await this.#process.stop('stdin');
  }
}

interface Answer {
  readonly event?: string;
  readonly address: string;
  readonly types?: readonly string[];
  readonly error?: string;
}

/** Python's library makes a network of every address. */
export function heldName(type: string, value: string): string {
  return `${type} ${value.replace(/^([^:]+)\/32$|^(.*:.*)\/128$/, '$1$2')}`;
}
