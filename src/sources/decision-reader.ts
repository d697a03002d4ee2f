import type { FileHandle } from 'node:fs/promises';
import type { FullRead } from '../dataset/decisions/index.ts';
import { HeadgateError, messageOf, Slices } from '../kernel/index.ts';
import { openFile } from './archive.ts';
import { CsvParser } from './decision-csv.ts';
import { DecisionIds } from './decision-ids.ts';
import { JsonLinesParser, JsonParser } from './decision-json.ts';
import { ListParser } from './decision-list.ts';
import { decisionOf, type FileRow, type RowDefaults, type RowParser, rowError } from './decision-row.ts';
import { looksOf } from './watch.ts';

/** About a thousand lines, which take some two milliseconds. */
const PIECE_BYTES = 16 * 1024;
/** As for a file of flags: three million addresses. */
const FILE_BYTES_MAX = 200 * 1024 * 1024;

/** What is read of files, and into what. */
export interface ReadOptions {
  readonly paths: readonly string[];
  readonly defaults: RowDefaults & { readonly origin: string };
  /** When decisions end that do not say how long they last, Unix time in milliseconds. */
  readonly leaseUntilMs: number;
  readonly nowMs: number;
  /** Hashes that were found to collide. */
  readonly taken: Set<number>;
}

/** What was in the files. */
export interface ReadReport {
  readonly bytes: number;
  /** Decisions that had ended before they were read. */
  readonly over: number;
}

/**
 * Reads all of the files into a full copy.
 *
 * A duration counts from the modification of its file, as if it had been imported then; so reading it again moves no end.
 *
 * @throws HeadgateError HG_SOURCE (the promise is rejected) with file, line and column
 * @throws IdCollision (the promise is rejected) when reading must begin anew
 */
export async function readDecisions(full: FullRead, options: ReadOptions): Promise<ReadReport> {
  const ids = new DecisionIds(options.taken);
  let bytes = 0;
  let over = 0;
  for (const path of options.paths) {
    const handle = await openFile(path, 'HG_SOURCE');
    try {
      const intake = new FileIntake({ full, options, ids, path });
      bytes += await readInto(handle, path, intake);
      over += intake.over;
    } finally {
      await handle.close();
    }
  }
  return { bytes, over };
}

async function readInto(handle: FileHandle, path: string, intake: FileIntake): Promise<number> {
  const stats = await handle.stat({ bigint: true });
  const size = Number(stats.size);
  if (size > FILE_BYTES_MAX) throw fileError(path, `expected a file of up to ${FILE_BYTES_MAX} bytes, got ${size}`);
  // What empties a file by accident (a download that fails, a full disk) must not lift every ban.
  if (size === 0)
    throw fileError(path, 'expected decisions, got an empty file: leave a line with a comment, or [], to list none');
  const parser = parserFor(path, (row) => intake.take(row, Number(stats.mtimeMs)));
  const slices = new Slices();
  const pieces = handle.createReadStream({ start: 0, autoClose: false, highWaterMark: PIECE_BYTES });
  for await (const piece of pieces as AsyncIterable<Buffer>) {
    parser.push(piece);
    if (slices.due()) await slices.pause();
  }
  parser.finish();
  if (looksOf(await handle.stat({ bigint: true })) !== looksOf(stats))
    throw fileError(path, 'it was changed while it was read');
  return size;
}

function fileError(path: string, cause: string): HeadgateError {
  return new HeadgateError('HG_SOURCE', `Cannot read ${path}: ${cause}`);
}

/** The format is told by the name, as `cscli decisions import` does; every other name is a plain list. */
function parserFor(path: string, tell: (row: FileRow) => void): RowParser {
  if (/\.json$/i.test(path)) return new JsonParser(path, tell);
  if (/\.(jsonl|ndjson)$/i.test(path)) return new JsonLinesParser(path, tell);
  if (/\.csv$/i.test(path)) return new CsvParser(path, tell);
  return new ListParser(path, tell);
}

/** Whether a part of a file in this format is a file in this format too. */
export function hasValidParts(path: string): boolean {
  return !/\.json$/i.test(path);
}

/** Takes the rows of one file into the full copy. */
class FileIntake {
  over = 0;
  readonly #full: FullRead;
  readonly #options: ReadOptions;
  readonly #ids: DecisionIds;
  readonly #path: string;

  constructor(o: { full: FullRead; options: ReadOptions; ids: DecisionIds; path: string }) {
    this.#full = o.full;
    this.#options = o.options;
    this.#ids = o.ids;
    this.#path = o.path;
  }

  take(row: FileRow, modifiedMs: number): void {
    const { defaults, leaseUntilMs, nowMs } = this.#options;
    const { durationMs, ...rest } = decisionOf(this.#path, row, defaults);
    // a file from the future, by the clock of the machine that wrote it, is one of now
    const untilMs = durationMs === undefined ? leaseUntilMs : Math.min(modifiedMs, nowMs) + durationMs;
    if (untilMs <= nowMs) {
      this.over++;
      return;
    }
    const identity = { ...rest, origin: defaults.origin };
    const id = this.#ids.take({ ...identity, leased: durationMs === undefined }, untilMs);
    if (id === undefined) return;
    try {
      this.#full.add({ id, uuid: undefined, ...identity, untilMs, simulated: false });
    } catch (thrown) {
      throw rowError(this.#path, row.place, messageOf(thrown));
    }
  }
}
