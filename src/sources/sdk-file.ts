import type { FileHandle } from 'node:fs/promises';
import type { Item } from '../dataset/index.ts';
import { type Clock, HeadgateError, Slices, systemClock } from '../kernel/index.ts';
import { openFile } from './archive.ts';
import { ItemScanner, type ScannedItem, type Section } from './item-scanner.ts';
import { Occurrences } from './occurrences.ts';
import { checkIntervalMs, checkPath } from './options.ts';
import type { Source, SourceEnvironment, SourceListener } from './source.ts';
import { looksOf, Watch } from './watch.ts';
import { YAML_BYTES_MAX, yamlToJson } from './yaml.ts';

/** Settings of {@link openFiles}. */
export interface FilesOptions {
  /** One file or more; a key may stand in one of them only. */
  readonly paths: readonly string[];
  /** The environment that the files are the data of: they say nothing of it themselves. */
  readonly environment: Pick<SourceEnvironment, 'envId' | 'sdkKey'> & Partial<SourceEnvironment>;
  readonly listener: SourceListener;
  /** How often the files are looked at, in milliseconds, 100 at least; 1,000 when not given. */
  readonly intervalMs?: number;
  readonly clock?: Clock;
}

/** One file that is being read, twice. */
interface OpenFile {
  readonly path: string;
  readonly handle: FileHandle;
  readonly looks: string;
  /** The file as JSON when it is YAML. */
  readonly json?: Buffer;
}

const SECTIONS: ReadonlyMap<string, Section> = new Map<string, Section>([
  ['flags', { kind: 'flags' }],
  ['flagValues', { kind: 'flags', wrap: flagWithValue }],
  ['segments', { kind: 'segments' }],
]);
const PIECE_BYTES = 64 * 1024;
/** The same as for a file in an archive. */
const FILE_BYTES_MAX = 200 * 1024 * 1024;
const YAML_NAME = /\.ya?ml$/i;

/**
 * A source that follows files in the vendor SDKs' own data file format, JSON or YAML:
 * `{"flags": {key: flag}, "flagValues": {key: value}, "segments": {key: segment}}`.
 *
 * A file is YAML when its name ends in `.yml` or `.yaml`. All files together are one environment. Each content change is
 * told; versions are the files' own, so let the data set raise them.
 *
 * Throws HG_OPTION on settings that cannot be used. Failures to read are told to the listener as HG_SOURCE, with file, line
 * and column.
 *
 * @example
 * import { writeFileSync } from 'node:fs';
 * import { tmpdir } from 'node:os';
 *
 * const path = `${tmpdir()}/headgate-example-flags.json`;
 * writeFileSync(path, '{ "flagValues": { "greeting": "hello" } }');
 * const source = openFiles({
 *   paths: [path],
 *   environment: { envId: 'local', sdkKey: 'sdk-local' },
 *   listener: {
 *     async upsert(environment, data) {
 *       for await (const item of data ?? []) console.log(environment.envId, item.key, item.version); // local greeting 1
 *     },
 *     async remove() {},
 *     failed(error) { throw error; },
 *   },
 * });
 * await source.start();
 * await source.stop();
 */
export function openFiles(options: FilesOptions): Source {
  return new FilesSource(options);
}

class FilesSource implements Source {
  readonly #paths: readonly string[];
  readonly #environment: SourceEnvironment;
  readonly #listener: SourceListener;
  readonly #watch: Watch;

  constructor(options: FilesOptions) {
    if (options.paths.length === 0)
      throw new HeadgateError('HG_OPTION', 'Cannot open a source: paths must name a file, got none');
    this.#paths = options.paths.map(checkPath);
    this.#environment = { ttlMs: 0, secureMode: false, version: 1, ...options.environment };
    this.#listener = options.listener;
    this.#watch = new Watch({
      paths: this.#paths,
      intervalMs: checkIntervalMs(options.intervalMs),
      clock: options.clock ?? systemClock,
      // The first half of a YAML file is a YAML file; that of a JSON file is not a JSON file.
      settle: this.#paths.some((path) => YAML_NAME.test(path)),
      load: () => this.#load(),
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

  async #load(): Promise<void> {
    const files: OpenFile[] = [];
    try {
      for (const path of this.#paths) files.push(await openData(path));
      const occurrences = await check(files);
      if (this.#watch.stopped) return;
      await this.#listener.upsert(this.#environment, itemsOf(files, occurrences));
    } finally {
      for (const { handle } of files) await handle.close();
    }
  }
}

async function openData(path: string): Promise<OpenFile> {
  const handle = await openFile(path, 'HG_SOURCE');
  try {
    const stats = await handle.stat({ bigint: true });
    const isYaml = YAML_NAME.test(path);
    const bytesMax = isYaml ? YAML_BYTES_MAX : FILE_BYTES_MAX;
    if (stats.size > bytesMax)
      throw failure(path, `a ${isYaml ? 'YAML' : 'JSON'} file may have ${bytesMax} bytes, got ${stats.size}`);
    const file = { path, handle, looks: looksOf(stats) };
    if (!isYaml) return file;
    return { ...file, json: await yamlToJson(path, await handle.readFile()) };
  } catch (thrown) {
    await handle.close();
    throw thrown;
  }
}

/** Reads all files for the first time: each must be valid, and a key must stand once. */
async function check(files: readonly OpenFile[]): Promise<Occurrences> {
  const occurrences = new Occurrences();
  const sections = [...SECTIONS.keys()];
  for (const [index, file] of files.entries()) {
    for await (const item of scan(file, false)) {
      const place = index * sections.length + sections.indexOf(item.section);
      const other = occurrences.note(item.kind, item.key, place);
      if (other === undefined) continue;
      const otherFile = files[Math.floor(other / sections.length)]?.path;
      const otherSection = sections[other % sections.length];
      throw failure(
        `${file.path}:${item.place.line}:${item.place.column}`,
        `${item.section}[${JSON.stringify(item.key)}] must stand once, got it in ${otherSection} of ${otherFile} too`,
      );
    }
  }
  occurrences.seal();
  return occurrences;
}

async function* itemsOf(files: readonly OpenFile[], occurrences: Occurrences): AsyncGenerator<Item> {
  const isLast = occurrences.lastOnes();
  for (const file of files) {
    for await (const { kind, key, version, text, deleted } of scan(file, true)) {
      if (isLast(kind, key) && !deleted) yield { kind, key, version, text };
    }
    // What was checked must be what was read: a file overwritten in place between the two readings shows here.
    if (looksOf(await file.handle.stat({ bigint: true })) !== file.looks)
      throw failure(file.path, 'it was changed while it was read');
  }
}

async function* scan(file: OpenFile, texts: boolean): AsyncGenerator<ScannedItem> {
  const scanner = new ItemScanner({ origin: { file: file.path, code: 'HG_SOURCE' }, sections: SECTIONS, texts });
  const slices = new Slices();
  for await (const piece of piecesOf(file)) {
    scanner.push(piece);
    for (const item of scanner.take()) {
      yield item;
      if (slices.due()) await slices.pause();
    }
    if (slices.due()) await slices.pause();
  }
  scanner.finish();
}

async function* piecesOf(file: OpenFile): AsyncGenerator<Buffer> {
  if (file.json === undefined) {
    yield* file.handle.createReadStream({
      start: 0,
      autoClose: false,
      highWaterMark: PIECE_BYTES,
    }) as AsyncIterable<Buffer>;
    return;
  }
  for (let at = 0; at < file.json.length; at += PIECE_BYTES) yield file.json.subarray(at, at + PIECE_BYTES);
}

/** The flag that the vendor's SDKs make of a bare value in a data file: on, with this one variation for everyone. */
function flagWithValue(key: string, value: string): string {
  return `{"key":${JSON.stringify(key)},"on":true,"fallthrough":{"variation":0},"variations":[${value}],"version":1}`;
}

function failure(at: string, cause: string): HeadgateError {
  return new HeadgateError('HG_SOURCE', `Cannot read ${at}: ${cause}`);
}
