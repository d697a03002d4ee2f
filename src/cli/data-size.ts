import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { extract } from 'tar-stream';
import { type Config, DECISION_COPY_BYTES, type DataSize } from '../config/index.ts';

/** What the configured files hold, as far as they tell without being loaded. */
export interface FilesSize extends DataSize {
  /** Files that were looked at. */
  readonly files: number;
  /** What could not be read, in words. */
  readonly problems: readonly string[];
}

const DATA_SUFFIX = '-data.json';

async function firstBytes(path: string, count: number): Promise<Buffer> {
  const handle = await open(path);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(count), 0, count, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

function isGzip(head: Buffer): boolean {
  return head[0] === 0x1f && head[1] === 0x8b;
}

/** Bytes of each environment's data, as the archive's own headers say. */
async function archiveSizes(path: string): Promise<number[]> {
  const sizes: number[] = [];
  const tar = extract();
  tar.on('entry', ({ name, size }, content, next) => {
    if (name.endsWith(DATA_SUFFIX)) sizes.push(size);
    content.on('end', next);
    content.resume();
  });
  // first: of a stream that nobody reads yet, a file that is not there ends the process
  const isZipped = isGzip(await firstBytes(path, 2));
  const file = createReadStream(path);
  if (isZipped) await pipeline(file, createGunzip(), tar);
  else await pipeline(file, tar);
  return sizes;
}

/** Decisions of a file: those of JSON from its size, of lists and CSV from their lines. */
async function decisionsOf(path: string): Promise<number> {
  const head = (await firstBytes(path, 256)).toString('utf8').trimStart();
  if (/^[[{]/.test(head)) return Math.ceil((await stat(path)).size / DECISION_COPY_BYTES);
  let lines = 0;
  const count = new Writable({
    write(piece: Buffer, _encoding, done) {
      for (let at = piece.indexOf(10); at !== -1; at = piece.indexOf(10, at + 1)) lines++;
      done();
    },
  });
  await pipeline(createReadStream(path), count);
  return lines;
}

class Sum {
  environments: number[] = [];
  decisions = 0;
  files = 0;
  readonly problems: string[] = [];

  /** A file that cannot be read is told, and counts for nothing. */
  async read(path: string, run: () => Promise<void>): Promise<void> {
    try {
      await run();
      this.files++;
    } catch (error) {
      this.problems.push(`${path}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}

/** Looks at the files that a configuration names. Those that cannot be read are told, and count for nothing. */
export async function sizeOfFiles({ flags, decisions }: Config): Promise<FilesSize> {
  const sum = new Sum();
  for (const source of flags.sources) {
    if (source.type === 'archive') {
      await sum.read(source.path, async () => void sum.environments.push(...(await archiveSizes(source.path))));
      continue;
    }
    let bytes = 0;
    for (const path of source.paths) await sum.read(path, async () => void (bytes += (await stat(path)).size));
    sum.environments.push(bytes);
  }
  for (const source of decisions.sources) {
    if (source.type !== 'file') continue;
    for (const path of source.paths) {
      await sum.read(path, async () => void (sum.decisions += await decisionsOf(path)));
    }
  }
  const copies = [...sum.environments, sum.decisions * DECISION_COPY_BYTES];
  return {
    environments: sum.environments.length,
    decisions: sum.decisions,
    bytes: copies.reduce((total, bytes) => total + bytes, 0),
    largestBytes: Math.max(0, ...copies),
    files: sum.files,
    problems: sum.problems,
  };
}
