import { type FileSource, type FlagSource, maskKey } from '../config/index.ts';
import type { Clock } from '../kernel/index.ts';
import type { EnvironmentFigures, Log } from '../observability/index.ts';
import { type Environment, type EnvironmentInfo, FlagsFront } from '../protocols/launchdarkly/index.ts';
import type { Route, StatusPath } from '../server/index.ts';
import { openArchive, openFiles, type SourceEnvironment, type SourceListener } from '../sources/index.ts';
import { budgetOptions, type Service, type Shared } from './service.ts';

type FileSourceHandle = ReturnType<typeof openArchive>;

/** Feature flags: the front, and the files that it serves. */
export class FlagsService implements Service {
  readonly routes: readonly Route[];
  readonly #front: FlagsFront;
  readonly #sources: readonly FileSourceHandle[];
  /** Sources that have not been read yet. */
  readonly #unread: Set<FlagSource>;

  constructor(shared: Shared) {
    const { config, clock, log } = shared;
    this.#front = frontOf(shared);
    this.routes = this.#front.routes();
    this.#unread = new Set(config.flags.sources);
    this.#sources = config.flags.sources.map((source) => {
      // its keys are known before its file is read: clients wait for the data, and are not told that they are unknown
      if (source.type === 'file') this.#front.upsert(infoOf(environmentOfFiles(source)));
      const onRead = (): void => {
        this.#unread.delete(source);
        if (this.#unread.size === 0) this.#front.environmentsKnown();
      };
      return openSource(source, clock, listenerFor(this.#front, log, onRead));
    });
  }

  get pinnedBytes(): number {
    return this.#front.pinnedBytes;
  }

  get ready(): boolean {
    return this.#front.ready;
  }

  get streams(): number {
    return this.#front.environments().reduce((sum, { streams }) => sum + streams, 0);
  }

  status(): { healthy: boolean; members: object } {
    const { environments, healthy } = this.#front.status();
    return { healthy, members: { environments } };
  }

  statusAt(path: StatusPath): object | 'unknown' | 'not yet' {
    return this.#front.statusAt(path);
  }

  figures(): { environments: readonly EnvironmentFigures[] } {
    const environments = this.#front.environments();
    const labels = labelsOf(environments);
    return { environments: environments.map((environment) => figuresOf(environment, labels)) };
  }

  tenantOf(name: string): string | undefined {
    return labelsOf(this.#front.environments()).get(name);
  }

  async start(): Promise<boolean> {
    await Promise.all(this.#sources.map((source) => source.start()));
    return this.#unread.size === 0;
  }

  reload(): void {
    for (const source of this.#sources) void source.reload();
  }

  leave(): void {
    this.#front.leave();
  }

  closeStreams(graceMs: number): Promise<void> {
    return this.#front.closeStreams(graceMs);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#sources.map((source) => source.stop()));
  }
}

function frontOf(shared: Shared): FlagsFront {
  const { limits, flags } = shared.config;
  return new FlagsFront({
    ...budgetOptions(shared),
    streamWaitMsMax: limits.waitStreamMsMax,
    pollWaitMsMax: limits.waitPollMsMax,
    aheadWaitMsMax: flags.aheadWaitMs,
    disconnectedMs: flags.disconnectedStatusMs,
    heartbeatMs: flags.heartbeatMs,
    ...(flags.connectionMsMax === undefined ? {} : { connectionMsMax: flags.connectionMsMax }),
    compression: flags.compression === 'auto',
    catchUp: flags.catchUp,
    logBatchesMax: flags.logBatchesMax,
    logBytesMax: flags.logBytesMax,
    ...(flags.retryMs === undefined ? {} : { retryMs: flags.retryMs }),
    onPinnedDropped: () => shared.limiter.recheck(),
  });
}

/** What environments are called in metrics: as people call them, since their ID is a key of browsers. Each is unique. */
function labelsOf(environments: readonly Environment[]): Map<string, string> {
  const labels = new Map<string, string>();
  const taken = new Set<string>();
  for (const { info } of environments) {
    const called = [info.projName, info.envName].filter((part) => part !== undefined && part !== '').join(' ');
    let label = called === '' ? maskKey(info.name) : called;
    for (let again = 2; taken.has(label); again++) label = `${called} ${again}`;
    taken.add(label);
    labels.set(info.name, label);
  }
  return labels;
}

function figuresOf(environment: Environment, labels: ReadonlyMap<string, string>): EnvironmentFigures {
  const { info, data, loadedMs } = environment;
  return {
    name: labels.get(info.name) ?? info.name,
    ready: data.ready,
    items: data.snapshot().count,
    ageMs: loadedMs === undefined ? undefined : Date.now() - loadedMs,
    streams: environment.streamsBySdk(),
  };
}

function openSource(source: FlagSource, clock: Clock, listener: SourceListener): FileSourceHandle {
  if (source.type === 'archive') {
    return openArchive({ path: source.path, intervalMs: source.intervalMs, clock, listener });
  }
  return openFiles({
    paths: source.paths,
    intervalMs: source.intervalMs,
    environment: environmentOfFiles(source),
    clock,
    listener,
  });
}

/** Files carry no versions that must be trusted: every change of text raises them. */
const FILE_VERSIONS = 'effective';

function listenerFor(front: FlagsFront, log: Log, onRead: () => void): SourceListener {
  return {
    async upsert(environment, data) {
      const info = infoOf(environment);
      const beganMs = performance.now();
      if (data === undefined) front.upsert(info);
      else await front.load(info, data, FILE_VERSIONS);
      const { data: held } = front.upsert(info);
      const { count, digest, clock } = held.snapshot();
      log.info(
        { environment: info.name, items: count, digest, clock, ms: Math.round(performance.now() - beganMs) },
        'environment loaded',
      );
    },
    async remove(envId) {
      front.remove(envId);
      log.info({ environment: envId }, 'environment removed');
    },
    failed: (error) => log.error({ code: error.code }, `${error.message}; what was loaded before stays served`),
    loaded: onRead,
    unchanged: (path) => log.info({ path }, 'file changed, but its data id and version did not: nothing to do'),
  };
}

function infoOf(environment: SourceEnvironment): EnvironmentInfo {
  const { envId, sdkKey, expiringSdkKey, version: _version, secureMode: _secureMode, ...rest } = environment;
  // an environment may have no server key: then no server SDK may ask for it, whatever it sends
  const current = sdkKey === '' ? [] : [{ value: sdkKey }];
  const expiring =
    expiringSdkKey === undefined ? [] : [{ value: expiringSdkKey.value, expiresMs: expiringSdkKey.timestampMs }];
  return { ...rest, id: envId, name: envId, envId, sdkKeys: [...current, ...expiring] };
}

function environmentOfFiles(source: FileSource): SourceEnvironment {
  const { name, sdkKey, mobileKey, envId, projectKey, ttlMs, secureMode } = source;
  return {
    envId: envId ?? name,
    sdkKey: sdkKey ?? '',
    envName: name,
    ...(mobileKey === undefined ? {} : { mobileKey }),
    ...(projectKey === undefined ? {} : { projKey: projectKey }),
    ttlMs,
    secureMode,
    version: 1,
  };
}
