import { basename } from 'node:path';
import type { FileSource, FlagSource } from '../config/index.ts';
import type { Clock } from '../kernel/index.ts';
import type { EnvironmentInfo, FlagsFront } from '../protocols/launchdarkly/index.ts';
import { openArchive, openFiles, type Source, type SourceEnvironment, type SourceListener } from '../sources/index.ts';
import type { FlagKeeping, KeptUnder } from './flags-keep.ts';
import type { Shared } from './service.ts';

interface Parts {
  readonly shared: Shared;
  readonly front: FlagsFront;
  readonly keeping: FlagKeeping;
  /** Told whenever a file has been read, once all of them have. */
  readonly onRead: () => void;
}

/** Environments whose data come from files: archives of the vendor's service, and data files of its SDKs. */
export class FileEnvironments {
  readonly #sources: readonly Source[];
  /** Sources that have not been read yet. */
  readonly #unread: Set<FlagSource>;
  /** Sources that could not be read when they were last looked at. */
  readonly #failing = new Set<FlagSource>();
  readonly #configured: readonly FlagSource[];

  constructor(parts: Parts) {
    const { shared, front, keeping } = parts;
    const { sources } = shared.config.flags;
    this.#configured = sources;
    this.#unread = new Set(sources);
    this.#sources = sources.map((source) => {
      // its keys are known before its file is read: clients wait for the data, and are not told that they are unknown
      if (source.type === 'file') {
        const info = infoOfFiles(environmentOfFiles(source), source);
        keeping.open(info, underOf(source, info.id));
        front.upsert(info);
      }
      const onRead = (): void => {
        this.#failing.delete(source);
        this.#unread.delete(source);
        if (this.#unread.size === 0) parts.onRead();
      };
      const onFailed = (): void => void this.#failing.add(source);
      return openSource(source, shared.clock, listenerFor(parts, source, { onRead, onFailed }));
    });
  }

  /** Each source, and whether it could be read when it was last looked at. */
  figures(): { readonly name: string; readonly up: boolean }[] {
    return this.#configured.map((source) => ({
      name: source.type === 'file' ? source.name : basename(source.path),
      up: !this.#failing.has(source),
    }));
  }

  /** Reads the files. Resolves when each was tried once: whether all of them could be read. */
  async start(): Promise<boolean> {
    await Promise.all(this.#sources.map((source) => source.start()));
    return this.#unread.size === 0;
  }

  reload(): void {
    for (const source of this.#sources) void source.reload();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#sources.map((source) => source.stop()));
  }
}

function openSource(source: FlagSource, clock: Clock, listener: SourceListener): Source {
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

function listenerFor(
  { shared, front, keeping }: Parts,
  source: FlagSource,
  { onRead, onFailed }: { readonly onRead: () => void; readonly onFailed: () => void },
): SourceListener {
  const { log } = shared;
  return {
    async upsert(described, data) {
      const info = infoOfFiles(described, source);
      const beganMs = performance.now();
      keeping.open(info, underOf(source, info.id));
      const environment = front.upsert(info);
      // versions go on from where an earlier life was
      await keeping.restore(environment);
      if (data !== undefined) {
        await environment.load(data, FILE_VERSIONS);
        keeping.committed(info.id, undefined);
      }
      const { count, digest, clock } = environment.data.snapshot();
      const ms = Math.round(performance.now() - beganMs);
      log.info({ environment: info.name, items: count, digest, clock, ms }, 'environment loaded');
    },
    async remove(envId) {
      front.remove(envId);
      await keeping.remove(envId);
      log.info({ environment: envId }, 'environment removed');
    },
    failed(error) {
      onFailed();
      log.error({ code: error.code }, `${error.message}; what was loaded before stays served`);
    },
    loaded: onRead,
    unchanged: (path) => log.info({ path }, 'file changed, but its data id and version did not: nothing to do'),
  };
}

function underOf(source: FlagSource, id: string): KeptUnder {
  return {
    prefix: source.prefix?.replaceAll(ID_PLACEHOLDER, id),
    tableName: source.tableName?.replaceAll(ID_PLACEHOLDER, id),
  };
}

/** What the vendor's settings have where an environment's ID goes. */
export const ID_PLACEHOLDER = '$CID';

/** What an environment is to its clients, as a source describes it. */
export function infoOf(
  described: SourceEnvironment,
  { allowedOrigins, allowedHeaders }: Pick<FlagSource, 'allowedOrigins' | 'allowedHeaders'>,
): EnvironmentInfo {
  const { envId, sdkKey, expiringSdkKey, version: _version, ...rest } = described;
  // an environment may have no server key: then no server SDK may ask for it, whatever it sends
  const current = sdkKey === '' ? [] : [{ value: sdkKey }];
  const expiring =
    expiringSdkKey === undefined ? [] : [{ value: expiringSdkKey.value, expiresMs: expiringSdkKey.timestampMs }];
  return { ...rest, id: envId, name: envId, envId, sdkKeys: [...current, ...expiring], allowedOrigins, allowedHeaders };
}

/** Where files name no client-side ID, their environment is called by its name, which browsers cannot use. */
function infoOfFiles(described: SourceEnvironment, source: FlagSource): EnvironmentInfo {
  const info = infoOf(described, source);
  if (source.type === 'archive' || source.envId !== undefined) return info;
  const { envId: _envId, ...rest } = info;
  return rest;
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
