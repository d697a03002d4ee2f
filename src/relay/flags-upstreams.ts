import type { Change, Item } from '../dataset/index.ts';
import { messageOf, type Timer } from '../kernel/index.ts';
import type { Outbound } from '../outbound/index.ts';
import type { Environment, EnvironmentInfo, FlagsFront } from '../protocols/launchdarkly/index.ts';
import { openUpstream, type Upstream, type UpstreamStatus } from '../sources/index.ts';
import type { FlagKeeping, KeptUnder } from './flags-keep.ts';
import { type Joining, Line, type Place } from './flags-line.ts';
import type { Shared } from './service.ts';

/** An environment whose data come from an upstream service. */
export interface RelayedEnvironment {
  readonly info: EnvironmentInfo;
  /** The key that the service knows it by. */
  readonly sdkKey: string;
  /** Payload filters that clients may ask for; each is a connection and a data set of its own. */
  readonly filterKeys: readonly string[];
  readonly under: KeptUnder;
}

interface Parts {
  readonly shared: Shared;
  readonly front: FlagsFront;
  readonly outbound: Outbound;
  readonly keeping: FlagKeeping;
}

/** How far what is said of the age of kept data may be behind. */
const NOTE_MS = 60_000;

/** How many environments begin at a time: a thousand at once are a herd, for the service, the store and our own loop. */
const BEGINNING_MAX = 32;
/** What is kept is put back before anybody connects, unless a store keeps everybody waiting. */
const RESTORE: Joining = { isAhead: true, msMax: 250 };
/** A connection counts until it has told something or failed. */
const CONNECT: Joining = { msMax: 5000 };

/** One data set with its connection. */
interface Feed {
  readonly environment: Environment;
  readonly filterKey: string | undefined;
  sdkKey: string;
  /** The service's own selector for what was last taken over. */
  state: string | undefined;
  upstream: Upstream | undefined;
  /** Resolves when nothing is under way but the connection itself. */
  running: Promise<void>;
  /** Resolves when there are data, asked for once, or waiting brings none: its key is refused, or it is no more. */
  readonly settled: Promise<void>;
  readonly settle: () => void;
  /** While it begins. */
  place: Place | undefined;
  stopped: boolean;
}

/**
 * The environments of an upstream service: for each, and for each payload filter of it, what was kept is served first; then
 * a connection brings what is newer.
 */
export class UpstreamEnvironments {
  readonly #parts: Parts;
  readonly #feeds = new Map<string, Feed>();
  /** By environment, the data sets of its filters. */
  readonly #filtered = new Map<string, ReadonlySet<string>>();
  /** By data set, what must be over before another one of that name begins: both would be kept in one place. */
  readonly #leaving = new Map<string, Promise<void>>();
  readonly #line: Line;
  #noteTimer: Timer | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#line = new Line({ places: BEGINNING_MAX, clock: parts.shared.clock });
    this.#noteLater();
  }

  /** Adds an environment, or takes over what changed about it: its keys count from this call on. */
  upsert({ info, sdkKey, filterKeys, under }: RelayedEnvironment): void {
    this.#upsertOne(info, undefined, { sdkKey, under });
    const filtered = new Set<string>();
    for (const filterKey of filterKeys) {
      const id = `${info.id}/${filterKey}`;
      filtered.add(id);
      const part = { ...info, id, name: `${info.name}/${filterKey}`, parentId: info.id, filterKey };
      this.#upsertOne(part, filterKey, { sdkKey, under });
    }
    for (const id of this.#filtered.get(info.id) ?? []) if (!filtered.has(id)) this.#removeOne(id);
    this.#filtered.set(info.id, filtered);
  }

  /** Forgets an environment and its filters, and what was kept of them. */
  remove(id: string): void {
    for (const filtered of this.#filtered.get(id) ?? []) this.#removeOne(filtered);
    this.#filtered.delete(id);
    this.#removeOne(id);
  }

  /** Resolves when each environment has data, or its key is refused: whether all have. What else goes wrong is tried again. */
  async started(): Promise<boolean> {
    await Promise.all([...this.#feeds.values()].map(({ settled }) => settled));
    const { front } = this.#parts;
    return front.environments().every(({ info, data }) => !this.#feeds.has(info.id) || data.ready);
  }

  /** Asks every upstream anew. */
  reconnect(): void {
    for (const { upstream } of this.#feeds.values()) upstream?.reconnect();
  }

  async stop(): Promise<void> {
    this.#noteTimer?.cancel();
    this.#noteAll();
    const ended = [...this.#feeds.values()].map(async (feed) => {
      halt(feed);
      await feed.upstream?.stop();
    });
    await Promise.all([...ended, ...this.#leaving.values()]);
  }

  /** While a connection stands, what is held is up to date, also where nothing changes: it is noted now and then. */
  #noteLater(): void {
    this.#noteTimer = this.#parts.shared.clock.after(NOTE_MS, () => {
      this.#noteAll();
      this.#noteLater();
    });
  }

  #noteAll(): void {
    for (const feed of this.#feeds.values()) {
      if (feed.environment.connection?.state === 'VALID') this.#note(feed, feed.state);
    }
  }

  #upsertOne(
    info: EnvironmentInfo,
    filterKey: string | undefined,
    { sdkKey, under }: Pick<RelayedEnvironment, 'sdkKey' | 'under'>,
  ): void {
    const environment = this.#parts.front.upsert(info);
    const known = this.#feeds.get(info.id);
    if (known === undefined) {
      let settle: () => void = () => {};
      const settled = new Promise<void>((resolve) => (settle = resolve));
      const nothing = { state: undefined, upstream: undefined, place: undefined, stopped: false };
      const running = Promise.resolve();
      const feed: Feed = { environment, filterKey, sdkKey, running, settled, settle, ...nothing };
      this.#feeds.set(info.id, feed);
      feed.running = this.#start(feed, under).catch((thrown: unknown) => this.#failed(feed, thrown));
    } else if (known.sdkKey !== sdkKey) {
      known.sdkKey = sdkKey;
      known.upstream?.setKey(sdkKey);
    }
  }

  async #start(feed: Feed, under: KeptUnder): Promise<void> {
    const { keeping } = this.#parts;
    const { environment } = feed;
    const { info } = environment;
    environment.connection = { state: 'INITIALIZING', sinceMs: Date.now() };
    const leaving = this.#leaving.get(info.id);
    if (leaving !== undefined) await leaving;
    if (feed.stopped) return;
    keeping.open(info, under);
    await this.#inLine(feed, RESTORE, async () => {
      feed.state = await keeping.restore(environment);
    });
    await this.#inLine(feed, CONNECT, async () => {
      feed.upstream = this.#openUpstream(feed);
      await feed.upstream.start();
    });
    if (environment.data.ready) feed.settle();
  }

  /** Does something once there is a place for it; nothing when the environment is no more. */
  async #inLine(feed: Feed, joining: Joining, run: () => Promise<void>): Promise<void> {
    if (feed.stopped) return;
    const place = this.#line.join(joining);
    feed.place = place;
    try {
      await place.turn;
      if (!feed.stopped) await run();
    } finally {
      place.leave();
    }
  }

  #openUpstream(feed: Feed): Upstream {
    const { shared, outbound } = this.#parts;
    const { config, clock } = shared;
    const { environment, filterKey, state } = feed;
    let cause: string | undefined;
    return openUpstream({
      name: environment.info.name,
      streamUri: config.upstream.streamUri,
      baseUri: config.upstream.baseUri,
      // as of now: it may have been rotated while the data were put back
      sdkKey: feed.sdkKey,
      ...(filterKey === undefined ? {} : { filterKey }),
      protocol: config.flags.upstreamProtocol,
      outbound,
      clock,
      ...(state === undefined ? {} : { state }),
      listener: {
        replace: (items, selector) => this.#replace(feed, items, selector),
        apply: (changes, selector) => this.#apply(feed, changes, selector),
        current: (selector) => {
          environment.loadedMs = Date.now();
          this.#note(feed, selector);
          feed.settle();
        },
        versionOf: (kind, key) => environment.data.versionOf(kind, key),
        status: (status) => this.#tell(environment, status, cause),
        failed: (error) => {
          cause = error.message;
          shared.log.debug({ environment: environment.info.name, code: error.code }, `${cause}; it is tried again`);
        },
        refused: (status) => {
          shared.log.error(
            { environment: environment.info.name, status },
            'upstream does not know the key of this environment; what it told before stays served',
          );
          feed.settle();
        },
      },
    });
  }

  /** What cannot even be tried: its clients wait, and the others are served. */
  #failed({ environment, settle }: Feed, thrown: unknown): void {
    const lastError = { kind: 'UNKNOWN', timeMs: Date.now() } as const;
    environment.connection = { state: 'OFF', sinceMs: Date.now(), lastError };
    const { log } = this.#parts.shared;
    log.error({ environment: environment.info.name, err: thrown }, `${messageOf(thrown)}; it is not tried again`);
    settle();
  }

  async #replace(feed: Feed, items: AsyncIterable<Item>, state: string | undefined): Promise<void> {
    const { environment } = feed;
    const { name } = environment.info;
    const beganMs = performance.now();
    const { result, changed } = await environment.load(items, 'source');
    this.#note(feed, state);
    feed.settle();
    const { count, digest, clock } = environment.data.snapshot();
    const ms = Math.round(performance.now() - beganMs);
    const { log } = this.#parts.shared;
    log.info({ environment: name, result, changed, items: count, digest, clock, ms }, 'environment loaded');
  }

  async #apply(feed: Feed, changes: readonly Change[], state: string | undefined): Promise<void> {
    const { environment } = feed;
    const { name } = environment.info;
    const { result, changed, batch } = await environment.data.apply(changes);
    environment.loadedMs = Date.now();
    this.#note(feed, state);
    const { log } = this.#parts.shared;
    log.debug({ environment: name, result, changed, offset: batch?.offset }, 'environment changed');
  }

  #note(feed: Feed, state: string | undefined): void {
    feed.state = state;
    this.#parts.keeping.committed(feed.environment.info.id, state);
  }

  #tell(environment: Environment, status: UpstreamStatus, cause: string | undefined): void {
    const { log } = this.#parts.shared;
    const before = environment.connection;
    environment.connection = status;
    if (before?.state === status.state) return;
    const { lastError } = status;
    const fields = { environment: environment.info.name, state: status.state, kind: lastError?.kind, cause };
    const more = { ...fields, statusCode: lastError?.statusCode };
    if (status.state === 'VALID') log.info({ environment: fields.environment }, 'upstream is connected');
    else if (status.state === 'INTERRUPTED') log.warn(more, 'upstream is lost; what it told before stays served');
    else if (status.state === 'OFF') log.error(more, 'upstream is given up for now');
  }

  #removeOne(id: string): void {
    const { front, keeping, shared } = this.#parts;
    const feed = this.#feeds.get(id);
    this.#feeds.delete(id);
    front.remove(id);
    if (feed === undefined) return;
    halt(feed);
    // what is being written of it must not end up in what its successor keeps
    const leaving: Promise<void> = Promise.all([feed.upstream?.stop(), feed.running]).then(() => {
      if (this.#leaving.get(id) === leaving) this.#leaving.delete(id);
      keeping
        .remove(id)
        .catch((error: unknown) =>
          shared.log.error({ environment: id, err: error }, 'environment could not be forgotten'),
        );
    });
    this.#leaving.set(id, leaving);
  }
}

/** Nothing of it begins any more. */
function halt(feed: Feed): void {
  feed.stopped = true;
  feed.settle();
  feed.place?.leave();
}
