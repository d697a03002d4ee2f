import { type FileHandle, open } from 'node:fs/promises';
import type { Item } from '../dataset/index.ts';
import { type Clock, HeadgateError, messageOf, Slices, systemClock } from '../kernel/index.ts';
import {
  type ArchiveFile,
  dataScanner,
  drain,
  type Survey,
  type SurveyedEnvironment,
  surveyArchive,
} from './archive-survey.ts';
import { checkIntervalMs, checkPath } from './options.ts';
import type { Source, SourceListener } from './source.ts';
import { ARCHIVE_LIMITS, type ArchiveLimits, readTar, type TarFile } from './tar.ts';
import { looksOf, Watch } from './watch.ts';

/** Settings of {@link openArchive}. */
export interface ArchiveOptions {
  readonly path: string;
  readonly listener: SourceListener;
  /** How often the file is looked at, in milliseconds, 100 at least; 1,000 when not given. */
  readonly intervalMs?: number;
  readonly clock?: Clock;
  readonly limits?: Partial<ArchiveLimits>;
}

/** What was last told of an environment. */
interface Told {
  readonly dataId: string;
  readonly version: number;
  readonly checksum: string;
}

/**
 * A source that follows the vendor relay's offline archive (.tar or .tar.gz): any number of environments in one file.
 *
 * The archive is read twice: once to check all of it, down to the last item and the checksum, then again, from the same
 * open file, to hand over the environments that changed. So nothing of it needs to be held, and nothing is told of an
 * archive that is not whole. As the vendor has it, an environment changed when its `dataId` (data) or `version`
 * (description) did; one without a `dataId` changed with the archive.
 *
 * Throws HG_OPTION on settings that cannot be used. Failures to read are told to the listener as HG_ARCHIVE or HG_SOURCE.
 *
 * @example
 * ```ts no-run
 * const source = openArchive({
 *   path: 'flags.tar.gz',
 *   listener: {
 *     async upsert(environment, data) {
 *       for await (const item of data ?? []) console.log(environment.envId, item.key, item.version);
 *     },
 *     async remove(envId) { console.log('gone', envId); },
 *     failed(error) { console.log(error.message); },
 *   },
 * });
 * await source.start();
 * ```
 */
export function openArchive(options: ArchiveOptions): Source {
  return new ArchiveSource(options);
}

class ArchiveSource implements Source {
  readonly #path: string;
  readonly #listener: SourceListener;
  readonly #limits: ArchiveLimits;
  readonly #watch: Watch;
  readonly #told = new Map<string, Told>();
  #checksum: string | undefined;

  constructor(options: ArchiveOptions) {
    this.#path = checkPath(options.path);
    this.#listener = options.listener;
    this.#limits = { ...ARCHIVE_LIMITS, ...options.limits };
    this.#watch = new Watch({
      paths: [this.#path],
      intervalMs: checkIntervalMs(options.intervalMs),
      clock: options.clock ?? systemClock,
      // the checksum tells a part from the whole
      settle: false,
      load: (forced) => this.#load(forced),
      loaded: () => this.#listener.loaded?.(),
      failed: (error) => this.#listener.failed(error),
    });
  }

  start(): Promise<void> {
    return this.#watch.start();
  }

  stop(): Promise<void> {
    return this.#watch.stop();
  }

  reload(): Promise<void> {
    return this.#watch.reload();
  }

  async #load(forced: boolean): Promise<void> {
    const handle = await openFile(this.#path, 'HG_ARCHIVE');
    try {
      const file = { handle, path: this.#path };
      const looks = looksOf(await handle.stat({ bigint: true }));
      const survey = await surveyArchive(file, this.#limits);
      await this.#tell(file, looks, survey, forced);
    } finally {
      await handle.close();
    }
  }

  async #tell(file: ArchiveFile, looks: string, survey: Survey, forced: boolean): Promise<void> {
    const present = new Set(survey.environments.map(({ environment }) => environment.envId));
    const gone = [...this.#told.keys()].filter((envId) => !present.has(envId));
    // Removed ones first: a key of theirs may have gone to another environment.
    for (const envId of gone) {
      if (this.#watch.stopped) return;
      await this.#listener.remove(envId);
      this.#told.delete(envId);
    }
    const withData = new Map<string, SurveyedEnvironment>();
    let touched = gone.length;
    for (const found of survey.environments) {
      if (this.#watch.stopped) return;
      const change = forced ? 'data' : this.#changeOf(found, survey.checksum);
      if (change !== 'none') touched += 1;
      if (change === 'data') withData.set(found.dataFile, found);
      if (change === 'description') await this.#upsert(found, survey.checksum, undefined);
    }
    if (withData.size > 0) await this.#tellData(file, looks, survey.checksum, withData);
    if (touched === 0 && this.#checksum !== undefined && this.#checksum !== survey.checksum)
      this.#listener.unchanged?.(this.#path);
    this.#checksum = survey.checksum;
  }

  #changeOf(found: SurveyedEnvironment, checksum: string): 'none' | 'description' | 'data' {
    const told = this.#told.get(found.environment.envId);
    if (told === undefined || told.dataId !== found.dataId) return 'data';
    if (found.dataId === '' && told.checksum !== checksum) return 'data';
    return told.version === found.environment.version ? 'none' : 'description';
  }

  async #tellData(
    file: ArchiveFile,
    looks: string,
    checksum: string,
    wanted: ReadonlyMap<string, SurveyedEnvironment>,
  ): Promise<void> {
    await readTar(file, this.#limits, async (entry) => {
      const found = wanted.get(entry.name);
      if (found === undefined || this.#watch.stopped) return drain(entry);
      await this.#upsert(found, checksum, itemsOf(file, looks, found, entry));
    });
  }

  async #upsert(found: SurveyedEnvironment, checksum: string, data: AsyncIterable<Item> | undefined): Promise<void> {
    const { environment, dataId } = found;
    await this.#listener.upsert(environment, data);
    this.#told.set(environment.envId, { dataId, version: environment.version, checksum });
  }
}

async function* itemsOf(
  file: ArchiveFile,
  looks: string,
  found: SurveyedEnvironment,
  entry: TarFile,
): AsyncGenerator<Item> {
  const slices = new Slices();
  const scanner = dataScanner(file.path, entry.name, true);
  const isLast = found.occurrences.lastOnes();
  for await (const piece of entry.body) {
    scanner.push(piece);
    for (const { kind, key, version, text, deleted } of scanner.take()) {
      if (isLast(kind, key) && !deleted) yield { kind, key, version, text };
      if (slices.due()) await slices.pause();
    }
  }
  scanner.finish();
  // What was checked must be what was read: a file overwritten in place between the two readings shows here.
  if (looksOf(await file.handle.stat({ bigint: true })) !== looks) {
    throw new HeadgateError('HG_ARCHIVE', `Cannot read ${file.path}: it was changed while it was read`);
  }
}

/** Opens a file for reading; a failure names the file. */
export async function openFile(path: string, code: 'HG_ARCHIVE' | 'HG_SOURCE'): Promise<FileHandle> {
  try {
    return await open(path, 'r');
  } catch (thrown) {
    throw new HeadgateError(code, `Cannot read ${path}: ${messageOf(thrown)}`, { cause: thrown });
  }
}
