import { type DataSize, type EnvironmentConfig, maskKey } from '../config/index.ts';
import type { EventForwarder, EventStats } from '../events/index.ts';
import { Lags } from '../kernel/index.ts';
import type { EnvironmentFigures, FlagFigures, StoreFigures, StreamCount } from '../observability/index.ts';
import { Outbound } from '../outbound/index.ts';
import {
  type Environment,
  type EnvironmentInfo,
  type Evaluations,
  FlagsFront,
} from '../protocols/launchdarkly/index.ts';
import type { Route, StatusPath } from '../server/index.ts';
import { FileEnvironments } from './flags-files.ts';
import { FlagKeeping } from './flags-keep.ts';
import { askGoals, evaluationsOf, eventsOf, isOffline } from './flags-parts.ts';
import { ListedEnvironments } from './flags-listed.ts';
import { UpstreamEnvironments } from './flags-upstreams.ts';
import { labelsOf, withoutKeys } from './live-names.ts';
import { budgetOptions, type Service, type Shared } from './service.ts';

/** Feature flags: the front, where its environments come from, and what keeps them. */
export class FlagsService implements Service {
  readonly routes: readonly Route[];
  readonly #shared: Shared;
  readonly #front: FlagsFront;
  readonly #keeping: FlagKeeping;
  readonly #outbound: Outbound;
  readonly #files: FileEnvironments;
  readonly #upstreams: UpstreamEnvironments;
  readonly #listed: ListedEnvironments | undefined;
  readonly #evaluations: Evaluations;
  readonly #events: EventForwarder | undefined;
  /** What environments were called when it was last asked: asked for one by one it would cost the square of their number. */
  #labels: ReadonlyMap<string, string> = new Map();
  /** What has to tell its environments before the list of all is known. */
  readonly #untold: Set<'files' | 'list'>;

  private constructor(shared: Shared, outbound: Outbound) {
    const { config } = shared;
    this.#shared = shared;
    this.#outbound = outbound;
    this.#keeping = new FlagKeeping(shared);
    this.#evaluations = evaluationsOf(shared, this.#keeping);
    this.#events = eventsOf(shared, outbound, (id, key) => this.#front.flagText(id, key));
    this.#front = frontOf(shared, this.#keeping, {
      clients: {
        evaluations: this.#evaluations,
        bodyBytesMax: config.server.bodyBytesMax,
        pingJitterMs: config.flags.pingJitterMs,
        goals: (envId, headers) => askGoals(outbound, config.upstream.clientSideBaseUri, envId, headers),
      },
      onRemoved: (id) => this.#events?.forget(id),
      events: {
        events: isOffline(config) ? 'discard' : this.#events,
        bodyBytesMax: config.events.inboundPayloadBytesMax ?? config.server.bodyBytesMax,
      },
    });
    this.routes = this.#front.routes();
    const parts = { shared, front: this.#front, keeping: this.#keeping, outbound };
    this.#untold = new Set();
    if (config.flags.sources.length > 0) this.#untold.add('files');
    if (config.autoConfig !== undefined) this.#untold.add('list');
    this.#files = new FileEnvironments({ ...parts, onRead: () => this.#told('files', true) });
    this.#upstreams = new UpstreamEnvironments(parts);
    for (const environment of config.environments) this.#upstreams.upsert(relayed(environment));
    this.#listed =
      config.autoConfig === undefined
        ? undefined
        : new ListedEnvironments({
            ...parts,
            upstreams: this.#upstreams,
            autoConfig: config.autoConfig,
            onTold: (isCertain) => this.#told('list', isCertain),
          });
    if (this.#untold.size === 0 && config.environments.length > 0) this.#front.environmentsKnown();
  }

  /** Reads the certificates that upstreams are trusted by. Rejects when one cannot be read. */
  static async open(shared: Shared): Promise<FlagsService> {
    const { version, config, clock } = shared;
    const { proxy, caPaths } = config.outbound;
    const outbound = await Outbound.open({
      userAgent: `Headgate/${version}`,
      caPaths,
      clock,
      ...(proxy === undefined ? {} : { proxy }),
    });
    return new FlagsService(shared, outbound);
  }

  get pinnedBytes(): number {
    return this.#front.pinnedBytes;
  }

  get ready(): boolean {
    return this.#front.ready;
  }

  get streams(): number {
    return this.#front.streams;
  }

  status(): { healthy: boolean; members: object } {
    this.#lookAtDatabases();
    const { environments, healthy } = this.#front.status();
    return { healthy, members: { environments } };
  }

  statusAt(path: StatusPath): object | 'unknown' | 'not yet' {
    this.#lookAtDatabases();
    return this.#front.statusAt(path);
  }

  figures(): {
    environments: readonly EnvironmentFigures[];
    flags: FlagFigures;
    stores: readonly StoreFigures[];
  } {
    this.#lookAtDatabases();
    const { healthy } = this.#front;
    const { failing } = this.#keeping;
    const environments = this.#front.environments();
    const labels = labelsOf(environments.map(({ info }) => info));
    this.#labels = labels;
    const evaluations = this.#evaluations.stats();
    const events = this.#events && eventFigures(this.#events.stats(), environments, labels);
    return {
      environments: environments.map((environment) =>
        figuresOf(environment, labels, this.#front.isConnected(environment)),
      ),
      stores: failing === undefined ? [] : [{ name: 'flags', failing }],
      flags: { healthy, evaluations, sources: this.#files.figures(), ...(events === undefined ? {} : { events }) },
    };
  }

  tenantOf(name: string): string | undefined {
    // one that has come since
    if (!this.#labels.has(name)) this.#labels = labelsOf(this.#front.environments().map(({ info }) => info));
    return this.#labels.get(name);
  }

  hide(text: string): string {
    return withoutKeys(
      text,
      this.#front.environments().map(({ info }) => info),
    );
  }

  get healthy(): boolean {
    return this.#front.healthy;
  }

  dataSize(): DataSize | undefined {
    const sizes = this.#front
      .environments()
      .filter(({ data }) => data.ready)
      .map(({ data }) => data.snapshot().textBytes);
    if (sizes.length === 0) return undefined;
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    return { environments: sizes.length, decisions: 0, bytes, largestBytes: Math.max(...sizes) };
  }

  async start(): Promise<boolean> {
    const first = Promise.all([this.#files.start(), this.#startUpstreams()]);
    return (await first).every(Boolean);
  }

  reload(): void {
    this.#files.reload();
    this.#listed?.reconnect();
    this.#upstreams.reconnect();
  }

  leave(): void {
    this.#front.leave();
  }

  closeStreams(graceMs: number): Promise<void> {
    return this.#front.closeStreams(graceMs);
  }

  async stop(): Promise<void> {
    // a source that is slow to end must not cost the events their time
    const events = this.#events?.close(EVENTS_MS_MAX);
    await Promise.all([this.#files.stop(), this.#listed?.stop(), this.#upstreams.stop()]);
    await Promise.all([this.#keeping.close(), events, this.#evaluations.close()]);
    this.#front.close();
    this.#outbound.close();
  }

  /** Whether every environment has data, at the latest when the time for that is over. */
  async #startUpstreams(): Promise<boolean> {
    const { clock, config } = this.#shared;
    const all = (async (): Promise<boolean> => {
      const listed = (await this.#listed?.start()) ?? true;
      return (await this.#upstreams.started()) && listed;
    })();
    const over = new Promise<boolean>((resolve) => {
      clock.after(config.flags.initTimeoutMs, () => {
        this.#front.waitNoLonger();
        // of a list that is not known nobody can say that all have data
        const isKnown = this.#front.directory.complete;
        resolve(isKnown && this.#front.environments().every(({ data }) => data.ready));
      });
    });
    const isReady = await Promise.race([all, over]);
    // whoever ignores connection errors starts with what there is
    return isReady || config.exit.ignoreConnectionErrors;
  }

  /** Whenever one has told all that it has, what it does not have is in none; if that is certain. */
  #told(by: 'files' | 'list', isCertain: boolean): void {
    this.#untold.delete(by);
    if (this.#untold.size === 0) this.#front.environmentsKnown(isCertain);
  }

  #lookAtDatabases(): void {
    for (const environment of this.#front.environments()) {
      this.#keeping.tell(environment);
    }
  }
}

/** The last events of a process that ends: what takes longer is given up, and counted. */
const EVENTS_MS_MAX = 1500;

function frontOf(
  shared: Shared,
  keeping: FlagKeeping,
  more: Pick<ConstructorParameters<typeof FlagsFront>[0], 'clients' | 'events' | 'onRemoved'>,
): FlagsFront {
  const { limits, flags } = shared.config;
  return new FlagsFront({
    ...budgetOptions(shared),
    streamWaitMsMax: limits.waitStreamMsMax,
    pollWaitMsMax: limits.waitPollMsMax,
    aheadWaitMsMax: flags.aheadWaitMs,
    disconnectedMs: flags.disconnectedStatusMs,
    staleAsDegraded: flags.bigSegments.staleAsDegraded,
    credentialLookMs: flags.credentialCleanupMs,
    heartbeatMs: flags.heartbeatMs,
    ...(flags.connectionMsMax === undefined ? {} : { connectionMsMax: flags.connectionMsMax }),
    compression: flags.compression === 'auto',
    catchUp: flags.catchUp,
    logBatchesMax: flags.logBatchesMax,
    logBytesMax: flags.logBytesMax,
    ...(flags.retryMs === undefined ? {} : { retryMs: flags.retryMs }),
    onPinnedDropped: () => shared.limiter.recheck(),
    prepare: (id, write) => keeping.prepare(id, write),
    ...more,
  });
}

/** An environment of the configuration: its list is known, its data come from upstream. */
function relayed(environment: EnvironmentConfig): Parameters<UpstreamEnvironments['upsert']>[0] {
  const { name, sdkKey, mobileKey, envId, projectKey, filterKeys, prefix, tableName } = environment;
  const { allowedOrigins, allowedHeaders, secureMode, ttlMs } = environment;
  const info: EnvironmentInfo = {
    id: envId ?? name,
    name,
    sdkKeys: [{ value: sdkKey }],
    ...(mobileKey === undefined ? {} : { mobileKey }),
    ...(envId === undefined ? {} : { envId }),
    ...(projectKey === undefined ? {} : { projKey: projectKey }),
    ttlMs,
    secureMode,
    allowedOrigins,
    allowedHeaders,
  };
  return { info, sdkKey, filterKeys, under: { prefix, tableName } };
}

function figuresOf(
  environment: Environment,
  labels: ReadonlyMap<string, string>,
  connected: boolean,
): EnvironmentFigures {
  const { info, data, loadedMs, connection, dataStore } = environment;
  return {
    name: labels.get(info.name) ?? info.name,
    ready: data.ready,
    position: environment.position,
    bytes: environment.fullBytes,
    items: data.snapshot().count,
    ageMs: loadedMs === undefined ? undefined : Date.now() - loadedMs,
    ...streamsOf(environment),
    connected,
    connection: connection?.state ?? (data.ready ? 'VALID' : 'INITIALIZING'),
    dataStore: dataStore?.state ?? 'VALID',
    hasExpiringKey: info.sdkKeys.some(({ expiresMs }) => expiresMs !== undefined && expiresMs > Date.now()),
  };
}

/** Streams by audience and SDK, and by how far they are behind: in one look at each. */
function streamsOf(environment: Environment): Pick<EnvironmentFigures, 'streams' | 'behind'> {
  const behind = new Lags();
  const counts = new Map<string, { -readonly [Key in keyof StreamCount]: StreamCount[Key] }>();
  environment.survey(({ audience, info: { quirks } }, missed) => {
    behind.add(missed);
    const key = `${audience} ${quirks.sdk}`;
    const known = counts.get(key);
    if (known === undefined) counts.set(key, { audience, sdk: quirks.sdk, count: 1 });
    else known.count++;
  });
  return { streams: [...counts.values()], behind };
}

/** Events by what their environments are called; they are counted by ID. */
function eventFigures(
  { heldBytes, heldEvents, environments: byId }: EventStats,
  environments: readonly Environment[],
  labels: ReadonlyMap<string, string>,
): NonNullable<FlagFigures['events']> {
  const names = new Map(environments.map(({ info }) => [info.id, labels.get(info.name)]));
  const figures = Object.entries(byId).map(([id, stats]) => ({ name: names.get(id) ?? maskKey(id), ...stats }));
  return { heldBytes, heldEvents, environments: figures };
}
