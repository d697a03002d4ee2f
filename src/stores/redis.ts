import { HeadgateError, Slices } from '../kernel/index.ts';
import { type Arg, type Command, RedisClient, type RedisOptions } from './redis-client.ts';
import { bytesOfKey, keyOfBytes } from './redis-keys.ts';
import { checkKey, checkTable, checkWrite, type Entry, type Store, type Write } from './store.ts';

/** Settings of {@link openRedisStore}. */
export interface RedisStoreOptions extends RedisOptions {
  /** What all keys begin with; default `headgate`. Stores with prefixes of their own share nothing. */
  readonly prefix?: string;
}

// Two keys of Redis for each table:
//
//   <prefix>:table:<table>    hash, key → value
//   <prefix>:keys:<table>     sorted set of the keys, all with score 0, hence in the order of their bytes
//
// Both are changed in one MULTI, and read in one script.

/** One group is read in one step of Redis, which serves nobody else meanwhile. */
const GROUP_ENTRIES_MAX = 4000;
const GROUP_BYTES_MAX = 1024 * 1024;
/** One command of a write: Redis takes arguments in one by one, and a million of them at most. */
const COMMAND_ENTRIES_MAX = 1000;
const COMMAND_BYTES_MAX = 1024 * 1024;

const GROUP = `
local keys = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], '+', 'LIMIT', 0, ARGV[2])
local found, bytes = {}, 0
for i, key in ipairs(keys) do
  bytes = bytes + #key + redis.call('HSTRLEN', KEYS[2], key)
  if i > 1 and bytes > tonumber(ARGV[3]) then break end
  found[#found + 1] = key
  found[#found + 1] = redis.call('HGET', KEYS[2], key)
end
return found`;

/**
 * Opens a store in a Redis. Rejects with HG_STORE when there is no connection in time.
 *
 * Calls are done one after the other. One that fails rejects, and the next one is tried anew; a write whose answer was
 * lost may have been done, and can be repeated. What Redis was told outlives this process, not Redis itself: that is
 * decided by its own persistence. It needs a single Redis, of version 3.2 or later; a cluster would keep the keys apart.
 *
 * @example
 * const options = { url: 'redis://127.0.0.1:1', connectTimeoutMs: 100, clock: systemClock };
 * await openRedisStore(options).catch((error) => console.log(error.code)); // HG_STORE
 */
export async function openRedisStore(options: RedisStoreOptions): Promise<Store> {
  const store = new RedisStore(options);
  await store.open();
  return store;
}

class RedisStore implements Store {
  readonly kind = 'redis';
  readonly #client: RedisClient;
  readonly #prefix: string;
  readonly #options: RedisStoreOptions;
  /** The last of the calls; each begins when the one before has ended. */
  #turn: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | undefined;
  #isFailing = false;

  constructor(options: RedisStoreOptions) {
    this.#options = options;
    this.#client = new RedisClient(options);
    this.#prefix = options.prefix ?? 'headgate';
  }

  async open(): Promise<void> {
    try {
      await this.#client.call('PING');
    } catch (thrown) {
      this.#client.close();
      throw thrown;
    }
  }

  async *entries(table: string): AsyncGenerator<readonly Entry[]> {
    checkTable(table);
    const { keys, values } = this.#namesOf(table);
    let from: Arg = '-';
    for (;;) {
      const min: Arg = from;
      const answer = await this.#inTurn(() =>
        this.#client.call('EVAL', GROUP, 2, keys, values, min, GROUP_ENTRIES_MAX, GROUP_BYTES_MAX),
      );
      const found = answer as Buffer[];
      const last = found.at(-2);
      if (last === undefined) return;
      from = Buffer.concat([Buffer.from('('), last]);
      yield await entriesOf(found);
    }
  }

  async get(table: string, key: string): Promise<Uint8Array | undefined> {
    checkTable(table);
    checkKey(key);
    const value = await this.#inTurn(() => this.#client.call('HGET', this.#namesOf(table).values, bytesOfKey(key)));
    return value === null ? undefined : (value as Buffer);
  }

  write(writes: Iterable<Write>): Promise<void> {
    return this.#inTurn(async () => {
      const commands = await this.#commandsOf(writes);
      if (commands.length > 0) await this.#client.transaction(commands);
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#turn.then(() => this.#client.close());
    return this.#closing;
  }

  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) {
      return Promise.reject(new HeadgateError('HG_STORE', 'Cannot use the store: it is closed'));
    }
    const done = this.#turn.then(run);
    this.#turn = done.then(
      () => this.#tell(undefined),
      (error: unknown) => this.#tell(error),
    );
    return done;
  }

  /** What a caller did wrong is no failure of Redis. */
  #tell(error: unknown): void {
    if (error === undefined) {
      if (this.#isFailing) this.#options.onRecovery?.();
      this.#isFailing = false;
    } else if (error instanceof HeadgateError && error.code === 'HG_STORE') {
      if (!this.#isFailing) this.#options.onFailure?.(error);
      this.#isFailing = true;
    }
  }

  #namesOf(table: string): { readonly keys: string; readonly values: string } {
    return { keys: `${this.#prefix}:keys:${table}`, values: `${this.#prefix}:table:${table}` };
  }

  /** What a write comes to, with one change per key, in commands of bounded size. Nothing of it is sent before all is known. */
  async #commandsOf(writes: Iterable<Write>): Promise<Command[]> {
    const slices = new Slices();
    const tables = new Map<string, Map<string, Uint8Array | undefined>>();
    for (const write of writes) {
      checkWrite(write);
      const last = tables.get(write.table) ?? new Map<string, Uint8Array | undefined>();
      tables.set(write.table, last.set(write.key, write.value));
      if (slices.due()) await slices.pause();
    }
    const commands: Command[] = [];
    for (const [table, last] of tables) {
      const { keys, values } = this.#namesOf(table);
      const lists = {
        set: new ArgumentList('HSET', values, commands),
        add: new ArgumentList('ZADD', keys, commands),
        delete: new ArgumentList('HDEL', values, commands),
        remove: new ArgumentList('ZREM', keys, commands),
      };
      for (const [key, value] of last) {
        const bytes = bytesOfKey(key);
        if (value === undefined) {
          lists.delete.add(bytes);
          lists.remove.add(bytes);
        } else {
          lists.set.add(bytes, Buffer.from(value.buffer, value.byteOffset, value.byteLength));
          lists.add.add('0', bytes);
        }
        if (slices.due()) await slices.pause();
      }
      for (const list of Object.values(lists)) list.end();
    }
    return commands;
  }
}

async function entriesOf(found: readonly Buffer[]): Promise<Entry[]> {
  const slices = new Slices();
  const entries: Entry[] = [];
  for (let at = 0; at < found.length; at += 2) {
    entries.push([keyOfBytes(found[at]!), found[at + 1]!]);
    if (slices.due()) await slices.pause();
  }
  return entries;
}

/** Arguments of one kind of command, which becomes several when they are many. */
class ArgumentList {
  readonly #name: string;
  readonly #key: string;
  readonly #commands: Command[];
  #args: Arg[] = [];
  #bytes = 0;

  constructor(name: string, key: string, commands: Command[]) {
    this.#name = name;
    this.#key = key;
    this.#commands = commands;
  }

  add(...args: (string | Buffer)[]): void {
    const bytes = args.reduce((sum, arg) => sum + arg.length, 0);
    if (this.#args.length >= COMMAND_ENTRIES_MAX || this.#bytes + bytes > COMMAND_BYTES_MAX) this.end();
    this.#args.push(...args);
    this.#bytes += bytes;
  }

  end(): void {
    if (this.#args.length > 0) this.#commands.push([this.#name, this.#key, ...this.#args]);
    this.#args = [];
    this.#bytes = 0;
  }
}
