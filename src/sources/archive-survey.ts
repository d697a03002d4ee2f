import { createHash, type Hash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { HeadgateError, Slices } from '../kernel/index.ts';
import { type ArchiveMetadata, parseMetadata } from './archive-metadata.ts';
import { ItemScanner, type Section } from './item-scanner.ts';
import { Occurrences } from './occurrences.ts';
import { type ArchiveLimits, readTar, type TarFile } from './tar.ts';

/** An opened archive. */
export interface ArchiveFile {
  readonly handle: FileHandle;
  readonly path: string;
}

/** One environment of an archive that was found whole. */
export interface SurveyedEnvironment extends ArchiveMetadata {
  readonly dataFile: string;
  readonly occurrences: Occurrences;
}

/** What an archive holds, once every byte of it has been checked. */
export interface Survey {
  readonly checksum: string;
  readonly environments: readonly SurveyedEnvironment[];
}

const CHECKSUM_FILE = 'checksum.md5';
const CHECKSUM_BYTES = 16;
const DATA_SUFFIX = '-data.json';
/** A description of an environment has less than 1 KiB. */
const METADATA_BYTES_MAX = 256 * 1024;

const SECTIONS: ReadonlyMap<string, Section> = new Map([
  ['flags', { kind: 'flags' }],
  ['segments', { kind: 'segments' }],
]);

/** A scanner for the data file `name` of the archive at `path`. */
export function dataScanner(path: string, name: string, texts: boolean): ItemScanner {
  return new ItemScanner({ origin: { file: `${path}: ${name}`, code: 'HG_ARCHIVE' }, sections: SECTIONS, texts });
}

/**
 * Reads a whole archive and keeps nothing of it but descriptions: sizes, layout, every JSON file and the checksum are
 * checked. Throws at what is wrong first.
 */
export async function surveyArchive(file: ArchiveFile, limits: ArchiveLimits): Promise<Survey> {
  const survey = new Surveyor(file, limits);
  await readTar(file, limits, (entry) => survey.visit(entry));
  return survey.conclude();
}

class Surveyor {
  readonly #file: ArchiveFile;
  readonly #limits: ArchiveLimits;
  readonly #slices = new Slices();
  readonly #md5: Hash = createHash('md5');
  /** Bytes of each JSON file, in the archive's order, which is that of the hash. */
  readonly #sizes = new Map<string, number>();
  readonly #metadata = new Map<string, ArchiveMetadata>();
  readonly #occurrences = new Map<string, Occurrences>();
  #checksum: Buffer | undefined;

  constructor(file: ArchiveFile, limits: ArchiveLimits) {
    this.#file = file;
    this.#limits = limits;
  }

  async visit(entry: TarFile): Promise<void> {
    const { name } = entry;
    if (name === CHECKSUM_FILE) {
      this.#checksum = await this.#whole(entry, CHECKSUM_BYTES);
      return;
    }
    if (!name.endsWith('.json')) return drain(entry);
    if (this.#sizes.has(name)) throw this.#error(`${name} must stand once, got it again`);
    this.#sizes.set(name, entry.bytes);
    if (name.endsWith(DATA_SUFFIX)) return this.#data(entry);
    const bytes = await this.#whole(entry, METADATA_BYTES_MAX);
    this.#md5.update(bytes);
    const metadata = parseMetadata(`${this.#file.path}: ${name}`, name.slice(0, -'.json'.length), bytes);
    this.#metadata.set(name, metadata);
  }

  async conclude(): Promise<Survey> {
    const files = this.#environmentFiles();
    if (this.#checksum === undefined) throw this.#error(`it has no ${CHECKSUM_FILE}`);
    if (this.#checksum.length !== CHECKSUM_BYTES) {
      throw this.#error(`${CHECKSUM_FILE} must have ${CHECKSUM_BYTES} bytes, got ${this.#checksum.length}`);
    }
    const wanted = this.#checksum.toString('hex');
    const inOrder = files.join('\n') === [...this.#sizes.keys()].join('\n');
    const actual = inOrder ? this.#md5.digest('hex') : await this.#hashInOrder(files);
    if (actual !== wanted)
      throw this.#error(`the MD5 of its files must be ${wanted} as ${CHECKSUM_FILE} says, got ${actual}`);
    const environments = [...this.#metadata].map(([name, metadata]) => {
      const dataFile = dataFileOf(name);
      return { ...metadata, dataFile, occurrences: this.#occurrences.get(dataFile) ?? new Occurrences() };
    });
    return { checksum: wanted, environments };
  }

  /** The files that the checksum covers, in its order; checks that each environment has both and an ID of its own. */
  #environmentFiles(): string[] {
    const files: string[] = [];
    const ids = new Map<string, string>();
    for (const [name, { environment }] of this.#metadata) {
      const other = ids.get(environment.envId);
      if (other !== undefined) throw this.#error(`${other} and ${name} have the same envID ${environment.envId}`);
      ids.set(environment.envId, name);
      if (!this.#sizes.has(dataFileOf(name)))
        throw this.#error(`${name} must have ${dataFileOf(name)} beside it, got none`);
      files.push(name, dataFileOf(name));
    }
    return files.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  }

  async #data(entry: TarFile): Promise<void> {
    const scanner = dataScanner(this.#file.path, entry.name, false);
    const occurrences = new Occurrences();
    for await (const piece of entry.body) {
      this.#md5.update(piece);
      scanner.push(piece);
      for (const item of scanner.take()) occurrences.note(item.kind, item.key);
      if (this.#slices.due()) await this.#slices.pause();
    }
    scanner.finish();
    occurrences.seal();
    this.#occurrences.set(entry.name, occurrences);
  }

  /**
   * The MD5 of files that do not stand in the archive in order: the archive is read again, each time for as many files as
   * fit in memory, or for one alone that does not.
   */
  async #hashInOrder(files: readonly string[]): Promise<string> {
    const md5 = createHash('md5');
    for (let next = 0; next < files.length; ) {
      const batch = this.#batch(files, next);
      next += batch.length;
      const gathered = new Map<string, Buffer>();
      await readTar(this.#file, this.#limits, async (entry) => {
        if (!batch.includes(entry.name)) return drain(entry);
        if (batch.length > 1) gathered.set(entry.name, await this.#whole(entry, this.#limits.gatherBytesMax));
        else for await (const piece of entry.body) md5.update(piece);
      });
      for (const name of batch) md5.update(gathered.get(name) ?? '');
    }
    return md5.digest('hex');
  }

  #batch(files: readonly string[], from: number): string[] {
    const batch: string[] = [];
    let bytes = 0;
    for (const name of files.slice(from)) {
      bytes += this.#sizes.get(name) ?? 0;
      if (batch.length > 0 && bytes > this.#limits.gatherBytesMax) break;
      batch.push(name);
    }
    return batch;
  }

  async #whole(entry: TarFile, bytesMax: number): Promise<Buffer> {
    if (entry.bytes > bytesMax) throw this.#error(`${entry.name} may have ${bytesMax} bytes, got ${entry.bytes}`);
    const pieces: Buffer[] = [];
    for await (const piece of entry.body) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  #error(cause: string): HeadgateError {
    return new HeadgateError('HG_ARCHIVE', `Cannot read ${this.#file.path}: ${cause}`);
  }
}

function dataFileOf(metadataFile: string): string {
  return `${metadataFile.slice(0, -'.json'.length)}${DATA_SUFFIX}`;
}

/** Reads a body to its end. */
export async function drain(entry: TarFile): Promise<void> {
  for await (const _ of entry.body);
}
