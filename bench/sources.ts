/**
 * How long a source takes to load a large archive and how long it keeps the event loop from anything else.
 *
 *   npx tsc -p bench/tsconfig.json && node --expose-gc .bench/bench/sources.js [megabytes] [repeats]
 *
 * An archive of that size (as JSON) is made in a temporary folder, as .tar and as .tar.gz. Three loads of each are measured:
 * the first one into an empty data set, one after a change of a single flag, and one whose items nobody keeps.
 *
 * The longest block is the largest gap between two turns of a chain of immediates, garbage collection included, less the
 * time in which this thread was ready and had no core (Linux tells): other programs on the machine are not ours.
 */
import { createHash } from 'node:crypto';
import { createWriteStream, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { pack } from 'tar-stream';
import { DataSet } from '../src/dataset/index.ts';
import { openArchive } from '../src/sources/index.ts';

const megabytes = Number(process.argv[2] ?? 100);
const repeats = Number(process.argv[3] ?? 5);

interface Sample {
  readonly ms: number;
  readonly blockMs: number;
  /** The most that the main thread worked between two turns: what the block is when no one else wants the cores. */
  readonly cpuMs: number;
  readonly rssMb: number;
}

function flag(index: number, version: number): string {
  const clause = '{"contextKind":"user","attribute":"country","op":"in","negate":false,"values":["us","ca"]}';
  return `"flag-${index}":{"key":"flag-${index}","version":${version},"on":true,"prerequisites":[],"targets":[],"contextTargets":[],"rules":[{"id":"${(index * 2654435761) % 2 ** 32}-r0","variation":1,"trackEvents":false,"clauses":[${clause}]}],"fallthrough":{"variation":0},"offVariation":1,"variations":[true,false],"clientSideAvailability":{"usingMobileKey":true,"usingEnvironmentId":false},"clientSide":false,"salt":"${(index * 40503) % 2 ** 32}","trackEvents":false,"deleted":false}`;
}

/** The data file, in pieces: nothing of it stays in the memory that is measured. */
function* dataFile(changed: boolean): Generator<Buffer> {
  let piece = '{"flags":{';
  let bytes = 0;
  for (let index = 0; bytes < megabytes * 1e6; index += 1) {
    piece += `${index === 0 ? '' : ','}${flag(index, changed && index === 0 ? 2 : 1)}`;
    if (piece.length < 65_536) continue;
    bytes += piece.length;
    yield Buffer.from(piece);
    piece = '';
  }
  yield Buffer.from(`${piece}},"segments":{}}`);
}

async function writeArchive(path: string, zipped: boolean, changed: boolean): Promise<void> {
  const env = { envID: 'bench', sdkKey: { value: 'sdk-bench' }, version: 1 };
  const metadata = Buffer.from(JSON.stringify({ dataId: changed ? 'd2' : 'd1', env }));
  const md5 = createHash('md5');
  let size = 0;
  for (const piece of dataFile(changed)) {
    md5.update(piece);
    size += piece.length;
  }
  const archive = pack();
  const pieces = archive as unknown as AsyncIterable<Buffer>;
  const written = zipped
    ? pipeline(pieces, createGzip(), createWriteStream(path))
    : pipeline(pieces, createWriteStream(path));
  await pipeline(
    Readable.from(dataFile(changed)),
    archive.entry({ name: 'bench-data.json', size }) as unknown as Writable,
  );
  archive.entry({ name: 'bench.json' }, metadata);
  archive.entry({ name: 'checksum.md5' }, md5.update(metadata).digest());
  archive.finalize();
  await written;
}

/** Milliseconds that the main thread ran on a core, and that it waited for one, so far. */
function scheduled(): readonly [runMs: number, queuedMs: number] {
  try {
    const [run, queued] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ');
    return [Number(run) / 1e6, Number(queued) / 1e6];
  } catch {
    return [performance.now(), 0];
  }
}

async function measure(job: () => Promise<void>): Promise<Sample> {
  let blockMs = 0;
  let cpuMs = 0;
  let rssMb = 0;
  let watching = true;
  let last = performance.now();
  let [lastRun, lastQueued] = scheduled();
  const turn = (): void => {
    const gapMs = performance.now() - last;
    const [run, queued] = scheduled();
    blockMs = Math.max(blockMs, gapMs - (queued - lastQueued));
    cpuMs = Math.max(cpuMs, run - lastRun);
    if (gapMs > 2) rssMb = Math.max(rssMb, process.memoryUsage.rss() / 1e6);
    [lastRun, lastQueued] = scheduled();
    last = performance.now();
    if (watching) setImmediate(turn);
  };
  setImmediate(turn);
  const begin = performance.now();
  await job();
  const ms = performance.now() - begin;
  await new Promise((resolve) => setImmediate(resolve));
  watching = false;
  return { ms, blockMs, cpuMs, rssMb };
}

function report(name: string, samples: readonly Sample[]): void {
  const spread = (of: (sample: Sample) => number, digits: number): string => {
    const sorted = samples.map(of).sort((a, b) => a - b);
    const [median, least, most] = [sorted[sorted.length >> 1], sorted[0], sorted.at(-1)].map((value) =>
      value?.toFixed(digits),
    );
    return `${median} (${least}-${most})`;
  };
  const block = `longest block ${spread((s) => s.blockMs, 1)}, on a core ${spread((s) => s.cpuMs, 1)}`;
  console.log(`${name.padEnd(28)} ${spread((s) => s.ms, 0)} ms; ${block} ms; peak RSS ${spread((s) => s.rssMb, 0)} MB`);
}

async function load(path: string, data: DataSet | undefined): Promise<Sample> {
  globalThis.gc?.();
  const source = openArchive({
    path,
    listener: {
      async upsert(_, items) {
        if (items === undefined) return;
        if (data !== undefined) await data.replace(items, 'effective');
        else for await (const _item of items);
      },
      async remove() {},
      failed(error) {
        throw error;
      },
    },
  });
  const sample = await measure(() => source.start());
  await source.stop();
  return sample;
}

async function run(folder: string): Promise<void> {
  console.log(
    `Node ${process.version}, ${cpus().length} x ${cpus()[0]?.model}, ${repeats} repeats: median (least-most)`,
  );
  for (const kind of ['tar', 'tar.gz']) {
    const paths = [join(folder, `1.${kind}`), join(folder, `2.${kind}`)] as const;
    await writeArchive(paths[0], kind === 'tar.gz', false);
    await writeArchive(paths[1], kind === 'tar.gz', true);
    console.log(`\n.${kind}: ${(statSync(paths[0]).size / 1e6).toFixed(1)} MB on disk`);
    const samples: [Sample, Sample, Sample][] = [];
    for (let i = 0; i < repeats; i += 1) {
      const dropped = await load(paths[0], undefined);
      const data = new DataSet({ name: 'bench', kinds: ['flags', 'segments'] });
      samples.push([dropped, await load(paths[0], data), await load(paths[1], data)]);
    }
    report(
      'read, nobody keeps the items',
      samples.map((each) => each[0]),
    );
    report(
      'read into an empty data set',
      samples.map((each) => each[1]),
    );
    report(
      'read again, one flag changed',
      samples.map((each) => each[2]),
    );
  }
}

const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
try {
  await run(folder);
} finally {
  rmSync(folder, { recursive: true });
}
