import { readFileSync } from 'node:fs';
import { Redis, type RedisOptions as ClientOptions } from 'ioredis';
import { type Clock, HeadgateError, messageOf } from '../kernel/index.ts';

/** Where a Redis is, and how long to wait for it. */
export interface RedisOptions {
  /** `redis://host:port/database`, or `rediss://…` over TLS. User and password may stand in it. */
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  /** Present when the connection is over TLS. */
  readonly tls?: RedisTls;
  /** How long connecting may take; default 5 s. */
  readonly connectTimeoutMs?: number;
  /** How long an answer may take; default 5 s. */
  readonly readTimeoutMs?: number;
  readonly clock: Clock;
  /** Told once when Redis can no longer be used, and not again before `onRecovery`. */
  readonly onFailure?: (error: HeadgateError) => void;
  readonly onRecovery?: () => void;
}

/** Whom to trust and who we are, as PEM files. */
export interface RedisTls {
  /** Trusted instead of the system's authorities. */
  readonly caPath?: string;
  readonly certPath?: string;
  readonly keyPath?: string;
  /** False accepts any certificate. */
  readonly verify: boolean;
}

/** One argument of a command. */
export type Arg = string | number | Buffer;
/** A command with its arguments. */
export type Command = readonly [name: string, ...args: Arg[]];

const CONNECT_MS = 5000;
const READ_MS = 5000;
/** From 100 ms on, doubled to 2 s: Redis is near, and a store that is back should be used. */
const RETRY_MS_MIN = 50;
const RETRY_MS_MAX = 2000;
const RETRY_DOUBLINGS_MAX = 6;
const KEEP_ALIVE_MS = 10_000;
const PORT = 6379;

/**
 * One connection to a Redis, made again whenever it is lost.
 *
 * Commands are carried out in the order of the calls, over lost connections too: a command that was given up may still
 * lie in the buffer of a connection that the server has not read yet, so a new connection ends the one before it
 * (`CLIENT KILL`) ahead of its own first command. Nothing is sent twice: a command whose connection is lost rejects.
 */
export class RedisClient {
  /** For people: without user and password. */
  readonly address: string;
  readonly #redis: Redis;
  readonly #clock: Clock;
  readonly #connectMs: number;
  readonly #readMs: number;
  readonly #listeners = new Set<(isReady: boolean) => void>();
  #channels: (() => Iterable<string>) | undefined;
  #isReady = false;
  #isClosed = false;
  #lastError: Error | undefined;
  /** What ends this connection, and no other, after it was lost. */
  #killing: Command | undefined;

  /** @throws HeadgateError HG_OPTION for a URL that is none of Redis, HG_TLS for a file that cannot be read. */
  constructor(options: RedisOptions) {
    const settings = settingsOf(options);
    this.address = `${settings.tls === undefined ? 'redis' : 'rediss'}://${settings.host}:${settings.port}`;
    this.#clock = options.clock;
    this.#connectMs = options.connectTimeoutMs ?? CONNECT_MS;
    this.#readMs = options.readTimeoutMs ?? READ_MS;
    this.#redis = new Redis(settings);
    this.#redis.on('error', (error: Error) => {
      this.#lastError = error;
    });
    this.#redis.on('ready', () => this.#begin());
    this.#redis.on('close', () => this.#setReady(false));
    this.#redis.connect().catch(() => {});
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  /** Tells `listener` when the connection is there, and when it is lost. The answer ends it. */
  onChange(listener: (isReady: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** The answer to a command; texts in it are Buffers. Rejects with HG_STORE. */
  async call(...command: Command): Promise<unknown> {
    await this.#untilReady(command[0]);
    const [name, ...args] = command;
    return this.#answered(name, this.#redis.callBuffer(name, ...args));
  }

  /**
   * The answers to commands that are carried out together, with nothing between them (MULTI). Rejects with HG_STORE when
   * one of them failed; the others may have been carried out.
   */
  async transaction(commands: readonly Command[]): Promise<readonly unknown[]> {
    await this.#untilReady('MULTI');
    const multi = this.#redis.multi();
    for (const [name, ...args] of commands) multi.callBuffer(name, ...args);
    const answers = await this.#answered('MULTI', multi.exec());
    return resultsOf(answers, this.address);
  }

  /** Another connection to the same Redis, for commands that must not have others between them. */
  duplicate(): RedisLine {
    // a copy that is tried once: whoever has a transaction to repeat makes another
    const redis = this.#redis.duplicate({ retryStrategy: () => null });
    return new RedisLine(redis, this.address, (what, answer) => this.#answered(what, answer));
  }

  /**
   * Makes this a connection that hears what is published: no other commands from then on.
   *
   * @param channels - asked each time that the connection is made, and at `resubscribe`
   */
  subscribe(channels: () => Iterable<string>, heard: (channel: string, message: string) => void): void {
    this.#channels = channels;
    this.#redis.on('message', heard);
    this.resubscribe();
  }

  /** There are other channels than before. */
  resubscribe(): void {
    const channels = [...(this.#channels?.() ?? [])];
    if (this.#isReady && channels.length > 0) this.#redis.subscribe(...channels).catch(() => {});
  }

  unsubscribe(channel: string): void {
    if (this.#isReady) this.#redis.unsubscribe(channel).catch(() => {});
  }

  /** Lets go at once. Idempotent. */
  close(): void {
    this.#isClosed = true;
    this.#redis.disconnect();
  }

  /** Runs before any command of this connection, since nothing is sent before it is ready. */
  #begin(): void {
    this.#lastError = undefined;
    const killing = this.#killing;
    this.#killing = undefined;
    if (killing !== undefined) this.#redis.callBuffer(killing[0], ...killing.slice(1)).catch(() => {});
    this.#redis
      .callBuffer('CLIENT', 'INFO')
      .then((info) => {
        const [, id] = /\bid=(\d+)/.exec(String(info)) ?? [];
        const [, addr] = /\baddr=(\S+)/.exec(String(info)) ?? [];
        // a server that was started again gives numbers anew: with the address it is nobody else's connection
        if (id !== undefined && addr !== undefined) this.#killing = ['CLIENT', 'KILL', 'ID', id, 'ADDR', addr];
      })
      // Redis before 6.2, or not allowed to
      .catch(() => {});
    this.#setReady(true);
    this.resubscribe();
  }

  #setReady(isReady: boolean): void {
    if (this.#isReady === isReady) return;
    this.#isReady = isReady;
    for (const listener of Array.from(this.#listeners)) listener(isReady);
  }

  /** Waits for a connection as long as making one may take. */
  async #untilReady(what: string): Promise<void> {
    if (this.#isClosed) throw new HeadgateError('HG_STORE', `Cannot use Redis at ${this.address}: it is closed`);
    if (this.#isReady) return;
    let stop = (): void => {};
    const ready = new Promise<void>((resolve) => {
      stop = this.onChange((isReady) => {
        if (isReady) resolve();
      });
    });
    try {
      await this.#within(ready, this.#connectMs, () => {
        const cause = this.#lastError === undefined ? 'nothing' : messageOf(this.#lastError);
        return `Cannot use Redis at ${this.address} for ${what}: there must be a connection within ${this.#connectMs} ms, got ${cause}`;
      });
    } finally {
      stop();
    }
  }

  async #answered<T>(what: string, answer: Promise<T>): Promise<T> {
    try {
      return await this.#within(
        answer,
        this.#readMs,
        () =>
          `Cannot use Redis at ${this.address} for ${what}: an answer must come within ${this.#readMs} ms, got none`,
      );
    } catch (thrown) {
      if (thrown instanceof HeadgateError) throw thrown;
      const cause = this.#isReady ? thrown : (this.#lastError ?? thrown);
      const message = `Cannot use Redis at ${this.address} for ${what}: it must carry it out, got ${messageOf(cause)}`;
      throw new HeadgateError('HG_STORE', message, { cause: thrown });
    }
  }

  #within<T>(promise: Promise<T>, ms: number, late: () => string): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.after(ms, () => reject(new HeadgateError('HG_STORE', late())));
      promise.then(resolve, reject).finally(() => timer.cancel());
    });
  }
}

/** A connection that is used for one transaction of any size, and then let go: the next command waits for the one before. */
export class RedisLine {
  readonly #redis: Redis;
  readonly #address: string;
  readonly #answered: <T>(what: string, answer: Promise<T>) => Promise<T>;

  constructor(redis: Redis, address: string, answered: <T>(what: string, answer: Promise<T>) => Promise<T>) {
    this.#redis = redis;
    this.#address = address;
    this.#answered = answered;
    redis.on('error', () => {});
  }

  /** As `RedisClient.transaction`; the commands are made one by one, when the one before has arrived. */
  async transaction(commands: Iterable<Command> | AsyncIterable<Command>): Promise<readonly unknown[]> {
    try {
      await this.#answered('connecting', this.#redis.connect());
      await this.#answered('MULTI', this.#redis.callBuffer('MULTI'));
      for await (const [name, ...args] of commands) {
        await this.#answered(name, this.#redis.callBuffer(name, ...args));
      }
      const answers = (await this.#answered('EXEC', this.#redis.callBuffer('EXEC'))) as unknown[];
      return resultsOf(
        answers.map((answer) => (answer instanceof Error ? [answer, undefined] : [null, answer])),
        this.#address,
      );
    } finally {
      this.#redis.disconnect();
    }
  }
}

/** The answers of a transaction, none of which may be an error. */
function resultsOf(answers: [Error | null, unknown][] | null, address: string): unknown[] {
  const failed = answers?.find(([error]) => error !== null)?.[0];
  if (answers === null || failed !== undefined) {
    throw new HeadgateError(
      'HG_STORE',
      `Cannot use Redis at ${address} for MULTI: all of its commands must be carried out, got ${failed?.message ?? 'none'}`,
      { cause: failed },
    );
  }
  return answers.map(([, answer]) => answer);
}

interface Settings extends ClientOptions {
  readonly host: string;
  readonly port: number;
}

function settingsOf(options: RedisOptions): Settings {
  const url = parsed(options.url);
  const database = Number(url.pathname.slice(1) || '0');
  if (!Number.isInteger(database)) throw refusal('its path must be the number of a database', url.pathname);
  const username = options.username ?? decodeURIComponent(url.username);
  const password = options.password ?? decodeURIComponent(url.password);
  const tls = options.tls ?? (url.protocol === 'rediss:' ? { verify: true } : undefined);
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? PORT : Number(url.port),
    db: database,
    ...(username === '' ? {} : { username }),
    ...(password === '' ? {} : { password }),
    ...(tls === undefined ? {} : { tls: tlsOf(tls) }),
    lazyConnect: true,
    connectTimeout: options.connectTimeoutMs ?? CONNECT_MS,
    // a connection on which nothing comes any more is given up, after what waited on it was
    socketTimeout: 2 * (options.readTimeoutMs ?? READ_MS),
    keepAlive: KEEP_ALIVE_MS,
    // what is sent is sent once, by us: a write that is repeated behind our back could overtake a later one
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (times) => {
      const ms = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** Math.min(times, RETRY_DOUBLINGS_MAX));
      return ms * (0.5 + Math.random() / 2);
    },
  };
}

function parsed(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^rediss?:$/.test(url.protocol) || url.hostname === '') {
    // nothing of it is shown: a password may stand in it
    throw refusal('its URL must be redis://host:port or rediss://host:port', 'something else');
  }
  return url;
}

function tlsOf({ caPath, certPath, keyPath, verify }: RedisTls): NonNullable<ClientOptions['tls']> {
  return {
    rejectUnauthorized: verify,
    ...(caPath === undefined ? {} : { ca: pem(caPath) }),
    ...(certPath === undefined ? {} : { cert: pem(certPath) }),
    ...(keyPath === undefined ? {} : { key: pem(keyPath) }),
  };
}

function pem(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (thrown) {
    throw new HeadgateError('HG_TLS', `Cannot connect to Redis: ${path} must be readable, got ${messageOf(thrown)}`, {
      cause: thrown,
    });
  }
}

function refusal(cause: string, got: string): HeadgateError {
  return new HeadgateError('HG_OPTION', `Cannot use Redis: ${cause}, got ${got}`);
}
