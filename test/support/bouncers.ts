import { Agent, get } from 'node:http';
import { connect, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import type { Told, ToldDecision } from './lapi.ts';

/** A ban as a bouncer holds it. */
export interface Ban {
  readonly scope: string;
  readonly type: string;
  readonly value: string;
  /** Unix time in milliseconds at which it lets the address in again by itself. */
  readonly endsMs: number;
}

/** What one pull brought. */
export interface Pull {
  readonly startup: boolean;
  readonly new: number;
  readonly deleted: number;
}

/** `3h59m58s` and its like. Lua reads digits only: a fraction makes it keep a ban for ever. */
const WHOLE_SECONDS = /^(-?)(?:(\d+)h)?(?:(\d+)m)?(\d+)s$/;
const ANY_DURATION = /^(-?)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?$/;
const SMALL_DURATION = /^-?\d+(?:\.\d+)?(?:ms|µs|ns)$/;
const FAULTS_MAX = 20;

/** A duration as Go writes it, in milliseconds; undefined for other text. What is below a second is 0. */
export function durationMs(text: string): number | undefined {
  if (SMALL_DURATION.test(text)) return 0;
  const parts = ANY_DURATION.exec(text);
  if (parts === null || text === '') return undefined;
  const [, sign, hours = '0', minutes = '0', seconds = '0'] = parts;
  const ms = (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1000;
  return sign === '-' ? -ms : ms;
}

/** The name of a decision in a set: what a bouncer tells one from another by. */
export function nameOf({ scope, type, value }: { scope: string; type: string; value: string }): string {
  return `${scope} ${type} ${value}`;
}

/** The name that the local API tells an imported decision by. */
export function toldName({ scope, type, value }: { scope: string; type: string; value: string }): string {
  return nameOf({ scope: scope === 'ip' ? 'Ip' : 'Range', type, value });
}

/**
 * A bouncer of ours that stands in for one that no registry has: what it asks, how it reads and what it makes of it are those
 * of the real one. Its set outlives the server, as a firewall's does.
 */
export abstract class Bouncer {
  readonly url: URL;
  readonly key: string;
  /** What it holds, by name. Those that have ended are taken out at each look. */
  readonly #held = new Map<string, Ban>();
  /** What a real client could not live with, or only by luck; the first of each run. */
  readonly faults: string[] = [];
  /** Whether its first pull was a success: from then on it asks for changes only. */
  started = false;

  constructor(url: string, key: string) {
    this.url = new URL(url);
    this.key = key;
  }

  /** One pull as its timer makes it: everything until the first success, then changes. Rejects as the real one would fail. */
  async pull(): Promise<Pull> {
    const startup = !this.started;
    const told = await this.ask(startup);
    // the real ones know nothing of when it was computed: they count from when they read it
    this.#apply(told, Date.now());
    this.started = true;
    return { startup, new: told.new?.length ?? 0, deleted: told.deleted?.length ?? 0 };
  }

  /** What it holds and enforces now. */
  held(): ReadonlyMap<string, Ban> {
    const nowMs = Date.now();
    for (const [name, ban] of this.#held) {
      if (ban.endsMs <= nowMs) this.#held.delete(name);
    }
    return this.#held;
  }

  /** Closes its connection. */
  abstract close(): void;

  protected abstract ask(startup: boolean): Promise<Told>;

  protected fault(text: string): void {
    if (this.faults.length < FAULTS_MAX) this.faults.push(text);
  }

  #apply(told: Told, nowMs: number): void {
    const gone = new Set<string>();
    for (const decision of told.deleted ?? []) {
      const name = nameOf(decision);
      if (gone.has(name)) this.fault(`twice in "deleted": ${name}`);
      gone.add(name);
      this.#held.delete(name);
    }
    const come = new Set<string>();
    for (const decision of told.new ?? []) {
      const name = nameOf(decision);
      if (come.has(name)) this.fault(`twice in "new": ${name}`);
      if (gone.has(name)) this.fault(`in both arrays: ${name}`);
      come.add(name);
      const ms = this.#durationOf(decision);
      if (ms === undefined) continue;
      const { scope, type, value } = decision;
      this.#held.set(name, { scope, type, value, endsMs: nowMs + ms });
    }
  }

  #durationOf(decision: ToldDecision): number | undefined {
    const ms = durationMs(decision.duration);
    if (ms === undefined || !WHOLE_SECONDS.test(decision.duration)) {
      this.fault(`the duration ${decision.duration} of ${nameOf(decision)}`);
    }
    return ms;
  }
}

/** Keeps its connection, takes gzip, has no time limit: go-cs-bouncer and what is built on it. */
export class GoBouncer extends Bouncer {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  protected async ask(startup: boolean): Promise<Told> {
    const query = `additional_pull=false&community_pull=false${startup ? '&startup=true' : ''}`;
    const { status, body } = await this.#get(`/v1/decisions/stream?${query}`);
    if (status !== 200) throw new Error(`Cannot pull: status ${status}, got ${body}`);
    if (body === '') {
      // it takes that for an answer without decisions and is content: the worst that can be done to it
      this.fault('an empty body');
      return { new: null, deleted: null };
    }
    return JSON.parse(body) as Told;
  }

  /** A live look-up; no decision is an empty list. */
  async find(address: string): Promise<readonly ToldDecision[]> {
    const { status, body } = await this.#get(`/v1/decisions?ip=${encodeURIComponent(address)}`);
    if (status !== 200) throw new Error(`Cannot look up: status ${status}, got ${body}`);
    return (JSON.parse(body) as readonly ToldDecision[] | null) ?? [];
  }

  close(): void {
    this.#agent.destroy();
  }

  #get(path: string): Promise<{ status: number; body: string }> {
    const headers = {
      'user-agent': 'crowdsec-firewall-bouncer/v0.0.31',
      'x-api-key': this.key,
      'accept-encoding': 'gzip',
    };
    return new Promise((resolve, reject) => {
      const options = { host: this.url.hostname, port: this.url.port, path, headers, agent: this.#agent };
      const request = get(options, (response) => {
        buffer(response).then((bytes) => {
          const zipped = response.headers['content-encoding'] === 'gzip';
          const body = (zipped ? gunzipSync(bytes) : bytes).toString();
          resolve({ status: response.statusCode ?? 0, body });
        }, reject);
      });
      request.once('error', reject);
    });
  }
}

/** Ten times what the real one's example configuration has: a test machine may be busy, and this is no place to measure time. */
const LUA_READ_MS_MAX = 30_000;

/** A connection for each request, read after read with a time limit on each: the lua bouncer of nginx and openresty. */
export class LuaBouncer extends Bouncer {
  /** Set when something kills its timer: it never pulls again, and nobody is told. */
  died: string | undefined;
  protected async ask(startup: boolean): Promise<Told> {
    if (this.died !== undefined) throw new Error(`Cannot pull: the bouncer died, got ${this.died}`);
    const { status, body } = await this.#get(`/v1/decisions/stream?startup=${startup}`);
    if (status !== 200) throw new Error(`Cannot pull: status ${status}, got ${body}`);
    return this.#parsed(body) as Told;
  }

  /** A live look-up as nginx makes it for a visitor. Only `null` to the letter is a miss. */
  async find(address: string): Promise<readonly ToldDecision[]> {
    const { status, body } = await this.#get(`/v1/decisions?ip=${encodeURIComponent(address)}`);
    if (status !== 200) throw new Error(`Cannot look up: status ${status}, got ${body}`);
    if (body === 'null') return [];
    const found = this.#parsed(body) as readonly ToldDecision[] | null;
    if (found?.[0] === undefined) throw new Error(`Cannot look up: a miss must be null to the letter, got ${body}`);
    return found;
  }

  close(): void {}

  #parsed(body: string): unknown {
    try {
      return JSON.parse(body);
    } catch (error) {
      this.died = `a body that was whole by its framing and not by its content: ${String(error)}`;
      throw error;
    }
  }

  async #get(path: string): Promise<{ status: number; body: string }> {
    const socket = connect(Number(this.url.port), this.url.hostname);
    try {
      const lines = [
        `GET ${path} HTTP/1.1`,
        `Host: ${this.url.host}`,
        'Connection: close',
        `X-Api-Key: ${this.key}`,
        'User-Agent: crowdsec-nginx-bouncer/v1.0.8',
      ];
      socket.write(`${lines.join('\r\n')}\r\n\r\n`);
      return await this.#response(new Reader(socket, LUA_READ_MS_MAX));
    } finally {
      socket.destroy();
    }
  }

  async #response(reader: Reader): Promise<{ status: number; body: string }> {
    const status = Number((await reader.line()).split(' ')[1]);
    const headers = new Map<string, string>();
    for (let line = await reader.line(); line !== ''; line = await reader.line()) {
      const [, name = '', value = ''] = /^([^:]+):\s*(.*)$/.exec(line) ?? [];
      headers.set(name.toLowerCase(), value);
    }
    const body = await this.#body(reader, headers);
    return { status, body: body.toString() };
  }

  async #body(reader: Reader, headers: ReadonlyMap<string, string>): Promise<Buffer> {
    const length = headers.get('content-length');
    if (length !== undefined) return reader.bytes(Number(length));
    if (headers.get('transfer-encoding') !== 'chunked') {
      this.died = 'a body that only the end of the connection ends';
      throw new Error(`Cannot read: ${this.died}`);
    }
    const chunks: Buffer[] = [];
    for (;;) {
      const size = Number.parseInt(await reader.line(), 16);
      chunks.push(await reader.bytes(size));
      await reader.line();
      if (size === 0) return Buffer.concat(chunks);
    }
  }
}

/** Reads a socket piece by piece, with a limit on the wait for each. */
class Reader {
  readonly #pieces: AsyncIterator<Buffer>;
  readonly #msMax: number;
  #rest: Buffer = Buffer.alloc(0);

  constructor(socket: Socket, msMax: number) {
    this.#pieces = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    this.#msMax = msMax;
  }

  async line(): Promise<string> {
    for (;;) {
      const end = this.#rest.indexOf('\r\n');
      if (end >= 0) return this.#take(end + 2).toString('latin1', 0, end);
      await this.#more();
    }
  }

  async bytes(count: number): Promise<Buffer> {
    if (this.#rest.length >= count) return this.#take(count);
    const pieces = [this.#take(this.#rest.length)];
    let missing = count - (pieces[0]?.length ?? 0);
    while (missing > 0) {
      await this.#more();
      const piece = this.#take(Math.min(missing, this.#rest.length));
      missing -= piece.length;
      pieces.push(piece);
    }
    return Buffer.concat(pieces);
  }

  #take(count: number): Buffer {
    const taken = this.#rest.subarray(0, count);
    this.#rest = this.#rest.subarray(count);
    return taken;
  }

  async #more(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = globalThis.setTimeout(
        () => reject(new Error(`Cannot read: timeout after ${this.#msMax} ms`)),
        this.#msMax,
      );
    });
    const { done, value } = await Promise.race([this.#pieces.next(), late]).finally(() => clearTimeout(timer));
    if (done === true) throw new Error('Cannot read: closed');
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value]);
  }
}

const RACE_INTERVAL_MS = 20;

/** Pulls changes again and again, far more often than real bouncers do, and keeps account of what it was told. */
export class RacePoller {
  readonly bouncer: GoBouncer;
  pulls = 0;
  /** How many decisions each of its pulls with anything in it brought. */
  readonly brought: number[] = [];
  #ended = false;
  #running: Promise<void> = Promise.resolve();

  constructor(url: string, key: string) {
    this.bouncer = new GoBouncer(url, key);
  }

  /** Answers after the first pull, which brings everything; it goes on until `stop`. */
  async start(): Promise<void> {
    await this.#pull();
    this.#running = this.#run();
    // whoever stops it is told of a failure
    this.#running.catch(() => {});
  }

  /** Ends after a last pull. Rejects when a pull failed. */
  async stop(): Promise<void> {
    this.#ended = true;
    await this.#running;
    await this.#pull();
    this.bouncer.close();
  }

  async #run(): Promise<void> {
    while (!this.#ended) {
      await this.#pull();
      await setTimeout(RACE_INTERVAL_MS);
    }
  }

  async #pull(): Promise<void> {
    const pull = await this.bouncer.pull();
    this.pulls++;
    if (pull.new + pull.deleted > 0) this.brought.push(pull.new + pull.deleted);
  }
}

/** What two sets do not have in common, by name; a few of each, so that a failure shows them. */
export interface Difference {
  readonly missed: number;
  readonly kept: number;
  readonly examples: readonly string[];
}

/** What a bouncer's set lacks of the whole set, and what it has beyond it. */
export function differenceOf(held: ReadonlySet<string>, whole: ReadonlySet<string>): Difference {
  const missed = [...whole].filter((name) => !held.has(name));
  const kept = [...held].filter((name) => !whole.has(name));
  const examples = [...missed.slice(0, 3).map((name) => `lacks ${name}`), ...kept.slice(0, 3).map((n) => `has ${n}`)];
  return { missed: missed.length, kept: kept.length, examples };
}
