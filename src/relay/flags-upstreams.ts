import type { Change, Item } from '../dataset/index.ts';
import type { Outbound } from '../outbound/index.ts';
import type { Environment, EnvironmentInfo, FlagsFront } from '../protocols/launchdarkly/index.ts';
import { openUpstream, type Upstream, type UpstreamStatus } from '../sources/index.ts';
import type { FlagKeeping, KeptUnder } from './flags-keep.ts';
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

/** One data set with its connection. */
interface Feed {
  sdkKey: string;
  upstream: Upstream | undefined;
  /** Resolves when the first attempt is over, whatever came of it. */
  started: Promise<void>;
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

  constructor(parts: Parts) {
    this.#parts = parts;
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

  /** Resolves when each connection was tried once: whether every environment has data. */
  async started(): Promise<boolean> {
    await Promise.all([...this.#feeds.values()].map(({ started }) => started));
    const { front } = this.#parts;
    return front.environments().every(({ info, data }) => !this.#feeds.has(info.id) || data.ready);
  }

  /** Asks every upstream anew. */
  reconnect(): void {
    for (const { upstream } of this.#feeds.values()) upstream?.reconnect();
  }

  async stop(): Promise<void> {
    await Promise.all(
      [...this.#feeds.values()].map(async (feed) => {
        feed.stopped = true;
        await feed.upstream?.stop();
      }),
    );
  }

  #upsertOne(
    info: EnvironmentInfo,
    filterKey: string | undefined,
    { sdkKey, under }: Pick<RelayedEnvironment, 'sdkKey' | 'under'>,
  ): void {
    const { front, keeping } = this.#parts;
    keeping.open(info, under);
    const environment = front.upsert(info);
    const known = this.#feeds.get(info.id);
    if (known === undefined) {
      const feed: Feed = { sdkKey, upstream: undefined, started: Promise.resolve(), stopped: false };
      this.#feeds.set(info.id, feed);
      feed.started = this.#start(environment, feed, filterKey);
    } else if (known.sdkKey !== sdkKey) {
      known.sdkKey = sdkKey;
      known.upstream?.setKey(sdkKey);
    }
  }

  async #start(environment: Environment, feed: Feed, filterKey: string | undefined): Promise<void> {
    const { shared, outbound, keeping } = this.#parts;
    const { config, clock } = shared;
    environment.connection = { state: 'INITIALIZING', sinceMs: Date.now() };
    const state = await keeping.restore(environment);
    if (feed.stopped) return;
    feed.upstream = openUpstream({
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
        replace: (items, selector) => this.#replace(environment, items, selector),
        apply: (changes, selector) => this.#apply(environment, changes, selector),
        current: (selector) => {
          environment.loadedMs = Date.now();
          keeping.committed(environment.info.id, selector);
        },
        versionOf: (kind, key) => environment.data.versionOf(kind, key),
        status: (status) => this.#tell(environment, status),
        refused: (status) =>
          shared.log.error(
            { environment: environment.info.name, status },
            'upstream does not know the key of this environment; what it told before stays served',
          ),
      },
    });
    await feed.upstream.start();
  }

  async #replace(environment: Environment, items: AsyncIterable<Item>, state: string | undefined): Promise<void> {
    const { shared, keeping } = this.#parts;
    const { name, id } = environment.info;
    const beganMs = performance.now();
    const { result, changed } = await environment.load(items, 'source');
    keeping.committed(id, state);
    const { count, digest, clock } = environment.data.snapshot();
    const ms = Math.round(performance.now() - beganMs);
    shared.log.info({ environment: name, result, changed, items: count, digest, clock, ms }, 'environment loaded');
  }

  async #apply(environment: Environment, changes: readonly Change[], state: string | undefined): Promise<void> {
    const { shared, keeping } = this.#parts;
    const { name, id } = environment.info;
    const { result, changed, batch } = await environment.data.apply(changes);
    environment.loadedMs = Date.now();
    keeping.committed(id, state);
    shared.log.debug({ environment: name, result, changed, offset: batch?.offset }, 'environment changed');
  }

  #tell(environment: Environment, status: UpstreamStatus): void {
    const { log } = this.#parts.shared;
    const before = environment.connection;
    environment.connection = status;
    if (before?.state === status.state) return;
    const { lastError } = status;
    const fields = { environment: environment.info.name, state: status.state, kind: lastError?.kind };
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
    feed.stopped = true;
    const stopped = feed.upstream?.stop() ?? Promise.resolve();
    stopped
      .then(() => keeping.remove(id))
      .catch((error: unknown) =>
        shared.log.error({ environment: id, err: error }, 'environment could not be forgotten'),
      );
  }
}
