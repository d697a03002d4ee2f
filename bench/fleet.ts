import { type ChildProcess, spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { FlagsAnswer, FlagsOrder } from './flags-upstream.ts';
import type { Measured, Spread } from './processes.ts';

const HERE = dirname(fileURLToPath(import.meta.url));
const LOAD = join(HERE, '..', 'load');

/** One kind of stream; see load/fleet.go. */
export interface FleetKind {
  readonly name: string;
  readonly count: number;
  readonly paths: readonly string[];
  readonly headers: readonly string[];
  readonly byId: boolean;
  readonly byBasis: boolean;
  readonly until: 'event' | 'transfer' | 'ping';
}

/** What all clients do next; see load/fleet.go. */
export interface FleetOrder {
  readonly connect: boolean;
  readonly overMs: number;
  readonly marker: string;
  readonly pid: number;
  readonly timeoutMs: number;
}

export interface FleetKindResult {
  readonly name: string;
  readonly clients: number;
  readonly current: number;
  /** Of bodies, without framing. */
  readonly bytes: number;
  readonly doneSeconds: Spread | null;
  readonly statuses: Readonly<Record<string, number>>;
  readonly failures: Readonly<Record<string, number>>;
}

export interface FleetResult {
  readonly kinds: readonly FleetKindResult[];
  /** Until the last client was done. */
  readonly seconds: number;
  readonly server: Measured;
}

/** A fleet that keeps its streams from one order to the next. */
export class Fleet {
  readonly #child: ChildProcess;
  #onLine: (line: string) => void = () => {};
  #onEnd: (error: Error) => void = () => {};

  /** @param kinds - the path of a JSON file with a list of {@link FleetKind} */
  constructor(port: number, kinds: string, settleMs: number) {
    const words = [
      'fleet',
      `-url=http://127.0.0.1:${port}/`,
      `-kinds=${kinds}`,
      `-settle=${settleMs}ms`,
      '-timeout=10m',
    ];
    this.#child = spawn(LOAD, words, { stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: this.#child.stdout as NodeJS.ReadableStream }).on('line', (line) => this.#onLine(line));
    this.#child.once('close', (code) => this.#onEnd(new Error(`Cannot measure: the fleet ended with ${code}`)));
  }

  /** Answers when it is over. `begun` is called when it was taken up: what happens then is seen by all clients. */
  async order(order: FleetOrder, begun: () => Promise<unknown> = () => Promise.resolve()): Promise<FleetResult> {
    const word = 'round ';
    let after: Promise<unknown> = Promise.resolve();
    const result = await new Promise<FleetResult>((resolve, reject) => {
      this.#onEnd = reject;
      this.#onLine = (line) => {
        if (line === 'begun') {
          after = begun();
          after.catch(reject);
        } else if (line.startsWith(word)) resolve(JSON.parse(line.slice(word.length)) as FleetResult);
      };
      this.#child.stdin?.write(`${JSON.stringify(order)}\n`);
    });
    await after;
    return result;
  }

  stop(): void {
    this.#onEnd = () => {};
    this.#child.kill();
  }
}

/** The service that flags come from. */
export class FlagsUpstream {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  static async start(): Promise<FlagsUpstream> {
    const script = join(HERE, 'flags-upstream.js');
    const child = spawn(process.execPath, [script], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const { url } = await new Promise<FlagsAnswer>((resolve, reject) => {
      child.once('message', (message) => resolve(message as FlagsAnswer));
      child.once('exit', () => reject(new Error('Cannot start the upstream: it ended')));
    });
    return new FlagsUpstream(child, url);
  }

  /** Answers when it was done. */
  order(order: FlagsOrder): Promise<FlagsAnswer> {
    return new Promise((resolve, reject) => {
      this.#child.once('message', (answer) => resolve(answer as FlagsAnswer));
      this.#child.send(order, (error) => error !== null && reject(error));
    });
  }

  stop(): void {
    this.#child.kill();
  }
}
