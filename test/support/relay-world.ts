import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Ask, connect, type Connection, type Reply } from './connections.ts';
import { ROOT } from './files.ts';
import { type Headgate, startHeadgate } from './headgate.ts';
import type { Line } from './line-process.ts';
import { RelayClient, type RelayClientOptions } from './relay-world-client.ts';
import { FakeUpstream, type FakeUpstreamOptions } from './fake-upstream.ts';
import type { FakeItem } from './fake-upstream-environment.ts';

/** A part of our own file. */
export type Settings = Readonly<Record<string, unknown>>;

/** The configuration of a relay below the stand-in: what every test has, and what one says besides. */
export interface RelaySettings {
  readonly flags?: Settings;
  readonly store?: unknown;
  readonly outbound?: Settings;
  readonly exit?: Settings;
  /** Of the service; default that of the stand-in. */
  readonly url?: string;
  /** Before the configuration is read. */
  readonly env?: Readonly<Record<string, string>>;
}

/** What `/status` says, as far as the tests look. */
export interface RelayStatus {
  readonly status: string;
  readonly environments: Readonly<
    Record<
      string,
      {
        readonly status: string;
        readonly sdkKey?: string;
        readonly expiringSdkKey?: string;
        readonly connectionStatus: {
          readonly state: string;
          readonly stateSince: number;
          readonly lastError?: { readonly kind: string; readonly statusCode?: number };
        };
      }
    >
  >;
}

/** A flag that is on for everybody. */
export function relayFlag(key: string, version: number, more: object = {}): FakeItem {
  const values = { variations: [true, false], fallthrough: { variation: 0 }, offVariation: 1 };
  return { key, version, on: true, ...values, salt: key, ...more };
}

/** `/status` is looked at so often while a test waits for what it says. */
const LOOK_MS = 20;
const WAIT_MS_MAX = 30_000;

/** A stand-in for the vendor's service, relays below it as processes of their own, and the clients of those. */
export class RelayWorld {
  readonly upstream: FakeUpstream;
  readonly folder: string;
  readonly #relays = new Set<Headgate>();
  readonly #connections = new Set<Connection>();
  readonly #endings: (() => Promise<unknown>)[] = [];

  private constructor(upstream: FakeUpstream, folder: string) {
    this.upstream = upstream;
    this.folder = folder;
  }

  static async start(options: FakeUpstreamOptions = {}): Promise<RelayWorld> {
    return new RelayWorld(await FakeUpstream.start(options), await mkdtemp(join(tmpdir(), 'headgate-relay-')));
  }

  /** Where a relay of this world keeps what it knows. */
  get storePath(): string {
    return join(this.folder, 'kept');
  }

  /** Starts a relay; answers when it listens. */
  async relay(settings: RelaySettings = {}): Promise<Headgate> {
    const relay = await startHeadgate({
      config: this.#config(settings),
      ...(settings.env === undefined ? {} : { env: settings.env }),
    });
    this.#relays.add(relay);
    return relay;
  }

  /** Runs a relay that is expected to end by itself. Answers its exit code, and how long it took. */
  async run(settings: RelaySettings): Promise<{ code: number | null; lines: readonly Line[]; ms: number }> {
    const path = join(this.folder, 'ends.yaml');
    const config = this.#config(settings);
    await writeFile(path, JSON.stringify({ ...config, server: { ...(config['server'] as object), port: 0 } }));
    const beganMs = performance.now();
    const main = `${process.env['BENCH_DIST'] ?? `${ROOT}dist`}/cli/main.js`;
    return new Promise((resolve) => {
      const env = { ...process.env, HEADGATE_ADMIN: '127.0.0.1:0' };
      const options = { timeout: WAIT_MS_MAX, env };
      const child = execFile(process.execPath, [main, 'serve', '--config', path], options, (_error, out) => {
        const lines = out.split('\n').filter((text) => text !== '');
        resolve({
          code: child.exitCode,
          lines: lines.map((text) => JSON.parse(text) as Line),
          ms: performance.now() - beganMs,
        });
      });
    });
  }

  /** One request on a connection of its own, answered whole. */
  async ask(relay: Headgate, path: string, ask: Omit<Ask, 'path'> & { readonly key?: string } = {}): Promise<Reply> {
    const { key, headers, ...rest } = ask;
    const connection = this.#connect(relay);
    const named = key === undefined ? {} : { authorization: key };
    const reply = connection.ask({ ...rest, path, headers: { host: 'relay', ...named, ...headers } });
    await reply.whole();
    connection.leave();
    this.#connections.delete(connection);
    return reply;
  }

  /** A client that follows a stream, by a connection of its own. */
  client(relay: Headgate, options: RelayClientOptions): RelayClient {
    return new RelayClient(() => this.#connect(relay), options);
  }

  async status(relay: Headgate): Promise<RelayStatus> {
    return (await this.ask(relay, '/status')).json() as RelayStatus;
  }

  /** Waits until `/status` says so. */
  async untilStatus(relay: Headgate, what: string, holds: (status: RelayStatus) => boolean): Promise<RelayStatus> {
    const byMs = performance.now() + WAIT_MS_MAX;
    for (;;) {
      const status = await this.status(relay);
      if (holds(status)) return status;
      if (performance.now() > byMs) throw new Error(`Cannot see ${what} in /status, got ${JSON.stringify(status)}`);
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  /** Waits until a request is answered so. */
  async untilAnswer(relay: Headgate, path: string, key: string, status: number): Promise<Reply> {
    const byMs = performance.now() + WAIT_MS_MAX;
    for (;;) {
      const reply = await this.ask(relay, path, { key });
      if (reply.status === status) return reply;
      if (performance.now() > byMs) throw new Error(`Cannot see ${status} from ${path}, got ${reply.status}`);
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  /** Run when the world ends. */
  onEnd(end: () => Promise<unknown>): void {
    this.#endings.push(end);
  }

  /** Ends everything. */
  async end(): Promise<void> {
    for (const connection of this.#connections) connection.leave();
    await Promise.all([...this.#relays].map((relay) => relay.kill()));
    await Promise.all(this.#endings.map((end) => end()));
    await this.upstream.stop().catch(() => undefined);
    await rm(this.folder, { recursive: true, force: true });
  }

  #connect(relay: Headgate): Connection {
    const connection = connect('http1', relay.port);
    this.#connections.add(connection);
    return connection;
  }

  #config({ flags, store = 'none', outbound, exit, url = this.upstream.url }: RelaySettings): Settings {
    const { upstream, ...more } = flags ?? {};
    const uris = { streamUri: url, baseUri: url, clientSideBaseUri: url };
    return {
      server: { host: '127.0.0.1', drainDelay: '0s', grace: '2s' },
      flags: { heartbeat: '100ms', upstream: { ...uris, ...(upstream as object | undefined) }, ...more },
      store,
      ...(outbound === undefined ? {} : { outbound }),
      ...(exit === undefined ? {} : { exit }),
      log: { level: 'debug' },
    };
  }
}
