import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from './files.ts';
import { isThereOrSkipped } from './missing.ts';

/** A decision as `cscli decisions import` takes it. */
export interface ImportedDecision {
  readonly duration: string;
  readonly reason?: string;
  readonly scope: string;
  readonly type: string;
  readonly value: string;
}

/** A decision as the API answers it; older ones have no uuid. */
export interface ToldDecision {
  readonly duration: string;
  readonly id: number;
  readonly origin: string;
  readonly scenario: string;
  readonly scope: string;
  readonly type: string;
  readonly value: string;
}

/** What a pull of the stream answers. */
export interface Told {
  readonly new: readonly ToldDecision[] | null;
  readonly deleted: readonly ToldDecision[] | null;
}

const BIN = `${ROOT}test/clients/.build/crowdsec/usr/bin/`;
const [SERVER, TOOL] = [`${BIN}crowdsec`, `${BIN}cscli`];
/** An import of 100,000 decisions takes 20 s on a slow machine. */
const COMMAND_MS_MAX = 120_000;
const START_MS_MAX = 20_000;
const STOP_MS_MAX = 10_000;
const PORTS_TRIED_MAX = 3;
const OUTPUT_BYTES_MAX = 1 << 20;
/** As the server tells them. The tool writes what it is given. */
const SCOPES: Readonly<Record<string, string>> = { ip: 'Ip', range: 'Range', country: 'Country', as: 'AS' };
/** A write fails when another client's pull wrote in between: SQLite's snapshot is stale then, whatever its timeout. */
const LOCKED = 'database is locked';
const LOCKED_TRIES_MAX = 20;
const USER_AGENT = 'headgate-test/v1.0';
const PROBE = { name: 'probe', key: 'key-of-the-probe' };

const run = promisify(execFile);

/**
 * Whether a real local API can be run here. `test/clients/setup.sh test/clients/.build` makes it so.
 * In CI it must be there: a missing one is an error, never a skipped test.
 */
export function lapiAvailable(): boolean {
  const missing = [SERVER, TOOL].filter((path) => !existsSync(path));
  const problem = `Cannot run a local API: run test/clients/setup.sh test/clients/.build first, got no ${missing[0]}`;
  return isThereOrSkipped(missing.length === 0, problem);
}

/** A real local API with a database of its own, on loopback, without an agent and without the central API. */
export class Lapi {
  readonly folder: string;
  readonly port: number;
  readonly url: string;
  #child: ChildProcess;

  private constructor(folder: string, port: number, child: ChildProcess) {
    this.folder = folder;
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.#child = child;
  }

  /** Starts one with an empty database, and answers when it serves. */
  static async start(): Promise<Lapi> {
    const folder = await mkdtemp(join(tmpdir(), 'headgate-lapi-'));
    for (let tried = 1; ; tried++) {
      const port = await freePort();
      await writeConfig(folder, port);
      await command(folder, ['bouncers', 'add', PROBE.name, '-k', PROBE.key], tried > 1);
      await command(folder, machine(folder, port));
      const child = serve(folder);
      try {
        await untilServing(child, port, folder);
        return new Lapi(folder, port, child);
      } catch (error) {
        await end(child, 'SIGKILL');
        if (tried === PORTS_TRIED_MAX) throw error;
      }
    }
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Registers a bouncer. */
  async addBouncer(name: string, key: string): Promise<void> {
    await command(this.folder, ['bouncers', 'add', name, '-k', key]);
  }

  /** Takes a bouncer's registration back: its key is refused from then on. */
  async deleteBouncer(name: string): Promise<void> {
    await command(this.folder, ['bouncers', 'delete', name]);
  }

  /** Imports decisions, scope by scope: 1.4.6 takes the scope from its command line alone. */
  async import(decisions: readonly ImportedDecision[]): Promise<void> {
    const path = join(this.folder, 'import.json');
    for (const scope of new Set(decisions.map((decision) => decision.scope))) {
      await writeFile(path, JSON.stringify(decisions.filter((decision) => decision.scope === scope)));
      await command(this.folder, ['decisions', 'import', '--scope', SCOPES[scope] ?? scope, '-i', path]);
    }
  }

  /** Adds a single decision, as an administrator would. */
  async add(decision: ImportedDecision): Promise<void> {
    const { scope, value, duration, type, reason = 'manual' } = decision;
    const flags = ['--scope', scope, '--value', value, '--duration', duration, '--type', type, '--reason', reason];
    await command(this.folder, ['decisions', 'add', ...flags]);
  }

  /** Deletes decisions, for example `'--all'`, `'--type', 'captcha'` or `'--ip', '192.0.2.1'`. */
  async delete(...which: readonly string[]): Promise<void> {
    await command(this.folder, ['decisions', 'delete', ...which]);
  }

  /** A pull of its stream. Each key has a cursor there, which this moves. */
  async pull(key: string, query = 'startup=true'): Promise<Told> {
    const headers = { 'x-api-key': key, 'user-agent': USER_AGENT };
    const response = await fetch(`${this.url}/v1/decisions/stream?${query}`, { headers });
    if (response.status !== 200) throw new Error(`Cannot pull from the local API: status ${response.status}`);
    return (await response.json()) as Told;
  }

  /** Ends it; its data stay for `resume`. */
  async pause(): Promise<void> {
    await end(this.#child, 'SIGTERM');
  }

  /** Starts it again, on the same port with the same data. */
  async resume(): Promise<void> {
    this.#child = serve(this.folder);
    await untilServing(this.#child, this.port, this.folder);
  }

  /** Ends it and deletes its data. */
  async stop(): Promise<void> {
    await end(this.#child, 'SIGTERM');
    await rm(this.folder, { recursive: true, force: true });
  }
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

function machine(folder: string, port: number): readonly string[] {
  const path = join(folder, 'credentials.yaml');
  return [
    'machines',
    'add',
    'tool',
    '--password',
    'of-the-tool',
    '--force',
    '-f',
    path,
    '-u',
    `http://127.0.0.1:${port}`,
  ];
}

async function writeConfig(folder: string, port: number): Promise<void> {
  const at = (name: string): string => join(folder, name);
  const config = {
    // at `info` it writes a line for each decision that is imported
    common: { daemonize: false, log_media: 'stdout', log_level: 'warning', working_dir: folder },
    config_paths: {
      config_dir: folder,
      data_dir: at('data'),
      simulation_path: at('simulation.yaml'),
      hub_dir: at('hub'),
      index_path: at('hub/.index.json'),
      notification_dir: at('notifications'),
      plugin_dir: at('plugins'),
    },
    db_config: {
      log_level: 'warning',
      type: 'sqlite',
      db_path: at('data/crowdsec.db'),
      use_wal: true,
      flush: { max_items: 1_000_000, max_age: '7d' },
    },
    cscli: { output: 'raw' },
    api: {
      client: { credentials_path: at('credentials.yaml') },
      server: { log_level: 'warning', listen_uri: `127.0.0.1:${port}`, profiles_path: at('profiles.yaml') },
    },
    prometheus: { enabled: false },
  };
  for (const name of ['data', 'hub', 'notifications', 'plugins']) await mkdir(at(name), { recursive: true });
  await writeFile(at('simulation.yaml'), 'simulation: false\n');
  await writeFile(at('profiles.yaml'), 'name: none\nfilters: ["false"]\non_success: break\n');
  await writeFile(at('hub/.index.json'), '{}\n');
  await writeFile(at('credentials.yaml'), '');
  // every JSON text is YAML
  await writeFile(at('config.yaml'), JSON.stringify(config));
}

async function command(folder: string, args: readonly string[], mayFail = false): Promise<void> {
  const options = { timeout: COMMAND_MS_MAX, maxBuffer: OUTPUT_BYTES_MAX };
  for (let tried = 1; ; tried++) {
    try {
      await run(TOOL, ['-c', join(folder, 'config.yaml'), '--warning', ...args], options);
      return;
    } catch (error) {
      if (mayFail) return;
      if (String(error).includes(LOCKED) && tried < LOCKED_TRIES_MAX) continue;
      throw new Error(`Cannot run cscli ${args.join(' ')}: ${await logOf(folder)}`, { cause: error });
    }
  }
}

function serve(folder: string): ChildProcess {
  const log = openSync(join(folder, 'crowdsec.log'), 'a');
  const args = ['-c', join(folder, 'config.yaml'), '-no-cs', '-no-capi'];
  const child = spawn(SERVER, args, { stdio: ['ignore', log, log] });
  closeSync(log);
  return child;
}

/** A key of ours is known to ours alone: whoever takes it is no other server on this port. */
async function untilServing(child: ChildProcess, port: number, folder: string): Promise<void> {
  const byMs = performance.now() + START_MS_MAX;
  const url = `http://127.0.0.1:${port}/v1/decisions/stream`;
  for (;;) {
    const status = await fetch(url, {
      method: 'HEAD',
      headers: { 'x-api-key': PROBE.key, 'user-agent': USER_AGENT },
    }).then(
      (response) => response.status,
      () => undefined,
    );
    if (status === 200) return;
    const over = child.exitCode !== null || performance.now() > byMs;
    if (over) throw new Error(`Cannot start a local API: ${status ?? 'no answer'}, it says ${await logOf(folder)}`);
  }
}

async function logOf(folder: string): Promise<string> {
  const text = await readFile(join(folder, 'crowdsec.log'), 'utf8').catch(() => '');
  return text.slice(-4000);
}

async function end(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill(signal);
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS_MAX);
  await ended;
  clearTimeout(timer);
}
