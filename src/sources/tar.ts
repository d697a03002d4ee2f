import type { FileHandle } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { extract, type Extract } from 'tar-stream';
import { HeadgateError, messageOf } from '../kernel/index.ts';

/** Bounds of an archive. */
export interface ArchiveLimits {
  /** Bytes of one file; the vendor's relay has the same bound against decompression bombs. */
  readonly fileBytesMax: number;
  /** Bytes of the whole archive, inflated: every file that matters is read three times at worst. */
  readonly totalBytesMax: number;
  /** How many entries: two for each environment and one checksum, so 4,096 are 2,000 environments. */
  readonly entriesMax: number;
  /** Bytes that are held in memory at once to hash an archive whose entries are not in order. */
  readonly gatherBytesMax: number;
}

/** The bounds when none are given. */
export const ARCHIVE_LIMITS: ArchiveLimits = {
  fileBytesMax: 200 * 1024 * 1024,
  totalBytesMax: 1024 * 1024 * 1024,
  entriesMax: 4096,
  gatherBytesMax: 32 * 1024 * 1024,
};

type Entry = Extract extends AsyncIterable<infer E> ? E : never;

/** One file of an archive. The body must be read to its end before the visitor returns. */
export interface TarFile {
  readonly name: string;
  readonly bytes: number;
  readonly body: AsyncIterable<Buffer>;
}

const PIECE_BYTES = 64 * 1024;
const GOES_ON = 'it goes on after its end';

/**
 * Visits the top-level files of a .tar or .tar.gz, in order.
 *
 * Directories and files in them are passed over; links, devices and names that lead out of the archive are errors. The
 * bounds hold while the archive is inflated, not after.
 */
export async function readTar(
  file: { readonly handle: FileHandle; readonly path: string },
  limits: ArchiveLimits,
  visit: (file: TarFile) => Promise<void>,
): Promise<void> {
  const fail = (cause: string, thrown?: unknown): HeadgateError =>
    new HeadgateError('HG_ARCHIVE', `Cannot read ${file.path}: ${cause}`, { cause: thrown });
  const magic = await file.handle.read(Buffer.alloc(2), 0, 2, 0);
  if (magic.bytesRead < 2) throw fail('expected a tar archive, got an empty file');
  const zipped = magic.buffer.readUInt16BE(0) === 0x1f8b;

  const entries = extract();
  const flow = flowInto(entries, file.handle, zipped, (pieces) => bounded(pieces, limits, fail));
  // The loop below throws first when the flow fails; what the flow says is asked for there.
  const flowError = flow.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  try {
    let count = 0;
    for await (const entry of entries) {
      count += 1;
      if (count > limits.entriesMax) throw fail(`an archive may have ${limits.entriesMax} entries, got more`);
      const found = admitted(entry, limits, fail);
      if (found === undefined) entry.resume();
      else await visit(found);
    }
  } catch (thrown) {
    entries.destroy();
    const cause = await flowError;
    // The visitor failed, and the flow only because it was cut off; otherwise the flow failed, and whoever read from it.
    if (isCutOff(cause) && !isCutOff(thrown)) throw thrown;
    if (cause instanceof HeadgateError) throw cause;
    throw fail(isCutOff(cause) ? GOES_ON : `it is damaged or incomplete (${messageOf(cause)})`, cause);
  }
  if ((await flowError) !== undefined) throw fail(GOES_ON);
}

function isCutOff(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return error === undefined || code === 'ERR_STREAM_PREMATURE_CLOSE' || code === 'ABORT_ERR';
}

function flowInto(
  entries: ReturnType<typeof extract>,
  handle: FileHandle,
  zipped: boolean,
  bound: (pieces: AsyncIterable<Buffer>) => AsyncGenerator<Buffer>,
): Promise<void> {
  const raw = handle.createReadStream({ start: 0, autoClose: false, highWaterMark: PIECE_BYTES });
  return pipeline(zipped ? inflated(raw) : raw, bound, entries);
}

/**
 * What a gzip file holds. Zeros that pad it are passed over.
 *
 * The inflater stands outside the pipeline: Node 20's leaves padding unread, so its writable side never finishes, which a
 * pipeline takes for an abort, or does not, as its timing has it.
 */
async function* inflated(raw: Readable): AsyncGenerator<Buffer> {
  const inflater = createGunzip({ chunkSize: PIECE_BYTES });
  raw.on('error', (error) => inflater.destroy(error));
  raw.pipe(inflater);
  try {
    yield* inflater;
  } finally {
    raw.unpipe(inflater);
    inflater.destroy();
  }
}

async function* bounded(
  pieces: AsyncIterable<Buffer>,
  limits: ArchiveLimits,
  fail: (cause: string) => HeadgateError,
): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const piece of pieces) {
    bytes += piece.length;
    if (bytes > limits.totalBytesMax)
      throw fail(`an archive may have ${limits.totalBytesMax} bytes, inflated, got more`);
    yield piece;
  }
}

function admitted(entry: Entry, limits: ArchiveLimits, fail: (cause: string) => HeadgateError): TarFile | undefined {
  const { header } = entry;
  const shown = JSON.stringify(header.name);
  const type = header.type ?? 'unknown';
  const segments = header.name.split(/[/\\]/);
  if (segments.includes('..') || segments[0] === '' || /^[A-Za-z]:$/.test(segments[0] ?? '')) {
    throw fail(`names must stay inside the archive, got ${shown}`);
  }
  if (type === 'directory') return undefined;
  if (type !== 'file' && type !== 'contiguous-file') throw fail(`entries must be files, got ${shown}, a ${type}`);
  const bytes = header.size ?? 0;
  if (bytes > limits.fileBytesMax)
    throw fail(`a file may have ${limits.fileBytesMax} bytes, got ${shown} with ${bytes}`);
  const path = segments.filter((segment) => segment !== '.');
  return path.length === 1
    ? { name: path[0] as string, bytes, body: entry as unknown as AsyncIterable<Buffer> }
    : undefined;
}
